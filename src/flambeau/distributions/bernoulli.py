"""The Bernoulli distribution."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau.nn.functional import binary_cross_entropy_with_logits

from . import constraints
from ._logits import BinaryLogits
from .exp_family import ExponentialFamily
from .utils import broadcast_all

__all__ = ["Bernoulli"]


class Bernoulli(BinaryLogits, ExponentialFamily):
    """A coin: 1 with probability `probs`, else 0.

    Probability: p^x (1 - p)^(1 - x), for x in {0, 1}.

    Args:
        probs: probability of 1, in [0, 1]; any shape, the batch's.
        logits: log(p / (1 - p)), instead of `probs`.
        validate_args: see `Distribution`.

    Draws have the dtype of the parameter.

    >>> Bernoulli(probs=flambeau.tensor([0.25, 0.5])).log_prob(flambeau.ones(2)).exp()
    tensor([0.2500, 0.5000])
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._set(probs, logits)
        super().__init__(self._param.size(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(Bernoulli, batch_shape, _instance, probs=0, logits=0, _param=0)

    @property
    def mean(self) -> Any:
        return self.probs

    @property
    def mode(self) -> Any:
        likelier = (self.probs >= 0.5).to(self.probs)
        return flambeau.where(self.probs == 0.5, flambeau.nan, likelier)     # two modes

    @property
    def variance(self) -> Any:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        with flambeau.no_grad():
            return flambeau.bernoulli(self.probs.expand(shape))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Any:
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Any:
        values = flambeau.arange(2, dtype=self._param.dtype, device=self._param.device)
        return self._enumerated(values, expand)

    @property
    def _natural_params(self) -> tuple:
        return (flambeau.logit(self.probs),)

    def _log_normalizer(self, x: Any) -> Any:  # type: ignore[override]
        return flambeau.log(1 + flambeau.exp(x))
