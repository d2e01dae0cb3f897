"""Following inputs through a function: copies that autograd sees as the variables of one transform.

A transform differentiates with respect to *watched* tensors: new nodes (or leaves) over the same memory as the inputs, so
that tensors captured from outside, other transforms' variables among them, are constants to it. Inside vmap they have every
level's batch: each sample's gradient is its own, although the graph is one.
"""

from __future__ import annotations

from typing import Any

from flambeau.autograd import _tangents
from flambeau.core.apply import apply1
from flambeau.core.engine import run_backward
from flambeau.core.errors import AutogradError
from flambeau.core.objects import Node, TensorBase, array_of, dtype_of, edge, make, requires, shape_of
from flambeau.core.op import slot
from flambeau.core.state import grad_enabled, set_grad_enabled, state
from flambeau.core.views import grad_fn

from ._levels import VmapLevel, from_full, full, is_batched, levels

ALIAS = slot("alias")


class Variables:
    """Watched inputs of one call of a transform.

    Attributes:
        stack: the levels of vmap at the call.
        given: ordinary tensors, the inputs with all batches in front.
        watched: the same, as variables.
        record: whether derivatives are themselves recorded where something asks.
    """

    def __init__(self, inputs: list) -> None:
        self.stack: list[VmapLevel] = list(levels())
        self.record = grad_enabled()
        self.given: list[TensorBase] = []
        self.watched: list[Any] = []
        for t in inputs:
            if not state.is_float(dtype_of(t)):
                raise AutogradError(
                    f"only Tensors of floating point and complex dtype can require gradients: an input to differentiate is "
                    f"{t.dtype}. Convert it, or leave it out of argnums.")
            whole = full(t, self.stack)
            own = self.record and requires(whole)
            self.given.append(whole)
            self.watched.append(_aliased(whole) if own else _leaf(whole))
        self.connected = any(self.record and requires(t) for t in self.given)

    def inputs(self) -> list:
        """What the function is called with."""
        return [from_full(t, self.stack) for t in self.watched]

    def whole(self, t: TensorBase) -> Any:
        """An output of the function as an ordinary tensor."""
        return full(t, self.stack)

    def hidden(self, t: TensorBase) -> Any:
        """The tensor as a sample's."""
        return from_full(t, self.stack)

    def asks_more(self, outputs: list) -> bool:
        """Whether the outputs depend on something that a gradient is asked for outside of this transform."""
        return self.record and (self.connected or _other_leaves(outputs, self.watched))


def _leaf(t: Any) -> Any:
    own: TensorBase = t.detach()
    own._rg = True
    return own


def _aliased(t: Any) -> Any:
    old = set_grad_enabled(True)
    try:
        found: TensorBase = apply1(ALIAS, t)
    finally:
        set_grad_enabled(old)
    return found


def _other_leaves(outputs: list, watched: list) -> bool:
    """Whether a leaf that is not watched can be reached."""
    stop = {id(t) for t in watched}
    seen: set[int] = set()
    queue: list[Any] = []
    for t in outputs:
        if requires(t):
            node = grad_fn(t)
            queue.append(t if node is None else node)
    while queue:
        e = queue.pop()
        if id(e) in seen:
            continue
        seen.add(id(e))
        if not isinstance(e, Node):
            if id(e) not in stop:
                return True
            continue
        for i in range(int(e.n)):
            x = edge(e, i)
            if x is not None:
                queue.append(x)
    return False


def asks(t: Any) -> bool:
    """Whether a gradient is asked for t, or for the tensor inside it."""
    while is_batched(t):
        t = t._lazy.inner
    return isinstance(t, TensorBase) and requires(t)


def pull(outputs: list, seeds: list, watched: list, create: bool) -> list:
    """Gradients of sum(output * seed) in the watched tensors; zeros where there is none. The graph is kept.

    Seeds may be batched at levels entered since: then the gradients are.
    """
    forced = _tangents.active() and not create      # forward mode follows a backward that is recorded
    create = create or forced
    pairs = [(o, s) for o, s in zip(outputs, seeds, strict=True) if requires(o)]
    found: list[Any] = [None] * len(watched)
    if pairs:
        roots = [o for o, _ in pairs]
        on_tensors = create or any(s._array is None for _, s in pairs)
        carried = [s if on_tensors else array_of(s) for _, s in pairs]
        found = list(run_backward(roots, carried, True, create, watched, False))
        if forced:
            found = [g if g is None or g._array is None else _tangents.cut(g) for g in found]
    return [zeros(t) if g is None else g for g, t in zip(found, watched, strict=True)]


def zeros(t: Any) -> Any:
    """Zeros like an ordinary tensor."""
    return make(state.xp.zeros_like(array_of(t)))


def ones(t: Any) -> Any:
    return make(state.xp.ones_like(array_of(t)))


def released(t: Any, keep: bool) -> Any:
    """An output for the caller: without the transform's own graph, unless it asks for more."""
    if keep or not isinstance(t, TensorBase):
        return t
    found: Any = t
    return found.detach() if asks(t) else t


def shape(t: Any) -> tuple:
    return tuple(shape_of(t))
