"""Mixtures of distributions of one family."""

from __future__ import annotations

from typing import Any

import flambeau

from . import constraints
from .categorical import Categorical
from .distribution import Distribution

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """A weighted mixture: a component is chosen, then drawn from.

    Density: sum over k of w_k p_k(x).

    Args:
        mixture_distribution: a `Categorical` over the K components; its probabilities are the weights.
        component_distribution: a distribution whose last batch dimension, of size K, holds the components.
        validate_args: see `Distribution`.

    Raises:
        ValueError: the two are not of these kinds, or their shapes do not fit.

    >>> from flambeau.distributions import Categorical, Normal
    >>> weights = Categorical(flambeau.tensor([0.25, 0.75]))
    >>> bumps = MixtureSameFamily(weights, Normal(flambeau.tensor([-1.0, 1.0]), 0.5))
    >>> bumps.mean, bumps.variance
    (tensor(0.5000), tensor(1.))
    """

    arg_constraints: dict = {}
    has_rsample = False

    def __init__(self, mixture_distribution: Any, component_distribution: Any,
                 validate_args: bool | None = None) -> None:
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError("The Mixture distribution needs to be an instance of torch.distributions.Categorical, got "
                             f"{mixture_distribution!r}.")
        if not isinstance(component_distribution, Distribution):
            raise ValueError("The Component distribution needs to be an instance of torch.distributions.Distribution, "
                             f"got {component_distribution!r}.")
        weights, components = mixture_distribution, component_distribution
        if not components.batch_shape:
            raise ValueError(f"`component_distribution.batch_shape` is empty: the last batch dimension of "
                             f"{components!r} must hold the components.")
        batch_shape = components.batch_shape[:-1]
        for ours, theirs in zip(reversed(weights.batch_shape), reversed(batch_shape), strict=False):
            if ours != theirs and 1 not in (ours, theirs):
                raise ValueError(f"`mixture_distribution.batch_shape` ({tuple(weights.batch_shape)}) is not compatible "
                                 f"with `component_distribution.batch_shape` ({tuple(components.batch_shape)}), whose "
                                 "last dimension is the components.")
        n, n_components = weights.logits.shape[-1], components.batch_shape[-1]
        if n != n_components:
            raise ValueError(f"`mixture_distribution component` ({n}) does not equal "
                             f"`component_distribution.batch_shape[-1]` ({n_components}).")
        self._mixture_distribution = weights
        self._component_distribution = components
        self._num_component = n
        self._event_ndims = len(components.event_shape)
        super().__init__(batch_shape, components.event_shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._expanded(MixtureSameFamily, batch_shape, _instance)
        new._component_distribution = self._component_distribution.expand((*new.batch_shape, self._num_component))
        new._mixture_distribution = self._mixture_distribution.expand(new.batch_shape)
        new._num_component = self._num_component
        new._event_ndims = self._event_ndims
        return new

    @constraints.dependent_property
    def support(self) -> Any:
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Categorical:
        """The distribution over components."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        """The components."""
        return self._component_distribution

    def _average(self, values: Any) -> Any:
        """Values of the components, (..., K) + event, averaged by weight."""
        weights = self._mixture_distribution.probs
        return (weights.reshape(weights.shape + (1,) * self._event_ndims) * values).sum(-1 - self._event_ndims)

    @property
    def mean(self) -> Any:
        return self._average(self._component_distribution.mean)

    @property
    def variance(self) -> Any:
        """The mean of the variances and the variance of the means."""
        means = self._component_distribution.mean
        centre = self._for_components(self._average(means))
        return self._average(self._component_distribution.variance) + self._average((means - centre).square())

    def _for_components(self, value: Any) -> Any:
        return value.unsqueeze(-1 - self._event_ndims)

    def cdf(self, value: Any) -> Any:
        below = self._component_distribution.cdf(self._for_components(value))
        return (below * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        of_components = self._component_distribution.log_prob(self._for_components(value))
        return (of_components + self._mixture_distribution.logits.log_softmax(-1)).logsumexp(-1)

    def sample(self, sample_shape: Any = ()) -> Any:
        with flambeau.no_grad():
            weights = self._mixture_distribution
            if weights.batch_shape != self._batch_shape:
                weights = weights.expand(self._batch_shape)
            choice = weights.sample(sample_shape)
            draws = self._component_distribution.sample(sample_shape)
            dim = choice.ndim       # of the components among the dimensions of draws
            choice = choice.reshape(choice.shape + (1,) * (self._event_ndims + 1))
            return draws.gather(dim, choice.expand((*choice.shape[:dim], 1, *self._event_shape))).squeeze(dim)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self._mixture_distribution},\n  {self._component_distribution})"
