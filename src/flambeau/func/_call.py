"""One operator call of which some inputs are batched, as batching rules see it."""

from __future__ import annotations

from typing import Any

from flambeau.autograd._rerun import rerun
from flambeau.core.apply import CALL, apply1
from flambeau.core.objects import TensorBase, shape_of
from flambeau.core.op import Op, slot
from flambeau.core.state import state

from ._levels import VmapLevel, inner_at, is_batched_at

VIEW, EXPAND, UNSQUEEZE = slot("view"), slot("expand"), slot("unsqueeze")


class Call:
    """An operator call at one level.

    Attributes:
        op, params, kind: as interceptors get them.
        inputs: tensors (batched or not), numbers or None.
        level, size: the level that is taken off, and its number of samples.
    """

    __slots__ = ("inputs", "kind", "level", "op", "params", "size")

    def __init__(self, op: Op, level: VmapLevel, inputs: tuple, params: Any, kind: int) -> None:
        self.op, self.level, self.inputs, self.params, self.kind = op, level, list(inputs), params, kind
        self.size = level.size

    def with_input(self, i: int, t: Any) -> Call:
        """The same call with another input."""
        inputs = list(self.inputs)
        inputs[i] = t
        return Call(self.op, self.level, tuple(inputs), self.params, self.kind)

    def is_batched(self, t: Any) -> bool:
        """Whether t has a batch dimension at this level."""
        return is_batched_at(t, self.level)

    def inner(self, t: Any) -> Any:
        """t with its batch in front; numbers, None and unbatched tensors as they are."""
        return inner_at(t, self.level)

    def whole(self, t: Any) -> Any:
        """t with the batch in front, expanded where it has none."""
        if self.is_batched(t):
            return t._lazy.inner
        if not isinstance(t, TensorBase):
            return t
        shape = tuple(shape_of(t))
        return apply1(EXPAND, apply1(UNSQUEEZE, t, (0,)), ((self.size, *shape),))

    def aligned_to(self, t: Any, n: int) -> Any:
        """t so that it broadcasts with a batch in front of n dimensions."""
        if not self.is_batched(t):
            return t
        inner = t._lazy.inner
        shape = tuple(shape_of(inner))
        missing = n + 1 - len(shape)
        if missing <= 0:
            return inner
        return apply1(VIEW, inner, ((shape[0], *(1,) * missing, *shape[1:]),))

    def param(self, name: str) -> Any:
        """A parameter by its name."""
        return self.params[self.op.param_names.index(name)]

    def run(self, inputs: list, params: Any = None, op: Op | None = None) -> Any:
        """The operator on other inputs and parameters."""
        return rerun(op or self.op, tuple(inputs), params, self.kind if op is None else CALL)


def reshape(t: Any, shape: tuple) -> Any:
    return t if tuple(shape_of(t)) == shape else state.ops.reshape(t, shape)


def rank(t: Any) -> int:
    """Dimensions of one sample."""
    return len(shape_of(t))


def into_first(t: Any) -> Any:
    """(B, N, ...) as (B * N, ...)."""
    shape = tuple(shape_of(t))
    return reshape(t, (shape[0] * shape[1], *shape[2:]))


def out_of_first(call: Call, t: Any) -> Any:
    """(B * N, ...) as (B, N, ...)."""
    shape = tuple(shape_of(t))
    return reshape(t, (call.size, shape[0] // call.size if call.size else 0, *shape[1:]))
