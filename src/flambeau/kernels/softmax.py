"""Softmax, log-softmax and log-sum-exp along one dimension, and their backward kernels.

All subtract the row's maximum first. As in PyTorch, a row of -inf (or one holding +inf) is NaN under softmax
and log-softmax, while logsumexp gives -inf (or +inf). float16 and bfloat16 are computed in float32.

The backward kernels are written in the output, so differentiating them needs only pointwise operators, sums
and these kernels. softmax_backward is linear in g and self-adjoint: its gradient in g is itself.
"""

from __future__ import annotations

import numpy as np

__all__ = ["log_softmax", "log_softmax_backward", "logsumexp", "softmax", "softmax_backward"]

_FLOATS = "fd"  # dtype.char of float32 and float64: computed as they are
_ones_cache: dict[tuple[int, str], np.ndarray] = {}


def _row_sum(x: np.ndarray, axis: int) -> np.ndarray:
    """Sum along axis, kept. Short last axes go through BLAS: 0.4 us a call against 1.0 for the reduction.

    Longer ones do not: the reduction sums pairwise, the product need not.
    """
    if (axis == -1 or axis == x.ndim - 1) and 0 < x.shape[-1] <= 64 and x.ndim == 2:
        n = x.shape[-1]
        key = (n, x.dtype.char)
        ones = _ones_cache.get(key)
        if ones is None:
            ones = _ones_cache[key] = np.ones((n, 1), x.dtype)
        return x.dot(ones)
    return np.add.reduce(x, axis, None, None, True)


def softmax(x: np.ndarray, dim: int) -> np.ndarray:
    """exp(x) / sum(exp(x)) along dim; x's shape and dtype."""
    if x.dtype.char not in _FLOATS:
        return softmax(x.astype(np.float32), dim).astype(x.dtype)
    if x.ndim == 0:
        return softmax(x.reshape(1), 0).reshape(())
    if x.size == 0:
        return np.empty(x.shape, x.dtype)
    out = np.subtract(x, np.maximum.reduce(x, dim, None, None, True))
    np.exp(out, out)
    return np.divide(out, _row_sum(out, dim), out)


def softmax_backward(g: np.ndarray, out: np.ndarray, dim: int) -> np.ndarray:
    """Gradient of softmax's input, out * (g - sum(g * out)), from its output."""
    if out.dtype.char not in _FLOATS:
        return softmax_backward(g.astype(np.float32), out.astype(np.float32), dim).astype(out.dtype)
    if out.ndim == 0:
        return softmax_backward(g.reshape(1), out.reshape(1), 0).reshape(())
    weighted = np.multiply(g, out)
    total = _row_sum(weighted, dim)
    # out * g - out * total, in the order that needs no further buffer
    return np.subtract(weighted, np.multiply(out, total), weighted)


def log_softmax(x: np.ndarray, dim: int) -> np.ndarray:
    """x - logsumexp(x) along dim; x's shape and dtype."""
    if x.dtype.char not in _FLOATS:
        return log_softmax(x.astype(np.float32), dim).astype(x.dtype)
    if x.ndim == 0:
        return log_softmax(x.reshape(1), 0).reshape(())
    if x.size == 0:
        return np.empty(x.shape, x.dtype)
    out = np.subtract(x, np.maximum.reduce(x, dim, None, None, True))
    total = _row_sum(np.exp(out), dim)
    return np.subtract(out, np.log(total, total), out)


def log_softmax_backward(g: np.ndarray, out: np.ndarray, dim: int) -> np.ndarray:
    """Gradient of log_softmax's input, g - exp(out) * sum(g), from its output."""
    if out.dtype.char not in _FLOATS:
        return log_softmax_backward(g.astype(np.float32), out.astype(np.float32), dim).astype(out.dtype)
    if out.ndim == 0:
        return log_softmax_backward(g.reshape(1), out.reshape(1), 0).reshape(())
    probability = np.exp(out)
    np.multiply(probability, _row_sum(g, dim), probability)
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
