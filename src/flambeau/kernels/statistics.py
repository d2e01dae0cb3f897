"""Statistics along axes: variance, norms, logsumexp, median, mode, quantile."""

from __future__ import annotations

import math

import numpy as np

from flambeau.kernels.ranked import nth
from flambeau.kernels.reduce import FEW, HALF, Dim, amax, count_reduced, reduced_axes
from flambeau.kernels.sort import argsort_last, dense, sortable, take_last, unstable_order
from flambeau.kernels.strides import normalize_dim
from flambeau.kernels.sums import scalar


def _widened(a: np.ndarray) -> np.ndarray:
    return a.astype(np.float32) if a.dtype.char in HALF else a


def _real(dtype: np.dtype) -> np.dtype:
    return np.dtype(np.float32 if dtype == np.complex64 else np.float64) if dtype.kind == "c" else dtype


# Variance


def var_mean(a: np.ndarray, dim: Dim = None, correction: float = 1, keepdim: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Return the variance over dim, and the mean: the mean first, then the squared deviations from it.

    The divisor is max(0, count - correction): a single element with correction 1 gives NaN.

    Raises:
        RuntimeError: a is neither floating nor complex.
    """
    if a.dtype.char in "fd" and a.size and a.ndim:
        out, center = _plain_var_mean(a, dim, correction, keepdim)
        return out, center if keepdim else center.reshape(out.shape)
    if a.dtype.kind in "biu":
        raise RuntimeError(f"std and var only support floating point and complex dtypes, got {a.dtype.name}")
    axes = reduced_axes(dim, a.ndim)
    count = count_reduced(a, axes)
    wide = _widened(a)
    center = np.asarray(np.add.reduce(wide, axes, keepdims=True)) / wide.dtype.type(count)
    deviation = wide - center
    square = deviation.real**2 + deviation.imag**2 if a.dtype.kind == "c" else np.square(deviation)
    divisor = max(0.0, count - float(correction))
    out = np.asarray(np.add.reduce(square, axes, keepdims=keepdim)) / square.dtype.type(divisor)
    if not keepdim:
        center = center.squeeze() if axes is None else center.squeeze(axes)
        if axes is None:
            center = center.reshape(())
    return (np.asarray(out, order="C").astype(_real(a.dtype), copy=False),
            np.asarray(center, order="C").astype(a.dtype, copy=False))


def _plain_var_mean(a: np.ndarray, dim: Dim, correction: float, keepdim: bool) -> tuple[np.ndarray, np.ndarray]:
    """`var_mean` of some float32 or float64; the mean keeps its dimensions."""
    axes = reduced_axes(dim, a.ndim)
    n = count_reduced(a, axes)
    center = np.add.reduce(a, axes, None, None, True)
    center = np.divide(center, scalar(n, a.dtype), center)
    deviation = np.subtract(a, center)
    divisor = scalar(max(0.0, n - correction), a.dtype)
    if axes is None and not keepdim:
        deviation = deviation.ravel()
        out = np.empty((), a.dtype)
        np.dot(deviation, deviation, out)
        return np.divide(out, divisor, out), center
    np.multiply(deviation, deviation, deviation)
    out = np.add.reduce(deviation, axes, None, None, keepdim)
    if type(out) is not np.ndarray:
        out = np.array(out)
    out = np.divide(out, divisor, out)
    if not center.flags.c_contiguous:
        center = center.copy()
    return out if out.flags.c_contiguous else out.copy(), center


def var(a: np.ndarray, dim: Dim = None, correction: float = 1, keepdim: bool = False) -> np.ndarray:
    """Return the variance over dim; see `var_mean`."""
    if a.dtype.char in "fd" and a.size and a.ndim:
        return _plain_var_mean(a, dim, correction, keepdim)[0]
    return var_mean(a, dim, correction, keepdim)[0]


def std(a: np.ndarray, dim: Dim = None, correction: float = 1, keepdim: bool = False) -> np.ndarray:
    """Return the standard deviation over dim; see `var_mean`."""
    if a.dtype.char in HALF:
        return np.asarray(np.sqrt(var(a.astype(np.float32), dim, correction, keepdim))).astype(a.dtype)
    variance = var(a, dim, correction, keepdim)
    return np.sqrt(variance, variance)


def std_mean(a: np.ndarray, dim: Dim = None, correction: float = 1, keepdim: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Return the standard deviation over dim, and the mean."""
    if a.dtype.char in HALF:
        return std(a, dim, correction, keepdim), var_mean(a, dim, correction, keepdim)[1]
    variance, mean = var_mean(a, dim, correction, keepdim)
    return np.sqrt(variance, variance), mean


# Norms


_LONGEST = 1 << 13      # elements of a row whose inner product is as exact as a pairwise sum


def _euclidean(a: np.ndarray, axes: tuple[int, ...] | None, keepdim: bool) -> np.ndarray:
    """The 2-norm of real numbers: along rows by inner products."""
    n = a.shape[-1]
    if axes == (a.ndim - 1,) and n <= _LONGEST and a.strides[-1] == a.itemsize:
        out = np.asarray(np.vecdot(a, a), order="C")
        if keepdim:
            out = out[..., None]
    else:
        out = np.asarray(np.add.reduce(np.square(a), axes, keepdims=keepdim), order="C")
    return np.sqrt(out, out)


def norm(a: np.ndarray, p: float = 2, dim: Dim = None, keepdim: bool = False, dtype: np.dtype | None = None) -> np.ndarray:
    """Return the vector p-norm over dim: p = 0 counts, inf and -inf take extremes.

    Raises:
        RuntimeError: a is neither floating nor complex; or p is negative or infinite and nothing is reduced.
    """
    if a.dtype.kind in "biu":
        raise RuntimeError(f"norm: Expected a floating point or complex tensor as input. Got {a.dtype.name}")
    if dtype is not None:
        a = a.astype(dtype)
    axes = reduced_axes(dim, a.ndim)
    if (p < 0 or p == math.inf) and count_reduced(a, axes) == 0 and (axes is None or a.size == 0):
        where = "an empty tensor" if axes is None else f"the dimension {axes}, because it is empty"
        raise RuntimeError(f"norm cannot compute the {p} norm on {where}: the operation does not have an identity")
    result_dtype = _real(a.dtype)
    wide = _widened(a)
    if p == 2 and a.dtype.char in "fd" and a.ndim:
        return _euclidean(a, axes, keepdim)
    if p == 0:
        out = np.asarray(np.add.reduce(wide != 0, axes, result_dtype, keepdims=keepdim))
        return out.astype(result_dtype, "C", copy=False)
    size = np.abs(wide)
    if p == math.inf:
        out = np.maximum.reduce(size, axes, keepdims=keepdim)
    elif p == -math.inf:
        out = np.minimum.reduce(size, axes, keepdims=keepdim)
    elif p == 1:
        out = np.add.reduce(size, axes, keepdims=keepdim)
    elif p == 2:
        out = np.sqrt(np.add.reduce(np.square(size), axes, keepdims=keepdim))
    else:
        power = size.dtype.type(p)
        total = np.add.reduce(np.power(size, power), axes, keepdims=keepdim)
        out = np.power(total, size.dtype.type(1.0 / p))
    return np.asarray(out).astype(result_dtype, "C", copy=False)


def logsumexp(a: np.ndarray, dim: Dim, keepdim: bool = False) -> np.ndarray:
    """Return log(sum(exp(a))) over dim, shifted by the greatest element; an empty one is -inf.

    Integers and bool are taken as float32.
    """
    dtype = np.dtype(np.float32) if a.dtype.kind in "biu" else a.dtype
    wide = _widened(a).astype(dtype, copy=False) if a.dtype.char not in HALF else _widened(a)
    axes = reduced_axes(dim, a.ndim)
    if a.size == 0:
        out = np.log(np.add.reduce(np.exp(wide), axes, keepdims=keepdim))
        return np.asarray(out).astype(dtype, copy=False)
    top = amax(wide.real, dim, True)
    top = np.where(np.isinf(top), top.dtype.type(0), top)
    out = np.log(np.add.reduce(np.exp(wide - top), axes, keepdims=keepdim))
    if not keepdim:
        top = top.reshape(np.shape(out))
    return np.asarray(out + top).astype(dtype, "C", copy=False)


# Order statistics


def _last_axis(name: str, a: np.ndarray, dim: int) -> tuple[np.ndarray, int]:
    dim = normalize_dim(dim, a.ndim)
    if a.ndim == 0:
        return a.reshape(1), 0
    if a.shape[dim] == 0:
        raise IndexError(f"{name}(): Expected reduction dim {dim} to have non-zero size.")
    return a.swapaxes(dim, -1), dim


def _finish(out: np.ndarray, a: np.ndarray, dim: int, keepdim: bool) -> np.ndarray:
    """Put the kept axis (last, of size 1) back at dim, or drop it."""
    if a.ndim == 0:
        return out.reshape(())
    out = out.swapaxes(dim, -1)
    return dense(out if keepdim else out.squeeze(dim))


def _median(name: str, a: np.ndarray, dim: int | None, keepdim: bool, skip_nan: bool) -> tuple[np.ndarray, np.ndarray]:
    if dim is None:
        a = a.reshape(-1)
        if a.size == 0:
            none = np.iinfo(a.dtype).min if a.dtype in (np.int32, np.int64) else 0  # PyTorch's cast of NaN
            return np.array(none if a.dtype.kind in "iu" else np.nan).astype(a.dtype), np.zeros((), np.int64)
        dim = 0
    moved, dim = _last_axis(name, a, dim)
    if a.dtype.kind in "cb":
        raise NotImplementedError(f"{name} is not implemented for {a.dtype.name}")
    n = moved.shape[-1]
    found = nth(moved, (n - 1) // 2)
    if found is not None:
        return _finish(found[0], a, dim, keepdim), _finish(found[1], a, dim, keepdim)
    order = argsort_last(moved, False)
    if a.dtype.kind in "iu":
        place = np.full((*moved.shape[:-1], 1), (n - 1) // 2)
    else:
        nan = np.isnan(moved)
        count = n - np.count_nonzero(nan, axis=-1)[..., None]
        if skip_nan:
            place = np.where(count > 0, (count - 1) // 2, 0)
        else:  # the first NaN, if any, else the lower of the middle two
            place = np.where(count < n, np.minimum(count, n - 1), (n - 1) // 2)
    index = take_last(order, place)
    return _finish(take_last(moved, index), a, dim, keepdim), _finish(index, a, dim, keepdim)


def median(a: np.ndarray) -> np.ndarray:
    """Return the lower median of the whole array; NaN if it has one or is empty."""
    if 0 < a.size <= FEW and a.dtype.char in "fdli":
        ordered = np.sort(a, None)      # NaN comes last
        last = ordered[-1]
        return np.array(ordered[(a.size - 1) // 2] if last == last else last)
    return _median("median", a, None, False, False)[0]


def nanmedian(a: np.ndarray) -> np.ndarray:
    """Return the lower median of what is not NaN."""
    if 0 < a.size <= FEW and a.dtype.char in "fd":
        ordered = np.sort(a, None)
        count = np.count_nonzero(ordered == ordered)
        return np.array(ordered[max(count - 1, 0) // 2])
    return _median("median", a, None, False, True)[0]


def median_dim(a: np.ndarray, dim: int = -1, keepdim: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Return lower medians along dim and a position of each (the stable order's); the first NaN if any."""
    return _median("median", a, dim, keepdim, False)


def nanmedian_dim(a: np.ndarray, dim: int = -1, keepdim: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Return lower medians along dim of what is not NaN, and a position of each."""
    return _median("nanmedian", a, dim, keepdim, True)


def mode(a: np.ndarray, dim: int = -1, keepdim: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Return the most frequent value along dim, the least of equals, and the position of one.

    Every NaN is a value of its own, greater than all numbers (PyTorch's answer is arbitrary when there is
    a NaN: its sort compares with `<`).
    """
    moved, dim = _last_axis("mode", a, dim)
    n = moved.shape[-1]
    if moved.size == 0:
        shape = (*moved.shape[:-1], 1)
        return _finish(np.empty(shape, a.dtype), a, dim, keepdim), _finish(np.empty(shape, np.int64), a, dim, keepdim)
    if a.ndim == 0:
        return a.copy(), np.zeros((), np.int64)
    if a.dtype.kind == "c":
        raise NotImplementedError(f"mode is not implemented for {a.dtype.name}: complex has no order")
    order = unstable_order(sortable(moved), argsort_last(moved, False))
    keys = take_last(sortable(moved), order)
    starts = np.ones(keys.shape, np.bool_)
    starts[..., 1:] = keys[..., 1:] != keys[..., :-1]
    positions = np.arange(n)
    first = np.maximum.accumulate(np.where(starts, positions, 0), axis=-1)
    run = positions - first  # grows along a run: its greatest value, met first, ends the winning run
    index = take_last(order, run.argmax(axis=-1)[..., None])
    return _finish(take_last(moved, index), a, dim, keepdim), _finish(index, a, dim, keepdim)


INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def check_quantile(name: str, a: np.ndarray, q: np.ndarray | float, interpolation: str) -> None:
    """Raise for arguments that `quantile` refuses."""
    if a.dtype.char not in "fd":
        raise RuntimeError(f"{name}() input tensor must be either float or double dtype, got {a.dtype.name}")
    if a.size == 0:
        raise RuntimeError(f"{name}() input tensor must be non-empty")
    if interpolation not in INTERPOLATIONS:
        raise RuntimeError(
            f"{name}() interpolation must be 'linear', 'lower', 'higher', 'midpoint' or 'nearest', not "
            f"'{interpolation}'"
        )
    if isinstance(q, np.ndarray):
        if q.ndim > 1:
            raise RuntimeError(f"{name}() q must be a scalar or 1D tensor, got {q.ndim} dimensions")
        if q.dtype != a.dtype:
            raise RuntimeError(f"{name}() q tensor must be same dtype as the input tensor: {q.dtype.name}, {a.dtype.name}")
    levels = np.asarray(q, a.dtype)
    if levels.size and not (levels.min() >= 0 and levels.max() <= 1):
        raise RuntimeError(f"{name}() q must be in the range [0, 1] but got {levels.tolist()}")


def last_ranks(ordered: np.ndarray, skip_nan: bool) -> np.ndarray:
    """Return the greatest rank of each line of sorted arrays, (..., 1): of what is not NaN with skip_nan."""
    n = ordered.shape[-1]
    if not skip_nan:
        return np.full((*ordered.shape[:-1], 1), n - 1)
    return np.maximum(n - 1 - np.count_nonzero(np.isnan(ordered), axis=-1)[..., None], 0)


def whole_ranks(ranks: np.ndarray, ordered: np.ndarray, interpolation: str, skip_nan: bool) -> np.ndarray:
    """Return the ranks to read: rounded as interpolation says; the last, which is NaN, in lines that have a NaN."""
    if interpolation in ("lower", "higher", "nearest"):
        ranks = {"lower": np.floor, "higher": np.ceil, "nearest": np.rint}[interpolation](ranks)
    if skip_nan:
        return ranks
    return np.where(np.isnan(ordered[..., -1:]), ranks.dtype.type(ordered.shape[-1] - 1), ranks)


def quantile(
    a: np.ndarray,
    q: np.ndarray | float,
    dim: int | None = None,
    keepdim: bool = False,
    interpolation: str = "linear",
    skip_nan: bool = False,
) -> np.ndarray:
    """Return quantiles along dim; with q a vector, its axis comes first.

    Args:
        a: float32 or float64.
        q: number, 0-d or 1-D array of a's dtype, in [0, 1].
        skip_nan: leave NaN out (nanquantile); else a NaN makes the result NaN.

    Raises:
        RuntimeError: a is empty or of another dtype; q is outside [0, 1] or has another dtype or more
            than one axis; an unknown interpolation.
    """
    check_quantile("quantile", a, q, interpolation)
    levels = np.asarray(q, a.dtype)
    axis = 0
    if dim is None:
        moved = a.reshape(1, -1)
    else:
        axis = normalize_dim(dim, a.ndim)
        moved = np.moveaxis(a, axis, -1) if a.ndim else a.reshape(1, 1)
    ordered = np.sort(moved, axis=-1)
    ranks = np.asarray(levels.reshape(-1) * last_ranks(ordered, skip_nan).astype(a.dtype))
    ranks = whole_ranks(ranks, ordered, interpolation, skip_nan)
    below = ranks.astype(np.int64)
    values = np.take_along_axis(ordered, below, axis=-1)
    if interpolation in ("linear", "midpoint"):
        weight = np.full_like(ranks, 0.5) if interpolation == "midpoint" else ranks - below
        above = np.take_along_axis(ordered, np.ceil(ranks).astype(np.int64), axis=-1)
        step = above - values
        values = np.where(weight < 0.5, values + weight * step, above - step * (1 - weight))
    if dim is not None and a.ndim > 1:
        values = dense(values)
    out = np.moveaxis(values, -1, 0)  # (q, *rest)
    if dim is None or a.ndim == 0:
        out = out.reshape(len(out), *((1,) * a.ndim if keepdim else ()))
    elif keepdim:
        out = np.expand_dims(out, axis + 1)
    return dense(out if levels.ndim else out[0]).astype(a.dtype, copy=False)


def nanquantile(
    a: np.ndarray,
    q: np.ndarray | float,
    dim: int | None = None,
    keepdim: bool = False,
    interpolation: str = "linear",
) -> np.ndarray:
    """Return quantiles along dim of what is not NaN; see `quantile`."""
    return quantile(a, q, dim, keepdim, interpolation, True)
