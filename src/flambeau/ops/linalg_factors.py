"""Decompositions of matrices: qr, eigh, eig, svd, and the pseudo-inverse; `torch.linalg`, and the older names in `torch`.

The derivatives exist where the decomposition is unique up to signs (phases, for complex matrices): eigenvalues that differ,
singular values that differ and are not 0. A loss must not depend on those signs.

Source: Townsend, 2016, Differentiating the Singular Value Decomposition; Giles, 2008, report 08/01, Oxford, section 2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.apply import apply1, apply_n
from flambeau.core.objects import TensorBase, array_of, dtype_of, make, requires, shape_of
from flambeau.core.origin import warn_user
from flambeau.core.state import grad_enabled
from flambeau.kernels import linalg as k

from ._args import array, followed
from ._lazy import is_meta, placed
from ._meta import Meta
from ._record import KERNEL, call, composite, ops, primitive, public
from ._return_types import return_type
from ._shapes import columns, complex_of, like, real
from .joining import joined
from .linalg_inverse import LINALG, matrices, square_errors


def _keep_off_diagonal(a: np.ndarray) -> np.ndarray:
    a = a.copy()
    n = range(min(a.shape[-2:]))
    a[..., n, n] = 0
    return a


OFF_DIAGONAL = primitive("off_diagonal", _keep_off_diagonal, meta=like(),
batch="leading", expr=KERNEL, self=lambda xp, g: xp.off_diagonal(g))


@composite("diagonal_matrix")
def _diagonal_matrix(xp: Any, a: Any) -> Any:
    return xp.diag_embed(a, 0, -2, -1)


@composite("reciprocal_differences")
def _reciprocal_differences(xp: Any, values: Any) -> Any:
    """1 / (values[j] - values[i]), 0 on the diagonal."""
    difference = xp.unsqueeze(values, -2) - xp.unsqueeze(values, -1)
    return xp.off_diagonal(1 / (difference + xp.diagonal_matrix(xp.ones_like(values))))


def _matrix_samples(t: Any) -> list:
    return [call(t(4, 3)), call(t(3, 3)), call(t(3, 4)), call(t(2, 4, 3))]


# --------------------------------------------------------------------------------- QR


def _qr_backward(xp: Any, g: Any, q: Any, r: Any, mode: str) -> Any:
    of_q, of_r = g
    if mode == "complete" and q.shape[-2] > r.shape[-1]:
        raise RuntimeError("The QR decomposition is not differentiable when mode='complete' and nrows > ncols: the last "
                           "columns of Q are arbitrary. Use mode='reduced'.")
    inner = None
    if of_r is not None:
        inner = of_r @ xp.adjoint(r)
    if of_q is not None:
        part = xp.adjoint(q) @ of_q
        inner = -part if inner is None else inner - part
    upper = xp.triu(inner, 0)
    mirrored = upper + xp.adjoint(upper)
    full = q @ (mirrored - xp.diagonal_matrix(xp.diagonal(mirrored, 0, -2, -1)) * 0.5)
    if of_q is not None:
        full = full + of_q
    return xp.adjoint(xp.solve_triangular(r, xp.adjoint(full), True, False))


def _qr_shape(self: Meta, mode: str) -> list:
    *batch, m, n = self.shape
    k = m if mode == "complete" else min(m, n)
    return [columns((*batch, m, 0 if mode == "r" else k), self.dtype), columns((*batch, k, n), self.dtype)]


QR = primitive("linalg_qr", k.qr, params=("mode",), outputs=(True, True), node="LinalgQrBackward0", meta=_qr_shape,
               batch="leading", expr=KERNEL,
               joint=lambda xp, g, out0, out1, mode: (_qr_backward(xp, g, out0, out1, mode),))


def _qr(a: TensorBase, mode: str) -> tuple:
    m, n = shape_of(a)[-2:]
    if m >= n or not followed(a):
        return tuple(apply_n(QR, [a], (mode,)))
    q, r = apply_n(QR, [ops.narrow(a, len(shape_of(a)) - 1, 0, m)], (mode,))      # the rest follows from the first columns
    rest = ops.narrow(a, len(shape_of(a)) - 1, m, n - m)
    return q, joined([r, ops.adjoint(q) @ rest], -1)


def _refuse_r(a: TensorBase) -> None:
    if requires(a) and grad_enabled():
        raise RuntimeError("The derivative of linalg.qr depends on Q, and mode='r' does not compute it. Where "
                           "gradients are wanted, use linalg.qr(A, mode='reduced').")


@public(op=QR, namespaces=LINALG, method=False, samples=_matrix_samples,
        errors=lambda t: [(call(t(3)), RuntimeError, "at least 2 dimensions"),
                          (call(t(3, 3), mode="x"), RuntimeError, "unrecognized mode")])
def qr(A: Any, mode: str = "reduced") -> Any:
    """(Q, R), A = Q @ R: Q with orthonormal columns, R upper triangular.

    Args:
        A: floating or complex (*, M, N).
        mode: "reduced": Q (*, M, K), R (*, K, N), K = min(M, N); "complete": Q (*, M, M); "r": R alone, Q empty.

    >>> flambeau.linalg.qr(flambeau.eye(2)).R.abs().tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    result_type = return_type("linalg_qr", "Q", "R")
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(f"qr received unrecognized mode '{mode}': write 'reduced' (the default), 'complete' or "
                           "'r'")
    t = matrices(A, "linalg.qr")
    if mode == "r":
        _refuse_r(t)
        return result_type((make(np.zeros(0, dtype_of(t))), _qr(t, "reduced")[1]))
    return result_type(_qr(t, mode))


