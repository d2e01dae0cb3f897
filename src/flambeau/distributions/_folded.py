"""The absolute value of a draw that is symmetric around 0."""

from __future__ import annotations

import math
from typing import Any

import flambeau

from . import constraints
from .transformed_distribution import TransformedDistribution
from .transforms import AbsTransform


class Folded(TransformedDistribution):
    """|x|, x drawn from a symmetric base with a `scale`: half the line holds the whole probability."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, base: Any, validate_args: bool | None = None) -> None:
        super().__init__(base, AbsTransform(), validate_args=validate_args)

    @property
    def scale(self) -> Any:
        """Scale of the base."""
        return self.base_dist.scale

    @property
    def mode(self) -> Any:
        return flambeau.zeros_like(self.scale)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        doubled = self.base_dist.log_prob(value) + math.log(2)
        return flambeau.where(value >= 0, doubled, -math.inf)

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, prob: Any) -> Any:
        return self.base_dist.icdf((prob + 1) / 2)

    def entropy(self) -> Any:
        return self.base_dist.entropy() - math.log(2)
