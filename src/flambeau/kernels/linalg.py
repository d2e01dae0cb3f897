"""Inverses, determinants, solutions and decompositions of stacks of matrices, by LAPACK through NumPy.

NumPy says only that a matrix was singular; which one, and at which pivot, is found here for the message.
"""

from __future__ import annotations

from math import factorial, prod
from typing import Any

import numpy as np

from flambeau.kernels import lapack


class LinAlgError(RuntimeError):
    """A matrix has no inverse, no such factorisation, or an iteration did not end. Found as torch.linalg.LinAlgError."""


def adjoint(a: np.ndarray) -> np.ndarray:
    """Transposed and conjugated matrices."""
    t = np.swapaxes(a, -2, -1)
    return np.conj(t) if t.dtype.kind == "c" else t


def first_zero_pivot(a: np.ndarray) -> tuple[int, int] | None:
    """(number of the matrix, 1-based pivot) of the first exactly singular matrix."""
    n = a.shape[-1]
    for i, m in enumerate(a.reshape(-1, n, n)):
        m = m.copy()
        for k in range(n):
            p = k + int(np.argmax(np.abs(m[k:, k])))
            if m[p, k] == 0:
                return i, k + 1
            m[[k, p]] = m[[p, k]]
            m[k + 1:, k:] -= np.outer(m[k + 1:, k] / m[k, k], m[k, k:])
    return None


def _batch(a: np.ndarray, i: int) -> str:
    return f" (Batch element {i}):" if a.ndim > 2 else ""


def by_columns(a: np.ndarray) -> np.ndarray:
    """The same matrices stored by columns, as LAPACK leaves them and PyTorch returns them."""
    return np.swapaxes(np.ascontiguousarray(np.swapaxes(a, -2, -1)), -2, -1)


def inv(a: np.ndarray) -> np.ndarray:
    """The inverses.

    Raises:
        LinAlgError: a matrix is singular.
    """
    try:
        return by_columns(np.linalg.inv(a))
    except np.linalg.LinAlgError:
        i, k = first_zero_pivot(a) or (0, a.shape[-1])
        raise LinAlgError(
            f"linalg.inv:{_batch(a, i)} The diagonal element {k} is zero after elimination: the input matrix is "
            "singular. Use linalg.pinv or linalg.lstsq, or add a small multiple of torch.eye."
        ) from None


