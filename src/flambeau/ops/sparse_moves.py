"""What sparse tensors do with their positions: transposing, selecting, joining, sums and softmax along dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.apply import apply1
from flambeau.core.objects import dtype_of, make, requires, shape_of
from flambeau.core.op import slot
from flambeau.kernels import sparse as k
from flambeau.kernels.sparse import Compressed, Pattern

from ._sparse import (
    SPARSE_COO,
    cast,
    concatenated,
    data,
    elements,
    flat,
    from_coo,
    is_sparse,
    not_supported,
    rule,
    with_values,
)

SUM = slot("sum")


def _permuted(t: Any, order: tuple[int, ...], name: str) -> Any:
    pattern, v = elements(t)
    if order == tuple(range(len(order))):
        return with_values(pattern, v)
    if isinstance(pattern, Compressed):
        turned = {"CSR": k.SPARSE_CSC, "CSC": k.SPARSE_CSR, "BSR": k.SPARSE_BSC, "BSC": k.SPARSE_BSR}
        layout = turned[k.LAYOUT_NAMES[pattern.layout][6:].upper()]
        block = None if pattern.block is None else pattern.block[::-1]
        found: Any = Compressed(layout, pattern.compressed, pattern.plain, pattern.shape[::-1], block)
        return with_values(found, v if block is None else v.transpose(1, 2),
                           "TBackward0" if name == "t" else "TransposeBackward0")
    n = pattern.sparse_dim
    if any((i < n) != (d < n) for i, d in enumerate(order)):
        raise RuntimeError(f"{name}: transposed dimensions must be sparse, or must both be dense: sparse_dim is {n} and the "
                           f"order {list(order)}. Call .to_dense() first.")
    if order[n:] != tuple(range(n, len(order))):
        v = v.permute(0, *(d - n + 1 for d in order[n:]))
    if order[:n] == (1, 0):
        turned_pattern = pattern.transposed() if n == len(order) else None
        if turned_pattern is not None:
            return with_values(turned_pattern, v, "TBackward0" if name == "t" else "TransposeBackward0")
    shape = tuple(pattern.shape[d] for d in order)
    return with_values(Pattern(np.ascontiguousarray(pattern.indices[list(order[:n])]), shape, False), v)


@rule("t")
def _t(inputs: tuple, params: tuple) -> Any:
    n = len(shape_of(inputs[0]))
    return _permuted(inputs[0], tuple(reversed(range(n))), "t")


@rule("view", "unsafe_view")
def _view(inputs: tuple, params: tuple) -> Any:
    raise RuntimeError(f"reshape is not implemented for sparse tensors (layout {data(inputs[0]).layout!r}). Reshape the "
                       "dense one, .to_dense(), or compute new indices.")


@rule("unbind")
def _unbind(inputs: tuple, params: tuple) -> Any:
    return [_select(inputs, (params[0], i)) for i in range(shape_of(inputs[0])[params[0]])]


@rule("vector_norm")
def _norm(inputs: tuple, params: tuple) -> Any:
    order, dim, keepdim = params
    if order != 2 or keepdim or dim not in (None, ()) and len(dim) != len(shape_of(inputs[0])):
        raise not_supported("norm of a dimension, or of another order than 2,", inputs)
    return apply1(slot("vector_norm"), elements(inputs[0], True)[1].reshape(-1), (order, None, False))


@rule("any_all", "any")
def _any(inputs: tuple, params: tuple) -> Any:
    if params and params[0] is not None:
        raise not_supported("any(dim)", inputs)
    return elements(inputs[0], True)[1].any()


@rule("transpose")
def _transpose(inputs: tuple, params: tuple) -> Any:
    n = len(shape_of(inputs[0]))
    a, b = params[0] % n, params[1] % n
    order = list(range(n))
    order[a], order[b] = b, a
    return _permuted(inputs[0], tuple(order), "sparse transpose")


@rule("permute")
def _permute(inputs: tuple, params: tuple) -> Any:
    return _permuted(inputs[0], tuple(params[0]), "permute")


def coo_only(name: str, t: Any) -> None:
    if data(t).layout is not SPARSE_COO:
        raise not_supported(name, (t,))


@rule("unsqueeze")
def unsqueezed(inputs: tuple, params: tuple) -> Any:
    t, dim = inputs[0], params[0]
    coo_only("unsqueeze", t)
    pattern, v = elements(t)
    dim %= len(pattern.shape) + 1
    shape = (*pattern.shape[:dim], 1, *pattern.shape[dim:])
    n = pattern.sparse_dim
    if dim > n:
        return with_values(Pattern(pattern.indices, shape, pattern.coalesced), v.unsqueeze(dim - n + 1))
    return with_values(Pattern(np.insert(pattern.indices, dim, 0, 0), shape, pattern.coalesced), v)


@rule("select")
def _select(inputs: tuple, params: tuple) -> Any:
    t, (dim, i) = inputs[0], params
    pattern, v = flat(t, requires(t))
    size = pattern.shape[dim]
    if not -size <= i < size:
        raise IndexError(f"select(): index {i} out of range for tensor of size {list(pattern.shape)} at dimension {dim}")
    i, n = i % size, pattern.sparse_dim
    shape = (*pattern.shape[:dim], *pattern.shape[dim + 1:])
    if dim >= n:
        return with_values(Pattern(pattern.indices, shape, pattern.coalesced), v.select(dim - n + 1, i))
    kept = np.flatnonzero(pattern.indices[dim] == i)
    v = v.index_select(0, make(kept))
    if n == 1:
        return v.sum(0)
    return with_values(Pattern(np.delete(pattern.indices[:, kept], dim, 0), shape, pattern.coalesced), v)


@rule("index_select")
def _index_select(inputs: tuple, params: tuple) -> Any:
    t, index = inputs
    if not is_sparse(t) or is_sparse(index):
        raise not_supported("index_select", inputs)
    coo_only("index_select", t)
    pattern, v = elements(t)
    dim = params[0]
    if not -len(pattern.shape) <= dim < len(pattern.shape):
        raise IndexError(f"Dimension out of range (expected to be in range of [{-len(pattern.shape)}, "
                         f"{len(pattern.shape) - 1}], but got {dim})")
    dim %= len(pattern.shape)
    wanted = index._array.reshape(-1).astype(np.int64)
    size, n = pattern.shape[dim], pattern.sparse_dim
    if wanted.size and (wanted.min() < -size or wanted.max() >= size):
        raise IndexError(f"index_select(): index {int(wanted.max())} is out of bounds for dim {dim} of size {size}")
    wanted = np.where(wanted < 0, wanted + size, wanted)
    shape = (*pattern.shape[:dim], wanted.size, *pattern.shape[dim + 1:])
    if dim >= n:
        return with_values(Pattern(pattern.indices, shape, pattern.coalesced), v.index_select(dim - n + 1, index))
    order = np.argsort(pattern.indices[dim], kind="stable")
    counts = np.bincount(pattern.indices[dim], minlength=size)
    starts = np.cumsum(counts) - counts
    lengths = counts[wanted]
    ends = np.cumsum(lengths)
    total = int(lengths.sum())
    at = order[np.arange(total) - np.repeat(ends - lengths, lengths) + np.repeat(starts[wanted], lengths)]
    indices = pattern.indices[:, at]
    indices[dim] = np.repeat(np.arange(wanted.size), lengths)
    return with_values(Pattern(indices, shape, pattern.coalesced and dim == 0), v.index_select(0, make(at)))


@rule("cat")
def _cat(inputs: tuple, params: tuple) -> Any:
    dim = params[0]
    for i, t in enumerate(inputs):
        if not is_sparse(t):
            raise RuntimeError(f"cat of sparse tensors takes no dense one, there is one at position {i}. Convert it "
                               "with .to_sparse().")
        coo_only("cat", t)
    parts = [elements(t) for t in inputs]
    first = parts[0][0]
    n = first.sparse_dim
    for i, (p, _) in enumerate(parts):
        if p.sparse_dim != n or len(p.shape) != len(first.shape) or any(
                x != y for d, (x, y) in enumerate(zip(p.shape, first.shape, strict=True)) if d != dim):
            raise RuntimeError(f"All tensors must have the same shape, except in the concatenating dimension {dim}: "
                               f"{list(first.shape)} at position 0 and {list(p.shape)} at position {i}")
    shape = list(first.shape)
    shape[dim] = sum(p.shape[dim] for p, _ in parts)
    indices, vs, offset = [], [], 0
    for p, v in parts:
        moved = p.indices
        if dim < n:
            moved = moved.copy()
            moved[dim] += offset
        elif vs or len(parts) > 1:          # along a dense dimension: zeros before and behind
            before = make(np.zeros((p.nnz, *shape[n:dim], offset, *shape[dim + 1:]), dtype_of(v)))
            rest = shape[dim] - offset - p.shape[dim]
            behind = make(np.zeros((p.nnz, *shape[n:dim], rest, *shape[dim + 1:]), dtype_of(v)))
            v = concatenated([before, v, behind], dim - n + 1)
        indices.append(moved)
        vs.append(v)
        offset += p.shape[dim]
    return with_values(Pattern(np.concatenate(indices, 1), shape, False), concatenated(vs))


@rule("stack")
def _stack(inputs: tuple, params: tuple) -> Any:
    first = tuple(shape_of(inputs[0]))
    for i, t in enumerate(inputs):
        if not is_sparse(t):
            raise RuntimeError(f"stack: the tensor at position {i} is dense, and others are sparse. Convert it with "
                               ".to_sparse().")
    if any(tuple(shape_of(t)) != first for t in inputs):
        raise RuntimeError("stack expects each tensor to be equal size")
    return _cat(tuple(unsqueezed((t,), params) for t in inputs), params)


# --------------------------------------------------------------------------------- sums


def summed(t: Any, dims: Any, keepdim: bool, dtype: Any) -> Any:
    """The sum over some dimensions: sparse while a sparse dimension is left."""
    pattern, v = flat(t, requires(t))
    layout, rank, n = data(t).layout, len(pattern.shape), pattern.sparse_dim
    if dims is None or dims == ():
        dims = tuple(range(rank))
    dims = (dims,) if isinstance(dims, int) else tuple(dims)
    for d in dims:
        if not -rank <= d < rank:
            raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {d})")
    gone = sorted({d % rank for d in dims})
    dense = tuple(d - n + 1 for d in gone if d >= n)
    left = [d for d in range(n) if d not in gone]
    if len(gone) == rank and not keepdim:
        return apply1(slot("sum_all"), v, None if dtype is None else (dtype,))
    if not left and not keepdim:
        return apply1(SUM, v, ((0, *dense), False, dtype))
    if dense:
        v = apply1(SUM, v, (dense, keepdim, dtype))
    elif dtype is not None:
        v = cast(v, dtype)
    if dtype is None and dtype_of(v).kind in "bui":
        v = cast(v, np.dtype(np.int64))
    if keepdim:
        indices = pattern.indices.copy()
        indices[[d for d in gone if d < n]] = 0
        shape = tuple(1 if d in gone else size for d, size in enumerate(pattern.shape))
    else:
        indices = pattern.indices[left]
        shape = tuple(size for d, size in enumerate(pattern.shape) if d not in gone)
    found, places = Pattern(indices, shape, len(left) == n and pattern.coalesced).merged()
    if places is not None:
        v = make(np.zeros(found.values_shape, dtype_of(v))).index_add(0, make(places), v)
    if layout is not SPARSE_COO:
        return from_coo(found, v, layout) if keepdim else with_values(found, v, "SparseSumBackward0")
    return with_values(found, v, "SparseSumBackward0")


@rule("sum")
def _sum(inputs: tuple, params: tuple) -> Any:
    return summed(inputs[0], *params)


@rule("sum_all")
def _sum_all(inputs: tuple, params: tuple) -> Any:
    t = inputs[0]
    _, v = elements(t)
    return apply1(slot("sum_all"), v, params or None)


def soften(t: Any, dim: int, log: bool) -> Any:
    """softmax or log_softmax along a dimension, over the elements that are there."""
    coo_only("log_softmax" if log else "softmax", t)
    pattern, v = elements(t, True)
    rank, n = len(pattern.shape), pattern.sparse_dim
    if not -rank <= dim < rank:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})")
    dim %= rank
    node = "SparseLogSoftmaxBackward0" if log else "SparseSoftmaxBackward0"
    if dim >= n:
        return with_values(pattern, apply1(slot("log_softmax" if log else "softmax"), v, (dim - n + 1,)), node)
    rest = Pattern(np.delete(pattern.indices, dim, 0), (*pattern.shape[:dim], *pattern.shape[dim + 1:]))
    groups, places = rest.merged()
    if places is None:
        places = np.arange(pattern.nnz)
    array = v._array
    greatest = np.full((groups.nnz, *array.shape[1:]), -np.inf, array.dtype)
    np.maximum.at(greatest, places, array)
    at = make(places)
    shifted = v - make(greatest).index_select(0, at)
    powers = shifted.exp()
    total = make(np.zeros_like(greatest)).index_add(0, at, powers).index_select(0, at)
    return with_values(pattern, shifted - total.log() if log else powers / total, node)
