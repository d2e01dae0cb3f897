"""The chi-squared distribution."""

from __future__ import annotations

from typing import Any

from . import constraints
from .gamma import Gamma

__all__ = ["Chi2"]


class Chi2(Gamma):
    """The chi-squared distribution: the sum of `df` squared standard normals, a Gamma(df / 2, 1 / 2).

    Density p(x) = x**(df/2 - 1) * exp(-x/2) / (2**(df/2) * Gamma(df/2)), x > 0.

    Args:
        df: degrees of freedom, a positive number or floating tensor; its shape is the batch's.

    >>> d = flambeau.distributions.Chi2(flambeau.tensor([1.0, 4.0]))
    >>> d.mean.tolist(), d.variance.tolist()
    ([1.0, 4.0], [2.0, 8.0])
    """

    arg_constraints = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return super().expand(batch_shape, self._get_checked_instance(Chi2, _instance))

    @property
    def df(self) -> Any:
        """Degrees of freedom."""
        return self.concentration * 2
