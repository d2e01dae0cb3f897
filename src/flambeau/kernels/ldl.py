"""Factors of symmetric and Hermitian matrices that need not be definite, with symmetric exchanges.

The lower triangle is read. D has blocks of one and two rows; its blocks of two are the cure for small diagonals.

Source: Bunch and Kaufman, Mathematics of Computation 31(137), 1977, algorithm A; the packed form is LAPACK's (sytrf,
hetrf, lower).
"""

from __future__ import annotations

import math

import numpy as np

from flambeau.kernels.linalg import by_columns

_ALPHA = (1 + math.sqrt(17)) / 8        # the growth of the elements is least for it


def _size(a: np.ndarray) -> np.ndarray:
    return np.abs(a.real) + np.abs(a.imag) if a.dtype.kind == "c" else np.abs(a)


def _pivot(m: np.ndarray, k: int, hermitian: bool) -> tuple[int, int, bool]:
    """(row to exchange with, rows of the block, whether the column is zero) of the trailing matrix m[k:, k:]."""
    n = len(m)
    diagonal = abs(m[k, k].real) if hermitian else float(_size(m[k, k]))
    column = _size(m[k + 1:, k])
    if k == n - 1 or math.isnan(diagonal):
        return k, 1, not diagonal > 0
    i = k + 1 + int(column.argmax())
    largest = float(column[i - k - 1])
    if not max(diagonal, largest) > 0:
        return k, 1, True
    if diagonal >= _ALPHA * largest:
        return k, 1, False
    row = _size(m[i, k:])
    row[i - k] = 0
    across = float(row.max())
    if diagonal >= _ALPHA * largest * (largest / across):
        return k, 1, False
    if (abs(m[i, i].real) if hermitian else float(_size(m[i, i]))) >= _ALPHA * across:
        return i, 1, False
    return i, 2, False


def _factor(m: np.ndarray, pivots: np.ndarray, hermitian: bool) -> int:
    """Factor the full matrix m in place; the number of the first zero block, or 0."""
    n, k, info = len(m), 0, 0
    while k < n:
        p, size, zero = _pivot(m, k, hermitian)
        last = k + size - 1
        if p != last:       # rows and columns, of what is left: the finished columns stay as they are
            m[[last, p], k:] = m[[p, last], k:]
            m[k:, [last, p]] = m[k:, [p, last]]
        if zero:
            info = info or k + 1
        elif last < n - 1:
            below = m[last + 1:, k:last + 1].copy()
            block = m[k:last + 1, k:last + 1]
            # w @ block = below
            w = below / block if size == 1 else _right_solve(below, block)
            m[last + 1:, last + 1:] -= w @ (below.conj() if hermitian else below).T
            m[last + 1:, k:last + 1] = w
        pivots[k:last + 1] = -(p + 1) if size == 2 else p + 1
        k += size
    return info


def _right_solve(x: np.ndarray, d: np.ndarray) -> np.ndarray:
    """x @ inv(d) for a block d of two rows whose other diagonal is large: scaled by it first."""
    low, high = d[1, 0], d[0, 1]
    d0, d1 = d[0, 0] / high, d[1, 1] / low
    scale = d0 * d1 - 1
    out = np.empty_like(x)
    out[:, 0] = (x[:, 0] * d1 - x[:, 1]) / (scale * high)
    out[:, 1] = (x[:, 1] * d0 - x[:, 0]) / (scale * low)
    return out


def factor(a: np.ndarray, hermitian: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(L and D in one lower matrix, pivots, number of the first zero block or 0), the last two int32.

    A pivot p > 0 at k says that row k was exchanged with row p, counted from 1; equal negative ones at k and k + 1 are
    a block of two, whose second row was exchanged with row -p.
    """
    n = a.shape[-1]
    hermitian = hermitian and a.dtype.kind == "c"
    low = np.tril(a)
    full = low + np.swapaxes(np.conj(np.tril(a, -1)) if hermitian else np.tril(a, -1), -2, -1)
    flat = full.reshape(math.prod(a.shape[:-2]), n, n)
    if hermitian:
        flat.imag[:, range(n), range(n)] = 0
    pivots, info = np.zeros((len(flat), n), np.int32), np.zeros(len(flat), np.int32)
    for i, m in enumerate(flat):
        info[i] = _factor(m, pivots[i], hermitian)
    batch = a.shape[:-2]
    return by_columns(np.tril(flat).reshape(a.shape)), pivots.reshape(*batch, n), info.reshape(batch)


def _solve(ld: np.ndarray, pivots: np.ndarray, x: np.ndarray, hermitian: bool) -> None:
    n, k = len(ld), 0
    upper = ld.conj() if hermitian else ld
    while k < n:
        size, p = (1, pivots[k] - 1) if pivots[k] > 0 else (2, -pivots[k] - 1)
        last = k + size - 1
        if p != last:
            x[[last, p]] = x[[p, last]]
        x[last + 1:] -= ld[last + 1:, k:last + 1] @ x[k:last + 1]
        if size == 1:
            x[k] /= ld[k, k].real if hermitian else ld[k, k]
        else:
            block = np.array([[ld[k, k], upper[k + 1, k]], [ld[k + 1, k], ld[k + 1, k + 1]]])
            x[k:last + 1] = _right_solve(x[k:last + 1].T, block.T).T
        k += size
    k = n - 1
    while k >= 0:
        size = 1 if pivots[k] > 0 else 2
        first, p = k - size + 1, abs(int(pivots[k])) - 1
        x[first:k + 1] -= upper[k + 1:, first:k + 1].T @ x[k + 1:]
        if p != k:
            x[[k, p]] = x[[p, k]]
        k -= size


def solve(ld: np.ndarray, pivots: np.ndarray, b: np.ndarray, hermitian: bool) -> np.ndarray:
    """x of a @ x = b from what `factor` gives of a; batches broadcast."""
    n, columns = b.shape[-2:]
    batch = np.broadcast_shapes(ld.shape[:-2], b.shape[:-2])
    x = np.array(np.broadcast_to(b, (*batch, n, columns)), order="C")
    flat = x.reshape(math.prod(batch), n, columns)
    factors = np.broadcast_to(ld, (*batch, n, n)).reshape(len(flat), n, n)
    exchanges = np.broadcast_to(pivots, (*batch, n)).reshape(len(flat), n)
    for i, one in enumerate(flat):
        _solve(factors[i], exchanges[i], one, hermitian and ld.dtype.kind == "c")
    return by_columns(x)
