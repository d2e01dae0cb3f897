"""The Dirichlet distribution."""

from __future__ import annotations

from typing import Any

import flambeau

from . import constraints
from .exp_family import ExponentialFamily

__all__ = ["Dirichlet"]


class Dirichlet(ExponentialFamily):
    """The Dirichlet distribution over the simplex: vectors of K non-negative numbers that sum to 1.

    Density p(x) = Gamma(sum a) / prod Gamma(a_k) * prod x_k**(a_k - 1), a the concentration.

    Draws are differentiable in the concentration: with the draw's quantiles held fixed.

    Args:
        concentration: positive floating tensor (*, K); the batch has shape (*), an event (K,).

    Raises:
        ValueError: concentration is 0-d.

    Sources: Kotz, Balakrishnan and Johnson, Continuous Multivariate Distributions 1, chapter 49. Figurnov et al., 2018,
    arXiv:1805.08498: gradients.

    >>> d = flambeau.distributions.Dirichlet(flambeau.tensor([1.0, 3.0]))
    >>> d.mean.tolist(), d.event_shape
    ([0.25, 0.75], torch.Size([2]))
    """

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Any, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional: its last dimension is that of "
                             "an event.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(Dirichlet, batch_shape, _instance, concentration=1)

    def rsample(self, sample_shape: Any = ()) -> Any:
        return flambeau._sample_dirichlet(self.concentration.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        a = self.concentration
        return flambeau.xlogy(a - 1.0, value).sum(-1) + a.sum(-1).lgamma() - a.lgamma().sum(-1)

    @property
    def mean(self) -> Any:
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Any:
        excess = (self.concentration - 1).clamp(min=0.0)
        mode = excess / excess.sum(-1, True)
        at_corner = (self.concentration < 1).all(-1)    # no interior mode: one of the corners, the first, stands for all
        corner = flambeau.zeros_like(mode)
        corner[..., 0] = 1.0
        return flambeau.where(at_corner.unsqueeze(-1), corner, mode)

    @property
    def variance(self) -> Any:
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def entropy(self) -> Any:
        a = self.concentration
        n = a.size(-1)
        total = a.sum(-1)
        return a.lgamma().sum(-1) - total.lgamma() - (n - total) * total.digamma() - ((a - 1.0) * a.digamma()).sum(-1)

    @property
    def _natural_params(self) -> tuple:
        return (self.concentration,)

    def _log_normalizer(self, *natural_params: Any) -> Any:
        (a,) = natural_params
        return a.lgamma().sum(-1) - a.sum(-1).lgamma()
