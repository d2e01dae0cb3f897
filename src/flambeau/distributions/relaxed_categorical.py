"""One-hot draws made continuous, for gradients (Gumbel-softmax, Concrete)."""

from __future__ import annotations

import math
from typing import Any

import flambeau

from . import constraints
from ._logits import CategoricalLogits, RelaxedLogits
from .categorical import Categorical
from .distribution import Distribution
from .transformed_distribution import TransformedDistribution
from .transforms import ExpTransform
from .utils import broadcast_all, clamp_probs

__all__ = ["ExpRelaxedCategorical", "RelaxedOneHotCategorical"]


class ExpRelaxedCategorical(CategoricalLogits, Distribution):
    """The logarithm of a `RelaxedOneHotCategorical` draw: log-softmax of (logits + Gumbel noise) / temperature.

    Density, with K classes and temperature t: (K - 1)! t^(K - 1) times the product over k of
    exp(s_k) / sum_j exp(s_j), where s = logits - t x.

    Args:
        temperature: t, a positive tensor.
        probs: (..., K), weights of the classes.
        logits: (..., K), their logarithms, instead of `probs`.
        validate_args: see `Distribution`.

    Source: Maddison, Mnih and Teh, 2016, arXiv:1611.00712, appendix C.3.

    >>> noisy = ExpRelaxedCategorical(flambeau.tensor(0.5), logits=flambeau.zeros(3))
    >>> round(noisy.rsample().exp().sum().item(), 5)
    1.0
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.real_vector       # more than the surface on which draws lie; rounding leaves that
    has_rsample = True

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:
        self._categorical = Categorical(probs, logits)
        self.temperature = temperature
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:],
                         validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._expanded(ExpRelaxedCategorical, batch_shape, _instance)
        new.temperature = self.temperature
        new._categorical = self._categorical.expand(new.batch_shape)
        return new

    def rsample(self, sample_shape: Any = ()) -> Any:
        logits = self.logits
        uniform = clamp_probs(flambeau.rand(self._extended_shape(sample_shape), dtype=logits.dtype,
                                            device=logits.device))
        gumbel = -(-uniform.log()).log()
        scores = (logits + gumbel) / self.temperature
        return scores - scores.logsumexp(dim=-1, keepdim=True)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        n = self._event_shape[0]
        logits, value = broadcast_all(self.logits, value)
        constant = math.lgamma(n) + (n - 1) * self.temperature.log()
        return (logits - value.mul(self.temperature)).log_softmax(-1).sum(-1) + constant


class RelaxedOneHotCategorical(RelaxedLogits, TransformedDistribution):
    """Points of a simplex that approach one-hot draws as the temperature falls to 0, with gradients.

    Args:
        temperature: positive tensor.
        probs: (..., K), weights of the classes.
        logits: (..., K), their logarithms, instead of `probs`.
        validate_args: see `Distribution`.

    Source: as `ExpRelaxedCategorical`, whose exponential this is; Jang, Gu and Poole, 2016, arXiv:1611.01144.

    >>> soft = RelaxedOneHotCategorical(flambeau.tensor(2.2), probs=flambeau.tensor([0.1, 0.2, 0.7]))
    >>> round(soft.rsample().sum().item(), 5)
    1.0
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:
        super().__init__(ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args),
                         ExpTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return super().expand(batch_shape, _instance=self._get_checked_instance(RelaxedOneHotCategorical, _instance))