def solve(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """x of a @ x = b, for matrices b.

    Raises:
        LinAlgError: a matrix is singular.
    """
    try:
        return by_columns(np.linalg.solve(a, b))
    except np.linalg.LinAlgError:
        i, _ = first_zero_pivot(a) or (0, 0)
        raise LinAlgError(f"torch.linalg.solve:{_batch(a, i)} The solver failed because the input matrix is singular. Use "
                          "linalg.lstsq, or add a small multiple of torch.eye to it.") from None


def solve_triangular(a: np.ndarray, b: np.ndarray, upper: bool, unitriangular: bool) -> np.ndarray:
    """x of a @ x = b, reading one triangle of a; inf and nan where the diagonal has a 0."""
    n = a.shape[-1]
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    shape = (*batch, *b.shape[-2:])
    count = prod(batch)
    if lapack.pays(count, n) and a.size and b.size and a.dtype == b.dtype:
        found = lapack.trtrs(np.broadcast_to(a, (*batch, n, n)).reshape(count, n, n),
                             np.broadcast_to(b, shape).reshape(count, *shape[-2:]), upper, unitriangular)
        if found is not None:
            return found[0] if not batch else found.swapaxes(1, 2).reshape(*batch, shape[-1], n).swapaxes(-1, -2)
    x = np.array(np.broadcast_to(b, shape))
    a = np.broadcast_to(a, (*batch, n, n))
    for k in (range(n - 1, -1, -1) if upper else range(n)):
        if not unitriangular:
            x[..., k, :] /= a[..., k, k][..., None]
        rest = slice(0, k) if upper else slice(k + 1, n)
        x[..., rest, :] -= a[..., rest, k][..., None] * x[..., k, :][..., None, :]
    return x


def det(a: np.ndarray) -> np.ndarray:
    """The determinants."""
    return np.asarray(np.linalg.det(a)).astype(a.dtype, copy=False)


_WELL = 1e4     # condition numbers below which an inverse is exact enough


def cofactors(a: np.ndarray) -> np.ndarray:
    """det(a) times the inverse transposed, conjugated: also of singular matrices, by the singular value decomposition."""
    n = a.shape[-1]
    try:
        inverse = np.linalg.inv(a)
    except np.linalg.LinAlgError:
        pass
    else:       # of well-conditioned matrices, a tenth of the time
        value = np.asarray(np.linalg.det(a))
        limits = np.finfo(a.dtype)
        condition = np.linalg.norm(a, 1, (-2, -1)) * np.linalg.norm(inverse, 1, (-2, -1))
        if a.size and condition.max() < _WELL and (np.abs(value) > limits.tiny / limits.eps).all():
            return (np.conj(value)[..., None, None] * adjoint(inverse)).astype(a.dtype, copy=False)
    u, s, vh = np.linalg.svd(a)
    others = np.repeat(s[..., None, :], n, axis=-2)
    others[..., range(n), range(n)] = 1
    scale = np.prod(others, axis=-1) * np.conj(np.linalg.det(u) * np.linalg.det(vh))[..., None]
    return ((u * scale[..., None, :]) @ vh).astype(a.dtype, copy=False)


def slogdet(a: np.ndarray) -> tuple:
    """Sign, or phase, of the determinants, and the logarithm of their absolute value."""
    sign, value = np.linalg.slogdet(a)
    real = np.zeros(0, a.dtype).real.dtype
    return np.asarray(sign).astype(a.dtype, copy=False), np.asarray(value).astype(real, copy=False)


def cholesky(a: np.ndarray, upper: bool) -> np.ndarray:
    """The triangular l of a = l @ adjoint(l), from one triangle of a; its adjoint if `upper`.

    Raises:
        LinAlgError: a matrix is not positive-definite.
    """
    if upper:
        a = adjoint(a)
    try:
        low = _factor(a)
    except np.linalg.LinAlgError:
        n = a.shape[-1]
        i, k = next((i, minor_of(m)) for i, m in enumerate(a.reshape(-1, n, n)) if minor_of(m))
        raise LinAlgError(
            f"linalg.cholesky:{_batch(a, i)} The input is not positive-definite (its leading minor of "
            f"order {k} is not). Add a small multiple of torch.eye to it, or use linalg.eigh.") from None
    return by_columns(adjoint(low) if upper else low)


def _factor(a: np.ndarray) -> np.ndarray:
    """np.linalg.cholesky, which lets a nan pass: no matrix that has one is positive-definite."""
    low = np.linalg.cholesky(a)
    if np.isnan(low.diagonal(0, -2, -1)).any():
        raise np.linalg.LinAlgError
    return low


def minor_of(m: np.ndarray) -> int:
    """The order of the first leading minor that is not positive-definite, 0 if none."""
    for k in range(1, m.shape[-1] + 1):
        try:
            _factor(m[:k, :k])
        except np.linalg.LinAlgError:
            return k
    return 0


def qr(a: np.ndarray, mode: str) -> tuple:
    """q with orthonormal columns, upper triangular r; a = q @ r. mode: "reduced" or "complete"."""
    if a.size == 0:
        m, n = a.shape[-2:]
        k = m if mode == "complete" else min(m, n)
        q = np.zeros((*a.shape[:-2], m, k), a.dtype)
        q[..., range(k), range(k)] = 1
        return q, np.zeros((*a.shape[:-2], k, n), a.dtype)
    q, r = np.linalg.qr(a, mode)
    return by_columns(q), by_columns(r)


def _converged(fn: Any, name: str, *args: Any) -> Any:
    try:
        return fn(*args)
    except np.linalg.LinAlgError:
        raise LinAlgError(f"{name}: The algorithm failed to converge because the input matrix is ill-conditioned, or holds "
                          "inf or nan. Check torch.isfinite of it.") from None


def eigh(a: np.ndarray, uplo: str) -> tuple:
    """Eigenvalues, ascending, and orthonormal eigenvectors of symmetric or Hermitian matrices, read from one triangle."""
    values, vectors = _converged(np.linalg.eigh, "linalg.eigh", a, uplo)
    return values, by_columns(vectors)


def eig(a: np.ndarray) -> tuple:
    """Complex eigenvalues and eigenvectors of length 1."""
    d = np.result_type(a.dtype, np.complex64)
    values, vectors = _converged(np.linalg.eig, "linalg.eig", a)
    return values.astype(d), by_columns(vectors.astype(d))


def svd(a: np.ndarray, full_matrices: bool) -> tuple:
    """u, s, vh with a = u @ diag(s) @ vh, s descending."""
    u, s, vh = _converged(np.linalg.svd, "linalg.svd", a, full_matrices)
    return by_columns(u), s, by_columns(vh)


def svdvals(a: np.ndarray) -> np.ndarray:
    """The singular values alone."""
    return _converged(lambda x: np.linalg.svd(x, compute_uv=False), "linalg.svd", a)


def tolerances(largest: np.ndarray, shape: tuple, dtype: np.dtype, atol: Any, rtol: Any) -> np.ndarray:
    """The size below which singular values count as 0: max(atol, rtol * the largest one)."""
    real = np.zeros(0, dtype).real.dtype
    if rtol is None:
        given = atol is not None and np.any(np.asarray(atol) > 0)
        automatic = float(np.finfo(real).eps) * max(shape[-2:])
        rtol = np.where(np.asarray(atol) > 0, 0.0, automatic) if given else automatic
    return np.maximum(np.asarray(0.0 if atol is None else atol), np.asarray(rtol) * largest)


def pinv(a: np.ndarray, atol: Any, rtol: Any, hermitian: bool) -> np.ndarray:
    """The Moore-Penrose inverses."""
    if a.size == 0:
        return np.zeros((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype)
    if hermitian:
        values, u = eigh(a, "L")
        sizes, right = np.abs(values), adjoint(u)
    else:
        left, values, vh = svd(a, False)
        sizes, u, right = values, adjoint(vh), adjoint(left)
    limit = tolerances(sizes.max(-1), a.shape, a.dtype, atol, rtol)
    keep = sizes > limit[..., None]
    scale = np.where(keep, 1 / np.where(keep, values, 1), 0).astype(values.dtype)
    return ((u * scale[..., None, :]) @ right).astype(a.dtype, copy=False)


def rank(a: np.ndarray, atol: Any, rtol: Any, hermitian: bool) -> np.ndarray:
    """The numbers of singular values above the tolerance."""
    if a.size == 0:
        return np.zeros(a.shape[:-2], np.int64)
    s = np.abs(np.linalg.eigvalsh(a)) if hermitian else svdvals(a)
    limit = tolerances(s.max(-1), a.shape, a.dtype, atol, rtol)
    return np.asarray((s > limit[..., None]).sum(-1), np.int64)


def matrix_exp(a: np.ndarray) -> np.ndarray:
    """exp of matrices, by scaling, a Taylor polynomial and squaring.

    The polynomial, of degree 19, is one in the fourth power, whose coefficients are cubic: 7 products instead of 18.

    Source: Higham, 2008, Functions of Matrices, section 10.3; Paterson and Stockmeyer, 1973, SIAM J. Comput. 2(1).
    """
    n = a.shape[-1]
    if a.size == 0:
        return a.copy()
    wide = a.astype(np.complex128 if a.dtype.kind == "c" else np.float64)
    norm = float(np.abs(wide).sum(-2).max())
    squarings = max(0, int(np.ceil(np.log2(norm))) + 1) if norm > 0.5 and np.isfinite(norm) else 0
    wide = wide / 2.0**squarings
    square = wide @ wide
    powers = np.eye(n, dtype=wide.dtype), wide, square, wide @ square
    fourth = square @ square
    result: Any = None
    for first in range(16, -1, -4):
        terms = sum(power / factorial(first + i) for i, power in enumerate(powers))
        result = terms if result is None else terms + fourth @ result
    for _ in range(squarings):
        result = result @ result
    return result.astype(a.dtype)
