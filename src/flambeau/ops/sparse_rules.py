"""What operators do with sparse tensors, composed of dense operators on their values: element by element, and sums and
products of two.

Those that keep zeros work on the values alone; those that move elements (`sparse_moves`) compute new positions.
An operator that is not here raises NotImplementedError and names `.to_dense()`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.apply import apply1, apply2
from flambeau.core.objects import TensorBase, dtype_of, make, shape_of
from flambeau.core.op import slot
from flambeau.kernels import sparse as k
from flambeau.kernels import sparse_layouts as layouts
from flambeau.kernels.promotion import promote_types
from flambeau.kernels.sparse import Pattern, Sparse
from flambeau.kernels.strides import broadcast_shapes

from . import sparse_moves, sparse_products  # noqa: F401  (their rules)
from ._sparse import (
    SPARSE_COO,
    cast,
    coalesced,
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

# --------------------------------------------------------------------------------- element by element

_LINEAR = "neg conj clone cast to_copy real imag alias"
_ZERO_PRESERVING = """deg2rad rad2deg abs sgn sign sin sinh asin asinh tan tanh atan atanh sqrt expm1 log1p floor ceil round
    trunc frac round_decimals relu erf erfinv square isnan isinf isposinf isneginf signbit angle nan_to_num leaky_relu
    hardshrink softshrink"""


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
    return coo if layout is SPARSE_COO else layouts.to_layout(coo, layout, block)


# --------------------------------------------------------------------------------- two operands


def _is_scalar(t: Any) -> bool:
    return not isinstance(t, TensorBase) or not is_sparse(t) and not shape_of(t)


def _same_shape(name: str, a: Any, b: Any) -> None:
    if tuple(shape_of(a)) != tuple(shape_of(b)):
        raise RuntimeError(f"{name}: the two sparse tensors must have the same size: the first has {list(shape_of(a))} "
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
    return run(_ADD, [cast(dense, common), sparse])


def _sum_of_two(a: Any, b: Any, node: str) -> Any:
    common = promote_types(dtype_of(a), dtype_of(b))
    a, b = cast(a, common), cast(b, common)
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
    a, b = cast(a, common), cast(b, common)
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
