"""Softmax, log-softmax and log-sum-exp along one dimension, and their backward kernels.

All subtract the row's maximum first, but for softmax of moderate numbers. As in PyTorch, a row of -inf (or one holding
+inf) is NaN under softmax and log-softmax, while logsumexp gives -inf (or +inf). float16 and bfloat16 are computed in
float32.

The backward kernels are written in the output, so differentiating them needs only pointwise operators, sums
and these kernels. softmax_backward is linear in g and self-adjoint: its gradient in g is itself.
"""

from __future__ import annotations

import numpy as np

from flambeau.kernels.sums import row_max, row_sum, row_sum_everywhere, square_of_ones

__all__ = ["log_softmax", "log_softmax_backward", "logsumexp", "softmax", "softmax_backward"]

_vdot = getattr(np.vdot, "_implementation", np.vdot)      # without the look at __array_function__
_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)
_MODERATE = 60.0        # exp of it and of its negative, and sums of them, are far from the limits of float32
_FLOATS = "fd"  # dtype.char of float32 and float64: computed as they are


def _sum_along(x: np.ndarray, dim: int) -> np.ndarray:
    """Sum along dim, in a shape that broadcasts to x's."""
    if dim == x.ndim - 1 or dim == -1:
        if x.ndim == 2:
            return row_sum_everywhere(x)
        if x.size > 4096 and x.flags.c_contiguous:
            n = x.shape[-1]
            return row_sum(x.reshape(-1, n)).reshape(*x.shape[:-1], 1)
    return np.add.reduce(x, dim, None, None, True)


def _peak(x: np.ndarray, dim: int) -> np.ndarray:
    """The maximum along dim, in a shape that broadcasts to x's."""
    if dim == -1 or dim == x.ndim - 1:
        return row_max(x)
    return np.maximum.reduce(x, dim, None, None, True)


def _of_one_or_none(x: np.ndarray, result: int) -> np.ndarray:
    """What the reductions cannot take: no dimension, or no element. x - x keeps NaN and infinity's NaN."""
    return np.asarray(x - x + x.dtype.type(result))


def softmax(x: np.ndarray, dim: int) -> np.ndarray:
    """exp(x) / sum(exp(x)) along dim; x's shape and dtype, in row-major order."""
    d = x.dtype
    if not x.flags.c_contiguous:
        x = x.copy()
    if (d is _F32 or d is _F64) and x.ndim == 2:
        rows, columns = x.shape
        # a sum of squares below 3600 says that every magnitude is below 60: no row needs its maximum subtracted
        if rows <= 32 and columns <= 32 and _vdot(x, x).item() < 3600.0:
            out = np.exp(x)
            total = out.dot(square_of_ones(columns, d)) if dim == 1 or dim == -1 else square_of_ones(rows, d).dot(out)
            return np.divide(out, total, out)
    if d.char not in _FLOATS:
        return softmax(x.astype(np.float32), dim).astype(x.dtype)
    if x.size <= 1:
        return _of_one_or_none(x, 1)
    if np.maximum.reduce(x, None) < _MODERATE and np.minimum.reduce(x, None) > -_MODERATE:
        out = np.exp(x)         # two quick reductions of all instead of one along dim, and no subtraction
    else:
        out = np.subtract(x, _peak(x, dim))
        np.exp(out, out)
    return np.divide(out, _sum_along(out, dim), out)


def softmax_backward(g: np.ndarray, out: np.ndarray, dim: int) -> np.ndarray:
    """Gradient of softmax's input, out * (g - sum(g * out)), from its output."""
    if out.dtype.char not in _FLOATS:
        return softmax_backward(g.astype(np.float32), out.astype(np.float32), dim).astype(out.dtype)
    if out.ndim == 0:
        return softmax_backward(g.reshape(1), out.reshape(1), 0).reshape(())
    weighted = np.multiply(g, out)
    total = _sum_along(weighted, dim)
    # out * g - out * total, in the order that needs no further buffer
    return np.subtract(weighted, np.multiply(out, total), weighted)


def log_softmax(x: np.ndarray, dim: int) -> np.ndarray:
    """x - logsumexp(x) along dim; x's shape and dtype, in row-major order."""
    if not x.flags.c_contiguous:
        x = x.copy()
    if x.dtype.char not in _FLOATS:
        return log_softmax(x.astype(np.float32), dim).astype(x.dtype)
    if x.size <= 1:
        return _of_one_or_none(x, 0)
    out = np.subtract(x, _peak(x, dim))
    total = _sum_along(np.exp(out), dim)
    return np.subtract(out, np.log(total, total), out)


def log_softmax_backward(g: np.ndarray, out: np.ndarray, dim: int) -> np.ndarray:
    """Gradient of log_softmax's input, g - exp(out) * sum(g), from its output."""
    if out.dtype.char not in _FLOATS:
        return log_softmax_backward(g.astype(np.float32), out.astype(np.float32), dim).astype(out.dtype)
    if out.ndim == 0:
        return log_softmax_backward(g.reshape(1), out.reshape(1), 0).reshape(())
    probability = np.exp(out)
    np.multiply(probability, _sum_along(g, dim), probability)
    return np.subtract(g, probability, probability)


def logsumexp(x: np.ndarray, dim: int | tuple[int, ...], keepdim: bool = False) -> np.ndarray:
    """log(sum(exp(x))) over dim or several; -inf over nothing. Gradient: g * exp(x - out)."""
    if x.dtype.char not in _FLOATS:
        return logsumexp(x.astype(np.float32), dim, keepdim).astype(x.dtype)
    if x.ndim == 0:
        dim = ()
    peak = np.maximum.reduce(x, dim, None, None, True, -np.inf)
    # An infinite maximum would give inf - inf: exp(x) then overflows to the right answer by itself.
    shift = np.where(np.isinf(peak), peak.dtype.type(0), peak)
    out = np.log(np.add.reduce(np.exp(x - shift), dim, None, None, True)) + shift
    if keepdim or x.ndim == 0:
        return out
    return np.squeeze(out, dim)