@public(name="qr", samples=_matrix_samples)
def torch_qr(input: Any, some: bool = True) -> Any:
    """Deprecated: `linalg.qr`.

    >>> flambeau.qr(flambeau.eye(2)).R.abs().tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    warn_user("torch.qr is deprecated in favor of torch.linalg.qr: in new code write torch.linalg.qr(A, 'reduced' "
              "if some else 'complete').")
    return return_type("qr", "Q", "R")(_qr(matrices(input, "linalg.qr"), "reduced" if some else "complete"))


# --------------------------------------------------------------------------------- eigenvalues


def _eigh_backward(xp: Any, g: Any, values: Any, vectors: Any) -> Any:
    of_values, of_vectors = g
    inner = None
    if of_vectors is not None:
        part = xp.adjoint(vectors) @ of_vectors
        inner = (part - xp.adjoint(part)) * (xp.reciprocal_differences(values) * 0.5)       # Hermitian, as A is
    if of_values is not None:
        diagonal = xp.diagonal_matrix(of_values)
        inner = diagonal if inner is None else inner + diagonal
    return vectors @ xp.to_like(inner, vectors) @ xp.adjoint(vectors)


def _eigh_shape(self: Meta, UPLO: str) -> list:
    return [Meta(self.shape[:-1], real(self.dtype)), columns(self.shape, self.dtype)]


EIGH = primitive("linalg_eigh", k.eigh, params=("UPLO",), outputs=(True, True), node="LinalgEighBackward0", may_raise=True,
                 meta=_eigh_shape,
                 batch="leading", expr=KERNEL, joint=lambda xp, g, out0, out1: (_eigh_backward(xp, g, out0, out1),))


def _eigh(value: Any, uplo: str) -> tuple:
    if str(uplo).upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {uplo}")
    return tuple(apply_n(EIGH, [matrices(value, "linalg.eigh", True)], (str(uplo).upper(),)))


@public(op=EIGH, namespaces=LINALG, method=False, samples=lambda t: [call(t(1, 1)), call(t(2, 1, 1))], errors=square_errors)
def eigh(A: Any, UPLO: str = "L") -> Any:
    """(eigenvalues, eigenvectors) of symmetric or Hermitian matrices.

    Args:
        A: floating or complex (*, N, N).
        UPLO: which triangle of A is read, "L" or "U".

    Returns:
        eigenvalues (*, N), real, ascending; eigenvectors (*, N, N), one a column, orthonormal.

    >>> flambeau.linalg.eigh(flambeau.tensor([[2., 0.], [0., 1.]])).eigenvalues.tolist()
    [1.0, 2.0]
    """
    return return_type("linalg_eigh", "eigenvalues", "eigenvectors")(_eigh(A, UPLO))


@public(namespaces=LINALG, method=False, samples=lambda t: [call(t(1, 1)), call(t(2, 1, 1))], errors=square_errors)
def eigvalsh(A: Any, UPLO: str = "L") -> Any:
    """The eigenvalues of symmetric or Hermitian matrices, ascending: see `linalg.eigh`.

    >>> flambeau.linalg.eigvalsh(flambeau.tensor([[2., 0.], [0., 1.]])).tolist()
    [1.0, 2.0]
    """
    return _eigh(A, UPLO)[0]


def _eig_backward(xp: Any, g: Any, values: Any, vectors: Any) -> Any:
    of_values, of_vectors = g
    inner = None
    if of_vectors is not None:
        h = xp.adjoint(vectors)
        part = h @ of_vectors
        length = xp.unsqueeze(xp.real(xp.diagonal(part, 0, -2, -1)), -2)
        inner = (part - h @ (vectors * length)) * xp.conj(xp.reciprocal_differences(values))
    if of_values is not None:
        diagonal = xp.diagonal_matrix(of_values)
        inner = diagonal if inner is None else inner + diagonal
    return xp.linalg_solve(xp.adjoint(vectors), inner @ xp.adjoint(vectors))


def _eig_shape(self: Meta) -> list:
    d = complex_of(self.dtype)
    return [Meta(self.shape[:-1], d), Meta(self.shape, d)]


EIG = primitive("linalg_eig", k.eig, outputs=(True, True), node="LinalgEigBackward0", may_raise=True,
                meta=_eig_shape, batch="leading", expr=KERNEL,
                joint=lambda xp, g, out0, out1: (_eig_backward(xp, g, out0, out1),))


@public(op=EIG, namespaces=LINALG, method=False, samples=lambda t: [call(t(1, 1)), call(t(2, 1, 1))], errors=square_errors)
def eig(A: Any) -> Any:
    """(eigenvalues, eigenvectors) of square matrices, complex; eigenvectors are columns of length 1.

    >>> flambeau.linalg.eig(flambeau.tensor([[2.]])).eigenvalues.tolist()
    [(2+0j)]
    """
    found = apply_n(EIG, [matrices(A, "linalg.eig", True)])
    return return_type("linalg_eig", "eigenvalues", "eigenvectors")(found)


@public(namespaces=LINALG, method=False, samples=lambda t: [call(t(1, 1)), call(t(2, 1, 1))], errors=square_errors)
def eigvals(A: Any) -> Any:
    """The eigenvalues of square matrices, complex.

    >>> flambeau.linalg.eigvals(flambeau.tensor([[2.]])).tolist()
    [(2+0j)]
    """
    return apply_n(EIG, [matrices(A, "linalg.eigvals", True)])[0]


# --------------------------------------------------------------------------------- singular values


def _svd_backward(xp: Any, g: Any, needs: Any, u: Any, s: Any, vh: Any) -> Any:
    of_u, of_s, of_vh = g
    size = s.shape[-1]
    last = len(u.shape) - 1
    if of_u is not None and u.shape[-1] > size:                 # full_matrices: the further vectors are arbitrary
        of_u = xp.narrow(of_u, last, 0, size)
    if of_vh is not None and vh.shape[-2] > size:
        of_vh = xp.narrow(of_vh, last - 1, 0, size)
    u = xp.narrow(u, last, 0, size) if u.shape[-1] > size else u
    vh = xp.narrow(vh, last - 1, 0, size) if vh.shape[-2] > size else vh
    row, column = xp.unsqueeze(s, -2), xp.unsqueeze(s, -1)
    inner = skew = None
    if of_u is not None:
        part = xp.adjoint(u) @ of_u
        skew = part - xp.adjoint(part)
        inner = skew * row
    if of_vh is not None:
        part = vh @ xp.adjoint(of_vh)
        turned = (part - xp.adjoint(part)) * column
        inner = turned if inner is None else inner + turned
    if inner is not None:
        inner = inner * xp.reciprocal_differences(s * s)
        if skew is not None and of_vh is not None and xp.is_complex(u):
            inner = inner + xp.diagonal_matrix(xp.diagonal(skew, 0, -2, -1) / (s * 2))
    if of_s is not None:
        diagonal = xp.diagonal_matrix(of_s)
        inner = diagonal if inner is None else inner + diagonal
    inner = xp.to_like(inner, u)
    left = u @ inner
    if of_u is not None and u.shape[-2] > size:                 # outside the span of u
        scaled = of_u / row
        left = left + scaled - u @ (xp.adjoint(u) @ scaled)
    full = left @ vh
    if of_vh is not None and vh.shape[-1] > size:
        scaled = of_vh / column
        full = full + u @ (scaled - (scaled @ xp.adjoint(vh)) @ vh)
    return full


def _svd_shape(self: Meta, full_matrices: bool) -> list:
    *batch, m, n = self.shape
    k = min(m, n)
    return [columns((*batch, m, m if full_matrices else k), self.dtype), Meta((*batch, k), real(self.dtype)),
            Meta((*batch, n if full_matrices else k, n), self.dtype)]


SVD = primitive("linalg_svd", k.svd, params=("full_matrices",), outputs=(True, True, True), node="LinalgSvdBackward0",
                may_raise=True, meta=_svd_shape, batch="leading", expr=KERNEL,
                joint=lambda xp, g, needs, out0, out1, out2: (_svd_backward(xp, g, needs, out0, out1, out2),))


@public(op=SVD, namespaces=LINALG, method=False, samples=lambda t: [call(t(1, 1), full_matrices=False)],
        errors=lambda t: [(call(t(3)), RuntimeError, "at least 2 dimensions")])
def svd(A: Any, full_matrices: bool = True, *, driver: str | None = None) -> Any:
    """(U, S, Vh), A = U @ diag(S) @ Vh: orthonormal columns of U and rows of Vh, singular values S descending.

    Args:
        A: floating or complex (*, M, N).
        full_matrices: U (*, M, M) and Vh (*, N, N); False: U (*, M, K), Vh (*, K, N), K = min(M, N).
        driver: of a CUDA device; must be None.

    >>> flambeau.linalg.svd(flambeau.tensor([[3., 0.], [0., 4.]])).S.tolist()
    [4.0, 3.0]
    """
    if driver is not None:
        raise RuntimeError("torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs")
    t = matrices(A, "linalg.svd")
    return return_type("linalg_svd", "U", "S", "Vh")(apply_n(SVD, [t], (bool(full_matrices),)))


SVDVALS_SAMPLES = [(3, 3), (4, 3), (2, 3, 4)]


@public(namespaces=LINALG, method=False, samples=lambda t: [call(t(*shape)) for shape in SVDVALS_SAMPLES],
        errors=lambda t: [(call(t(3)), RuntimeError, "at least 2 dimensions")])
def svdvals(A: Any, *, driver: str | None = None) -> Any:
    """The singular values of matrices, descending.

    >>> flambeau.linalg.svdvals(flambeau.tensor([[3., 0.], [0., 4.]])).tolist()
    [4.0, 3.0]
    """
    t = matrices(A, "linalg.svdvals")
    if t._array is None or followed(t):
        return apply_n(SVD, [t], (False,))[1]
    return make(k.svdvals(array_of(t)))


@public(name="svd", samples=lambda t: [call(t(1, 1))])
def torch_svd(input: Any, some: bool = True, compute_uv: bool = True) -> Any:
    """(U, S, V), input = U @ diag(S) @ V.mH: see `linalg.svd`, which gives V.mH.

    Args:
        some: False for square U and V.
        compute_uv: False: S alone; U and V are zeros.

    >>> flambeau.svd(flambeau.tensor([[3., 0.], [0., 4.]])).S.tolist()
    [4.0, 3.0]
    """
    result_type = return_type("svd", "U", "S", "V")
    t = matrices(input, "linalg.svd")
    if not compute_uv:
        shape = tuple(shape_of(t))
        u, v = ((*shape[:-2], n, n) for n in shape[-2:])
        return result_type((placed(t, u, dtype_of(t), lambda: np.zeros(u, dtype_of(t))), svdvals(t),
                            placed(t, v, dtype_of(t), lambda: np.zeros(v, dtype_of(t)))))
    u, s, vh = apply_n(SVD, [t], (not some,))
    return result_type((u, s, ops.adjoint(vh)))


# --------------------------------------------------------------------------------- pseudo-inverse


def _pinv_backward(xp: Any, g: Any, a: Any, out: Any) -> Any:
    """Golub and Pereyra, 1973, SIAM J. Numer. Anal. 10, equation 4.12; right for matrices of constant rank."""
    h, gh = xp.adjoint(out), xp.adjoint(g)
    if a.shape[-2] <= a.shape[-1]:
        kernel = gh @ out
        right = kernel @ h
        return -xp.adjoint(out @ kernel) + right - (a @ out) @ right + (h @ out) @ (gh - kernel @ a)
    kernel = out @ gh
    left = h @ kernel
    return -xp.adjoint(kernel @ out) + (gh - a @ kernel) @ out @ h + left - (left @ out) @ a


PINV = primitive("linalg_pinv", k.pinv, params=("atol", "rtol", "hermitian"), node="LinalgPinvBackward0", may_raise=True,
                 meta=lambda self, *_: Meta((*self.shape[:-2], self.shape[-1], self.shape[-2]), self.dtype),
                 batch="leading", expr=KERNEL, self=lambda xp, g, self, out: _pinv_backward(xp, g, self, out))


def pseudo_inverse(value: Any, atol: Any, rtol: Any, hermitian: bool) -> Any:
    """The Moore-Penrose inverse of a tensor."""
    t = matrices(value, "linalg.pinv", hermitian)
    return apply1(PINV, t, (None, None, bool(hermitian)) if is_meta(t) else (array(atol), array(rtol), bool(hermitian)))


@public(op=PINV, namespaces=LINALG, method=False, samples=lambda t: [call(t(3, 3)), call(t(4, 3)), call(t(2, 3, 4))],
        errors=lambda t: [(call(t(3)), RuntimeError, "at least 2 dimensions")])
def pinv(A: Any, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None) -> Any:
    """The Moore-Penrose pseudo-inverse of matrices.

    Args:
        A: floating or complex (*, M, N).
        hermitian: A is symmetric or Hermitian; its lower triangle is read.
        atol, rtol: singular values up to max(atol, rtol * largest) count as 0; by default rtol is max(M, N) * eps.
        rcond: NumPy's name of rtol.

    Returns:
        Tensor of shape (*, N, M). The gradient is right where the rank does not change.

    >>> flambeau.linalg.pinv(flambeau.tensor([[2.], [0.]])).tolist()
    [[0.5, 0.0]]
    """
    return pseudo_inverse(A, atol, rtol if rcond is None else rcond, hermitian)


@public(out=False, samples=lambda t: [call(t(3, 3)), call(t(4, 3))],
        errors=lambda t: [(call(t(3)), RuntimeError, "at least 2 dimensions")])
def pinverse(input: Any, rcond: Any = 1e-15) -> Any:
    """`linalg.pinv`, with rtol=rcond.

    >>> flambeau.pinverse(flambeau.tensor([[2.], [0.]])).tolist()
    [[0.5, 0.0]]
    """
    return pseudo_inverse(input, 0.0, rcond, False)
