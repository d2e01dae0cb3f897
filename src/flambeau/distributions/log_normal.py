"""The log-normal distribution."""

from __future__ import annotations

from typing import Any

from . import constraints
from .normal import Normal
from .transformed_distribution import TransformedDistribution
from .transforms import ExpTransform

__all__ = ["LogNormal"]


class LogNormal(TransformedDistribution):
    """The exponential of a normal draw.

    Density: exp(-(log x - loc)^2 / (2 scale^2)) / (x scale sqrt(2 pi)), for x > 0.

    Args:
        loc: mean of log x.
        scale: standard deviation of log x, positive.
        validate_args: see `Distribution`.

    Source: Johnson, Kotz and Balakrishnan, Continuous Univariate Distributions 1, 1994, chapter 14.

    >>> LogNormal(0.0, 1.0).mean
    tensor(1.6487)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(loc, scale, validate_args=validate_args), ExpTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return super().expand(batch_shape, _instance=self._get_checked_instance(LogNormal, _instance))

    @property
    def loc(self) -> Any:
        """Mean of log x."""
        return self.base_dist.loc

    @property
    def scale(self) -> Any:
        """Standard deviation of log x."""
        return self.base_dist.scale

    @property
    def mean(self) -> Any:
        return (self.loc + self.scale.pow(2) / 2).exp()

    @property
    def mode(self) -> Any:
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Any:
        square = self.scale.pow(2)
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self) -> Any:
        return self.base_dist.entropy() + self.loc
