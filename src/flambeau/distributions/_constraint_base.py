"""What a constraint is, and the placeholder for those that depend on other variables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["Constraint", "is_dependent"]


class Constraint:
    """A set of values.

    Attributes:
        is_discrete: whether it holds isolated points only.
        event_dim: how many of the last dimensions are tested together.

    >>> flambeau.distributions.constraints.positive.check(flambeau.tensor([-1.0, 2.0]))
    tensor([False,  True])
    """

    is_discrete: Any = False
    event_dim: Any = 0
    _shown: tuple[str, ...] = ()

    def check(self, value: Any) -> Any:
        """A bool tensor: which events of `value` satisfy the constraint; its shape lacks the event's dimensions."""
        raise NotImplementedError(f"{type(self).__name__} does not implement check().")

    def __repr__(self) -> str:
        name = type(self).__name__.removeprefix("_")
        return f"{name}({', '.join(f'{field}={getattr(self, field)}' for field in self._shown)})"


class _Dependent(Constraint):
    """A constraint that cannot be known without other variables, and so is not checked.

    Args:
        is_discrete, event_dim: given where they are known all the same.
    """

    def __init__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> None:
        self._is_discrete = is_discrete
        self._event_dim = event_dim
        super().__init__()

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        if self._is_discrete is NotImplemented:
            raise NotImplementedError(".is_discrete cannot be determined statically: read it from an instance.")
        return self._is_discrete

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        if self._event_dim is NotImplemented:
            raise NotImplementedError(".event_dim cannot be determined statically: read it from an instance.")
        return self._event_dim

    def __call__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> _Dependent:
        """The same, with what is known now."""
        return _Dependent(is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
                          event_dim=self._event_dim if event_dim is NotImplemented else event_dim)

    def check(self, x: Any) -> Any:
        raise ValueError("Cannot determine validity of dependent constraint: it is known of an instance only.")


def is_dependent(constraint: Any) -> bool:
    """Whether `constraint` is a placeholder that cannot be checked."""
    return isinstance(constraint, _Dependent)


class _DependentProperty(property, _Dependent):
    """A property that is a constraint on an instance, and a placeholder with attributes on the class.

    >>> class Scaled(flambeau.distributions.Distribution):
    ...     @flambeau.distributions.constraints.dependent_property(is_discrete=False, event_dim=0)
    ...     def support(self):
    ...         return flambeau.distributions.constraints.interval(-self.scale, self.scale)
    >>> Scaled.support.event_dim
    0
    """

    def __init__(self, fn: Callable | None = None, *, is_discrete: Any = NotImplemented,
                 event_dim: Any = NotImplemented) -> None:
        property.__init__(self, fn)
        _Dependent.__init__(self, is_discrete=is_discrete, event_dim=event_dim)

    def __call__(self, fn: Callable) -> _DependentProperty:  # type: ignore[override]
        """The decorator that `dependent_property(...)` with arguments is."""
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)
