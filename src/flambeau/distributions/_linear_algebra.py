"""Batched linear algebra of normal distributions."""

from __future__ import annotations

from typing import Any

import flambeau


def apply(matrix: Any, vector: Any) -> Any:
    """Matrix times vector, batches broadcast."""
    return (matrix @ vector.unsqueeze(-1)).squeeze(-1)


def solve(triangle: Any, matrix: Any) -> Any:
    """L^-1 B for lower triangular L."""
    return flambeau.linalg.solve_triangular(triangle, matrix, upper=False)


def mahalanobis(triangle: Any, vector: Any) -> Any:
    """x^T (L L^T)^-1 x for lower triangular L (..., n, n) and x (..., n), batches broadcast."""
    if triangle.ndim > 2:
        return solve(triangle, vector.unsqueeze(-1)).square().sum((-2, -1))
    rows = vector.reshape(-1, vector.size(-1))      # one factor for all: one call
    return solve(triangle, rows.mT).square().sum(0).reshape(vector.shape[:-1])


def squares(matrix: Any) -> Any:
    """trace(X X^T), the sum of squares of each matrix."""
    return matrix.square().sum((-2, -1))


def half_log_det(triangle: Any) -> Any:
    """log of the determinant of L, half that of L L^T."""
    return triangle.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def plus_identity(matrix: Any) -> Any:
    """I + M."""
    return matrix + flambeau.eye(matrix.size(-1), dtype=matrix.dtype, device=matrix.device)


def precision_to_scale_tril(precision: Any) -> Any:
    """The lower Cholesky factor of P^-1.

    P read backwards, rows and columns, has the factor C; read backwards again, C is an upper U with P = U U^T, so that
    P^-1 = U^-T U^-1, and U^-T is lower triangular with positive diagonal.
    """
    upper = flambeau.linalg.cholesky(precision.flip((-2, -1))).flip((-2, -1))
    return solve(upper.mT, flambeau.eye(precision.size(-1), dtype=precision.dtype, device=precision.device))


class LowRank:
    """D + W W^T, D diagonal (..., n) and W (..., n, m): solved through m x m matrices (Woodbury's identity)."""

    def __init__(self, factor: Any, diagonal: Any) -> None:
        self.factor = factor
        self.diagonal = diagonal
        self.scaled = factor.mT / diagonal.unsqueeze(-2)                # W^T D^-1
        self.capacitance = flambeau.linalg.cholesky(plus_identity(self.scaled @ factor))   # of I + W^T D^-1 W

    def log_det(self) -> Any:
        """log det(D + W W^T) = log det(I + W^T D^-1 W) + log det D."""
        return 2 * half_log_det(self.capacitance) + self.diagonal.log().sum(-1)

    def mahalanobis(self, vector: Any) -> Any:
        """x^T (D + W W^T)^-1 x."""
        return (vector.square() / self.diagonal).sum(-1) - mahalanobis(self.capacitance, apply(self.scaled, vector))

    def root(self) -> Any:
        """A with (D + W W^T)^-1 = D^-1 - A^T A."""
        return solve(self.capacitance, self.scaled)
