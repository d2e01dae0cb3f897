"""LU factors of stacks of matrices with row exchanges, one column at a time over the whole stack."""

from __future__ import annotations

import numpy as np

from flambeau.kernels import lapack
from flambeau.kernels.linalg import by_columns, solve_triangular

_HALVED = 32            # columns above which matrices are eliminated in halves


def _size(a: np.ndarray) -> np.ndarray:
    """What LAPACK compares to choose a pivot."""
    return np.abs(a.real) + np.abs(a.imag) if a.dtype.kind == "c" else np.abs(a)


def factor(a: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(L and U in one matrix, pivots counted from 1, number of the first zero pivot or 0), int32."""
    batch, (m, n) = a.shape[:-2], a.shape[-2:]
    count, steps = int(np.prod(batch)), min(m, n)
    pivots, info = np.zeros((count, steps), np.int32), np.zeros(count, np.int32)
    if lapack.pays(count, steps) and a.size:
        turned = np.empty((count, n, m), a.dtype)
        lapack.getrf(a.reshape(count, m, n), turned.swapaxes(1, 2), pivots, info)
        return (turned.reshape(*batch, n, m).swapaxes(-1, -2), pivots.reshape(*batch, steps), info.reshape(batch))
    out = np.array(a, order="C").reshape(count, m, n)
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
    _eliminate(out)
    return out


def _eliminate(a: np.ndarray) -> None:
    """L and U of square matrices, in place: of the leading half, then of what is left when it is eliminated."""
    n = a.shape[-1]
    if n > _HALVED:
        h = n // 2
        first, across, down, rest = a[..., :h, :h], a[..., :h, h:], a[..., h:, :h], a[..., h:, h:]
        _eliminate(first)
        across[...] = solve_triangular(first, across, False, True)
        down[...] = solve_triangular(first.swapaxes(-1, -2), down.swapaxes(-1, -2), False, False).swapaxes(-1, -2)
        rest -= down @ across
        _eliminate(rest)
        return
    for i in range(n):
        pivot = a[..., i, i]
        a[..., i + 1:, i] /= np.where(pivot == 0, np.ones_like(pivot), pivot)[..., None]
        a[..., i + 1:, i + 1:] -= a[..., i + 1:, i, None] * a[..., None, i, i + 1:]


def order(pivots: np.ndarray, m: int) -> np.ndarray:
    """Which row of the matrix is each row of the factors, after all exchanges; int64 (*, m)."""
    flat = pivots.reshape(int(np.prod(pivots.shape[:-1])), pivots.shape[-1])
    count, steps = flat.shape
    if count == 1:
        rows = list(range(m))
        for i, p in enumerate(flat[0].tolist()):
            rows[i], rows[p - 1] = rows[p - 1], rows[i]
        return np.array(rows, np.int64).reshape(*pivots.shape[:-1], m)
    out = np.tile(np.arange(m), (count, 1))
    every = np.arange(count)
    for i in range(steps):
        p = flat[:, i] - 1
        row = out[every, p]
        out[every, p] = out[:, i]
        out[:, i] = row
    return out.reshape(*pivots.shape[:-1], m)


def permutation(pivots: np.ndarray, m: int, dtype: np.dtype) -> np.ndarray:
    """p of a = p @ l @ u."""
    out = np.zeros((*pivots.shape[:-1], m, m), dtype)
    np.put_along_axis(out, order(pivots, m)[..., None, :], dtype.type(1), -2)
    return out
