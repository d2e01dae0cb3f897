"""Batches of distributions read as one distribution of more dimensions."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from . import constraints
from .distribution import Distribution
from .utils import _sum_rightmost

__all__ = ["Independent"]

D = TypeVar("D", bound=Distribution)


class Independent(Distribution, Generic[D]):
    """A distribution whose last batch dimensions count as event dimensions: their entries are independent.

    Args:
        base_distribution: what is read so.
        reinterpreted_batch_ndims: how many of its batch dimensions join the event.
        validate_args: see `Distribution`.

    Draws are the same; `log_prob` and `entropy` are summed over those dimensions.

    Raises:
        ValueError: the base has fewer batch dimensions.

    >>> from flambeau.distributions import Normal
    >>> policy = Independent(Normal(flambeau.zeros(5, 2), flambeau.ones(5, 2)), 1)
    >>> policy.batch_shape, policy.event_shape, policy.log_prob(policy.sample()).shape
    (torch.Size([5]), torch.Size([2]), torch.Size([5]))
    """

    arg_constraints: dict = {}
    base_dist: D

    def __init__(self, base_distribution: D, reinterpreted_batch_ndims: int,
                 validate_args: bool | None = None) -> None:
        had = len(base_distribution.batch_shape)
        if reinterpreted_batch_ndims > had:
            raise ValueError("reinterpreted_batch_ndims is at most the number of batch dimensions of the base distribution: "
                             f"{reinterpreted_batch_ndims} vs {had}: {base_distribution!r} has no more to give.")
        event_dim = reinterpreted_batch_ndims + len(base_distribution.event_shape)
        shape = base_distribution.batch_shape + base_distribution.event_shape
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        cut = len(shape) - event_dim
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._expanded(Independent, batch_shape, _instance)
        new.base_dist = self.base_dist.expand(new.batch_shape + self.event_shape[:self.reinterpreted_batch_ndims])
        new.reinterpreted_batch_ndims = self.reinterpreted_batch_ndims
        return new

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self) -> bool:  # type: ignore[override]
        return self.reinterpreted_batch_ndims <= 0 and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self) -> Any:
        support = self.base_dist.support
        n = self.reinterpreted_batch_ndims
        return constraints.independent(support, n) if n else support

    @property
    def mean(self) -> Any:
        return self.base_dist.mean

    @property
    def mode(self) -> Any:
        return self.base_dist.mode

    @property
    def variance(self) -> Any:
        return self.base_dist.variance

    def sample(self, sample_shape: Any = ()) -> Any:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Any) -> Any:
        return _sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Any:
        return _sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Any:
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Enumeration over cartesian product is not implemented: enumerate the support of "
                                      "base_dist, and combine its entries with itertools.product.")
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"
