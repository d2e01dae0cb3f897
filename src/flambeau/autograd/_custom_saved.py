"""What a custom Function saves. Never a tensor that is no leaf: see `core.objects` on cycles.

An input is kept as array, version and edge; an output as array, version and its number (its history is the node
that keeps it); anything else was computed inside forward, where nothing is recorded: an intermediate.
"""

from __future__ import annotations

import weakref

from flambeau.core.errors import node_text
from flambeau.core.objects import Node, Packed, TensorBase, cell_of, memory_of, remake, remake_as, requires
from flambeau.core.origin import warn_user
from flambeau.core.saved import check, pack, refuse_inference, unpacked
from flambeau.core.state import grad_enabled, state
from flambeau.core.views import grad_fn

_ENGINE_FIELDS = frozenset(dir(TensorBase))      # interpreted, they lie in the tensor's dictionary
INPUT, OUTPUT, INTERMEDIATE = "input", "output", "intermediate"


class Saved:
    """One tensor given to save_for_backward."""

    __slots__ = ("array", "attributes", "cell", "cls", "kind", "leaf", "node", "nr", "packed", "ref", "stamp")

    def __init__(self, t: TensorBase, node: Node, is_input: bool) -> None:
        if t._inference:
            refuse_inference()
        own = t._node
        self.kind = OUTPUT if own is node else INPUT if is_input else INTERMEDIATE
        self.leaf = self.node = self.packed = self.array = self.cell = None
        self.nr, self.stamp = t._nr, 0
        if self.kind is not OUTPUT and requires(t):
            self.node = grad_fn(t) if t._view is not None else own
            if self.node is None:
                self.leaf = t
        if state.n_saved_hooks:
            given = t
            if self.kind is OUTPUT:
                given = remake_as(type(t), memory_of(t))
                given._cell = cell_of(t)
            self.packed = pack(given)
            if self.packed is not None:
                return
        self.array = memory_of(t)
        self.cell = cell_of(t)
        self.stamp = self.cell.stamp
        self.cls, self.ref = type(t), weakref.ref(t)
        self.attributes = {k: v for k, v in t.__dict__.items() if k not in _ENGINE_FIELDS} or None

    def unpack(self, node: Node, i: int) -> TensorBase:
        """The tensor again, connected to the graph as it was."""
        if self.packed is not None:
            return self._from_hook(node)
        check(node, self.cell, self.stamp, f"tensor {i} given to save_for_backward", self.array)
        if self.leaf is not None:
            return self.leaf
        history = node if self.kind is OUTPUT else self.node
        alive = self.ref()
        if alive is not None and alive._node is history and memory_of(alive) is self.array:
            return alive
        t = remake_as(self.cls, self.array)
        t._cell = self.cell
        t._inference = False
        if self.attributes is not None:
            t.__dict__.update(self.attributes)
        self._connect(t, history)
        return t

    def _connect(self, t: TensorBase, history: Node | None) -> None:
        if history is not None:
            t._node, t._nr, t._rg = history, self.nr, True

    def _from_hook(self, node: Node) -> TensorBase:
        packed: Packed = self.packed
        u = unpacked(packed)
        history = node if self.kind is OUTPUT else self.node
        if history is None and self.leaf is None:
            return u
        if self.leaf is not None:
            return u if u is self.leaf else _aliased(u, self.leaf)
        t = remake(memory_of(u))
        self._connect(t, history)
        return t


def _aliased(u: TensorBase, leaf: TensorBase) -> TensorBase:
    """The values that a hook gave back, with the history of the leaf that was saved."""
    from flambeau.core.saved import alias_of

    t = remake(memory_of(u))
    t._node, t._rg = alias_of(leaf), True
    return t


_told: set[str] = set()


def warn_intermediate(node: Node, saved: Saved, i: int) -> None:
    """The gradient through an intermediate is lost when the backward is itself differentiated: say so once."""
    if saved.kind is not INTERMEDIATE or not grad_enabled() or saved.packed is not None:
        return
    name = str(node.op.node_name)
    if name in _told or not state.is_float(saved.array.dtype):
        return
    _told.add(name)
    warn_user(
        f"{name}: tensor {i} given to save_for_backward is an intermediate: it is neither an input nor an output of "
        "forward, "
        "so a second derivative (create_graph=True) takes it as a constant and is wrong if it depends on the inputs. Save "
        "inputs and compute it again in backward, or return it as an extra output; if it is a constant, such as a mask, "
        f"ignore this. Recorded by {node_text(node)}.")
