"""Indices into the rows of one sample as indices into the rows of all: how vmap folds its batch into a dimension."""

from __future__ import annotations

import numpy as np

from ._meta import Meta
from ._record import KERNEL, primitive


def _rows(index: np.ndarray, n: int) -> np.ndarray:
    """index (B, *) of rows 0..n-1 of each sample, plus b * n for sample b.

    Raises:
        IndexError: an index out of range, which would read a row of another sample.
    """
    if index.dtype.kind not in "iu":
        raise RuntimeError(f"indices must be of an integer dtype, and are {index.dtype.name}: convert with .long()")
    if index.size and (index.min() < -n or index.max() >= n):
        bad = index[(index < -n) | (index >= n)].reshape(-1)[0]
        raise IndexError(f"index out of range in self: index {bad} is out of bounds for a dimension of size {n}")
    starts = (np.arange(len(index), dtype=np.int64) * n).reshape(-1, *(1,) * (index.ndim - 1))
    return np.where(index < 0, index + n, index).astype(np.int64) + starts


primitive("rows_of_samples", _rows, params=("n",), differentiable=False, may_raise=True,
          meta=lambda index, n: Meta(index.shape, np.dtype("i8")), expr=KERNEL)
