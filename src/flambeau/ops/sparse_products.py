"""Products with sparse matrices: mm, mv, bmm, addmm, linear, and the sampled product.

`mm`, `mv` and `addmm` give the sparse matrix a dense gradient, as PyTorch does; the functions of `torch.sparse` give it
one with its own positions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.apply import apply1, apply2, apply_n
from flambeau.core.dtype import SPARSE_CSR
from flambeau.core.objects import dtype_of, make, shape_of
from flambeau.core.op import slot
from flambeau.kernels import sparse_products as k
from flambeau.kernels.sparse import Pattern, Sparse

from ._record import KERNEL, ops, primitive
from ._sparse import (
    SPARSE_COO,
    data,
    flat,
    from_coo,
    is_sparse,
    not_supported,
    rule,
    sparse_primitive,
    with_values,
)

ADD, MUL, MM, T = slot("add"), slot("mul"), slot("mm"), slot("t")

# --------------------------------------------------------------------------------- primitives of values

SPMM = primitive(
    "spmm", k.spmm, inputs=("values", "dense"), params=("pattern",), expr=KERNEL, node="SparseAddmmBackward0",
    values=lambda xp, g, dense, pattern: xp.sddmm(g, xp.conj(dense), pattern),
    dense=lambda xp, g, values, pattern: xp.spmm(xp.conj(values), g, pattern.transposed()))
SDDMM = primitive(
    "sddmm", k.sddmm, inputs=("a", "b"), params=("pattern",), expr=KERNEL, node="SparseSampledAddmmBackward0",
    a=lambda xp, g, b, pattern: xp.spmm(g, xp.conj(b), pattern),
    b=lambda xp, g, a, pattern: xp.spmm(g, xp.conj(a), pattern.transposed()))
PRODUCT = primitive(
    "sparse_product", k.product_values, inputs=("x", "y"), params=("where",), expr=KERNEL,
    node="SparseSparseMatmulBackward0",
    x=lambda xp, g, y, where: xp.sparse_product(g, xp.conj(y), _turned(where, 1)),
    y=lambda xp, g, x, where: xp.sparse_product(g, xp.conj(x), _turned(where, 2)))


def _turned(where: tuple, n: int) -> tuple:
    """The sums of a derivative: out[i] += g[o] * y[j], or out[j] += g[o] * x[i]."""
    sizes, i, j, o = where
    return ((sizes[1], sizes[0], sizes[2]), o, j, i) if n == 1 else ((sizes[2], sizes[0], sizes[1]), o, i, j)


def _mm_kernel(s: Sparse, dense: np.ndarray) -> np.ndarray:
    return k.spmm(s.values.reshape(-1), dense, s.pattern.flat())


def _adjoint_kernel(s: Sparse, dense: np.ndarray) -> np.ndarray:
    return k.spmm(np.conjugate(s.values.reshape(-1)), dense, s.pattern.flat().transposed())


_MM = sparse_primitive(
    "sparse_mm_dense", _mm_kernel, inputs=("self", "mat2"), node="MmBackward0",
    self=lambda xp, g, mat2: xp.mm(g, xp.t(xp.conj(mat2))), mat2=lambda xp, g, self: xp.sparse_adjoint_mm(self, g))
_MV = sparse_primitive(
    "sparse_mv_dense", _mm_kernel, inputs=("self", "vec"), node="MvBackward0",
    self=lambda xp, g, vec: xp.outer(g, xp.conj(vec)), vec=lambda xp, g, self: xp.sparse_adjoint_mv(self, g))
sparse_primitive(
    "sparse_adjoint_mm", _adjoint_kernel, inputs=("self", "mat2"), node="MmBackward0",
    self=lambda xp, g, mat2: xp.mm(mat2, xp.t(xp.conj(g))), mat2=lambda xp, g, self: xp.sparse_mm_dense(self, g))
sparse_primitive(
    "sparse_adjoint_mv", _adjoint_kernel, inputs=("self", "vec"), node="MvBackward0",
    self=lambda xp, g, vec: xp.outer(vec, xp.conj(g)), vec=lambda xp, g, self: xp.sparse_mv_dense(self, g))

sparse_primitive(
    "mm_sparse", lambda a, s: np.ascontiguousarray(_transposed_kernel(s, a.T).T), inputs=("self", "mat2"),
    node="MmBackward0", self=lambda xp, g, mat2: xp.t(xp.conj(xp.sparse_mm_dense(mat2, xp.t(xp.conj(g))))),
    mat2=lambda xp, g, self: xp.mm(xp.t(xp.conj(self)), g))


def _transposed_kernel(s: Sparse, dense: np.ndarray) -> np.ndarray:
    return k.spmm(s.values.reshape(-1), dense, s.pattern.flat().transposed())


# --------------------------------------------------------------------------------- checks


def check(name: str, a: Any, b: Any) -> None:
    """The errors of a product of a and b."""
    x, y = tuple(shape_of(a)), tuple(shape_of(b))
    if dtype_of(a) != dtype_of(b):
        raise RuntimeError(f"{name}: expected m1 and m2 to have the same dtype, but got {a.dtype} and {b.dtype}. "
                           "Convert one with .to().")
    if len(x) != 2 or len(y) not in (1, 2):
        raise RuntimeError(f"{name}: expected matrices, but got shapes {list(x)} and {list(y)}")
    if x[1] != y[0]:
        if len(y) == 1:
            raise RuntimeError(f"size mismatch, got mat ({x[0]}x{x[1]}), vec ({y[0]})")
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({x[0]}x{x[1]} and {y[0]}x{y[1]})")
    for t in (a, b):
        if is_sparse(t) and data(t).layout is SPARSE_COO and data(t).pattern.sparse_dim != 2:
            n = data(t).pattern.sparse_dim
            raise RuntimeError(f"{name}: expected a sparse matrix of 2 sparse dimensions, but got one of {n} sparse and "
                               f"{len(shape_of(t)) - n} dense dimensions")


# --------------------------------------------------------------------------------- products


def masked_product(a: Any, b: Any, name: str = "torch.sparse.mm") -> Any:
    """a @ b where one is sparse; gradients of sparse matrices have their own positions."""
    check(name, a, b)
    if is_sparse(a) and is_sparse(b):
        return _of_two(a, b)
    if is_sparse(a):
        pattern, v = flat(a, a.requires_grad)
        return apply_n(SPMM, [v, b], (pattern,))
    if not is_sparse(b):
        return apply2(MM, a, b)
    pattern, v = flat(b, b.requires_grad)
    return apply1(T, apply_n(SPMM, [v, apply1(T, a)], (pattern.transposed(),))).contiguous()


def _of_two(a: Any, b: Any) -> Any:
    (p, x), (q, y) = flat(a), flat(b)
    pattern, i, j, o = k.pairs(p, q)
    v = apply_n(PRODUCT, [x, y], (((pattern.nnz, p.nnz, q.nnz), i, j, o),))
    layout = data(a).layout
    if layout is SPARSE_COO or data(b).layout is SPARSE_COO:
        return with_values(pattern, v)
    return from_coo(pattern, v, layout, getattr(data(a).pattern, "block", None), "MmBackward0")


def reduced(a: Any, b: Any, reduce: str) -> Any:
    """a @ b for a CSR matrix a, where the products of a row's elements become one by their mean, maximum or minimum."""
    name = "torch.sparse.mm"
    if reduce not in ("mean", "amax", "amin"):
        raise ValueError(f"{name}: reduce is 'sum', 'mean', 'amax' or 'amin', not {reduce!r}")
    check(name, a, b)
    if not is_sparse(a) or data(a).layout is not SPARSE_CSR or is_sparse(b) or len(shape_of(b)) != 2:
        raise NotImplementedError(f"{name}(reduce={reduce!r}): expected mat1 in layout torch.sparse_csr and a dense matrix "
                                  f"mat2, but got layouts {a.layout!r} and {b.layout!r}. Convert with .to_sparse_csr().")
    pattern, v = flat(a, a.requires_grad)
    rows, columns = pattern.indices
    products = v.unsqueeze(1) * b.index_select(0, make(columns))
    n = shape_of(b)[1]
    at = make(rows).unsqueeze(1).expand(len(rows), n)
    return b.new_zeros((shape_of(a)[0], n)).scatter_reduce(0, at, products, reduce, include_self=False)


