"""Limits: clamp between numbers or tensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from flambeau.core.apply import apply1, apply_n
from flambeau.core.objects import TensorBase, dtype_of
from flambeau.kernels.pointwise import keep, limit, new, scalar
from flambeau.kernels.promotion import check_fits

from ._args import tensor
from ._pointwise import common, fused, is_number
from ._record import KERNEL, call, primitive, public
from ._shapes import elementwise


def _low(a: np.ndarray, low: Any) -> np.ndarray:
    return limit(a, low, math.inf) if a.dtype.char in "fd" else np.maximum(a, scalar(low, a.dtype))


def _high(a: np.ndarray, high: Any) -> np.ndarray:
    return limit(a, -math.inf, high) if a.dtype.char in "fd" else np.minimum(a, scalar(high, a.dtype))


def _clamp(a: np.ndarray, low: Any, high: Any) -> np.ndarray:
    if low is None:
        return _high(a, high)
    return _low(a, low) if high is None else limit(a, low, high, new(a))


def _clamp_backward(g: np.ndarray, a: np.ndarray, low: Any, high: Any) -> np.ndarray:
    if low is None:
        return keep(g, np.asarray(np.less_equal(a, scalar(high, a.dtype))))
    mask = np.asarray(np.greater_equal(a, scalar(low, a.dtype)))
    if high is not None:
        mask = np.asarray(np.logical_and(mask, np.less_equal(a, scalar(high, a.dtype))))
    return keep(g, mask)


def _inside(xp: Any, g: Any, a: Any, low: Any, high: Any) -> Any:
    if low is not None and high is not None:
        return xp.keep(g, (a >= low) & (a <= high))
    return xp.keep(g, a >= low if high is None else a <= high)


# At the bounds the gradient passes
fused("clamp_backward", _clamp_backward, _inside)
CLAMP = primitive("clamp", _clamp, params=("min", "max"), scalars=("min", "max"), pointwise=True, same_dtype=True,
                  expr=KERNEL, node="ClampBackward1",
                  self=lambda xp, g, self, min, max: xp.clamp_backward(g, self, min, max))
CLAMP_MIN = primitive("clamp_min", _low, params=("min",), scalars=("min",), pointwise=True, same_dtype=True,
                      expr="max(self, min)", node="ClampMinBackward0",
                      self=lambda xp, g, self, min: xp.clamp_backward(g, self, min, None))
CLAMP_MAX = primitive("clamp_max", _high, params=("max",), scalars=("max",),
                      pointwise=True, same_dtype=True, expr="min(self, max)", node="ClampMaxBackward0",
                      self=lambda xp, g, self, max: xp.clamp_backward(g, self, None, max))


def _clamp_tensor(a: np.ndarray, low: np.ndarray | None, high: np.ndarray | None) -> np.ndarray:
    x = a if low is None else np.maximum(a, low)
    return x if high is None else np.minimum(x, high)


def _clamp_joint(xp: Any, g: Any, needs: Any, self: Any, min: Any, max: Any) -> tuple:
    """torch's cases: the bound gets the gradient where it is what comes out."""
    inside = g if min is None else xp.keep(g, self >= min)
    inside = inside if max is None else xp.keep(inside, self <= max)
    low = high = None
    if min is not None and needs[1]:
        low = xp.keep(g, self < min)
        low = low if max is None else xp.keep(low, min < max)
    if max is not None and needs[2]:
        taken = self > max
        high = xp.keep(g, taken if min is None else taken | (max < min))
    return inside if needs[0] else None, low, high


CLAMP_TENSOR = primitive("clamp_tensor", _clamp_tensor, inputs=("self", "min", "max"), meta=elementwise(3),
                         batch="pointwise", expr=KERNEL, node="ClampBackward0",
                         joint=_clamp_joint)
CLAMP_MIN_TENSOR = primitive(
    "clamp_min_tensor", np.maximum, inputs=("self", "min"), meta=elementwise(2),
    batch="pointwise", expr="max(self, min)", node="ClampMinBackward1",
    self=lambda xp, g, self, min: xp.keep(g, self >= min), min=lambda xp, g, self, min: xp.keep(g, self < min))
