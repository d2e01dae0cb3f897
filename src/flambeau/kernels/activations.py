"""Activations and their derivatives: few passes, into one fresh buffer.

A derivative `x_backward(g, saved, ...)` is the product of g and the activation's derivative. Half precision is
computed in float32 and rounded once.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .error_function import normal_cdf
from .layout import empty_like
from .pointwise import (
    F32,
    F64,
    HALVES,
    ONES,
    ZEROS,
    clip,
    drop,
    elementwise,
    keep,
    limit,
    new,
    not_implemented,
    scalar,
    select,
    steps,
    wide,
)

_INV_SQRT_2PI = 1.0 / math.sqrt(2.0 * math.pi)
_TANH_SCALE = math.sqrt(2.0 / math.pi)
_TANH_CUBE = 0.044715
_INF = {d: scalar(math.inf, d) for d in (F32, F64)}


def floats(kernel: str, a: np.ndarray) -> None:
    """Refuse what is not floating."""
    if a.dtype.kind not in "fV":
        raise not_implemented(kernel, a)


def _ordered(a: np.ndarray) -> None:
    if a.dtype.kind == "b":
        raise RuntimeError("Boolean inputs not supported for relu")
    if a.dtype.kind == "c":
        raise NotImplementedError("relu: clamp is not supported for complex types")


def relu(a: np.ndarray) -> np.ndarray:
    d = a.dtype
    if d is F32 or d is F64:
        return clip(a, ZEROS[d], _INF[d], new(a))         # keeps -0 and nan, and is four times as fast as np.maximum
    _ordered(a)
    return np.maximum(a, ZEROS[a.dtype])


def relu_into(a: np.ndarray, out: np.ndarray) -> None:
    _ordered(a)
    if a.dtype is F32 or a.dtype is F64:
        limit(a, 0, math.inf, out)
    else:
        np.maximum(a, ZEROS[a.dtype], out=out)


relu.into = relu_into                                                         # type: ignore[attr-defined]


def relu_backward(g: np.ndarray, out: np.ndarray) -> np.ndarray:
    """g where out > 0, or nan."""
    return drop(g, np.asarray(np.less_equal(out, ZEROS[out.dtype])))


@elementwise
def leaky_relu(a: np.ndarray, slope: float) -> np.ndarray:
    floats("leaky_relu_cpu", a)
    t = np.multiply(a, scalar(slope, a.dtype), new(a))
    if 0 <= slope <= 1:
        return np.maximum(a, t, out=t)
    return select(np.greater(a, ZEROS[a.dtype]), a, t)


@elementwise
def leaky_relu_backward(g: np.ndarray, a: np.ndarray, slope: float) -> np.ndarray:
    return select(np.greater(a, ZEROS[a.dtype]), g, np.multiply(g, scalar(slope, g.dtype)))


@elementwise
def elu(a: np.ndarray, alpha: float, scale: float, input_scale: float) -> np.ndarray:
    """scale * (a if a > 0 else alpha * (exp(input_scale * a) - 1))"""
    floats("elu_cpu", a)
    d = a.dtype
    t = limit(a, -math.inf, 0, new(a))
    if input_scale != 1:
        np.multiply(t, scalar(input_scale, d), t)
    np.expm1(t, t)
    if alpha * scale != 1:
        np.multiply(t, scalar(alpha * scale, d), t)
    positive = limit(a, 0, math.inf)
    if scale != 1:
        positive = np.multiply(positive, scalar(scale, d))
    return np.add(t, positive, t)


@elementwise
def elu_backward(g: np.ndarray, a: np.ndarray, alpha: float, scale: float, input_scale: float) -> np.ndarray:
    d = a.dtype
    t = limit(a, -math.inf, 0, new(a))
    if input_scale != 1:
        np.multiply(t, scalar(input_scale, d), t)
    np.exp(t, t)
    np.multiply(t, scalar(alpha * scale * input_scale, d), t)
    return np.multiply(select(np.less_equal(a, ZEROS[d]), t, scalar(scale, d)), g)


@elementwise
def gelu(a: np.ndarray, approximate: str) -> np.ndarray:
    floats("GeluKernelImpl", a)
    d = a.dtype
    t = empty_like(a)
    if approximate == "tanh":
        np.multiply(a, a, t)
        np.multiply(t, scalar(_TANH_SCALE * _TANH_CUBE, d), t)
        np.add(t, scalar(_TANH_SCALE, d), t)
        np.multiply(t, a, t)
        np.tanh(t, t)
        np.add(t, ONES[d], t)
        np.multiply(t, HALVES[d], t)
    else:
        normal_cdf(a, t)
    return np.multiply(t, a, t)


@elementwise
def gelu_backward(g: np.ndarray, a: np.ndarray, approximate: str) -> np.ndarray:
    d = a.dtype
    t, u = empty_like(a), empty_like(a)
    if approximate == "tanh":
        # t = tanh(c (a + k a^3)); the derivative is (1 + t)/2 + a/2 (1 - t^2) c (1 + 3 k a^2)
        np.multiply(a, a, u)
        np.multiply(u, scalar(_TANH_SCALE * _TANH_CUBE, d), t)
        np.add(t, scalar(_TANH_SCALE, d), t)
        np.multiply(t, a, t)
        np.tanh(t, t)
        np.multiply(u, scalar(1.5 * _TANH_SCALE * _TANH_CUBE, d), u)
        np.add(u, scalar(0.5 * _TANH_SCALE, d), u)
        np.multiply(u, a, u)
        np.multiply(u, np.subtract(ONES[d], np.multiply(t, t)), u)
        np.add(t, ONES[d], t)
        np.multiply(t, HALVES[d], t)
    else:
        # the derivative is Phi(a) + a phi(a)
        np.multiply(a, a, u)
        np.multiply(u, -HALVES[d], u)
        np.exp(u, u)
        np.multiply(u, scalar(_INV_SQRT_2PI, d), u)
        np.multiply(u, a, u)
        normal_cdf(a, t)
    np.add(t, u, t)
    return np.multiply(t, g, t)


def _sigmoid(a: np.ndarray, out: np.ndarray) -> np.ndarray:
    out = np.negative(a, out)
    np.exp(out, out)
    one = ONES[out.dtype]
    np.add(out, one, out)
    return np.true_divide(one, out, out)        # half the time of np.reciprocal


@steps
def silu(a: np.ndarray, out: np.ndarray) -> np.ndarray:
    if a.dtype.kind in "biu":
        raise not_implemented("silu_cpu", a)
    out = np.negative(a, out)
    np.exp(out, out)
    np.add(out, ONES[out.dtype], out)
    return np.true_divide(a, out, out)


@elementwise
def silu_backward(g: np.ndarray, a: np.ndarray) -> np.ndarray:
    """g s (1 + a (1 - s)), s = sigmoid(a)"""
    d = a.dtype
    s = _sigmoid(a, new(a))
    t = np.subtract(ONES[d], s, new(a))
    np.multiply(t, a, t)
    np.add(t, ONES[d], t)
    np.multiply(t, s, t)
    if d.kind == "c":
        np.conjugate(t, t)
    return np.multiply(t, g, t)


def _tanh_softplus(a: np.ndarray) -> np.ndarray:
    return np.tanh(np.log1p(np.exp(a)))


@steps
def mish(a: np.ndarray, out: np.ndarray) -> np.ndarray:
    floats("mish_cpu", a)
    out = np.exp(a, out)
    np.log1p(out, out)
    np.tanh(out, out)
    return np.multiply(out, a, out)


@elementwise
def mish_backward(g: np.ndarray, a: np.ndarray) -> np.ndarray:
    """g (t + a sigmoid(a) (1 - t^2)), t = tanh(softplus(a))"""
    t = np.asarray(_tanh_softplus(a))
    s = _sigmoid(a, new(a))
    np.multiply(s, a, s)
    np.multiply(s, np.subtract(ONES[a.dtype], np.multiply(t, t)), s)
    np.add(s, t, s)
    return np.multiply(s, g, s)


@elementwise
def softplus(a: np.ndarray, beta: float, threshold: float) -> np.ndarray:
    floats("softplus_cpu", a)
    d = a.dtype
    t = np.multiply(a, scalar(beta, d), new(a))
    linear = np.greater(t, scalar(threshold, d))
    np.exp(t, t)
    np.log1p(t, t)
    if beta != 1:
        np.true_divide(t, scalar(beta, d), t)
    return select(linear, a, t)


@elementwise
def softplus_backward(g: np.ndarray, a: np.ndarray, beta: float, threshold: float) -> np.ndarray:
    d = a.dtype
    t = np.multiply(a, scalar(beta, d), new(a))
    linear = np.greater(t, scalar(threshold, d))
    return np.multiply(select(linear, ONES[d], _sigmoid(t, t)), g)


@steps
def log_sigmoid(a: np.ndarray, out: np.ndarray) -> np.ndarray:
    """min(a, 0) - log1p(exp(-|a|))"""
    floats("log_sigmoid_cpu", a)
    out = np.absolute(a, out)
    np.negative(out, out)
    np.exp(out, out)
    np.log1p(out, out)
    return np.subtract(np.minimum(a, ZEROS[a.dtype]), out, out)


@elementwise
def log_sigmoid_backward(g: np.ndarray, a: np.ndarray) -> np.ndarray:
    """g sigmoid(-a)"""
    t = np.exp(a, new(a))
    np.add(t, ONES[t.dtype], t)
    return np.true_divide(g, t, t)


def hardtanh(a: np.ndarray, low: Any, high: Any) -> np.ndarray:
    if a.dtype.kind == "b":
        raise RuntimeError("Bool inputs not supported for hardtanh")
    if a.dtype.kind == "u" and (low < 0 or high < 0):
        raise RuntimeError("cannot do hardtanh on an unsigned type with negative limits")
    if a.dtype.kind == "c":
        raise not_implemented("hardtanh_cpu", a)
    return limit(a, low, high, new(a))


def hardtanh_backward(g: np.ndarray, a: np.ndarray, low: Any, high: Any) -> np.ndarray:
    """0 at the bounds too, unlike clamp."""
    d = a.dtype
    return keep(g, np.asarray(np.logical_and(np.greater(a, scalar(low, d)), np.less(a, scalar(high, d)))))


@steps
def hardsigmoid(a: np.ndarray, out: np.ndarray) -> np.ndarray:
    floats("hardsigmoid_cpu", a)
    d = a.dtype
    out = np.add(a, scalar(3, d), out)
    limit(out, 0, 6, out)
    return np.true_divide(out, scalar(6, d), out)


@elementwise
def hardsigmoid_backward(g: np.ndarray, a: np.ndarray) -> np.ndarray:
    d = a.dtype
    inside = np.asarray((a > scalar(-3, d)) & (a < scalar(3, d)))
    return keep(np.asarray(g * scalar(1 / 6, d)), inside)


@steps
def hardswish(a: np.ndarray, out: np.ndarray) -> np.ndarray:
    floats("hardswish_cpu", a)
    d = a.dtype
    out = np.add(a, scalar(3, d), out)
    limit(out, 0, 6, out)
    np.multiply(out, a, out)
    return np.true_divide(out, scalar(6, d), out)


@elementwise
def hardswish_backward(g: np.ndarray, a: np.ndarray) -> np.ndarray:
    """0 up to -3, g from 3, and g (a / 3 + 1/2) between."""
    d = a.dtype
    t = np.true_divide(a, scalar(3, d), new(a))
    np.add(t, HALVES[d], t)
    t = np.multiply(select(np.less(a, scalar(3, d)), t, ONES[d]), g)
    return drop(t, np.asarray(np.less_equal(a, scalar(-3, d))))


@elementwise
def softshrink(a: np.ndarray, lambd: float) -> np.ndarray:
    floats("softshrink_cpu", a)
    return np.subtract(a, limit(a, -lambd, lambd))


@elementwise
def hardshrink(a: np.ndarray, lambd: float) -> np.ndarray:
    floats("hardshrink_cpu", a)
    return drop(a, np.asarray(np.less_equal(np.absolute(a), scalar(lambd, a.dtype))))


@elementwise
def shrink_backward(g: np.ndarray, a: np.ndarray, lambd: float) -> np.ndarray:
    return keep(g, np.asarray(np.greater(np.absolute(a), scalar(lambd, a.dtype))))


def threshold(a: np.ndarray, bound: Any, value: Any) -> np.ndarray:
    if a.dtype.kind in "bc":
        raise not_implemented("threshold_cpu", a)
    return select(np.less_equal(a, scalar(bound, a.dtype)), scalar(value, a.dtype), a)


def threshold_backward(g: np.ndarray, a: np.ndarray, bound: Any) -> np.ndarray:
    return drop(g, np.asarray(np.less_equal(a, scalar(bound, a.dtype))))


@elementwise
def prelu(a: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return select(np.greater(a, ZEROS[a.dtype]), a, a * weight)


@elementwise
def prelu_backward(g: np.ndarray, a: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return select(np.greater(a, ZEROS[a.dtype]), g, g * weight)


def _halves(a: np.ndarray, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """The two halves of an axis of even length."""
    before = (slice(None),) * (dim % a.ndim)
    half = a.shape[dim] // 2
    return a[(*before, slice(0, half))], a[(*before, slice(half, None))]


@wide
def glu(a: np.ndarray, dim: int) -> np.ndarray:
    floats("glu_cpu", a)
    x, gate = _halves(a, dim)
    s = _sigmoid(gate, new(gate))
    return np.multiply(s, x, s)


@wide
def glu_backward(g: np.ndarray, a: np.ndarray, dim: int) -> np.ndarray:
    x, gate = _halves(a, dim)
    out = np.empty_like(a)
    left, right = _halves(out, dim)
    s = _sigmoid(gate, new(gate))
    np.multiply(s, g, left)
    np.subtract(ONES[a.dtype], s, right)
    np.multiply(right, x, right)
    np.multiply(right, left, right)
    return out


