"""Sparse arrays from dense ones, and from one layout to another."""

from __future__ import annotations

from math import prod

import numpy as np

from flambeau.core.dtype import SPARSE_COO, SPARSE_CSR, Layout

from .sparse import ROWS, Compressed, Pattern, Sparse


def compress(pattern: Pattern, layout: Layout, block: tuple[int, int] | None = None) -> tuple[Compressed, np.ndarray | None]:
    """A coalesced COO matrix pattern in a compressed layout; with blocks, the place of each element in the values."""
    row, column = pattern.indices
    high, wide = block or (1, 1)
    along, across = (row // high, column // wide) if layout in ROWS else (column // wide, row // high)
    n_along = pattern.shape[0] // high if layout in ROWS else pattern.shape[1] // wide
    n_across = pattern.shape[1] // wide if layout in ROWS else pattern.shape[0] // high
    key = along * max(n_across, 1) + across
    if block is None:
        order = None if layout is SPARSE_CSR else np.argsort(key, kind="stable")
        kept = key if order is None else key[order]
        places = order
    else:
        kept, number = np.unique(key, return_inverse=True)
        places = (number.reshape(-1) * high + row % high) * wide + column % wide
    pointer = np.zeros(n_along + 1, np.int64)
    np.cumsum(np.bincount(kept // max(n_across, 1), minlength=n_along), out=pointer[1:])
    return Compressed(layout, pointer, kept % max(n_across, 1), pattern.shape, block), places


def to_layout(s: Sparse, layout: Layout, block: tuple[int, int] | None = None) -> Sparse:
    """s in another layout."""
    if s.layout is not SPARSE_COO:
        s = Sparse(s.pattern.flat(), s.values.reshape(-1))
    s = s.coalesce()
    if layout is SPARSE_COO:
        return s
    pattern, places = compress(s.pattern, layout, block)
    if block is None:
        return Sparse(pattern, s.values if places is None else s.values[places])
    values = np.zeros(prod(pattern.values_shape), s.dtype)
    values[places] = s.values
    return Sparse(pattern, values.reshape(pattern.values_shape))


def pattern_of(dense: np.ndarray, sparse_dim: int) -> Pattern:
    """Where a dense array is not zero, in its first dimensions."""
    nonzero = dense != 0
    if dense.ndim > sparse_dim:
        nonzero = nonzero.any(tuple(range(sparse_dim, dense.ndim)))
    return Pattern(np.stack(np.nonzero(nonzero)) if sparse_dim else np.zeros((0, int(nonzero.any())), np.int64),
                   dense.shape, True)
