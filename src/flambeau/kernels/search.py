"""Searching and counting values: searchsorted, bucketize, bincount, unique, unique_consecutive."""

from __future__ import annotations

import numpy as np

from flambeau.kernels.sort import sortable
from flambeau.kernels.strides import normalize_dim


def _side(name: str, right: bool, side: str | None) -> str:
    if side is None:
        return "right" if right else "left"
    if side not in ("left", "right"):
        raise RuntimeError(f"{name}(): side can only be 'left' or 'right' but got {side}")
    if right and side == "left":
        raise RuntimeError(f"{name}(): side and right can't be set to opposites, got side of left while right is True")
    return side


def searchsorted(
    sorted_sequence: np.ndarray,
    values: np.ndarray,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: np.ndarray | None = None,
) -> np.ndarray:
    """Return where values would be inserted in rows that are sorted along their last axis.

    Args:
        sorted_sequence: 1-D (searched for every value), or of values' shape but for the last axis.
        right: insert after equal elements, not before; `side` says the same in words.
        sorter: int64 positions that sort sorted_sequence, of its shape.

    Returns:
        int64 (int32 with out_int32), of values' shape.

    Raises:
        RuntimeError: shapes or dtypes do not match.
    """
    name = "searchsorted"
    place = _side(name, right, side)
    if sorted_sequence.ndim == 0:
        raise RuntimeError(f"{name}(): sorted_sequence must have at least 1 dimension, got 0")
    if (
        sorted_sequence.ndim != 1
        and values.shape[:-1] != sorted_sequence.shape[:-1]
        or (sorted_sequence.ndim != 1 and values.ndim != sorted_sequence.ndim)
    ):
        raise RuntimeError(
            f"{name}(): boundaries tensor should be 1 dimension or match the input value tensor in all dimensions "
            f"but the last, got boundaries {list(sorted_sequence.shape)} and values {list(values.shape)}"
        )
    if sorted_sequence.dtype != values.dtype:
        raise RuntimeError(
            f"{name}(): boundary tensor and input value tensor should have same dtype, got "
            f"{sorted_sequence.dtype.name} and {values.dtype.name}"
        )
    if values.dtype.kind == "c":
        raise NotImplementedError(f'"{name}" not implemented for {values.dtype.name!r}: complex numbers have no order')
    if sorter is not None:
        if sorter.shape != sorted_sequence.shape:
            raise RuntimeError(
                f"{name}(): boundary and sorter must have the same size, got "
                f"{list(sorted_sequence.shape)} and {list(sorter.shape)}"
            )
        if sorter.dtype != np.int64:
            raise RuntimeError(f"{name}(): sorter must be a tensor of long dtype but got {sorter.dtype.name}")
        n = sorted_sequence.shape[-1]
        if sorter.size and not (sorter.min() >= 0 and sorter.max() < n):
            raise RuntimeError(f"{name}(): sorter index out of range: positions must be in [0, {n})")
        sorted_sequence = np.take_along_axis(sorted_sequence, sorter, -1)
    result_dtype = np.int32 if out_int32 else np.int64
    keys, wanted = sortable(sorted_sequence), sortable(values)
    if keys.ndim == 1:
        return np.asarray(keys.searchsorted(wanted, place)).astype(result_dtype, copy=False)
    out = np.empty(wanted.shape, result_dtype)
    if out.size == 0:
        return out
    rows = keys.reshape(int(np.prod(keys.shape[:-1])), keys.shape[-1])
    for row, targets, found in zip(rows, wanted.reshape(len(rows), -1), out.reshape(len(rows), -1), strict=True):
        found[:] = row.searchsorted(targets, place)
    return out


def bucketize(values: np.ndarray, boundaries: np.ndarray, out_int32: bool = False, right: bool = False) -> np.ndarray:
    """Return the index of the bucket of each value: `searchsorted` in 1-D boundaries."""
    if boundaries.ndim != 1:
        raise RuntimeError(f"bucketize(): boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})")
    return searchsorted(boundaries, values, out_int32, right)


