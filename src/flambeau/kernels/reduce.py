"""Reductions: sum, mean, prod, extrema with positions, all/any, counting, norms, logsumexp, variance.

`dim` is an int, a sequence of ints or None; None and () reduce everything. Half types are accumulated in
float32 and rounded once at the end. Small reductions are kept cheap: a whole-array sum into a prepared 0-d
array takes 0.58 us on 8x8 float32 where `a.sum()` takes 1.2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from flambeau.kernels.pointwise import drop
from flambeau.kernels.sort import sortable
from flambeau.kernels.strides import normalize_dim, normalize_dims
from flambeau.kernels.sums import MOST_BY_POSITION, by_position, in_rows, ones, scalar

Dim = int | Sequence[int] | None

HALF = "eE"  # dtype.char of float16 and bfloat16; dtype.name costs half a microsecond
_OWN_ORDER = "fdlib"  # dtype.char whose maximum and argmax agree with PyTorch's
_INT64 = np.dtype(np.int64)
_BOOL = np.dtype(np.bool_)
_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
FEW = 4096   # elements up to which a product with ones, or argmax, beats a reduction
MANY = 1 << 15  # elements above which pieces are added by BLAS first
_PIECE = 512    # elements of such a piece
_empty = np.empty
_add_reduce = np.add.reduce


def reduced_axes(dim: Dim, ndim: int) -> tuple[int, ...] | None:
    """Return the axes for NumPy, checked; None for all."""
    if dim is None:
        return None
    if type(dim) is int:
        if 0 <= dim < ndim:
            return (dim,)
        if ndim == 0:
            normalize_dim(dim, 0)
            return ()
        return (normalize_dim(dim, ndim),)
    dims = normalize_dims(dim, ndim)
    return None if not dims else dims if ndim else ()


def reduced_shape(shape: Sequence[int], dim: Dim, keepdim: bool = False) -> tuple[int, ...]:
    """Return the shape of a reduction's result."""
    axes = reduced_axes(dim, len(shape))
    if axes is None:
        axes = tuple(range(len(shape)))
    if keepdim:
        return tuple([1 if d in axes else n for d, n in enumerate(shape)])
    return tuple([n for d, n in enumerate(shape) if d not in axes])


def restore_axes(g: np.ndarray, dim: Dim, ndim: int) -> np.ndarray:
    """Return g, the gradient of a result without its reduced axes, with these axes of size 1 again."""
    axes = reduced_axes(dim, ndim)
    if axes is None:
        axes = tuple(range(ndim))
    for axis in sorted(axes):
        g = g[(slice(None),) * axis + (None,)]
    return g


def _row_major(out: np.ndarray) -> np.ndarray:
    """out, which NumPy gives the memory order of what it reduced, row by row as PyTorch's."""
    return out if out.ndim < 2 or out.flags.c_contiguous else out.copy()


def _reduce(ufunc: np.ufunc, a: np.ndarray, axes: tuple[int, ...] | None, dtype: np.dtype, keepdim: bool) -> np.ndarray:
    """Reduce in dtype, or in float32 rounded at the end when dtype is a half type."""
    if dtype.char in HALF:
        return np.asarray(ufunc.reduce(a, axes, _FLOAT32, None, keepdim)).astype(dtype, "C")
    out = ufunc.reduce(a, axes, None if a.dtype is dtype else dtype, None, keepdim)
    return _row_major(out) if type(out) is np.ndarray else np.array(out, dtype)


def _sum_dtype(a: np.ndarray) -> np.dtype:
    return _INT64 if a.dtype.kind in "biu" else a.dtype


def sum(a: np.ndarray, dim: Dim = None, keepdim: bool = False, dtype: np.dtype | None = None) -> np.ndarray:
    """Return the sum over dim; bool and integers give int64 unless dtype says otherwise.

    Raises:
        IndexError: an axis is out of range.
        RuntimeError: an axis is named twice.
    """
    own = a.dtype
    if dtype is None and (own is _FLOAT32 or own is _FLOAT64):
        if dim is None and not keepdim:
            out = _empty((), own)
            _add_reduce(_partial(a) if a.size > MANY else a, None, None, out)
            return out
        if type(dim) is int and a.ndim > 1 and -a.ndim <= dim < a.ndim:
            if a.ndim == 2 and not keepdim and a.size <= 65536 and a.flags.c_contiguous:
                if dim == 1 or dim == -1:
                    return a.dot(ones(a.shape[1], own))
                return ones(a.shape[0], own).dot(a)
            return _row_major(_add_reduce(a, dim, None, None, keepdim))
    if dtype is None:
        dtype = _sum_dtype(a)
    elif own != dtype and own.kind in "fcV" and np.dtype(dtype).kind in "iub":
        a = a.astype(dtype)
    return _reduce(np.add, a, reduced_axes(dim, a.ndim), np.dtype(dtype), keepdim)


