"""Inverses, determinants, linear equations and Cholesky factors: `torch.linalg`, and the older names in `torch`."""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.apply import apply1, apply_n
from flambeau.core.objects import TensorBase, array_of, dtype_of, make, shape_of
from flambeau.core.origin import warn_user
from flambeau.kernels import linalg as k
from flambeau.kernels.services import is_float

from . import creation, triangles  # noqa: F401  they register names that formulas use
from ._args import tensor
from ._lazy import is_meta, placed
from ._meta import Meta
from ._pointwise import fused
from ._record import KERNEL, call, composite, ops, primitive, public
from ._return_types import return_type
from ._shapes import INT32, broadcast, columns, real
from .shape import reshaped

LINALG = ("linalg",)
_WORDS = {"float16": "Half", "bfloat16": "BFloat16", "int64": "Long", "int32": "Int", "bool": "Bool", "uint8": "Byte",
          "int8": "Char", "int16": "Short"}


@composite("adjoint")
def adjoint(xp: Any, a: Any) -> Any:
    """Transposed and conjugated matrices."""
    return xp.transpose(xp.conj(a), -2, -1)


def matrices(value: Any, name: str, square: bool = False, argument: str = "A") -> TensorBase:
    """value, if it is a stack of floating-point matrices.

    Raises:
        RuntimeError: too few dimensions, not square, or of another dtype.
    """
    t = tensor(value, name.replace(".", "_"), argument)
    shape, d = shape_of(t), dtype_of(t)
    if len(shape) < 2:
        raise RuntimeError(f"{name}: The input tensor {argument} must have at least 2 dimensions. Got shape {list(shape)}.")
    if square and shape[-1] != shape[-2]:
        raise RuntimeError(f"{name}: {argument} must be batches of square matrices, but they are {shape[-2]} by "
                           f"{shape[-1]} matrices")
    if not is_float(d):
        raise RuntimeError(f"{name}: Expected a floating point or complex tensor as input. Got "
                           f"{_WORDS.get(d.name, d.name)}: convert with .float()")
    if d.itemsize == 2:
        raise RuntimeError(f"{name}: Low precision dtypes not supported. Got {_WORDS[d.name]}: convert with .float()")
    return t


def square_samples(t: Any) -> list:
    """Square matrices, alone and stacked."""
    return [call(t(3, 3)), call(t(2, 3, 3)), call(t(1, 1)), call(t(3, 3, transposed=True)), call(t(3, 3, dtype="complex64"))]


def square_errors(t: Any) -> list:
    """What every function of square matrices refuses."""
    return [(call(t(2, 3)), RuntimeError, "must be batches of square matrices"),
            (call(t(3)), RuntimeError, "must have at least 2 dimensions"),
            (call(t(3, 3, dtype="int64")), RuntimeError, "Expected a floating point or complex")]


# --------------------------------------------------------------------------------- inverse

def _solved(A: Meta, B: Meta, *_: Any) -> Meta:
    """The solution, in columns, of the systems A and right-hand sides B."""
    return columns((*broadcast([A.shape[:-2], B.shape[:-2]], "solve"), *B.shape[-2:]), B.dtype)


INV = primitive("linalg_inv", k.inv, node="LinalgInvExBackward0", may_raise=True,
                meta=lambda self: columns(self.shape, self.dtype), batch="leading", expr=KERNEL,
                self=lambda xp, g, out: -(xp.adjoint(out) @ g @ xp.adjoint(out)))


