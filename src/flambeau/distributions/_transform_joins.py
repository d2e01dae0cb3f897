"""Transforms made of transforms: one after the other, side by side, over more dimensions; and reshaping."""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from typing import Any

import flambeau
from flambeau.core.size import Size

from . import constraints
from ._transform_base import Transform, at_least
from .utils import _sum_rightmost


def _widened(constraint: Any, event_dim: int) -> Any:
    """The constraint over that many event dimensions."""
    extra = event_dim - constraint.event_dim
    return constraints.independent(constraint, extra) if extra > 0 else constraint


class ComposeTransform(Transform):
    """One transform after the other, the first of the list first.

    Args:
        parts: transforms. The empty list is the identity.
        cache_size: of the parts.

    >>> ComposeTransform([flambeau.distributions.ExpTransform(),
    ...                   flambeau.distributions.AffineTransform(1.0, 2.0)])(flambeau.tensor(0.0))
    tensor(3.)
    """

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else parts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and list(self.parts) == list(other.parts)

    __hash__ = None  # type: ignore[assignment]

    def _event_dims(self) -> list[int]:
        """The event dimensions before each part, and after the last: the least that suit all parts."""
        change = [0]        # of their number, from the first part on
        for part in self.parts:
            change.append(change[-1] + part.codomain.event_dim - part.domain.event_dim)
        first = max([p.domain.event_dim - c for p, c in zip(self.parts, change, strict=False)], default=0)
        return [first + c for c in change]

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:  # type: ignore[override]
        return _widened(self.parts[0].domain, self._event_dims()[0]) if self.parts else constraints.real

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:  # type: ignore[override]
        return _widened(self.parts[-1].codomain, self._event_dims()[-1]) if self.parts else constraints.real

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return all(part.bijective for part in self.parts)

    @property
    def sign(self) -> Any:
        return math.prod(part.sign for part in self.parts)

    @property
    def inv(self) -> Any:
        inverse = None if self._inv is None else self._inv()
        if inverse is None:
            inverse = ComposeTransform([part.inv for part in reversed(self.parts)])
            self._inv, inverse._inv = weakref.ref(inverse), weakref.ref(self)
        return inverse

    def with_cache(self, cache_size: int = 1) -> Any:
        return self if self._cache_size == cache_size else ComposeTransform(self.parts, cache_size=cache_size)

    def __call__(self, x: Any) -> Any:
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        if not self.parts:
            return flambeau.zeros_like(x)
        total: Any = None
        for i, (part, event_dim) in enumerate(zip(self.parts, self._event_dims(), strict=False)):
            image = y if i == len(self.parts) - 1 else part(x)
            term = _sum_rightmost(part.log_abs_det_jacobian(x, image), event_dim - part.domain.event_dim)
            total = term if total is None else total + term
            x = image
        return total

    def forward_shape(self, shape: Any) -> Any:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        return type(self).__name__ + "(\n    " + ",\n    ".join(repr(part) for part in self.parts) + "\n)"


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """A transform whose last batch dimensions are part of the event: the Jacobian is summed over them.

    Args:
        base_transform: what is applied.
        reinterpreted_batch_ndims: how many more dimensions make an event.

    >>> exp = IndependentTransform(flambeau.distributions.ExpTransform(), 1)
    >>> exp.log_abs_det_jacobian(flambeau.tensor([1.0, 2.0]), None)
    tensor(3.)
    """

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return IndependentTransform(self.base_transform, self.reinterpreted_batch_ndims, cache_size=cache_size)

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:  # type: ignore[override]
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:  # type: ignore[override]
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return self.base_transform.bijective

    @property
    def sign(self) -> Any:
        return self.base_transform.sign

    def _call(self, x: Any) -> Any:
        at_least(x.shape, self.domain.event_dim)
        return self.base_transform(x)

    def _inverse(self, y: Any) -> Any:
        at_least(y.shape, self.codomain.event_dim)
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return _sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"

    def forward_shape(self, shape: Any) -> Any:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self.base_transform.inverse_shape(shape)


