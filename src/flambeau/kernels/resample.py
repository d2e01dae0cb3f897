"""Resampling of the trailing dimensions to another size: nearest, linear and cubic, axis by axis.

Along an axis every result is a weighted sum of a few elements (taps): a table of their positions and weights is made
once per geometry. The adjoint is the product with the same table as a dense matrix. Float16 and bfloat16 are computed
in float32, and uint8 is rounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import floor

import numpy as np

__all__ = ["resample", "resample_backward"]


def _scale(size: int, out: int, align: bool, given: float | None, dtype: type) -> np.floating:
    """Distance of neighbouring results, in elements of the input."""
    if align:
        return dtype(size - 1) / dtype(out - 1) if out > 1 else dtype(0)
    return dtype(1.0 / given) if given is not None and given > 0 else dtype(size) / dtype(out)


def _cubic(t: np.ndarray, a: float) -> list[np.ndarray]:
    """Weights of the elements at -1, 0, 1 and 2 from the position 0 <= t < 1 (Keys, 1981)."""
    def near(x: np.ndarray) -> np.ndarray:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: np.ndarray) -> np.ndarray:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def _smooth(mode: str, size: int, out: int, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Taps of a filter widened by the scale, so that shrinking averages (antialias)."""
    reach = 2.0 if mode == "cubic" else 1.0
    support, inverse = (reach * scale, 1 / scale) if scale >= 1 else (reach, 1.0)
    low = [max(floor(scale * (i + 0.5) - support + 0.5), 0) for i in range(out)]
    high = [min(floor(scale * (i + 0.5) + support + 0.5), size) for i in range(out)]
    taps = max(h - n for n, h in zip(low, high, strict=True))
    at = np.array(low)[:, None] + np.arange(taps)
    x = np.abs((at - scale * (np.arange(out)[:, None] + 0.5) + 0.5) * inverse)
    if mode == "linear":
        weights = np.maximum(1 - x, 0)
    else:
        a = -0.5
        weights = np.where(x < 1, ((a + 2) * x - (a + 3)) * x * x + 1,
                           np.where(x < 2, ((a * x - 5 * a) * x + 8 * a) * x - 4 * a, 0))
    weights = np.where(at < np.array(high)[:, None], weights, 0)
    return np.minimum(at, size - 1), weights / weights.sum(1, keepdims=True)


@lru_cache(maxsize=64)
def _table(mode: str, size: int, out: int, align: bool, given: float | None, smooth: bool,
           char: str) -> tuple[np.ndarray, np.ndarray | None]:
    """(positions (out, taps), weights (out, taps) or None for a single tap of weight one)."""
    if mode in ("nearest", "nearest-exact"):
        scale = _scale(size, out, False, given, np.float32)     # float32 whatever the dtype, as PyTorch rounds
        start = np.arange(out, dtype=np.float32) + np.float32(0.5 if mode == "nearest-exact" else 0)
        return np.minimum(np.floor(start * scale).astype(np.int64), size - 1)[:, None], None
    real = np.dtype(char).type
    scale = _scale(size, out, align, given, real)
    if smooth:
        positions, weights = _smooth(mode, size, out, float(scale))
        return positions, weights.astype(real)
    at = np.arange(out, dtype=real)
    source = scale * at if align else scale * (at + real(0.5)) - real(0.5)
    if mode == "linear":
        source = np.maximum(source, real(0))
        first = np.minimum(np.floor(source).astype(np.int64), size - 1)
        t = np.clip(source - first.astype(real), real(0), real(1))
        return np.stack([first, np.minimum(first + 1, size - 1)], 1), np.stack([1 - t, t], 1)
    first = np.floor(source).astype(np.int64)
    weights = np.stack(_cubic(source - first.astype(real), -0.75), 1)
    return np.clip(first[:, None] + np.arange(-1, 3), 0, size - 1), weights.astype(real)


_MOST_KEPT = 1 << 16        # elements of a matrix that is kept: the 32 of the cache stay under 16 MiB


def _matrix(mode: str, size: int, out: int, align: bool, given: float | None, smooth: bool, char: str) -> np.ndarray:
    """The table as a matrix (out, size)."""
    find = _kept_matrix if out * size <= _MOST_KEPT else _find_matrix
    return find(mode, size, out, align, given, smooth, char)