def sum_all(a: np.ndarray, dtype: np.dtype | None = None) -> np.ndarray:
    """Return the sum of all elements; see `sum`."""
    own = a.dtype
    if dtype is None and (own is _FLOAT32 or own is _FLOAT64):
        out = _empty((), own)
        n = a.size
        if n <= FEW and a.flags.c_contiguous:
            a.ravel().dot(ones(n, own), out)             # BLAS: half the time of the reduction
            return out
        _add_reduce(_partial(a) if n > MANY else a, None, None, out)
        return out
    return sum(a, None, False, dtype)


def _partial(a: np.ndarray) -> np.ndarray:
    """Sums of the pieces of a large array, by BLAS: a third of the time of a reduction, and as exact for short pieces."""
    if not a.flags.c_contiguous:
        if not a.flags.f_contiguous:
            return a
        a = a.T
    flat = a.reshape(-1)
    whole = a.size - a.size % _PIECE
    sums = flat[:whole].reshape(-1, _PIECE).dot(ones(_PIECE, a.dtype))
    return sums if whole == a.size else np.append(sums, _add_reduce(flat[whole:]))


def count_reduced(a: np.ndarray, axes: tuple[int, ...] | None) -> int:
    """Return how many elements go into one result."""
    if axes is None:
        return a.size
    count = 1
    for axis in axes:
        count *= a.shape[axis]
    return count


def mean(a: np.ndarray, dim: Dim = None, keepdim: bool = False, dtype: np.dtype | None = None) -> np.ndarray:
    """Return the mean over dim; an empty one is NaN.

    Raises:
        RuntimeError: the dtype (a's, or the argument) is neither floating nor complex.
    """
    own = a.dtype
    if dim is None and dtype is None and not keepdim and (own is _FLOAT32 or own is _FLOAT64):
        out = sum_all(a)
        n = a.size
        # in double precision: rounded to float32, a quotient of two float32 numbers is the same
        out.fill(out.item() / n if n else math.nan)
        return out
    dtype = own if dtype is None else np.dtype(dtype)
    if dtype.kind in "biu":
        source = "Input" if dtype is own else "Optional"
        raise RuntimeError(
            f"mean(): could not infer output dtype. {source} dtype must be either a floating point or "
            f"complex dtype. Got: {dtype.name}: convert with .float(), or pass dtype="
        )
    axes = reduced_axes(dim, a.ndim)
    half = dtype.char in HALF
    if dtype is own and (own is _FLOAT32 or own is _FLOAT64) and type(dim) is int:
        out = sum(a, dim, keepdim)
    else:
        out = _add_reduce(a, axes, _FLOAT32 if half else None if dtype is own else dtype, None, keepdim)
    out = _row_major(out) if type(out) is np.ndarray else np.array(out)
    n = count_reduced(a, axes)
    np.divide(out, scalar(n, own) if own.char in "fd" and out.dtype is own else n, out)
    return out.astype(dtype) if half else out


def prod(a: np.ndarray, dim: Dim = None, keepdim: bool = False, dtype: np.dtype | None = None) -> np.ndarray:
    """Return the product over dim; bool and integers give int64 unless dtype says otherwise."""
    dtype = _sum_dtype(a) if dtype is None else np.dtype(dtype)
    if dtype != a.dtype and dtype.kind in "iub":
        a = a.astype(dtype)
    axes = reduced_axes(dim, a.ndim)
    if axes is None and a.size > MANY and a.flags.c_contiguous and dtype is a.dtype and dtype.char not in HALF:
        whole = a.size - a.size % 64        # 64 products side by side, which do not wait for each other
        flat = a.reshape(-1)
        rows = np.multiply.reduce(flat[:whole].reshape(64, -1), 0)
        out = np.asarray(np.multiply.reduce(rows) * np.multiply.reduce(flat[whole:]), dtype)
        return out.reshape((1,) * a.ndim) if keepdim else out
    return _reduce(np.multiply, a, axes, dtype, keepdim)


def nansum(a: np.ndarray, dim: Dim = None, keepdim: bool = False, dtype: np.dtype | None = None) -> np.ndarray:
    """Return the sum over dim with NaN counted as zero."""
    reduced_axes(dim, a.ndim)
    if a.dtype.kind == "c":
        raise RuntimeError("nansum on CPU does not support complex inputs: sum .real and .imag apart")
    if a.dtype.kind not in "biu":
        nan = np.asarray(np.isnan(a))
        if nan.any():
            a = drop(a, nan)
    return sum(a, dim, keepdim, dtype)


