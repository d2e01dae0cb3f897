"""The multivariate normal distribution with a covariance of low rank plus a diagonal."""

from __future__ import annotations

import math
from typing import Any

import flambeau

from . import constraints
from ._linear_algebra import LowRank, apply, plus_identity
from .distribution import Distribution
from .utils import _standard_normal, lazy_property

__all__ = ["LowRankMultivariateNormal"]


class LowRankMultivariateNormal(Distribution):
    """Normal distribution of vectors with covariance W W^T + diag(d), in O(n m^2) instead of O(n^3).

    Density: as `MultivariateNormal`; determinant and inverse come from m x m matrices.

    Args:
        loc: (..., n), mean.
        cov_factor: (..., n, m), W, with m much smaller than n.
        cov_diag: (..., n), d, positive.
        validate_args: see `Distribution`.

    Raises:
        ValueError: shapes do not fit.

    Source: Woodbury's matrix identity and the matrix determinant lemma (Petersen and Pedersen, The Matrix Cookbook,
    sections 3.2.2 and 3.2.4).

    >>> d = LowRankMultivariateNormal(flambeau.zeros(2), flambeau.tensor([[1.0], [0.0]]), flambeau.ones(2))
    >>> d.covariance_matrix
    tensor([[2., 0.],
            [0., 1.]])
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc: Any, cov_factor: Any, cov_diag: Any, validate_args: bool | None = None) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional: its last dimension is the event.")
        event_shape = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError("cov_factor must be at least two-dimensional, with optional leading batch dimensions, got "
                             f"shape {tuple(cov_factor.shape)}.")
        if cov_factor.shape[-2:-1] != event_shape:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {event_shape[0]} x m, got "
                             f"{tuple(cov_factor.shape)}.")
        if cov_diag.shape[-1:] != event_shape:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {tuple(event_shape)}, got "
                             f"{tuple(cov_diag.shape)}.")
        try:
            batch_shape = flambeau.broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        except RuntimeError:
            raise ValueError(f"Incompatible batch shapes: loc {tuple(loc.shape)}, cov_factor "
                             f"{tuple(cov_factor.shape)}, cov_diag {tuple(cov_diag.shape)}.") from None
        self.loc = loc.expand(batch_shape + event_shape)
        self.cov_factor = cov_factor.expand(batch_shape + cov_factor.shape[-2:])
        self.cov_diag = cov_diag.expand(batch_shape + event_shape)
        super().__init__(batch_shape, event_shape, validate_args=validate_args)
        self._unbroadcasted_cov_factor = cov_factor
        self._unbroadcasted_cov_diag = cov_diag
        self._covariance = LowRank(cov_factor, cov_diag)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._expanded(LowRankMultivariateNormal, batch_shape, _instance, loc=1, cov_factor=2, cov_diag=1)
        new._unbroadcasted_cov_factor = self._unbroadcasted_cov_factor
        new._unbroadcasted_cov_diag = self._unbroadcasted_cov_diag
        new._covariance = self._covariance
        return new

    @property
    def _capacitance_tril(self) -> Any:
        return self._covariance.capacitance

    def _of_batch(self, matrix: Any) -> Any:
        return matrix.expand(self._batch_shape + self._event_shape * 2)

    @lazy_property
    def scale_tril(self) -> Any:
        """The lower Cholesky factor of the covariance, (..., n, n): O(n^3)."""
        root = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        scaled = self._unbroadcasted_cov_factor / root
        return self._of_batch(root * flambeau.linalg.cholesky(plus_identity(scaled @ scaled.mT)))

    @lazy_property
    def covariance_matrix(self) -> Any:
        """W W^T + diag(d), (..., n, n)."""
        factor = self._unbroadcasted_cov_factor
        return self._of_batch(factor @ factor.mT + self._unbroadcasted_cov_diag.diag_embed())

    @lazy_property
    def precision_matrix(self) -> Any:
        """The inverse of the covariance, (..., n, n)."""
        root = self._covariance.root()
        return self._of_batch(self._unbroadcasted_cov_diag.reciprocal().diag_embed() - root.mT @ root)

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @lazy_property
    def variance(self) -> Any:  # type: ignore[override]
        """Diagonal of the covariance, (..., n)."""
        total = self._unbroadcasted_cov_factor.square().sum(-1) + self._unbroadcasted_cov_diag
        return total.expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        options = {"dtype": self.loc.dtype, "device": self.loc.device}
        of_factor = _standard_normal(shape[:-1] + self.cov_factor.shape[-1:], **options)
        of_diagonal = _standard_normal(shape, **options)
        return (self.loc + apply(self._unbroadcasted_cov_factor, of_factor)
                + self._unbroadcasted_cov_diag.sqrt() * of_diagonal)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        distance = self._covariance.mahalanobis(value - self.loc)
        constant = self._event_shape[0] * math.log(2 * math.pi)
        return -0.5 * (constant + self._covariance.log_det() + distance)

    def entropy(self) -> Any:
        constant = self._event_shape[0] * (1.0 + math.log(2 * math.pi))
        return (0.5 * (constant + self._covariance.log_det())).expand(self._batch_shape)
