"""Divergences between two distributions of one family.

These are written so that they are exactly 0, or nearly, where the two are equal.
"""

from __future__ import annotations

import math
from typing import Any

import flambeau
from flambeau.nn.functional import softplus

from ._kl_registry import kl_divergence, register_kl
from .bernoulli import Bernoulli
from .beta import Beta
from .binomial import Binomial
from .categorical import Categorical
from .cauchy import Cauchy
from .continuous_bernoulli import ContinuousBernoulli
from .dirichlet import Dirichlet
from .exp_family import ExponentialFamily
from .exponential import Exponential
from .gamma import Gamma
from .geometric import Geometric
from .gumbel import Gumbel
from .half_normal import HalfNormal
from .independent import Independent
from .laplace import Laplace
from .normal import Normal
from .one_hot_categorical import OneHotCategorical
from .pareto import Pareto
from .poisson import Poisson
from .transformed_distribution import TransformedDistribution
from .uniform import Uniform
from .utils import _sum_rightmost, euler_constant


def infinite_where(excluded: Any, value: Any) -> Any:
    return flambeau.where(excluded, math.inf, value)


def _expected(probs: Any, log_ratio: Any, excluded: Any) -> Any:
    """probs * log_ratio for one outcome: 0 where p never gives it, else inf where q excludes it."""
    return flambeau.where(probs == 0, 0.0, infinite_where(excluded, probs * log_ratio))


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Any, q: Any) -> Any:
    # log p = -softplus(-logit), log (1 - p) = -softplus(logit)
    ones = _expected(p.probs, softplus(-q.logits) - softplus(-p.logits), q.probs == 0)
    zeros = _expected(1 - p.probs, softplus(q.logits) - softplus(p.logits), q.probs == 1)
    return ones + zeros


@register_kl(Binomial, Binomial)
def _binomial(p: Any, q: Any) -> Any:
    if (p.total_count < q.total_count).any():
        raise NotImplementedError("KL between Binomials where q.total_count > p.total_count is not implemented: it has "
                                  "no closed form.")
    of_one = p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p()
    return infinite_where(p.total_count > q.total_count, p.total_count * of_one)


@register_kl(Categorical, Categorical)
def _categorical(p: Any, q: Any) -> Any:
    return _expected(p.probs, p.logits - q.logits, q.probs == 0).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: Any, q: Any) -> Any:
    return _categorical(p._categorical, q._categorical)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: Any, q: Any) -> Any:
    log_constant_p = p._cont_bern_log_norm() + (-p.probs).log1p()
    log_constant_q = q._cont_bern_log_norm() + (-q.probs).log1p()
    return p.mean * (p.logits - q.logits) + log_constant_p - log_constant_q


@register_kl(Poisson, Poisson)
def _poisson(p: Any, q: Any) -> Any:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Geometric, Geometric)
def _geometric(p: Any, q: Any) -> Any:
    # the mean number of failures is (1 - p) / p, and q.logits = log q - log (1 - q)
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(Beta, Beta)
def _beta(p: Any, q: Any) -> Any:
    a, b, c, d = p.concentration1, p.concentration0, q.concentration1, q.concentration0
    constants = (a + b).lgamma() - a.lgamma() - b.lgamma() - (c + d).lgamma() + c.lgamma() + d.lgamma()
    return constants + (a - c) * a.digamma() + (b - d) * b.digamma() + (c + d - a - b) * (a + b).digamma()


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Any, q: Any) -> Any:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    constants = total.lgamma() - b.sum(-1).lgamma() - (a.lgamma() - b.lgamma()).sum(-1)
    return constants + ((a - b) * (a.digamma() - total.digamma().unsqueeze(-1))).sum(-1)


@register_kl(Exponential, Exponential)
def _exponential(p: Any, q: Any) -> Any:
    ratio = q.rate / p.rate
    return ratio - ratio.log() - 1


@register_kl(Gamma, Gamma)
def _gamma(p: Any, q: Any) -> Any:
    a, b = p.concentration, q.concentration
    constants = b * (p.rate / q.rate).log() + b.lgamma() - a.lgamma()
    return constants + (a - b) * a.digamma() + (q.rate - p.rate) * (a / p.rate)


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Any, q: Any) -> Any:
    ratio = p.scale / q.scale
    shift = (p.loc - q.loc) / q.scale
    mean_exp = ((1 + ratio).lgamma() - shift).exp()      # E exp(-(x - q.loc) / q.scale)
    return shift - ratio.log() + ratio * euler_constant + mean_exp - (1 + euler_constant)


@register_kl(Laplace, Laplace)
def _laplace(p: Any, q: Any) -> Any:
    ratio = p.scale / q.scale
    distance = (p.loc - q.loc).abs()
    return distance / q.scale + ratio * (-distance / p.scale).exp() - ratio.log() - 1


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Any, q: Any) -> Any:
    # Chyzak and Nielsen, 2019, arXiv:1905.10965
    return ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log() - (4 * p.scale * q.scale).log()


@register_kl(Normal, Normal)
def _normal(p: Any, q: Any) -> Any:
    ratio = (p.scale / q.scale).pow(2)
    shift = ((p.loc - q.loc) / q.scale).pow(2)
    return 0.5 * (ratio + shift - 1 - ratio.log())


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: Any, q: Any) -> Any:
    return _normal(p.base_dist, q.base_dist)


@register_kl(Pareto, Pareto)
def _pareto(p: Any, q: Any) -> Any:
    ratio = q.alpha / p.alpha
    value = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return infinite_where(p.scale < q.scale, value)


@register_kl(Uniform, Uniform)
def _uniform(p: Any, q: Any) -> Any:
    value = ((q.high - q.low) / (p.high - p.low)).log()
    return infinite_where((q.low > p.low) | (q.high < p.high), value)


@register_kl(Independent, Independent)
def _independent(p: Any, q: Any) -> Any:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("KL between Independent distributions needs the same reinterpreted_batch_ndims, got "
                                  f"{p.reinterpreted_batch_ndims} and {q.reinterpreted_batch_ndims}.")
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: Any, q: Any) -> Any:
    # A bijection of both changes nothing.
    if p.transforms != q.transforms:
        raise NotImplementedError(f"KL between transformed distributions needs equal transforms, got {p.transforms} "
                                  f"and {q.transforms}.")
    if p.event_shape != q.event_shape:
        raise NotImplementedError("KL between transformed distributions needs equal event shapes, got "
                                  f"{tuple(p.event_shape)} and {tuple(q.event_shape)}.")
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(ExponentialFamily, ExponentialFamily)
def _exponential_family(p: Any, q: Any) -> Any:
    """A Bregman divergence of the log-normaliser: A(t_q) - A(t_p) - <t_q - t_p, dA/dt_p>.

    Source: Banerjee et al., Journal of Machine Learning Research 6, 2005.
    """
    if type(p) is not type(q):
        raise NotImplementedError("The cross KL-divergence between different exponential families cannot be computed "
                                  f"using Bregman divergences: {type(p).__name__} and {type(q).__name__}.")
    at_p, slopes, of_p = p._normalizer_and_slopes()
    of_q = q._natural_params
    value = q._log_normalizer(*of_q) - at_p
    for mine, other, slope in zip(of_p, of_q, slopes, strict=True):
        value = value - _sum_rightmost((other - mine) * slope, len(q.event_shape))
    return value
