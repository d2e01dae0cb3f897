"""A few extreme eigenvalues of symmetric matrices: `lobpcg`."""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.objects import shape_of

from ._args import optional_integer
from ._record import REGISTRY, call, ops, public
from .linalg_inverse import matrices


def _symmetric(t: Any) -> Any:
    return t(values=np.diag(np.arange(1.0, 10.0)) + 0.1)


# Vectors have either sign, and PyTorch starts from random ones
@public(method=False, out=False, random=True, samples=lambda t: [call(_symmetric(t), 2)], errors=lambda t: [
    (call(t(2, 3)), AssertionError, "square"), (call(t(3, 3), 4), ValueError, "at most")])
def lobpcg(A: Any, k: int | None = None, B: Any = None, X: Any = None, n: int | None = None, iK: Any = None,
           niter: int | None = None, tol: float | None = None, largest: bool | None = None, method: str | None = None,
           tracker: Any = None, ortho_iparams: dict | None = None, ortho_fparams: dict | None = None,
           ortho_bparams: dict | None = None) -> tuple:
    """(E, X): the k largest eigenvalues of A @ X = B @ X @ diag(E), and their vectors; the smallest with largest=False.

    They are computed by a whole decomposition, exactly, so that what steers PyTorch's iteration (iK, niter, tol, method,
    tracker, ortho_*) has no effect.

    Args:
        A: symmetric (*, M, M). B: symmetric and positive-definite, or None for 1.
        k: how many; default the number of columns of X, or 1.
    """
    a: Any = matrices(A, "torch.lobpcg")
    shape = shape_of(a)
    if shape[-1] != shape[-2]:
        raise AssertionError(f"lobpcg: A must be square, got shape {list(shape)}")
    count = optional_integer(k, "lobpcg", "k")
    if count is None:
        count = 1 if X is None else shape_of(X)[-1]
    if not 0 < count <= shape[-1]:
        raise ValueError(f"lobpcg: k is {count}, and there are at most {shape[-1]} eigenvalues")
    low = None
    if B is not None:
        low = REGISTRY["linalg.cholesky"].fn(matrices(B, "torch.lobpcg", True, "B"))
        solve = REGISTRY["linalg.solve_triangular"].fn
        half = solve(low, a, upper=False)
        a = solve(low, ops.adjoint(half), upper=False)
    values, vectors = REGISTRY["linalg.eigh"].fn(a)
    if largest is None or largest:
        values, vectors = values.flip(-1), vectors.flip(-1)
    values, vectors = values[..., :count], vectors[..., :count]
    if low is not None:
        vectors = REGISTRY["linalg.solve_triangular"].fn(ops.adjoint(low), vectors, upper=True)
    return values, vectors