@public(op=INV, namespaces=LINALG, method=False, samples=square_samples, errors=square_errors)
def inv(A: Any) -> Any:
    """The inverses of square matrices.

    Args:
        A: floating or complex (*, N, N).

    Raises:
        LinAlgError: (a RuntimeError) a matrix is singular.

    >>> flambeau.linalg.inv(flambeau.tensor([[2., 0.], [0., 4.]])).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    return apply1(INV, matrices(A, "linalg.inv", True))


@public(samples=square_samples, errors=square_errors)
def inverse(input: Any) -> Any:
    """`linalg.inv`.

    >>> flambeau.inverse(flambeau.tensor([[2.]])).tolist()
    [[0.5]]
    """
    return apply1(INV, matrices(input, "linalg.inv", True))


def no_failure(a: TensorBase) -> TensorBase:
    """The info of matrices all of which are as they should be: zeros, int32."""
    shape = tuple(shape_of(a)[:-2])
    return placed(a, shape, INT32, lambda: np.zeros(shape, np.int32))


def _info(fn: Any, a: TensorBase, fail: Any) -> tuple:
    """(fn(a), zeros), or (fail(a), where each matrix fails) when one does."""
    try:
        result = fn(a)
    except k.LinAlgError:
        n = shape_of(a)[-1]
        flat = array_of(a).reshape(-1, n, n)
        info = np.array([fail(m) for m in flat], np.int32).reshape(tuple(shape_of(a)[:-2]))
        return None, make(info)
    return result, no_failure(a)


@public(namespaces=LINALG, method=False, out=False, samples=square_samples)
def inv_ex(A: Any, *, check_errors: bool = False) -> Any:
    """`linalg.inv` and where it fails: (inverse, info), info 0 for each matrix that has one, else its zero pivot.

    The inverse of a stack that holds a singular matrix is nan.

    >>> flambeau.linalg.inv_ex(flambeau.tensor([[0.]])).info.item()
    1
    """
    t = matrices(A, "linalg.inv", True)
    result_type = return_type("linalg_inv_ex", "inverse", "info")
    if check_errors:
        return result_type((apply1(INV, t), no_failure(t)))
    result, info = _info(lambda a: apply1(INV, a), t, lambda m: (k.first_zero_pivot(m) or (0, 0))[1])
    return result_type((t * float("nan") if result is None else result, info))


# --------------------------------------------------------------------------------- determinant


def _det_backward(g: np.ndarray, a: np.ndarray, out: np.ndarray) -> np.ndarray:
    return (g[..., None, None] * k.cofactors(a)).astype(a.dtype, copy=False)


def _shift(a: np.ndarray) -> np.ndarray:
    """What makes singular matrices regular: it lifts the singular values 0 by half the digits. 0 for the others."""
    u, s, vh = np.linalg.svd(a)
    eps = np.finfo(a.dtype).eps
    largest = np.where(s[..., :1] > 0, s[..., :1], s.dtype.type(1))
    lifted = np.where(s <= a.shape[-1] * eps * largest, np.sqrt(eps) * largest, s.dtype.type(0))
    return ((u * lifted[..., None, :]) @ vh).astype(a.dtype, copy=False) if lifted.any() else np.zeros_like(a)


def _det_composed(xp: Any, g: Any, a: Any, out: Any) -> Any:
    shift = None if is_meta(a) else _shift(array_of(a))
    if shift is None or not shift.any():
        return xp.unsqueeze(xp.unsqueeze(g * xp.conj(out), -1), -1) * xp.adjoint(xp.linalg_inv(a))
    near = a + make(shift)
    cofactors = xp.unsqueeze(xp.unsqueeze(xp.conj(xp.linalg_det(near)), -1), -1) * xp.adjoint(xp.linalg_inv(near))
    exact = k.cofactors(array_of(a))        # only the derivative is taken nearby
    return xp.unsqueeze(xp.unsqueeze(g, -1), -1) * (cofactors + make(np.asarray(exact - array_of(cofactors))))


# The derivative of a determinant is the matrix of cofactors; differentiated again, by the inverse
fused("det_backward", _det_backward, _det_composed)


def _det_formula(xp: Any, g: Any, a: Any, out: Any) -> Any:
    if a.shape[-1] == 1:                    # linear
        return xp.unsqueeze(xp.unsqueeze(g, -1), -1)
    return xp.det_backward(g, a, out)


DET = primitive("linalg_det", k.det, node="LinalgDetBackward0", meta=lambda self: Meta(self.shape[:-2], self.dtype),
                batch="leading", expr=KERNEL,
                self=lambda xp, g, self, out: _det_formula(xp, g, self, out))


@public(op=DET, namespaces=LINALG, method=False, samples=square_samples, errors=square_errors)
def det(A: Any) -> Any:
    """The determinants of square matrices (*, N, N), also of singular ones, where the gradient is the cofactors.

    >>> flambeau.linalg.det(flambeau.tensor([[2., 0.], [0., 4.]])).item()
    8.0
    """
    return apply1(DET, matrices(A, "linalg.det", True))


@public(name="det", out=False, samples=square_samples, errors=square_errors)
def torch_det(input: Any) -> Any:
    """`linalg.det`.

    >>> flambeau.det(flambeau.tensor([[2.]])).item()
    2.0
    """
    return apply1(DET, matrices(input, "linalg.det", True))


def _slogdet_backward(xp: Any, g: Any, a: Any, out0: Any) -> Any:
    """d log(det) = tr(inv(A) dA): its real part belongs to the logarithm, its imaginary part to the phase."""
    of_sign, of_value = g
    scale = of_value
    if of_sign is not None and xp.is_complex(out0):
        turn = xp.imag(xp.conj(of_sign) * out0) * -1j
        scale = turn if scale is None else scale + turn
    if scale is None:
        return xp.zeros_like(a)
    return xp.unsqueeze(xp.unsqueeze(scale, -1), -1) * xp.adjoint(xp.linalg_inv(a))


def _slogdet_shape(self: Meta) -> list:
    return [Meta(self.shape[:-2], self.dtype), Meta(self.shape[:-2], real(self.dtype))]


SLOGDET = primitive("linalg_slogdet", k.slogdet, outputs=(True, True), node="LinalgSlogdetBackward0",
                    meta=_slogdet_shape, batch="leading", expr=KERNEL,
                    joint=lambda xp, g, self, out0: (_slogdet_backward(xp, g, self, out0),))


def _slogdet(value: Any, name: str) -> Any:
    result_type = return_type(name, "sign", "logabsdet")
    return result_type(apply_n(SLOGDET, [matrices(value, "linalg.slogdet", True)]))


@public(op=SLOGDET, namespaces=LINALG, method=False, samples=square_samples, errors=square_errors)
def slogdet(A: Any) -> Any:
    """(sign, logabsdet): the determinants are sign * exp(logabsdet), without over- and underflow.

    >>> flambeau.linalg.slogdet(flambeau.tensor([[-1.]])).sign.item()
    -1.0
    """
    return _slogdet(A, "linalg_slogdet")


@public(name="slogdet", samples=square_samples, errors=square_errors)
def torch_slogdet(input: Any) -> Any:
    """`linalg.slogdet`.

    >>> flambeau.slogdet(flambeau.tensor([[-1.]])).logabsdet.item()
    0.0
    """
    return _slogdet(input, "slogdet")


@public(out=False, samples=lambda t: [call(t(1, 1, low=0.5, high=2.0)), call(t(2, 1, 1, low=0.5, high=2.0))],
        errors=square_errors)
def logdet(input: Any) -> Any:
    """The logarithm of the determinants: nan for negative ones, -inf for 0.

    >>> flambeau.logdet(flambeau.eye(2)).item()
    0.0
    """
    sign, value = _slogdet(input, "slogdet")
    if dtype_of(sign).kind == "c":
        return ops.log(sign) + value
    return ops.where(sign == -1, make(np.array(np.nan, dtype_of(value))), value)


# --------------------------------------------------------------------------------- linear equations


def _solve_backward(xp: Any, g: Any, needs: list, a: Any, out: Any) -> tuple:
    h = xp.linalg_solve(xp.adjoint(a), g)
    return (-(h @ xp.adjoint(out)) if needs[0] else None, h)


SOLVE = primitive("linalg_solve", k.solve, inputs=("A", "B"), node="LinalgSolveExBackward0", may_raise=True, meta=_solved,
                  batch="matrices", expr=KERNEL,
                  joint=lambda xp, g, needs, A, out: _solve_backward(xp, g, needs, A, out))


def _is_vector(a: Any, b: Any) -> bool:
    """Whether B is a vector for each matrix of A, as `torch.linalg.solve` reads it."""
    return len(b) == 1 or (len(a) - 1 == len(b) and tuple(b) == tuple(a[:-1]))


@public(op=SOLVE, namespaces=LINALG, method=False,
        samples=lambda t: [call(t(3, 3), t(3, 2)), call(t(3, 3), t(3)), call(t(2, 3, 3), t(2, 3)), call(t(2, 3, 3), t(3, 2)),
                           call(t(3, 3), t(2, 3), left=False), call(t(1, 3, 3), t(2, 3, 1))],
        errors=lambda t: [(call(t(3, 3), t(2, 1)), RuntimeError, "Incompatible shapes")])
def solve(A: Any, B: Any, *, left: bool = True) -> Any:
    """X of A @ X = B; of X @ A = B with left=False.

    Args:
        A: (*, N, N). B: (*, N, K), or a vector (N) or (*, N) for each matrix; leading dimensions broadcast.

    Raises:
        LinAlgError: (a RuntimeError) a matrix is singular.

    >>> flambeau.linalg.solve(flambeau.tensor([[2.]]), flambeau.tensor([4.])).tolist()
    [2.0]
    """
    a, b = matrices(A, "linalg.solve", True), tensor(B, "linalg_solve", "B", 2)
    sa, sb = shape_of(a), shape_of(b)
    if len(sb) == 0:
        raise RuntimeError("linalg.solve: B must have at least 1 dimension")
    if dtype_of(a) != dtype_of(b):
        raise RuntimeError(f"linalg.solve: Expected A and B to have the same dtype; A is {dtype_of(a).name} and B "
                           f"is {dtype_of(b).name}. Convert one of them with .to().")
    vector = _is_vector(sa, sb)
    if vector and not left:
        raise RuntimeError("linalg.solve: Vector broadcasting of the left hand side needs left=True. With "
                           "left=False, A is one column per batch entry, and the solution is the division B / "
                           "A.squeeze(-1)")
    if vector:
        b = ops.unsqueeze(b, -1)
    sb = shape_of(b)
    if sb[-2 if left else -1] != sa[-1]:
        raise RuntimeError("linalg.solve: Incompatible shapes of A and B for the equation "
                           f"{'AX' if left else 'XA'} = B ({sa[-2]}x{sa[-1]} and {sb[-2]}x{sb[-1]})")
    if not left:
        x = apply_n(SOLVE, [ops.transpose(a, -2, -1), ops.transpose(b, -2, -1)])
        return ops.transpose(x, -2, -1)
    x = apply_n(SOLVE, [a, b])
    return reshaped(x, tuple(shape_of(x)[:-1])) if vector else x


def _triangular_backward(xp: Any, g: Any, needs: list, a: Any, out: Any, upper: bool, unitriangular: bool) -> tuple:
    h = xp.solve_triangular(xp.adjoint(a), g, not upper, unitriangular)
    if not needs[0]:
        return None, h
    full = -(h @ xp.adjoint(out))
    skip = int(unitriangular)
    return (xp.triu(full, skip) if upper else xp.tril(full, -skip)), h


SOLVE_TRIANGULAR = primitive(
    "solve_triangular", k.solve_triangular, inputs=("A", "B"), params=("upper", "unitriangular"),
    node="LinalgSolveTriangularBackward0", meta=_solved, batch="matrices", expr=KERNEL,
    joint=lambda xp, g, needs, A, out, upper, unitriangular: _triangular_backward(
        xp, g, needs, A, out, upper, unitriangular))


@public(op=SOLVE_TRIANGULAR, namespaces=LINALG, method=False,
        samples=lambda t: [call(t(3, 3, low=0.5, high=2.0), t(3, 2), upper=True),
                           call(t(2, 3, 3, low=0.5, high=2.0), t(3, 2), upper=False),
                           call(t(3, 3), t(2, 3), upper=True, left=False, unitriangular=True)],
        errors=lambda t: [(call(t(3, 3), t(2, 1), upper=True), RuntimeError, "Incompatible shapes")])
def solve_triangular(A: Any, B: Any, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Any:
    """X of A @ X = B (of X @ A = B with left=False), reading the upper or lower triangle of A.

    Args:
        A: (*, N, N). B: (*, N, K); leading dimensions broadcast.
        unitriangular: the diagonal counts as ones.

    >>> flambeau.linalg.solve_triangular(flambeau.tensor([[2.]]), flambeau.tensor([[4.]]), upper=True).tolist()
    [[2.0]]
    """
    a = matrices(A, "linalg.solve_triangular", True)
    b = matrices(B, "linalg.solve_triangular", False, "B")
    sa, sb = shape_of(a), shape_of(b)
    if sb[-2 if left else -1] != sa[-1]:
        raise RuntimeError("linalg.solve_triangular: Incompatible shapes of A and B for the equation "
                           f"{'AX' if left else 'XA'} = B ({sa[-2]}x{sa[-1]} and {sb[-2]}x{sb[-1]})")
    if left:
        return apply_n(SOLVE_TRIANGULAR, [a, b], (bool(upper), bool(unitriangular)))
    x = apply_n(SOLVE_TRIANGULAR, [ops.transpose(a, -2, -1), ops.transpose(b, -2, -1)], (not upper, bool(unitriangular)))
    return ops.transpose(x, -2, -1)


# --------------------------------------------------------------------------------- Cholesky


def _cholesky_backward(xp: Any, g: Any, out: Any, upper: bool) -> Any:
    """Murray, 2016, arXiv:1602.07527, section 3.1, symmetrised."""
    low = xp.adjoint(out) if upper else out
    if upper:
        g = xp.adjoint(g)
    s = xp.adjoint(low) @ g
    below = xp.tril(s, -1)
    phi = (below + xp.adjoint(below) + xp.diag_embed(xp.diagonal(s, 0, -2, -1), 0, -2, -1)) * 0.5
    # adjoint(inv(low)) @ phi @ inv(low)
    right = xp.solve_triangular(xp.adjoint(low), phi, True, False)
    return xp.adjoint(xp.solve_triangular(xp.adjoint(low), xp.adjoint(right), True, False))


CHOLESKY = primitive("linalg_cholesky", k.cholesky, params=("upper",), node="LinalgCholeskyExBackward0", may_raise=True,
                     meta=lambda self, upper: columns(self.shape, self.dtype),
                     batch="leading", expr=KERNEL, self=lambda xp, g, out, upper: _cholesky_backward(xp, g, out, upper))


@public(op=CHOLESKY, namespaces=LINALG, method=False, samples=lambda t: [call(t(1, 1, low=0.5, high=2.0))],
        errors=square_errors)
def cholesky(A: Any, *, upper: bool = False) -> Any:
    """The lower triangular L of A = L @ L.mH, for symmetric or Hermitian positive-definite A (*, N, N); L.mH if `upper`.

    Raises:
        LinAlgError: (a RuntimeError) a matrix is not positive-definite.

    >>> flambeau.linalg.cholesky(flambeau.tensor([[4.]])).tolist()
    [[2.0]]
    """
    return apply1(CHOLESKY, matrices(A, "linalg.cholesky", True), (bool(upper),))


@public(name="cholesky", samples=lambda t: [call(t(1, 1, low=0.5, high=2.0))], errors=square_errors)
def torch_cholesky(input: Any, upper: bool = False) -> Any:
    """Deprecated: `linalg.cholesky`.

    >>> flambeau.cholesky(flambeau.tensor([[4.]])).tolist()
    [[2.0]]
    """
    warn_user("torch.cholesky is deprecated in favor of torch.linalg.cholesky and will be removed in a future PyTorch "
              "release. Write torch.linalg.cholesky(A), or torch.linalg.cholesky(A).mH for upper=True.")
    return apply1(CHOLESKY, matrices(input, "cholesky", True), (bool(upper),))


@public(namespaces=LINALG, method=False, out=False, samples=lambda t: [call(t(1, 1, low=0.5, high=2.0))])
def cholesky_ex(A: Any, *, upper: bool = False, check_errors: bool = False) -> Any:
    """`linalg.cholesky` and where it fails: (L, info), info 0 for a positive-definite matrix, else the order of the minor.

    L of a stack that holds another matrix is nan.

    >>> flambeau.linalg.cholesky_ex(flambeau.tensor([[-4.]])).info.item()
    1
    """
    t = matrices(A, "linalg.cholesky_ex", True)
    result_type = return_type("linalg_cholesky_ex", "L", "info")
    if check_errors:
        return result_type((apply1(CHOLESKY, t, (bool(upper),)), no_failure(t)))
    result, info = _info(lambda a: apply1(CHOLESKY, a, (bool(upper),)), t, k.minor_of)
    return result_type((t * float("nan") if result is None else result, info))


def _cholesky_solve(b: np.ndarray, low: np.ndarray, upper: bool) -> np.ndarray:
    low = k.adjoint(low) if upper else low
    return k.by_columns(k.solve_triangular(k.adjoint(low), k.solve_triangular(low, b, False, False), True, False))


def _cholesky_inverse(low: np.ndarray, upper: bool) -> np.ndarray:
    return _cholesky_solve(np.eye(low.shape[-1], dtype=low.dtype), low, upper)


def _of_factor(xp: Any, of_matrix: Any, factor: Any, upper: bool) -> Any:
    """The gradient of a factor from that of its product: the factor is taken whole, the triangle not read included."""
    both = of_matrix + xp.adjoint(of_matrix)
    return factor @ both if upper else both @ factor


def _cholesky_solve_backward(xp: Any, g: Any, needs: list, factor: Any, out: Any, upper: bool) -> tuple:
    h = xp.cholesky_solve(g, factor, upper)
    return h, -_of_factor(xp, h @ xp.adjoint(out), factor, upper) if needs[1] else None


CHOLESKY_SOLVE = primitive("cholesky_solve", _cholesky_solve, inputs=("self", "L"), params=("upper",),
                           meta=lambda self, L, upper: _solved(L, self), batch="matrices", expr=KERNEL,
                           joint=lambda xp, g, needs, L, out, upper: _cholesky_solve_backward(xp, g, needs, L, out, upper))
CHOLESKY_INVERSE = primitive("cholesky_inverse", _cholesky_inverse, params=("upper",),
                             meta=lambda self, upper: columns(self.shape, self.dtype), batch="leading", expr=KERNEL,
                             self=lambda xp, g, self, out, upper: -_of_factor(xp, out @ g @ out, self, upper))


@public(samples=lambda t: [call(t(3, 2), t(3, 3, low=0.5, high=2.0)), call(t(3, 2), t(3, 3, low=0.5, high=2.0), upper=True)],
        errors=lambda t: [(call(t(3, 2), t(3, 2)), RuntimeError, "square")])
def cholesky_solve(input: Any, L: Any, upper: bool = False) -> Any:
    """X of A @ X = input, A given by its Cholesky factor L, of which one triangle is read.

    As in PyTorch, the gradient of L is that of A = L @ L.mH for a whole L: its other triangle gets one too.

    >>> flambeau.cholesky_solve(flambeau.tensor([[8.]]), flambeau.tensor([[2.]])).tolist()
    [[2.0]]
    """
    b, low = matrices(input, "cholesky_solve", False, "b"), matrices(L, "cholesky_solve", True)
    return apply_n(CHOLESKY_SOLVE, [b, low], (bool(upper),))


@public(samples=lambda t: [call(t(3, 3, low=0.5, high=2.0)), call(t(3, 3, low=0.5, high=2.0), upper=True)],
        errors=square_errors)
def cholesky_inverse(L: Any, upper: bool = False) -> Any:
    """The inverse of A, given by its Cholesky factor L; its gradient as that of `cholesky_solve`.

    >>> flambeau.cholesky_inverse(flambeau.tensor([[2.]])).tolist()
    [[0.25]]
    """
    low = matrices(L, "cholesky_inverse", True)
    if low._array is not None:
        zeros = np.argwhere(np.diagonal(array_of(low), 0, -2, -1) == 0)
        if len(zeros):
            *batch, at = zeros[0].tolist()
            where = f"(Batch element {np.ravel_multi_index(batch, shape_of(low)[:-2])}): " if batch else ""
            raise k.LinAlgError(f"cholesky_inverse: {where}The diagonal element {at + 1} is zero: the factor is "
                                "singular, and so is the matrix, which has no inverse.")
    return apply1(CHOLESKY_INVERSE, low, (bool(upper),))
