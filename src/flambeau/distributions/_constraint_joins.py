"""Constraints made of constraints."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import flambeau

from ._constraint_base import Constraint


class _IndependentConstraint(Constraint):
    """`base_constraint` for every entry along the last `reinterpreted_batch_ndims` dimensions at once."""

    def __init__(self, base_constraint: Any, reinterpreted_batch_ndims: int) -> None:
        if not isinstance(base_constraint, Constraint) or not isinstance(reinterpreted_batch_ndims, int) \
                or reinterpreted_batch_ndims < 0:
            raise AssertionError("independent() takes a constraint and a number of dimensions, got "
                                 f"{base_constraint!r} and {reinterpreted_batch_ndims!r}.")
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        super().__init__()

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value: Any) -> Any:
        valid = self.base_constraint.check(value)
        n = self.reinterpreted_batch_ndims
        if valid.ndim < n:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}: {self!r} tests that "
                             "many dimensions together.")
        return valid if n == 0 else valid.flatten(-n).all(-1)

    def __repr__(self) -> str:
        return f"{type(self).__name__[1:]}({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(Constraint):
    """Values that every component of a mixture admits; the components are the last dimension of its batch.

    Args:
        base_constraint: the support of the components.
    """

    def __init__(self, base_constraint: Any) -> None:
        if not isinstance(base_constraint, Constraint):
            raise AssertionError(f"MixtureSameFamilyConstraint takes a constraint, got {base_constraint!r}.")
        self.base_constraint = base_constraint
        super().__init__()

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return self.base_constraint.event_dim

    def check(self, value: Any) -> Any:
        valid = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        return valid.flatten(value.ndim - self.event_dim).all(-1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_constraint!r})"


class _SideBySide(Constraint):
    """Constraints of slices along dimension `dim`."""

    def __init__(self, cseq: Sequence, dim: int) -> None:
        self.cseq = list(cseq)
        if not all(isinstance(c, Constraint) for c in self.cseq):
            raise AssertionError(f"{self._called()} takes constraints, got {self.cseq}.")
        self.dim = dim
        super().__init__()

    def _called(self) -> str:
        """What a program calls to make one."""
        return f"{type(self).__name__[1:].lower()}()"

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return any(c.is_discrete for c in self.cseq)

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return max(c.event_dim for c in self.cseq)

    def _slices(self, value: Any) -> list:
        raise NotImplementedError

    def _checks(self, value: Any) -> list:
        if not -value.dim() <= self.dim < value.dim():
            raise AssertionError(f"{self._called()} is along dimension {self.dim}, the value has {value.dim()}.")
        # PyTorch's stack() leaves further slices untested, as ours does.
        return [c.check(part) for c, part in zip(self.cseq, self._slices(value), strict=False)]


class _Cat(_SideBySide):
    """Constraints side by side along dimension `dim`: the k-th holds for a slice of length `lengths[k]`.

    Args:
        cseq: the constraints.
        dim: the dimension that is cut, of each constraint's slice.
        lengths: 1 each when None.
    """

    def __init__(self, cseq: Sequence, dim: int = 0, lengths: Sequence[int] | None = None) -> None:
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise AssertionError(f"cat() got {len(self.cseq)} constraints and {len(self.lengths)} lengths.")

    def _slices(self, value: Any) -> list:
        starts = accumulate(self.lengths, initial=0)
        return [value.narrow(self.dim, start, length) for start, length in zip(starts, self.lengths, strict=False)]

    def check(self, value: Any) -> Any:
        return flambeau.cat(self._checks(value), self.dim)


class _Stack(_SideBySide):
    """One constraint for each index of dimension `dim`."""

    def __init__(self, cseq: Sequence, dim: int = 0) -> None:
        super().__init__(cseq, dim)

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        inner = super().event_dim
        return inner + 1 if self.dim + inner < 0 else inner

    def _slices(self, value: Any) -> list:
        return list(value.unbind(self.dim))

    def check(self, value: Any) -> Any:
        return flambeau.stack(self._checks(value), self.dim)
