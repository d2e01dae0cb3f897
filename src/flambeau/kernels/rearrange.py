"""Moving elements to computed places: triangles, diagonals, rolls, rotations, repeats."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from flambeau.kernels import strides
from flambeau.kernels.layout import empty_like
from flambeau.kernels.pointwise import drop, keep
from flambeau.kernels.strides import normalize_dim


@lru_cache(maxsize=64)
def _outside(rows: int, columns: int, diagonal: int, lower: bool) -> np.ndarray:
    """Which elements of a small matrix `tril` (lower) or `triu` sets to 0."""
    below = np.tri(rows, columns, diagonal if lower else diagonal - 1, np.bool_)
    return ~below if lower else below


def _triangle(name: str, a: np.ndarray, diagonal: int, lower: bool) -> np.ndarray:
    if a.ndim < 2:
        raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions, got {a.ndim}")
    if 0 < a.size <= 4096:
        out = a.copy()
        out[..., _outside(*a.shape[-2:], diagonal, lower)] = 0
        return out
    kept = np.tri(a.shape[-2], a.shape[-1], diagonal if lower else diagonal - 1, np.bool_)
    if a.size > 4096 and a.dtype.kind in "iuf":
        return (keep if lower else drop)(a, kept if a.ndim == 2 else np.broadcast_to(kept, a.shape))
    return np.where(kept if lower else ~kept, a, a.dtype.type(0))


def tril(a: np.ndarray, diagonal: int = 0) -> np.ndarray:
    """Return a with what lies above a diagonal of the last two axes set to 0."""
    return _triangle("tril", a, diagonal, True)


def triu(a: np.ndarray, diagonal: int = 0) -> np.ndarray:
    """Return a with what lies below a diagonal of the last two axes set to 0."""
    return _triangle("triu", a, diagonal, False)


def _check_sizes(name: str, row: int, col: int) -> None:
    if row < 0 or col < 0:
        raise RuntimeError(f"{name}: row and col must be non-negative, got {row} and {col}")


def _stretches(first: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Row and column numbers of so many elements of each row from its first on."""
    total = int(lengths.sum())
    out = np.empty((2, total), np.int64)
    out[0] = np.repeat(np.arange(len(lengths)), lengths)
    starts = np.cumsum(lengths) - lengths
    np.subtract(np.arange(total), np.repeat(starts - first, lengths), out[1])
    return out


def tril_indices(row: int, col: int, offset: int = 0) -> np.ndarray:
    """Return the row and column numbers (int64, shape (2, count)) of a lower triangle, row by row."""
    _check_sizes("tril_indices", row, col)
    if row * col <= 4096:
        return np.array((~_outside(row, col, offset, True)).nonzero())
    rows = np.arange(row)
    return _stretches(np.zeros(row, np.int64), np.clip(rows + offset + 1, 0, col))


def triu_indices(row: int, col: int, offset: int = 0) -> np.ndarray:
    """Return the row and column numbers (int64, shape (2, count)) of an upper triangle, row by row."""
    _check_sizes("triu_indices", row, col)
    if row * col <= 4096:
        return np.array((~_outside(row, col, offset, False)).nonzero())
    first = np.clip(np.arange(row) + offset, 0, col)
    return _stretches(first, col - first)


def diag_embed(a: np.ndarray, offset: int = 0, dim1: int = -2, dim2: int = -1) -> np.ndarray:
    """Return zeros with a's last axis on a diagonal of new axes dim1 and dim2.

    Raises:
        RuntimeError: dim1 equals dim2.
        IndexError: one is out of range of the result.
    """
    ndim = a.ndim + 1
    first, second = normalize_dim(dim1, ndim), normalize_dim(dim2, ndim)
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical: {dim1}, {dim2}")
    if a.ndim == 0:
        raise IndexError("diag_embed: input must have at least 1 dimension, got 0")
    size = a.shape[-1] + abs(offset)
    shape = list(a.shape[:-1])
    for axis in sorted((first, second)):
        shape.insert(axis, size)
    out = np.zeros(tuple(shape), a.dtype)
    strides.diagonal(out, offset, first, second)[...] = a
    return out


def diagonal_backward(g: np.ndarray, shape: Sequence[int], offset: int = 0, dim1: int = 0, dim2: int = 1) -> np.ndarray:
    """Return the gradient of `strides.diagonal` for an array of this shape: g on the diagonal of zeros."""
    out = np.zeros(tuple(shape), g.dtype)
    strides.diagonal(out, offset, dim1, dim2)[...] = g
    return out


def unfold_backward(g: np.ndarray, shape: Sequence[int], dim: int, size: int, step: int) -> np.ndarray:
    """Return the gradient of `strides.unfold`: windows added back where they overlap."""
    out = np.zeros(tuple(shape), g.dtype)
    if out.ndim == 0:
        return g.sum(dtype=g.dtype).reshape(())
    dim = normalize_dim(dim, out.ndim)
    n_windows = g.shape[dim]
    for place in range(size):
        if n_windows:
            key = (slice(None),) * dim + (slice(place, place + (n_windows - 1) * step + 1, step),)
            out[key] += g[..., place]
    return out


