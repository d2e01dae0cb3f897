"""The Gumbel distribution."""

from __future__ import annotations

import math
from typing import Any

import flambeau

from . import constraints
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, ExpTransform
from .uniform import Uniform
from .utils import broadcast_all, euler_constant

__all__ = ["Gumbel"]


class Gumbel(TransformedDistribution):
    """The Gumbel distribution: the limit of the largest of many variables.

    Density p(x) = exp(y - exp(y)) / scale, y = (loc - x) / scale.

    Args:
        loc: mode. scale: positive. Numbers or floating tensors that broadcast together; that shape is the batch's.

    Source: Johnson, Kotz and Balakrishnan, Continuous Univariate Distributions 2, chapter 22.

    >>> flambeau.distributions.Gumbel(0.0, 1.0).log_prob(flambeau.tensor(0.0)).item()
    -1.0
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        info = flambeau.finfo(self.loc.dtype)
        base = Uniform(flambeau.full_like(self.loc, info.tiny), flambeau.full_like(self.loc, 1 - info.eps),
                       validate_args=validate_args)
        parts = [ExpTransform().inv, AffineTransform(loc=0, scale=-flambeau.ones_like(self.scale)), ExpTransform().inv,
                 AffineTransform(loc=self.loc, scale=-self.scale)]      # loc - scale * log(-log(u))
        super().__init__(base, parts, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Gumbel, _instance)
        new.loc, new.scale = self.loc.expand(batch_shape), self.scale.expand(batch_shape)
        return super().expand(batch_shape, _instance=new)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        y = (self.loc - value) / self.scale
        return (y - y.exp()) - self.scale.log()

    @property
    def mean(self) -> Any:
        return self.loc + self.scale * euler_constant

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def stddev(self) -> Any:
        return math.pi / math.sqrt(6) * self.scale

    @property
    def variance(self) -> Any:
        return self.stddev.pow(2)

    def entropy(self) -> Any:
        return self.scale.log() + (1 + euler_constant)
