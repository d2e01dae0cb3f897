"""The geometric distribution."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau.nn.functional import binary_cross_entropy_with_logits

from . import constraints
from ._logits import BinaryLogits
from .distribution import Distribution
from .utils import broadcast_all

__all__ = ["Geometric"]


class Geometric(BinaryLogits, Distribution):
    """The geometric distribution: how many trials fail before the first success.

    Probability p(k) = (1 - p)**k * p, k = 0, 1, 2, ... (`Tensor.geometric_` counts the successful trial too.)

    Args:
        probs: probability of success, in (0, 1].
        logits: log-odds of success, in place of probs.

    Raises:
        ValueError: both or neither are given; a probability is 0 or out of range.

    >>> flambeau.distributions.Geometric(0.25).mean.item()
    3.0
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._set(probs, logits)
        super().__init__(self._param.size(), validate_args=validate_args)
        if self._validate_args and probs is not None and not (self.probs > 0).all():
            raise ValueError(f"Expected parameter probs (Tensor of shape {tuple(self.probs.shape)}) of {self!r} to be "
                             f"positive, but found invalid values:\n{self.probs}\n  With probability 0 no trial would ever "
                             "succeed.")

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(Geometric, batch_shape, _instance, probs=0, logits=0, _param=0)

    @property
    def mean(self) -> Any:
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Any:
        return flambeau.zeros_like(self.probs)

    @property
    def variance(self) -> Any:
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Any = ()) -> Any:
        with flambeau.no_grad():
            u = self.probs.new_empty(self._extended_shape(sample_shape))
            u.uniform_(flambeau.finfo(self.probs.dtype).tiny, 1)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        probs = probs.masked_fill((probs == 1) & (value == 0), 0)       # no failure: 0 * log(0) is 0
        return value * (-probs).log1p() + self.probs.log()

    def entropy(self) -> Any:
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs
