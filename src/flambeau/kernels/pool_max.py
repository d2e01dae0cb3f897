"""Max pooling with windows of one size, and what follows positions: gather, scatter and unpooling.

The last axis goes first: only then is the first of equal elements, in row-major order, the one found.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod

import numpy as np

from .casting import widen
from .pool_windows import FEW, MOST_KEPT, arguments, at_axis, combine_along, in_order, lowest, tap_slices

# Elements of input reduced at a time: the slices, the running maximum and the tap codes stay in the cache.
_BLOCK = 1 << 16


def _max_along(x, axis, k, s, p, d, out):
    return combine_along(x, axis, k, s, p, d, out, np.maximum, lowest)


def _max_along_with_code(x, code, axis, k, s, p, d, out, scale, code_type, nan):
    """Maxima along axis and, for each, its tap's code: `scale` times the tap, plus the code already there.

    Codes of later taps are larger, so the update is an unsigned maximum with `mask * code`: a vector
    instruction where a masked assignment would branch.
    """
    size = x.shape[axis]
    shape = list(x.shape)
    shape[axis] = out
    ranges = [tap_slices(size, out, t, s, p, d) for t in range(k)]
    if ranges[0] == (slice(0, out), slice(0, (out - 1) * s + 1, s)):
        best = x[at_axis(axis, ranges[0][1])].copy()
        codes = np.zeros(shape, code_type) if code is None else code[at_axis(axis, ranges[0][1])].copy()
        first = 1
    else:  # padded: a window whose every element is -inf reports its first element inside the input
        best = np.full(shape, lowest(x.dtype), x.dtype)
        start = np.arange(out) * s - p
        tap = np.maximum(0, -(start // d))
        codes = np.empty(shape, code_type)
        codes[...] = (tap * scale).astype(code_type).reshape((-1,) + (1,) * (-1 - axis))
        if code is not None:
            codes += code.take(np.minimum(start + tap * d, size - 1), axis=axis)
        first = 0
    for t in range(first, k):
        if ranges[t] is None:
            continue
        target, source = at_axis(axis, ranges[t][0]), at_axis(axis, ranges[t][1])
        value = x[source]
        if axis == -1 and s > 1:  # one strided pass instead of two
            value = value.copy()
        best_part, code_part = best[target], codes[target]
        mask = np.greater(value, best_part)
        if nan:
            mask |= value != value
        candidate = code_type(t * scale)
        if code is not None:
            candidate = code[source] + candidate
        winner = np.multiply(mask.view(np.uint8), candidate, dtype=code_type)
        np.maximum(code_part, winner, out=code_part)
        np.maximum(best_part, value, out=best_part)
    return best, codes


def _code_tables(size, kernel, stride, padding, dilation, out):
    """Flat index of a window's start, per position, and the offset to it, per tap code."""
    find = _kept_tables if max(prod(out), prod(kernel)) <= MOST_KEPT else _find_tables
    return find(size, kernel, stride, padding, dilation, out)


def _find_tables(size, kernel, stride, padding, dilation, out):
    starts, offsets = np.zeros((), np.int64), np.zeros((), np.int64)
    for n, k, s, p, d, m in zip(size, kernel, stride, padding, dilation, out, strict=True):
        starts = starts[..., None] * n + np.arange(m, dtype=np.int64) * s - p
        offsets = offsets[..., None] * n + np.arange(k, dtype=np.int64) * d
    return starts, offsets.reshape(-1)


_kept_tables = lru_cache(maxsize=64)(_find_tables)


