"""LU factors of stacks of matrices with row exchanges, one column at a time over the whole stack."""

from __future__ import annotations

import numpy as np

from flambeau.kernels.linalg import by_columns


def _size(a: np.ndarray) -> np.ndarray:
    """What LAPACK compares to choose a pivot."""
    return np.abs(a.real) + np.abs(a.imag) if a.dtype.kind == "c" else np.abs(a)


def factor(a: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(L and U in one matrix, pivots counted from 1, number of the first zero pivot or 0), int32."""
    batch, (m, n) = a.shape[:-2], a.shape[-2:]
    out = np.array(a, order="C").reshape(int(np.prod(batch)), m, n)
    count, steps = out.shape[0], min(m, n)
    pivots, info = np.zeros((count, steps), np.int32), np.zeros(count, np.int32)
    every = np.arange(count)
    for i in range(steps):
        p = i + np.argmax(_size(out[:, i:, i]), axis=-1)
        pivots[:, i] = p + 1
        upper = out[every, p]
        out[every, p] = out[:, i]
        out[:, i] = upper
        pivot = out[:, i, i]
        info[(info == 0) & (pivot == 0)] = i + 1
        out[:, i + 1:, i] /= np.where(pivot == 0, np.ones_like(pivot), pivot)[:, None]
        out[:, i + 1:, i + 1:] -= out[:, i + 1:, i, None] * out[:, None, i, i + 1:]
    return by_columns(out.reshape(a.shape)), pivots.reshape(*batch, steps), info.reshape(batch)


def packed(a: np.ndarray) -> np.ndarray:
    """L and U of square matrices whose rows are in order."""
    out = np.array(a, order="C")
    for i in range(a.shape[-1]):
        pivot = out[..., i, i]
        out[..., i + 1:, i] /= np.where(pivot == 0, np.ones_like(pivot), pivot)[..., None]
        out[..., i + 1:, i + 1:] -= out[..., i + 1:, i, None] * out[..., None, i, i + 1:]
    return out


def order(pivots: np.ndarray, m: int) -> np.ndarray:
    """Which row of the matrix is each row of the factors, after all exchanges; int64 (*, m)."""
    flat = pivots.reshape(int(np.prod(pivots.shape[:-1])), pivots.shape[-1])
    out = np.tile(np.arange(m), (flat.shape[0], 1))
    every = np.arange(flat.shape[0])
    for i in range(flat.shape[1]):
        p = flat[:, i] - 1
        row = out[every, p]
        out[every, p] = out[:, i]
        out[:, i] = row
    return out.reshape(*pivots.shape[:-1], m)


def permutation(pivots: np.ndarray, m: int, dtype: np.dtype) -> np.ndarray:
    """p of a = p @ l @ u."""
    return np.swapaxes(np.eye(m, dtype=dtype)[order(pivots, m)], -2, -1).copy()
