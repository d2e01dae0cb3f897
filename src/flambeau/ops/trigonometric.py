"""Trigonometric and hyperbolic functions, their inverses, angles."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from flambeau.kernels.pointwise import F32, F64, ONES, ZEROS, new, refuse, scalar, wide

from ._pointwise import binary, binary_samples, fused, unary, unary_samples
from ._record import KERNEL

unary("sin", np.sin, expr="sin(self)", example=("[0.0]", "[0.0]"), doc="Sine of input in radians, elementwise.",
      self=lambda xp, g, self: g * xp.conj(xp.cos(self)))
unary("cos", np.cos, expr="cos(self)", example=("[0.0]", "[1.0]"), doc="Cosine of input in radians, elementwise.",
      self=lambda xp, g, self: -g * xp.conj(xp.sin(self)))
unary("tan", np.tan, expr="tan(self)", example=("[0.0]", "[0.0]"), samples=unary_samples(-1.2, 1.2),
      doc="Tangent of input in radians, elementwise.", self=lambda xp, g, out: g * xp.conj(out * out + 1))
unary("sinh", np.sinh, expr="sinh(self)", example=("[0.0]", "[0.0]"), doc="Hyperbolic sine, elementwise.",
      self=lambda xp, g, self: g * xp.conj(xp.cosh(self)))
unary("cosh", np.cosh, expr="cosh(self)", example=("[0.0]", "[1.0]"), doc="Hyperbolic cosine, elementwise.",
      self=lambda xp, g, self: g * xp.conj(xp.sinh(self)))


_ONE32, _ONE64 = ONES[F32], ONES[F64]


def _tanh_backward(g: np.ndarray, out: np.ndarray) -> np.ndarray:
    d = out.dtype
    if (d is F32 or d is F64) and out.ndim:
        t = np.multiply(out, out)
        np.subtract(_ONE32 if d is F32 else _ONE64, t, t)
        return np.multiply(t, g, t)
    return _any_tanh_backward(g, out)


@wide
def _any_tanh_backward(g: np.ndarray, out: np.ndarray) -> np.ndarray:
    t = np.multiply(out, out, new(out))
    np.subtract(ONES[t.dtype], t, t)
    if t.dtype.kind == "c":
        np.conjugate(t, t)
    return np.multiply(t, g, t)


fused("tanh_backward", _tanh_backward, lambda xp, g, out: g * xp.conj(1 - out * out))
unary("tanh", np.tanh, expr="tanh(self)", example=("[0.0]", "[0.0]"), doc="Hyperbolic tangent, elementwise.",
      self=lambda xp, g, out: xp.tanh_backward(g, out))
unary("asin", np.arcsin, expr="asin(self)", aliases=("arcsin",), example=("[0.0]", "[0.0]"),
      samples=unary_samples(-0.9, 0.9), doc="Inverse sine in [-pi/2, pi/2], elementwise; nan outside [-1, 1].",
      self=lambda xp, g, self: g * xp.conj(xp.rsqrt(1 - self * self)))
unary("acos", np.arccos, expr="acos(self)", aliases=("arccos",), example=("[1.0]", "[0.0]"),
      samples=unary_samples(-0.9, 0.9), doc="Inverse cosine in [0, pi], elementwise; nan outside [-1, 1].",
      self=lambda xp, g, self: -g * xp.conj(xp.rsqrt(1 - self * self)))
unary("atan", np.arctan, expr="atan(self)", aliases=("arctan",), example=("[0.0]", "[0.0]"),
      doc="Inverse tangent in [-pi/2, pi/2], elementwise.", self=lambda xp, g, self: g / xp.conj(self * self + 1))
unary("asinh", np.arcsinh, expr="asinh(self)", aliases=("arcsinh",), example=("[0.0]", "[0.0]"),
      doc="Inverse hyperbolic sine, elementwise.", self=lambda xp, g, self: g * xp.conj(xp.rsqrt(self * self + 1)))


def _acosh_backward(xp: Any, g: Any, z: Any) -> Any:
    if not xp.is_complex(z):
        return g * xp.rsqrt(z * z - 1)
    # the product of the roots has acosh's branch cut, the root of the product has not
    return g * xp.conj(xp.rsqrt(z - 1) * xp.rsqrt(z + 1))


unary("acosh", np.arccosh, expr="acosh(self)", aliases=("arccosh",), example=("[1.0]", "[0.0]"),
      samples=unary_samples(1.2, 3.0), doc="Inverse hyperbolic cosine, elementwise; nan below 1.",
      self=lambda xp, g, self: _acosh_backward(xp, g, self))
unary("atanh", np.arctanh, expr="atanh(self)", aliases=("arctanh",), example=("[0.0]", "[0.0]"),
      samples=unary_samples(-0.8, 0.8), doc="Inverse hyperbolic tangent, elementwise; nan outside [-1, 1].",
      self=lambda xp, g, self: g / xp.conj(1 - self * self))


@wide
def _sinc(a: np.ndarray) -> np.ndarray:
    t = np.asarray(a * scalar(math.pi, a.dtype))
    t = np.asarray(np.sin(t) / t)
    np.copyto(t, ONES[t.dtype], where=np.equal(a, ZEROS[a.dtype]))
    return t


def _sinc_backward(xp: Any, g: Any, a: Any) -> Any:
    t = a * math.pi
    square = t * a
    return xp.drop(g * xp.conj((xp.cos(t) * t - xp.sin(t)) / square), square == 0)


unary("sinc", _sinc, expr=KERNEL, example=("[0.0]", "[1.0]"), aliases=("special.sinc",), samples=unary_samples(0.2, 2.0),
      doc="sin(pi input) / (pi input), elementwise; 1 at 0.", self=lambda xp, g, self: _sinc_backward(xp, g, self))


def _arctan2(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    refuse("atan2_cpu", a, "c")
    return np.arctan2(a, b)


def _hypot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    refuse("hypot_cpu", a, "biuc")
    return np.hypot(a, b)


binary("atan2", _arctan2, numbers=False, float_result=True, expr="atan2(self, other)", aliases=("arctan2",),
       example=("flambeau.tensor([0.]), flambeau.tensor([1.])", "[0.0]"), samples=binary_samples(0.3, 2.0, number=None),
       doc="The angle of the point (other, input) in [-pi, pi], elementwise, with broadcasting.",
       self=lambda xp, g, self, other: xp.drop(g * (other / (self * self + other * other)),
                                               self * self + other * other == 0),
       other=lambda xp, g, self, other: xp.drop(g * (-self / (self * self + other * other)),
                                                self * self + other * other == 0))
binary("hypot", _hypot, numbers=False, expr="hypot(self, other)",
       example=("flambeau.tensor([3.]), flambeau.tensor([4.])", "[5.0]"), samples=binary_samples(0.3, 2.0, number=None),
       doc="sqrt(input ** 2 + other ** 2), elementwise, with broadcasting, without overflow.",
       self=lambda xp, g, self, out: g * (self / out), other=lambda xp, g, other, out: g * (other / out))


def _times(factor: float) -> Any:
    @wide
    def kernel(a: np.ndarray) -> np.ndarray:
        return np.multiply(a, scalar(factor, a.dtype))

    return kernel


unary("deg2rad", _times(math.pi / 180), expr="self * pi / 180", example=("[0.0]", "[0.0]"), node="Deg2RadBackward0",
      doc="Degrees as radians, elementwise.", self=lambda xp, g: g * (math.pi / 180))
unary("rad2deg", _times(180 / math.pi), expr="self * 180 / pi", example=("[0.0]", "[0.0]"), node="Rad2DegBackward0",
      doc="Radians as degrees, elementwise.", self=lambda xp, g: g * (180 / math.pi))
