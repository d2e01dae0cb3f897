"""LU factors with row exchanges: `torch.linalg.lu*`, `lu_unpack`, `lu_solve`, and equations that report singular matrices.

The exchanges are found first; what follows is composed of the unpivoted factors of a square matrix and of triangular
equations, so that matrices of any shape have derivatives of any order.

Source: Golub and Van Loan, Matrix Computations, section 3.4; Giles, 2008, report 08/01, Oxford, section 2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.apply import apply1, apply_n
from flambeau.core.objects import TensorBase, array_of, dtype_of, make, memory_of, shape_of
from flambeau.core.origin import warn_user
from flambeau.kernels import linalg as k
from flambeau.kernels import lu as kernel

from . import scatter  # noqa: F401  it registers take_along_dim
from ._args import followed, tensor
from ._lazy import evaluated, is_meta, placed, standing_for
from ._meta import Meta, meta_of
from ._record import KERNEL, call, ops, primitive, public
from ._return_types import return_type
from ._shapes import INT32, columns
from .joining import joined
from .linalg_inverse import LINALG, SOLVE_TRIANGULAR, _is_vector, matrices, no_failure, solve


def _backward(xp: Any, g: Any, out: Any) -> Any:
    """inv(L).H @ (tril(L.H @ g, -1) + triu(g @ U.H)) @ inv(U).H"""
    below, above = xp.tril(out, -1), xp.triu(out, 0)
    low = xp.tril(g, -1) + xp.adjoint(below) @ xp.tril(g, -1)
    inner = xp.tril(low, -1) + xp.triu(xp.triu(g, 0) @ xp.adjoint(above), 0)
    left = xp.solve_triangular(xp.adjoint(out), inner, True, True)
    return xp.adjoint(xp.solve_triangular(out, xp.adjoint(left), True, False))


LU = primitive("lu_packed", kernel.packed, node="LinalgLuFactorExBackward0",
               meta=lambda self: columns(self.shape, self.dtype), batch="leading", expr=KERNEL,
               self=lambda xp, g, out: _backward(xp, g, out))


def _rows(a: TensorBase, order: np.ndarray) -> TensorBase:
    """The rows of matrices in an order of their own."""
    shape = shape_of(a)
    index = np.broadcast_to(order[..., None], (*order.shape, shape[-1]))
    return ops.take_along_dim(a, make(np.ascontiguousarray(index)), len(shape) - 2)


def factors(a: TensorBase) -> tuple[TensorBase, TensorBase, TensorBase]:
    """(L and U in one matrix, pivots counted from 1, the number of the first zero pivot or 0)."""
    if is_meta(a):
        m = meta_of(a)
        k = (*m.shape[:-2], min(m.shape[-2:]))
        return standing_for([a], (columns(m.shape, m.dtype), Meta(k, INT32), Meta(k[:-1], INT32)), "lu_factor")
    packed, pivots, info = kernel.factor(array_of(a))
    known = make(pivots), make(info)
    if not followed(a):
        return (make(packed), *known)
    m, n = shape_of(a)[-2:]
    size, last = min(m, n), len(shape_of(a)) - 1
    rows = _rows(a, kernel.order(pivots, m))
    square = rows
    if m > n:
        square = ops.narrow(rows, last - 1, 0, size)
    elif n > m:
        square = ops.narrow(rows, last, 0, size)
    lu = apply1(LU, square)
    if m > n:               # L below: rest @ inv(U)
        rest = ops.transpose(ops.narrow(rows, last - 1, n, m - n), -2, -1)
        below = apply_n(SOLVE_TRIANGULAR, [ops.transpose(lu, -2, -1), rest], (False, False))
        lu = joined([lu, ops.transpose(below, -2, -1)], -2)
    elif n > m:             # U to the right: inv(L) @ rest
        right = apply_n(SOLVE_TRIANGULAR, [lu, ops.narrow(rows, last, m, n - m)], (False, True))
        lu = joined([lu, right], -1)
    return (lu, *known)


def _refuse_unpivoted(pivot: bool) -> None:
    if not pivot:
        raise RuntimeError("linalg.lu_factor: LU without pivoting is not implemented on the CPU: leave out pivot=False")


def _check_info(name: str, info: TensorBase) -> None:
    if is_meta(info):
        return
    failed = array_of(info).reshape(-1)
    if failed.any():
        i = int(np.flatnonzero(failed)[0])
        where = f" (Batch element {i}):" if array_of(info).ndim else ""
        raise RuntimeError(f"{name}:{where} U[{failed[i]},{failed[i]}] is zero: the matrix is singular, and "
                           "lu_solve would divide by this zero. For the factors alone, call linalg.lu(A) or "
                           "linalg.lu_factor_ex(A).")


def _samples(t: Any) -> list:
    return [call(t(3, 3)), call(t(2, 3, 3)), call(t(4, 2)), call(t(2, 2, 4)), call(t(0, 0)),
            call(t(3, 3, dtype="complex64"))]


def _errors(t: Any) -> list:
    return [(call(t(3)), RuntimeError, "dimensions"), (call(t(3, 3), pivot=False), RuntimeError, "without pivoting")]


@public(op=LU, namespaces=LINALG, method=False, samples=_samples,
        errors=lambda t: [*_errors(t), (call(t(values=[[0.0, 0.0], [0.0, 0.0]])), RuntimeError, r"U\[1,1\] is zero")])
def lu_factor(A: Any, *, pivot: bool = True) -> Any:
    """(LU, pivots), the factors of A = P @ L @ U in the form that `linalg.lu_solve` and `lu_unpack` take.

    Args:
        A: floating or complex (*, M, N).

    Returns:
        LU (*, M, N): U in the upper triangle, L, whose diagonal is ones, below. pivots (*, K), int32, K = min(M, N): row i
        was exchanged with row pivots[i], counted from 1.

    Raises:
        RuntimeError: a pivot is zero (`linalg.lu_factor_ex` says which instead).

    >>> flambeau.linalg.lu_factor(flambeau.tensor([[1., 2.], [2., 2.]])).LU.tolist()
    [[2.0, 2.0], [0.5, 1.0]]
    """
    _refuse_unpivoted(pivot)
    lu, pivots, info = factors(matrices(A, "linalg.lu_factor"))
    _check_info("torch.linalg.lu_factor", info)
    return return_type("linalg_lu_factor", "LU", "pivots")((lu, pivots))


@public(namespaces=LINALG, method=False, samples=_samples, errors=_errors)
def lu_factor_ex(A: Any, *, pivot: bool = True, check_errors: bool = False) -> Any:
    """`linalg.lu_factor` and where it fails: info (*), int32, the number of the first zero pivot, or 0.

    >>> flambeau.linalg.lu_factor_ex(flambeau.zeros(2, 2)).info.item()
    1
    """
    _refuse_unpivoted(pivot)
    lu, pivots, info = factors(matrices(A, "linalg.lu_factor_ex"))
    if check_errors:
        _check_info("torch.linalg.lu_factor_ex", info)
    return return_type("linalg_lu_factor_ex", "LU", "pivots", "info")((lu, pivots, info))


def _unpacked(lu: TensorBase) -> tuple[TensorBase, TensorBase]:
    m, n = shape_of(lu)[-2:]
    size, last = min(m, n), len(shape_of(lu)) - 1
    if is_meta(lu):
        batch, d = tuple(shape_of(lu)[:-2]), dtype_of(lu)
        return standing_for([lu], (Meta((*batch, m, size), d), Meta((*batch, size, n), d)), "lu_unpack")
    low = ops.tril(ops.narrow(lu, last, 0, size), -1)
    low = low + make(np.eye(m, size, dtype=dtype_of(lu)))
    return low, ops.triu(ops.narrow(lu, last - 1, 0, size), 0)


@public(namespaces=LINALG, method=False, samples=_samples, errors=lambda t: _errors(t)[1:])
def lu(A: Any, *, pivot: bool = True) -> Any:
    """(P, L, U), A = P @ L @ U: a permutation, lower triangular with ones on the diagonal, upper triangular.

    >>> flambeau.linalg.lu(flambeau.tensor([[1., 2.], [2., 2.]])).U.tolist()
    [[2.0, 2.0], [0.0, 1.0]]
    """
    _refuse_unpivoted(pivot)
    a = matrices(A, "linalg.lu")
    packed, pivots, _ = factors(a)
    p = evaluated(kernel.permutation, _permutation_shape, [pivots], shape_of(a)[-2], dtype_of(a))
    return return_type("linalg_lu", "P", "L", "U")((p, *_unpacked(packed)))


def _permutation_shape(pivots: Meta, m: int, dtype: Any) -> Meta:
    return Meta((*pivots.shape[:-1], m, m), dtype)


def _pivots(value: Any, name: str, size: int) -> Any:
    pivots = memory_of(tensor(value, name.rpartition(".")[2], "pivots", 2))
    if pivots.dtype != np.int32:
        raise RuntimeError(f"{name}: pivots should be a Tensor of scalar type torch.int32, got {pivots.dtype}")
    if pivots.ndim < 1 or pivots.shape[-1] != size:
        raise RuntimeError(f"{name}: Number of pivots per batch should be same as the dimension of the matrix, {size}: got "
                           f"pivots of shape {list(pivots.shape)}")
    return pivots


def _packed_samples(t: Any) -> list:
    return [call(t(3, 3), t(values=[2, 3, 3], dtype="int32")), call(t(3, 2), t(values=[3, 3], dtype="int32")),
            call(t(2, 2, 3), t(values=[[1, 2], [2, 2]], dtype="int32"))]


@public(method=False, samples=_packed_samples,
        errors=lambda t: [(call(t(3, 3), t(3)), RuntimeError, "int32")])
def lu_unpack(LU_data: Any, LU_pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True) -> Any:
    """(P, L, U) from what `linalg.lu_factor` returns.

    Args:
        unpack_data: False: L and U are empty. unpack_pivots: False: P is empty.

    >>> flambeau.lu_unpack(*flambeau.linalg.lu_factor(flambeau.tensor([[2.]]))).U.tolist()
    [[2.0]]
    """
    packed = matrices(LU_data, "lu_unpack")
    m, n = shape_of(packed)[-2:]
    _pivots(LU_pivots, "torch.lu_unpack", min(m, n))
    d = dtype_of(packed)
    p, low, up = (placed(packed, (0,), d, lambda: np.zeros(0, d)) for _ in range(3))
    if unpack_pivots:
        p = evaluated(kernel.permutation, _permutation_shape, [LU_pivots], m, d)
    if unpack_data:
        low, up = _unpacked(packed)
    return return_type("lu_unpack", "P", "L", "U")((p, low, up))


def _lu_solve(name: str, packed: TensorBase, pivots_given: Any, b: TensorBase, left: bool, adjoint: bool) -> TensorBase:
    sa, sb = shape_of(packed), shape_of(b)
    if sb[-2 if left else -1] != sa[-1]:
        raise RuntimeError(f"{name}: Incompatible shapes of A and B for the equation {'AX' if left else 'XA'} = B "
                           f"({sa[-2]}x{sa[-1]} and {sb[-2]}x{sb[-1]})")
    known = _pivots(pivots_given, name, sa[-1])
    if is_meta(packed):
        batch = np.broadcast_shapes(tuple(sa[:-2]), tuple(sb[:-2]))
        return standing_for([packed, pivots_given, b], columns((*batch, *sb[-2:]), dtype_of(b)), name)
    order = kernel.order(known, sa[-1])
    if not left:            # X @ A = B is A.H @ X.H = B.H
        return ops.adjoint(_lu_solve(name, packed, pivots_given, ops.adjoint(b), True, not adjoint))
    batch = np.broadcast_shapes(tuple(sa[:-2]), tuple(sb[:-2]))
    order = np.broadcast_to(order, (*batch, sa[-1]))
    if tuple(sb[:-2]) != batch:
        b = ops.expand(b, (*batch, *sb[-2:]))
    if not adjoint:
        y = apply_n(SOLVE_TRIANGULAR, [packed, _rows(b, order)], (False, True))
        return apply_n(SOLVE_TRIANGULAR, [packed, y], (True, False))
    turned = ops.adjoint(packed)
    y = apply_n(SOLVE_TRIANGULAR, [turned, b], (False, False))
    return _rows(apply_n(SOLVE_TRIANGULAR, [turned, y], (True, True)), np.argsort(order, -1))


@public(name="lu_solve", namespaces=LINALG, method=False,
        samples=lambda t: [call(t(3, 3), t(values=[2, 3, 3], dtype="int32"), t(3, 2)),
                           call(t(3, 3), t(values=[3, 2, 3], dtype="int32"), t(2, 3), left=False),
                           call(t(2, 2, 2), t(values=[[1, 2], [2, 2]], dtype="int32"), t(2, 1), adjoint=True)],
        errors=lambda t: [(call(t(2, 2), t(values=[1, 2], dtype="int32"), t(3, 1)), RuntimeError, "Incompatible shapes"),
                          (call(t(2, 2), t(values=[1, 2], dtype="int64"), t(2, 1)), RuntimeError, "int32")])
def linalg_lu_solve(LU: Any, pivots: Any, B: Any, *, left: bool = True, adjoint: bool = False) -> Any:
    """X of A @ X = B (of X @ A = B with left=False; A.mH for A if adjoint), A given by `linalg.lu_factor`.

    >>> LU, pivots = flambeau.linalg.lu_factor(flambeau.tensor([[2.]]))
    >>> flambeau.linalg.lu_solve(LU, pivots, flambeau.tensor([[4.]])).tolist()
    [[2.0]]
    """
    return _lu_solve("linalg.lu_solve", matrices(LU, "linalg.lu_solve", True), pivots,
                     matrices(B, "linalg.lu_solve", False, "B"), bool(left), bool(adjoint))


@public(samples=lambda t: [call(t(3, 2), t(3, 3), t(values=[2, 3, 3], dtype="int32"))])
def lu_solve(input: Any, LU_data: Any, LU_pivots: Any) -> Any:
    """Deprecated: `linalg.lu_solve`, whose arguments are in another order."""
    warn_user("torch.lu_solve is deprecated in favor of torch.linalg.lu_solve: in new code write "
              "torch.linalg.lu_solve(LU, pivots, B).")
    return _lu_solve("linalg.lu_solve", matrices(LU_data, "linalg.lu_solve", True), LU_pivots,
                     matrices(input, "linalg.lu_solve", False, "B"), True, False)


@public(name="lu", samples=lambda t: [call(t(3, 3)), call(t(2, 4, 3)), call(t(2, 3), get_infos=True)])
def torch_lu(A: Any, pivot: bool = True, get_infos: bool = False) -> Any:
    """Deprecated: `linalg.lu_factor`, or with get_infos `linalg.lu_factor_ex`."""
    warn_user("torch.lu is deprecated in favor of torch.linalg.lu_factor / torch.linalg.lu_factor_ex and will be removed in "
              "a future PyTorch release. Write LU, pivots = torch.linalg.lu_factor(A).")
    _refuse_unpivoted(pivot)
    found = factors(matrices(A, "linalg.lu_factor"))
    if get_infos:
        return return_type("_lu_with_info", "LU", "pivots", "info")(found)
    _check_info("torch.linalg.lu_factor_ex", found[2])
    return found[:2]


# --------------------------------------------------------------------------------- equations


@public(namespaces=LINALG, method=False,
        samples=lambda t: [call(t(3, 3), t(3, 2)), call(t(3, 3), t(3)), call(t(2, 3, 3), t(3, 2)),
                           call(t(3, 3), t(2, 3), left=False)],
        errors=lambda t: [(call(t(3, 3), t(2, 1)), RuntimeError, "Incompatible shapes")])
def solve_ex(A: Any, B: Any, *, left: bool = True, check_errors: bool = False) -> Any:
    """`linalg.solve` and where it fails: (result, info), info 0 for a regular matrix, else its first zero pivot.

    The result for a stack that holds a singular matrix is nan.

    >>> flambeau.linalg.solve_ex(flambeau.zeros(1, 1), flambeau.ones(1)).info.item()
    1
    """
    result_type = return_type("linalg_solve_ex", "result", "info")
    tensor(A, "linalg_solve_ex", "A")
    try:
        return result_type((solve(A, B, left=left), no_failure(A)))
    except k.LinAlgError:
        if check_errors:
            raise
    info = kernel.factor(array_of(A))[2]
    a, b = A * float("nan"), B
    if _is_vector(shape_of(A), shape_of(B)):
        b = ops.unsqueeze(b, -1)
    out = a @ b if left else b @ a
    return result_type((ops.squeeze_dim(out, len(shape_of(out)) - 1) if b is not B else out, make(info)))


@public(samples=lambda t: [call(t(3, 2), t(3, 3, low=0.5, high=2.0)),
                           call(t(3, 2), t(2, 3, 3, low=0.5, high=2.0), upper=False),
                           call(t(3, 2), t(3, 3, low=0.5, high=2.0), transpose=True),
                           call(t(3, 2), t(3, 3), unitriangular=True)],
        errors=lambda t: [(call(t(2), t(2, 2)), RuntimeError, "at least 2 dimensions")])
def triangular_solve(input: Any, A: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False) -> Any:
    """Deprecated: `linalg.solve_triangular`. (solution, cloned_coefficient), A or A.mT @ solution = input."""
    warn_user("torch.triangular_solve is deprecated in favor of torch.linalg.solve_triangular and will be removed in a "
              "future PyTorch release. Write torch.linalg.solve_triangular(A, B, upper=...).")
    b, a = matrices(input, "torch.triangular_solve", False, "b"), matrices(A, "torch.triangular_solve", True)
    read, up = (ops.transpose(a, -2, -1), not upper) if transpose else (a, bool(upper))
    x = apply_n(SOLVE_TRIANGULAR, [read, b], (up, bool(unitriangular)))
    batch = tuple(shape_of(x)[:-2])
    whole = (*batch, *shape_of(a)[-2:])
    copy = ops.clone(ops.expand(a, whole)) if not is_meta(a) else standing_for([a], columns(whole, dtype_of(a)))
    return return_type("triangular_solve", "solution", "cloned_coefficient")((x, copy))
