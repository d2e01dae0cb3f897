"""atleast_1d, atleast_2d, atleast_3d."""

from __future__ import annotations

from typing import Any

from flambeau.core.objects import shape_of

from ._args import tensor
from ._record import call, public
from .shape import reshaped, unsqueeze


def _each(name: str, fn: Any, tensors: tuple) -> Any:
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        return tuple(fn(t) for t in tensors[0])
    if len(tensors) == 1:
        return fn(tensor(tensors[0], name))
    return tuple(fn(t) for t in tensors)


def _at_least_1d(t: Any) -> Any:
    return reshaped(t, (1,)) if len(shape_of(t)) == 0 else t


def _at_least_2d(t: Any) -> Any:
    n = len(shape_of(t))
    return reshaped(t, (1, 1)) if n == 0 else unsqueeze(t, 0) if n == 1 else t


def _at_least_3d(t: Any) -> Any:
    n = len(shape_of(t))
    if n == 0:
        return reshaped(t, (1, 1, 1))
    return unsqueeze(unsqueeze(t, 0), -1) if n == 1 else unsqueeze(t, -1) if n == 2 else t


@public(out=False, method=False, samples=lambda t: [call(t()), call(t(2)), call(t(), t(2))])
def atleast_1d(*tensors: Any) -> Any:
    """Each tensor with at least one dimension.

    >>> flambeau.atleast_1d(flambeau.tensor(1.)).shape
    torch.Size([1])
    """
    return _each("atleast_1d", _at_least_1d, tensors)


@public(out=False, method=False, samples=lambda t: [call(t()), call(t(2)), call(t(), t(2, 3))])
def atleast_2d(*tensors: Any) -> Any:
    """Each tensor with at least two dimensions: new ones in front.

    >>> flambeau.atleast_2d(flambeau.tensor([1., 2.])).shape
    torch.Size([1, 2])
    """
    return _each("atleast_2d", _at_least_2d, tensors)


@public(out=False, method=False, samples=lambda t: [call(t()), call(t(2)), call(t(), t(2, 3))])
def atleast_3d(*tensors: Any) -> Any:
    """Each tensor with at least three dimensions: (n) becomes (1, n, 1) and (m, n) becomes (m, n, 1).

    >>> flambeau.atleast_3d(flambeau.tensor([1., 2.])).shape
    torch.Size([1, 2, 1])
    """
    return _each("atleast_3d", _at_least_3d, tensors)
