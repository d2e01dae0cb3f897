"""Sums, products, quotients and remainders; negation, absolute value and sign."""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.apply import apply1, apply2
from flambeau.core.objects import TensorBase, dtype_of, shape_of
from flambeau.kernels import division
from flambeau.kernels import pointwise as k
from flambeau.kernels.pointwise import new, not_implemented, refuse, wide
from flambeau.kernels.promotion import promote_types
from flambeau.kernels.services import bool_subtraction, ones_like

from ._args import tensor, word
from ._number_first import number_first
from ._pointwise import (
    binary,
    binary_samples,
    call2,
    fused,
    integer_samples,
    is_number,
    no_derivative,
    scalar_form,
    unary,
    unary_samples,
)
from ._record import KERNEL, call, kernels, ops, primitive, public
from ._shapes import like


def _conj(a: np.ndarray) -> np.ndarray:
    return np.conjugate(a) if a.dtype.kind == "c" else a


kernels.conj = _conj
ops.conj = lambda t: t          # `complex` replaces it

# The same values, and a derivative 0 by `to`: torch's gradients of piecewise linear functions depend on their input
# with derivative 0, they are not independent of it
primitive("linked", lambda a, to: np.array(a), inputs=("self", "to"), pointwise=True, promotes=False, expr="self",
          node="ThresholdBackwardBackward0", self=lambda xp, g: g, to=lambda xp, g: xp.zeros_like(g))
primitive("ones_like", ones_like, differentiable=False, meta=like(), expr="1")
primitive("keep", k.keep, inputs=("self", "mask"), pointwise=True, promotes=False, expr="mask ? self : 0",
          node="WhereBackward0", self=lambda xp, g, mask: xp.keep(g, mask))
primitive("drop", k.drop, inputs=("self", "mask"), pointwise=True, promotes=False, expr="mask ? 0 : self",
          node="MaskedFillBackward0", self=lambda xp, g, mask: xp.drop(g, mask))


def _alpha_samples(t: Any) -> list:
    return [*binary_samples()(t), call(t(2, 3), t(2, 3), alpha=2.5)]


# --------------------------------------------------------------------------------- sums and products

ADD = binary("add", np.add, front=False, doc="", expr="self + other", self=lambda xp, g: g, other=lambda xp, g: g)
SUB = binary("sub", np.subtract, front=False, doc="", expr="self - other",
             self=lambda xp, g: g, other=lambda xp, g: -g)
RSUB = binary("rsub", lambda a, b: np.subtract(b, a), front=False, doc="", expr="other - self",
              self=lambda xp, g: -g, other=lambda xp, g: g)
RSUB_SCALAR = scalar_form("rsub", lambda a, b: np.subtract(b, a), "RsubBackward1", self=lambda xp, g: -g)
MUL = binary(
    "mul", np.multiply, aliases=("multiply",), expr="self * other",
    doc="""input * other, elementwise, with broadcasting.

    Args:
        input: tensor of shape (*).
        other: tensor that broadcasts with it, or a number.

    Returns:
        Tensor of the broadcast shape, of the promoted dtype.

    >>> flambeau.mul(flambeau.tensor([1., 2.]), 3).tolist()
    [3.0, 6.0]
    """,
    self=lambda xp, g, other: g * xp.conj(other), other=lambda xp, g, self: g * xp.conj(self))


