"""Distances between the rows of two stacks of matrices, and their gradient.

One feature is worked at a time, so memory stays that of the result, (*, P, R), for any p.
"""

from __future__ import annotations

import numpy as np

_MANY = 4096        # elements from which rows are worked one by one


def _difference(a: np.ndarray, b: np.ndarray, k: int) -> np.ndarray:
    return a[..., :, None, k] - b[..., None, :, k]


def cdist(a: np.ndarray, b: np.ndarray, p: float, by_products: bool) -> np.ndarray:
    """Return the p-norms of the differences of a's rows (*, P, M) and b's rows (*, R, M).

    Args:
        by_products: for p 2, use |x|^2 - 2 x.y + |y|^2: faster for many rows, less exact for close ones.
    """
    if p == 2 and by_products:
        square = (a * a).sum(-1)[..., :, None] + (b * b).sum(-1)[..., None, :] - 2 * np.matmul(a, b.swapaxes(-1, -2))
        return np.sqrt(np.maximum(square, 0))
    out = np.zeros((*a.shape[:-1], b.shape[-2]), a.dtype)
    for k in range(a.shape[-1]):
        d = np.abs(_difference(a, b, k))
        if p == np.inf:
            np.maximum(out, d, out)
        elif p == 0:
            out += d != 0
        elif p == 1:
            out += d
        else:
            out += d * d if p == 2 else d**p
    if p == 2:
        return np.sqrt(out)
    return out if p in (0, 1, np.inf) else out ** (1 / p)


def pdist(a: np.ndarray, p: float) -> np.ndarray:
    """Return the p-norms of the differences of a's rows (P, M), of each pair once: (P (P - 1) / 2,).

    One row is worked at a time, against those after it.
    """
    n, width = a.shape
    if p != 2 or a.dtype.char not in "fd" or a.size < _MANY:
        return cdist(a, a, p, False)[np.triu_indices(n, 1)]
    out = np.empty(n * (n - 1) // 2, a.dtype)
    start = 0
    for i in range(n - 1):
        d = a[i + 1:] - a[i]
        stop = start + len(d)
        np.vecdot(d, d, out=out[start:stop])
        start = stop
    return np.sqrt(out, out)


def cdist_backward(g: np.ndarray, a: np.ndarray, b: np.ndarray, p: float, dist: np.ndarray) -> np.ndarray:
    """Return the gradient of a; where the norm has no derivative (equal rows) it is 0."""
    out = np.zeros(a.shape, g.dtype)
    if p == 0:
        return out
    weight = g if p in (1, np.inf) else np.where(dist == 0, 0, g / dist ** (p - 1))
    for k in range(a.shape[-1]):
        d = _difference(a, b, k)
        if p == 2:
            part = d * weight
        elif p == 1:
            part = np.sign(d) * weight
        elif p == np.inf:
            part = np.sign(d) * weight * (np.abs(d) == dist)
        else:
            part = np.where(d == 0, 0, np.sign(d) * np.abs(d) ** (p - 1)) * weight
        out[..., k] = part.sum(-1)
    return out
