"""Tangents of tensors: forward mode keeps in `t._tangent` the derivative of t in the direction that is followed."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from flambeau.core.interception import FORWARD_MODE, limit, set_limit
from flambeau.core.objects import TensorBase, array_of, make, requires
from flambeau.core.state import local, state


class Level:
    """One `dual_level`: what carries a tangent in it."""

    def __init__(self) -> None:
        self.tensors: list[weakref.ref] = []


_levels: list[Level] = []


def any_level() -> bool:
    """Whether some forward-mode level is entered."""
    return bool(_levels)


def active() -> bool:
    """Whether forward mode is on in this thread."""
    return bool(_levels) and getattr(local, "forward_mode", True)


@contextmanager
def off() -> Iterator[None]:
    """No tangents are computed inside, in this thread."""
    if not _levels:
        yield
        return
    old = limit()
    if old > FORWARD_MODE:
        set_limit(FORWARD_MODE)
    try:
        yield
    finally:
        set_limit(old)


def tangent_of(t: TensorBase) -> TensorBase | None:
    """The tangent of t; that of a view is the same view of its base's."""
    own = t._tangent
    if own is not None or not _levels:
        return own
    v = t._view
    if v is not None and v.base._tangent is not None:
        from flambeau.core.engine import replay_tensor

        with off():
            found = replay_tensor(v, v.base._tangent)
        set_tangent(t, found)
        return found
    return None


def set_tangent(t: TensorBase, tangent: TensorBase) -> None:
    """Make tangent that of t, until the level ends."""
    t._tangent = tangent
    if _levels:
        _levels[-1].tensors.append(weakref.ref(t))


def set_aligned(t: TensorBase, tangent: TensorBase) -> None:
    """set_tangent, with the tangent in t's memory order: a view of t taken later is then a view of the tangent too."""
    a, b = array_of(t), array_of(tangent)
    if a.ndim > 1 and a.strides != b.strides and a.size and 0 not in a.strides:
        with off():
            tangent = state.ops.clone_as(tangent, a.strides)
    set_tangent(t, tangent)


def cut(t: TensorBase) -> TensorBase:
    """t without its graph, but with its tangent."""
    d = make(array_of(t))
    d._cell = t._cell
    if t._tangent is not None:
        tangent = t._tangent
        set_tangent(d, make(array_of(tangent)) if requires(tangent) else tangent)
    return d


def any_tangent(values: Any) -> bool:
    """Whether some tensor among values has a tangent."""
    return bool(_levels) and any(isinstance(v, TensorBase) and tangent_of(v) is not None for v in values)


def materialized(t: TensorBase) -> TensorBase:
    """A tangent of zeros."""
    return make(np.zeros_like(array_of(t)))


