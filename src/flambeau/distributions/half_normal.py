"""The half-normal distribution."""

from __future__ import annotations

import math
from typing import Any

from ._folded import Folded
from .normal import Normal

__all__ = ["HalfNormal"]


class HalfNormal(Folded):
    """The absolute value of a normal draw of mean 0.

    Density: sqrt(2 / pi) exp(-x^2 / (2 scale^2)) / scale, for x >= 0.

    Args:
        scale: standard deviation of the normal, positive; any shape, the batch's.
        validate_args: see `Distribution`.

    >>> HalfNormal(1.0).mean
    tensor(0.7979)
    """

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(0, scale, validate_args=False), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return super().expand(batch_shape, _instance=self._get_checked_instance(HalfNormal, _instance))

    @property
    def mean(self) -> Any:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Any:
        return self.scale.pow(2) * (1 - 2 / math.pi)
