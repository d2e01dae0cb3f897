"""The Kumaraswamy distribution."""

from __future__ import annotations

import math
from typing import Any

import flambeau

from . import constraints
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, PowerTransform
from .uniform import Uniform
from .utils import broadcast_all, euler_constant

__all__ = ["Kumaraswamy"]


class Kumaraswamy(TransformedDistribution):
    """The Kumaraswamy distribution over [0, 1]: like a beta, but its distribution function has a simple inverse.

    Density p(x) = a b x**(a - 1) (1 - x**a)**(b - 1), a = concentration1 and b = concentration0.

    Args:
        concentration1, concentration0: positive numbers or floating tensors that broadcast together; that shape is
            the batch's.

    The mode is ((a - 1) / (a b - 1))**(1/a), nan where a parameter is below 1 (and for the uniform a = b = 1). PyTorch 2.13
    gives nan everywhere.

    Source: Jones, 2009, Statistical Methodology 6(1).

    >>> round(flambeau.distributions.Kumaraswamy(1.0, 3.0).mean.item(), 4)
    0.25
    """

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        base = Uniform(flambeau.zeros_like(self.concentration0), flambeau.ones_like(self.concentration0),
                       validate_args=validate_args)
        parts = [PowerTransform(exponent=self.concentration0.reciprocal()), AffineTransform(loc=1.0, scale=-1.0),
                 PowerTransform(exponent=self.concentration1.reciprocal())]     # (1 - u**(1/b))**(1/a)
        super().__init__(base, parts, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Kumaraswamy, _instance)
        new.concentration1 = self.concentration1.expand(batch_shape)
        new.concentration0 = self.concentration0.expand(batch_shape)
        return super().expand(batch_shape, _instance=new)

    def _moment(self, n: int) -> Any:
        """E[x**n] = b B(1 + n / a, b)."""
        a, b = self.concentration1, self.concentration0
        shifted = 1 + n / a
        return b * (shifted.lgamma() + b.lgamma() - (shifted + b).lgamma()).exp()

    @property
    def mean(self) -> Any:
        return self._moment(1)

    @property
    def mode(self) -> Any:
        a, b = self.concentration1, self.concentration0
        log_mode = ((a - 1).log() - (a * b - 1).log()) / a
        return log_mode.masked_fill((a < 1) | (b < 1), math.nan).exp()

    @property
    def variance(self) -> Any:
        return self._moment(2) - self.mean.pow(2)

    def entropy(self) -> Any:
        a, b = self.concentration1, self.concentration0
        harmonic = (b + 1).digamma() + euler_constant
        return (1 - b.reciprocal()) + (1 - a.reciprocal()) * harmonic - a.log() - b.log()
