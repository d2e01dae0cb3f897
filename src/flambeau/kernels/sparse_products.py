"""Products of sparse matrices: with dense ones, with each other, and a dense product looked at in few places.

SciPy's compiled loops do the work where it is installed, NumPy otherwise.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .casting import widen
from .sparse import Pattern, add_values

_SAMPLED = 1 << 20          # elements of one piece of a sampled product


@functools.cache
def _scipy() -> Any:
    try:
        import scipy.sparse
    except ImportError:
        return None
    return scipy.sparse


def spmm(values: np.ndarray, dense: np.ndarray, pattern: Pattern) -> np.ndarray:
    """The sparse matrix (m, k) of values at pattern times a dense matrix (k, n) or vector (k)."""
    wide = widen(dense.dtype)
    v, d = values.astype(wide, copy=False), dense.astype(wide, copy=False)
    m, k = pattern.shape
    sparse = _scipy()
    if sparse is not None and wide.kind in "fciu":
        pointer, columns, order = pattern.rows()
        matrix = sparse.csr_array((v if order is None else v[order], columns, pointer), shape=(m, k))
        out = matrix @ d
    else:
        row, column = pattern.indices
        taken = d[column]
        out = add_values(m, row, v.reshape((-1,) + (1,) * (d.ndim - 1)) * taken)
    return np.ascontiguousarray(out.astype(dense.dtype, copy=False))


def sddmm(a: np.ndarray, b: np.ndarray, pattern: Pattern) -> np.ndarray:
    """(a @ b.T) at the positions of pattern: the products of rows of a (m, k) with rows of b (n, k)."""
    row, column = pattern.indices
    if a.ndim == 1:
        return a[row] * b[column]
    wide = widen(a.dtype)
    out = np.empty(pattern.nnz, wide)
    step = max(1, _SAMPLED // max(a.shape[1], 1))
    for i in range(0, pattern.nnz, step):
        j = slice(i, i + step)
        out[j] = np.einsum("ij,ij->i", a[row[j]].astype(wide, copy=False), b[column[j]].astype(wide, copy=False))
    return out.astype(a.dtype, copy=False)


def pairs(a: Pattern, b: Pattern) -> tuple[Pattern, np.ndarray, np.ndarray, np.ndarray]:
    """The product of two sparse matrices as sums of products of elements.

    Returns:
        the pattern of the product; for each product of two elements the place of one in a, of the other in b, and
        of their product among the result's values.
    """
    pointer, _, order = b.rows()
    row, column = a.indices
    counts = np.diff(pointer)[column]
    total = int(counts.sum())
    at_a = np.repeat(np.arange(a.nnz), counts)
    ends = np.cumsum(counts)
    at_b = np.arange(total) - np.repeat(ends - counts, counts) + np.repeat(pointer[column].astype(np.int64), counts)
    if order is not None:
        at_b = order[at_b]
    shape = (a.shape[0], b.shape[1])
    found = Pattern(np.stack([row[at_a], b.indices[1][at_b]]) if total else np.zeros((2, 0), np.int64), shape)
    pattern, places = found.merged()
    return pattern, at_a, at_b, np.arange(total) if places is None else places


def product_values(x: np.ndarray, y: np.ndarray, where: tuple) -> np.ndarray:
    """out[o] += x[i] * y[j] over lists of places; where is (sizes of out, x and y, i, j, o)."""
    sizes, i, j, o = where
    return add_values(sizes[0], o, x[i] * y[j])
