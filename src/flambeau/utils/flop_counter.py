"""FlopCounterMode: the floating-point operations of a block, forward and backward, by module and operator."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import Any

from flambeau.autograd._rerun import rerun
from flambeau.core.interception import register, set_limit, unregister
from flambeau.core.objects import Node, TensorBase, edge, edge_number, shape_of
from flambeau.core.origin import warn_user
from flambeau.core.state import current_scope, state
from flambeau.core.tasks import current_call, task_edge

from ._flops import (  # noqa: F401  imported from here by programs
    _scaled_mm_flop,
    addmm_flop,
    backward_calls,
    baddbmm_flop,
    bmm_flop,
    conv_backward_flop,
    conv_flop,
    conv_flop_count,
    flop_registry,
    forward_calls,
    get_shape,
    mm_flop,
    register_flop_formula,
    sdpa_backward_flop,
    sdpa_backward_flop_count,
    sdpa_flop,
    sdpa_flop_count,
    shape_wrapper,
)

__all__ = ["FlopCounterMode", "register_flop_formula"]

ORDER = 15          # of interception: inside of autocast, which casts first
suffixes = ["", "K", "M", "B", "T"]


def get_suffix_str(number: int) -> str:
    """The unit in which a table shows numbers as large as this."""
    return suffixes[max(0, min(len(suffixes) - 1, (len(str(number)) - 2) // 3))]


def convert_num_with_suffix(number: int, suffix: str) -> str:
    """A number in a unit, with three decimals."""
    return f"{number / 1000 ** suffixes.index(suffix):.3f}{suffix}"


def convert_to_percent_str(num: int, denom: int) -> str:
    """A share in percent."""
    return f"{num / denom:.2%}" if denom else "0%"


def _places(scope: Any) -> set[str]:
    """The modules, by path, that a scope lies in."""
    links = []
    while scope is not None:
        links.append(scope)
        scope = scope[2]
    found = {"Global"}
    path = ""
    for name, cls, _ in reversed(links):
        path = f"{path}.{name}" if path and name else path or cls
        found.add(path)
    return found


class FlopCounterMode:
    """Counts the floating-point operations of a block: products of matrices, convolutions, recurrent layers.

    A backward inside the block is counted with the modules of its forward. What has no formula counts as nothing. Unlike
    PyTorch on the CPU, attention and LSTM layers are counted too, as the products of matrices that they are.

    Args:
        mods: not needed; a warning says so.
        depth: how many levels of modules the table shows; None for all.
        display: whether the table is printed at the end of the block.
        custom_mapping: formulas, f(*shapes, out_shape=), by operator, such as {torch.ops.aten.silu: f}.

    >>> model = flambeau.nn.Linear(3, 4)
    >>> with FlopCounterMode(display=False) as counter:
    ...     model(flambeau.ones(2, 3)).sum().backward()
    >>> counter.get_total_flops()
    96
    """

    def __init__(self, mods: Any = None, depth: int | None = 2, display: bool = True,
                 custom_mapping: dict | None = None) -> None:
        self.flop_counts: dict[str, dict[Any, int]] = defaultdict(lambda: defaultdict(int))
        self.depth, self.display = depth, display
        if mods is not None:
            warn_user("FlopCounterMode: the mods argument is not needed anymore, modules are found as they are called. "
                      "Leave it out.")
        self.flop_registry = {**flop_registry, **{
            packet: formula if getattr(formula, "_get_raw", False) else shape_wrapper(formula)
            for packet, formula in (custom_mapping or {}).items()}}
        self._thread = 0
        self._watch: Any = None

    def get_total_flops(self) -> int:
        """All of the block."""
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """{module: {operator: operations}}; "Global" has those outside of modules too."""
        return {place: dict(counts) for place, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """The counts as text.

        Args:
            depth: how many levels of modules; by default what the mode was made with.
        """
        depth = self.depth if depth is None else depth
        total = self.get_total_flops()
        unit = get_suffix_str(total)
        rows, within = [], False

        def shown(place: str, indent: int) -> list[list[str]]:
            counts = self.flop_counts[place]
            lines = [(place, sum(counts.values())), *((f" - {packet}", n) for packet, n in counts.items())]
            return [[" " * indent + name, convert_num_with_suffix(n, unit), convert_to_percent_str(n, total)]
                    for name, n in lines]

        for place in sorted(self.flop_counts):
            level = place.count(".") + 1
            if place != "Global" and (depth is None or level <= depth):
                within = within or sum(self.flop_counts[place].values()) >= total
                rows += shown(place, level - 1)
        if "Global" in self.flop_counts and not within:         # some of it lies outside of all modules
            rows = shown("Global", 0) + [[" " + row[0], *row[1:]] for row in rows]
        return _table(["Module", "FLOP", "% Total"], rows or [["Global", "0", "0%"]])

    def __enter__(self) -> FlopCounterMode:
        self.flop_counts.clear()
        self._thread = threading.get_ident()
        register(ORDER, self._operator)
        self._watch, state.watch = state.watch, self._node
        return self

    def __exit__(self, *error: Any) -> None:
        unregister(ORDER, self._operator)
        state.watch, self._watch = self._watch, None
        if self.display:
            print(self.get_table(self.depth))

    # ------------------------------------------------------------------ what runs

    def _operator(self, op: Any, inputs: tuple, params: Any, kind: int) -> Any:
        if threading.get_ident() != self._thread:
            return NotImplemented
        old = set_limit(ORDER)
        try:
            out = rerun(op, inputs, params, kind)
        finally:
            set_limit(old)
        result = out if isinstance(out, TensorBase) else next((t for t in out if isinstance(t, TensorBase)), None)
        shape = None if result is None else get_shape(result)
        self._count(forward_calls(op.name, tuple(map(get_shape, inputs)), params or (), shape), current_scope())
        return out

    def _node(self, n: Node, begins: bool) -> None:
        if self._watch is not None:
            self._watch(n, begins)
        call = current_call()
        if not begins or call is None or call.create or threading.get_ident() != self._thread:
            return                          # under create_graph the formulas run operators, which are counted
        task = call.tasks.get(n)
        if task is None:
            return
        tasks = [task_edge(task, i) for i in range(n.n)]
        needs = [t is not None and t.needed for t in tasks]
        if any(needs):
            self._count(backward_calls(n.op.name, tuple(_input_shape(n, i) for i in range(n.n)), n.params or (),
                                       _output_shape(n), needs), n.scope)

    def _count(self, calls: Any, scope: Any) -> None:
        for packet, args, out in calls:
            formula = self.flop_registry.get(packet)
            if formula is not None:
                n = formula(*args, out_val=out)
                for place in _places(scope):
                    self.flop_counts[place][packet] += n


def _output_shape(n: Node) -> tuple:
    metas = None if n.extra is None else n.extra.metas
    return tuple(n.shape if metas is None else metas[0][0])


def _input_shape(n: Node, i: int) -> Any:
    """The shape of an input of a recorded operator, by its edge or its saved value; None if neither is there."""
    e = edge(n, i)
    if isinstance(e, Node):
        metas = None if e.extra is None else e.extra.metas
        return tuple(e.shape if metas is None else metas[edge_number(n, i)][0])
    if isinstance(e, TensorBase):
        return tuple(shape_of(e))
    more = n.more
    saved = n.s0 if i == 0 else n.s1 if i == 1 else None if more is None else more[5 * (i - 2) + 2]
    saved = getattr(saved, "value", saved)          # kept by a hook
    shape = getattr(saved, "shape", None)
    return None if shape is None else tuple(shape)


def _table(heads: list[str], rows: list[list[str]]) -> str:
    """Columns under a rule; the first to the left, the others to the right."""
    if all("." in row[1] and row[1][-1].isdigit() for row in rows):
        rows = [[row[0], f"{float(row[1]):g}", row[2]] for row in rows]
    widths = [max(len(head) + 2, *(len(row[i]) for row in rows)) for i, head in enumerate(heads)]

    def line(cells: list[str]) -> str:
        return "  ".join([cells[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(cells[1:], widths[1:], strict=True))])

    return "\n".join([line(heads), "  ".join("-" * w for w in widths), *map(line, rows)])
