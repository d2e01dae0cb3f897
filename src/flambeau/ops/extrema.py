"""Greatest and least elements: max, min, amax, amin, aminmax, argmax, argmin.

A reduction of all or of several dimensions shares its gradient among equal elements; along one dimension, where a
position is returned too, the gradient goes there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.apply import apply1, apply_n
from flambeau.core.objects import TensorBase
from flambeau.core.op import slot
from flambeau.kernels import reduce as k
from flambeau.kernels.pointwise import F32, F64

from . import comparison  # noqa: F401  it registers isnan and the comparisons
from ._along import pair, selection
from ._args import dim as one_dim
from ._args import ndim, tensor
from ._lazy import evaluated
from ._meta import Meta
from ._pointwise import call2, fused
from ._record import KERNEL, call, kernels, ops, primitive, public
from ._return_types import return_type
from ._shapes import always, reduced, same, scalar
from .reduction import along_gradient, as_dim, reduction_samples, restore

# --------------------------------------------------------------------------------- shared among equal elements


def _share(xp: Any, g: Any, a: Any, out: Any, dim: Any, keepdim: bool) -> Any:
    """g, divided by the number of winners, at the winners; a nan is equal to none of them, and all get nan."""
    best = restore(xp, out, a.shape, dim, keepdim)
    winners = a == best
    share = xp.spread(g / xp.count_as(winners, g, dim, keepdim), a.shape, dim, keepdim)
    return xp.keep(share, winners | xp.isnan(best))


def _share_of_all(xp: Any, g: Any, a: Any, out: Any) -> Any:
    """The same of a whole tensor, where a nan is met by every nan."""
    winners = (a == out) | (xp.isnan(a) & xp.isnan(out))
    return xp.keep(xp.spread(g / xp.count_as(winners, g, None, False), a.shape, None, False), winners)


def _count_as(winners: np.ndarray, g: np.ndarray, dim: Any, keepdim: bool) -> np.ndarray:
    n = np.asarray(k.sum(winners, dim, keepdim)).astype(g.dtype)
    np.copyto(n, np.array(np.nan, n.dtype), where=n == 0)
    return n


def _count_shape(winners: Meta, g: Meta, dim: Any, keepdim: bool) -> Meta:
    return Meta(k.reduced_shape(winners.shape, dim, keepdim), g.dtype)


def _count_tensors(winners: TensorBase, g: TensorBase, dim: Any, keepdim: bool) -> TensorBase:
    return evaluated(_count_as, _count_shape, [winners, g], dim, keepdim)


kernels.count_as, ops.count_as = _count_as, _count_tensors


def _share_all(g: np.ndarray, a: np.ndarray, out: np.ndarray) -> np.ndarray:
    winners = a == out
    n = np.count_nonzero(winners)
    if n == 0:              # the extremum is a nan
        winners = np.isnan(a)
        n = np.count_nonzero(winners)
    return np.multiply(winners, g if n == 1 else np.divide(g, n, np.empty((), g.dtype)))


fused("share_all", _share_all, _share_of_all)


def _extreme_all(name: str, ufunc: np.ufunc, whole: Any) -> Any:
    reduce, empty = ufunc.reduce, np.empty
    place = np.ndarray.argmax if name == "max" else np.ndarray.argmin

    def kernel(a: np.ndarray) -> np.ndarray:
        d = a.dtype
        if (d is F32 or d is F64) and 0 < a.size <= k.FEW:
            out = empty((), d)
            out.fill(a.item(place(a)))      # starts four times as fast as a reduction, and finds a nan first, too
            return out
        if a.size == 0 or d.kind == "c":
            return whole(a)
        out = empty((), d)
        reduce(a, None, None, out)
        return out

    return primitive(f"{name}_all", kernel, node=f"{name.capitalize()}Backward1", meta=scalar(empty=False), expr=KERNEL,
                     self=lambda xp, g, self, out: xp.share_all(g, self, out))


def _amax_formula(xp: Any, g: Any, self: Any, out: Any, dim: Any, keepdim: bool) -> Any:
    return _share(xp, g, self, out, dim, keepdim)


MAX_ALL, MIN_ALL = _extreme_all("max", np.maximum, k.max), _extreme_all("min", np.minimum, k.min)
AMAX = primitive("amax", k.amax, params=("dim", "keepdim"), meta=reduced(empty=False), expr=KERNEL, self=_amax_formula,
                 jvp=along_gradient(_amax_formula))
AMIN = primitive("amin", k.amin, params=("dim", "keepdim"), meta=reduced(empty=False), expr=KERNEL, self=_amax_formula,
                 jvp=along_gradient(_amax_formula))


def _aminmax_joint(xp: Any, g: Any, needs: list, self: Any, out0: Any, out1: Any, dim: Any, keepdim: bool) -> tuple:
    parts = [_share(xp, gi, self, out, dim, keepdim) for gi, out in zip(g, (out0, out1), strict=True) if gi is not None]
    return (parts[0] if len(parts) == 1 else parts[0] + parts[1],)


AMINMAX = primitive("aminmax", k.aminmax, params=("dim", "keepdim"), outputs=(True, True),
                    meta=reduced(outputs=(same, same), empty=False), expr=KERNEL, joint=_aminmax_joint)
MAX_DIM = selection("max", k.max_dim, ("dim", "keepdim"))
MIN_DIM = selection("min", k.min_dim, ("dim", "keepdim"))


def _empty_errors(t: Any) -> list:
    return [(call(t(3), 4), IndexError, "out of range"), (call(t(0, 2), 0), IndexError, "non-zero size")]


@public(op=AMAX, samples=reduction_samples(), errors=_empty_errors)
def amax(input: Any, dim: Any = (), keepdim: bool = False) -> Any:
    """Greatest element, of all or along dimensions; nan if there is one. Equal elements share the gradient.

    Raises:
        IndexError: a reduced dimension is empty.

    >>> flambeau.amax(flambeau.tensor([[1., 2.], [4., 3.]]), 1).tolist()
    [2.0, 4.0]
    """
    return apply1(AMAX, tensor(input, "amax"), (as_dim(dim), keepdim))


@public(op=AMIN, samples=reduction_samples(), errors=_empty_errors)
def amin(input: Any, dim: Any = (), keepdim: bool = False) -> Any:
    """Least element, of all or along dimensions; nan if there is one. Equal elements share the gradient.

    Raises:
        IndexError: a reduced dimension is empty.

    >>> flambeau.amin(flambeau.tensor([[1., 2.], [4., 3.]]), 1).tolist()
    [1.0, 3.0]
    """
    return apply1(AMIN, tensor(input, "amin"), (as_dim(dim), keepdim))


@public(op=AMINMAX, samples=lambda t: [call(t(3, 4)), call(t(3, 4), dim=1), call(t(3, 4), dim=-2, keepdim=True), call(t())],
        errors=lambda t: [(call(t(0)), RuntimeError, "no identity")])
def aminmax(input: Any, *, dim: int | None = None, keepdim: bool = False) -> Any:
    """Least and greatest elements, of all or along one dimension.

    Returns:
        (min, max).

    >>> flambeau.aminmax(flambeau.tensor([1., 3., 2.])).max.item()
    3.0
    """
    return return_type("aminmax", "min", "max")(apply_n(AMINMAX, [tensor(input, "aminmax")], (dim, keepdim)))


# --------------------------------------------------------------------------------- max and min in their three forms

_RESULTS = {"max": return_type("max"), "min": return_type("min")}
_MAXIMUM, _MINIMUM = slot("maximum"), slot("minimum")


def _three_forms(name: str, along: Any, binary: Any, input: Any, dim: Any, keepdim: bool, other: Any) -> Any:
    tensor(input, name)
    if other is None and isinstance(dim, TensorBase):
        dim, other = None, dim
    if other is not None:
        if dim is not None:
            raise TypeError(f"{name}() received an invalid combination of arguments: give another tensor or dim, not both")
        return call2(binary, input, other, name)
    if not isinstance(dim, (int, np.integer)):
        raise TypeError(f"{name}() received an invalid combination of arguments: dim must be int, not {type(dim).__name__}"
                        f"; a{name}() takes several dimensions")
    return pair(_RESULTS[name], along, input, (one_dim(dim, ndim(input)), keepdim))


def _max_samples(t: Any) -> list:
    return [call(t(3, 4)), call(t(3, 4), 1), call(t(3, 4), dim=-2, keepdim=True), call(t()), call(t(), 0),
            call(t(3, 4), t(3, 4)), call(t(4, 3, transposed=True), 0), call(t(5, dtype="int64"), 0)]


def _max_errors(t: Any) -> list:
    return [(call(t(3), 4), IndexError, "out of range"), (call(t(0)), RuntimeError, "Expected reduction dim"),
            (call(t(0, 2), 0), IndexError, "non-zero size"), (call(t(2, 2), (0, 1)), TypeError, "invalid combination")]


@public(op=MAX_DIM, samples=_max_samples, errors=_max_errors)
def max(input: Any, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """Greatest element of all; or along one dimension, with positions; or of two tensors, elementwise.

    Args:
        input: real tensor.
        dim: None for all elements; a dimension; or another tensor, for `maximum`.

    Returns:
        A 0-d tensor, equal elements sharing its gradient; or (values, indices), the first position of each; or a
        tensor of the broadcast shape. nan is greatest.

    Raises:
        RuntimeError: input is empty and no dim is given.
        IndexError: dim is out of range, or empty.

    >>> flambeau.max(flambeau.tensor([[1., 2.], [4., 3.]]), 1).indices.tolist()
    [1, 0]
    """
    if dim is None and other is None and isinstance(input, TensorBase) and not keepdim:
        return apply1(MAX_ALL, input)
    return _three_forms("max", MAX_DIM, _MAXIMUM, input, dim, keepdim, other)


@public(op=MIN_DIM, samples=_max_samples, errors=_max_errors)
def min(input: Any, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """Least element of all; or along one dimension, with positions; or of two tensors, elementwise. See `max`.

    >>> flambeau.min(flambeau.tensor([[1., 2.], [4., 3.]]), 1).values.tolist()
    [1.0, 3.0]
    """
    if dim is None and other is None and isinstance(input, TensorBase) and not keepdim:
        return apply1(MIN_ALL, input)
    return _three_forms("min", MIN_DIM, _MINIMUM, input, dim, keepdim, other)


ARGMAX = primitive("argmax", k.argmax, params=("dim", "keepdim"), differentiable=False,
                   meta=reduced(always("i8"), empty=False), expr=KERNEL)
ARGMIN = primitive("argmin", k.argmin, params=("dim", "keepdim"), differentiable=False,
                   meta=reduced(always("i8"), empty=False), expr=KERNEL)


def _arg_samples(t: Any) -> list:
    return [call(t(3, 4, grad=False)), call(t(3, 4, grad=False), 1), call(t(3, 4, grad=False), dim=-2, keepdim=True),
            call(t(grad=False)), call(t(3, dtype="int64"))]


@public(op=ARGMAX, differentiable=False, samples=_arg_samples, errors=lambda t: [
    (call(t(0)), IndexError, "Expected reduction dim to be specified"), (call(t(3), 4), IndexError, "out of range")])
def argmax(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """Position (int64) of the greatest element along dim, the first of equal ones; of the flattened input without dim.

    >>> flambeau.argmax(flambeau.tensor([1., 3., 2.])).item()
    1
    """
    return apply1(ARGMAX, tensor(input, "argmax"), (dim, keepdim))


@public(op=ARGMIN, differentiable=False, samples=_arg_samples, errors=lambda t: [
    (call(t(0)), IndexError, "Expected reduction dim to be specified"), (call(t(3), 4), IndexError, "out of range")])
def argmin(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """Position (int64) of the least element along dim, the first of equal ones; of the flattened input without dim.

    >>> flambeau.argmin(flambeau.tensor([3., 1., 2.])).item()
    1
    """
    return apply1(ARGMIN, tensor(input, "argmin"), (dim, keepdim))
