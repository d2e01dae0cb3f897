"""Transforms of single numbers."""

from __future__ import annotations

import math
from typing import Any

import flambeau
from flambeau.nn.functional import softplus

from . import constraints
from ._transform_base import Transform
from .utils import _Number, broadcast_all

LOG_2 = math.log(2.0)


def _inside_unit(y: Any) -> Any:
    """Values of [0, 1] kept strictly inside."""
    info = flambeau.finfo(y.dtype)
    return y.clamp(min=info.tiny, max=1.0 - info.eps)


def clipped_sigmoid(x: Any) -> Any:
    """The logistic function, kept strictly inside (0, 1) however large x is."""
    return _inside_unit(x.sigmoid())


class _Parameterless(Transform):
    """Two of one class are equal."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self))

    __hash__ = None  # type: ignore[assignment]


class ExpTransform(_Parameterless):
    """y = exp(x), from the reals to the positive numbers.

    >>> ExpTransform()(flambeau.tensor([0.0]))
    tensor([1.])
    """

    domain = constraints.real
    codomain = constraints.positive
    bijective = True
    sign = +1  # type: ignore[assignment]

    def _call(self, x: Any) -> Any:
        return x.exp()

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return x


class SigmoidTransform(_Parameterless):
    """y = 1 / (1 + exp(-x)), from the reals to [0, 1].

    >>> SigmoidTransform()(flambeau.tensor([0.0]))
    tensor([0.5000])
    """

    domain = constraints.real
    codomain = constraints.unit_interval
    bijective = True
    sign = +1  # type: ignore[assignment]

    def _call(self, x: Any) -> Any:
        return clipped_sigmoid(x)

    def _inverse(self, y: Any) -> Any:
        y = _inside_unit(y)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -softplus(-x) - softplus(x)


class SoftplusTransform(_Parameterless):
    """y = log(1 + exp(x)), from the reals to the positive numbers; x itself above 20.

    >>> SoftplusTransform()(flambeau.tensor([0.0]))
    tensor([0.6931])
    """

    domain = constraints.real
    codomain = constraints.positive
    bijective = True
    sign = +1  # type: ignore[assignment]

    def _call(self, x: Any) -> Any:
        return softplus(x)

    def _inverse(self, y: Any) -> Any:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -softplus(-x)


class TanhTransform(_Parameterless):
    """y = tanh(x), from the reals to (-1, 1).

    The inverse of a y that rounds to 1 is infinite: give `cache_size=1` where y comes from this transform.

    >>> TanhTransform()(flambeau.tensor([0.0]))
    tensor([0.])
    """

    domain = constraints.real
    codomain = constraints.interval(-1.0, 1.0)
    bijective = True
    sign = +1  # type: ignore[assignment]

    def _call(self, x: Any) -> Any:
        return x.tanh()

    def _inverse(self, y: Any) -> Any:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        # log(1 - tanh(x)^2) = 2 log 2 - 2x - 2 log(1 + exp(-2x)), which does not cancel for large x
        return 2.0 * (LOG_2 - x - softplus(-2.0 * x))


class AbsTransform(_Parameterless):
    """y = |x|; not bijective: its "inverse" gives y back.

    >>> AbsTransform()(flambeau.tensor([-2.0]))
    tensor([2.])
    """

    domain = constraints.real
    codomain = constraints.positive

    def _call(self, x: Any) -> Any:
        return x.abs()

    def _inverse(self, y: Any) -> Any:
        return y


class PowerTransform(Transform):
    """y = x^exponent, of the positive numbers.

    Args:
        exponent: a number or a tensor, not zero.

    >>> PowerTransform(2.0)(flambeau.tensor([3.0]))
    tensor([9.])
    """

    domain = constraints.positive
    codomain = constraints.positive
    bijective = True

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        (self.exponent,) = broadcast_all(exponent)

    @property
    def sign(self) -> Any:
        return self.exponent.sign()

    def with_cache(self, cache_size: int = 1) -> Any:
        return self if self._cache_size == cache_size else PowerTransform(self.exponent, cache_size=cache_size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and bool((self.exponent == other.exponent).all())

    __hash__ = None  # type: ignore[assignment]

    def _call(self, x: Any) -> Any:
        return x.pow(self.exponent)

    def _inverse(self, y: Any) -> Any:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Any) -> Any:
        return flambeau.broadcast_shapes(shape, self.exponent.shape)

    inverse_shape = forward_shape


def _same(a: Any, b: Any) -> bool:
    """Equality of two parameters, each a number or a tensor."""
    same = a == b
    return same if isinstance(same, bool) else bool(same.all())


class AffineTransform(Transform):
    """y = loc + scale * x.

    Args:
        loc, scale: numbers or tensors; scale not zero.
        event_dim: how many of the last dimensions make one event, over which the Jacobian is summed.

    >>> AffineTransform(1.0, 2.0)(flambeau.tensor([3.0]))
    tensor([7.])
    """

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.loc = loc
        self.scale = scale
        self._event_dim = event_dim

    @property
    def event_dim(self) -> int:
        return self._event_dim

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:  # type: ignore[override]
        return constraints.independent(constraints.real, self._event_dim) if self._event_dim else constraints.real

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:  # type: ignore[override]
        return self.domain

    @property
    def sign(self) -> Any:
        if isinstance(self.scale, _Number):
            return (self.scale > 0) - (self.scale < 0)
        return self.scale.sign()

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return AffineTransform(self.loc, self.scale, self._event_dim, cache_size=cache_size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AffineTransform) and _same(self.loc, other.loc) and _same(self.scale, other.scale)

    __hash__ = None  # type: ignore[assignment]

    def _call(self, x: Any) -> Any:
        return self.loc + self.scale * x

    def _inverse(self, y: Any) -> Any:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        if isinstance(self.scale, _Number):
            change = flambeau.full_like(x, math.log(abs(self.scale)))
        else:
            change = self.scale.abs().log().expand(x.shape)     # before summing: one scale may serve a whole event
        return change.flatten(-self._event_dim).sum(-1) if self._event_dim else change

    def forward_shape(self, shape: Any) -> Any:
        return flambeau.broadcast_shapes(shape, getattr(self.loc, "shape", ()), getattr(self.scale, "shape", ()))

    inverse_shape = forward_shape


class CumulativeDistributionTransform(Transform):
    """y = the cumulative distribution function of a distribution at x: draws of it become uniform.

    Args:
        distribution: one with `cdf`, `icdf` and `log_prob`.

    >>> to_unit = CumulativeDistributionTransform(flambeau.distributions.Normal(0.0, 1.0))
    >>> to_unit(flambeau.tensor(0.0))
    tensor(0.5000)
    """

    bijective = True
    codomain = constraints.unit_interval
    sign = +1  # type: ignore[assignment]

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Any:  # type: ignore[override]
        return self.distribution.support

    def _call(self, x: Any) -> Any:
        return self.distribution.cdf(x)

    def _inverse(self, y: Any) -> Any:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return self.distribution.log_prob(x)

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return CumulativeDistributionTransform(self.distribution, cache_size=cache_size)