def bincount(a: np.ndarray, weights: np.ndarray | None = None, minlength: int = 0) -> np.ndarray:
    """Return how often (or with what total weight) each integer from 0 occurs in a vector.

    Returns:
        1-D, of length max(a) + 1 or minlength: int64; with weights float32 for float32, else float64.

    Raises:
        RuntimeError: a is not a vector of non-negative integers, weights has another shape, or minlength
            is negative.
    """
    if a.dtype.kind in "fcVb":
        raise RuntimeError(f"bincount only supports integral inputs, got {a.dtype.name}")
    if minlength < 0:
        raise RuntimeError(f"minlength should be >= 0, got {minlength}")
    if a.ndim == 1 and a.size == 0:
        return np.zeros(minlength, np.int64)
    if a.ndim != 1 or a.min() < 0:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if weights is None:
        return np.bincount(a, None, minlength).astype(np.int64, copy=False)
    if weights.shape != a.shape:
        raise RuntimeError(f"weights should be 1-d and have the same length as input: {weights.shape}, {a.shape}")
    out = np.bincount(a, weights.astype(np.float64, copy=False), minlength)
    return out.astype(np.float32) if weights.dtype == np.float32 else out


def _neighbours_differ(ordered: np.ndarray) -> np.ndarray:
    """For each row, whether it differs from the previous one; the first does."""
    new = np.ones(len(ordered), np.bool_)
    if len(ordered) > 1:
        different = ordered[1:] != ordered[:-1]
        new[1:] = different.reshape(len(ordered) - 1, -1).any(axis=1) if different.ndim > 1 else different
    return new


def _counts(starts: np.ndarray, total: int) -> np.ndarray:
    return np.diff(np.append(starts.nonzero()[0], total)).astype(np.int64, copy=False)


def unique(
    a: np.ndarray, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the distinct values in ascending order, for each element its place among them, and counts.

    What was not asked for is an empty int64 array. Every NaN is distinct. Sorted in any case.
    """
    empty = np.empty(0, np.int64)
    if a.dtype.kind == "c":
        raise NotImplementedError(f"unique is not implemented for {a.dtype.name}: complex has no order")
    flat = np.ravel(a)
    keys = sortable(flat)
    if not (return_inverse or return_counts):
        ordered = np.sort(keys, kind="stable")
        return ordered[_neighbours_differ(ordered)].astype(a.dtype, copy=False), empty, empty
    order = keys.argsort(kind="stable")
    ordered = keys[order]
    starts = _neighbours_differ(ordered)
    values = flat[order[starts]]
    inverse = empty
    if return_inverse:
        inverse = np.empty(flat.size, np.int64)
        inverse[order] = starts.cumsum() - 1
        inverse = inverse.reshape(a.shape)
    return values, inverse, _counts(starts, flat.size) if return_counts else empty


def _check_empty(name: str, a: np.ndarray, dim: int) -> None:
    if a.size == 0 and (a.shape[dim] != 0 or a.shape.count(0) > 1):
        raise RuntimeError(
            f"{name}: slices along dimension {dim} of shape {list(a.shape)} are empty (0 sized dimensions), "
            "so unique cannot be applied"
        )


def unique_dim(
    a: np.ndarray, dim: int, return_inverse: bool = False, return_counts: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the distinct slices along dim in lexicographic order, the place of each slice, and counts."""
    dim = normalize_dim(dim, a.ndim)
    if a.ndim == 0:
        return unique(a, True, return_inverse, return_counts)
    _check_empty("unique_dim", a, dim)
    if a.dtype.kind == "c":
        raise NotImplementedError(f"unique is not implemented for {a.dtype.name}: complex has no order")
    moved = np.moveaxis(a, dim, 0)
    n = len(moved)
    rows = sortable(moved).reshape(n, -1) if n else np.empty((0, 1), a.dtype)
    order = np.lexsort(rows.T[::-1]) if n else np.empty(0, np.int64)
    starts = _neighbours_differ(rows[order])
    values = np.moveaxis(moved[order[starts]], 0, dim)
    inverse = np.empty(n, np.int64)
    inverse[order] = starts.cumsum() - 1
    empty = np.empty(0, np.int64)
    return (
        np.ascontiguousarray(values),
        inverse if return_inverse else empty,
        _counts(starts, n) if return_counts else empty,
    )


def unique_consecutive(
    a: np.ndarray, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a without elements (slices along dim) equal to the previous, each one's place, and counts."""
    axis = 0
    if dim is None or a.ndim == 0:
        if dim is not None:
            normalize_dim(dim, 0)
        moved = np.ravel(a)
    else:
        axis = normalize_dim(dim, a.ndim)
        _check_empty("unique_consecutive", a, axis)
        moved = np.moveaxis(a, axis, 0)
    n = len(moved)
    starts = _neighbours_differ(moved)
    values = np.moveaxis(np.ascontiguousarray(moved[starts]), 0, axis)
    empty = np.empty(0, np.int64)
    inverse = empty
    if return_inverse:
        inverse = starts.cumsum() - 1
        if dim is None:
            inverse = inverse.reshape(a.shape)
    return values, inverse, _counts(starts, n) if return_counts else empty
