"""Distributions of transformed draws."""

from __future__ import annotations

import math
from typing import Any

import flambeau

from . import constraints
from .distribution import Distribution
from .independent import Independent
from .transforms import ComposeTransform, Transform
from .utils import _sum_rightmost

__all__ = ["TransformedDistribution"]


class TransformedDistribution(Distribution):
    """The distribution of y = t(x), x a draw of another distribution.

    Density: p_x(x) / |det dy/dx| at x = t^-1(y).

    Args:
        base_distribution: that of x; it is expanded, and its batch dimensions made event dimensions, as t needs.
        transforms: a `Transform`, or a list of them, the first applied first.
        validate_args: see `Distribution`.

    `log_prob` needs bijective transforms, or a cache (`cache_size=1`) and the very tensor that was drawn.

    Raises:
        ValueError: `transforms` is something else, or the base has too few dimensions for them.

    >>> base = flambeau.distributions.Uniform(0.0, 1.0)
    >>> doubled = TransformedDistribution(base, flambeau.distributions.AffineTransform(0.0, 2.0))
    >>> doubled.log_prob(flambeau.tensor(1.5)).exp()
    tensor(0.5000)
    """

    arg_constraints: dict = {}

    def __init__(self, base_distribution: Any, transforms: Any, validate_args: bool | None = None) -> None:
        if isinstance(transforms, Transform):
            self.transforms = [transforms]
        elif isinstance(transforms, list):
            if not all(isinstance(t, Transform) for t in transforms):
                raise ValueError(f"transforms must be a Transform or a list of Transforms, got {transforms}.")
            self.transforms = transforms
        else:
            raise ValueError(f"transforms must be a Transform or list of Transforms, got {transforms!r}.")
        chain = ComposeTransform(self.transforms)
        domain_dim = chain.domain.event_dim
        base_dim = len(base_distribution.event_shape)
        base_shape = base_distribution.batch_shape + base_distribution.event_shape
        if len(base_shape) < domain_dim:
            raise ValueError(f"base_distribution needs to have shape with size at least {domain_dim}, but got "
                             f"{tuple(base_shape)}: the transforms map events of so many dimensions.")
        shape = chain.forward_shape(base_shape)
        needed = chain.inverse_shape(shape)         # parameters of the transforms may have a batch of their own
        if needed != base_shape:
            base_distribution = base_distribution.expand(needed[:len(needed) - base_dim])
        if domain_dim > base_dim:
            base_distribution = Independent(base_distribution, domain_dim - base_dim)
        self.base_dist = base_distribution
        change = chain.codomain.event_dim - domain_dim
        event_dim = max(chain.codomain.event_dim, base_dim + change)
        cut = len(shape) - event_dim
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._expanded(TransformedDistribution, batch_shape, _instance)
        shape = ComposeTransform(self.transforms).inverse_shape(new.batch_shape + self.event_shape)
        new.base_dist = self.base_dist.expand(shape[:len(shape) - len(self.base_dist.event_shape)])
        new.transforms = self.transforms
        return new

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        extra = len(self.event_shape) - support.event_dim
        return constraints.independent(support, extra) if extra > 0 else support

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        return self.base_dist.has_rsample

    def _forward(self, x: Any) -> Any:
        for transform in self.transforms:
            x = transform(x)
        return x

    def _backward(self, y: Any) -> Any:
        for transform in reversed(self.transforms):
            y = transform.inv(y)
        return y

    def sample(self, sample_shape: Any = ()) -> Any:
        with flambeau.no_grad():
            return self._forward(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self._forward(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        event_dim = len(self.event_shape)
        result: Any = 0.0
        y = value
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            event_dim += transform.domain.event_dim - transform.codomain.event_dim
            result = result - _sum_rightmost(transform.log_abs_det_jacobian(x, y),
                                             event_dim - transform.domain.event_dim)
            y = x
        return result + _sum_rightmost(self.base_dist.log_prob(y), event_dim - len(self.base_dist.event_shape))

    def _monotonize_cdf(self, value: Any) -> Any:
        """The probability `value` of the base, turned round where the transforms decrease."""
        sign = math.prod(transform.sign for transform in self.transforms)
        return value if isinstance(sign, int) and sign == 1 else sign * (value - 0.5) + 0.5

    def cdf(self, value: Any) -> Any:
        """The cumulative distribution, where the transforms are monotone and the base has one."""
        value = self._backward(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._monotonize_cdf(self.base_dist.cdf(value))

    def icdf(self, value: Any) -> Any:
        """The inverse of `cdf`."""
        return self._forward(self.base_dist.icdf(self._monotonize_cdf(value)))