def nanmean(a: np.ndarray, dim: Dim = None, keepdim: bool = False, dtype: np.dtype | None = None) -> np.ndarray:
    """Return the mean over dim of what is not NaN; NaN where nothing is.

    Raises:
        RuntimeError: a is neither floating nor complex.
    """
    if a.dtype.kind in "biu":
        raise RuntimeError(f"nanmean(): the input must have a floating point or complex dtype, not {a.dtype.name}")
    total = nansum(a, dim, keepdim, dtype)
    count = sum(~np.isnan(a), dim, keepdim)
    return np.asarray(np.divide(total, count.astype(total.dtype)))


# Extrema


def _refuse_order(name: str, a: np.ndarray) -> None:
    if a.dtype.kind == "c" and a.size:
        raise NotImplementedError(f"{name} is not implemented for {a.dtype.name}: complex has no order")


def _check_not_empty(name: str, a: np.ndarray, axes: tuple[int, ...] | None) -> None:
    if a.size:
        return
    if axes is None:
        raise RuntimeError(
            f"{name}(): Expected reduction dim to be specified, for a tensor of no "
            "elements: give the 'dim' argument."
        )
    for axis in axes:
        if a.shape[axis] == 0:
            raise IndexError(f"{name}(): Expected reduction dim {axis} to have non-zero size.")


def _extreme(name: str, ufunc: np.ufunc, a: np.ndarray, dim: Dim, keepdim: bool) -> np.ndarray:
    axes = reduced_axes(dim, a.ndim)
    if a.size == 0:
        _check_not_empty(name, a, axes)
    _refuse_order(name, a)
    if axes == (a.ndim - 1,) and a.ndim > 1 and a.dtype.char in _OWN_ORDER and by_position(a):
        values, _ = _of_rows(a, ufunc is np.maximum)
        return values[..., None] if keepdim else values
    out = ufunc.reduce(a, axes, None, None, keepdim)
    return _row_major(out) if type(out) is np.ndarray else np.array(out, a.dtype)


def amax(a: np.ndarray, dim: Dim = None, keepdim: bool = False) -> np.ndarray:
    """Return the greatest element over dim; NaN if there is one.

    Raises:
        IndexError: a reduced axis is empty.
        RuntimeError: a is empty and dim is None.
    """
    return _extreme("amax", np.maximum, a, dim, keepdim)


def amin(a: np.ndarray, dim: Dim = None, keepdim: bool = False) -> np.ndarray:
    """Return the least element over dim; NaN if there is one. Errors as `amax`."""
    return _extreme("amin", np.minimum, a, dim, keepdim)


