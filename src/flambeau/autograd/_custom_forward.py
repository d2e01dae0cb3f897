"""Forward mode of custom functions: `jvp`."""

from __future__ import annotations

from typing import Any

from flambeau.core.objects import TensorBase
from flambeau.core.state import state

from ._tangents import any_level, any_tangent, materialized, off, set_aligned, tangent_of

__all__ = ["any_level", "any_tangent", "off", "run_jvp"]


def run_jvp(cls: Any, ctx: Any, args: tuple, results: list, dirty: tuple, single: bool) -> None:
    """Give the outputs the tangents that the user's jvp computes from those of the inputs."""
    attributes = ctx.__dict__
    zeros = attributes.get("materialize_grads", True)
    given = []
    for a in args:
        t = tangent_of(a) if isinstance(a, TensorBase) else None
        if t is None and zeros and isinstance(a, TensorBase) and state.is_float(a._array.dtype):
            t = materialized(a)
        given.append(t)
    attributes["_in_jvp"] = True
    try:
        with off():
            made = cls.jvp(ctx, *given)
    finally:
        del attributes["_in_jvp"]
    tangents = made if isinstance(made, tuple) else (made,)
    if len(tangents) != len(results):
        raise RuntimeError(
            f"{cls.__name__}: jvp must return one tangent for each of the {len(results)} outputs of forward, it "
            f"returned {len(tangents)}.")
    for i, (r, t) in enumerate(zip(results, tangents, strict=True)):
        if not isinstance(r, TensorBase):
            if t is not None:
                raise RuntimeError(f"{cls.__name__}: jvp returned a tangent for output {i}, which is no tensor")
        elif t is not None:
            if not isinstance(t, TensorBase):
                raise TypeError(f"{cls.__name__}: jvp must return tensors or None, not {type(t).__name__}")
            set_aligned(r, t)