def as_strided_backward(
    g: np.ndarray, shape: Sequence[int], stride: Sequence[int], storage_size: int, offset: int
) -> np.ndarray:
    """Return the gradient of `strides.as_strided` for the 1-D storage: repeated elements add up.

    Args:
        shape, stride, offset: the view's, in elements of the storage.
    """
    storage = np.zeros(storage_size, g.dtype)
    positions = np.full((1,) * len(shape), offset, np.int64)
    for axis, (n, step) in enumerate(zip(shape, stride, strict=True)):
        positions = positions + (np.arange(n) * step).reshape((-1,) + (1,) * (len(shape) - 1 - axis))
    np.add.at(storage, positions.reshape(-1), np.ascontiguousarray(g).reshape(-1))
    return storage


def _rolled(a: np.ndarray, shift: int, axis: int) -> np.ndarray:
    """A copy, in row-major order, whose axis starts `shift` places later."""
    n = a.shape[axis]
    out = np.empty(a.shape, a.dtype)
    if n:
        shift %= n
        before = (slice(None),) * axis
        out[(*before, slice(shift, None))] = a[(*before, slice(0, n - shift))]
        out[(*before, slice(0, shift))] = a[(*before, slice(n - shift, None))]
    return out


def roll(a: np.ndarray, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None) -> np.ndarray:
    """Return a rolled along dims; without dims, the flattened array is rolled.

    Raises:
        RuntimeError: shifts and dims differ in length, or shifts is empty.
    """
    all_shifts = (shifts,) if isinstance(shifts, int) else tuple(shifts)
    axes = () if dims is None else (dims,) if isinstance(dims, int) else tuple(dims)
    if not all_shifts:
        raise RuntimeError("`shifts` required: roll() got no shift")
    if not axes and len(all_shifts) == 1:
        return _rolled(np.ravel(a), all_shifts[0], 0).reshape(a.shape)
    if len(all_shifts) != len(axes):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(all_shifts)}, dims: {len(axes)}")
    if a.ndim == 0:
        raise IndexError(f"Dimension specified as {axes[0]} but tensor has no dimensions")
    if a.size == 0:
        return a.copy()
    out = a
    for shift, axis in zip(all_shifts, axes, strict=True):
        out = _rolled(out, shift, normalize_dim(axis, a.ndim))
    return out.copy() if out is a or not out.flags.c_contiguous else out


def rot90(a: np.ndarray, k: int = 1, dims: Sequence[int] = (0, 1)) -> np.ndarray:
    """Return a copy rotated k quarter turns in the plane of two axes, from the first towards the second.

    Raises:
        RuntimeError: not two different axes, or a has fewer.
        IndexError: an axis is out of range.
    """
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if a.ndim < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {a.ndim}")
    for axis in dims:
        normalize_dim(axis, a.ndim)
    if (dims[0] - dims[1]) % a.ndim == 0:
        raise RuntimeError(f"expected rotation dims to be different, but got {dims[0]} and {dims[1]}")
    k %= 4
    if k == 0:
        return a.copy(order="C")
    turned = empty_like(a)       # a copy turned over, whose dimensions are exchanged
    turned[...] = np.flip(a, tuple(dims) if k == 2 else dims[k % 3])
    return turned if k == 2 else turned.swapaxes(*dims)


def repeat(a: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """Return a tiled `sizes` times along each axis (new axes in front).

    Raises:
        RuntimeError: fewer sizes than axes, or a negative one.
    """
    sizes = tuple(sizes)
    if len(sizes) < a.ndim:
        raise RuntimeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor: "
            f"{len(sizes)} < {a.ndim}"
        )
    if any(n < 0 for n in sizes):
        raise RuntimeError(f"Trying to create tensor with negative dimension: repeat sizes {list(sizes)}")
    return np.asarray(np.tile(a, sizes), order="C")


def repeat_interleave(
    a: np.ndarray, repeats: int | np.ndarray, dim: int | None = None, output_size: int | None = None
) -> np.ndarray:
    """Return a with each slice along dim repeated; dim None flattens a.

    Args:
        repeats: one number, or one for each slice (an int array of one element, or as many as slices).
        output_size: the result's length, checked when given.

    Raises:
        RuntimeError: repeats is negative, of another dtype, or of another length than the axis.
    """
    if dim is None:
        a, dim = np.ravel(a), 0
    dim = normalize_dim(dim, a.ndim)
    array = a.reshape(1) if a.ndim == 0 else a
    if isinstance(repeats, np.ndarray):
        if repeats.dtype not in (np.int64, np.int32):
            raise RuntimeError(f"repeats has to be Long or Int tensor, got {repeats.dtype.name}")
        if repeats.ndim > 1:
            raise RuntimeError(f"repeats must be 0-dim or 1-dim tensor, got {repeats.ndim} dimensions")
        if repeats.size != 1 and repeats.size != array.shape[dim]:
            raise RuntimeError(
                f"repeats must have one number for each of the {array.shape[dim]} slices along "
                f"dim {dim}, it has {repeats.size}"
            )
        if (repeats < 0).any():
            raise RuntimeError("repeats can not be negative")
        counts: int | np.ndarray = int(repeats.reshape(-1)[0]) if repeats.size == 1 else repeats
    elif repeats < 0:
        raise RuntimeError(f"Repeats must be non-negative, got {repeats}")
    else:
        counts = repeats
    out = np.repeat(array, counts, dim)
    if output_size is not None and out.shape[dim] != output_size:
        raise RuntimeError(f"allocated size does not match required size: {output_size}, {out.shape[dim]}")
    return np.ascontiguousarray(out)
