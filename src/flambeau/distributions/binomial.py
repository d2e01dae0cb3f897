"""The binomial distribution."""

from __future__ import annotations

from typing import Any

import flambeau

from . import constraints
from ._logits import BinaryLogits
from .distribution import Distribution

__all__ = ["Binomial"]


def _positive_part(x: Any) -> Any:
    """max(x, 0), with gradient 1/2 at 0."""
    return (x.clamp(min=0) + x - x.clamp(max=0)) / 2


class Binomial(BinaryLogits, Distribution):
    """The binomial distribution: how many of `total_count` independent trials succeed.

    Probability p(k) = n! / (k! (n - k)!) * p**k * (1 - p)**(n - k), k = 0, ..., n = total_count.

    Args:
        total_count: number of trials, a non-negative whole number or tensor of them.
        probs: probability of success, in [0, 1]; broadcast with total_count to the batch shape.
        logits: log-odds of success, in place of probs.

    Raises:
        ValueError: both or neither of probs and logits are given.

    Source: Hoermann, 1993, J. Statistical Computation and Simulation 46(1-2): drawing where n p >= 10.

    >>> d = flambeau.distributions.Binomial(4, flambeau.tensor([0.0, 0.25, 1.0]))
    >>> d.mean.tolist(), round(d.log_prob(flambeau.tensor(0.0)).exp()[1].item(), 4)
    ([0.0, 1.0, 4.0], 0.3164)
    """

    arg_constraints = {"total_count": constraints.nonnegative_integer, "probs": constraints.unit_interval,
                       "logits": constraints.real}
    has_enumerate_support = True

    def __init__(self, total_count: Any = 1, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:
        (count,) = self._set(probs, logits, total_count)
        self.total_count = count.type_as(self._param)
        super().__init__(self._param.size(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(Binomial, batch_shape, _instance, total_count=0, probs=0, logits=0, _param=0)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Any:
        return self.total_count * self.probs

    @property
    def mode(self) -> Any:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Any:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        with flambeau.no_grad():
            return flambeau.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        n, logits = self.total_count, self.logits
        # n log(1 + exp(logits)) without overflow, less the logarithm of n!
        normalizer = n * _positive_part(logits) + n * (-logits.abs()).exp().log1p() - (n + 1).lgamma()
        return value * logits - (value + 1).lgamma() - (n - value + 1).lgamma() - normalizer

    def _one_count(self, method: str) -> int:
        count = int(self.total_count.max())
        if self.total_count.min() != count:
            raise NotImplementedError(f"Inhomogeneous total count not supported by `{method}`: total_count goes from "
                                      f"{int(self.total_count.min())} to {count} within the batch. Treat its members one "
                                      "by one.")
        return count

    def entropy(self) -> Any:
        self._one_count("entropy")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(log_prob.exp() * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Any:
        count = self._one_count("enumerate_support")
        values = flambeau.arange(1 + count, dtype=self._param.dtype, device=self._param.device)
        return self._enumerated(values, expand)
