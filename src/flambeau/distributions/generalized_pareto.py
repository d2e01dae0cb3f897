"""The generalised Pareto distribution."""

from __future__ import annotations

import math
from typing import Any

import flambeau

from . import constraints
from .distribution import Distribution
from .utils import broadcast_all

__all__ = ["GeneralizedPareto"]


class GeneralizedPareto(Distribution):
    """The generalised Pareto distribution: by how much a threshold is exceeded, in the limit of high thresholds.

    Density p(x) = (1 + c z)**(-1/c - 1) / scale, z = (x - loc) / scale >= 0, c the concentration; for c = 0 (within
    1e-8) its limit exp(-z) / scale. For c < 0, z is at most -1 / c.

    Args:
        loc: the least value. scale: positive. concentration: any. Numbers or floating tensors that broadcast together;
            that shape is the batch's.

    The mean is nan for c >= 1, the variance for c >= 1/2.

    Source: Pickands, 1975, Annals of Statistics 3(1).

    >>> flambeau.distributions.GeneralizedPareto(1.0, 2.0, flambeau.tensor([0.0, 0.5, -0.5])).mean
    tensor([3.0000, 5.0000, 2.3333])
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.size(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(GeneralizedPareto, batch_shape, _instance, loc=0, scale=0, concentration=0)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        end = self.loc - self.scale / self.concentration
        return constraints.interval(self.loc, flambeau.where(self.concentration < 0, end, math.inf))

    def _split(self) -> tuple:
        """Where the concentration is 0, and the concentration with 1 in those places."""
        zero = flambeau.isclose(self.concentration, flambeau.zeros_like(self.concentration))
        return zero, flambeau.where(zero, 1.0, self.concentration)

    def _standardised(self, value: Any) -> Any:
        return (value - self.loc) / self.scale

    def rsample(self, sample_shape: Any = ()) -> Any:
        uniform = flambeau.rand(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.icdf(uniform)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        z = self._standardised(value)
        zero, c = self._split()
        power = 1 / c + flambeau.ones_like(z)
        log = flambeau.where(power == 0, power, power * (c * z).log1p())    # c = -1: uniform up to its end
        return -self.scale.log() - flambeau.where(zero, z, log)

    def log_survival_function(self, value: Any) -> Any:
        """Logarithm of the probability of a draw above `value`."""
        if self._validate_args:
            self._validate_sample(value)
        z = self._standardised(value)
        zero, c = self._split()
        return flambeau.where(zero, -z, -(c * z).log1p() / c)

    def log_cdf(self, value: Any) -> Any:
        """Logarithm of the probability of a draw up to `value`."""
        return (-self.log_survival_function(value).exp()).log1p()

    def cdf(self, value: Any) -> Any:
        return self.log_cdf(value).exp()

    def icdf(self, value: Any) -> Any:
        log_survival = (-value).log1p()
        zero, c = self._split()
        z = flambeau.where(zero, -log_survival, (-c * log_survival).expm1() / c)
        return self.loc + self.scale * z

    @property
    def mean(self) -> Any:
        valid = self.concentration < 1
        c = flambeau.where(valid, self.concentration, 0.5)
        return flambeau.where(valid, self.loc + self.scale / (1 - c), math.nan)

    @property
    def variance(self) -> Any:
        valid = self.concentration < 0.5
        c = flambeau.where(valid, self.concentration, 0.25)
        return flambeau.where(valid, self.scale**2 / ((1 - c) ** 2 * (1 - 2 * c)), math.nan)

    def entropy(self) -> Any:
        return self.scale.log() + self.concentration + 1

    @property
    def mode(self) -> Any:
        return self.loc
