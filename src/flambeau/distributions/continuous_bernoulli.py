"""The continuous Bernoulli distribution."""

from __future__ import annotations

import math
from typing import Any

import flambeau
from flambeau.nn.functional import binary_cross_entropy_with_logits

from . import constraints
from ._logits import BinaryLogits
from .exp_family import ExponentialFamily
from .utils import broadcast_all, clamp_probs, lazy_property, logits_to_probs

__all__ = ["ContinuousBernoulli"]


class ContinuousBernoulli(BinaryLogits, ExponentialFamily):
    """The continuous Bernoulli distribution over [0, 1]: for pixels that are shades, where Bernoulli's are black or white.

    Density p(x) = C(p) * p**x * (1 - p)**(1 - x), 0 <= x <= 1, C(p) = log(p / (1 - p)) / (2 p - 1), C(1/2) = 2.

    p is no probability, and not the mean; it is moved off 0 and 1 by the dtype's eps.

    Args:
        probs: p, in (0, 1). logits: log(p / (1 - p)), in place of probs. Its shape is the batch's.
        lims: between these values of p, where C is 0 / 0, Taylor series around 1/2 replace the formulas.

    Raises:
        ValueError: both or neither of probs and logits are given.

    Source: Loaiza-Ganem and Cunningham, 2019, arXiv:1907.06845.

    >>> flambeau.distributions.ContinuousBernoulli(0.5).mean.item()
    0.5
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, probs: Any = None, logits: Any = None, lims: tuple[float, float] = (0.499, 0.501),
                 validate_args: bool | None = None) -> None:
        self._set(probs, logits)
        if probs is not None:
            # As in PyTorch: without the argument, values out of range are moved into it with the others.
            if validate_args is not None and not constraints.unit_interval.check(self.probs).all():
                raise ValueError("ContinuousBernoulli: The parameter probs has invalid values, outside [0, 1]:\n"
                                 f"{self.probs}")
            self.probs = self._param = clamp_probs(self.probs)
        self._lims = lims
        super().__init__(self._param.size(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._expanded(ContinuousBernoulli, batch_shape, _instance, probs=0, logits=0, _param=0)
        new._lims = self._lims
        return new

    @lazy_property
    def probs(self) -> Any:
        """p, moved into [eps, 1 - eps]."""
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    def _stable(self) -> tuple:
        """Where the formulas hold, and p with lims[0] in the other places."""
        stable = (self.probs <= self._lims[0]) | (self.probs > self._lims[1])
        return stable, flambeau.where(stable, self.probs, self._lims[0])

    def _cont_bern_log_norm(self) -> Any:
        """log C(p)."""
        stable, p = self._stable()
        below = p <= 0.5
        log_ratio = ((-p).log1p() - p.log()).abs().log()
        log_gap = flambeau.where(below, (-2.0 * flambeau.where(below, p, 0.0)).log1p(),
                                 (2.0 * flambeau.where(below, 1.0, p) - 1.0).log())
        square = (self.probs - 0.5).pow(2)
        series = math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * square) * square
        return flambeau.where(stable, log_ratio - log_gap, series)

    @property
    def mean(self) -> Any:
        stable, p = self._stable()
        value = p / (2.0 * p - 1.0) + 1.0 / ((-p).log1p() - p.log())
        offset = self.probs - 0.5
        return flambeau.where(stable, value, 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * offset.pow(2)) * offset)

    @property
    def variance(self) -> Any:
        stable, p = self._stable()
        value = p * (p - 1.0) / (1.0 - 2.0 * p).pow(2) + 1.0 / ((-p).log1p() - p.log()).pow(2)
        square = (self.probs - 0.5).pow(2)
        return flambeau.where(stable, value, 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * square) * square)

    def rsample(self, sample_shape: Any = ()) -> Any:
        p = self.probs
        return self.icdf(flambeau.rand(self._extended_shape(sample_shape), dtype=p.dtype, device=p.device))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -binary_cross_entropy_with_logits(logits, value, reduction="none") + self._cont_bern_log_norm()

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        stable, p = self._stable()
        inside = (p.pow(value) * (1.0 - p).pow(1.0 - value) + p - 1.0) / (2.0 * p - 1.0)
        inside = flambeau.where(stable, inside, value)
        return flambeau.where(value <= 0.0, 0.0, flambeau.where(value >= 1.0, 1.0, inside))

    def icdf(self, value: Any) -> Any:
        stable, p = self._stable()
        log_rest = (-p).log1p()
        inverse = ((-p + value * (2.0 * p - 1.0)).log1p() - log_rest) / (p.log() - log_rest)
        return flambeau.where(stable, inverse, value)

    def entropy(self) -> Any:
        log_rest, log_p = (-self.probs).log1p(), self.probs.log()
        return self.mean * (log_rest - log_p) - self._cont_bern_log_norm() - log_rest

    @property
    def _natural_params(self) -> tuple:
        return (self.logits,)

    def _log_normalizer(self, *natural_params: Any) -> Any:
        (x,) = natural_params
        stable = (x <= self._lims[0] - 0.5) | (x > self._lims[1] - 0.5)
        safe = flambeau.where(stable, x, self._lims[0] - 0.5)
        series = 0.5 * x + x.pow(2) / 24.0 - x.pow(4) / 2880.0
        return flambeau.where(stable, safe.expm1().abs().log() - safe.abs().log(), series)
