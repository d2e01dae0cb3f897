"""Following inputs through a function: copies that autograd sees as the variables of one transform.

A transform differentiates with respect to *watched* tensors: new nodes (or leaves) over the same memory as the inputs, so
that tensors captured from outside, other transforms' variables among them, are constants to it. Inside vmap they have every
level's batch: each sample's gradient is its own, although the graph is one.
"""

from __future__ import annotations

from typing import Any

from flambeau.autograd import _tangents
from flambeau.autograd._modes import Recording
from flambeau.core.apply import apply1
from flambeau.core.engine import run_backward
from flambeau.core.errors import AutogradError
from flambeau.core.objects import Node, TensorBase, array_of, dtype_of, edge, make, requires, shape_of
from flambeau.core.op import slot
from flambeau.core.saved import alias_of
from flambeau.core.state import grad_enabled, set_grad_enabled, state
from flambeau.core.views import grad_fn, set_edge

from ._levels import VmapLevel, from_full, full, is_batched, levels, without, wrap

ALIAS = slot("alias")


class Variables:
    """Watched inputs of one call of a transform.

    Attributes:
        stack: the levels of vmap at the call.
        given: ordinary tensors, the inputs with all batches in front.
        watched: the same, as variables.
        passed: what the function gets: the variables, or, where it may write into them, other tensors of their values.
        record: whether derivatives are themselves recorded where something asks.
    """

    def __init__(self, inputs: list, writable: bool = False) -> None:
        self.owner = Owner()
        self.stack: list[VmapLevel] = list(levels())
        self.record = grad_enabled()
        self.given: list[TensorBase] = []
        self.watched: list[Any] = []
        self.passed: list[Any] = []
        for t in inputs:
            if not state.is_float(dtype_of(t)):
                raise AutogradError(
                    f"only Tensors of floating point and complex dtype can require gradients: an input to differentiate is "
                    f"{t.dtype}. Convert it, or leave it out of argnums.")
            whole = full(t, self.stack)
            own = self.record and requires(whole)
            self.given.append(whole)
            self.watched.append(_successor(whole) if own else _leaf(whole, self.owner))
            self.passed.append(_successor(self.watched[-1]) if own or writable else self.watched[-1])
        self.connected = any(self.record and requires(t) for t in self.given)

    def inputs(self) -> list:
        """What the function is called with."""
        return [from_full(t, self.stack) for t in self.passed]

    def whole(self, t: TensorBase) -> Any:
        """An output of the function as an ordinary tensor."""
        return full(t, self.stack)

    def hidden(self, t: TensorBase) -> Any:
        """The tensor as a sample's."""
        return from_full(t, self.stack)

    def asks_more(self, outputs: list) -> bool:
        """Whether the outputs depend on something that a gradient is asked for outside of this transform."""
        more = self.record and (self.connected or _other_leaves(outputs, self.watched))
        self.owner.live = False
        return more


class Owner:
    """Whose variable a leaf is: while the transform's function runs, what is computed from it is asked for."""

    __slots__ = ("live",)

    def __init__(self, live: bool = True) -> None:
        self.live = live


def _leaf(t: Any, owner: Owner) -> Any:
    own: Any = _cut(t) if _tangents.active() else t.detach()
    own._rg, own._inference, own._variable_of = True, False, owner
    return own


def seed(t: Any) -> Any:
    """A variable of zeros like t, for a derivative in it that nobody else asks for."""
    own = zeros(t)
    own._rg, own._variable_of = True, Owner(live=False)
    return own


def _successor(t: TensorBase) -> TensorBase:
    """A tensor over the same memory and with t as its history, yet no view of it: it may be written."""
    if _tangents.active():
        return _aliased(t)
    node = alias_of(t)
    set_edge(node, 0, t)
    new: Any = t.detach()  # type: ignore[attr-defined]
    new._node, new._nr, new._rg, new._inference = node, 0, True, False
    return new


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
            owner = getattr(e, "_variable_of", None)
            if id(e) not in stop and (owner is None or owner.live):
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


def pull(outputs: list, seeds: list, variables: Variables, watched: list, create: bool) -> list:
    """Gradients of sum(output * seed) in the watched tensors; zeros where there is none. The graph is kept.

    Seeds may be batched at levels entered since: then the gradients are. The graph is that of ordinary tensors, which have
    the batches of the variables' levels: the backward of a custom Function does not see those levels.
    """
    forced = _tangents.active() and not create      # forward mode follows a backward that is recorded
    create = create or forced
    pairs = [(o, s) for o, s in zip(outputs, seeds, strict=True) if requires(o)]
    found: list[Any] = [None] * len(watched)
    if pairs:
        roots = [o for o, _ in pairs]
        on_tensors = create or any(s._array is None for _, s in pairs)
        carried = [s if on_tensors else array_of(s) for _, s in pairs]
        if create:
            with Recording(), without(variables.stack):
                found = list(run_backward(roots, carried, True, True, watched, False))
        else:
            with without(variables.stack):
                found = list(run_backward(roots, carried, True, False, watched, False))
        if forced:
            found = [g if g is None else _cut(g) for g in found]
    return [zeros(t) if g is None else g for g, t in zip(found, watched, strict=True)]


def zeros(t: Any) -> Any:
    """Zeros like an ordinary tensor."""
    return state.ops.zeros_like(t) if t._array is None else make(state.xp.zeros_like(t._array))


def ones(t: Any) -> Any:
    return state.ops.ones_like(t) if t._array is None else make(state.xp.ones_like(t._array))


def released(t: Any, keep: bool) -> Any:
    """An output for the caller: without the transform's own graph, unless it asks for more."""
    if keep or not isinstance(t, TensorBase) or not asks(t):
        return t
    return _cut(t) if _tangents.active() else t.detach()        # type: ignore[attr-defined]


def _cut(t: Any) -> Any:
    """t without its graph, but with its tangent."""
    if is_batched(t):
        return wrap(_cut(t._lazy.inner), t._lazy.level)
    return t.detach() if t._array is None else _tangents.cut(t)


def shape(t: Any) -> tuple:
    return tuple(shape_of(t))
