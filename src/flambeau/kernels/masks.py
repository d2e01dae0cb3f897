"""Selecting and writing under a mask: masked_select, masked_fill, masked_scatter, nonzero, where."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from flambeau.kernels import strides
from flambeau.kernels.pointwise import select


def _check_mask(name: str, mask: np.ndarray) -> np.ndarray:
    if mask.dtype == np.bool_:
        return mask
    raise RuntimeError(f"{name}: expected BoolTensor for mask, got {mask.dtype.name}: use mask.bool()")


def _broadcast_pair(a: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if a.shape != mask.shape:
        shape = strides.broadcast_shapes(mask.shape, a.shape)
        return strides.expand(a, shape), strides.expand(mask, shape)
    return a, mask


def masked_select(a: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return the elements where mask is True, in row-major order, 1-D; a and mask broadcast."""
    a, mask = _broadcast_pair(a, _check_mask("masked_select", mask))
    return a[mask].reshape(-1)


def masked_select_backward(g: np.ndarray, shape: Sequence[int], mask: np.ndarray) -> np.ndarray:
    """Return the gradient of `masked_select` in the broadcast shape of a (of this shape) and mask."""
    full = strides.broadcast_shapes(shape, mask.shape)
    out = np.zeros(full, g.dtype)
    out[strides.expand(mask, full)] = g
    return out


def masked_fill(a: np.ndarray, mask: np.ndarray, value: object) -> np.ndarray:
    """Return a copy of a with value (a number or 0-d array) where mask is True; both broadcast."""
    mask = _check_mask("masked_fill", mask)
    if a.shape != mask.shape:
        strides.broadcast_shapes(a.shape, mask.shape)
    choose = np.where if a.size <= 4096 and mask.size <= 4096 else select
    return np.asarray(choose(mask, np.asarray(value).astype(a.dtype), a), order="C")


def masked_scatter(a: np.ndarray, mask: np.ndarray, source: np.ndarray) -> np.ndarray:
    """Return a copy of a whose elements under mask are replaced by the first elements of source.

    Raises:
        RuntimeError: source has too few elements, or another dtype.
    """
    if a.dtype != source.dtype:
        raise RuntimeError(
            f"masked_scatter: expected self and source to have same dtypes but got {a.dtype.name} and {source.dtype.name}"
        )
    a, mask = _broadcast_pair(a, _check_mask("masked_scatter", mask))
    count = int(np.count_nonzero(mask))
    if source.size < count:
        raise RuntimeError(f"masked_scatter: Number of elements of source < number of ones in mask: {source.size} < {count}")
    out = a.copy()
    out[mask] = source.reshape(-1)[:count]
    return out


def nonzero(a: np.ndarray) -> np.ndarray:
    """Return the positions of nonzero elements, one a row: int64 of shape (count, ndim)."""
    if a.ndim == 0:
        return np.empty((1 if bool(a) else 0, 0), np.int64)
    return np.array(a.nonzero()).T      # stored by columns, as in PyTorch


def nonzero_tuple(a: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the positions of nonzero elements, one int64 vector an axis; a 0-d array counts as 1-D."""
    return (a.reshape(1) if a.ndim == 0 else a).nonzero()


def where(condition: np.ndarray, self: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return self where condition holds, else other; all broadcast, dtypes already agree.

    Raises:
        RuntimeError: condition is not a mask, or shapes do not broadcast.
    """
    if condition.dtype != np.bool_:
        if condition.dtype != np.uint8:
            raise RuntimeError(
                f"where: the condition must be a boolean tensor, this one has dtype {condition.dtype.name}"
            )
        condition = condition.astype(np.bool_)
    try:
        return np.asarray(np.where(condition, self, other))
    except ValueError:
        strides.broadcast_shapes(condition.shape, self.shape, other.shape)
        raise
