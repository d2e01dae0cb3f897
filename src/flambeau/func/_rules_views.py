"""Views and changes of shape on batches: the batch stays the first dimension."""

from __future__ import annotations

import math
from typing import Any

from flambeau.core.apply import apply1
from flambeau.core.objects import shape_of
from flambeau.core.op import slot
from flambeau.core.state import state
from flambeau.kernels import strides as _strides

from ._call import Call, rank
from ._levels import wrap
from ._rules_pointwise import broadcast

ALIAS, SQUEEZE_DIMS, TRANSPOSE = slot("alias"), slot("squeeze_dims"), slot("transpose")
UNSQUEEZE, SUM, CLONE, DIAGONAL = slot("unsqueeze"), slot("sum"), slot("clone"), slot("diagonal")


def as_is(call: Call) -> Any:
    """An operator of one tensor that keeps its shape."""
    return call.run([call.inner(call.inputs[0])], call.params)


def view(call: Call) -> Any:
    t = call.inputs[0]
    shape = _strides.infer_shape(tuple(call.params[0]), math.prod(shape_of(t)))
    inner = call.inner(t)
    full = (call.size, *shape)
    if call.op.view and _strides.view_strides(tuple(shape_of(inner)), tuple(inner.stride()), full) is None and 0 not in full:
        return state.ops.reshape(inner, full)       # the batch lies between the sample's elements: a copy
    return call.run([inner], (full,))


def expand(call: Call) -> Any:
    t, size = call.inputs[0], tuple(call.params[0])
    if len(size) < rank(t):
        raise RuntimeError(
            f"expand: the number of sizes provided ({len(size)}) must be greater or equal to the number of dimensions in "
            f"the tensor ({rank(t)})")
    return call.run([call.aligned_to(t, len(size))], ((call.size, *size),))


def sum_to(call: Call) -> Any:
    t, shape = call.inputs[0], tuple(call.params[0])
    inner = call.inner(t)
    extra = rank(t) - len(shape)
    if extra > 0:
        inner = apply1(SUM, inner, (tuple(range(1, extra + 1)), False, None))
    return inner if tuple(shape_of(inner)[1:]) == shape else call.run([inner], ((call.size, *shape),))


def squeeze(call: Call) -> Any:
    inner = call.inner(call.inputs[0])
    ones = tuple([d for d, n in enumerate(shape_of(inner)) if n == 1 and d > 0])
    return apply1(SQUEEZE_DIMS, inner, (ones,)) if ones else apply1(ALIAS, inner)


def transposed(call: Call) -> Any:
    inner = call.inner(call.inputs[0])
    return apply1(TRANSPOSE, inner, (1, 2)) if rank(inner) == 3 else apply1(ALIAS, inner)


def transpose(call: Call) -> Any:
    inner = call.inner(call.inputs[0])
    n = rank(inner) - 1
    if n == 0:
        return apply1(ALIAS, inner)
    a, b = [d % n + 1 for d in call.params]
    return call.run([inner], (a, b))


def permute(call: Call) -> Any:
    inner = call.inner(call.inputs[0])
    n = rank(inner) - 1
    return call.run([inner], ((0, *[d % n + 1 for d in call.params[0]]),))


def squeeze_dims(call: Call) -> Any:
    """squeeze of given dimensions; of a scalar sample there is nothing to squeeze."""
    inner = call.inner(call.inputs[0])
    n = rank(inner) - 1
    if n == 0:
        return apply1(ALIAS, inner)
    given = call.params[0]
    dims = [d % n + 1 for d in (given if isinstance(given, (tuple, list)) else (given,))]
    return call.run([inner], (tuple(dims) if isinstance(given, (tuple, list)) else dims[0],))


def repeat(call: Call) -> Any:
    sizes = tuple(call.params[0])
    return call.run([call.aligned_to(call.inputs[0], len(sizes))], ((1, *sizes),))


def clone(call: Call) -> Any:
    formats = call.params[0]
    inner = call.inner(call.inputs[0])
    return call.run([inner], ("preserve" if str(formats).startswith("channels") else formats,))


def clone_as(call: Call) -> Any:
    inner = call.inner(call.inputs[0])
    given = tuple(call.params[0])
    shape = shape_of(inner)
    outer = sum([abs(s) * n for s, n in zip(given, shape[1:], strict=True)]) or 1
    return call.run([inner], ((outer, *given),))


def to_copy(call: Call) -> Any:
    inner = call.inner(call.inputs[0])
    dtype, formats = call.params
    return call.run([inner], (dtype, "preserve" if str(formats).startswith("channels") else formats))


def roll(call: Call) -> Any:
    shifts, dims = call.params
    inner = call.inner(call.inputs[0])
    n = rank(inner) - 1
    if not dims and dims != 0 or n == 0:
        shape = tuple(shape_of(inner))
        flat = state.ops.reshape(inner, (call.size, -1 if inner.numel() else 0))
        shift = shifts[0] if isinstance(shifts, (tuple, list)) else shifts
        return state.ops.reshape(call.run([flat], ((shift,), (1,))), shape)
    many = dims if isinstance(dims, (tuple, list)) else (dims,)
    moved = tuple([d % n + 1 for d in many])
    return call.run([inner], (shifts if isinstance(shifts, (tuple, list)) else (shifts,), moved))


def filled(call: Call) -> Any:
    """Broadcasting into the first input, whose shape the result has."""
    return broadcast(call.with_input(0, wrap(call.whole(call.inputs[0]), call.level)))


def diagonal_of(call: Call) -> Any:
    """The diagonal of a matrix, copied."""
    inner = call.inner(call.inputs[0])
    return apply1(CLONE, apply1(DIAGONAL, inner, (call.params[0], 1, 2)), ("contiguous",))


def as_strided(call: Call) -> Any:
    """The same steps in the memory of each sample."""
    size, stride, offset, _ = call.params
    inner = call.inner(call.inputs[0])
    start = inner.storage_offset() if offset is None else offset
    return state.public("as_strided")(inner, (call.size, *size), (inner.stride(0), *stride), start)


def unfold(call: Call) -> Any:
    dim, size, step = call.params
    inner = call.inner(call.inputs[0])
    n = rank(inner) - 1
    if n == 0:              # a scalar has one window
        return apply1(UNSQUEEZE, inner, (1,)) if size else state.ops.reshape(inner, (call.size, 1)).narrow(1, 0, 0)
    return call.run([inner], (dim % n + 1, size, step))


RULES: dict[str, Any] = {
    **dict.fromkeys(("alias", "zeros_like", "ones_like", "cast"), as_is),
    **dict.fromkeys(("masked_fill", "masked_fill_tensor", "fill_tensor"), filled),
    **dict.fromkeys(("view", "_unsafe_view"), view),
    **dict.fromkeys(("squeeze_dim", "squeeze_dims", "_squeeze_dim"), squeeze_dims),
    "expand": expand,
    "sum_to": sum_to,
    "squeeze": squeeze,
    "t": transposed,
    "transpose": transpose,
    "permute": permute,
    "repeat": repeat,
    "clone": clone,
    "clone_as": clone_as,
    "to_copy": to_copy,
    "roll": roll,
    "as_strided": as_strided,
    "unfold_dim": unfold,
    "diagonal_of": diagonal_of,
}
