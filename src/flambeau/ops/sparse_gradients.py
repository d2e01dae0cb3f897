"""Operators whose gradient is sparse when it is asked for: rows of a table (embedding), and gather.

Only the rows that were taken have a gradient; a row taken twice stands in it twice, as in PyTorch: the tensor is not
coalesced.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.apply import apply_n
from flambeau.core.objects import array_of, make, shape_of
from flambeau.kernels import embedding as _embedding
from flambeau.kernels import scatter as _scatter
from flambeau.kernels.sparse import Pattern, Sparse

from ._record import KERNEL, kernels, ops, primitive
from ._sparse import with_values

EMBEDDING_SPARSE = primitive(
    "embedding_sparse", lambda weight, indices, padding_idx, by_freq: _embedding.embedding(weight, indices),
    inputs=("weight", "indices"), params=("padding_idx", "by_freq"), promotes=False, may_raise=True, check_float=True,
    expr=KERNEL, node="EmbeddingBackward0",
    weight=lambda xp, g, weight_shape, indices, padding_idx, by_freq:
    xp.embedding_rows(g, indices, weight_shape, padding_idx, by_freq))
GATHER_SPARSE = primitive(
    "gather_sparse", lambda a, index, dim: _scatter.gather(a, dim, index), inputs=("self", "index"), params=("dim",),
    promotes=False, may_raise=True, expr=KERNEL, node="GatherBackward0",
    self=lambda xp, g, self_shape, index, dim: xp.gathered(g, index, self_shape, dim))


def _rows(indices: np.ndarray, shape: tuple, padding_idx: int, by_freq: bool) -> tuple[Pattern, Any]:
    """The rows that have a gradient, and which entries of g they are (None: all)."""
    if by_freq:
        raise RuntimeError("embedding_backward: scale_grad_by_freq not supported with sparse gradients. Use sparse=False.")
    flat = indices.reshape(-1).astype(np.int64, copy=False)
    kept = None
    if padding_idx >= 0:
        kept = np.flatnonzero(flat != padding_idx)
        if kept.size == flat.size:
            kept = None
        else:
            flat = flat[kept]
    return Pattern(flat.reshape(1, -1), shape), kept


def _embedding_rows(g: np.ndarray, indices: np.ndarray, shape: tuple, padding_idx: int, by_freq: bool) -> Sparse:
    pattern, kept = _rows(indices, shape, padding_idx, by_freq)
    rows = g.reshape((-1, *shape[1:])) if g.size else g.reshape((indices.size, *shape[1:]))
    return Sparse(pattern, np.array(rows) if kept is None else rows[kept])


def _embedding_rows_of(g: Any, indices: Any, shape: tuple, padding_idx: int, by_freq: bool) -> Any:
    pattern, kept = _rows(array_of(indices), tuple(shape), padding_idx, by_freq)
    rows = g.reshape(indices.numel(), *shape[1:])
    return with_values(pattern, rows if kept is None else rows.index_select(0, make(kept)))


def _places(index: np.ndarray, shape: tuple, dim: int) -> Pattern:
    dim %= max(len(shape), 1)
    at = np.indices(index.shape).reshape(index.ndim, -1)
    at[dim] = index.reshape(-1)
    return Pattern(np.ascontiguousarray(at, np.int64), shape)


def _gathered(g: np.ndarray, index: np.ndarray, shape: tuple, dim: int) -> Any:
    if not shape:
        return g
    return Sparse(_places(index, shape, dim), np.array(g.reshape(-1)))


def _gathered_of(g: Any, index: Any, shape: tuple, dim: int) -> Any:
    return g if not shape else with_values(_places(array_of(index), tuple(shape), dim), g.reshape(-1))


kernels.embedding_rows, kernels.gathered = _embedding_rows, _gathered
ops.embedding_rows, ops.gathered = _embedding_rows_of, _gathered_of


def embedding(weight: Any, indices: Any, padding_idx: int, by_freq: bool) -> Any:
    """Rows of weight, whose gradient is sparse."""
    return apply_n(EMBEDDING_SPARSE, [weight, indices], (padding_idx, by_freq))


def gather(input: Any, dim: int, index: Any) -> Any:
    """`gather`, whose gradient is sparse."""
    return apply_n(GATHER_SPARSE, [input, index], (dim % max(len(shape_of(input)), 1),))

