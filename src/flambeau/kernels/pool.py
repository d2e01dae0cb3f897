"""Pooling over the trailing one, two or three dimensions, and the adjoints.

Shapes: x (*, *spatial) with any leading dimensions; kernel, stride, padding and dilation have one entry per
spatial dimension (an empty stride means the kernel). Windows are never built: maxima and sums are separable,
so each axis is reduced in turn, tap by tap, over whole slices. The last axis goes first in maxima: only then
is the first of equal elements, in row-major order, the one found.

Derivatives close over these functions. Average pooling and its adjoint are each other's gradient. With the
indices held fixed, max pooling is `gather_spatial`, whose adjoint is `scatter_spatial`, and conversely;
`max_unpool` is differentiated by `gather_spatial`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from math import prod

import numpy as np

__all__ = [
    "adaptive_avg_pool",
    "adaptive_avg_pool_backward",
    "adaptive_max_pool",
    "avg_pool",
    "avg_pool_backward",
    "gather_spatial",
    "max_pool",
    "max_pool_with_indices",
    "max_unpool",
    "pool_output_size",
    "scatter_spatial",
]

# Elements of input reduced at a time: the slices, the running maximum and the tap codes stay in the cache.
_BLOCK = 1 << 16


def _widen(dtype: np.dtype) -> np.dtype:
    if dtype.itemsize == 2 and dtype.kind not in "iu":  # float16 and bfloat16
        return np.dtype(np.float32)
    return dtype


@lru_cache(maxsize=1024)
def _output_length(size: int, k: int, s: int, p: int, d: int, ceil_mode: bool) -> int:
    span = size + 2 * p - d * (k - 1) - 1
    length = (span + (s - 1 if ceil_mode else 0)) // s + 1
    # A window must start inside the input or its left padding.
    if ceil_mode and (length - 1) * s >= size + p:
        length -= 1
    return length


def pool_output_size(
    size: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> tuple[int, ...]:
    """Spatial shape of a pooling's result.

    Raises:
        RuntimeError: a stride below one, a padding above half the kernel, or no room for one window.
    """
    for k, s, p, d in zip(kernel, stride, padding, dilation, strict=True):
        if s < 1:
            raise RuntimeError(f"pooling: stride should be greater than zero, but got {list(stride)}")
        if p < 0 or 2 * p > d * (k - 1) + 1:
            raise RuntimeError(
                f"pooling: pad should be at most half of effective kernel size, and not negative, but got "
                f"pad={p}, kernel_size={k} and dilation={d}"
            )
    out = tuple(
        [
            _output_length(n, k, s, p, d, ceil_mode)
            for n, k, s, p, d in zip(size, kernel, stride, padding, dilation, strict=True)
        ]
    )
    if min(out) < 1:
        raise RuntimeError(
            f"pooling: Given input size {list(size)}, kernel_size {list(kernel)}: calculated output size "
            f"{list(out)}. Output size is too small; pad the input or use a smaller kernel."
        )
    return out


@lru_cache(maxsize=4096)
def _taps(axis: int, size: int, out: int, k: int, s: int, p: int, d: int) -> tuple[list[tuple], list[tuple[tuple, tuple]]]:
    """What the taps read along axis: (of those inside the input in every window; of the others where there are any,
    (where in the output, what is read))."""
    whole, partial = [], []
    for t in range(k):
        slices = _tap_slices(size, out, t, s, p, d)
        if slices is not None:
            if slices[0] == slice(0, out):
                whole.append(_at(axis, slices[1]))
            else:
                partial.append((_at(axis, slices[0]), _at(axis, slices[1])))
    return whole, partial


_output_size = lru_cache(maxsize=1024)(pool_output_size)


def _tap_slices(size: int, out: int, t: int, s: int, p: int, d: int) -> tuple[slice, slice] | None:
    """(positions of the output whose tap t falls inside the input, the input it reads there)."""
    shift = t * d - p
    low = max(0, -(shift // s)) if shift < 0 else 0
    high = min(out, (size - 1 - shift) // s + 1)
    if low >= high:
        return None
    start = low * s + shift
    return slice(low, high), slice(start, start + (high - low - 1) * s + 1, s)


def _at(axis: int, index: slice) -> tuple:
    """Index of `index` along axis (negative)."""
    return (..., index) + (slice(None),) * (-1 - axis)


def _lowest(dtype: np.dtype):
    if dtype.kind in "iu":
        return np.iinfo(dtype).min
    return False if dtype.kind == "b" else -np.inf


# Max pooling


def _max_along(x, axis, k, s, p, d, out):
    return _combine_along(x, axis, k, s, p, d, out, np.maximum, _lowest)


def _combine_along(x, axis, k, s, p, d, out, combine, start):
    """The taps of each window along axis, combined; start(dtype) is what no tap gives."""
    whole, partial = _taps(axis, x.shape[axis], out, k, s, p, d)
    if len(whole) > 1:
        total = combine(x[whole[0]], x[whole[1]])
        for source in whole[2:]:
            combine(total, x[source], out=total)
    elif whole:
        total = x[whole[0]].copy()
    else:
        shape = list(x.shape)
        shape[axis] = out
        total = np.full(shape, start(x.dtype), x.dtype)
    for at, source in partial:
        target = total[at]
        combine(target, x[source], out=target)
    return total


def _max_along_with_code(x, code, axis, k, s, p, d, out, scale, code_type, nan):
    """Maxima along axis and, for each, its tap's code: `scale` times the tap, plus the code already there.

    Codes of later taps are larger, so the update is an unsigned maximum with `mask * code`: a vector
    instruction where a masked assignment would branch.
    """
    size = x.shape[axis]
    shape = list(x.shape)
    shape[axis] = out
    ranges = [_tap_slices(size, out, t, s, p, d) for t in range(k)]
    if ranges[0] == (slice(0, out), slice(0, (out - 1) * s + 1, s)):
        best = x[_at(axis, ranges[0][1])].copy()
        codes = np.zeros(shape, code_type) if code is None else code[_at(axis, ranges[0][1])].copy()
        first = 1
    else:  # padded: a window whose every element is -inf reports its first element inside the input
        best = np.full(shape, _lowest(x.dtype), x.dtype)
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
        target, source = _at(axis, ranges[t][0]), _at(axis, ranges[t][1])
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


@lru_cache(maxsize=256)
def _code_tables(size, kernel, stride, padding, dilation, out):
    """Flat index of a window's start, per position, and the offset to it, per tap code."""
    starts, offsets = np.zeros((), np.int64), np.zeros((), np.int64)
    for n, k, s, p, d, m in zip(size, kernel, stride, padding, dilation, out, strict=True):
        starts = starts[..., None] * n + np.arange(m, dtype=np.int64) * s - p
        offsets = offsets[..., None] * n + np.arange(k, dtype=np.int64) * d
    return starts, offsets.reshape(-1)