@wide
def _div_backward(g: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    t = a / b
    t /= b
    if t.dtype.kind == "c":
        t = np.conjugate(t)
    t *= g
    return np.negative(t, t) if isinstance(t, np.ndarray) else -t


fused("div_backward", _div_backward, lambda xp, g, a, b: -g * xp.conj((a / b) / b))
DIV = binary("div", np.true_divide, front=False, doc="", expr="self / other", float_result=True,
             self=lambda xp, g, other: g / xp.conj(other),
             other=lambda xp, g, self, other: xp.div_backward(g, self, other))


def _div_tangent(xp: Any, tangents: list, inputs: list, outs: list, params: Any) -> Any:
    """d(a / b) = (da - db a/b) / b, one infinity at a pole where the sum of both terms is nan."""
    (of_self, of_other), (quotient,) = tangents, outs
    if of_other is None:
        return of_self / inputs[1]
    change = of_other * quotient
    return (-change if of_self is None else of_self - change) / inputs[1]


DIV.jvp = _div_tangent


def _scaled(input: Any, other: Any, alpha: Any) -> Any:
    if alpha == 1 and not isinstance(alpha, bool):
        return other
    if isinstance(other, TensorBase):
        kind = dtype_of(other).kind
        if isinstance(alpha, bool) and kind != "b":
            raise RuntimeError("Boolean alpha only supported for Boolean results.")
        if isinstance(alpha, float) and kind in "bui":
            if isinstance(input, TensorBase) and dtype_of(input).kind not in "bui":
                return apply2(MUL, ops.cast(other, dtype_of(input)), alpha)
            raise RuntimeError("For integral input tensors, alpha must not be a floating point number: the result "
                               "could not hold the fractions. Pass an int, or convert the inputs with .float().")
        if isinstance(input, TensorBase) and (shape_of(input) or not shape_of(other)):
            common = promote_types(dtype_of(input), dtype_of(other))
            if common != dtype_of(other):           # the product is not rounded to the narrower dtype
                other = ops.cast(other, common)
        scaled = apply2(MUL, other, alpha)
        if scaled is NotImplemented:
            raise TypeError(f"argument 'alpha' must be Number, not {type(alpha).__name__}")
        return scaled
    return other * alpha


@public(op=ADD, inplace=True, samples=_alpha_samples)
@number_first("alpha", 1)
def add(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """input + alpha * other, elementwise, with broadcasting.

    >>> flambeau.add(flambeau.tensor([1., 2.]), flambeau.tensor([10., 20.]), alpha=2).tolist()
    [21.0, 42.0]
    """
    return call2(ADD, input, _scaled(input, other, alpha), "add")


@public(op=SUB, inplace=True, aliases=("subtract",), samples=_alpha_samples)
@number_first("alpha", 1)
def sub(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """input - alpha * other, elementwise, with broadcasting.

    >>> flambeau.sub(flambeau.tensor([1., 2.]), 1).tolist()
    [0.0, 1.0]
    """
    if isinstance(other, TensorBase) and dtype_of(other).kind == "b":
        raise bool_subtraction()
    return call2(SUB, input, _scaled(input, other, alpha), "sub")


@public(op=RSUB, samples=_alpha_samples)
def rsub(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """other - alpha * input, elementwise, with broadcasting.

    >>> flambeau.rsub(flambeau.tensor([1., 2.]), 1).tolist()
    [0.0, -1.0]
    """
    input = _scaled(other, tensor(input, "rsub"), alpha)
    if dtype_of(input).kind == "b":
        raise RuntimeError("Subtraction, the `-` operator, is not supported for a bool tensor. To invert a mask "
                           "write ~mask or torch.logical_not(mask); for what two masks differ in, a ^ b.")
    if is_number(other):
        return apply1(RSUB_SCALAR, input, (other,))
    return call2(RSUB, input, other, "rsub")


# --------------------------------------------------------------------------------- quotients


def _no_zero(kernel: str, b: np.ndarray) -> None:
    if b.dtype.kind == "b":
        raise not_implemented(kernel, b)
    if b.dtype.kind in "iu" and not b.all():
        raise RuntimeError("ZeroDivisionError: an integer tensor is divided by zero")


def _floor_divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if b.dtype.kind not in "fV":
        _no_zero("div_floor_cpu", b)
        refuse("div_floor_cpu", b, "c")
    return division.floor_divide(a, b)


def _trunc_divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if b.dtype.kind in "iu":
        _no_zero("div_trunc_cpu", b)
        q, r = np.divmod(a, b)
        q += (r != 0) & (q < 0)     # rounded down: one more where it is negative and not exact
        return q
    refuse("div_trunc_cpu", b, "bc")
    return np.trunc(np.true_divide(a, b))


def _zeros(xp: Any, g: Any) -> Any:
    return xp.zeros_like(g)


FLOOR_DIVIDE = binary("floor_divide", _floor_divide, front=False, doc="", expr=KERNEL, node="NotImplemented",
                      self=no_derivative("floor_divide"), other=no_derivative("floor_divide"))
DIV_FLOOR = binary("div_floor", _floor_divide, front=False, doc="", expr=KERNEL, node="DivBackward2",
                   self=_zeros, other=_zeros)
DIV_TRUNC = binary("div_trunc", _trunc_divide, front=False, doc="", expr=KERNEL, node="DivBackward2",
                   self=_zeros, other=_zeros)


def _floor_samples(t: Any) -> list:
    return [call(t(3, 4, low=0.3, high=3.0, grad=False), t(4, low=0.3, high=3.0, grad=False)),
            call(t(3, low=-5, high=5, dtype="int64"), 2)]


@public(op=FLOOR_DIVIDE, inplace=True, differentiable=False, samples=_floor_samples)
def floor_divide(input: Any, other: Any) -> Any:
    """floor(input / other), elementwise, with broadcasting; integers stay integers.

    Raises:
        RuntimeError: an integer division by zero.
        NotImplementedError: in backward; use div(..., rounding_mode="floor"), whose gradient is zero.

    >>> flambeau.floor_divide(flambeau.tensor([7, -7]), 2).tolist()
    [3, -4]
    """
    return call2(FLOOR_DIVIDE, input, other, "floor_divide")


def _div_samples(t: Any) -> list:
    return [*binary_samples(0.5, 3.0)(t), call(t(3, 4, low=0.5, high=3.0), 0.7, rounding_mode="floor"),
            call(t(3, low=-9, high=9, dtype="int64"), 4, rounding_mode="trunc")]


@public(op=DIV, inplace=True, aliases=("divide",), samples=_div_samples)
def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Any:
    """input / other, elementwise, with broadcasting.

    Args:
        rounding_mode: None for the true quotient, "trunc" towards zero, "floor" downwards; both keep integers.

    Raises:
        RuntimeError: another rounding_mode, or an integer division by zero.

    >>> flambeau.div(flambeau.tensor([7, -7]), 2, rounding_mode="trunc").tolist()
    [3, -3]
    """
    if rounding_mode is None:
        return call2(DIV, input, other, "div")
    if rounding_mode == "floor":
        return call2(DIV_FLOOR, input, other, "div")
    if rounding_mode == "trunc":
        return call2(DIV_TRUNC, input, other, "div")
    word(rounding_mode, "div", "rounding_mode")
    raise RuntimeError(
        f"div expected rounding_mode to be None, 'trunc' or 'floor', and it is '{rounding_mode}'")


@public(inplace=True, samples=binary_samples(0.5, 3.0))
def true_divide(input: Any, other: Any) -> Any:
    """input / other, elementwise, with broadcasting: `div` without rounding.

    >>> flambeau.true_divide(flambeau.tensor([1, 2]), 2).tolist()
    [0.5, 1.0]
    """
    return call2(DIV, input, other, "true_divide")


# --------------------------------------------------------------------------------- remainders


def _remainder(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if b.dtype.kind not in "fV":
        _no_zero("remainder_cpu", b)
        refuse("remainder_cpu", b, "c")
    return division.remainder(a, b)


def _fmod(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if b.dtype.kind not in "fV":
        _no_zero("fmod_cpu", b)
        refuse("fmod_cpu", b, "c")
    return division.fmod(a, b)


REMAINDER = binary("remainder", _remainder, front=False, doc="", expr="remainder(self, other)", node="RemainderBackward1",
                   self=lambda xp, g: g, other=lambda xp, g, self, other: -g * xp.div_floor(self, other))
FMOD = binary("fmod", _fmod, front=False, doc="", expr="fmod(self, other)", node="FmodBackward1",
              self=lambda xp, g: g, other=lambda xp, g, self, other: -g * xp.div_trunc(self, other))
REMAINDER_SCALAR = scalar_form("remainder", _remainder, "RemainderBackward0", self=lambda xp, g: g)
FMOD_SCALAR = scalar_form("fmod", _fmod, "FmodBackward0", self=lambda xp, g: g)


def _remainder_samples(t: Any) -> list:
    return [call(t(3, 4, low=2.1, high=2.9), t(4, low=0.8, high=1.0)), call(t(low=2.1, high=2.9), 1.5),
            call(t(3, dtype="int64"), 2)]


@public(op=REMAINDER, inplace=True, samples=_remainder_samples)
def remainder(input: Any, other: Any) -> Any:
    """Remainder of input / other with the sign of other, elementwise, with broadcasting: Python's `%`.

    Raises:
        RuntimeError: an integer remainder by zero.

    >>> flambeau.remainder(flambeau.tensor([7, -7]), 3).tolist()
    [1, 2]
    """
    if isinstance(input, TensorBase) and is_number(other):
        return apply1(REMAINDER_SCALAR, input, (other,))
    return call2(REMAINDER, input, other, "remainder")


@public(op=FMOD, inplace=True, samples=_remainder_samples)
def fmod(input: Any, other: Any) -> Any:
    """Remainder of input / other with the sign of input, elementwise, with broadcasting: C's `fmod`.

    Raises:
        RuntimeError: an integer remainder by zero.

    >>> flambeau.fmod(flambeau.tensor([7, -7]), 3).tolist()
    [1, -1]
    """
    if isinstance(tensor(input, "fmod"), TensorBase) and is_number(other):
        return apply1(FMOD_SCALAR, input, (other,))
    return call2(FMOD, input, other, "fmod")


# --------------------------------------------------------------------------------- one tensor

unary("neg", np.negative, float_result=False, aliases=("negative",), expr="-self", example=("[1., -2.]", "[-1.0, 2.0]"),
      doc="-input, elementwise.", self=lambda xp, g: -g)

SGN = unary("sgn", k.sgn, float_result=False, expr="sgn(self)", example=("[2., -3., 0.]", "[1.0, -1.0, 0.0]"),
            doc="The sign of real values; z / |z| for complex ones, 0 at 0.",
            samples=unary_samples(0.3, 2.0), self=lambda xp, g, self, out: xp.sgn_backward(g, self, out))


def _sgn_backward(xp: Any, g: Any, z: Any, out: Any) -> Any:
    # d(z / |z|) along g: what of g is orthogonal to the sign, over |z|; nothing changes for real z
    if not xp.is_complex(z):
        return xp.zeros_like(g)
    return xp.drop((g - xp.real(xp.conj(out) * g) * out) / xp.abs(z), z == 0)


fused("sgn_backward", lambda g, z, out: _sgn_backward(kernels, g, z, out), _sgn_backward)
kernels.is_complex = lambda a: a.dtype.kind == "c"
ops.is_complex = lambda t: dtype_of(t).kind == "c"


def _abs_backward(g: np.ndarray, a: np.ndarray) -> np.ndarray:
    t = k.sgn(a)
    if t.dtype is g.dtype:
        t *= g
        return t
    return g * t


def _abs(a: np.ndarray) -> np.ndarray:
    refuse("abs_cpu", a, "b")
    return np.absolute(a)


fused("abs_backward", _abs_backward, lambda xp, g, a: g * xp.sgn(a))
ABS = unary("abs", _abs, into=lambda a, out: np.absolute(a, out), float_result=False, same_dtype=False,
            aliases=("absolute",), expr="abs(self)",
            example=("[-1., 2.]", "[1.0, 2.0]"), samples=unary_samples(0.3, 2.0),
            doc="Absolute value, elementwise; the modulus, a real tensor, for complex input. The gradient is 0 at 0.",
            self=lambda xp, g, self: xp.abs_backward(g, self))


def _sign(a: np.ndarray) -> np.ndarray:
    if a.dtype.kind == "c":
        raise RuntimeError("Unlike NumPy, torch.sign doesn't support complex numbers; use torch.sgn, z / |z|.")
    return k.sgn(a)


unary("sign", _sign, float_result=False, expr="sign(self)", example=("[2., -3., 0.]", "[1.0, -1.0, 0.0]"),
      doc="-1, 0 or 1 by the sign of input, elementwise; 0 for nan.",
      samples=unary_samples(0.3, 2.0), self=lambda xp, g: xp.zeros_like(g))

unary("reciprocal", np.reciprocal, expr="1 / self", example=("[2., 4.]", "[0.5, 0.25]"),
      doc="1 / input, elementwise. Integers give floating results.", samples=unary_samples(0.4, 2.0),
      self=lambda xp, g, out: xp.reciprocal_backward(g, out))


@wide
def _reciprocal_backward(g: np.ndarray, out: np.ndarray) -> np.ndarray:
    t = np.multiply(out, out, new(out))
    if t.dtype.kind == "c":
        np.conjugate(t, t)
    np.multiply(t, g, t)
    return np.negative(t, t)


fused("reciprocal_backward", _reciprocal_backward, lambda xp, g, out: -g * xp.conj(out * out))


@public(samples=unary_samples())
def positive(input: Any) -> Any:
    """input itself.

    Raises:
        RuntimeError: input is a bool tensor.

    >>> flambeau.positive(flambeau.tensor([1.])).tolist()
    [1.0]
    """
    if dtype_of(tensor(input, "positive")).kind == "b":
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return input


# --------------------------------------------------------------------------------- integers

for _name, _ufunc, _symbol, _what in (
    ("bitwise_and", np.bitwise_and, "&", "and"), ("bitwise_or", np.bitwise_or, "|", "or"),
    ("bitwise_xor", np.bitwise_xor, "^", "xor"),
):
    binary(_name, _ufunc, expr=f"self {_symbol} other", differentiable=False, samples=integer_samples,
           example=("flambeau.tensor([6, 5]), 3", str([int(_ufunc(6, 3)), int(_ufunc(5, 3))])),
           doc=f"input {_symbol} other, bit by bit, for integers and bools.")


def _shift(ufunc: Any, kernel: str, fill: Any) -> Any:
    def shift(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        refuse(kernel, a, "bfVc")
        bits = a.dtype.itemsize * 8
        inside = (b >= 0) & (b < bits)      # elsewhere the processor's result is undefined
        if inside.all():
            return np.asarray(ufunc(a, b)).astype(a.dtype, copy=False)
        return np.where(inside, ufunc(a, np.where(inside, b, ZERO)), fill(a)).astype(a.dtype)

    ZERO = np.int8(0)
    return shift


for _name, _ufunc, _symbol, _kernel, _fill in (
    ("bitwise_left_shift", np.left_shift, "<<", "lshift_cpu", lambda a: a.dtype.type(0)),
    ("bitwise_right_shift", np.right_shift, ">>", "rshift_cpu", lambda a: -(a < 0).astype(a.dtype)),
):
    binary(_name, _shift(_ufunc, _kernel, _fill), expr=f"self {_symbol} other", differentiable=False,
           samples=lambda t: [call(t(3, 4, low=0, high=9, dtype="int64"), t(4, low=0, high=3, dtype="int64"))],
           example=("flambeau.tensor([4, 8]), 1", str([int(_ufunc(4, 1)), int(_ufunc(8, 1))])),
           doc=f"input {_symbol} other, for integers. Shifting by the width or more leaves only copies of the sign.")

for _name, _ufunc, _what in (("gcd", np.gcd, "Greatest common divisor"), ("lcm", np.lcm, "Least common multiple")):
    binary(_name, _ufunc, expr=KERNEL, differentiable=False, numbers=False,
           samples=lambda t: [call(t(3, 4, dtype="int64"), t(4, dtype="int64"))],
           example=("flambeau.tensor([12, 5]), flambeau.tensor([8, 10])", str([int(_ufunc(12, 8)), int(_ufunc(5, 10))])),
           doc=f"{_what} of input and other, elementwise, for integers; not negative.")


def _bitwise_not(a: np.ndarray) -> np.ndarray:
    refuse("bitwise_not_cpu", a, "fVc")
    return np.invert(a)


unary("bitwise_not", _bitwise_not, into=np.invert, float_result=False, differentiable=False, expr="~self",
      samples=lambda t: [call(t(3, 4, dtype="int64")), call(t(3, dtype="bool"))],
      example=("[0, 1]", "[-1, -2]"), doc="~input: every bit inverted, for integers; logical not for bools.")


