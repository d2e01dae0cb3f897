"""The windows of a pooling: how many there are, what they read, and their elements combined along one axis.

Windows are never built where they are large: maxima and sums are separable, so each axis is reduced in turn, tap by
tap, over whole slices.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

Taps = tuple[list[tuple], list[tuple[tuple, tuple]]]

FEW = 2048              # elements of input whose windows are copied
MOST_KEPT = 1 << 14     # elements of a table that is kept for the next call: the 64 of a cache stay under 8 MiB
_MOST_TAPS = 32         # of windows of more, the slices are found anew


@lru_cache(maxsize=1024)
def output_length(size: int, k: int, s: int, p: int, d: int, ceil_mode: bool) -> int:
    """How many windows of k taps there are along an axis; below one where none fits."""
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
            output_length(n, k, s, p, d, ceil_mode)
            for n, k, s, p, d in zip(size, kernel, stride, padding, dilation, strict=True)
        ]
    )
    if min(out) < 1:
        raise RuntimeError(
            f"pooling: Given input size {list(size)}, kernel_size {list(kernel)}: calculated output size "
            f"{list(out)}. Output size is too small; pad the input or use a smaller kernel."
        )
    return out


_kept_output_size = lru_cache(maxsize=1024)(pool_output_size)


def arguments(x: np.ndarray, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int],
              dilation: Sequence[int], ceil_mode: bool) -> tuple[tuple[int, ...], ...]:
    """(size of the spatial dimensions; kernel, stride, padding and dilation as tuples; size of the result)."""
    kernel, padding, dilation = tuple(kernel), tuple(padding), tuple(dilation)
    stride = tuple(stride) if stride else kernel
    size = x.shape[x.ndim - len(kernel) :]
    return size, kernel, stride, padding, dilation, _kept_output_size(size, kernel, stride, padding, dilation, ceil_mode)


def in_order(x: np.ndarray) -> np.ndarray:
    return x if x.flags.c_contiguous else x.copy()


def tap_slices(size: int, out: int, t: int, s: int, p: int, d: int) -> tuple[slice, slice] | None:
    """(positions of the output whose tap t falls inside the input, the input it reads there)."""
    shift = t * d - p
    low = max(0, -(shift // s)) if shift < 0 else 0
    high = min(out, (size - 1 - shift) // s + 1)
    if low >= high:
        return None
    start = low * s + shift
    return slice(low, high), slice(start, start + (high - low - 1) * s + 1, s)


def at_axis(axis: int, index: slice) -> tuple:
    """Index of `index` along axis (negative)."""
    return (..., index) + (slice(None),) * (-1 - axis)


def lowest(dtype: np.dtype):
    if dtype.kind in "iu":
        return np.iinfo(dtype).min
    return False if dtype.kind == "b" else -np.inf


def taps(axis: int, size: int, out: int, k: int, s: int, p: int, d: int) -> Taps:
    """What the taps of windows read along axis (negative).

    Returns:
        (what those read that are inside the input in every window; of the others that are in some, where in the
        output, and what they read).
    """
    find = _kept_taps if k <= _MOST_TAPS else _find_taps
    return find(axis, size, out, k, s, p, d)


def _find_taps(axis: int, size: int, out: int, k: int, s: int, p: int, d: int) -> Taps:
    whole, partial = [], []
    for t in range(k):
        slices = tap_slices(size, out, t, s, p, d)
        if slices is not None:
            if slices[0] == slice(0, out):
                whole.append(at_axis(axis, slices[1]))
            else:
                partial.append((at_axis(axis, slices[0]), at_axis(axis, slices[1])))
    return whole, partial


_kept_taps = lru_cache(maxsize=1024)(_find_taps)


def combine_along(x, axis, k, s, p, d, out, combine, start):
    """The taps of each window along axis, combined; start(dtype) is what no tap gives."""
    whole, partial = taps(axis, x.shape[axis], out, k, s, p, d)
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


def divide(total: np.ndarray, divisor: Any) -> np.ndarray:
    """Sums of windows by their counts, in place where the dtype is a floating one."""
    if total.dtype.kind in "iu":  # towards zero, as integers are divided in C
        return (np.sign(total) * np.sign(divisor) * (np.abs(total) // np.abs(divisor))).astype(total.dtype, copy=False)
    if not isinstance(divisor, int) and divisor.dtype is not total.dtype:
        divisor = divisor.astype(total.dtype)
    return np.divide(total, divisor, out=total)
