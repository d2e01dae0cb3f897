"""Average pooling with windows of one size, and its adjoint; each is the other's gradient."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod

import numpy as np

from .casting import widen
from .pool_windows import MOST_KEPT, arguments, combine_along, divide, in_order, taps


def _sum_along(x, axis, k, s, p, out):
    if k == x.shape[axis] and p == 0 and out == 1:
        return np.add.reduce(x, axis, keepdims=True)
    return combine_along(x, axis, k, s, p, 1, out, np.add, _zero)


def _zero(dtype: np.dtype) -> int:
    return 0


def _spread_along(g, axis, k, s, p, size):
    """Adjoint of `_sum_along`."""
    shape = list(g.shape)
    shape[axis] = size
    result = np.zeros(shape, g.dtype)
    whole, partial = taps(axis, size, g.shape[axis], k, s, p, 1)
    for at in whole:
        target = result[at]
        np.add(target, g, out=target)
    for source, at in partial:
        target = result[at]
        np.add(target, g[source], out=target)
    return result


def _divisor(size, kernel, stride, padding, out, count_include_pad, divisor_override):
    """What window sums are divided by: a number where all windows agree, else an array (*out)."""
    find = _kept_divisor if prod(out) <= MOST_KEPT else _find_divisor
    return find(size, kernel, stride, padding, out, count_include_pad, divisor_override)


def _find_divisor(size, kernel, stride, padding, out, count_include_pad, divisor_override):
    if divisor_override is not None:
        if divisor_override == 0:
            raise RuntimeError("avg_pool: divisor must be not zero, got divisor_override=0")
        return divisor_override
    counts = np.ones((), np.int64)
    for n, k, s, p, m in zip(size, kernel, stride, padding, out, strict=True):
        low = np.arange(m) * s - p
        high = np.minimum(low + k, n + p)
        if not count_include_pad:
            low, high = np.maximum(low, 0), np.minimum(high, n)
        counts = counts[..., None] * (high - low)
    first = int(counts.flat[0])
    return first if (counts == first).all() else counts


_kept_divisor = lru_cache(maxsize=64)(_find_divisor)


def avg_pool(
    x: np.ndarray,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> np.ndarray:
    """Window means of x (*, *spatial): (*, *out)."""
    ones = (1,) * len(kernel)
    size, kernel, stride, padding, _, out = arguments(x, kernel, stride, padding, ones, ceil_mode)
    divisor = _divisor(size, kernel, stride, padding, out, bool(count_include_pad), divisor_override)
    total = in_order(x).astype(widen(x.dtype), copy=False)
    for axis in range(-len(size), 0):  # rows first: their slices are contiguous, and fewer remain for the last axis
        total = _sum_along(total, axis, kernel[axis], stride[axis], padding[axis], out[axis])
    return divide(total, divisor).astype(x.dtype, copy=False)


def avg_pool_backward(
    g: np.ndarray,
    x_shape: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> np.ndarray:
    """Adjoint of `avg_pool`: g (*, *out) to x_shape. Its own gradient is `avg_pool`, same arguments."""
    nd = len(kernel)
    kernel, padding = tuple(kernel), tuple(padding)
    stride = tuple(stride) if stride else kernel
    size, out = tuple(x_shape)[len(x_shape) - nd :], g.shape[g.ndim - nd :]
    divisor = _divisor(size, kernel, stride, padding, out, bool(count_include_pad), divisor_override)
    dtype = widen(g.dtype)
    if not isinstance(divisor, int):
        divisor = divisor.astype(dtype)
    total = np.divide(g, divisor, dtype=dtype)
    for axis in range(-1, -1 - nd, -1):
        total = _spread_along(total, axis, kernel[axis], stride[axis], padding[axis], size[axis])
    return total.astype(g.dtype, copy=False)
