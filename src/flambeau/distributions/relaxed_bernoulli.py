"""Bernoulli draws made continuous, for gradients."""

from __future__ import annotations

from typing import Any

import flambeau

from . import constraints
from ._logits import BinaryLogits, RelaxedLogits
from .distribution import Distribution
from .transformed_distribution import TransformedDistribution
from .transforms import SigmoidTransform
from .utils import broadcast_all, clamp_probs

__all__ = ["LogitRelaxedBernoulli", "RelaxedBernoulli"]


class LogitRelaxedBernoulli(BinaryLogits, Distribution):
    """The log-odds of a `RelaxedBernoulli` draw: (logits + logistic noise) / temperature.

    Density: t exp(d) / (1 + exp(d))^2 with d = logits - t x, for x real.

    Args:
        temperature: t, a positive tensor.
        probs: probability of 1, in [0, 1]; any shape, the batch's.
        logits: log(p / (1 - p)), instead of `probs`.
        validate_args: see `Distribution`.

    Source: Maddison, Mnih and Teh, 2016, arXiv:1611.00712; Jang, Gu and Poole, 2016, arXiv:1611.01144.

    >>> noisy = LogitRelaxedBernoulli(flambeau.tensor(0.5), logits=flambeau.zeros(3))
    >>> noisy.log_prob(flambeau.zeros(3)).exp()
    tensor([0.1250, 0.1250, 0.1250])
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:
        self.temperature = temperature
        self._set(probs, logits)
        super().__init__(self._param.size(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._expanded(LogitRelaxedBernoulli, batch_shape, _instance, probs=0, logits=0, _param=0)
        new.temperature = self.temperature
        return new

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        uniform = clamp_probs(flambeau.rand(shape, dtype=probs.dtype, device=probs.device))
        return (uniform.log() - (-uniform).log1p() + probs.log() - (-probs).log1p()) / self.temperature

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        difference = logits - value.mul(self.temperature)
        return self.temperature.log() + difference - 2 * difference.exp().log1p()


class RelaxedBernoulli(RelaxedLogits, TransformedDistribution):
    """Numbers in (0, 1) that approach Bernoulli draws as the temperature falls to 0, with gradients.

    Args:
        temperature: positive tensor; 1 and more give a single hump, near 0 almost all draws are near 0 or 1.
        probs: probability of 1, in [0, 1]; any shape, the batch's.
        logits: log(p / (1 - p)), instead of `probs`.
        validate_args: see `Distribution`.

    Source: as `LogitRelaxedBernoulli`, whose sigmoid this is.

    >>> gates = RelaxedBernoulli(flambeau.tensor(0.1), probs=flambeau.tensor([0.1, 0.9]))
    >>> gates.rsample().shape
    torch.Size([2])
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:
        super().__init__(LogitRelaxedBernoulli(temperature, probs, logits), SigmoidTransform(),
                         validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return super().expand(batch_shape, _instance=self._get_checked_instance(RelaxedBernoulli, _instance))