def sparse_rows(a: Any, b: Any) -> Any:
    """a @ b for a COO matrix a, as a tensor of those rows in which a has elements."""
    check("hspmm", a, b)
    if not is_sparse(a) or data(a).layout is not SPARSE_COO or is_sparse(b) or len(shape_of(b)) != 2:
        raise RuntimeError("hspmm: expected mat1 in layout torch.sparse_coo and a dense matrix mat2, but got layouts "
                           f"{a.layout!r} and {b.layout!r}.")
    pattern, v = flat(a)
    rows, places = np.unique(pattern.indices[0], return_inverse=True)
    few = Pattern(np.stack([places.reshape(-1), pattern.indices[1]]), (len(rows), pattern.shape[1]), pattern.coalesced)
    values = apply_n(SPMM, [v, b], (few,))
    return with_values(Pattern(rows[None], (pattern.shape[0], shape_of(b)[1]), True), values)


@rule("mm")
def _mm(inputs: tuple, params: tuple) -> Any:
    a, b = inputs
    check("mm", a, b)
    if not is_sparse(b):
        return apply_n(_MM, [a, b])
    if is_sparse(a):
        return _of_two(a, b)
    return ops.mm_sparse(a, b)


@rule("mv")
def _mv(inputs: tuple, params: tuple) -> Any:
    a, b = inputs
    if is_sparse(b):
        raise not_supported("mv", inputs)
    check("mv", a, b)
    return apply_n(_MV, [a, b])


