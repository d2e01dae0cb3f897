"""The inverse gamma distribution."""

from __future__ import annotations

import math
from typing import Any

import flambeau

from . import constraints
from .gamma import Gamma
from .transformed_distribution import TransformedDistribution
from .transforms import PowerTransform

__all__ = ["InverseGamma"]


class InverseGamma(TransformedDistribution):
    """The inverse gamma distribution: 1 / x is Gamma(concentration, rate).

    Density p(x) = b**a / Gamma(a) * x**(-a - 1) * exp(-b / x), x > 0, a = concentration and b = rate.

    Args:
        concentration, rate: positive numbers or floating tensors that broadcast together; that shape is the batch's.

    The mean is infinite for a <= 1, the variance for a <= 2.

    >>> flambeau.distributions.InverseGamma(3.0, 2.0).mean.item()
    1.0
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        super().__init__(base, PowerTransform(-base.rate.new_ones(())), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return super().expand(batch_shape, _instance=self._get_checked_instance(InverseGamma, _instance))

    @property
    def concentration(self) -> Any:
        """Shape parameter."""
        return self.base_dist.concentration

    @property
    def rate(self) -> Any:
        """Scale of x, inverse scale of 1 / x."""
        return self.base_dist.rate

    @property
    def mean(self) -> Any:
        a = self.concentration
        return flambeau.where(a > 1, self.rate / (a - 1), math.inf)

    @property
    def mode(self) -> Any:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Any:
        a = self.concentration
        return flambeau.where(a > 2, self.rate.square() / ((a - 1).square() * (a - 2)), math.inf)

    def entropy(self) -> Any:
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()
