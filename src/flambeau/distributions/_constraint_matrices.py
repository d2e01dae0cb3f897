"""Constraints on matrices: the last two dimensions are tested together."""

from __future__ import annotations

from typing import Any

import flambeau

from ._constraint_base import Constraint


def _triangular(value: Any) -> Any:
    return (value.tril() == value).flatten(-2).all(-1)


class _LowerTriangular(Constraint):
    """Zeros above the diagonal."""

    event_dim = 2

    def check(self, value: Any) -> Any:
        return _triangular(value)


class _LowerCholesky(Constraint):
    """Lower triangular with a positive diagonal."""

    event_dim = 2

    def check(self, value: Any) -> Any:
        return _triangular(value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(Constraint):
    """Cholesky factors of correlation matrices: lower triangular, positive diagonal, rows of length 1."""

    event_dim = 2

    def check(self, value: Any) -> Any:
        tolerance = flambeau.finfo(value.dtype).eps * value.size(-1) * 10    # of a sum of so many squares
        unit = ((value.detach().square().sum(-1) ** 0.5 - 1).abs() <= tolerance).all(-1)
        return unit & _triangular(value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _Square(Constraint):
    """As many rows as columns."""

    event_dim = 2

    def check(self, value: Any) -> Any:
        return flambeau.full(value.shape[:-2], value.shape[-2] == value.shape[-1], dtype=flambeau.bool,
                             device=value.device)


class _Symmetric(_Square):
    """Equal to its transpose, within 1e-6 (and 1e-5 of the value)."""

    def check(self, value: Any) -> Any:
        square = super().check(value)
        if not square.all():
            return square
        return flambeau.isclose(value, value.mT, atol=1e-6).flatten(-2).all(-1)


class _PositiveSemidefinite(_Symmetric):
    """Symmetric, no negative eigenvalue."""

    def check(self, value: Any) -> Any:
        symmetric = super().check(value)
        if not symmetric.all():
            return symmetric
        return (flambeau.linalg.eigvalsh(value) >= 0).all(-1)


class _PositiveDefinite(_Symmetric):
    """Symmetric, with a Cholesky factor."""

    def check(self, value: Any) -> Any:
        symmetric = super().check(value)
        if not symmetric.all():
            return symmetric
        return flambeau.linalg.cholesky_ex(value).info == 0