def aminmax(a: np.ndarray, dim: int | None = None, keepdim: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Return the least and the greatest element over dim.

    Raises:
        RuntimeError: a is empty and dim is None.
        IndexError: the axis is empty.
    """
    if a.size == 0 and dim is None:
        raise RuntimeError("aminmax(): an empty dimension has no smallest or largest element (the operation has no "
                           "identity).")
    axes = reduced_axes(dim, a.ndim)
    if a.size == 0:
        _check_not_empty("aminmax", a, axes)
    if a.dtype.kind == "c":
        raise NotImplementedError(f"aminmax is not implemented for {a.dtype.name}: complex has no order")
    least = _extreme("aminmax", np.minimum, a, dim, keepdim)
    return least, _extreme("aminmax", np.maximum, a, dim, keepdim)


def _arg_last(a: np.ndarray, axis: int, greatest: bool) -> np.ndarray:
    keys = sortable(a)
    return np.asarray(keys.argmax(axis) if greatest else keys.argmin(axis))


def _argument(name: str, a: np.ndarray, dim: int | None, keepdim: bool, greatest: bool) -> np.ndarray:
    if a.dtype.kind in "cb":
        kind = "complex" if a.dtype.kind == "c" else "bool"
        raise RuntimeError(f"{name}(): does not support {kind} input")
    if dim is None:
        if a.size == 0:
            raise IndexError(f"{name}(): Expected reduction dim to be specified, for a tensor of no elements.")
        out = _arg_last(np.ravel(a), 0, greatest)
        return out.reshape((1,) * a.ndim) if keepdim else out
    dim = normalize_dim(dim, a.ndim)
    _check_not_empty(name, a, (dim,))
    if a.ndim == 0:
        return np.zeros((), np.int64)
    out = _arg_last(a, dim, greatest)
    return np.expand_dims(out, dim) if keepdim else out


def argmax(a: np.ndarray, dim: int | None = None, keepdim: bool = False) -> np.ndarray:
    """Return the first position of the greatest element along dim (of the flattened array for None).

    A NaN counts as greatest.

    Raises:
        IndexError: nothing to choose from.
        RuntimeError: a is bool or complex.
    """
    return _argument("argmax", a, dim, keepdim, True)


def argmin(a: np.ndarray, dim: int | None = None, keepdim: bool = False) -> np.ndarray:
    """Return the first position of the least element; a NaN counts as least. See `argmax`."""
    return _argument("argmin", a, dim, keepdim, False)


def _of_rows(a: np.ndarray, greatest: bool) -> tuple[np.ndarray, np.ndarray]:
    """The extremes of the last axis, and their positions, which are found first: see `sums.row_max`."""
    index = a.argmax(-1) if greatest else a.argmin(-1)
    return in_rows(a, index), index


def _with_index(name: str, a: np.ndarray, dim: int, keepdim: bool, greatest: bool) -> tuple[np.ndarray, np.ndarray]:
    dim = normalize_dim(dim, a.ndim)
    _check_not_empty(name, a, (dim,))
    if a.dtype.kind == "c":
        raise RuntimeError(f"{name}(): does not support complex input")
    if a.ndim == 0:
        return a.copy(), np.zeros((), np.int64)
    if a.dtype.char in _OWN_ORDER and a.ndim > 1:
        if dim == a.ndim - 1 and a.size <= MOST_BY_POSITION and a.flags.c_contiguous:
            values, index = _of_rows(a, greatest)
            return (values[..., None], index[..., None]) if keepdim else (values, index)
        values = _row_major((np.maximum if greatest else np.minimum).reduce(a, dim, None, None, keepdim))
        return values, a.argmax(dim, None, keepdims=keepdim) if greatest else a.argmin(dim, None, keepdims=keepdim)
    index = _arg_last(a, dim, greatest)
    wide = np.expand_dims(index, dim)
    values = np.take_along_axis(a, wide, dim)
    return (values, wide) if keepdim else (values.squeeze(dim), index)


def max_dim(a: np.ndarray, dim: int, keepdim: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Return the greatest elements along dim and the first position of each; NaN counts as greatest."""
    return _with_index("max", a, dim, keepdim, True)


def min_dim(a: np.ndarray, dim: int, keepdim: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Return the least elements along dim and the first position of each; NaN counts as least."""
    return _with_index("min", a, dim, keepdim, False)


def max(a: np.ndarray) -> np.ndarray:
    """Return the greatest element of the whole array."""
    return _extreme("max", np.maximum, a, None, False)


def min(a: np.ndarray) -> np.ndarray:
    """Return the least element of the whole array."""
    return _extreme("min", np.minimum, a, None, False)


# Truth and counting


def _truth(ufunc: np.ufunc, a: np.ndarray, dim: Dim, keepdim: bool) -> np.ndarray:
    if isinstance(dim, (tuple, list)) and not dim:  # PyTorch: () reduces nothing here
        axes: tuple[int, ...] | None = ()
    else:
        axes = reduced_axes(dim, a.ndim)
    own = a.dtype
    out = ufunc.reduce(a if own is _BOOL else a != 0, axes, None, None, keepdim)
    return np.asarray(out, np.uint8 if own == np.uint8 else np.bool_, order="C")


def _few_nonzero(a: np.ndarray, dim: Dim, keepdim: bool) -> int:
    """How many elements of all are nonzero, where counting them is quickest; else -1."""
    if dim is None and not keepdim and a.size <= FEW and a.dtype.char in "?fdl":
        return np.count_nonzero(a)
    return -1


def all(a: np.ndarray, dim: Dim = None, keepdim: bool = False) -> np.ndarray:
    """Return whether every element over dim is nonzero: bool, or uint8 for uint8; dim=() reduces nothing."""
    n = _few_nonzero(a, dim, keepdim)
    return np.array(n == a.size) if n >= 0 else _truth(np.logical_and, a, dim, keepdim)


def any(a: np.ndarray, dim: Dim = None, keepdim: bool = False) -> np.ndarray:
    """Return whether some element over dim is nonzero: bool, or uint8 for uint8; dim=() reduces nothing."""
    n = _few_nonzero(a, dim, keepdim)
    return np.array(n > 0) if n >= 0 else _truth(np.logical_or, a, dim, keepdim)


def count_nonzero(a: np.ndarray, dim: Dim = None) -> np.ndarray:
    """Return the number (int64) of nonzero elements over dim."""
    return np.asarray(_add_reduce(a != 0, reduced_axes(dim, a.ndim), _INT64), order="C")
