"""Reading and writing at computed positions along one axis: gather, scatter, index_*, take, put.

Everything reduces to positions in the flattened array (`grid_positions`) and three writes: plain, `add_at`,
and `ufunc.at` for the other reductions. PyTorch's checks come first: unlike `a[key]`, most of these refuse
negative indices.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from flambeau.kernels import strides
from flambeau.kernels.indexing import add_at
from flambeau.kernels.layout import clone
from flambeau.kernels.strides import normalize_dim

_INT64, _UINT64 = np.dtype(np.int64), np.dtype(np.uint64)


def _check_index_dtype(name: str, index: np.ndarray, *, int32: bool = True) -> np.ndarray:
    if index.dtype is _INT64 or index.dtype == np.int64:
        return index
    if int32 and index.dtype == np.int32:
        return index.astype(np.int64)
    expected = "int32/int64" if int32 else "int64"
    raise RuntimeError(f"{name}(): Expected dtype {expected} for index, got {index.dtype.name}: use .long()")


def _first_outside(index: np.ndarray, size: int) -> int | None:
    """The first index outside [0, size), found in one unsigned reduction; None when all are inside."""
    if index.size <= 32:
        values = index.ravel().tolist()     # a few numbers are compared fastest in Python
        if not values or 0 <= min(values) and max(values) < size:
            return None
    elif np.maximum.reduce(index.view(_UINT64), None) < size:
        return None
    return int(index[(index < 0) | (index >= size)].flat[0])


def _check_range(index: np.ndarray, size: int, dim: int, error: type[Exception] = RuntimeError) -> None:
    bad = _first_outside(index, size)
    if bad is not None:
        raise error(f"index {bad} is out of bounds for dimension {dim} with size {size}")


def grid_positions(shape: Sequence[int], dim: int, index: np.ndarray) -> np.ndarray:
    """Return the flat positions, in an array of this shape, of [i, .., index[i, .., k], .., k]."""
    find = _cached_offsets if index.size <= MAX_CACHED_OFFSETS else _grid_offsets
    step, offsets = find(tuple(shape), dim, index.shape)
    return (index if step is None else index * step) + offsets


MAX_CACHED_OFFSETS = 8192  # elements: the cache of 128 entries stays under 8 MiB


def _grid_offsets(shape: tuple[int, ...], dim: int, index_shape: tuple[int, ...]) -> tuple[np.ndarray | None, np.ndarray]:
    """The step of axis dim as an array, None for one; the share of every other axis in `grid_positions`."""
    steps = strides.contiguous_strides(shape)
    out = np.zeros((1,) * len(index_shape), np.int64)
    for axis, n in enumerate(index_shape):
        if axis != dim and n > 1:
            out = out + (np.arange(n) * steps[axis]).reshape((n,) + (1,) * (len(index_shape) - 1 - axis))
    return None if steps[dim] == 1 else np.array(steps[dim]), out


@lru_cache(128)
def _cached_offsets(shape: tuple[int, ...], dim: int, index_shape: tuple[int, ...]) -> tuple[np.ndarray | None, np.ndarray]:
    """`_grid_offsets`, for a small index repeated to its shape: two small arrays of one shape are added fastest."""
    step, out = _grid_offsets(shape, dim, index_shape)
    return step, np.ascontiguousarray(np.broadcast_to(out, index_shape))


def _flat(a: np.ndarray) -> np.ndarray:
    return a.reshape(-1) if a.flags.c_contiguous else a.copy().reshape(-1)


def _gather_arguments(
    name: str, a: np.ndarray, dim: int, index: np.ndarray, src: np.ndarray | None = None
) -> tuple[tuple[int, ...], int, np.ndarray]:
    """Check, and return a's shape (at least 1-D), dim and the index in as many dimensions."""
    index = _check_index_dtype(name, index)
    dim = normalize_dim(dim, a.ndim)
    shape = a.shape or (1,)
    if index.size == 0:
        return shape, dim, index
    if index.ndim == 0:
        index = index.reshape(1)
    if index.ndim != len(shape):
        raise RuntimeError(
            f"{name}(): Index tensor must have the same number of dimensions as self tensor, got {index.ndim} and {a.ndim}"
        )
    fits = True
    for d, (n, limit) in enumerate(zip(index.shape, shape, strict=True)):
        if n > limit and d != dim:
            fits = False
    if src is not None:
        src_shape = src.shape or (1,)
        if len(src_shape) != index.ndim:
            raise RuntimeError(
                f"{name}(): Index tensor must have the same number of dimensions as src tensor, got "
                f"{index.ndim} and {src.ndim}"
            )
        if src_shape != index.shape:
            fits = fits and all(n <= limit for n, limit in zip(index.shape, src_shape, strict=True))
    if not fits:
        tail = f" and to be no larger size than src {list(src.shape)}" if src is not None else ""
        raise RuntimeError(
            f"{name}(): Size does not match: expected index {list(index.shape)} to be no larger than self "
            f"{list(a.shape)} apart from dimension {dim}{tail}"
        )
    _check_range(index, shape[dim], dim)
    return shape, dim, index


