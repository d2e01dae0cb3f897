"""Divergences between distributions of two families.

KL(p || q) = -H(p) - E log q(x), where E is over draws of p. log q(x) is a sum of a few functions of x, so that a few
expectations under each p serve every q:

    q            -E log q(x)
    Exponential  r E[x] - log r
    Gamma        log G(a) - a log r - (a - 1) E[log x] + r E[x]
    Normal       log(s sqrt(2 pi)) + (Var[x] + (E[x] - m)^2) / (2 s^2)
    Gumbel       log s + (E[x] - m) / s + E[exp(-(x - m) / s)]
    Beta         log B(a, b) - (a - 1) E[log x] - (b - 1) E[log(1 - x)]

The divergence is infinite where p gives probability to what q excludes, and where a mean that counts is infinite.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import flambeau

from ._kl_registry import register_kl
from ._kl_same import infinite_where
from .bernoulli import Bernoulli
from .beta import Beta
from .binomial import Binomial
from .continuous_bernoulli import ContinuousBernoulli
from .exponential import Exponential
from .gamma import Gamma
from .gumbel import Gumbel
from .laplace import Laplace
from .normal import Normal
from .pareto import Pareto
from .poisson import Poisson
from .uniform import Uniform
from .utils import euler_constant

_LOG_ROOT_2_PI = 0.5 * math.log(2 * math.pi)


# Expectations under p ----------------------------------------------------------------------------------------------

def _pareto_mean(p: Any) -> Any:
    return p.alpha * p.scale / (p.alpha - 1)            # where alpha > 1


def _pareto_variance(p: Any) -> Any:
    return p.alpha * (p.scale / (p.alpha - 1)).pow(2) / (p.alpha - 2)        # where alpha > 2


def _mean_of_log(low: Any, high: Any) -> Any:
    """E log x for x uniform in [low, high]: the integral of log x is x log x - x."""
    return (flambeau.xlogy(high, high) - flambeau.xlogy(low, low)) / (high - low) - 1


_MEAN: dict[type, Callable] = {
    Beta: lambda p: p.concentration1 / (p.concentration1 + p.concentration0),
    ContinuousBernoulli: lambda p: p.mean,
    Exponential: lambda p: p.rate.reciprocal(),
    Gamma: lambda p: p.concentration / p.rate,
    Gumbel: lambda p: p.loc + p.scale * euler_constant,
    Laplace: lambda p: p.loc,
    Normal: lambda p: p.loc,
    Pareto: _pareto_mean,
    Uniform: lambda p: (p.high + p.low) / 2,
}
_VARIANCE: dict[type, Callable] = {kind: lambda p: p.variance for kind in _MEAN}
_VARIANCE[Pareto] = _pareto_variance
_MEAN_LOG: dict[type, Callable] = {
    Beta: lambda p: p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma(),
    Exponential: lambda p: -euler_constant - p.rate.log(),
    Gamma: lambda p: p.concentration.digamma() - p.rate.log(),
    Pareto: lambda p: p.scale.log() + p.alpha.reciprocal(),
    Uniform: lambda p: _mean_of_log(p.low, p.high),
}
# log E exp(-x / s)
_LOG_MEAN_EXP: dict[type, Callable] = {
    Exponential: lambda p, s: -(p.rate * s).reciprocal().log1p(),
    Gamma: lambda p, s: -p.concentration * (p.rate * s).reciprocal().log1p(),
    Normal: lambda p, s: 0.5 * (p.scale / s).pow(2) - p.loc / s,
    Uniform: lambda p, s: -p.low / s + (-(-(p.high - p.low) / s).expm1()).log() - ((p.high - p.low) / s).log(),
}


# Cross entropies: -E log q(x) --------------------------------------------------------------------------------------

def _to_exponential(p: Any, q: Any, kind: type) -> Any:
    return q.rate * _MEAN[kind](p) - q.rate.log()


def _to_gamma(p: Any, q: Any, kind: type) -> Any:
    a = q.concentration
    return a.lgamma() - a * q.rate.log() - (a - 1) * _MEAN_LOG[kind](p) + q.rate * _MEAN[kind](p)


def _to_normal(p: Any, q: Any, kind: type) -> Any:
    square = _VARIANCE[kind](p) + (_MEAN[kind](p) - q.loc).pow(2)
    return _LOG_ROOT_2_PI + q.scale.log() + 0.5 * square / q.scale.pow(2)


def _to_gumbel(p: Any, q: Any, kind: type) -> Any:
    mean_exp = (q.loc / q.scale + _LOG_MEAN_EXP[kind](p, q.scale)).exp()
    return q.scale.log() + (_MEAN[kind](p) - q.loc) / q.scale + mean_exp


def _to_continuous_bernoulli(p: Any, q: Any, kind: type) -> Any:
    return -(_MEAN[kind](p) * q.logits) - (-q.probs).log1p() - q._cont_bern_log_norm()


def _register(p_type: type, q_type: type, cross: Callable, excluded: Callable | None = None) -> None:
    """KL = cross entropy - entropy, inf where excluded(p, q)."""

    @register_kl(p_type, q_type)
    def divergence(p: Any, q: Any) -> Any:
        value = cross(p, q, p_type) - p.entropy()
        return value if excluded is None else infinite_where(excluded(p, q), value)


def _starts_below_zero(p: Any, q: Any) -> Any:
    return p.low < 0


def _mean_is_infinite(p: Any, q: Any) -> Any:
    return p.alpha <= 1


def _variance_is_infinite(p: Any, q: Any) -> Any:
    return p.alpha <= 2


def _leaves_unit_interval(p: Any, q: Any) -> Any:
    return (p.low < 0) | (p.high > 1)


def _unit_interval_is_cut(p: Any, q: Any) -> Any:
    return (q.low > 0) | (q.high < 1)


_register(Beta, Exponential, _to_exponential)
_register(ContinuousBernoulli, Exponential, _to_exponential)
_register(Gamma, Exponential, _to_exponential)
_register(Pareto, Exponential, _to_exponential, _mean_is_infinite)
_register(Uniform, Exponential, _to_exponential, _starts_below_zero)

_register(Beta, Gamma, _to_gamma)
_register(Exponential, Gamma, _to_gamma)
_register(Pareto, Gamma, _to_gamma, _mean_is_infinite)
_register(Uniform, Gamma, _to_gamma, _starts_below_zero)

_register(Beta, Normal, _to_normal)
_register(ContinuousBernoulli, Normal, _to_normal)
_register(Exponential, Normal, _to_normal)
_register(Gamma, Normal, _to_normal)
_register(Gumbel, Normal, _to_normal)
_register(Laplace, Normal, _to_normal)
_register(Pareto, Normal, _to_normal, _variance_is_infinite)
_register(Uniform, Normal, _to_normal)

_register(Exponential, Gumbel, _to_gumbel)
_register(Gamma, Gumbel, _to_gumbel)
_register(Normal, Gumbel, _to_gumbel)
_register(Uniform, Gumbel, _to_gumbel)

_register(Beta, ContinuousBernoulli, _to_continuous_bernoulli)
_register(Uniform, ContinuousBernoulli, _to_continuous_bernoulli, _leaves_unit_interval)

for _kind in (Beta, ContinuousBernoulli):
    _register(_kind, Uniform, lambda p, q, kind: (q.high - q.low).log(), _unit_interval_is_cut)


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Any, q: Any) -> Any:
    return q.rate - p.probs * q.rate.log() - p.entropy()        # x! is 1 for both values


@register_kl(Normal, Laplace)
def _normal_laplace(p: Any, q: Any) -> Any:
    # E|x - m| of a normal is that of a folded normal: Leone, Nelson and Nottingham, Technometrics 3, 1961
    shift = p.loc - q.loc
    distance = math.sqrt(2 / math.pi) * p.scale * (-0.5 * (shift / p.scale).pow(2)).exp() \
        + shift * flambeau.erf(math.sqrt(0.5) * shift / p.scale)
    return math.log(2) + q.scale.log() + distance / q.scale - p.entropy()


@register_kl(Uniform, Beta)
def _uniform_beta(p: Any, q: Any) -> Any:
    a, b = q.concentration1, q.concentration0
    cross = a.lgamma() + b.lgamma() - (a + b).lgamma() - (a - 1) * _mean_of_log(p.low, p.high) \
        - (b - 1) * _mean_of_log(1 - p.high, 1 - p.low)
    return infinite_where(_leaves_unit_interval(p, q), cross - p.entropy())


@register_kl(Uniform, Pareto)
def _uniform_pareto(p: Any, q: Any) -> Any:
    cross = (q.alpha + 1) * _mean_of_log(p.low, p.high) - q.alpha.log() - q.alpha * q.scale.log()
    return infinite_where(p.low < q.scale, cross - p.entropy())


def _infinite(p: Any, q: Any) -> Any:
    return flambeau.full_like(p.mean, math.inf)


for _p, _excluding in (     # p always gives probability to what these exclude
    (Beta, (Pareto,)),
    (ContinuousBernoulli, (Pareto,)),
    (Exponential, (Beta, ContinuousBernoulli, Pareto, Uniform)),
    (Gamma, (Beta, ContinuousBernoulli, Pareto, Uniform)),
    (Gumbel, (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)),
    (Laplace, (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)),
    (Normal, (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)),
    (Pareto, (Beta, ContinuousBernoulli, Uniform)),
    (Poisson, (Bernoulli, Binomial)),
):
    for _q in _excluding:
        register_kl(_p, _q)(_infinite)
