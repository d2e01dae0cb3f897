"""The negative binomial distribution."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau.nn.functional import logsigmoid

from . import constraints
from ._logits import BinaryLogits
from .distribution import Distribution
from .gamma import Gamma
from .utils import lazy_property

__all__ = ["NegativeBinomial"]


class NegativeBinomial(BinaryLogits, Distribution):
    """The negative binomial distribution: how many trials succeed before `total_count` of them have failed.

    Probability p(k) = Gamma(k + r) / (k! Gamma(r)) * (1 - p)**r * p**k, k = 0, 1, 2, ..., r = total_count.

    It is a Poisson distribution whose rate is drawn from Gamma(r, (1 - p) / p), and is drawn so.

    Args:
        total_count: failures at which counting stops; positive (0 is allowed), not necessarily whole.
        probs: probability of success, in [0, 1); broadcast with total_count to the batch shape.
        logits: log-odds of success, in place of probs.

    Raises:
        ValueError: both or neither of probs and logits are given.

    Source: Johnson, Kemp and Kotz, Univariate Discrete Distributions, chapter 5.

    >>> flambeau.distributions.NegativeBinomial(4.0, 0.5).mean.item()
    4.0
    """

    arg_constraints = {"total_count": constraints.greater_than_eq(0),
                       "probs": constraints.half_open_interval(0.0, 1.0), "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(self, total_count: Any, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:
        (count,) = self._set(probs, logits, total_count)
        self.total_count = count.type_as(self._param)
        super().__init__(self._param.size(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(NegativeBinomial, batch_shape, _instance, total_count=0, probs=0, logits=0, _param=0)

    @property
    def mean(self) -> Any:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Any:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Any:
        return self.mean / (-self.logits).sigmoid()

    @lazy_property
    def _gamma(self) -> Gamma:
        return Gamma(self.total_count, (-self.logits).exp(), validate_args=False)   # total_count may be 0

    def sample(self, sample_shape: Any = ()) -> Any:
        with flambeau.no_grad():
            return flambeau.poisson(self._gamma.sample(sample_shape))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        r = self.total_count
        powers = r * logsigmoid(-self.logits) + value * logsigmoid(self.logits)
        normalizer = (1.0 + value).lgamma() + r.lgamma() - (r + value).lgamma()
        return powers - normalizer.masked_fill(r + value == 0.0, 0.0)       # inf - inf, of a certain outcome
