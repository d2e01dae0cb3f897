"""Random operators in vmap: refused, drawn for each sample, or drawn once for all.

`randomness="different"` draws with the batch as one more dimension; "same" draws what one sample needs and every sample
sees it; "error", the default, raises.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.autograd._rerun import rerun
from flambeau.core.apply import INPLACE
from flambeau.core.inplace import apply_inplace2
from flambeau.core.objects import TensorBase, shape_of
from flambeau.core.op import Op, slot

from flambeau.ops._mapped import creator

from ._levels import VmapLevel, is_batched, levels, wrap

COPY = slot("copy")
SHAPE_ONLY = {"dropout_noise"}      # operators whose draws read only the shape of their input


def check(name: str, level: VmapLevel) -> None:
    """Raise where a level's randomness is "error"."""
    if level.randomness == "error":
        raise RuntimeError(
            f"vmap: called random operation {name}() while in randomness error mode: say what it means for a batch by "
            "vmap(..., randomness='different'), a draw for each sample, or randomness='same', one draw for all.")


def created(function: str, make: Callable[[tuple], TensorBase], shape: tuple) -> TensorBase:
    """A new random tensor: make(shape), with the batches of the levels that ask for different draws."""
    stack = levels()
    if not stack:
        return make(shape)
    different: list[VmapLevel] = []
    for level in stack:
        check(function, level)
        if level.randomness == "different":
            different.append(level)
    out = make((*[level.size for level in different], *shape))
    for level in different:
        out = wrap(out, level)
    return out


def unbatched(op: Op, inputs: tuple, params: Any, kind: int) -> Any:
    """A random operator on ordinary tensors inside vmap."""
    level = levels()[-1]
    check(op.name, level)
    if level.randomness == "same":
        return NotImplemented
    if kind == INPLACE:
        raise RuntimeError(
            f"vmap: Cannot ask for different inplace randomness on an unbatched tensor: {op.name}() would write a draw for "
            "each sample into one tensor. Use the out-of-place form, or randomness='same'.")
    wide = tuple(_expanded(t, level) for t in inputs)
    out = rerun(op, wide, params, kind)
    return [wrap(o, level) for o in out] if isinstance(out, (list, tuple)) else wrap(out, level)


def _expanded(t: Any, level: VmapLevel) -> Any:
    return t.unsqueeze(0).expand(level.size, *shape_of(t)) if isinstance(t, TensorBase) else t


def batched(call: Any) -> Any:
    """A random operator of which some input is batched, at the deepest level of this thread."""
    op, level = call.op, call.level
    check(op.name, level)
    target = call.inputs[0]
    if level.randomness == "different":
        from ._rules import rule_of

        if call.kind == INPLACE:
            values = [call.aligned_to(t, len(shape_of(target))) for t in call.inputs]
            rerun(op, tuple(values), call.params, INPLACE)
            return target
        out = rule_of(op)(call)
        return [wrap(o, level) for o in out] if isinstance(out, (list, tuple)) else wrap(out, level)
    if not is_batched(target) or target._lazy.level is not level:
        return _below(call)
    one = target._lazy.inner.select(0, 0)
    if call.kind == INPLACE:
        if any(call.is_batched(t) for t in call.inputs[1:]):
            raise _batched_parameters(op)
        drawn = rerun(op, (one.detach().clone(), *call.inputs[1:]), call.params, INPLACE)
        apply_inplace2(COPY, target._lazy.inner, drawn)
        return target
    if op.name not in SHAPE_ONLY:
        raise _batched_parameters(op)
    return rerun(op, (one, *call.inputs[1:]), call.params, call.kind)


def _below(call: Any) -> Any:
    """At a level of randomness="same" nothing is batched: the next level decides."""
    if any(call.is_batched(t) for t in call.inputs):
        raise _batched_parameters(call.op)
    from ._dispatch import dispatch

    stack = levels()
    stack.pop()
    try:
        return dispatch(call.op, tuple(call.inputs), call.params, call.kind)
    finally:
        stack.append(call.level)


def _batched_parameters(op: Op) -> RuntimeError:
    return RuntimeError(
        f"vmap: {op.name}() with randomness='same' is given batched tensors: its draws depend on them, so that they cannot "
        "be the same for each sample. Use randomness='different'.")


creator[:] = [created]
