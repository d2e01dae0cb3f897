"""The graph that autograd recorded, drawn by Graphviz: `make_dot` as in the torchviz package.

    from flambeau.interop.torchviz import make_dot
    make_dot(model(x).mean(), params=dict(model.named_parameters())).render("graph", format="svg")
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from typing import Any

from flambeau.core.objects import TensorBase

_NODE = {"style": "filled", "shape": "box", "align": "left", "fontsize": "10", "ranksep": "0.1", "height": "0.2",
         "fontname": "monospace"}
_INCHES_A_NODE, _LEAST_INCHES = 0.15, 12.0
_LEAF, _RESULT, _VIEW, _SAVED = "lightblue", "darkolivegreen1", "darkolivegreen3", "orange"


class Dot:
    """A drawing in Graphviz's language, for when its Python package is not installed."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.filepath: str | None = None

    def __str__(self) -> str:
        return self.source

    def save(self, filename: Any = None, directory: Any = None) -> str:
        """Write the source into a file, by default Digraph.gv; returns its path."""
        path = os.path.join(os.fspath(directory or ""), os.fspath(filename or "Digraph.gv"))
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.source)
        self.filepath = path
        return path

    def render(self, filename: Any = None, directory: Any = None, view: bool = False, cleanup: bool = False,
               format: str = "pdf") -> str:
        """Save the source and draw it with Graphviz's `dot`; returns the drawing's path.

        Args:
            format: "pdf", "svg", "png" or another that `dot` knows.
            view: not supported without the graphviz package.
            cleanup: remove the source afterwards.

        Raises:
            RuntimeError: there is no `dot` program, or it failed.
        """
        path = self.save(filename, directory)
        program = shutil.which("dot")
        if program is None:
            raise RuntimeError(f"Graphviz's `dot` program was not found: install Graphviz, or draw {path} elsewhere (its "
                               "text is also in .source).")
        if view:
            raise RuntimeError("view=True needs the graphviz package: pip install graphviz")
        drawn = f"{path}.{format}"
        done = subprocess.run([program, f"-T{format}", "-o", drawn, path], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"`dot` failed: {done.stderr.strip()}")
        if cleanup:
            os.remove(path)
        return drawn


def make_dot(var: Any, params: Any = None, show_attrs: bool = False, show_saved: bool = False,
             max_attr_chars: int = 50) -> Any:
    """Draw the graph behind a tensor, or several: operators grey, leaves blue, results green.

    Args:
        var: a tensor, or an iterable of tensors.
        params: dict of name -> tensor (or pairs), for the names of leaves.
        show_attrs: list what each node keeps besides tensors: dimensions, shapes.
        show_saved: show the tensors that nodes keep, orange.
        max_attr_chars: longer values are cut.

    Returns:
        graphviz.Source if the graphviz package is installed, else a Dot: both have .source, .save() and .render().

    Raises:
        TypeError: params holds something that is no tensor.
    """
    names = _names(params)
    drawing = _Drawing(names, show_attrs, show_saved, max_attr_chars)
    for tensor in [var] if isinstance(var, TensorBase) else var:
        drawing.add_result(tensor)
    source = drawing.source()
    try:
        import graphviz  # type: ignore[import-not-found]
    except ModuleNotFoundError:
        return Dot(source)
    return graphviz.Source(source)


def _names(params: Any) -> dict[int, str]:
    if params is None:
        return {}
    pairs = dict(params)
    for name, value in pairs.items():
        if not isinstance(value, TensorBase):
            raise TypeError(f"make_dot: params must hold tensors by name, but {name!r} is {type(value).__name__}")
    return {id(value): name for name, value in pairs.items()}


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


