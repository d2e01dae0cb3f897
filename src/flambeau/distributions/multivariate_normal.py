"""The multivariate normal distribution."""

from __future__ import annotations

import math
from typing import Any

import flambeau

from . import constraints
from ._covariance import Covariance, one_matrix, to_scale_tril
from ._linear_algebra import apply, half_log_det, mahalanobis
from .distribution import Distribution
from .utils import _standard_normal

__all__ = ["MultivariateNormal"]


class MultivariateNormal(Covariance, Distribution):
    """Normal distribution of vectors, of mean `loc` and any covariance S.

    Density: exp(-(x - loc)^T S^-1 (x - loc) / 2) / sqrt(det(2 pi S)), for x in R^n.

    Args:
        loc: (..., n), mean.
        covariance_matrix: (..., n, n), S, positive definite.
        precision_matrix: (..., n, n), S^-1.
        scale_tril: (..., n, n), L lower triangular with positive diagonal, S = L L^T. The cheapest: the others are
            turned into it by a Cholesky factorisation.
        validate_args: see `Distribution`.

    Exactly one of the three matrices is given; batches broadcast.

    Raises:
        ValueError: not exactly one is given, or the shapes do not fit.

    Source: Johnson, Kotz and Balakrishnan, Continuous Multivariate Distributions 1, 2000, chapter 45.

    >>> d = MultivariateNormal(flambeau.zeros(2), flambeau.eye(2))
    >>> d.log_prob(flambeau.zeros(2))
    tensor(-1.8379)
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc: Any, covariance_matrix: Any = None, precision_matrix: Any = None, scale_tril: Any = None,
                 validate_args: bool | None = None) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional: its last dimension is the event.")
        name, matrix = one_matrix(ValueError, covariance_matrix=covariance_matrix, precision_matrix=precision_matrix,
                                  scale_tril=scale_tril)
        event_shape = loc.shape[-1:]
        if matrix.shape[-2:] != event_shape * 2:
            raise ValueError(f"{name} must end in the shape {tuple(event_shape * 2)}, for loc has the shape "
                             f"{tuple(loc.shape)}; it has {tuple(matrix.shape)}.")
        batch_shape = flambeau.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        self.loc = loc.expand(batch_shape + event_shape)
        self.__dict__[name] = matrix.expand(batch_shape + event_shape * 2)
        super().__init__(batch_shape, event_shape, validate_args=validate_args)
        self._unbroadcasted_scale_tril = to_scale_tril(name, matrix)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._expanded(MultivariateNormal, batch_shape, _instance, loc=1, covariance_matrix=2,
                             precision_matrix=2, scale_tril=2)
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril
        return new

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        return self._unbroadcasted_scale_tril.square().sum(-1).expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        z = _standard_normal(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + apply(self._unbroadcasted_scale_tril, z)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        distance = mahalanobis(self._unbroadcasted_scale_tril, value - self.loc)
        constant = self._event_shape[0] * math.log(2 * math.pi)
        return -0.5 * (constant + distance) - half_log_det(self._unbroadcasted_scale_tril)

    def entropy(self) -> Any:
        constant = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi))
        return (constant + half_log_det(self._unbroadcasted_scale_tril)).expand(self._batch_shape)
