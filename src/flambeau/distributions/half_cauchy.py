"""The half-Cauchy distribution."""

from __future__ import annotations

import math
from typing import Any

import flambeau

from ._folded import Folded
from .cauchy import Cauchy

__all__ = ["HalfCauchy"]


class HalfCauchy(Folded):
    """The absolute value of a Cauchy draw around 0; its mean and variance are infinite.

    Density: 2 / (pi scale (1 + (x / scale)^2)), for x >= 0.

    Args:
        scale: scale of the Cauchy distribution, positive; any shape, the batch's.
        validate_args: see `Distribution`.

    Source: Gelman, Bayesian Analysis 1, 2006 (as a prior of standard deviations).

    >>> HalfCauchy(2.0).cdf(flambeau.tensor(2.0))
    tensor(0.5000)
    """

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Cauchy(0, scale, validate_args=False), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return super().expand(batch_shape, _instance=self._get_checked_instance(HalfCauchy, _instance))

    @property
    def mean(self) -> Any:
        return flambeau.full(self._extended_shape(), math.inf, dtype=self.scale.dtype, device=self.scale.device)

    def log_prob(self, value: Any) -> Any:
        """Natural logarithm of the density at `value`, which may also be a number where arguments are not checked."""
        if self._validate_args and not isinstance(value, flambeau.Tensor):
            self._validate_sample(value)
        return super().log_prob(flambeau.as_tensor(value, dtype=self.scale.dtype, device=self.scale.device))

    @property
    def variance(self) -> Any:
        return self.base_dist.variance
