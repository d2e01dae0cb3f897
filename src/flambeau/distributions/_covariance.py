"""Covariances that are given as such, as their inverse, or as their Cholesky factor."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau.core.size import Size

from ._linear_algebra import precision_to_scale_tril
from .utils import lazy_property


def one_matrix(error: type[Exception], **matrices: Any) -> tuple[str, Any]:
    """The name and value of the only matrix that is not None.

    Raises:
        error: there is not exactly one (in PyTorch the normal and the Wishart distribution raise different classes).
        ValueError: it has fewer than two dimensions.
    """
    given = {name: matrix for name, matrix in matrices.items() if matrix is not None}
    if len(given) != 1:
        raise error("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified, got "
                    f"{' and '.join(given) or 'none'}.")
    ((name, matrix),) = given.items()
    if matrix.dim() < 2:
        raise ValueError(f"{name} must be at least two-dimensional, with optional leading batch dimensions, got shape "
                         f"{tuple(matrix.shape)}.")
    return name, matrix


def to_scale_tril(name: str, matrix: Any) -> Any:
    """The lower Cholesky factor of the covariance that `matrix` is, or determines, by its name."""
    if name == "scale_tril":
        return matrix
    return flambeau.linalg.cholesky(matrix) if name == "covariance_matrix" else precision_to_scale_tril(matrix)


class Covariance:
    """The three matrices, from `_unbroadcasted_scale_tril` where they were not given; (..., n, n) each."""

    _unbroadcasted_scale_tril: Any
    _batch_shape: Size
    _event_shape: Size

    def _of_batch(self, matrix: Any) -> Any:
        n = self._event_shape[-1]
        return matrix.expand((*self._batch_shape, n, n))

    @lazy_property
    def scale_tril(self) -> Any:
        """The lower Cholesky factor L of the covariance."""
        return self._of_batch(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Any:
        """The covariance, L L^T."""
        return self._of_batch(self._unbroadcasted_scale_tril @ self._unbroadcasted_scale_tril.mT)

    @lazy_property
    def precision_matrix(self) -> Any:
        """The inverse of the covariance."""
        return self._of_batch(flambeau.cholesky_inverse(self._unbroadcasted_scale_tril))
