"""Products of matrices and vectors, and linear algebra, on batches."""

from __future__ import annotations

import math
from typing import Any

from flambeau.core.objects import TensorBase, shape_of
from flambeau.core.state import state

from ._call import Call, rank, reshape


def matmul(a: Any, b: Any) -> Any:
    return state.ops.matmul(a, b)


def mm(call: Call) -> Any:
    a, b = call.inputs
    return matmul(call.inner(a), call.inner(b))


def mv(call: Call) -> Any:
    a, v = call.inputs
    if not call.is_batched(v):
        return matmul(call.inner(a), v)
    if not call.is_batched(a):
        return matmul(call.inner(v), a.t())         # (B, n) @ (n, m)
    return state.ops._squeeze_dim(matmul(call.inner(a), state.ops.unsqueeze(call.inner(v), 2)), 2)


def dot(call: Call) -> Any:
    a, b = call.inputs
    x, y = call.inner(a), call.inner(b)
    if shape_of(a) != shape_of(b):
        raise RuntimeError(
            f"inconsistent tensor size, expected tensor [{shape_of(a)[0]}] and src [{shape_of(b)[0]}] to have the same "
            f"number of elements, but got {shape_of(a)[0]} and {shape_of(b)[0]} elements respectively")
    if call.op.name == "vdot":
        x = state.ops.conj(x)
    if not call.is_batched(b):
        return matmul(x, y)
    if not call.is_batched(a):
        return matmul(y, x)
    return state.ops.sum(x * y, (1,), False, None)


def bmm(call: Call) -> Any:
    a, b = call.inputs
    x, y = call.whole(a), call.whole(b)
    n, m, p = shape_of(x)[1], shape_of(x)[2], shape_of(y)[3]
    if n != shape_of(y)[1] or shape_of(x)[3] != shape_of(y)[2]:
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor: [{n}, {shape_of(x)[3]}] but got: "
            f"[{shape_of(y)[1]}, {shape_of(y)[2]}].")
    out = state.ops.bmm(reshape(x, (call.size * n, *shape_of(x)[2:])), reshape(y, (call.size * n, *shape_of(y)[2:])))
    return reshape(out, (call.size, n, m, p))


def _product(call: Call, x: Any, y: Any) -> Any:
    """The product of an operator such as addmm, with its batch."""
    name = call.op.name
    if name == "addr":
        return state.ops.unsqueeze(call.whole(x), 2) * state.ops.unsqueeze(call.whole(y), 1)
    if name in ("baddbmm", "addbmm"):
        p = matmul(call.whole(x), call.whole(y))
        return state.ops.sum(p, (1,), False, None) if name == "addbmm" else p
    if name == "addmv":
        return state.ops._squeeze_dim(matmul(call.whole(x), state.ops.unsqueeze(call.whole(y), 2)), 2)
    return matmul(call.inner(x), call.inner(y))


_RANKS = {"addmm": 2, "addmv": 1, "addr": 2, "baddbmm": 3, "addbmm": 2}       # dimensions of a sample's result


def added(call: Call) -> Any:
    """beta * self + alpha * product."""
    base, x, y = call.inputs
    beta, alpha = call.params
    p = _product(call, x, y)
    if alpha != 1:
        p = p * alpha
    whole = call.op.name != "addmm"         # their products are computed on whole batches
    if beta == 0:
        return p if whole or call.is_batched(x) or call.is_batched(y) else call.whole(p)
    b = call.aligned_to(base, _RANKS[call.op.name])
    return p + (b if beta == 1 else b * beta)


def linear(call: Call) -> Any:
    """input @ weight.T, plus a bias."""
    if len(call.inputs) == 3:
        bias, x, w = call.inputs
    else:
        bias, (x, w) = None, call.inputs
    if call.is_batched(w):
        out = _own_weights(call, x, w)
    else:
        if not call.is_batched(x):              # only the bias is batched
            out = call.whole(state.ops.linear_nd(x, w))
        elif bias is not None and not call.is_batched(bias):
            return state.ops.linear_nd_bias(bias, call.inner(x), w)
        else:
            return state.ops.linear_nd(call.inner(x), w) if bias is None else _plus(
                call, state.ops.linear_nd(call.inner(x), w), bias)
    return out if bias is None else _plus(call, out, bias)


def _plus(call: Call, out: Any, bias: Any) -> Any:
    return out + call.aligned_to(bias, rank(out) - 1)


def _own_weights(call: Call, x: Any, w: Any) -> Any:
    weight = call.inner(w)
    if rank(w) == 1:
        return state.ops.sum(call.whole(x) * call.aligned_to(w, rank(x)), (rank(x),), False, None)
    inner = call.whole(x)
    shape = tuple(shape_of(inner))
    if shape[-1] != shape_of(weight)[2]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({'x'.join(map(str, shape[1:]))} and {shape_of(weight)[2]}x"
            f"{shape_of(weight)[1]}): linear() got an input whose last dimension is {shape[-1]}, the layer expects "
            f"{shape_of(weight)[2]}.")
    rows = state.ops.reshape(inner, (shape[0], math.prod(shape[1:-1]), shape[-1]))
    out = state.ops.bmm(rows, state.ops.transpose(weight, 1, 2))
    return state.ops.reshape(out, (*shape[:-1], shape_of(weight)[1]))


def trace(call: Call) -> Any:
    t = state.ops.diagonal(call.inner(call.inputs[0]), 0, 1, 2)
    return state.ops.sum(t, (1,), False, None)


def matrices(call: Call) -> Any:
    """Operators of stacks of matrices whose leading dimensions broadcast."""
    n = max([rank(t) for t in call.inputs if isinstance(t, TensorBase)])
    values = []
    for t in call.inputs:
        if isinstance(t, TensorBase):
            t = call.whole(t)
            shape = tuple(shape_of(t))
            t = reshape(t, (shape[0], *(1,) * (n + 1 - len(shape)), *shape[1:]))
        values.append(t)
    return call.run(values, call.params)


RULES: dict[str, Any] = {
    "mm": mm,
    "mv": mv,
    "dot": dot,
    "vdot": dot,
    "bmm": bmm,
    "trace": trace,
    **dict.fromkeys(("addmm", "addmv", "addr", "baddbmm", "addbmm"), added),
    **dict.fromkeys(("linear", "linear_bias", "linear_nd", "linear_nd_bias"), linear),
}
