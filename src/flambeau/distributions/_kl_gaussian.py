"""Divergences between multivariate normals, with a full covariance or one of low rank plus a diagonal.

2 KL(p || q) = log det S_q - log det S_p - n + trace(S_q^-1 S_p) + (m_q - m_p)^T S_q^-1 (m_q - m_p).
"""

from __future__ import annotations

from typing import Any

from . import _linear_algebra as algebra
from ._kl_registry import register_kl
from .lowrank_multivariate_normal import LowRankMultivariateNormal
from .multivariate_normal import MultivariateNormal


def _check(p: Any, q: Any) -> None:
    if p.event_shape != q.event_shape:
        raise ValueError("KL-divergence between two Multivariate Normals with different event shapes cannot be "
                         f"computed: they have {tuple(p.event_shape)} and {tuple(q.event_shape)}.")


def _total(p: Any, q: Any, log_dets: Any, trace: Any, distance: Any) -> Any:
    return 0.5 * (log_dets + trace + distance - p.event_shape[0])


@register_kl(MultivariateNormal, MultivariateNormal)
def _full_full(p: Any, q: Any) -> Any:
    _check(p, q)
    of_p, of_q = p._unbroadcasted_scale_tril, q._unbroadcasted_scale_tril
    log_dets = 2 * (algebra.half_log_det(of_q) - algebra.half_log_det(of_p))
    trace = algebra.squares(algebra.solve(of_q, of_p))
    return _total(p, q, log_dets, trace, algebra.mahalanobis(of_q, q.loc - p.loc))


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _low_full(p: Any, q: Any) -> Any:
    _check(p, q)
    of_p, of_q = p._covariance, q._unbroadcasted_scale_tril
    log_dets = 2 * algebra.half_log_det(of_q) - of_p.log_det()
    trace = algebra.squares(algebra.solve(of_q, of_p.factor)) \
        + algebra.squares(algebra.solve(of_q, of_p.diagonal.sqrt().diag_embed()))
    return _total(p, q, log_dets, trace, algebra.mahalanobis(of_q, q.loc - p.loc))


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _full_low(p: Any, q: Any) -> Any:
    _check(p, q)
    of_p, of_q = p._unbroadcasted_scale_tril, q._covariance
    log_dets = of_q.log_det() - 2 * algebra.half_log_det(of_p)
    trace = algebra.squares(of_p * of_q.diagonal.rsqrt().unsqueeze(-1)) - algebra.squares(of_q.root() @ of_p)
    return _total(p, q, log_dets, trace, of_q.mahalanobis(q.loc - p.loc))


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _low_low(p: Any, q: Any) -> Any:
    _check(p, q)
    of_p, of_q = p._covariance, q._covariance
    root = of_q.root()
    trace = (of_p.diagonal / of_q.diagonal).sum(-1) \
        + algebra.squares(of_p.factor * of_q.diagonal.rsqrt().unsqueeze(-1)) \
        - algebra.squares(root * of_p.diagonal.sqrt().unsqueeze(-2)) - algebra.squares(root @ of_p.factor)
    return _total(p, q, of_q.log_det() - of_p.log_det(), trace, of_q.mahalanobis(q.loc - p.loc))
