"""Exponential families: entropy from the log-normaliser alone."""

from __future__ import annotations

from typing import Any

import flambeau

from .distribution import Distribution

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """Distributions of density p(x; t) = exp(<s(x), t> - A(t) + k(x)).

    t are the natural parameters, s the sufficient statistics, A the log-normaliser and k the carrier measure.
    A subclass gives `_natural_params` (t, a tuple of tensors), `_log_normalizer` (A) and `_mean_carrier_measure`
    (E[k(x)]); the entropy and divergences follow from A and its gradient, since E[s(x)] = dA/dt.

    Source: Nielsen and Nock, "Entropies and cross-entropies of exponential families", ICIP 2010.

    >>> family = flambeau.distributions.Normal(0.0, 1.0)
    >>> round(ExponentialFamily.entropy(family).item(), 4)
    1.4189
    """

    @property
    def _natural_params(self) -> tuple:
        raise NotImplementedError(f"{type(self).__name__} does not give _natural_params, the tensors t of its family.")

    def _log_normalizer(self, *natural_params: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not give _log_normalizer, the function A(t).")

    @property
    def _mean_carrier_measure(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not give _mean_carrier_measure, E[k(x)].")

    def _normalizer_and_slopes(self) -> tuple:
        """A(t), dA/dt (with a graph) and the detached t at which they are taken."""
        with flambeau.enable_grad():
            params = tuple(t.detach().requires_grad_() for t in self._natural_params)
            log_normalizer = self._log_normalizer(*params)
            slopes = flambeau.autograd.grad(log_normalizer.sum(), params, create_graph=True)
        return log_normalizer, slopes, params

    def entropy(self) -> Any:
        """A(t) - <t, dA/dt> - E[k(x)], in nats; shape `batch_shape`."""
        carrier = self._mean_carrier_measure
        log_normalizer, slopes, params = self._normalizer_and_slopes()
        result = log_normalizer - carrier
        for param, slope in zip(params, slopes, strict=True):
            result = result - (param * slope).reshape(self._batch_shape + (-1,)).sum(-1)
        return result
