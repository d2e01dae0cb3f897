"""LDL factors of symmetric and Hermitian matrices, definite or not: `torch.linalg.ldl_factor` and what solves with them."""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.apply import apply_n
from flambeau.core.objects import TensorBase, array_of, dtype_of, shape_of
from flambeau.kernels import ldl as kernel

from ._args import tensor
from ._lazy import is_meta
from ._meta import Meta
from ._pointwise import no_derivative
from ._record import KERNEL, call, primitive, public
from ._return_types import return_type
from ._shapes import INT32, broadcast, columns
from .linalg_inverse import LINALG, matrices, square_errors


def _factor_shape(self: Meta, hermitian: bool) -> list:
    return [columns(self.shape, self.dtype), Meta(self.shape[:-1], INT32), Meta(self.shape[:-2], INT32)]


def _solve_shape(LD: Meta, pivots: Meta, B: Meta, hermitian: bool) -> Meta:
    return columns((*broadcast([LD.shape[:-2], B.shape[:-2]], "ldl_solve"), *B.shape[-2:]), B.dtype)


LDL_FACTOR = primitive("linalg_ldl_factor_ex", kernel.factor, params=("hermitian",), outputs=(True, False, False),
                       node="NotImplemented", meta=_factor_shape,
                       batch="leading", expr=KERNEL, self=no_derivative("linalg_ldl_factor_ex"))
LDL_SOLVE = primitive("linalg_ldl_solve", kernel.solve, inputs=("LD", "pivots", "B"), params=("hermitian",), promotes=False,
                      node="NotImplemented", meta=_solve_shape,
                      batch="matrices", expr=KERNEL, LD=no_derivative("linalg_ldl_solve"),
                      B=no_derivative("linalg_ldl_solve"))


def _samples(t: Any) -> list:
    symmetric = [[1.0, 2.0, 0.5], [2.0, -1.0, 3.0], [0.5, 3.0, 0.25]]
    return [call(t(values=symmetric)), call(t(values=[[0.0, 1.0], [1.0, 0.0]])), call(t(values=[symmetric, symmetric])),
            call(t(values=[[1.0, 2.0], [2.0, 1.0]], dtype="complex64"), hermitian=True), call(t(0, 0))]


def _check(name: str, info: np.ndarray) -> None:
    failed = np.flatnonzero(info)
    if len(failed):
        where = f" (Batch element {failed[0]}):" if info.ndim else ""
        k = info.reshape(-1)[failed[0]]
        raise RuntimeError(f"torch.{name}:{where} D[{k},{k}] is zero: the matrix is singular, and ldl_solve would divide by "
                           "it. linalg.ldl_factor_ex gives the factors and where they fail.")


def _factors(A: Any, hermitian: bool) -> tuple:
    return tuple(apply_n(LDL_FACTOR, [matrices(A, "linalg.ldl_factor_ex", True)], (bool(hermitian),)))


@public(op=LDL_FACTOR, namespaces=LINALG, method=False, differentiable=False, samples=_samples, errors=lambda t: [
    *square_errors(t), (call(t(values=[[0.0, 0.0], [0.0, 0.0]])), RuntimeError, r"D\[1,1\] is zero")])
def ldl_factor(A: Any, *, hermitian: bool = False) -> Any:
    """(LD, pivots), the factors of A = P @ L @ D @ L.T @ P.T in the form that `linalg.ldl_solve` takes.

    Args:
        A: floating or complex (*, N, N), of which the lower triangle is read.
        hermitian: A is Hermitian, not symmetric, and the factors are L @ D @ L.H.

    Returns:
        LD (*, N, N): the blocks of D on the diagonal, L below. pivots (*, N), int32: the exchange of each row, counted from
        1; negative for the rows of a block of two.

    Raises:
        RuntimeError: A is not square, or singular.

    Source: Bunch and Kaufman, Mathematics of Computation 31(137), 1977.

    >>> flambeau.linalg.ldl_factor(flambeau.tensor([[2., 4.], [4., 2.]])).pivots.tolist()
    [-2, -2]
    """
    packed, pivots, info = _factors(A, hermitian)
    if not is_meta(info):
        _check("linalg.ldl_factor", array_of(info))
    return return_type("linalg_ldl_factor", "LD", "pivots")((packed, pivots))