CLAMP_MAX_TENSOR = primitive(
    "clamp_max_tensor", np.minimum, inputs=("self", "max"), meta=elementwise(2),
    batch="pointwise", expr="min(self, max)", node="ClampMaxBackward1",
    self=lambda xp, g, self, max: xp.keep(g, self <= max), max=lambda xp, g, self, max: xp.keep(g, self > max))


def _check(input: Any, *bounds: Any) -> None:
    if any(dtype_of(b).kind == "c" if isinstance(b, TensorBase) else isinstance(b, complex) for b in (input, *bounds)):
        raise NotImplementedError("clamp is not supported for complex types")


def _met(input: Any, *bounds: Any) -> Any:
    """input in the dtype in which it meets numbers."""
    kind = dtype_of(input).kind
    if kind == "f" or kind == "V":
        return input
    return common(input, *bounds)[0]


def _samples(t: Any) -> list:
    return [call(t(3, 4), -0.5, 0.5), call(t(), min=0.1), call(t(3, 4), max=0.2), call(t(3, 4), t(4), t(3, 1)),
            call(t(3, 4), min=t(3, 4)), call(t(3, dtype="int64"), 0, 1)]


@public(op=CLAMP, inplace=True, aliases=("clip",), samples=_samples,
        errors=lambda t: [(call(t(3)), RuntimeError, "At least one of 'min' or 'max'")])
def clamp(input: Any, min: Any = None, max: Any = None) -> Any:
    """min(max(input, min), max), elementwise; nan stays nan.

    Args:
        min, max: numbers or tensors that broadcast with input; None for no bound. Where min is above max the result
            is max.

    Returns:
        Tensor of the broadcast shape, of the dtype that input and the bounds promote to. At the bounds the gradient
        passes.

    Raises:
        RuntimeError: both bounds are None, or a complex dtype.

    >>> flambeau.clamp(flambeau.tensor([-2., 0., 2.]), -1, 1).tolist()
    [-1.0, 0.0, 1.0]
    """
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    tensor(input, "clamp")
    if isinstance(min, TensorBase) or isinstance(max, TensorBase):
        _check(input, min, max)
        if (min is not None and not isinstance(min, TensorBase)) or (max is not None and not isinstance(max, TensorBase)):
            raise TypeError("clamp() takes both bounds as numbers or both as tensors")
        return apply_n(CLAMP_TENSOR, common(input, min, max))
    if dtype_of(input).kind not in "fV":
        _check(input, min, max)
        input = _met(input, min, max)
        for bound in (min, max):
            if bound is not None:
                check_fits(bound, dtype_of(input))
    return apply1(CLAMP, input, (min, max))


def _one_bound(name: str, input: Any, bound: Any, op: Any, tensor_op: Any) -> Any:
    tensor(input, name)
    if isinstance(bound, TensorBase):
        _check(input, bound)
        return apply_n(tensor_op, common(input, bound))
    if not is_number(bound):
        raise TypeError(f"{name}() takes a number or a Tensor as bound, not {type(bound).__name__}")
    if dtype_of(input).kind not in "fV":
        _check(input, bound)
        input = _met(input, bound)
        check_fits(bound, dtype_of(input))
    return apply1(op, input, (bound,))


@public(op=CLAMP_MIN, inplace=True, samples=lambda t: [call(t(3, 4), 0.1), call(t(3, 4), t(4))])
def clamp_min(input: Any, min: Any) -> Any:
    """The larger of input and min, a number or a tensor, elementwise.

    >>> flambeau.clamp_min(flambeau.tensor([-2., 2.]), 0).tolist()
    [0.0, 2.0]
    """
    return _one_bound("clamp_min", input, min, CLAMP_MIN, CLAMP_MIN_TENSOR)


@public(op=CLAMP_MAX, inplace=True, samples=lambda t: [call(t(3, 4), 0.1), call(t(3, 4), t(4))])
def clamp_max(input: Any, max: Any) -> Any:
    """The smaller of input and max, a number or a tensor, elementwise.

    >>> flambeau.clamp_max(flambeau.tensor([-2., 2.]), 0).tolist()
    [-2.0, 0.0]
    """
    return _one_bound("clamp_max", input, max, CLAMP_MAX, CLAMP_MAX_TENSOR)


