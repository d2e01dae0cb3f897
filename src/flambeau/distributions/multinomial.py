"""The multinomial distribution."""

from __future__ import annotations

import math
from typing import Any

import flambeau

from . import constraints
from ._logits import CategoricalLogits
from .binomial import Binomial
from .categorical import Categorical
from .distribution import Distribution
from .utils import broadcast_all

__all__ = ["Multinomial"]


class Multinomial(CategoricalLogits, Distribution):
    """The multinomial distribution: how often each of K categories comes in `total_count` independent draws.

    Probability p(x) = n! / prod x_k! * prod p_k**x_k, sum x_k = n = total_count.

    Args:
        total_count: number of draws, one int for the whole batch.
        probs: weights (*, K), not negative; normalised along the last dimension. The batch has shape (*), an event (K,).
        logits: unnormalised log-probabilities, in place of probs.

    `log_prob` accepts counts of any sum, and does not need total_count (pass `validate_args=False` for other sums).

    Raises:
        NotImplementedError: total_count is no int.
        ValueError: both or neither of probs and logits are given.

    >>> d = flambeau.distributions.Multinomial(4, flambeau.tensor([1.0, 1.0, 2.0]))
    >>> d.mean.tolist(), d.sample().sum().item()
    ([1.0, 1.0, 2.0], 4.0)
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}

    def __init__(self, total_count: int = 1, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported: give one int, not a "
                                      f"{type(total_count).__name__}.")
        self.total_count = total_count
        self._categorical = Categorical(probs=probs, logits=logits)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._expanded(Multinomial, batch_shape, _instance)
        new.total_count = self.total_count
        new._categorical = self._categorical.expand(batch_shape)
        return new

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Any:
        return self.probs * self.total_count

    @property
    def variance(self) -> Any:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        draws = self._categorical.sample((self.total_count, *sample_shape)).movedim(0, -1)
        counts = draws.new_zeros(self._extended_shape(sample_shape))
        counts.scatter_add_(-1, draws, flambeau.ones_like(draws))
        return counts.type_as(self.probs)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        logits = logits.masked_fill((value == 0) & (logits == -math.inf), 0)
        return (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1) + (logits * value).sum(-1)

    def entropy(self) -> Any:
        # E[log x_k!] needs only the marginal of x_k, which is binomial.
        n = self.total_count
        marginals = Binomial(n, probs=self.probs)
        counts = marginals.enumerate_support(expand=False)[1:]
        expected = (marginals.log_prob(counts).exp() * (counts + 1).lgamma()).sum([0, -1])
        return n * self._categorical.entropy() - math.lgamma(n + 1) + expected
