"""What a transform is, its cache, and its inverse."""

from __future__ import annotations

import weakref
from typing import Any


def at_least(shape: Any, n: int) -> None:
    """Raise ValueError unless the shape has n dimensions or more."""
    if len(shape) < n:
        raise ValueError(f"Too few dimensions on input: expected {n} or more, got shape {tuple(shape)}.")


class Transform:
    """A differentiable map between sets of tensors, with the logarithm of its volume change.

    Args:
        cache_size: 1 to remember the last (x, y): the inverse of a value just computed is then exact and free, and
            maps without an inverse of their own can be inverted there. 0 to remember nothing.

    A subclass sets `domain` and `codomain` (constraints), `bijective`, for monotone scalar maps `sign` (+1 or -1), and
    implements `_call`, `_inverse` and `log_abs_det_jacobian`.

    Raises:
        ValueError: cache_size is neither 0 nor 1.

    >>> exp = flambeau.distributions.ExpTransform()
    >>> y = exp(flambeau.tensor(2.0))
    >>> exp.inv(y), exp.log_abs_det_jacobian(flambeau.tensor(2.0), y)
    (tensor(2.), tensor(2.))
    """

    bijective: Any = False
    domain: Any
    codomain: Any

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError(f"cache_size must be 0 or 1, got {cache_size}.")
        self._cache_size = cache_size
        self._inv: Any = None                       # weak reference to the inverse, which holds this
        self._cached_x_y: tuple = (None, None)
        super().__init__()

    def __getstate__(self) -> dict:
        return {**self.__dict__, "_inv": None}      # weak references cannot be pickled

    @property
    def event_dim(self) -> int:
        """How many of the last dimensions are mapped together, where both sides have the same number."""
        if self.domain.event_dim != self.codomain.event_dim:
            raise ValueError(f"{self!r} maps {self.domain.event_dim} dimensions to {self.codomain.event_dim}. Please "
                             "use either .domain.event_dim or .codomain.event_dim.")
        return self.domain.event_dim

    @property
    def inv(self) -> Any:
        """The inverse transform; `t.inv.inv` is `t`."""
        inverse = None if self._inv is None else self._inv()
        if inverse is None:
            inverse = _InverseTransform(self)
            self._inv = weakref.ref(inverse)
        return inverse

    @property
    def sign(self) -> Any:
        """+1 where the map increases, -1 where it decreases."""
        raise NotImplementedError(f"{type(self).__name__} has no sign: it is not known to be monotone.")

    def with_cache(self, cache_size: int = 1) -> Any:
        """The same transform with another cache."""
        if self._cache_size == cache_size:
            return self
        if type(self).__init__ is Transform.__init__:
            return type(self)(cache_size=cache_size)
        raise NotImplementedError(f"{type(self)}.with_cache is not implemented: a transform with an __init__ of its "
                                  "own must define it.")

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = None  # type: ignore[assignment]

    def __call__(self, x: Any) -> Any:
        """The image of x."""
        if self._cache_size == 0:
            return self._call(x)
        last, y = self._cached_x_y
        if x is not last:
            y = self._call(x)
            self._cached_x_y = x, y
        return y

    def _inv_call(self, y: Any) -> Any:
        """The x whose image is y."""
        if self._cache_size == 0:
            return self._inverse(y)
        x, last = self._cached_x_y
        if y is not last:
            x = self._inverse(y)
            self._cached_x_y = x, y
        return x

    def _call(self, x: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not implement _call().")

    def _inverse(self, y: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not implement _inverse().")

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """log |det dy/dx| for y the image of x; its shape lacks the event's dimensions."""
        raise NotImplementedError(f"{type(self).__name__} does not implement log_abs_det_jacobian().")

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def forward_shape(self, shape: Any) -> Any:
        """The shape of the image of an x of that shape."""
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        """The shape of the x whose image has that shape."""
        return shape


class _InverseTransform(Transform):
    """A transform read backwards; it shares the other's cache."""

    def __init__(self, transform: Transform) -> None:
        super().__init__(cache_size=transform._cache_size)
        self._inv = transform

    @property
    def domain(self) -> Any:  # type: ignore[override]
        return self._inv.codomain

    @property
    def codomain(self) -> Any:  # type: ignore[override]
        return self._inv.domain

    @property
    def bijective(self) -> Any:  # type: ignore[override]
        return self._inv.bijective

    @property
    def sign(self) -> Any:
        return self._inv.sign

    @property
    def inv(self) -> Any:
        return self._inv

    def __getstate__(self) -> dict:
        return self.__dict__

    def with_cache(self, cache_size: int = 1) -> Any:
        return self._inv.with_cache(cache_size).inv

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inv!r})"

    def __call__(self, x: Any) -> Any:
        return self._inv._inv_call(x)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Any) -> Any:
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self._inv.forward_shape(shape)
