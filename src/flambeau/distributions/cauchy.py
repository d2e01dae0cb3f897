"""The Cauchy distribution."""

from __future__ import annotations

import math
from typing import Any

import flambeau

from . import constraints
from .distribution import Distribution
from .utils import broadcast_all

__all__ = ["Cauchy"]


class Cauchy(Distribution):
    """Cauchy (Lorentz) distribution: the ratio of two standard normals, moved and scaled.

    Density: 1 / (pi scale (1 + ((x - loc) / scale)^2)), for x real. It has no mean (nan) and infinite variance.

    Args:
        loc: median and mode.
        scale: half width at half maximum, positive.
        validate_args: see `Distribution`.

    Source: Johnson, Kotz and Balakrishnan, Continuous Univariate Distributions 1, 1994, chapter 16.

    >>> Cauchy(0.0, 1.0).cdf(flambeau.tensor([0.0, 1.0]))
    tensor([0.5000, 0.7500])
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.size(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(Cauchy, batch_shape, _instance, loc=0, scale=0)

    def _constant(self, number: float) -> Any:
        return flambeau.full(self._extended_shape(), number, dtype=self.loc.dtype, device=self.loc.device)

    @property
    def mean(self) -> Any:
        return self._constant(math.nan)

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        return self._constant(math.inf)

    def rsample(self, sample_shape: Any = ()) -> Any:
        standard = self.loc.new_empty(self._extended_shape(sample_shape)).cauchy_()
        return self.loc + standard * self.scale

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return -math.log(math.pi) - self.scale.log() - (((value - self.loc) / self.scale) ** 2).log1p()

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return flambeau.atan((value - self.loc) / self.scale) / math.pi + 0.5

    def icdf(self, value: Any) -> Any:
        return flambeau.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self) -> Any:
        return math.log(4 * math.pi) + self.scale.log()
