"""An operator on batched tensors: the deepest level among its inputs is taken off, and a batching rule answers.

A rule calls ordinary operators on the inner tensors, whose first dimension is the batch; those inner tensors may be
batched at an outer level, and so come here again.
"""

from __future__ import annotations

from typing import Any

from flambeau.autograd._rerun import rerun
from flambeau.core.apply import INPLACE
from flambeau.core.errors import AutogradError
from flambeau.core.inplace import apply_inplace2
from flambeau.core.objects import TensorBase, dtype_of, requires, shape_of
from flambeau.core.op import Op, slot
from flambeau.core.state import state
from flambeau.kernels.services import refuse_cast

from . import _randomness
from ._call import Call
from ._levels import Batched, VmapLevel, innermost, interceptor, is_batched_at, levels, wrap
from ._rules import rule_of
from ._rules_pointwise import aligned

COPY = slot("copy")


def dispatch(op: Op, inputs: tuple, params: Any, kind: int) -> Any:
    """The result of an operator, batched at the deepest level of its inputs; NotImplemented where none is batched.

    While a vmap runs every operator is shown here, and an operator of a batched tensor always.
    """
    if op.random and levels():
        return _randomness.drawn(op, inputs, params, kind)
    level = innermost(inputs)
    if level is None:
        return NotImplemented
    if not level.alive:
        raise RuntimeError(
            f"{op.name}(): a tensor is used after the vmap that it was made in has returned: it stands for a batch that is "
            "no more. Return it from the mapped function instead of keeping it.")
    if kind == INPLACE and not is_batched_at(inputs[0], level):
        return _write_into_unbatched(op, inputs, params, level)
    call = Call(op, level, inputs, params, kind)
    if kind == INPLACE:
        written = _inplace(call)
        if written is not NotImplemented:
            written._rg = requires(written._lazy.inner)
        return written
    out = rule_of(op)(call)
    if out is NotImplemented:
        return out
    if isinstance(out, (list, tuple)):
        return [wrap(o, level) for o in out]
    return wrap(out, level)


def _inplace(call: Call) -> Any:
    """Write the rule's result into the inner tensor of the target."""
    op, target = call.op, call.inputs[0]
    inner = target._lazy.inner
    if op.is_copy or (op.pointwise and op.inplace is not None and not _widens(call)):
        values = aligned(call, len(shape_of(target)))
        out = rerun(op, tuple(values), call.params, INPLACE)
        return out if out is NotImplemented else target
    old = call
    if inner.requires_grad:                         # the rule's formulas may save what is about to be written
        old = call.with_input(0, wrap(state.ops.clone(inner), call.level))
    made = rule_of(op)(old)
    if made is NotImplemented:
        return made
    if tuple(shape_of(made)) != tuple(shape_of(inner)):
        raise RuntimeError(
            f"output with shape {list(shape_of(inner)[1:])} doesn't match the broadcast shape {list(shape_of(made)[1:])}: "
            f"{op.name}_ cannot change the tensor's shape. Use the out-of-place form.")
    refuse_cast(dtype_of(made), dtype_of(inner))
    apply_inplace2(COPY, inner, made)
    return target


def _widens(call: Call) -> bool:
    """Whether another input has more dimensions than the target."""
    n = len(shape_of(call.inputs[0]))
    return any(isinstance(t, TensorBase) and len(shape_of(t)) > n for t in call.inputs[1:])


def _write_into_unbatched(op: Op, inputs: tuple, params: Any, level: VmapLevel) -> Any:
    name = op.name if op.name.endswith("_") else op.name + "_"
    raise AutogradError(
        f"vmap: inplace arithmetic(self, *extra_args) is not possible: {name}() would write a value for each sample of the "
        f"batch of {level.size} into one tensor (of shape {list(shape_of(inputs[0]))}) that all samples share. Use the "
        "out-of-place form, or make the target from a batched tensor, as in torch.zeros_like(x) or x.new_zeros(...).")


Batched.operate = staticmethod(dispatch)
interceptor[:] = [dispatch]