def max_pool(
    x: np.ndarray,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> np.ndarray:
    """Window maxima, as `max_pool_with_indices` without the indices (half the time)."""
    size, kernel, stride, padding, dilation, out = arguments(x, kernel, stride, padding, dilation, ceil_mode)
    if x.size <= _BLOCK:
        x = in_order(x)
        for axis in range(-1, -1 - len(size), -1):
            x = _max_along(x, axis, kernel[axis], stride[axis], padding[axis], dilation[axis], out[axis])
        return x
    lead = x.shape[: x.ndim - len(size)]
    planes = x.reshape(-1, *size)
    result = np.empty((planes.shape[0], *out), x.dtype)
    step = max(1, _BLOCK // max(prod(size), 1))
    for i in range(0, planes.shape[0], step):
        part = planes[i : i + step]
        for axis in range(-1, -1 - len(size), -1):
            part = _max_along(part, axis, kernel[axis], stride[axis], padding[axis], dilation[axis], out[axis])
        result[i : i + step] = part
    return result.reshape(lead + out)


def max_pool_with_indices(
    x: np.ndarray,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Window maxima and their positions.

    Returns:
        (maxima (*, *out) in x's dtype, indices (*, *out) int64 into the flattened spatial dimensions). The first
        of equal elements is reported; a NaN wins, the last of several; padding never does.
    """
    size, kernel, stride, padding, dilation, out = arguments(x, kernel, stride, padding, dilation, ceil_mode)
    if x.size <= FEW and x.dtype.kind in "fiu":
        found = _max_of_windows(x, size, kernel, stride, padding, dilation, out)
        if found is not None:
            return found
    lead = x.shape[: x.ndim - len(size)]
    planes = x.reshape(-1, *size) if x.size else x.reshape(0, *size)
    maxima = np.empty((planes.shape[0], *out), x.dtype)
    indices = np.empty((planes.shape[0], *out), np.int64)
    code_type = np.min_scalar_type(prod(kernel) - 1).type
    starts, offsets = _code_tables(size, kernel, stride, padding, dilation, out)
    step = max(1, _BLOCK // max(prod(size), 1))
    for i in range(0, planes.shape[0], step):
        for nan in (False, True):
            best, code, scale = planes[i : i + step], None, 1
            for axis in range(-1, -1 - len(size), -1):
                hyper = kernel[axis], stride[axis], padding[axis], dilation[axis], out[axis]
                best, code = _max_along_with_code(best, code, axis, *hyper, scale, code_type, nan)
                scale *= kernel[axis]
            if nan or x.dtype.kind in "iub" or not np.isnan(best).any():
                break  # NaNs are rare: found in the result, they pay for a second pass
        maxima[i : i + step] = best
        np.add(offsets.take(code), starts, out=indices[i : i + step])
    return maxima.reshape(lead + out), indices.reshape(lead + out)


def _max_of_windows(x, size, kernel, stride, padding, dilation, out):
    """`max_pool_with_indices` of a few elements, whose windows are laid side by side; None where NaN or -inf decide."""
    lead = x.shape[: x.ndim - len(size)]
    if not x.size:
        return np.empty(lead + out, x.dtype), np.empty(lead + out, np.int64)
    starts, offsets = _code_tables(size, kernel, stride, padding, dilation, out)
    if any(padding) or any((m - 1) * s + d * (k - 1) >= n for m, s, d, k, n in zip(out, stride, dilation, kernel, size,
                                                                                 strict=True)):
        # ceil_mode: the last window may reach beyond the right padding
        wide = [max(n + 2 * p, (m - 1) * s + d * (k - 1) + 1)
                for n, p, m, s, d, k in zip(size, padding, out, stride, dilation, kernel, strict=True)]
        padded = np.full((*lead, *wide), lowest(x.dtype), x.dtype)
        padded[(..., *[slice(p, p + n) for p, n in zip(padding, size, strict=True)])] = x
        x = padded
    x = in_order(x)
    steps = x.strides[len(lead) :]
    strides = x.strides[: len(lead)] + tuple([a * s for a, s in zip(steps, stride, strict=True)]) + tuple(
        [a * d for a, d in zip(steps, dilation, strict=True)])
    windows = np.ndarray((*lead, *out, *kernel), x.dtype, x, 0, strides).reshape(-1, len(offsets))
    code = windows.argmax(1)
    best = windows.reshape(-1).take(code + np.arange(0, windows.size, len(offsets)))
    if np.count_nonzero(best > lowest(x.dtype)) != best.size:
        return None
    indices = offsets.take(code).reshape(lead + out)
    indices += starts
    return best.reshape(lead + out), indices


def _flat_indices(indices: np.ndarray, nd: int, plane: int) -> np.ndarray:
    """Indices within each plane to indices into all planes, one-dimensional."""
    lead = indices.shape[: indices.ndim - nd]
    rows = indices.reshape(prod(lead), -1)
    return (rows + np.arange(0, rows.shape[0] * plane, plane or 1)[: rows.shape[0], None]).reshape(-1)


def gather_spatial(x: np.ndarray, indices: np.ndarray, nd: int) -> np.ndarray:
    """x (*, *spatial) at flat spatial indices (*, *out), with nd spatial dimensions."""
    if indices.size == 0:
        return np.empty(indices.shape, x.dtype)
    plane = prod(x.shape[x.ndim - nd :])
    return x.reshape(-1).take(_flat_indices(indices, nd, plane)).reshape(indices.shape)


def scatter_spatial(g: np.ndarray, indices: np.ndarray, size: Sequence[int]) -> np.ndarray:
    """Adjoint of `gather_spatial`: adds g (*, *out) at flat indices into zeros (*, *size). Backward of max pooling."""
    nd = len(size)
    lead = g.shape[: g.ndim - nd]
    plane = prod(size)
    result = np.zeros(prod(lead) * plane, widen(g.dtype))
    if g.size:
        np.add.at(result, _flat_indices(indices, nd, plane), g.reshape(-1).astype(result.dtype, copy=False))
    return result.reshape(lead + tuple(size)).astype(g.dtype, copy=False)


def max_unpool(x: np.ndarray, indices: np.ndarray, size: Sequence[int]) -> np.ndarray:
    """x (*, *pooled) placed at flat indices in zeros (*, *size); of several at one place the last stays.

    Raises:
        RuntimeError: an index outside size.
    """
    nd = len(size)
    lead = x.shape[: x.ndim - nd]
    plane = prod(size)
    result = np.zeros(prod(lead) * plane, x.dtype)
    if x.size:
        wrong = (indices < 0) | (indices >= plane)
        if wrong.any():
            raise RuntimeError(
                f"max_unpool: Found an invalid max index: {indices[wrong][0]} (output volumes are of size "
                f"{'x'.join(map(str, size))}, so indices go from 0 to {plane - 1}). "
                "Give the output_size of the pooled input."
            )
        result[_flat_indices(indices, nd, plane)] = x.reshape(-1)
    return result.reshape(lead + tuple(size))
