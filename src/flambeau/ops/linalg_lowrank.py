"""The greatest singular values of large matrices, by random projections: svd_lowrank and pca_lowrank.

Source: Halko, Martinsson and Tropp, 2011, SIAM Review 53(2), algorithms 4.4 and 5.1.
"""

from __future__ import annotations

from typing import Any

from flambeau.core.dtype import dtype_of_array
from flambeau.core.objects import TensorBase, dtype_of, shape_of

from ._args import tensor
from ._record import call, ops, public
from .linalg_factors import qr, svd
from .random import randn


def _basis(a: TensorBase, q: int, n_iterations: int) -> TensorBase:
    """Orthonormal columns that nearly span the range of a."""
    turned = ops.adjoint(a)
    found = qr(a @ randn((shape_of(a)[-1], q), dtype=dtype_of_array(dtype_of(a)), device=a.device))[0]
    for _ in range(n_iterations):
        found = qr(turned @ found)[0]
        found = qr(a @ found)[0]
    return found


def _lowrank(a: TensorBase, q: int, n_iterations: int) -> tuple:
    wide = shape_of(a)[-2] < shape_of(a)[-1]
    if wide:
        a = ops.adjoint(a)
    basis = _basis(a, q, n_iterations)
    u, s, vh = svd(ops.adjoint(basis) @ a, False)
    u, v = basis @ u, ops.adjoint(vh)
    return (v, s, u) if wide else (u, s, v)


@public(method=False, out=False, random=True, samples=lambda t: [call(t(5, 3), 2), call(t(2, 4, 5), 4)])
def svd_lowrank(A: Any, q: int | None = 6, niter: int | None = 2, M: Any = None) -> tuple:
    """(U, S, V), A nearly U @ diag(S) @ V.mH, by random projections: right when A has few great singular values.

    Args:
        A: floating or complex (*, M, N).
        q: how many singular values, a little more than A's rank.
        niter: the number of iterations; more are more exact.
        M: taken from A first, broadcast.

    >>> flambeau.svd_lowrank(flambeau.tensor([[3., 0.], [0., 4.]]), 2)[1].round().tolist()
    [4.0, 3.0]
    """
    a = tensor(A, "svd_lowrank", "A")
    if M is not None:
        a = a - M       # type: ignore[operator]
    return _lowrank(a, 6 if q is None else q, 2 if niter is None else niter)


@public(method=False, out=False, random=True, samples=lambda t: [call(t(5, 3), 2), call(t(2, 4, 5), center=False)],
        errors=lambda t: [(call(t(4, 3), 5), ValueError, "non-negative integer"),
                          (call(t(4, 3), niter=-1), ValueError, "non-negative integer")])
def pca_lowrank(A: Any, q: int | None = None, center: bool = True, niter: int = 2) -> tuple:
    """(U, S, V) of the rows of A less their mean: columns of V are its principal directions; see `svd_lowrank`.

    Args:
        A: floating or complex (*, M, N): M rows of N numbers.
        q: how many directions; default min(6, M, N).
        center: take the mean row away.

    >>> flambeau.pca_lowrank(flambeau.tensor([[1., 0.], [-1., 0.]]), 1)[2].abs().round().tolist()
    [[1.0], [0.0]]
    """
    a = tensor(A, "pca_lowrank", "A")
    m, n = shape_of(a)[-2:]
    if q is None:
        q = min(6, m, n)
    elif not 0 <= q <= min(m, n):
        raise ValueError(f"q(={q}) must be a non-negative integer, at most the smaller side of the matrix, which is "
                         f"{min(m, n)}")
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be a non-negative integer: the number of subspace iterations")
    if center:
        a = a - ops.mean(a, (len(shape_of(a)) - 2,), True)      # type: ignore[operator]
    return _lowrank(a, q, niter)