@public(namespaces=LINALG, method=False, differentiable=False, samples=_samples, errors=square_errors)
def ldl_factor_ex(A: Any, *, hermitian: bool = False, check_errors: bool = False) -> Any:
    """`linalg.ldl_factor` and where it fails: info (*), int32, the number of the first zero block of D, or 0.

    >>> flambeau.linalg.ldl_factor_ex(flambeau.zeros(2, 2)).info.item()
    1
    """
    packed, pivots, info = _factors(A, hermitian)
    if check_errors and not is_meta(info):
        _check("linalg.ldl_factor_ex", array_of(info))
    return return_type("linalg_ldl_factor_ex", "LD", "pivots", "info")((packed, pivots, info))


def _right_side(A: TensorBase, B: Any) -> TensorBase:
    b = tensor(B, "linalg_ldl_solve", "B", 3)
    sa, sb = shape_of(A), shape_of(b)
    if len(sb) < 2:
        raise IndexError(f"linalg.ldl_solve: Dimension out of range: B needs rows and columns, and its shape is {list(sb)}")
    if sb[-2] != sa[-1]:
        raise RuntimeError(f"Incompatible matrix sizes for torch.linalg.ldl_solve: each A matrix is {sa[-1]} by {sa[-1]} "
                           f"but each b matrix is {sb[-2]} by {sb[-1]}")
    if dtype_of(b) is not dtype_of(A):
        raise RuntimeError(f"linalg.ldl_solve: Expected b and A to have the same dtype, but found {dtype_of(b).name} and "
                           f"{dtype_of(A).name}")
    return b


@public(op=LDL_SOLVE, namespaces=LINALG, method=False, differentiable=False, samples=lambda t: [
    call(t(values=[[0.0, 0.0], [1.0, 0.0]]), t(values=[-2, -2], dtype="int32"), t(2, 3)),
    call(t(values=[[2.0, 0.0], [0.5, 1.0]]), t(values=[1, 2], dtype="int32"), t(2, 2, 1)),
    call(t(values=[[2.0, 0.0], [0.5, 1.0]], dtype="complex64"), t(values=[1, 2], dtype="int32"),
         t(2, 1, dtype="complex64"), hermitian=True)], errors=lambda t: [
    (call(t(2, 2), t(values=[1, 2], dtype="int32"), t(3, 1)), RuntimeError, "Incompatible matrix sizes"),
    (call(t(2, 2), t(values=[1], dtype="int32"), t(2, 1)), RuntimeError, "must have the shape"),
    (call(t(2, 2), t(2), t(2, 1)), RuntimeError, "integer"),
    (call(t(2, 2), t(values=[1, 2], dtype="int32"), t(2, 1, dtype="float64")), RuntimeError, "same dtype")])
def ldl_solve(LD: Any, pivots: Any, B: Any, *, hermitian: bool = False) -> Any:
    """X of A @ X = B, A given by `linalg.ldl_factor`; batches broadcast.

    >>> LD, pivots = flambeau.linalg.ldl_factor(flambeau.tensor([[2., 4.], [4., 2.]]))
    >>> flambeau.linalg.ldl_solve(LD, pivots, flambeau.tensor([[6.], [6.]])).tolist()
    [[1.0], [1.0]]
    """
    a = matrices(LD, "linalg.ldl_solve", True, "LD")
    p = tensor(pivots, "linalg_ldl_solve", "pivots", 2)
    b = _right_side(a, B)
    if dtype_of(p).kind not in "iu":
        raise RuntimeError(f"torch.linalg.ldl_solve: Expected pivots to be integers. Got {dtype_of(p).name}")
    if tuple(shape_of(p)) != tuple(shape_of(a)[:-1]):
        raise RuntimeError("torch.linalg.ldl_solve: pivots must have the shape LD.shape[:-1], "
                           f"{list(shape_of(a)[:-1])}, not {list(shape_of(p))}")
    return apply_n(LDL_SOLVE, [a, p, b], (bool(hermitian),))
