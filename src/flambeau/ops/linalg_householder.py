"""Products of Householder reflections, the compact form of Q: `geqrf`, `linalg.householder_product`, `orgqr`, `ormqr`.

Source: Golub and Van Loan, Matrix Computations, sections 5.1 and 5.2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.objects import TensorBase, dtype_of, make, shape_of
from flambeau.kernels.linalg import by_columns

from ._args import ndim, tensor
from ._lazy import evaluated, is_meta, standing_for
from ._meta import Meta
from ._record import KERNEL, call, ops, primitive, public
from ._return_types import return_type
from ._shapes import columns
from .linalg_inverse import LINALG, matrices


def _geqrf(a: np.ndarray) -> tuple:
    m, n = a.shape[-2:]
    if a.size == 0:
        return a.copy(), np.zeros((*a.shape[:-2], min(m, n)), a.dtype)
    raw, tau = np.linalg.qr(a, mode="raw")
    return by_columns(np.swapaxes(raw, -2, -1)), tau


def _geqrf_shape(self: Meta) -> list:
    return [columns(self.shape, self.dtype), Meta((*self.shape[:-2], min(self.shape[-2:])), self.dtype)]


GEQRF = primitive("geqrf", _geqrf, outputs=(False, False), differentiable=False,
                  meta=_geqrf_shape, batch="leading", expr=KERNEL)


@public(op=GEQRF, differentiable=False, samples=lambda t: [call(t(4, 3)), call(t(2, 3, 3)), call(t(2, 3)), call(t(3, 0))],
        errors=lambda t: [(call(t(3)), RuntimeError, "at least 2 dimensions")])
def geqrf(input: Any) -> Any:
    """The QR factors as LAPACK leaves them: (a, tau), R in the upper triangle of a, reflections below it and in tau.

    `linalg.householder_product(a, tau)` is Q; for the factors themselves use `linalg.qr`. It has no derivative.

    >>> flambeau.geqrf(flambeau.tensor([[2.]])).a.tolist()
    [[2.0]]
    """
    t = matrices(input, "torch.geqrf", argument="input")
    return return_type("geqrf", "a", "tau")(evaluated(_geqrf, _geqrf_shape, [t]))


def _check(name: str, a: TensorBase, tau: TensorBase, square_or_tall: bool) -> int:
    """The number of reflections."""
    m, n = shape_of(a)[-2:]
    if m < n and square_or_tall:
        raise RuntimeError(f"{name}: input.shape[-2] must be greater than or equal to input.shape[-1], got {m} and {n}")
    if ndim(tau) != ndim(a) - 1 or tuple(shape_of(tau)[:-1]) != tuple(shape_of(a)[:-2]):
        raise RuntimeError(f"{name}: Expected tau to have one dimension less than input, and the same leading ones: got tau "
                           f"of shape {list(shape_of(tau))} and input of shape {list(shape_of(a))}")
    k = shape_of(tau)[-1]
    if min(m, n) < k:
        raise RuntimeError(f"{name}: input.shape[-1] must be greater than or equal to tau.shape[-1], got {n} and {k}")
    if dtype_of(a) != dtype_of(tau):
        raise RuntimeError(f"{name}: tau dtype {dtype_of(tau).name} does not match input dtype {dtype_of(a).name}")
    return k


def _reflected(a: TensorBase, tau: TensorBase, x: TensorBase, adjoint: bool) -> TensorBase:
    """Q @ x, or Q.H @ x: Q the product of 1 - tau[i] v[i] v[i].H, which is 1 - V @ T @ V.H.

    T = inv(1 + D @ S) @ D, D the diagonal matrix of tau and S the part of V.H @ V above the diagonal.

    Source: Schreiber and Van Loan, 1989, SIAM J. Sci. Stat. Comput. 10(1); Puglisi, 1992, 13(3).
    """
    m, n = shape_of(a)[-2:]
    last, k = ndim(a) - 1, shape_of(tau)[-1]
    below = ops.tril(a, -1) + make(np.eye(m, n, dtype=dtype_of(a)))
    v = ops.narrow(below, last, 0, k)
    scale = ops.unsqueeze(tau, -1)
    inner = ops.adjoint(v) @ x
    if k < 2:
        return x - v @ ((ops.conj(scale) if adjoint else scale) * inner)
    coupled = scale * ops.triu(ops.adjoint(v) @ v, 1)
    if adjoint:
        return x - v @ (ops.conj(scale) * ops.solve_triangular(ops.adjoint(coupled), inner, False, True))
    return x - v @ ops.solve_triangular(coupled, scale * inner, True, True)


_SAMPLES: Any = lambda t: [call(t(4, 3), t(3)), call(t(3, 3), t(2)), call(t(2, 3, 2), t(2, 2)),      # noqa: E731
                           call(t(3, 2, dtype="complex64"), t(2, dtype="complex64"))]


def _errors(t: Any) -> list:
    return [(call(t(2, 3), t(2)), RuntimeError, "must be greater than or equal to input.shape"),
            (call(t(3, 2), t(3)), RuntimeError, "must be greater than or equal to tau.shape")]


def _product(input: Any, tau: Any) -> TensorBase:
    name = "torch.linalg.householder_product"
    a, t = matrices(input, name, argument="input"), tensor(tau, "linalg_householder_product", "tau", 2)
    k = _check(name, a, t, True)
    shape = tuple(shape_of(a))
    if is_meta(a):
        return standing_for([a, t], columns(shape, dtype_of(a)), "householder_product")
    eye = make(np.broadcast_to(np.eye(*shape[-2:], dtype=dtype_of(a)), shape).copy())
    if k == 0:
        return eye + ops.tril(ops.triu(a, 1), 0)        # zeros, whose gradient is 0
    return _reflected(a, t, eye, False)


@public(namespaces=LINALG, method=False, samples=_SAMPLES, errors=_errors)
def householder_product(input: Any, tau: Any) -> Any:
    """The first N columns of the product of reflections 1 - tau[i] v[i] v[i].H.

    Args:
        input: floating or complex (*, M, N), M >= N: below its diagonal stand v[i], whose first element is 1.
        tau: (*, K), K <= N.

    >>> flambeau.linalg.householder_product(flambeau.tensor([[0.], [1.]]), flambeau.tensor([1.])).tolist()
    [[0.0], [-1.0]]
    """
    return _product(input, tau)


@public(samples=_SAMPLES, errors=_errors)
def orgqr(input: Any, input2: Any) -> Any:
    """`linalg.householder_product`.

    >>> flambeau.orgqr(flambeau.tensor([[0.], [1.]]), flambeau.tensor([1.])).tolist()
    [[0.0], [-1.0]]
    """
    return _product(input, input2)


@public(samples=lambda t: [call(t(4, 3), t(3), t(4, 2)), call(t(3, 2), t(2), t(3, 3), transpose=True),
                           call(t(3, 2), t(2), t(2, 3), left=False), call(t(2, 3, 2), t(2, 2), t(2, 2, 3), False, True)],
        errors=lambda t: [(call(t(3, 2), t(2), t(2, 2)), RuntimeError, "must be equal to input.shape")])
def ormqr(input: Any, tau: Any, other: Any, left: bool = True, transpose: bool = False) -> Any:
    """Q @ other, Q the whole product (*, M, M) of `linalg.householder_product`.

    Args:
        left: False: other @ Q. transpose: Q.mH instead of Q.

    >>> flambeau.ormqr(flambeau.tensor([[0.], [1.]]), flambeau.tensor([1.]), flambeau.eye(2)).tolist()
    [[0.0, -1.0], [-1.0, 0.0]]
    """
    a, t = matrices(input, "torch.ormqr", argument="input"), tensor(tau, "ormqr", "input2", 2)
    x = matrices(other, "torch.ormqr", argument="other")
    _check("torch.ormqr", a, t, False)
    if shape_of(x)[-2 if left else -1] != shape_of(a)[-2]:
        raise RuntimeError(f"torch.ormqr: other.shape[{-2 if left else -1}] must be equal to input.shape[-2], got "
                           f"{list(shape_of(x))} and {list(shape_of(a))}")
    if is_meta(a):
        return standing_for([a, t, x], columns(tuple(shape_of(x)), dtype_of(x)), "ormqr")
    adjoint = bool(transpose) == bool(left)         # other @ Q is the adjoint of Q.mH @ other.mH
    out = _reflected(a, t, x if left else ops.adjoint(x), adjoint)
    return out if left else ops.adjoint(out)