class _Drawing:
    def __init__(self, names: dict[int, str], show_attrs: bool, show_saved: bool, max_chars: int) -> None:
        self.names, self.show_attrs, self.show_saved, self.max_chars = names, show_attrs, show_saved, max_chars
        self.lines: list[str] = []
        self.seen: dict[int, Any] = {}           # holds what was drawn, so that no id is given twice
        self.n_nodes = 0

    def _node(self, thing: Any, label: str, **look: str) -> None:
        self.n_nodes += 1
        look = {"label": label, **look}
        self.lines.append(f"\t{id(thing)} [" + " ".join(f"{k}={_quoted(v)}" for k, v in look.items()) + "]")

    def _edge(self, tail: Any, head: Any, **look: str) -> None:
        marks = (" [" + " ".join(f"{k}={v}" for k, v in look.items()) + "]") if look else ""
        self.lines.append(f"\t{id(tail)} -> {id(head)}{marks}")

    def _tensor_label(self, tensor: Any, name: str | None = None) -> str:
        name = name or self.names.get(id(tensor), "")
        return f"{name}\n {tuple(tensor.shape)}"

    def add_result(self, tensor: Any) -> None:
        """A tensor with all that it was computed from."""
        if id(tensor) in self.seen:
            return
        self.seen[id(tensor)] = tensor
        self._node(tensor, self._tensor_label(tensor), fillcolor=_RESULT)
        if tensor.grad_fn is None:
            return
        self._add_nodes(tensor.grad_fn)
        self._edge(tensor.grad_fn, tensor)
        base = tensor._base
        if base is not None and base.grad_fn is not None:
            if id(base) not in self.seen:
                self.seen[id(base)] = base
                self._node(base, self._tensor_label(base), fillcolor=_VIEW)
                self._add_nodes(base.grad_fn)
                self._edge(base.grad_fn, base)
            self._edge(base, tensor, style="dotted")

    def _add_nodes(self, first: Any) -> None:
        waiting = [first]
        while waiting:
            node = waiting.pop()
            if id(node) in self.seen:
                continue
            self.seen[id(node)] = node
            self._node(node, self._operator_label(node))
            leaf = getattr(node, "variable", None)
            if leaf is not None:
                if id(leaf) not in self.seen:
                    self.seen[id(leaf)] = leaf
                    self._node(leaf, self._tensor_label(leaf), fillcolor=_LEAF)
                self._edge(leaf, node)
            if self.show_saved:
                self._add_saved(node)
            for before, _ in node.next_functions:
                if before is not None:
                    self._edge(before, node)
                    waiting.append(before)

    def _add_saved(self, node: Any) -> None:
        for attribute in _saved(node):
            value = _read(node, attribute)
            for tensor in value if isinstance(value, (tuple, list)) else [value]:
                if isinstance(tensor, TensorBase):
                    self.seen[id(tensor)] = tensor
                    self._node(tensor, self._tensor_label(tensor, attribute[len("_saved_"):]), fillcolor=_SAVED)
                    self._edge(node, tensor, dir="none")

    def _operator_label(self, node: Any) -> str:
        name: str = type(node).__name__
        if not self.show_attrs:
            return name
        rows = []
        for attribute in _saved(node):
            value = _read(node, attribute)
            text = "[saved tensor]" if isinstance(value, TensorBase) else str(value)
            if len(text) > self.max_chars:
                text = text[:self.max_chars - 3] + "..."
            rows.append((attribute[len("_saved_"):], text))
        if not rows:
            return name
        width = max(len(key) for key, _ in rows)
        body = [f"{key:<{width}}: {text}" for key, text in rows]
        return "\n".join([name, "-" * max(map(len, [name, *body])), *body])

    def source(self) -> str:
        inches = max(_LEAST_INCHES, self.n_nodes * _INCHES_A_NODE)
        head = ["digraph {", f'\tgraph [size="{inches:g},{inches:g}"]',
                "\tnode [" + " ".join(f"{k}={_quoted(v)}" for k, v in _NODE.items()) + "]"]
        return "\n".join([*head, *self.lines, "}", ""])


def _saved(node: Any) -> Iterable[str]:
    return [name for name in dir(node) if name.startswith("_saved_")]


def _read(node: Any, attribute: str) -> Any:
    try:
        return getattr(node, attribute)
    except RuntimeError:                 # the graph was freed by a backward
        return "(freed)"