def _find_matrix(mode: str, size: int, out: int, align: bool, given: float | None, smooth: bool, char: str) -> np.ndarray:
    positions, weights = _table(mode, size, out, align, given, smooth, char)
    matrix = np.zeros((out, size), char)
    np.add.at(matrix, (np.arange(out)[:, None], positions), 1 if weights is None else weights)
    return matrix


_kept_matrix = lru_cache(maxsize=32)(_find_matrix)


def _wide(dtype: np.dtype) -> np.dtype:
    return dtype if dtype.name in ("float32", "float64") else np.dtype(np.float32)


def resample(x: np.ndarray, size: Sequence[int], mode: str, align: bool, scales: Sequence[float | None],
             smooth: bool) -> np.ndarray:
    """x (*, *spatial) at size (*spatial): every result a weighted sum of its neighbours.

    Args:
        mode: "nearest", "nearest-exact", "linear" or "cubic", the same along every axis.
        align: the corner elements keep their places; else the corners of their cells do.
        scales: factor of each axis as the caller gave it (None: the quotient of the sizes).
        smooth: widen the filter when shrinking.
    """
    dtype = _wide(x.dtype)
    n = len(size)
    nearest = mode.startswith("nearest")
    out = x if nearest else x.astype(dtype, copy=False)
    for axis in range(-1, -1 - n, -1):
        length = out.shape[axis]
        if length == size[axis] and not align and scales[axis] in (None, 1.0):
            continue
        positions, weights = _table(mode, length, size[axis], align, scales[axis], smooth, dtype.char)
        if weights is None:
            out = out.take(positions[:, 0], axis=axis)
            continue
        shape = (-1,) + (1,) * (-1 - axis)
        total = out.take(positions[:, 0], axis=axis)
        total *= weights[:, 0].reshape(shape)
        for k in range(1, positions.shape[1]):
            part = out.take(positions[:, k], axis=axis)
            part *= weights[:, k].reshape(shape)
            total += part
        out = total
    if x.dtype.kind == "u" and not nearest:
        out = np.clip(np.rint(out), 0, 255)
    return np.array(out) if out is x else out.astype(x.dtype, copy=False)


def _gather_repeats(g: np.ndarray, positions: np.ndarray, axis: int, length: int) -> np.ndarray:
    """The sums of the elements of g along axis (negative) that came from one position each; positions ascend."""
    starts = np.flatnonzero(np.diff(positions, prepend=-1))
    counts = np.diff(starts, append=len(positions))
    total = g.take(starts, axis=axis)
    rest = (slice(None),) * (-1 - axis)
    for k in range(1, int(counts.max(initial=1))):
        reached = np.flatnonzero(counts > k)
        part = g.take(starts[reached] + k, axis=axis)
        if len(reached) == len(starts):
            total += part
        else:
            total[(..., reached, *rest)] += part
    if len(starts) == length:
        return total
    shape = list(g.shape)
    shape[axis] = length
    out = np.zeros(shape, g.dtype)
    out[(..., positions[starts], *rest)] = total
    return out


def resample_backward(g: np.ndarray, shape: Sequence[int], mode: str, align: bool, scales: Sequence[float | None],
                      smooth: bool) -> np.ndarray:
    """Adjoint of `resample`: g (*, *size) to the input's shape. Its own gradient is `resample`."""
    dtype = _wide(g.dtype)
    n = len(scales)
    out = g.astype(dtype, copy=False)
    for axis in range(-n, 0):
        size, length = out.shape[axis], shape[len(shape) + axis]
        if length == size and not align and scales[axis] in (None, 1.0):
            continue
        if mode.startswith("nearest"):
            positions = _table(mode, length, size, align, scales[axis], smooth, dtype.char)[0][:, 0]
            out = _gather_repeats(out, positions, axis, length)
            continue
        matrix = _matrix(mode, length, size, align, scales[axis], smooth, dtype.char)
        if axis == -1:
            out = np.matmul(out, matrix)
        else:
            out = np.moveaxis(np.matmul(np.moveaxis(out, axis, -1), matrix), -1, axis)
    return np.ascontiguousarray(out).astype(g.dtype, copy=False)
