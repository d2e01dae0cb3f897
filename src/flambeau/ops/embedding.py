"""Rows of a table by index: embedding, and bags of rows (sum, mean, maximum).

The derivative of `embedding` adds rows into a table of zeros (`embedding_dense_backward`), whose derivative takes rows
again: the two are each other's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.apply import apply_n
from flambeau.core.dtype import dtype_of_array
from flambeau.core.objects import TensorBase, array_of, dtype_of, make, shape_of
from flambeau.core.state import set_grad_enabled
from flambeau.kernels import embedding as kernel

from ._args import tensor
from ._lazy import is_meta, standing_for
from ._meta import Meta
from ._record import KERNEL, call, primitive, public

_PARAMS = ("padding_idx", "scale_grad_by_freq")
_LONG, _INT = np.dtype("int64"), np.dtype("int32")


def _row_counts(indices: np.ndarray, n_rows: int, dtype: np.dtype) -> np.ndarray:
    """How often the row at each index is taken, (*, 1)."""
    flat = indices.reshape(-1)
    return np.bincount(flat, minlength=n_rows)[flat].reshape(*indices.shape, 1).astype(dtype)


primitive("row_counts", _row_counts, inputs=("indices",), params=("n_rows", "dtype"), differentiable=False,
          meta=lambda indices, n_rows, dtype: Meta((n_rows,), dtype), expr=KERNEL)


def _backward_formula(xp: Any, g: Any, grad_dtype: Any, indices: Any, n_rows: int, padding_idx: int,
                      scale_grad_by_freq: bool) -> Any:
    rows = xp.embedding(g, indices, -1, False)
    if padding_idx >= 0:
        rows = xp.drop(rows, xp.unsqueeze(indices == padding_idx, -1))
    return rows / xp.row_counts(indices, n_rows, grad_dtype) if scale_grad_by_freq else rows


EMBEDDING = primitive(
    "embedding", lambda weight, indices, padding_idx, scale_grad_by_freq: kernel.embedding(weight, indices),
    inputs=("weight", "indices"), params=_PARAMS, promotes=False, may_raise=True, check_float=True,
    meta=lambda weight, indices, *_: Meta((*indices.shape, *weight.shape[1:]), weight.dtype), expr=KERNEL,
    weight=lambda xp, g, weight_shape, indices, padding_idx, scale_grad_by_freq:
    xp.embedding_dense_backward(g, indices, weight_shape[0], padding_idx, scale_grad_by_freq))
primitive("embedding_dense_backward", kernel.embedding_dense_backward, inputs=("grad", "indices"),
          params=("n_rows", *_PARAMS), promotes=False,
          meta=lambda grad, indices, n_rows, *_: Meta((n_rows, grad.shape[-1]), grad.dtype), expr=KERNEL,
          grad=_backward_formula)


BAG_SUMS = primitive(
    "embedding_bag", lambda weight, indices, bag, n_bags, scale_grad_by_freq: kernel.bag_sums(weight, indices, bag, n_bags),
    inputs=("weight", "indices", "bag"), params=("n_bags", "scale_grad_by_freq"), promotes=False, may_raise=True,
    check_float=True, expr=KERNEL,
    meta=lambda weight, indices, bag, n_bags, _: Meta((n_bags, weight.shape[1]), weight.dtype),
    weight=lambda xp, g, weight_shape, indices, bag, scale_grad_by_freq: xp.embedding_dense_backward(
        xp.embedding(g, bag, -1, False), indices, weight_shape[0], -1, scale_grad_by_freq))


def _check(function: str, input: Any, weight: Any) -> None:
    tensor(input, function)
    tensor(weight, function, "weight", 2)
    if len(shape_of(weight)) != 2:
        raise RuntimeError(f"{function}: 'weight' must be 2-D, (rows, features), but got shape "
                           f"{list(shape_of(weight))}. The order of arguments is (indices, weight).")
    d = dtype_of(input)
    if d is not _LONG and d is not _INT:
        raise RuntimeError(
            f"{function}: 'indices' must be of scalar type Long or Int, and is {str(dtype_of_array(d))} (expected "
            f"scalar type Long but found {d.name}). Use input.long() if these are indices.")


def _padding(value: int | None, n_rows: int) -> int:
    if value is None:
        return -1
    if not -n_rows <= value < n_rows:
        raise AssertionError(f"Padding_idx must be within num_embeddings: got {value} for {n_rows} rows")
    return int(value) % n_rows


def _renormalise(weight: Any, indices: TensorBase, max_norm: float, norm_type: float) -> None:
    """Scale, in place, the rows that are taken and whose norm exceeds max_norm."""
    if is_meta(weight):
        return
    table = array_of(weight)
    rows = np.unique(array_of(indices))
    if rows.size and (rows[0] < 0 or rows[-1] >= len(table)):
        kernel.embedding(table, array_of(indices))          # raises the IndexError that names the index
    taken = table[rows]
    norms = np.linalg.norm(taken.astype(np.float64), norm_type, axis=1)
    long = norms > max_norm
    if not long.any():
        return
    shorter = (taken[long] * (max_norm / (norms[long] + 1e-7))[:, None]).astype(table.dtype)
    old = set_grad_enabled(False)
    try:
        weight.index_copy_(0, make(rows[long]), make(shorter))
    finally:
        set_grad_enabled(old)


def _with_sparse_gradient(weight: Any, indices: TensorBase, padding: int, scale_grad_by_freq: bool) -> Any:
    from .sparse_gradients import embedding as taken

    return taken(weight, indices, padding, bool(scale_grad_by_freq))


def _indices(t: Any, *shape: int, high: int = 4) -> Any:
    return t(*shape, dtype="int64", grad=False, low=0, high=high)


@public(namespaces=("nn.functional",), method=False, out=False, samples=lambda t: [
    call(_indices(t, 3), t(5, 3)), call(_indices(t, 2, 3), t(5, 3), padding_idx=1), call(_indices(t), t(5, 3)),
    call(_indices(t, 6, high=2), t(5, 3), padding_idx=-3), call(_indices(t, 0), t(5, 3))], errors=lambda t: [
    (call(t(3, grad=False), t(5, 3)), RuntimeError, "scalar type Long"),
    (call(_indices(t, 3) + 5, t(5, 3)), IndexError, "index out of range in self"),
    (call(_indices(t, 3), t(3)), RuntimeError, "'weight' must be 2-D"),
    (call(_indices(t, 3), t(5, 3), 7), AssertionError, "Padding_idx must be within num_embeddings")])
def embedding(input: Any, weight: Any, padding_idx: int | None = None, max_norm: float | None = None,
              norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False) -> Any:
    """Rows of weight at the indices in input.

    Args:
        input: int64 or int32 indices, (*).
        weight: the table, (V, D).
        padding_idx: a row that gets no gradient.
        max_norm: rows taken that are longer, in the norm_type-norm, are first scaled to it, in place.
        scale_grad_by_freq: divides each row's gradient by how often it is taken.
        sparse: the gradient is a sparse tensor with the rows that were taken; SGD, Adagrad and SparseAdam take it.

    Returns:
        Tensor (*, D).

    Raises:
        IndexError: an index that is no row. RuntimeError: input is not of indices, or weight is no matrix.

    >>> table = flambeau.tensor([[1., 2.], [3., 4.]])
    >>> flambeau.nn.functional.embedding(flambeau.tensor([1, 0]), table).tolist()
    [[3.0, 4.0], [1.0, 2.0]]
    """
    if (not isinstance(input, TensorBase) or not isinstance(weight, TensorBase) or dtype_of(input) is not _LONG
            or len(shape_of(weight)) != 2):
        _check("embedding", input, weight)
    padding = -1 if padding_idx is None else _padding(padding_idx, shape_of(weight)[0])
    if max_norm is not None:
        _renormalise(weight, input, max_norm, norm_type)
    if sparse:
        return _with_sparse_gradient(weight, input, padding, scale_grad_by_freq)
    return apply_n(EMBEDDING, [weight, input], (padding, bool(scale_grad_by_freq)))


@public(name="embedding", method=False, out=False, samples=lambda t: [call(t(5, 3), _indices(t, 3))])
def _embedding(weight: Any, indices: Any, padding_idx: int = -1, scale_grad_by_freq: bool = False,
               sparse: bool = False) -> Any:
    """`nn.functional.embedding` with the table first.

    >>> flambeau.embedding(flambeau.tensor([[1.], [3.]]), flambeau.tensor([1])).tolist()
    [[3.0]]
    """
    return embedding(indices, weight, None if padding_idx < 0 else padding_idx, None, 2.0, scale_grad_by_freq, sparse)


# --------------------------------------------------------------------------------- bags


def _check_bags(input: TensorBase, offsets: Any) -> None:
    """Refuse what does not name bags."""
    n_dims = len(shape_of(input))
    if n_dims == 2:
        if offsets is not None:
            raise ValueError("embedding_bag: with a 2D input each row is one bag, and offsets has to be None; it "
                             f"is of type {type(offsets)}. Flatten the input to give the bags by offsets.")
        return
    if n_dims != 1:
        raise ValueError(f"embedding_bag: input has to be 1D or 2D, and has {n_dims} dimensions")
    if offsets is None or len(shape_of(offsets)) != 1:
        got = None if offsets is None else f"dimension {len(shape_of(offsets))}"
        raise ValueError(f"offsets has to be a 1D Tensor but got {got}: it gives where each bag begins in a 1D input")


def _bags(input: TensorBase, offsets: Any, include_last: bool) -> tuple[np.ndarray, np.ndarray, int]:
    """(indices in one row, the bag of each, number of bags)."""
    values = array_of(input)
    if values.ndim == 2:
        return values.reshape(-1), np.repeat(np.arange(len(values)), values.shape[1]), len(values)
    starts = array_of(offsets).astype(np.int64)
    if starts.size and starts[0] != 0:
        raise RuntimeError("embedding_bag: offsets[0] has to be 0, because the first bag starts with the first "
                           f"index, and it is {starts[0]}")
    if starts.size and starts[-1] > len(values):
        raise RuntimeError(f"offsets[-1] can not be greater than input's length {len(values)} but got offsets[-1] of "
                           f"{starts[-1]}")
    if include_last:
        if not starts.size:
            raise ValueError("include_last_offset: number of offsets should be at least 1")
        ends, starts = starts[1:], starts[:-1]
    else:
        ends = np.append(starts[1:], len(values))
    lengths = ends - starts
    bag = np.repeat(np.arange(len(starts)), lengths)
    return values[: bag.size], bag, len(starts)


def _best_rows(rows: np.ndarray, bag: np.ndarray, n_bags: int) -> tuple[np.ndarray, np.ndarray]:
    """For each bag and feature, which row is largest (the first); and which bags are empty."""
    best = np.zeros((n_bags, rows.shape[1]), np.int64)
    counts = np.bincount(bag, minlength=n_bags)
    start = 0
    for i, n in enumerate(counts):
        if n:
            best[i] = rows[start:start + n].argmax(0) + start
        start += n
    return best, counts == 0


@public(namespaces=("nn.functional",), method=False, out=False, samples=lambda t: [
    call(_indices(t, 2, 3), t(5, 3)), call(_indices(t, 5), t(5, 3), t(values=[0, 2, 2], dtype="int64", grad=False),
        mode="sum"),
    call(_indices(t, 2, 3), t(5, 3), mode="sum", per_sample_weights=t(2, 3)),
    call(_indices(t, 2, 3), t(5, 3), padding_idx=1)],
    errors=lambda t: [(call(_indices(t, 3), t(5, 3)), ValueError, "offsets has to be a 1D Tensor"),
                      (call(_indices(t, 2, 3), t(5, 3), mode="some"), ValueError, "one of sum, mean or max")])
def embedding_bag(input: Any, weight: Any, offsets: Any = None, max_norm: float | None = None, norm_type: float = 2,
                  scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, per_sample_weights: Any = None,
                  include_last_offset: bool = False, padding_idx: int | None = None) -> Any:
    """Sums, means or maxima of bags of rows of weight.

    Args:
        input: indices, (B, L): B bags of L; or (N,), cut into bags by offsets.
        weight: the table, (V, D).
        offsets: where each bag begins in a 1D input, (B,); with include_last_offset also where the last ends, (B + 1,).
        mode: "sum", "mean" or "max". per_sample_weights: factors of the rows, like input; for "sum" alone.
        padding_idx: an index that takes no part. max_norm, norm_type, scale_grad_by_freq, sparse: see `embedding`.

    Returns:
        Tensor (B, D); zeros for an empty bag.

    Raises:
        ValueError, RuntimeError: shapes, offsets or mode that do not fit. IndexError: an index that is no row.

    >>> table = flambeau.tensor([[1.], [3.]])
    >>> flambeau.nn.functional.embedding_bag(flambeau.tensor([[1, 0]]), table).tolist()
    [[2.0]]
    """
    _check("embedding_bag", input, weight)
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f"mode has to be one of sum, mean or max, got {mode!r}")
    if per_sample_weights is not None:
        tensor(per_sample_weights, "embedding_bag", "per_sample_weights", 7)
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError("embedding_bag: per_sample_weights was not None, and only mode='sum' has weights "
                                  f"(got mode='{mode}'). For a weighted mean, divide them by their sums first.")
    if per_sample_weights is not None and shape_of(per_sample_weights) != shape_of(input):
        raise ValueError("embedding_bag: per_sample_weights holds one weight for each index, so its shape must be "
                         f"that of the input: {list(shape_of(per_sample_weights))} is not {list(shape_of(input))}")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights: its gradient is dense. Use sparse=False, or mode='sum'.")
    if mode == "max" and scale_grad_by_freq:
        raise RuntimeError("embedding_bag: max mode does not support scale_grad_by_freq. Use mode='sum' or 'mean', "
                           "or leave it out.")
    _check_bags(input, offsets)
    if is_meta(weight):
        n = shape_of(input)[0] if offsets is None else shape_of(offsets)[0] - bool(include_last_offset)
        given = [t for t in (weight, per_sample_weights) if t is not None]
        return standing_for(given, Meta((n, shape_of(weight)[1]), dtype_of(weight)), "embedding_bag")
    values, bag, n_bags = _bags(input, offsets, include_last_offset)
    padding = _padding(padding_idx, shape_of(weight)[0])
    if max_norm is not None:
        _renormalise(weight, input, max_norm, norm_type)
    factors = None if per_sample_weights is None else per_sample_weights.reshape(-1)[: values.size]
    if padding >= 0:
        kept = np.flatnonzero(values != padding)
        values, bag = values[kept], bag[kept]
        factors = None if factors is None else factors.index_select(0, make(kept))
    if mode != "max" and factors is None and not sparse:
        total = apply_n(BAG_SUMS, [weight, make(values), make(bag)], (n_bags, bool(scale_grad_by_freq)))
    else:
        if sparse:
            rows = _with_sparse_gradient(weight, make(values), -1, scale_grad_by_freq)
        else:
            rows = apply_n(EMBEDDING, [weight, make(values)], (-1, bool(scale_grad_by_freq)))
        if mode == "max":
            return _maxima(rows, bag, n_bags)
        if factors is not None:
            rows = rows * factors.unsqueeze(1)
        total = make(np.zeros((n_bags, shape_of(weight)[1]), dtype_of(weight))).index_add(0, make(bag), rows)
    if mode == "sum":
        return total
    counts = np.maximum(np.bincount(bag, minlength=n_bags), 1).astype(dtype_of(weight))
    return total / make(counts[:, None])


def _maxima(rows: Any, bag: np.ndarray, n_bags: int) -> Any:
    best, empty = _best_rows(array_of(rows), bag, n_bags)
    if not shape_of(rows)[0]:
        return make(np.zeros(best.shape, dtype_of(rows)))
    out = rows.gather(0, make(best))
    return out.masked_fill(make(empty[:, None]), 0) if empty.any() else out
