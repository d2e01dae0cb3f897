"""What operators do with sparse tensors, composed of dense operators on their values.

Those that keep zeros work on the values alone; those that move elements compute new positions and take the values along.
An operator that is not here raises NotImplementedError and names `.to_dense()`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.apply import apply1, apply2
from flambeau.core.objects import TensorBase, dtype_of, make, requires, shape_of
from flambeau.core.op import slot
from flambeau.kernels import sparse as k
from flambeau.kernels.promotion import promote_types
from flambeau.kernels.sparse import Compressed, Pattern, Sparse
from flambeau.kernels.strides import broadcast_shapes

from . import sparse_products as _products
from ._sparse import (
    SPARSE_COO,
    coalesced,
    concatenated,
    data,
    elements,
    flat,
    from_coo,
    in_layout,
    is_sparse,
    not_supported,
    rule,
    run,
    sparse_primitive,
    tensor_of,
    values_at,
    with_values,
)

ADD, SUB, MUL, NEG = slot("add"), slot("sub"), slot("mul"), slot("neg")
SUM = slot("sum")
_ = _products

# --------------------------------------------------------------------------------- element by element

_LINEAR = "neg conj deg2rad rad2deg clone cast to_copy real imag alias"
_ZERO_PRESERVING = """abs sgn sign sin sinh asin asinh tan tanh atan atanh sqrt expm1 log1p floor ceil round trunc frac
    round_decimals relu erf erfinv square isnan isinf isposinf isneginf signbit angle nan_to_num leaky_relu hardshrink
    softshrink"""


def _elementwise(name: str, distinct: bool) -> None:
    op = slot(name)

    @rule(name)
    def apply(inputs: tuple, params: tuple) -> Any:
        pattern, v = elements(inputs[0], distinct)
        return with_values(pattern, apply1(op, v, params or None))


for _name in _LINEAR.split():
    _elementwise(_name, False)
for _name in _ZERO_PRESERVING.split():
    _elementwise(_name, True)


@rule("pow_scalar")
def _pow(inputs: tuple, params: tuple) -> Any:
    if not isinstance(params[0], complex) and params[0] <= 0:
        raise NotImplementedError(f"a power of {params[0]} of a sparse tensor would have no zeros. Call .to_dense() first.")
    pattern, v = elements(inputs[0], True)
    return with_values(pattern, v ** params[0])


@rule("zeros_like", "zero_")
def zeros(inputs: tuple, params: tuple) -> Any:
    """A sparse tensor without elements, like another one."""
    return tensor_of(empty_like(data(inputs[0])))


def empty_like(s: Sparse, dtype: Any = None) -> Sparse:
    """Sparse data without elements, in the layout of s."""
    return empty(s.shape, s.layout, s.dtype if dtype is None else dtype, s.pattern.sparse_dim,
                 getattr(s.pattern, "block", None))


def empty(shape: tuple, layout: Any, dtype: Any, sparse_dim: int | None = None, block: Any = None) -> Sparse:
    """Sparse data without elements."""
    n = len(shape) if sparse_dim is None else sparse_dim
    coo = Sparse(Pattern(np.zeros((n, 0), np.int64), shape, True), np.zeros((0, *shape[n:]), dtype))
    return coo if layout is SPARSE_COO else k.to_layout(coo, layout, block)


# --------------------------------------------------------------------------------- two operands


def _is_scalar(t: Any) -> bool:
    return not isinstance(t, TensorBase) or not is_sparse(t) and not shape_of(t)


def _same_shape(name: str, a: Any, b: Any) -> None:
    if tuple(shape_of(a)) != tuple(shape_of(b)):
        raise RuntimeError(f"{name}: expected 'self' and 'other' to have same size, but self has size {list(shape_of(a))} "
                           f"while other has size {list(shape_of(b))}: operators of sparse tensors do not broadcast.")


def _add_kernel(dense: np.ndarray, sparse: Sparse) -> np.ndarray:
    out = np.array(dense)
    k.add_into(out, sparse)
    return out


_ADD = sparse_primitive("sparse_add_dense", _add_kernel, inputs=("self", "other"), node="AddBackward0",
                        self=lambda xp, g: g, other=lambda xp, g: g)


@rule("add")
def _add(inputs: tuple, params: tuple) -> Any:
    a, b = inputs
    if is_sparse(a) and is_sparse(b):
        _same_shape("add", a, b)
        return _sum_of_two(a, b, "AddBackward0")
    if is_sparse(a) and (_is_scalar(b) or data(a).layout is SPARSE_COO):
        raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead: dense + sparse, or "
                           "sparse.to_dense() + dense.")
    dense, sparse = (b, a) if is_sparse(a) else (a, b)
    if not isinstance(dense, TensorBase):
        raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead, or sparse.to_dense() + "
                           "number.")
    _same_shape("add", dense, sparse)
    common = promote_types(dtype_of(dense), dtype_of(sparse))
    return run(_ADD, [_cast(dense, common), sparse])


def _cast(t: Any, dtype: Any) -> Any:
    return t if dtype_of(t) == dtype else apply1(slot("to_copy"), t, (dtype, "preserve"))


def _sum_of_two(a: Any, b: Any, node: str) -> Any:
    common = promote_types(dtype_of(a), dtype_of(b))
    a, b = _cast(a, common), _cast(b, common)
    layout = data(a).layout
    (p, v), (q, w) = elements(a), elements(b)
    if data(b).layout is layout and (p is q or k.same_positions(p, q)):
        return with_values(p, apply2(ADD, v, w), node)
    block = getattr(p, "block", None)
    if layout is not SPARSE_COO or data(b).layout is not SPARSE_COO:
        (p, v), (q, w) = flat(a), flat(b)
    pattern, at_p, at_q = k.union(p, q)
    total = make(np.zeros(pattern.values_shape, common)).index_add(0, make(at_p), v).index_add(0, make(at_q), w)
    return with_values(pattern, total, node) if layout is SPARSE_COO else from_coo(pattern, total, layout, block, node)


@rule("sub")
def _sub(inputs: tuple, params: tuple) -> Any:
    a, b = inputs
    return _add((a, apply1(NEG, b) if isinstance(b, TensorBase) else -b), ())


@rule("rsub")
def _rsub(inputs: tuple, params: tuple) -> Any:
    return _sub((inputs[1], inputs[0]), ())


@rule("rsub_scalar")
def _rsub_scalar(inputs: tuple, params: tuple) -> Any:
    return _add((params[0], inputs[0]), ())


@rule("mul")
def _mul(inputs: tuple, params: tuple) -> Any:
    a, b = inputs
    if is_sparse(a) and is_sparse(b):
        _same_shape("mul", a, b)
        return _product_of_two(a, b)
    sparse, other = (a, b) if is_sparse(a) else (b, a)
    pattern, v = elements(sparse)
    if _is_scalar(other):
        return with_values(pattern, apply2(MUL, v, other), "MulBackward0")
    shape = tuple(shape_of(sparse))
    if broadcast_shapes(shape, tuple(shape_of(other))) != shape:
        raise not_supported("mul", inputs)
    if tuple(shape_of(other)) != shape:
        other = other.expand(shape)
    return with_values(pattern, apply2(MUL, v, values_at(other, pattern)), "MulBackward0")


def _product_of_two(a: Any, b: Any) -> Any:
    """Where both have elements; the result has the positions of the one with fewer."""
    common = promote_types(dtype_of(a), dtype_of(b))
    a, b = _cast(a, common), _cast(b, common)
    if data(a).layout is not SPARSE_COO or data(b).layout is not SPARSE_COO:
        if data(a).layout is data(b).layout and k.same_positions(data(a).pattern, data(b).pattern):
            (p, v), (_, w) = elements(a), elements(b)
            return with_values(p, apply2(MUL, v, w), "MulBackward0")
        product = _product_of_two(in_layout(a, SPARSE_COO), in_layout(b, SPARSE_COO))
        return product if data(a).layout is SPARSE_COO else in_layout(product, data(a).layout,
                                                                      getattr(data(a).pattern, "block", None))
    one, two = data(a).pattern, data(b).pattern
    swap = two.coalesced if one.coalesced != two.coalesced else one.nnz < two.nnz
    searched, source = (b, a) if swap else (a, b)
    pattern, w = elements(source)
    return with_values(pattern, apply2(MUL, values_at(coalesced(searched), pattern), w), "MulBackward0")


@rule("div")
def _div(inputs: tuple, params: tuple) -> Any:
    return _quotient("div", inputs, False)


def _quotient(name: str, inputs: tuple, distinct: bool) -> Any:
    a, b = inputs
    if not is_sparse(a):
        raise not_supported(name, inputs)
    if not _is_scalar(b):
        raise RuntimeError("Sparse division requires a scalar or zero-dim dense tensor divisor (got shape "
                           f"{list(shape_of(b))} for divisor). Multiply with the reciprocal of a dense tensor instead.")
    pattern, v = elements(a, distinct)
    return with_values(pattern, apply2(slot(name), v, b), "DivBackward0")


for _name in ("div_floor", "div_trunc", "floor_divide"):
    rule(_name)(lambda inputs, params, _name=_name: _quotient(_name, inputs, True))


@rule("copy")
def _copy(inputs: tuple, params: tuple) -> Any:
    dst, src = inputs
    if not isinstance(src, TensorBase):
        if is_sparse(dst) and src == 0:
            return zeros((dst,), ())
        raise not_supported("fill_", inputs)
    if not is_sparse(dst) or not is_sparse(src):
        raise RuntimeError("copy_() between dense and sparse Tensors is not implemented! Use sparse.to_dense(), or "
                           "dense.to_sparse().")
    _same_shape("copy_", dst, src)
    pattern, v = elements(src)
    return with_values(pattern, v.clone())


# --------------------------------------------------------------------------------- moving elements


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
            raise RuntimeError(f"Concatenating sparse tensors, but a dense tensor was found at position {i}. Convert it "
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
        v = _cast(v, dtype)
    if dtype is None and dtype_of(v).kind in "bui":
        v = _cast(v, np.dtype(np.int64))
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