def _pool_arguments(x, kernel, stride, padding, dilation, ceil_mode):
    kernel, padding, dilation = tuple(kernel), tuple(padding), tuple(dilation)
    stride = tuple(stride) if stride else kernel
    size = x.shape[x.ndim - len(kernel) :]
    return size, kernel, stride, padding, dilation, _output_size(size, kernel, stride, padding, dilation, ceil_mode)


def _in_order(x: np.ndarray) -> np.ndarray:
    return x if x.flags.c_contiguous else x.copy()


def max_pool(
    x: np.ndarray,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> np.ndarray:
    """Window maxima, as `max_pool_with_indices` without the indices (half the time)."""
    size, kernel, stride, padding, dilation, out = _pool_arguments(x, kernel, stride, padding, dilation, ceil_mode)
    if x.size <= _BLOCK:
        x = _in_order(x)
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
    size, kernel, stride, padding, dilation, out = _pool_arguments(x, kernel, stride, padding, dilation, ceil_mode)
    if x.size <= _FEW and x.dtype.kind in "fiu":
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


_FEW = 2048  # elements whose windows are copied


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
        padded = np.full((*lead, *wide), _lowest(x.dtype), x.dtype)
        padded[(..., *[slice(p, p + n) for p, n in zip(padding, size, strict=True)])] = x
        x = padded
    x = _in_order(x)
    steps = x.strides[len(lead) :]
    strides = x.strides[: len(lead)] + tuple([a * s for a, s in zip(steps, stride, strict=True)]) + tuple(
        [a * d for a, d in zip(steps, dilation, strict=True)])
    windows = np.ndarray((*lead, *out, *kernel), x.dtype, x, 0, strides).reshape(-1, len(offsets))
    code = windows.argmax(1)
    best = windows.reshape(-1).take(code + np.arange(0, windows.size, len(offsets)))
    if np.count_nonzero(best > _lowest(x.dtype)) != best.size:
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
    result = np.zeros(prod(lead) * plane, _widen(g.dtype))
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


# Average pooling


def _sum_along(x, axis, k, s, p, out):
    if k == x.shape[axis] and p == 0 and out == 1:
        return np.add.reduce(x, axis, keepdims=True)
    return _combine_along(x, axis, k, s, p, 1, out, np.add, _zero)


def _zero(dtype: np.dtype) -> int:
    return 0


def _spread_along(g, axis, k, s, p, size):
    """Adjoint of `_sum_along`."""
    shape = list(g.shape)
    shape[axis] = size
    result = np.zeros(shape, g.dtype)
    whole, partial = _taps(axis, size, g.shape[axis], k, s, p, 1)
    for at in whole:
        target = result[at]
        np.add(target, g, out=target)
    for source, at in partial:
        target = result[at]
        np.add(target, g[source], out=target)
    return result


@lru_cache(maxsize=256)
def _divisor(size, kernel, stride, padding, out, count_include_pad, divisor_override):
    """What window sums are divided by: a number where all windows agree, else an array (*out)."""
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


def _divide(total: np.ndarray, divisor) -> np.ndarray:
    if total.dtype.kind in "iu":  # towards zero, as integers are divided in C
        return (np.sign(total) * np.sign(divisor) * (np.abs(total) // np.abs(divisor))).astype(total.dtype, copy=False)
    if not isinstance(divisor, int) and divisor.dtype is not total.dtype:
        divisor = divisor.astype(total.dtype)
    return np.divide(total, divisor, out=total)


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
    size, kernel, stride, padding, _, out = _pool_arguments(x, kernel, stride, padding, ones, ceil_mode)
    divisor = _divisor(size, kernel, stride, padding, out, bool(count_include_pad), divisor_override)
    total = _in_order(x).astype(_widen(x.dtype), copy=False)
    for axis in range(-len(size), 0):  # rows first: their slices are contiguous, and fewer remain for the last axis
        total = _sum_along(total, axis, kernel[axis], stride[axis], padding[axis], out[axis])
    return _divide(total, divisor).astype(x.dtype, copy=False)


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
    dtype = _widen(g.dtype)
    if not isinstance(divisor, int):
        divisor = divisor.astype(dtype)
    total = np.divide(g, divisor, dtype=dtype)
    for axis in range(-1, -1 - nd, -1):
        total = _spread_along(total, axis, kernel[axis], stride[axis], padding[axis], size[axis])
    return total.astype(g.dtype, copy=False)


# Adaptive pooling


@lru_cache(maxsize=256)
def _bounds(size: int, out: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return (
        tuple([i * size // out for i in range(out)]),
        tuple([-(-(i + 1) * size // out) for i in range(out)]),
    )


@lru_cache(maxsize=256)
def _bound_pairs(size: int, out: int) -> np.ndarray:
    """start, end, start, end, ... of the windows, as `reduceat` takes them; it takes no end that is the size."""
    pairs = [bound for window in zip(*_bounds(size, out), strict=True) for bound in window]
    return np.array(pairs[:-1])


def _adaptive_sum_along(x, axis, out):
    size = x.shape[axis]
    if x.size <= _FEW and 0 < out <= size:
        return np.add.reduceat(x, _bound_pairs(size, out), axis)[_at(axis, slice(None, None, 2))]
    starts, ends = _bounds(size, out)
    shape = list(x.shape)
    shape[axis] = out
    longest = max([e - s for s, e in zip(starts, ends, strict=True)], default=0)
    if out <= longest:
        total = np.empty(shape, x.dtype)
        for i, (s, e) in enumerate(zip(starts, ends, strict=True)):
            np.add.reduce(x[_at(axis, slice(s, e))], axis, out=total[_at(axis, slice(i, i + 1))], keepdims=True)
        return total
    start, length = np.array(starts), np.subtract(ends, starts)
    total = x.take(start, axis=axis)
    for t in range(1, longest):
        reached = np.flatnonzero(length > t)
        if len(reached) == out:
            total += x.take(start + t, axis=axis)
        else:
            total[_at(axis, reached)] += x.take(start[reached] + t, axis=axis)
    return total


@lru_cache(maxsize=256)
def _adaptive_divisor(size, out, dtype) -> np.ndarray:
    counts = np.ones((), np.int64)
    for n, m in zip(size, out, strict=True):
        starts, ends = _bounds(n, m)
        counts = counts[..., None] * np.subtract(ends, starts)
    return counts.astype(dtype)


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
        rows = x.reshape(-1, prod(size)).astype(_widen(x.dtype), copy=False)
        mean = np.add.reduce(rows, 1) / rows.dtype.type(prod(size))
        return mean.reshape(x.shape[: x.ndim - nd] + out).astype(x.dtype, copy=False)
    if 0 not in out and all(n % m == 0 for n, m in zip(size, out, strict=True)):
        kernel = tuple([n // m for n, m in zip(size, out, strict=True)])
        return avg_pool(x, kernel, kernel, (0,) * nd, False, True, None)
    total = x.astype(_widen(x.dtype), copy=False)
    for axis in range(-nd, 0):
        total = _adaptive_sum_along(total, axis, out[axis])
    return _divide(total, _adaptive_divisor(size, out, total.dtype)).astype(x.dtype, copy=False)


def adaptive_avg_pool_backward(g: np.ndarray, x_shape: Sequence[int]) -> np.ndarray:
    """Adjoint of `adaptive_avg_pool`: g (*, *out) to x_shape, as long. Its own gradient is `adaptive_avg_pool`."""
    nd = _spatial_dims(g.shape, x_shape)
    size, out = tuple(x_shape)[len(x_shape) - nd :], g.shape[g.ndim - nd :]
    dtype = _widen(g.dtype)
    total = np.divide(g, _adaptive_divisor(size, out, dtype), dtype=dtype)
    for axis in range(-1, -1 - nd, -1):
        shape = list(total.shape)
        shape[axis] = size[axis]
        result = np.zeros(shape, dtype)
        for i, (s, e) in enumerate(zip(*_bounds(size[axis], out[axis]), strict=True)):
            result[_at(axis, slice(s, e))] += total[_at(axis, slice(i, i + 1))]
        total = result
    return total.astype(g.dtype, copy=False)


def _spatial_dims(g_shape: Sequence[int], x_shape: Sequence[int]) -> int:
    """The trailing dimensions in which the shapes differ: equal ones are pooled by the identity."""
    for i, (a, b) in enumerate(zip(g_shape, x_shape, strict=True)):
        if a != b:
            return len(g_shape) - i
    return 0


def _argmax(rows: np.ndarray) -> np.ndarray:
    """Position of each row's maximum: the first, or the last NaN."""
    position = rows.argmax(axis=1)
    if rows.dtype.kind not in "iub":
        nan = np.isnan(rows)
        if nan.any():
            last = rows.shape[1] - 1 - nan[:, ::-1].argmax(axis=1)
            position = np.where(nan.any(axis=1), last, position)
    return position


@lru_cache(maxsize=128)
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
    if 0 < x.size <= _FEW and x.dtype.kind in "fiu" and 0 not in out:
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
        position = _argmax(rows) if rows.size else np.zeros(0, np.int64)
        maxima[(slice(None), *cell)] = rows[row, position]
        indices[(slice(None), *cell)] = flat[window].reshape(-1)[position]
    return maxima.reshape(lead + out), indices.reshape(lead + out)
