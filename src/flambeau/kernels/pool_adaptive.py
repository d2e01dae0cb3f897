"""Adaptive pooling: windows from floor(i n / m) to ceil((i + 1) n / m), whose sizes differ where m does not divide n."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from math import prod

import numpy as np

from .casting import widen
from .pool_average import avg_pool
from .pool_max import max_pool_with_indices
from .pool_windows import FEW, MOST_KEPT, at_axis, divide


@lru_cache(maxsize=64)
def _bounds(size: int, out: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Where the windows along an axis begin, and where they end."""
    return (
        tuple([i * size // out for i in range(out)]),
        tuple([-(-(i + 1) * size // out) for i in range(out)]),
    )


@lru_cache(maxsize=64)
def _bound_pairs(size: int, out: int) -> np.ndarray:
    """start, end, start, end, ... of the windows, as `reduceat` takes them; it takes no end that is the size."""
    pairs = [bound for window in zip(*_bounds(size, out), strict=True) for bound in window]
    return np.array(pairs[:-1])


def _adaptive_sum_along(x, axis, out):
    size = x.shape[axis]
    if x.size <= FEW and 0 < out <= size:
        return np.add.reduceat(x, _bound_pairs(size, out), axis)[at_axis(axis, slice(None, None, 2))]
    starts, ends = _bounds(size, out)
    shape = list(x.shape)
    shape[axis] = out
    longest = max([e - s for s, e in zip(starts, ends, strict=True)], default=0)
    if out <= longest:
        total = np.empty(shape, x.dtype)
        for i, (s, e) in enumerate(zip(starts, ends, strict=True)):
            np.add.reduce(x[at_axis(axis, slice(s, e))], axis, out=total[at_axis(axis, slice(i, i + 1))], keepdims=True)
        return total
    start, length = np.array(starts), np.subtract(ends, starts)
    total = x.take(start, axis=axis)
    for t in range(1, longest):
        reached = np.flatnonzero(length > t)
        if len(reached) == out:
            total += x.take(start + t, axis=axis)
        else:
            total[at_axis(axis, reached)] += x.take(start[reached] + t, axis=axis)
    return total


def _divisor(size, out, dtype) -> np.ndarray:
    """How many elements each window has (*out)."""
    find = _kept_divisor if prod(out) <= MOST_KEPT else _find_divisor
    return find(size, out, dtype)


def _find_divisor(size, out, dtype) -> np.ndarray:
    counts = np.ones((), np.int64)
    for n, m in zip(size, out, strict=True):
        starts, ends = _bounds(n, m)
        counts = counts[..., None] * np.subtract(ends, starts)
    return counts.astype(dtype)


_kept_divisor = lru_cache(maxsize=64)(_find_divisor)


def _check_adaptive(shape: Sequence[int], out: Sequence[int]) -> tuple[int, ...]:
    size = tuple(shape)[len(shape) - len(out) :]
    if 0 in size or (len(shape) > len(out) and shape[len(shape) - len(out) - 1] == 0):
        raise RuntimeError(
            f"adaptive pooling: Expected input to have non-zero size for non-batch dimensions, got {list(shape)}"
        )
    return size


def adaptive_avg_pool(x: np.ndarray, out: Sequence[int]) -> np.ndarray:
    """Means of x (*, *spatial) over windows floor(i n / m) to ceil((i + 1) n / m): (*, *out)."""
    nd, out = len(out), tuple(out)
    size = _check_adaptive(x.shape, out)
    if prod(out) == 1:  # the global mean, as most networks end: one reduction
        rows = x.reshape(-1, prod(size)).astype(widen(x.dtype), copy=False)
        mean = np.add.reduce(rows, 1) / rows.dtype.type(prod(size))
        return mean.reshape(x.shape[: x.ndim - nd] + out).astype(x.dtype, copy=False)
    if 0 not in out and all(n % m == 0 for n, m in zip(size, out, strict=True)):
        kernel = tuple([n // m for n, m in zip(size, out, strict=True)])
        return avg_pool(x, kernel, kernel, (0,) * nd, False, True, None)
    total = x.astype(widen(x.dtype), copy=False)
    for axis in range(-nd, 0):
        total = _adaptive_sum_along(total, axis, out[axis])
    return divide(total, _divisor(size, out, total.dtype)).astype(x.dtype, copy=False)


def adaptive_avg_pool_backward(g: np.ndarray, x_shape: Sequence[int]) -> np.ndarray:
    """Adjoint of `adaptive_avg_pool`: g (*, *out) to x_shape, as long. Its own gradient is `adaptive_avg_pool`."""
    nd = _spatial_dims(g.shape, x_shape)
    size, out = tuple(x_shape)[len(x_shape) - nd :], g.shape[g.ndim - nd :]
    dtype = widen(g.dtype)
    total = np.divide(g, _divisor(size, out, dtype), dtype=dtype)
    for axis in range(-1, -1 - nd, -1):
        shape = list(total.shape)
        shape[axis] = size[axis]
        result = np.zeros(shape, dtype)
        for i, (s, e) in enumerate(zip(*_bounds(size[axis], out[axis]), strict=True)):
            result[at_axis(axis, slice(s, e))] += total[at_axis(axis, slice(i, i + 1))]
        total = result
    return total.astype(g.dtype, copy=False)


def _spatial_dims(g_shape: Sequence[int], x_shape: Sequence[int]) -> int:
    """The trailing dimensions in which the shapes differ: equal ones are pooled by the identity."""
    for i, (a, b) in enumerate(zip(g_shape, x_shape, strict=True)):
        if a != b:
            return len(g_shape) - i
    return 0


def row_argmax(rows: np.ndarray) -> np.ndarray:
    """Position of each row's maximum: the first, or the last NaN."""
    position = rows.argmax(axis=1)
    if rows.dtype.kind not in "iub":
        nan = np.isnan(rows)
        if nan.any():
            last = rows.shape[1] - 1 - nan[:, ::-1].argmax(axis=1)
            position = np.where(nan.any(axis=1), last, position)
    return position


@lru_cache(maxsize=64)
def _window_table(size: tuple[int, ...], out: tuple[int, ...]) -> np.ndarray:
    """The flat positions of each window, (windows, elements); shorter windows repeat their last row or column."""
    table = np.zeros((1, 1), np.int64)
    for n, m in zip(size, out, strict=True):
        starts, ends = _bounds(n, m)
        longest = max([e - s for s, e in zip(starts, ends, strict=True)])
        positions = np.minimum(np.array(starts)[:, None] + np.arange(longest), np.array(ends)[:, None] - 1)
        table = (table[:, None, :, None] * n + positions[None, :, None, :]).reshape(table.shape[0] * m, -1)
    return table


def adaptive_max_pool(x: np.ndarray, out: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Maxima over the windows of `adaptive_avg_pool`, and their flat spatial indices (int64).

    Backward is `scatter_spatial(g, indices, spatial shape of x)`.
    """
    nd, out = len(out), tuple(out)
    size = _check_adaptive(x.shape, out)
    if prod(out) > 16 and all(n % m == 0 for n, m in zip(size, out, strict=True)):
        kernel = tuple([n // m for n, m in zip(size, out, strict=True)])
        return max_pool_with_indices(x, kernel, kernel, (0,) * nd, (1,) * nd, False)
    lead = x.shape[: x.ndim - nd]
    if 0 < x.size <= FEW and x.dtype.kind in "fiu" and 0 < prod(out) <= FEW:
        table = _window_table(size, out)
        windows = x.reshape(-1, prod(size)).take(table, 1)
        code = windows.argmax(-1)
        code += np.arange(0, table.size, table.shape[1])
        indices = table.reshape(-1).take(code)
        code += np.arange(0, windows.size, table.size)[:, None]
        maxima = windows.reshape(-1).take(code)
        if np.count_nonzero(maxima == maxima) == maxima.size:
            return maxima.reshape(lead + out), indices.reshape(lead + out)
    planes = x.reshape(prod(lead), *size)
    maxima = np.empty((planes.shape[0], *out), x.dtype)
    indices = np.empty((planes.shape[0], *out), np.int64)
    flat = np.arange(prod(size)).reshape(size)
    bounds = [list(zip(*_bounds(n, m), strict=True)) for n, m in zip(size, out, strict=True)]
    row = np.arange(planes.shape[0])
    for cell in product(*map(range, out)):
        window = tuple([slice(*bounds[axis][i]) for axis, i in enumerate(cell)])
        rows = planes[(slice(None), *window)].reshape(planes.shape[0], flat[window].size)
        position = row_argmax(rows) if rows.size else np.zeros(0, np.int64)
        maxima[(slice(None), *cell)] = rows[row, position]
        indices[(slice(None), *cell)] = flat[window].reshape(-1)[position]
    return maxima.reshape(lead + out), indices.reshape(lead + out)
