"""Random operators in vmap: refused, drawn for each sample, or drawn once for all.

`randomness="different"` draws with the batch as one more dimension; "same" draws what one sample needs and every sample
sees it; "error", the default, raises. Each level decides, the deepest first: below it the others are asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from flambeau.autograd._rerun import rerun
from flambeau.core.apply import INPLACE
from flambeau.core.errors import AutogradError
from flambeau.core.inplace import apply_inplace2
from flambeau.core.objects import TensorBase, requires, shape_of
from flambeau.core.op import Op, slot
from flambeau.ops._mapped import creator

from ._call import Call
from ._levels import VmapLevel, levels, wrap
from ._rules import rule_of

COPY = slot("copy")
SHAPE_ONLY = {"dropout_noise"}      # operators whose draws read only the shape of their input


def check(name: str, level: VmapLevel) -> None:
    """Raise where a level's randomness is "error"."""
    if level.randomness == "error":
        raise RuntimeError(
            f"vmap: called random operation {name}() while in randomness error mode: say what it means for a batch by "
            "vmap(..., randomness='different'), a draw for each sample, or randomness='same', one draw for all.")


@contextmanager
def above(level: VmapLevel) -> Iterator[None]:
    """Only levels outside of this one are asked."""
    stack = levels()
    hidden = [x for x in stack if x.depth >= level.depth]
    del stack[len(stack) - len(hidden):]
    try:
        yield
    finally:
        stack.extend(hidden)


def created(function: str, make: Callable[[tuple], TensorBase], shape: tuple) -> Any:
    """A new random tensor: make(shape), with the batches of the levels that ask for different draws."""
    if not levels():
        return NotImplemented
    different: list[VmapLevel] = []
    for level in levels():
        check(function, level)
        if level.randomness == "different":
            different.append(level)
    out = make((*[level.size for level in different], *shape))
    for level in different:
        out = wrap(out, level)
    return out


def drawn(op: Op, inputs: tuple, params: Any, kind: int) -> Any:
    """A random operator, as the deepest level has it."""
    level = levels()[-1]
    check(op.name, level)
    call = Call(op, level, inputs, params, kind)
    return _different(call) if level.randomness == "different" else _same(call)


def _different(call: Call) -> Any:
    target, level = call.inputs[0], call.level
    if call.kind != INPLACE:
        with above(level):
            whole = call
            for i, t in enumerate(call.inputs):
                if isinstance(t, TensorBase):
                    whole = whole.with_input(i, wrap(call.whole(t), level))
            out = rule_of(call.op)(whole)
        return [wrap(o, level) for o in out] if isinstance(out, (list, tuple)) else wrap(out, level)
    if not call.is_batched(target):
        raise AutogradError(
            f"vmap: Cannot ask for different inplace randomness on an unbatched tensor: {call.op.name}() would write a draw "
            "for each sample into one tensor. Use the out-of-place form, or randomness='same'.")
    with above(level):
        rerun(call.op, tuple([call.aligned_to(t, len(shape_of(target))) for t in call.inputs]), call.params, INPLACE)
    target._rg = requires(target._lazy.inner)
    return target


def _same(call: Call) -> Any:
    op, target, level = call.op, call.inputs[0], call.level
    if any(call.is_batched(t) for t in call.inputs[1:]) or (
            call.is_batched(target) and call.kind != INPLACE and op.name not in SHAPE_ONLY):
        raise RuntimeError(
            f"vmap: {op.name}() with randomness='same' is given batched tensors: its draws depend on them, so that they "
            "cannot be the same for each sample. Use randomness='different'.")
    with above(level):
        if not call.is_batched(target):
            return rerun(op, tuple(call.inputs), call.params, call.kind)
        one = target._lazy.inner.select(0, 0)
        if call.kind != INPLACE:
            return rerun(op, (one, *call.inputs[1:]), call.params, call.kind)
        made = rerun(op, (one.detach().clone(), *call.inputs[1:]), call.params, INPLACE)
        apply_inplace2(COPY, target._lazy.inner, made)
    target._rg = requires(target._lazy.inner)
    return target


creator[:] = [created]