@rule("bmm")
def _bmm(inputs: tuple, params: tuple) -> Any:
    """A stack of products as one: the matrices stand on the diagonal of a large one."""
    a, b = inputs
    if not is_sparse(a) or is_sparse(b) or data(a).layout is not SPARSE_COO:
        raise not_supported("bmm", inputs)
    n, m, inner = shape_of(a)
    if shape_of(b)[0] != n or shape_of(b)[1] != inner:
        raise RuntimeError(f"bmm: Expected size for first two dimensions of batch2 tensor: [{n}, {inner}] but got: "
                           f"{list(shape_of(b)[:2])}.")
    pattern, v = flat(a)
    which, row, column = pattern.indices
    diagonal = Pattern(np.stack([which * m + row, which * inner + column]), (n * m, n * inner), True)
    wide = shape_of(b)[2]
    return apply_n(SPMM, [v, b.reshape(n * inner, wide)], (diagonal,)).reshape(n, m, wide)


@rule("addmm")
def _addmm(inputs: tuple, params: tuple) -> Any:
    base, a, b = inputs
    beta, alpha = params
    return _sum(base, _mm((a, b), ()), beta, alpha, inputs)


@rule("addmv")
def _addmv(inputs: tuple, params: tuple) -> Any:
    base, a, b = inputs
    return _sum(base, _mv((a, b), ()), params[0], params[1], inputs)


def masked_addmm(base: Any, a: Any, b: Any, beta: Any, alpha: Any) -> Any:
    """beta * base + alpha * (a @ b), with gradients as those of `masked_product`."""
    return _sum(base, masked_product(a, b, "torch.sparse.addmm"), beta, alpha, (base, a, b))


def _sum(base: Any, product: Any, beta: Any, alpha: Any, inputs: tuple) -> Any:
    if is_sparse(base) != is_sparse(product):
        raise not_supported("addmm", inputs)
    if alpha != 1:
        product = apply2(MUL, product, alpha)
    if beta == 0:
        return product
    return apply2(ADD, product, base if beta == 1 else apply2(MUL, base, beta))


@rule("linear_bias")
def _linear_bias(inputs: tuple, params: tuple) -> Any:
    bias, x, weight = inputs
    return apply2(ADD, _linear((x, weight), ()), bias)


@rule("linear")
def _linear(inputs: tuple, params: tuple) -> Any:
    x, weight = inputs
    if is_sparse(weight):
        if is_sparse(x):
            raise not_supported("linear", inputs)
        rows = x.reshape(-1, shape_of(x)[-1])
        return apply1(T, masked_product(weight, apply1(T, rows), "linear")).reshape(*shape_of(x)[:-1], shape_of(weight)[0])
    return _mm((x, apply1(T, weight)), ())


def sampled(s: Any, a: Any, b: Any, beta: Any, alpha: Any) -> Any:
    """beta * s + alpha * (a @ b) at the positions of s, which is CSR."""
    pattern = data(s).pattern
    _, v = flat(s, False)
    found = apply_n(SDDMM, [a, apply1(T, b)], (pattern.flat(),))
    if alpha != 1:
        found = apply2(MUL, found, alpha)
    if beta != 0:
        found = apply2(ADD, found, v if beta == 1 else apply2(MUL, v, beta))
    return with_values(pattern, found.reshape(pattern.values_shape), "SparseSampledAddmmBackward0")

