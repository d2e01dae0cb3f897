"""Forward mode of custom functions: `jvp`.

Dual tensors get their tangents from it at once. `torch.func.jvp` differentiates twice in reverse: there the backward of the
node is the transpose of `jvp`, a linear map of tangents, by one more pass in reverse.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from flambeau.core.engine import run_backward
from flambeau.core.objects import Node, TensorBase, dtype_of, make, requires, shape_of
from flambeau.core.state import local, state
from flambeau.ops._lazy import placed

from ._modes import Recording
from ._tangents import any_level, any_tangent, materialized, off, set_aligned, tangent_of

__all__ = ["Pushing", "any_level", "any_tangent", "by_jvp", "off", "pushing", "run_jvp", "transposing"]


def run_jvp(cls: Any, ctx: Any, args: tuple, results: list, dirty: tuple, single: bool) -> None:
    """Give the outputs the tangents that the user's jvp computes from those of the inputs."""
    attributes = ctx.__dict__
    materialize = attributes.get("materialize_grads", True)
    given = []
    for a in args:
        t = tangent_of(a) if isinstance(a, TensorBase) else None
        if t is None and materialize and isinstance(a, TensorBase) and state.is_float(dtype_of(a)):
            t = materialized(a)
        given.append(t)
    attributes["_in_jvp"] = True
    try:
        with off():
            made = cls.jvp(ctx, *given)
    finally:
        del attributes["_in_jvp"]
    tangents = _one_each(cls, made, len(results))
    for i, (r, t) in enumerate(zip(results, tangents, strict=True)):
        if not isinstance(r, TensorBase):
            if t is not None:
                raise RuntimeError(f"{cls.__name__}: jvp returned a tangent for output {i}, which is no tensor")
        elif t is not None:
            if not isinstance(t, TensorBase):
                raise TypeError(f"{cls.__name__}: jvp must return tensors or None, not {type(t).__name__}")
            set_aligned(r, t)


def _one_each(cls: Any, made: Any, n: int) -> tuple:
    """What a jvp returned, as one tangent for each of n outputs."""
    tangents = made if isinstance(made, tuple) else (made,)
    if len(tangents) != n:
        raise RuntimeError(f"{cls.__name__}: jvp must return one tangent for each of the {n} outputs of forward, it "
                           f"returned {len(tangents)}.")
    return tangents


class Pushing:
    """A block whose Functions keep what their `jvp` needs, since a func.jvp will ask for it."""

    __slots__ = ()

    def __enter__(self) -> None:
        local.n_pushing = getattr(local, "n_pushing", 0) + 1

    def __exit__(self, *error: Any) -> None:
        local.n_pushing -= 1


def pushing() -> bool:
    """Whether a func.jvp runs its function in this thread."""
    return bool(getattr(local, "n_pushing", 0))


@contextmanager
def by_jvp() -> Iterator[None]:
    """A backward in which Functions that have a `jvp` use it."""
    old = transposing()
    local.by_jvp = True
    try:
        yield
    finally:
        local.by_jvp = old


def transposing() -> bool:
    """Whether the backward that runs is that of a func.jvp."""
    return bool(getattr(local, "by_jvp", False))


class Kept:
    """What the transpose of a jvp needs of one call.

    Attributes:
        arguments: for each (shape, dtype, whether a gradient is asked for), or None for what carries no tangent.
        saved: what `save_for_forward` was given, None where it was not called.
    """

    __slots__ = ("arguments", "saved")

    def __init__(self, args: tuple, saved: list | None) -> None:
        self.arguments = [(tuple(shape_of(a)), dtype_of(a), requires(a))
                          if isinstance(a, TensorBase) and state.is_float(dtype_of(a)) else None for a in args]
        self.saved = saved


def transpose(cls: Any, node: Node, ctx: Any, kept: Kept, saved: tuple | None, grads: list) -> list:
    """The gradients of the arguments: those of sum(jvp(tangents) * grads) in the tangents."""
    attributes = ctx.__dict__
    beside = next((g for g in grads if g is not None), None)
    materialize = attributes.get("materialize_grads", True)
    seeds: list[Any] = []
    given: list[Any] = []
    with Recording():
        for a in kept.arguments:
            seed = None
            if a is not None and a[2]:
                seed = zeros(a, beside)
                seed._rg = True
            seeds.append(seed)
            if seed is not None:
                given.append(state.ops.clone(seed))
            else:
                given.append(zeros(a, beside) if a is not None and materialize else None)
        if saved is not None:
            attributes["saved_for_forward"] = saved
        attributes["_in_jvp"] = True
        old, local.by_jvp = transposing(), False
        try:
            made = cls.jvp(ctx, *given)
        finally:
            local.by_jvp = old
            del attributes["_in_jvp"]
            attributes.pop("saved_for_forward", None)
        both = zip(_one_each(cls, made, len(grads)), grads, strict=True)
        pairs = [(t, g) for t, g in both if g is not None and t is not None and requires(t)]
        wanted = [s for s in seeds if s is not None]
        if not pairs or not wanted:
            return [None] * len(seeds)
        found = iter(run_backward([t for t, _ in pairs], [g for _, g in pairs], True, True, wanted, False))
        return [None if s is None else next(found) for s in seeds]


def zeros(meta: tuple, beside: TensorBase | None) -> Any:
    """Zeros of a shape and dtype, on the device of another gradient."""
    shape, dtype = tuple(meta[0]), meta[1]
    return make(np.zeros(shape, dtype)) if beside is None else placed(beside, shape, dtype, lambda: np.zeros(shape, dtype))
