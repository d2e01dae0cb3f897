"""The logistic-normal distribution."""

from __future__ import annotations

from typing import Any

from . import constraints
from .normal import Normal
from .transformed_distribution import TransformedDistribution
from .transforms import StickBreakingTransform

__all__ = ["LogisticNormal"]


class LogisticNormal(TransformedDistribution):
    """Points of a simplex: the stick-breaking transform of independent normal draws.

    Args:
        loc: (..., K - 1), means of the normals; their last dimension is the event.
        scale: (..., K - 1), their standard deviations, positive.
        validate_args: see `Distribution`.

    Draws are (..., K), positive, of sum 1.

    Source: Aitchison and Shen, Biometrika 67, 1980.

    >>> LogisticNormal(flambeau.zeros(3), flambeau.ones(3)).sample().shape
    torch.Size([4])
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand((1,))
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return super().expand(batch_shape, _instance=self._get_checked_instance(LogisticNormal, _instance))

    @property
    def loc(self) -> Any:
        """Means of the normals."""
        return self.base_dist.base_dist.loc

    @property
    def scale(self) -> Any:
        """Standard deviations of the normals."""
        return self.base_dist.base_dist.scale
