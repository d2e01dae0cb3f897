"""Constraints: the sets that parameters and draws must lie in.

A constraint tests a tensor entry by entry, or event by event where `event_dim` is not 0, with `check(value)`.
Those without parameters are objects (`positive`, `simplex`); the others are classes to call (`interval(0, 1)`).
`flambeau.distributions.biject_to` and `transform_to` give the transform that leads from unconstrained numbers into one.
"""

from __future__ import annotations

from typing import Any

from ._constraint_base import Constraint, _Dependent, _DependentProperty, is_dependent
from ._constraint_joins import (
    MixtureSameFamilyConstraint,
    _Cat,
    _IndependentConstraint,
    _Stack,
)
from ._constraint_matrices import (
    _CorrCholesky,
    _LowerCholesky,
    _LowerTriangular,
    _PositiveDefinite,
    _PositiveSemidefinite,
    _Square,
    _Symmetric,
)

__all__ = [
    "Constraint", "MixtureSameFamilyConstraint", "boolean", "cat", "corr_cholesky", "dependent", "dependent_property",
    "greater_than", "greater_than_eq", "half_open_interval", "independent", "integer_interval", "interval",
    "is_dependent", "less_than", "lower_cholesky", "lower_triangular", "multinomial", "nonnegative",
    "nonnegative_integer", "one_hot", "positive", "positive_definite", "positive_integer", "positive_semidefinite",
    "real", "real_vector", "simplex", "square", "stack", "symmetric", "unit_interval",
]


class _Above(Constraint):
    """Bounded below."""

    _shown = ("lower_bound",)

    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound
        super().__init__()


class _Below(Constraint):
    """Bounded above."""

    _shown = ("upper_bound",)

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound
        super().__init__()


class _Between(Constraint):
    """Bounded on both sides."""

    _shown = ("lower_bound", "upper_bound")

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound = lower_bound
        self.upper_bound = upper_bound
        super().__init__()


class _Real(Constraint):
    """Any number: not nan."""

    def check(self, value: Any) -> Any:
        return value == value


class _GreaterThan(_Above):
    """value > lower_bound."""

    def check(self, value: Any) -> Any:
        return self.lower_bound < value


class _GreaterThanEq(_Above):
    """value >= lower_bound."""

    def check(self, value: Any) -> Any:
        return self.lower_bound <= value


class _LessThan(_Below):
    """value < upper_bound."""

    def check(self, value: Any) -> Any:
        return value < self.upper_bound


class _Interval(_Between):
    """lower_bound <= value <= upper_bound."""

    def check(self, value: Any) -> Any:
        return (self.lower_bound <= value) & (value <= self.upper_bound)


class _HalfOpenInterval(_Between):
    """lower_bound <= value < upper_bound."""

    def check(self, value: Any) -> Any:
        return (self.lower_bound <= value) & (value < self.upper_bound)


def _whole(value: Any) -> Any:
    return value % 1 == 0


class _Boolean(Constraint):
    """0 or 1."""

    is_discrete = True

    def check(self, value: Any) -> Any:
        return (value == 0) | (value == 1)


class _IntegerInterval(_Between):
    """Whole numbers from lower_bound to upper_bound, both included."""

    is_discrete = True

    def check(self, value: Any) -> Any:
        return _whole(value) & (self.lower_bound <= value) & (value <= self.upper_bound)


class _IntegerLessThan(_Below):
    """Whole numbers up to upper_bound, included."""

    is_discrete = True

    def check(self, value: Any) -> Any:
        return _whole(value) & (value <= self.upper_bound)


class _IntegerGreaterThan(_Above):
    """Whole numbers from lower_bound on, included."""

    is_discrete = True

    def check(self, value: Any) -> Any:
        return _whole(value) & (self.lower_bound <= value)


class _OneHot(Constraint):
    """Vectors of one 1 among 0s."""

    is_discrete = True
    event_dim = 1

    def check(self, value: Any) -> Any:
        return ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1)


class _Simplex(Constraint):
    """Non-negative vectors of sum 1, within 1e-6."""

    event_dim = 1

    def check(self, value: Any) -> Any:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(_Below):
    """Non-negative vectors of counts whose sum is at most upper_bound."""

    _shown = ()
    is_discrete = True
    event_dim = 1

    def check(self, value: Any) -> Any:
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)


dependent = _Dependent()
dependent_property = _DependentProperty
independent = _IndependentConstraint
boolean = _Boolean()
one_hot = _OneHot()
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
integer_interval = _IntegerInterval
real = _Real()
real_vector = independent(real, 1)
positive = _GreaterThan(0.0)
nonnegative = _GreaterThanEq(0.0)
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
multinomial = _Multinomial
unit_interval = _Interval(0.0, 1.0)
interval = _Interval
half_open_interval = _HalfOpenInterval
simplex = _Simplex()
lower_triangular = _LowerTriangular()
lower_cholesky = _LowerCholesky()
corr_cholesky = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
positive_semidefinite = _PositiveSemidefinite()
positive_definite = _PositiveDefinite()
cat = _Cat
stack = _Stack
