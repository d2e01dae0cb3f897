"""Graph nodes as users see them: `y.grad_fn` under its operator's name, and `AccumulateGrad` of leaves.

A recorded node is a plain `core.Node`. The first time somebody looks at it, it is given its operator's empty
class (`MulBackward0`), so that `type(fn).__name__`, `isinstance` and `repr` answer as in PyTorch; the engine never
pays for it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from flambeau.core.errors import freed_error
from flambeau.core.objects import (
    LeafHooks,
    Node,
    Packed,
    TensorBase,
    dtype_of,
    edge,
    edge_number,
    extra_of,
    leaf_hooks,
    shape_of,
)
from flambeau.core.op import OUT, Op
from flambeau.core.origin import quoted, scope_path
from flambeau.core.saved import needs_saved, read_input, read_output
from flambeau.core.state import bump_meta_epoch, set_grad_enabled, state
from flambeau.tensor._autograd import TensorHookHandle as Handle


class InputMeta:
    """Shape and dtype of one output of a node: what an incoming gradient must look like."""

    def __init__(self, shape: Any, dtype: Any) -> None:
        self.shape, self.dtype = shape, dtype

    def __repr__(self) -> str:
        return f"InputMeta(shape={tuple(self.shape)}, dtype={self.dtype})"


class SavedTensor:
    """One saved value of a node (`_raw_saved_*`), to which hooks can be given one by one."""

    def __init__(self, node: Node, kind: str, i: int) -> None:
        self._node, self._kind, self._i = node, kind, i

    def register_hooks(self, pack_hook: Callable, unpack_hook: Callable) -> None:
        """Replace the saved value by pack_hook(value); backward gets unpack_hook of that."""
        _refuse_freed(self._node)
        node = self._node
        old = _raw(node, self._kind, self._i)
        if isinstance(old, Packed):
            raise RuntimeError("This saved tensor has hooks already: register_hooks works once.")
        if old is None:
            raise RuntimeError("register_hooks: the saved value is None, there is nothing to pack")
        if not callable(pack_hook) or not callable(unpack_hook):
            raise TypeError("register_hooks() takes two functions: pack_hook(tensor) and unpack_hook(packed)")
        value = _read(node, self._kind, self._i)
        plain = value if self._kind == "input" and value.is_leaf else value.detach()
        old_mode = set_grad_enabled(False)
        try:
            packed = pack_hook(plain)
        finally:
            set_grad_enabled(old_mode)
        _put_raw(node, self._kind, self._i, Packed(packed, unpack_hook))


def _raw(node: Node, kind: str, i: int) -> Any:
    if kind == "output":
        return node.out[3 * i] if _several(node) else node.out
    return (node.s0, node.s1)[i] if i < 2 else node.more[(i - 2) * 5 + 2]


def _put_raw(node: Node, kind: str, i: int, value: Any) -> None:
    if kind == "output":
        if _several(node):
            node.out[3 * i : 3 * i + 3] = [value, None, 0]
        else:
            node.out, node.out_cell = value, None
    elif i == 0:
        node.s0, node.c0 = value, None
    elif i == 1:
        node.s1, node.c1 = value, None
    else:
        node.more[(i - 2) * 5 + 2] = value
        node.more[(i - 2) * 5 + 3] = None


def _several(node: Node) -> bool:
    x = node.extra
    return x is not None and x.metas is not None


def _read(node: Node, kind: str, i: int) -> Any:
    if kind == "output":
        return read_output(node, i, True, None)
    return read_input(node, i, True)


def _refuse_freed(node: Node) -> None:
    if node.freed and needs_saved(node):
        raise freed_error(node)


def _saves(op: Op) -> int:
    """Bit mask of everything that some formula of op saves."""
    mask = op.joint.mask if op.joint is not None else 0
    for formula in op.formulas:
        if formula is not None:
            mask |= formula.mask
    return mask


def _locate(node: Node, name: str) -> tuple[str, int] | None:
    """(kind, number) of the value called `name` among those that node may save: an input, output or parameter."""
    op = node.op
    mask = _saves(op)
    if name in op.input_names:
        i = op.input_names.index(name)
        if mask >> 32 or mask & (1 << i):
            return "input", i
        return None
    if name == "result" and mask >> OUT & 1:
        return "output", 0
    if name.startswith("result") and name[6:].isdigit() and mask >> OUT >> int(name[6:]) & 1:
        return "output", int(name[6:])
    if name in op.param_names:
        return "param", op.param_names.index(name)
    return None


class NodeView(Node):
    """A node of the graph: one recorded operator call."""

    __slots__ = ()

    @property
    def next_functions(self) -> tuple:
        """For each input, the node that made it (AccumulateGrad for a leaf, None without gradient) and its output."""
        return tuple(next_function(self, i) for i in range(self.n))

    def name(self) -> str:
        """The name of the backward function, such as "MulBackward0"."""
        name = self.op.node_name
        return "torch::autograd::" + name if name == "CopySlices" else name

    @property
    def metadata(self) -> dict:
        """A dict for anything that users want to attach to the node."""
        x = extra_of(self)
        if x.metadata is None:
            x.metadata = {}
        return x.metadata

    @property
    def where(self) -> str:
        """The user's line that recorded the node: `file.py:12: y = a * b`."""
        return quoted(self.code, self.lasti)

    @property
    def module(self) -> str:
        """The path of the module that was being called, "" outside modules."""
        return scope_path(self.scope)

    @property
    def requires_grad(self) -> bool:
        return True

    def register_hook(self, fn: Callable) -> Handle:
        """Call fn(grad_inputs, grad_outputs) after the node has run; what it returns replaces grad_inputs."""
        x = extra_of(self)
        if x.post is None:
            x.post = []
        return _add(x.post, fn)

    def register_prehook(self, fn: Callable) -> Handle:
        """Call fn(grad_outputs) before the node runs; what it returns replaces grad_outputs."""
        x = extra_of(self)
        if x.pre is None:
            x.pre = []
        return _add(x.pre, fn)

    def _sequence_nr(self) -> int:
        return self.seq

    def _set_sequence_nr(self, number: int) -> None:
        self.seq = number

    @property
    def _input_metadata(self) -> list:
        x = self.extra
        if x is not None and x.metas is not None:
            return [None if m is None else InputMeta(*m) for m in x.metas]
        return [InputMeta(self.shape, self.dtype)]

    def __getattr__(self, name: str) -> Any:
        raw = name.startswith("_raw_saved_")
        if raw or name.startswith("_saved_"):
            what = name[11:] if raw else name[7:]
            place = _locate(self, what)
            if place is not None:
                kind, i = place
                if kind == "param":
                    return None if self.params is None else self.params[i]
                if raw:
                    return SavedTensor(self, kind, i)
                _refuse_freed(self)
                return _read(self, kind, i)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __dir__(self) -> list:
        found = set(object.__dir__(self))
        names = [*self.op.input_names, "result", *self.op.param_names]
        return sorted(found | {"_saved_" + n for n in names if _locate(self, n) is not None})

    def __repr__(self) -> str:
        return f"<{type(self).__name__} object at {id(self):#x}>"


