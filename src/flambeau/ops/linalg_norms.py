"""Norms, condition and rank of matrices, least squares, matrix exponential, and equations of tensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from flambeau.core.apply import apply1
from flambeau.core.dtype import DType
from flambeau.core.objects import TensorBase, array_of, make, make_lazy, shape_of
from flambeau.kernels import linalg as k

from . import norms  # noqa: F401  it registers vector_norm
from ._args import array, np_dtype, tensor
from ._args import dim as one_dim
from ._args import dims as whole_dims
from ._lazy import is_meta
from ._meta import Meta
from ._pointwise import fused, to_dtype
from ._record import KERNEL, REGISTRY, call, ops, primitive, public
from ._return_types import return_type
from ._shapes import INT64, fresh
from .joining import joined
from .linalg_factors import pseudo_inverse, svdvals
from .linalg_inverse import INV, LINALG, _is_vector, matrices, square_errors, square_samples
from .shape import reshaped

# --------------------------------------------------------------------------------- norms


def _vector_norm(x: Any, ord: Any, dim: Any, keepdim: bool) -> Any:
    return REGISTRY["linalg.vector_norm"].fn(x, ord, dim, keepdim)


def _order(ord: Any) -> Any:
    words = ("fro", "nuc")
    good = ord in words if isinstance(ord, str) else abs(ord) in (1, 2, math.inf)
    if not good:
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported. The orders are 'fro', 'nuc', 1, -1, 2, -2, inf "
                           "and -inf; linalg.vector_norm has any.")
    return ord


def _matrix_norm(t: TensorBase, ord: Any, dim: Any, keepdim: bool) -> Any:
    n = len(shape_of(t))
    rows, columns = one_dim(dim[0], n), one_dim(dim[1], n)
    if rows == columns:
        raise RuntimeError(f"linalg.matrix_norm: dims must be different. Got ({dim[0]}, {dim[1]})")
    if ord == "fro":
        return _vector_norm(t, 2, (rows, columns), keepdim)
    if ord == "nuc" or abs(ord) == 2:
        order = [i for i in range(n) if i not in (rows, columns)] + [rows, columns]
        s = svdvals(ops.permute(t, tuple(order)))
        total = ord == "nuc" or ord > 0 and shape_of(s)[-1] == 0        # the greatest of no singular values is 0
        out = ops.sum(s, (n - 2,), False) if total else (ops.amax if ord > 0 else ops.amin)(s, (n - 2,), False)
        for i in sorted((rows, columns)) if keepdim else ():
            out = ops.unsqueeze(out, i)
        return out
    if abs(ord) == 1:
        rows, columns = columns, rows
    sums = _vector_norm(t, 1, columns, keepdim)
    left = rows - 1 if not keepdim and columns < rows else rows
    greatest = ops.amax if shape_of(sums)[left] else ops.sum        # of no sums: 0
    return (greatest if ord > 0 else ops.amin)(sums, (left,), keepdim)


def _converted(t: TensorBase, dtype: DType | None) -> TensorBase:
    return t if dtype is None else to_dtype(t, np_dtype(dtype))


@public(namespaces=LINALG, method=False,
        samples=lambda t: [call(t(3, 4), ord) for ord in ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf)]
        + [call(t(2, 3, 4), "fro", (0, 2), True), call(t(2, 3, 4), 1, (2, 0)), call(t(2, 3, 4), 2, (0, 1), keepdim=True)],
        errors=lambda t: [(call(t(3)), RuntimeError, "at least 2 dimensions"),
                          (call(t(3, 3), 3), RuntimeError, "not supported"),
                          (call(t(3, 3), "fro", (1, 1)), RuntimeError, "must be different")])
def matrix_norm(A: Any, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: DType | None = None) -> Any:
    """Norms of matrices.

    Args:
        A: floating or complex (*, M, N).
        ord: "fro" root of the sum of squares; "nuc" sum of the singular values; 2 and -2 the greatest and least of them;
            1 and -1 greatest and least sum of absolute values of a column, inf and -inf of a row.
        dim: the two dimensions of the matrices.
        dtype: A is converted to it first.

    >>> flambeau.linalg.matrix_norm(flambeau.tensor([[3., 0.], [0., 4.]]), "nuc").item()
    7.0
    """
    return _matrix_norm(_converted(matrices(A, "linalg.matrix_norm"), dtype), _order(ord), tuple(dim), keepdim)


@public(name="norm", namespaces=LINALG, method=False,
        samples=lambda t: [call(t(3, 4)), call(t(3), 3), call(t(3, 4), 2), call(t(3, 4), "nuc"), call(t(3, 4), 1, 0),
                           call(t(2, 3, 4), math.inf, (1, 2)), call(t(2, 3, 4)), call(t(3, 4), dim=1, keepdim=True)],
        errors=lambda t: [(call(t(2, 2, 2), 2), RuntimeError, "must be 1D")])
def linalg_norm(A: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: DType | None = None) -> Any:
    """The norm of a vector or of a matrix: of one dimension `linalg.vector_norm`, of two `linalg.matrix_norm`.

    Args:
        ord: the order; None: the root of the sum of squares, of any number of dimensions.
        dim: one dimension or two, by default all.

    >>> flambeau.linalg.norm(flambeau.tensor([3., 4.])).item()
    5.0
    """
    t = _converted(tensor(A, "linalg_norm", "A"), dtype)
    if ord is None:
        return _vector_norm(t, 2, dim, keepdim)
    n = len(shape_of(t))
    if dim is None:
        if n not in (1, 2):
            raise RuntimeError("linalg.norm: with ord and no dim, the input must be 1D (a vector) or 2D (a "
                               f"matrix). Got {n}D. Name the dimensions with dim=.")
        dim = (0, 1) if n == 2 else (0,)
    dim = (dim,) if isinstance(dim, int) else tuple(dim)
    if len(dim) == 2:
        return _matrix_norm(matrices(t, "linalg.matrix_norm"), _order(ord), dim, keepdim)
    if len(dim) != 1:
        raise RuntimeError(f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {list(dim)}")
    if isinstance(ord, str):
        raise RuntimeError(f"linalg.norm: Order {ord} is of matrices: name two dimensions, got {list(dim)}")
    return _vector_norm(t, ord, dim, keepdim)


@public(namespaces=LINALG, method=False, samples=lambda t: [call(t(3, 3)), call(t(3, 3), 2), call(t(3, 3), "fro")],
        errors=lambda t: [(call(t(3, 4), "fro"), RuntimeError, "square")])
def cond(A: Any, p: Any = None) -> Any:
    """The condition numbers of matrices: norm(A, p) * norm(inv(A), p); by default, and for 2, of singular values.

    >>> flambeau.linalg.cond(flambeau.tensor([[1., 0.], [0., 4.]])).item()
    4.0
    """
    t = matrices(A, "linalg.cond")
    if p is None or p in (2, -2):
        s = svdvals(t)
        last = len(shape_of(s)) - 1
        if shape_of(s)[-1] == 0:
            return ops.sum(s, (last,), False)               # 0, of matrices without elements
        first, end = ops.select(s, last, 0), ops.select(s, last, shape_of(s)[-1] - 1)
        return end / first if p == -2 else first / end
    matrices(t, "linalg.cond", True)
    try:
        inverse = apply1(INV, t)
    except k.LinAlgError:
        return make(np.full(tuple(shape_of(t)[:-2]), np.inf, array_of(t).real.dtype))
    return _matrix_norm(t, _order(p), (-2, -1), False) * _matrix_norm(inverse, p, (-2, -1), False)


@public(namespaces=LINALG, method=False, differentiable=False, samples=lambda t: [call(t(3, 4, grad=False))],
        errors=lambda t: [(call(t(3)), RuntimeError, "at least 2 dimensions")])
def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None) -> Any:
    """The ranks of matrices: how many singular values are above max(atol, rtol * the largest one); int64.

    Args:
        tol: NumPy's name of atol, with rtol = 0.

    >>> flambeau.linalg.matrix_rank(flambeau.ones(2, 2)).item()
    1
    """
    t = matrices(A, "linalg.matrix_rank", hermitian)
    if tol is not None:
        atol, rtol = tol, 0.0
    if is_meta(t):
        return make_lazy(Meta(tuple(shape_of(t)[:-2]), INT64))
    return make(k.rank(array_of(t), array(atol), array(rtol), bool(hermitian)))


# --------------------------------------------------------------------------------- least squares


@public(namespaces=LINALG, method=False, out=False, samples=lambda t: [call(t(4, 3), t(4, 2))],
        errors=lambda t: [(call(t(3, 2), t(2, 1)), RuntimeError, "input.size")])
def lstsq(A: Any, B: Any, rcond: Any = None, *, driver: str | None = None) -> Any:
    """The X of least length for which the length of A @ X - B is least.

    Args:
        A: (*, M, N). B: (*, M, K), or a vector (*, M) for each matrix.
        rcond: singular values up to rcond * largest count as 0.
        driver: LAPACK's; "gelss", "gelsd" and "gelsy" (default) find the rank, "gels" takes it as full.

    Returns:
        (solution, residuals, rank, singular_values); residuals for "gels", "gelsd" and "gelss" if M > N and the rank is N,
        singular_values for "gelsd" and "gelss", else empty.

    >>> flambeau.linalg.lstsq(flambeau.tensor([[2.], [0.]]), flambeau.tensor([[4.], [1.]])).solution.tolist()
    [[2.0]]
    """
    if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
        raise RuntimeError(f"torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss), got "
                           f"{driver!r}")
    a, b = matrices(A, "torch.linalg.lstsq", False, "input"), tensor(B, "linalg_lstsq", "b", 2)
    vector = _is_vector(shape_of(a)[:-1] + shape_of(a)[-2:-1], shape_of(b)) if len(shape_of(b)) < len(shape_of(a)) else False
    right = ops.unsqueeze(b, -1) if vector else b
    m, n = shape_of(a)[-2:]
    if shape_of(right)[-2] != m:
        raise RuntimeError(f"torch.linalg.lstsq: input.size(-2) should match other.size(-{1 if vector else 2}), got {m} and "
                           f"{shape_of(right)[-2]}")
    x = pseudo_inverse(a, None, rcond, False) @ right
    empty = make(np.zeros(0, array_of(a).real.dtype))
    rank = make(k.rank(array_of(a), None, rcond, False)) if driver != "gels" else make(np.zeros(0, np.int64))
    full = driver == "gels" or bool((array_of(rank) == n).all())
    error = ops.abs(a @ x - right)
    given = m > n and full and driver not in (None, "gelsy")
    squares = error * error
    residuals = ops.sum(squares, (len(shape_of(error)) - 2,), False) if given else ops.narrow(
        reshaped(squares, (math.prod(shape_of(squares)),)), 0, 0, 0)
    if vector and given:
        residuals = reshaped(residuals, tuple(shape_of(residuals)[:-1]))
    values = svdvals(a) if driver in ("gelsd", "gelss") else empty
    solution = reshaped(x, tuple(shape_of(x)[:-1])) if vector else x
    result_type = return_type("linalg_lstsq", "solution", "residuals", "rank", "singular_values")
    return result_type((solution, residuals, rank, values))


# --------------------------------------------------------------------------------- exponential


def _blocks(a: np.ndarray, g: np.ndarray) -> np.ndarray:
    n = a.shape[-1]
    whole = np.zeros((*a.shape[:-2], 2 * n, 2 * n), np.result_type(a, g))
    whole[..., :n, :n], whole[..., n:, n:], whole[..., :n, n:] = a, a, g
    return k.matrix_exp(whole)[..., :n, n:]


def _frechet(xp: Any, a: Any, g: Any) -> Any:
    n, last = shape_of(a)[-1], len(shape_of(a)) - 1
    top, bottom = joined([a, g], -1), joined([a * 0, a], -1)
    return ops.narrow(ops.narrow(ops.linalg_matrix_exp(joined([top, bottom], -2)), last - 1, 0, n), last, n, n)


# The derivative of exp at a in direction g is the upper right block of exp([[a, g], [0, a]]) (Higham, 2008, 10.6)
fused("matrix_exp_derivative", _blocks, _frechet)
MATRIX_EXP = primitive("linalg_matrix_exp", k.matrix_exp, node="LinalgMatrixExpBackward0", meta=fresh(),
batch="leading", expr=KERNEL,
                       self=lambda xp, g, self: xp.matrix_exp_derivative(xp.adjoint(self), g))


@public(op=MATRIX_EXP, namespaces=LINALG, method=False, samples=square_samples, errors=square_errors)
def matrix_exp(A: Any) -> Any:
    """exp of square matrices: the sum of A ** k / k!.

    >>> flambeau.linalg.matrix_exp(flambeau.zeros(1, 1)).tolist()
    [[1.0]]
    """
    return apply1(MATRIX_EXP, matrices(A, "linalg.matrix_exp", True))


@public(name="matrix_exp", out=False, samples=square_samples, errors=square_errors)
def torch_matrix_exp(input: Any) -> Any:
    """`linalg.matrix_exp`.

    >>> flambeau.matrix_exp(flambeau.zeros(1, 1)).tolist()
    [[1.0]]
    """
    return apply1(MATRIX_EXP, matrices(input, "linalg.matrix_exp", True))


# --------------------------------------------------------------------------------- equations of tensors


@public(namespaces=LINALG, method=False, samples=lambda t: [call(t(4, 2, 2), ind=1)],
        errors=lambda t: [(call(t(2, 3), ind=1), RuntimeError, "ind")])
def tensorinv(A: Any, ind: int = 2) -> Any:
    """The inverse of a tensor for tensordot: prod(A.shape[:ind]) must equal prod(A.shape[ind:]).

    >>> flambeau.linalg.tensorinv(flambeau.eye(4).reshape(2, 2, 4)).shape
    torch.Size([4, 2, 2])
    """
    t = tensor(A, "linalg_tensorinv", "A")
    shape = tuple(shape_of(t))
    if ind <= 0:
        raise RuntimeError(f"Expected a strictly positive integer for 'ind', got {ind}")
    rows, columns = math.prod(shape[:ind]), math.prod(shape[ind:])
    if rows != columns:
        raise RuntimeError(f"linalg.tensorinv: the dimensions before ind={ind} have {rows} elements and those from "
                           f"it on have {columns}; a tensor is inverted like a square matrix, so the two numbers "
                           "must be equal. Choose another ind, or reshape.")
    return reshaped(apply1(INV, matrices(reshaped(t, (rows, rows)), "linalg.inv", True)), (*shape[ind:], *shape[:ind]))


@public(namespaces=LINALG, method=False, samples=lambda t: [call(t(2, 2, 4), t(2, 2))],
        errors=lambda t: [(call(t(2, 3), t(2)), RuntimeError, "must be equal")])
def tensorsolve(A: Any, B: Any, dims: Any = None) -> Any:
    """X of tensordot(A, X, X.ndim) = B.

    Args:
        A: B.shape followed by X's shape, with as many elements each.
        dims: dimensions of A that are moved to its end first.

    >>> flambeau.linalg.tensorsolve(flambeau.eye(4).reshape(2, 2, 4), flambeau.ones(2, 2)).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    a, b = tensor(A, "linalg_tensorsolve", "A"), tensor(B, "linalg_tensorsolve", "B", 2)
    n = len(shape_of(a))
    if dims is not None:
        moved = whole_dims(tuple(dims), n) or ()
        a = ops.permute(a, tuple([i for i in range(n) if i not in moved] + list(moved)))
    x_shape = tuple(shape_of(a)[len(shape_of(b)):])
    size = math.prod(x_shape)
    if size != math.prod(shape_of(b)) or size * size != math.prod(shape_of(a)):
        raise RuntimeError(f"linalg.tensorsolve: the dimensions of the solution have {size} elements and the right "
                           f"side has {math.prod(shape_of(b))}; the equations are solved like those of a square "
                           "matrix, so the two numbers must be equal.")
    x = ops.linalg_solve(reshaped(a, (size, size)), reshaped(b, (size, 1)))
    return reshaped(x, x_shape)