class ReshapeTransform(Transform):
    """Another shape for the last dimensions, which are the event.

    Args:
        in_shape, out_shape: shapes of as many entries.

    >>> ReshapeTransform((4,), (2, 2))(flambeau.zeros(3, 4)).shape
    torch.Size([3, 2, 2])
    """

    bijective = True

    def __init__(self, in_shape: Any, out_shape: Any, cache_size: int = 0) -> None:
        self.in_shape = Size(in_shape)
        self.out_shape = Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError(f"in_shape, out_shape have different numbers of elements: {tuple(self.in_shape)} and "
                             f"{tuple(self.out_shape)}.")
        super().__init__(cache_size=cache_size)

    @constraints.dependent_property
    def domain(self) -> Any:  # type: ignore[override]
        return constraints.independent(constraints.real, len(self.in_shape))

    @constraints.dependent_property
    def codomain(self) -> Any:  # type: ignore[override]
        return constraints.independent(constraints.real, len(self.out_shape))

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return ReshapeTransform(self.in_shape, self.out_shape, cache_size=cache_size)

    def _call(self, x: Any) -> Any:
        return x.reshape(x.shape[:x.dim() - len(self.in_shape)] + self.out_shape)

    def _inverse(self, y: Any) -> Any:
        return y.reshape(y.shape[:y.dim() - len(self.out_shape)] + self.in_shape)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return x.new_zeros(x.shape[:x.dim() - len(self.in_shape)])

    @staticmethod
    def _swap(shape: Any, old: Size, new: Size) -> Any:
        if len(shape) < len(old):
            raise ValueError(f"Too few dimensions on input: expected {tuple(old)} at the end, got {tuple(shape)}.")
        cut = len(shape) - len(old)
        if tuple(shape[cut:]) != tuple(old):
            raise ValueError(f"Shape mismatch: expected {tuple(old)} at the end but got {tuple(shape[cut:])}.")
        return shape[:cut] + new

    def forward_shape(self, shape: Any) -> Any:
        return self._swap(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self._swap(shape, self.out_shape, self.in_shape)


class _SideBySide(Transform):
    """Transforms of slices along dimension `dim`."""

    def __init__(self, tseq: Sequence[Transform], dim: int, cache_size: int) -> None:
        if not all(isinstance(t, Transform) for t in tseq):
            raise AssertionError(f"All elements of tseq must be Transform instances, got {list(tseq)}.")
        if cache_size:
            tseq = [t.with_cache(cache_size) for t in tseq]
        super().__init__(cache_size=cache_size)
        self.transforms = list(tseq)
        self.dim = dim

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return all(t.bijective for t in self.transforms)

    def _slices(self, x: Any) -> list:
        raise NotImplementedError

    def _join(self, parts: list) -> Any:
        raise NotImplementedError

    def _call(self, x: Any) -> Any:
        return self._join([t(part) for t, part in zip(self.transforms, self._slices(x), strict=True)])

    def _inverse(self, y: Any) -> Any:
        return self._join([t.inv(part) for t, part in zip(self.transforms, self._slices(y), strict=True)])

    def _jacobians(self, x: Any, y: Any) -> list:
        triples = zip(self.transforms, self._slices(x), self._slices(y), strict=True)
        return [t.log_abs_det_jacobian(a, b) for t, a, b in triples]

    def _need(self, x: Any, size: int, what: str) -> None:
        if not -x.dim() <= self.dim < x.dim():
            raise AssertionError(f"{type(self).__name__} is along dimension {self.dim}, the value has {x.dim()}.")
        if x.size(self.dim) != size:
            raise AssertionError(f"size({self.dim}) is {x.size(self.dim)}, but must equal {what} {size}.")


class CatTransform(_SideBySide):
    """Transforms of consecutive slices: the k-th maps `lengths[k]` indices of dimension `dim`.

    Args:
        tseq: transforms.
        dim: the dimension that is cut.
        lengths: 1 each when None.

    >>> parts = [flambeau.distributions.ExpTransform(), flambeau.distributions.identity_transform]
    >>> CatTransform(parts, lengths=[1, 2])(flambeau.zeros(3))
    tensor([1., 0., 0.])
    """

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None,
                 cache_size: int = 0) -> None:
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise AssertionError(f"lengths must have one number for each of {len(self.transforms)} transforms, got "
                                 f"{self.lengths}.")

    @property
    def event_dim(self) -> int:
        return max(t.event_dim for t in self.transforms)

    @property
    def length(self) -> int:
        """Size of the dimension that is cut."""
        return sum(self.lengths)

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _slices(self, x: Any) -> list:
        self._need(x, self.length, "length")
        return list(x.split(self.lengths, self.dim))

    def _join(self, parts: list) -> Any:
        return flambeau.cat(parts, dim=self.dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        terms = [_sum_rightmost(term, self.event_dim - t.event_dim)
                 for t, term in zip(self.transforms, self._jacobians(x, y), strict=True)]
        # Counted from the end, the cut dimension is `event_dim` closer to it among the Jacobians, or inside the event.
        dim = (self.dim - x.dim() if self.dim >= 0 else self.dim) + self.event_dim
        return flambeau.cat(terms, dim=dim) if dim < 0 else sum(terms)

    @constraints.dependent_property
    def domain(self) -> Any:  # type: ignore[override]
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self) -> Any:  # type: ignore[override]
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)


class StackTransform(_SideBySide):
    """One transform for each index of dimension `dim`.

    Args:
        tseq: transforms.
        dim: the dimension they are spread over.

    >>> parts = [flambeau.distributions.ExpTransform(), flambeau.distributions.identity_transform]
    >>> StackTransform(parts)(flambeau.zeros(2))
    tensor([1., 0.])
    """

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(tseq, dim, cache_size)

    def with_cache(self, cache_size: int = 1) -> Any:
        return self if self._cache_size == cache_size else StackTransform(self.transforms, self.dim, cache_size)

    def _slices(self, x: Any) -> list:
        self._need(x, len(self.transforms), "len(transforms)")
        return list(x.unbind(self.dim))

    def _join(self, parts: list) -> Any:
        return flambeau.stack(parts, dim=self.dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return self._join(self._jacobians(x, y))

    @constraints.dependent_property
    def domain(self) -> Any:  # type: ignore[override]
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self) -> Any:  # type: ignore[override]
        return constraints.stack([t.codomain for t in self.transforms], self.dim)
