"""Products made of matrix products: inner, tensordot, kron, vecdot, cross, multi_dot, matrix_power."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from flambeau.core.apply import apply1, apply2, apply_n
from flambeau.core.objects import TensorBase, dtype_of, shape_of
from flambeau.core.op import slot
from flambeau.kernels.promotion import promote_types
from flambeau.kernels.strides import broadcast_shapes

from ._args import dim as one_dim
from ._args import integer, tensor
from ._lazy import placed
from ._record import KERNEL, REGISTRY, call, ops, primitive, public
from ._shapes import elementwise
from .layout import cloned
from .matmul import MM, dot, product
from .shape import UNSAFE_VIEW, reshaped
from .views import PERMUTE

MUL = slot("mul")


@public(
    samples=lambda t: [call(t(3), t(3)), call(t(2, 3), t(4, 3)), call(t(2, 3), t(3)), call(t(2, 3), t()), call(t(), t())],
    errors=lambda t: [(call(t(2, 3), t(4)), RuntimeError, "sums over the last dimension")],
)
def inner(input: Any, other: Any) -> Any:
    """Sums of products over the last dimension of both; a scalar multiplies.

    Returns:
        Tensor of shape (*input.shape[:-1], *other.shape[:-1]).

    >>> flambeau.inner(flambeau.tensor([1, 2]), flambeau.tensor([3, 4])).item()
    11
    """
    a, b = shape_of(tensor(input, "inner")), shape_of(tensor(other, "inner", "other", 2))
    if not a or not b:
        return apply2(MUL, input, other)
    if a[-1] != b[-1]:
        raise RuntimeError(
            f"inner() sums over the last dimension, which must match on both tensors; the shapes are {list(a)} and "
            f"{list(b)}."
        )
    if len(a) == 1 and len(b) == 1:
        return dot(input, other)            # which autocast leaves alone, unlike the product of `@`
    return tensordot(input, other, ([-1], [-1]))


def _lists(dims: Any) -> tuple[list, list]:
    if isinstance(dims, TensorBase):
        dims = dims.tolist()
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        return list(range(-dims, 0)), list(range(dims))
    a, b = dims
    return ([a] if isinstance(a, int) else list(a)), ([b] if isinstance(b, int) else list(b))


@public(
    method=False,
    samples=lambda t: [
        call(t(2, 3), t(3, 4), 1),
        call(t(2, 3, 4), t(4, 3, 2), ([1, 2], [1, 0])),
        call(t(2, 3), t(2, 3), dims=2),
        call(t(2), t(3), 0),
        call(t(2, 3), t(1, 4), ([1], [0])),
    ],
    errors=lambda t: [(call(t(2, 3), t(4, 2), 1), RuntimeError, "contracted dimensions need to match")],
)
def tensordot(a: Any, b: Any, dims: Any = 2) -> Any:
    """Sums of products over several dimensions of two tensors.

    Args:
        dims: a number: the last of a with the first of b; or two lists of dimensions, of a and of b.

    Returns:
        Tensor of the other dimensions of a, then those of b.

    >>> flambeau.tensordot(flambeau.tensor([[1, 2]]), flambeau.tensor([[3], [4]]), 1).tolist()
    [[11]]
    """
    sa, sb = shape_of(tensor(a, "tensordot", "a")), shape_of(tensor(b, "tensordot", "b", 2))
    if isinstance(dims, int) and (dims > len(sa) or dims > len(sb)):
        raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
    da, db = _lists(dims)
    if len(da) != len(db):
        raise RuntimeError("both dimension lists should have same length")
    da, db = [one_dim(d, len(sa)) for d in da], [one_dim(d, len(sb)) for d in db]
    for name, found in (("a", da), ("b", db)):
        if len(set(found)) != len(found):
            raise RuntimeError(f"tensordot: a dim appears multiple times in the list of dims of {name}: {found}")
    for k, (i, j) in enumerate(zip(da, db, strict=True)):
        if sa[i] == sb[j]:
            continue
        if sb[j] == 1:
            a = ops.sum(a, (i,), True)
        elif sa[i] == 1:
            b = ops.sum(b, (j,), True)
        else:
            raise RuntimeError(
                f"contracted dimensions need to match, but first has size {sa[i]} in dim {i} and second has size "
                f"{sb[j]} in dim {j} (pair {k})"
            )
    sa, sb = shape_of(a), shape_of(b)
    rest_a, rest_b = [i for i in range(len(sa)) if i not in da], [j for j in range(len(sb)) if j not in db]
    left = _matrix(a, [*rest_a, *da], len(rest_a))
    right = _matrix(b, [*db, *rest_b], len(db))
    if not rest_a and not rest_b:
        return dot(reshaped(left, (-1,)), reshaped(right, (-1,)))
    return reshaped(apply2(MM, left, right), tuple([sa[i] for i in rest_a] + [sb[j] for j in rest_b]))


def _matrix(t: TensorBase, order: list[int], n_rows: int) -> Any:
    """t with its axes in an order, the first n_rows of them as rows and the others as columns."""
    shape = shape_of(t)
    sizes = [1, 1]
    for k, axis in enumerate(order):
        sizes[k >= n_rows] *= shape[axis]
    return reshaped(apply1(PERMUTE, t, (tuple(order),)), tuple(sizes))


@public(samples=lambda t: [call(t(2, 3), t(2, 2)), call(t(2), t(2, 2)), call(t(), t(2))])
def kron(input: Any, other: Any) -> Any:
    """The Kronecker product: blocks, each other times one element of input.

    >>> flambeau.kron(flambeau.tensor([1, 2]), flambeau.tensor([1, 1])).tolist()
    [1, 1, 2, 2]
    """
    a, b = tuple(shape_of(tensor(input, "kron"))), tuple(shape_of(tensor(other, "kron", "other", 2)))
    n = max(len(a), len(b))
    a, b = (1,) * (n - len(a)) + a, (1,) * (n - len(b)) + b
    left = reshaped(input, tuple([k for size in a for k in (size, 1)]))
    right = reshaped(other, tuple([k for size in b for k in (1, size)]))
    return apply1(UNSAFE_VIEW, apply2(MUL, left, right), (tuple([x * y for x, y in zip(a, b, strict=True)]),))


@public(
    namespaces=("linalg",),
    method=False,
    samples=lambda t: [call(t(3), t(3)), call(t(2, 3), t(3)), call(t(2, 3), t(2, 3), dim=0)],
)
def vecdot(x: Any, y: Any, *, dim: int = -1) -> Any:
    """The dot products of vectors along a dimension, the first conjugated.

    >>> flambeau.linalg.vecdot(flambeau.tensor([1., 2.]), flambeau.tensor([3., 4.])).item()
    11.0
    """
    tensor(x, "linalg.vecdot", "x")
    tensor(y, "linalg.vecdot", "y", 2)
    if len(shape_of(x)) == 1 and len(shape_of(y)) == 1:
        return ops.vdot(x, y)
    return ops.sum(apply2(MUL, ops.conj(x), y), (one_dim(dim, max(len(shape_of(x)), len(shape_of(y)))),), False)


# ------------------------------------------------------------------------------------- cross


_NEXT, _LAST = np.array([1, 2, 0]), np.array([2, 0, 1])


def _cross(a: np.ndarray, b: np.ndarray, dim: int) -> np.ndarray:
    """The cross product along a dimension counted from the end."""
    if a.size <= 4096 and b.size <= 4096:
        products = np.multiply(a.take(_NEXT, dim), b.take(_LAST, dim))
        return np.subtract(products, np.multiply(a.take(_LAST, dim), b.take(_NEXT, dim)), products)
    a, b = np.broadcast_arrays(a, b)
    x, y = np.moveaxis(a, dim, 0), np.moveaxis(b, dim, 0)
    out = np.empty(a.shape, np.result_type(a, b))
    z = np.moveaxis(out, dim, 0)
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        z[i] = x[j] * y[k] - x[k] * y[j]
    return out


CROSS = primitive(
    "linalg_cross",
    _cross,
    inputs=("self", "other"),
    params=("dim",),
    meta=elementwise(2),
    expr=KERNEL,
    self=lambda xp, g, other, dim: xp.linalg_cross(xp.conj(other), g, dim),
    other=lambda xp, g, self, dim: xp.linalg_cross(g, xp.conj(self), dim),
)


@public(
    name="cross",
    namespaces=("linalg",),
    method=False,
    samples=lambda t: [call(t(3), t(3)), call(t(2, 3), t(2, 3)), call(t(3, 2), t(3, 2), dim=0), call(t(2, 3), t(1, 3))],
    errors=lambda t: [(call(t(4), t(4)), RuntimeError, "must have length 3")],
)
def linalg_cross(input: Any, other: Any, *, dim: int = -1) -> Any:
    """The cross product of vectors of length 3 along a dimension.

    >>> flambeau.linalg.cross(flambeau.tensor([1, 0, 0]), flambeau.tensor([0, 1, 0])).tolist()
    [0, 0, 1]
    """
    a, b = shape_of(tensor(input, "linalg.cross")), shape_of(tensor(other, "linalg.cross", "other", 2))
    if len(a) != len(b):
        raise RuntimeError(f"linalg.cross: inputs must have the same number of dimensions, got {len(a)} and {len(b)}.")
    d = one_dim(dim, len(a))
    if a[d] != 3 or b[d] != 3:
        raise RuntimeError(f"linalg.cross: inputs dimension {dim} must have length 3. Got {a[d]} and {b[d]}")
    if a != b:
        broadcast_shapes(tuple(a), tuple(b))
    if dtype_of(input) is not dtype_of(other):
        common = promote_types(dtype_of(input), dtype_of(other))
        input, other = (x if dtype_of(x) == common else ops.cast(x, common) for x in (input, other))
    return apply_n(CROSS, [input, other], (d - len(a),))


@public(
    samples=lambda t: [
        call(t(2, 3), t(2, 3)),
        call(t(3, 2), t(3, 2)),
        call(t(3, 3), t(3, 3), 1),
        call(t(3, 3), t(3, 3), dim=0),
    ],
    errors=lambda t: [(call(t(4), t(4)), RuntimeError, "no dimension of size 3 in input")],
)
def cross(input: Any, other: Any, dim: int | None = None) -> Any:
    """The cross product along a dimension of size 3, by default the first of that size.

    >>> flambeau.cross(flambeau.tensor([1, 0, 0]), flambeau.tensor([0, 1, 0]), dim=0).tolist()
    [0, 0, 1]
    """
    if dim is None:
        sizes = list(shape_of(tensor(input, "cross")))
        if 3 not in sizes:
            raise RuntimeError("no dimension of size 3 in input")
        dim = sizes.index(3)
    return linalg_cross(input, other, dim=dim)


# ------------------------------------------------------------------------------------- chains and powers


def _best_order(sizes: Sequence[int]) -> list[list[int]]:
    """Where to split the product of matrices i..j for the fewest multiplications (Cormen et al., section 15.2)."""
    n = len(sizes) - 1
    cost = [[0] * n for _ in range(n)]
    where = [[0] * n for _ in range(n)]
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            cost[i][j], where[i][j] = min(
                (cost[i][k] + cost[k + 1][j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j)
            )
    return where


def _chain(matrices: Sequence[TensorBase], where: list[list[int]], i: int, j: int) -> Any:
    if i == j:
        return matrices[i]
    k = where[i][j]
    return apply2(MM, _chain(matrices, where, i, k), _chain(matrices, where, k + 1, j))


@public(
    namespaces=("linalg",),
    method=False,
    samples=lambda t: [call([t(2, 3), t(3, 4), t(4, 2)]), call([t(3), t(3, 4), t(4)]), call([t(2, 3), t(3)])],
    errors=lambda t: [
        (call([t(2, 3)]), RuntimeError, "expected at least 2 tensors"),
        (call([t(2, 3), t(4, 5)]), RuntimeError, "cannot be multiplied"),
    ],
)
def multi_dot(tensors: Any) -> Any:
    """The product of several matrices, in the order of multiplications that costs least.

    Args:
        tensors: matrices; the first and the last may be vectors.

    >>> flambeau.linalg.multi_dot([flambeau.ones(2, 3), flambeau.ones(3, 1), flambeau.ones(1, 1)]).tolist()
    [[3.0], [3.0]]
    """
    found = list(tensors)
    if len(found) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(found)}")
    shape: list[int] = []
    if len(shape_of(found[0])) == 1:
        found[0] = reshaped(found[0], (1, shape_of(found[0])[0]))
    else:
        shape.append(shape_of(found[0])[0])
    if len(shape_of(found[-1])) == 1:
        found[-1] = reshaped(found[-1], (shape_of(found[-1])[0], 1))
    else:
        shape.append(shape_of(found[-1])[-1])
    for i, x in enumerate(found):
        if len(shape_of(x)) != 2:
            raise RuntimeError(
                f"multi_dot(): tensor {i} must be 2D but got {len(shape_of(x))}D (the first and the last may be 1D)"
            )
        if i and shape_of(found[i - 1])[1] != shape_of(x)[0]:
            a, b = shape_of(found[i - 1]), shape_of(x)
            raise RuntimeError(
                f"multi_dot(): tensors {i - 1} and {i} with shapes {list(a)} and {list(b)} cannot be multiplied"
            )
    sizes = [shape_of(found[0])[0]] + [shape_of(x)[1] for x in found]
    out = _chain(found, _best_order(sizes), 0, len(found) - 1)
    return reshaped(out, tuple(shape))


@public(method=False, samples=lambda t: [call(t(2, 3), t(3, 4), t(4, 2)), call(t(2, 3))])
def chain_matmul(*matrices: Any) -> Any:
    """As `linalg.multi_dot`, of matrices given one by one.

    >>> flambeau.chain_matmul(flambeau.ones(1, 2), flambeau.ones(2, 1)).item()
    2.0
    """
    if len(matrices) == 1 and isinstance(matrices[0], (tuple, list)):
        matrices = tuple(matrices[0])
    return matrices[0] if len(matrices) == 1 else multi_dot(matrices)


def _power(a: TensorBase, n: int) -> Any:
    s = shape_of(a)
    if len(s) < 2 or s[-1] != s[-2]:
        raise RuntimeError(
            f"linalg.matrix_power: A must be batches of square matrices, but they are "
            f"{' by '.join(map(str, s[-2:]))} matrices"
        )
    if n == 0:
        eye = placed(a, tuple(s), dtype_of(a), lambda: np.broadcast_to(np.eye(s[-1], dtype=dtype_of(a)), tuple(s)).copy())
        return ops.add(apply2(MUL, a, 0), eye) if a.requires_grad else eye
    if n < 0:
        a, n = REGISTRY["linalg.inv"].fn(a), -n
    if n == 1:
        return cloned(a)
    result = None
    while True:  # by the binary digits of n
        if n & 1:
            result = a if result is None else product(result, a)
        n >>= 1
        if not n:
            return result
        a = product(a, a)


@public(
    samples=lambda t: [call(t(3, 3), 0), call(t(3, 3), 1), call(t(2, 3, 3), 3), call(t(3, 3), 6)],
    errors=lambda t: [(call(t(2, 3), 2), RuntimeError, "batches of square matrices")],
)
def matrix_power(input: Any, n: int) -> Any:
    """The n-th power of square matrices (*, m, m); for negative n, of their inverses.

    >>> flambeau.matrix_power(flambeau.tensor([[1., 1.], [0., 1.]]), 3).tolist()
    [[1.0, 3.0], [0.0, 1.0]]
    """
    return _power(tensor(input, "matrix_power"), integer(n, "matrix_power", "n"))


@public(name="matrix_power", namespaces=("linalg",), method=False, samples=lambda t: [call(t(3, 3), 2)])
def linalg_matrix_power(A: Any, n: int) -> Any:
    """As `torch.matrix_power`.

    >>> flambeau.linalg.matrix_power(flambeau.tensor([[2.]]), 3).item()
    8.0
    """
    return _power(tensor(A, "linalg.matrix_power", "A"), integer(n, "linalg_matrix_power", "n"))