def _add(hooks: list, fn: Callable) -> Handle:
    if not callable(fn):
        raise TypeError(f"a hook is a function, not {type(fn).__name__}")
    handle = Handle()
    hooks.append([handle.id, fn])
    handle._entries = hooks
    bump_meta_epoch()
    return handle


def next_function(node: Node, i: int) -> tuple:
    """(node that made input i, its output number)."""
    e = edge(node, i)
    if e is None:
        return None, 0
    if isinstance(e, Node):
        return show(e), edge_number(node, i)
    return accumulator(e), 0


def show(node: Node) -> Node:
    """The node under its operator's class."""
    if type(node) is Node:
        op = node.op
        cls = op.node_class
        if cls is None:
            cls = type(op.node_name, (NodeView,), {"__slots__": (), "__module__": "flambeau.autograd"})
            op.node_class = cls
        node.__class__ = cls
    return node


class AccumulateGrad:
    """The end of the graph at a leaf: adds the gradient to `variable.grad`.

    Made when somebody asks; the leaf knows it weakly, so it is the same object as long as it is held.
    """

    __slots__ = ("__weakref__", "variable")

    def __init__(self, variable: TensorBase) -> None:
        self.variable = variable

    next_functions = ()
    requires_grad = True

    def name(self) -> str:
        return "torch::autograd::AccumulateGrad"

    @property
    def metadata(self) -> dict:
        h = leaf_hooks(self.variable)
        if h.metadata is None:
            h.metadata = {}
        return h.metadata

    def register_hook(self, fn: Callable) -> Handle:
        """Call fn(grad_inputs, grad_outputs), here ((), (grad,)), after `.grad` was written."""
        return _add(leaf_hooks(self.variable).post, fn)

    def register_prehook(self, fn: Callable) -> Handle:
        """Call fn(grad_outputs) before `.grad` is written; what it returns replaces the gradient."""
        return _add(leaf_hooks(self.variable).pre, fn)

    def _sequence_nr(self) -> int:
        return 2**64 - 1

    @property
    def _input_metadata(self) -> list:
        return [InputMeta(shape_of(self.variable), dtype_of(self.variable))]

    def __repr__(self) -> str:
        return f"<AccumulateGrad object at {id(self):#x}>"


def accumulator(leaf: TensorBase) -> AccumulateGrad:
    """The AccumulateGrad of a leaf."""
    h: LeafHooks = leaf_hooks(leaf)
    found = h.node() if h.node is not None else None
    if found is None:
        found = AccumulateGrad(leaf)
        h.node = weakref.ref(found)
    return found


state.show = show