def gather(a: np.ndarray, dim: int, index: np.ndarray) -> np.ndarray:
    """Return out[i, j, k] = a[i, index[i, j, k], k] (for dim 1), of index's shape.

    index may be shorter than a along the other axes.

    Raises:
        RuntimeError: index has another number of dimensions, is longer than a, is not int32 or int64, or
            holds a value outside [0, size).
    """
    shape, dim, grid = _gather_arguments("gather", a, dim, index)
    if grid.size == 0:
        return np.empty(index.shape, a.dtype)
    if a.flags.c_contiguous:
        return a.reshape(-1).take(grid_positions(shape, dim, grid)).reshape(index.shape)
    key = [np.arange(n).reshape((n,) + (1,) * (grid.ndim - 1 - d)) for d, n in enumerate(grid.shape)]
    key[dim] = grid
    return np.ascontiguousarray(a[tuple(key)]).reshape(index.shape)


def gather_backward(g: np.ndarray, shape: Sequence[int], dim: int, index: np.ndarray) -> np.ndarray:
    """Return the gradient of `gather`: g added at the positions read, in an array of this shape."""
    return scatter_add(np.zeros(shape, g.dtype), dim, index, g)


def _source(src: np.ndarray | object, index: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The part of src that index covers; a number is repeated."""
    if isinstance(src, np.ndarray):
        if src.shape == index.shape:
            return src
        return src.reshape(src.shape or (1,))[tuple(slice(0, n) for n in index.shape)]
    return np.broadcast_to(np.asarray(src).astype(dtype), index.shape)


def _same_dtype(name: str, a: np.ndarray, src: object) -> None:
    if isinstance(src, np.ndarray) and src.dtype is not a.dtype and src.dtype != a.dtype:
        raise RuntimeError(
            f"{name}(): Expected self.dtype to be equal to src.dtype, got {a.dtype.name} and {src.dtype.name}"
        )


def scatter(a: np.ndarray, dim: int, index: np.ndarray, src: np.ndarray | object) -> np.ndarray:
    """Return a copy of a with out[i, index[i, j, k], k] = src[i, j, k] (for dim 1); src array or number.

    index may be shorter than src and a. With repeated positions the last write stays.

    Raises:
        RuntimeError: as `gather`; also when src has another dtype or is smaller than index.
    """
    _same_dtype("scatter", a, src)
    array = src if isinstance(src, np.ndarray) else None
    shape, dim, grid = _gather_arguments("scatter", a, dim, index, array)
    out = np.array(a, order="C")
    if grid.size:
        out.reshape(-1)[grid_positions(shape, dim, grid)] = _source(src, grid, a.dtype)
    return out


def scatter_add(a: np.ndarray, dim: int, index: np.ndarray, src: np.ndarray) -> np.ndarray:
    """Return a copy of a with src added at the positions that `scatter` would write, repeats included."""
    _same_dtype("scatter", a, src)
    shape, dim, grid = _gather_arguments("scatter_add", a, dim, index, src)
    out = np.array(a, order="C")
    if grid.size:
        add_at(out.reshape(-1), grid_positions(shape, dim, grid), _source(src, grid, a.dtype))
    return out


REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")


def _lowest(dtype: np.dtype) -> object:
    if dtype.kind in "iub":
        return False if dtype.kind == "b" else np.iinfo(dtype).min
    return -np.inf


def _highest(dtype: np.dtype) -> object:
    if dtype.kind in "iub":
        return True if dtype.kind == "b" else np.iinfo(dtype).max
    return np.inf


def _reduce_at(flat: np.ndarray, positions: np.ndarray, values: np.ndarray, reduce: str, include_self: bool) -> None:
    """Reduce values into flat[positions], in place; positions may repeat."""
    positions = np.ascontiguousarray(positions).reshape(-1)
    values = np.ascontiguousarray(values).reshape(-1)
    if not include_self:
        start = {"sum": 0, "mean": 0, "prod": 1}
        if reduce in start:
            flat[positions] = start[reduce]
        else:
            flat[positions] = _lowest(flat.dtype) if reduce == "amax" else _highest(flat.dtype)
    if reduce in ("sum", "mean"):
        np.add.at(flat, positions, values)
    elif reduce == "prod":
        np.multiply.at(flat, positions, values)
    elif reduce == "amax":
        np.maximum.at(flat, positions, values)
    else:
        np.minimum.at(flat, positions, values)
    if reduce == "mean":
        counts = np.bincount(positions, minlength=flat.size)
        if include_self:
            counts += 1
        np.maximum(counts, 1, out=counts)
        if flat.dtype.kind in "iu":
            np.floor_divide(flat, counts, out=flat, casting="unsafe")
        else:
            np.divide(flat, counts.astype(flat.dtype), out=flat)


def scatter_reduce(
    a: np.ndarray, dim: int, index: np.ndarray, src: np.ndarray, reduce: str, include_self: bool = True
) -> np.ndarray:
    """Return a copy of a with src reduced into the positions that `scatter` would write.

    Args:
        reduce: "sum", "prod", "mean", "amax" or "amin".
        include_self: whether a's own values take part where something is written.

    Raises:
        RuntimeError: as `scatter`, or an unknown reduction.
    """
    if reduce not in REDUCTIONS:
        raise RuntimeError(f"reduce argument must be one of {', '.join(REDUCTIONS)}, got {reduce}")
    _same_dtype("scatter", a, src)
    shape, dim, grid = _gather_arguments("scatter_reduce", a, dim, index, src)
    out = np.array(a, order="C")
    if grid.size:
        positions = grid_positions(shape, dim, grid)
        _reduce_at(out.reshape(-1), positions, _source(src, grid, a.dtype), reduce, include_self)
    return out


# One index vector for whole slices


def _vector(name: str, index: np.ndarray, *, int32: bool = True) -> np.ndarray:
    if index.ndim > 1:
        raise IndexError(f"{name}(): Index is supposed to be a vector, got {index.ndim} dimensions")
    return _check_index_dtype(name, index, int32=int32).reshape(-1)


class IndexSelectError(RuntimeError, IndexError):
    """An index of `index_select` is negative or too large; PyTorch raises either class, by layout."""


def index_select(a: np.ndarray, dim: int, index: np.ndarray) -> np.ndarray:
    """Return the slices of a at index (a vector, no negative values) along dim, contiguous.

    Raises:
        IndexSelectError: an index is out of bounds.
        RuntimeError: index is not int32 or int64.
        IndexError: index is not a vector, or dim is out of range.
    """
    dim = normalize_dim(dim, a.ndim)
    index = _vector("index_select", index)
    size = a.shape[dim] if a.ndim else 1
    bad = _first_outside(index, size)
    if bad is not None:
        raise IndexSelectError(
            f"index_select(): index {bad} is out of DATA bounds (out of range) of dimension {dim}, size {size}"
        )
    if a.ndim == 0:
        if index.size != 1:
            raise RuntimeError(f"index_select(): Index to scalar can have only 1 value, got {index.size} value(s)")
        return a.copy()
    if a.flags.c_contiguous:
        return a.take(index, axis=dim)
    return np.ascontiguousarray(a[(slice(None),) * dim + (index,)])


def index_select_backward(g: np.ndarray, shape: Sequence[int], dim: int, index: np.ndarray) -> np.ndarray:
    """Return the gradient of `index_select` for an array of this shape."""
    return index_add(np.zeros(shape, g.dtype), dim, index, g.reshape(()) if len(shape) == 0 else g)


def _slice_positions(shape: Sequence[int], dim: int, index: np.ndarray) -> np.ndarray:
    """Flat positions of the slices at index, in the shape of the source array."""
    like = (*shape[:dim], 1, *shape[dim + 1 :])
    find = _cached_offsets if math.prod(like) <= MAX_CACHED_OFFSETS else _grid_offsets
    step, offsets = find(tuple(shape), dim, like)
    starts = (index if step is None else index * step).reshape((-1,) + (1,) * (len(shape) - 1 - dim))
    return starts + offsets


def _check_slices(name: str, a: np.ndarray, dim: int, index: np.ndarray, source: np.ndarray) -> None:
    length = source.shape[dim] if source.ndim else 1
    if index.size != length:
        error = IndexError if name == "index_copy" else RuntimeError
        raise error(
            f"{name}_(): Number of indices ({index.size}) should be equal to source.size(dim): ({length}), for dim: {dim}"
        )
    mine, theirs = list(a.shape), list(source.shape)
    if mine and theirs:
        mine.pop(dim)
        theirs.pop(dim)
    if mine != theirs and a.ndim and source.ndim:
        raise RuntimeError(
            f"{name}_(): the shape of source must match that of self in all but the indexed dimension {dim}. Got "
            f"self.shape = {list(a.shape)}, source.shape = {list(source.shape)}"
        )


def _check_slice_dtype(name: str, a: np.ndarray, source: np.ndarray) -> None:
    if a.dtype is not source.dtype and a.dtype != source.dtype:
        raise RuntimeError(
            f"{name}_(): self ({a.dtype.name}) and source ({source.dtype.name}) must have the same scalar type"
        )


_MANY = 1 << 14         # elements from which rows are added by a sparse product


def _add_rows(a: np.ndarray, index: np.ndarray, source: np.ndarray) -> np.ndarray:
    """`index_add` of whole rows: the product with a sparse matrix that has a one for each row, added in their order."""
    from scipy.sparse import csc_array

    n = len(a)
    rows = [source.reshape(len(source), -1)]
    if a.any():             # the first row to be added everywhere is a's own
        index, rows = np.concatenate([np.arange(n), index]), [a.reshape(n, -1), *rows]
    values = np.ascontiguousarray(rows[0]) if len(rows) == 1 else np.concatenate(rows)
    ones = csc_array((np.ones(len(index), a.dtype), index, np.arange(len(index) + 1)), shape=(n, len(index)))
    return (ones @ values).reshape(a.shape)


def index_add(a: np.ndarray, dim: int, index: np.ndarray, source: np.ndarray, alpha: object = 1) -> np.ndarray:
    """Return a copy of a with alpha * source's slices added at index along dim, repeats included.

    Raises:
        IndexError: an index outside [0, size).
        RuntimeError: shapes, lengths or dtypes do not match.
    """
    dim = normalize_dim(dim, a.ndim)
    index = _vector("index_add", index)
    _check_slice_dtype("index_add", a, source)
    if a.ndim == 0 and source.ndim != 0:
        raise RuntimeError("index_add_(): the shape of source must match that of self in all but the indexed "
                           f"dimension. Got self.shape = [], source.shape = {list(source.shape)}")
    _check_slices("index_add", a, dim, index, source)
    shape = a.shape or (1,)
    _check_range(index, shape[dim], dim, IndexError)
    if dim == 0 and a.ndim > 1 and a.dtype.char in "fd" and source.size >= _MANY and a[0].size >= 16:
        return _add_rows(a, index, source if alpha == 1 else source * np.asarray(alpha).astype(a.dtype))
    out = np.array(a, order="C")
    if source.size:
        values = source if alpha == 1 else source * np.asarray(alpha).astype(a.dtype)
        add_at(out.reshape(-1), _slice_positions(shape, dim, index), values)
    return out


def index_copy(a: np.ndarray, dim: int, index: np.ndarray, source: np.ndarray) -> np.ndarray:
    """Return a copy of a with the slices at index along dim replaced by source's.

    Raises:
        IndexError: an index outside [0, size), or as many indices as slices are not given.
        RuntimeError: slice shapes or dtypes do not match.
    """
    dim = normalize_dim(dim, a.ndim)
    index = _vector("index_copy", index, int32=False)
    if a.ndim and source.ndim and a.ndim != source.ndim:
        raise IndexError("index_copy_(): Source and destination must have the same number of dimensions. "
                         f"Source dimensionality ({source.ndim}), destination dimensionality ({a.ndim})")
    _check_slice_dtype("index_copy", a, source)
    _check_slices("index_copy", a, dim, index, source)
    shape = a.shape or (1,)
    _check_range(index, shape[dim], dim, IndexError)
    out = np.array(a, order="C")
    out.reshape(shape)[(slice(None),) * dim + (index,)] = source.reshape(source.shape or (1,))
    return out


def index_fill(a: np.ndarray, dim: int, index: np.ndarray, value: object) -> np.ndarray:
    """Return a copy of a with the slices at index (negative counts from the end) filled with a number.

    Raises:
        IndexError: index is not int64, or out of range.
        RuntimeError: index is not a vector.
    """
    dim = normalize_dim(dim, a.ndim)
    if index.dtype != np.int64:
        raise IndexError(f"index_fill_(): Expected dtype int64 for index, got {index.dtype.name}")
    shape = a.shape or (1,)
    if index.ndim > 1:
        raise RuntimeError(f"index_fill_(): Index has to be a vector/scalar, got {index.ndim} dimensions")
    index = index.reshape(-1)
    size = shape[dim]
    _check_range(np.where(index < 0, index + size, index), size, dim, IndexError)
    out = clone(a)
    (out if a.ndim else out.reshape(1))[(slice(None),) * dim + (index,)] = np.asarray(value).astype(a.dtype)
    return out


def index_reduce(
    a: np.ndarray, dim: int, index: np.ndarray, source: np.ndarray, reduce: str, include_self: bool = True
) -> np.ndarray:
    """Return a copy of a with source's slices reduced into those at index along dim.

    Args:
        reduce: "prod", "mean", "amax" or "amin".

    Raises:
        RuntimeError, IndexError: as `index_add`; RuntimeError for an unknown reduction.
    """
    if reduce not in REDUCTIONS or reduce == "sum":
        raise RuntimeError(f"index_reduce(): Expected reduce to be one of prod, mean, amax, amin, not {reduce}.")
    return scatter_reduce(a, dim, index_grid(a, dim, index, source), source, reduce, include_self)


def index_grid(a: np.ndarray, dim: int, index: np.ndarray, source: np.ndarray) -> np.ndarray:
    """A vector of slice numbers as the index of `scatter_reduce`: repeated over source's shape, checked.

    Raises:
        RuntimeError, IndexError: as `index_add`.
    """
    dim = normalize_dim(dim, a.ndim)
    index = _vector("index_reduce", index)
    _check_slice_dtype("index_reduce", a, source)
    _check_slices("index_reduce", a, dim, index, source)
    _check_range(index, (a.shape or (1,))[dim], dim, IndexError)
    if source.ndim == 0:
        return np.asarray(index.reshape(()), np.int64)
    shape = tuple(-1 if axis == dim else 1 for axis in range(source.ndim))
    return np.array(np.broadcast_to(index.reshape(shape), source.shape), np.int64)


# The flattened array


def _wrapped(name: str, a: np.ndarray, index: np.ndarray) -> np.ndarray:
    if index.dtype != np.int64:
        raise RuntimeError(f"{name}(): Expected a long tensor for index, but got {index.dtype.name}")
    if a.size == 0 and index.size:
        raise IndexError(f"{name}(): tried to {name} from an empty tensor")
    if index.size:
        low, high = int(index.min()), int(index.max())
        if low < -a.size or high >= a.size:
            bad = low if low < -a.size else high
            raise IndexError(f"out of range: tried to access index {bad} on a tensor of {a.size} elements.")
        if low < 0:
            return np.where(index < 0, index + a.size, index)
    return index


def take(a: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Return the elements of the flattened array at index (int64, any sign), of index's shape."""
    index = _wrapped("take", a, index)
    if index.size == 0:
        return np.empty(index.shape, a.dtype)
    return np.asarray(_flat(a).take(index))


def take_backward(g: np.ndarray, shape: Sequence[int], index: np.ndarray) -> np.ndarray:
    """Return the gradient of `take` for an array of this shape."""
    return put(np.zeros(shape, g.dtype), index, g, True)


def put(a: np.ndarray, index: np.ndarray, source: np.ndarray, accumulate: bool = False) -> np.ndarray:
    """Return a copy of a with source written (or added) at flat positions index.

    Raises:
        IndexError: out of range, or source and index differ in number of elements.
        RuntimeError: index is not int64, or dtypes differ.
    """
    if index.dtype == np.int64 and a.dtype != source.dtype:
        raise RuntimeError(
            f"put_(): self and source expected to have the same dtype, but got {a.dtype.name} and {source.dtype.name}"
        )
    if index.dtype == np.int64 and index.size != source.size:
        raise IndexError(
            f"put_(): source needs one element for each index; source.numel() = {source.size}, index.numel() = "
            f"{index.size}"
        )
    index = _wrapped("put", a, index)
    out = np.array(a, order="C")
    if accumulate:
        add_at(out.reshape(-1), index, source)
    else:
        out.reshape(-1)[index.reshape(-1)] = source.reshape(-1)
    return out


def take_along_dim(a: np.ndarray, indices: np.ndarray, dim: int | None = None) -> np.ndarray:
    """Return a's elements at indices along dim, other axes broadcast; dim None flattens a.

    Negative indices count from the end.

    Raises:
        RuntimeError: indices is not int64, has another number of dimensions, or is out of range.
    """
    if indices.dtype != np.int64:
        raise RuntimeError(f"take_along_dim(): dtype of indices should be Long but got {indices.dtype.name}")
    if dim is None:
        a, indices, dim = a.reshape(-1), indices.reshape(-1), 0
    if a.ndim != indices.ndim:
        raise RuntimeError(
            "take_along_dim(): input and indices must have equally many dimensions, these have "
            f"{a.ndim} dimensions for input, and {indices.ndim} dimensions for indices"
        )
    dim = normalize_dim(dim, a.ndim)
    if a.ndim:
        common = list(strides.broadcast_shapes(_without(a.shape, dim), _without(indices.shape, dim)))
        length = a.shape[dim]
        a = strides.expand(a, (*common[:dim], length, *common[dim:]))
        indices = strides.expand(indices, (*common[:dim], indices.shape[dim], *common[dim:]))
        indices = np.where(indices < 0, indices + length, indices)
    return gather(a, dim, indices)


def _without(shape: tuple[int, ...], dim: int) -> tuple[int, ...]:
    return shape[:dim] + shape[dim + 1 :]
