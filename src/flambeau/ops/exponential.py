"""Exponentials, logarithms, powers and roots, and the logistic function."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from flambeau.core.apply import apply1
from flambeau.core.objects import TensorBase, dtype_of
from flambeau.kernels import pointwise as k
from flambeau.kernels.layout import clone
from flambeau.kernels.pointwise import HALVES, ONES, ZEROS, keep, new, steps, wide
from flambeau.kernels.scipy_special import special

from ._args import tensor
from ._meta import Meta, preserved
from ._pointwise import (
    BASE_FORMS,
    SCALAR_FORMS,
    binary,
    binary_samples,
    call2,
    fused,
    is_number,
    meet,
    to_dtype,
    unary,
    unary_samples,
)
from ._record import KERNEL, call, primitive, public

_LN2 = math.log(2.0)
_LN10 = math.log(10.0)

unary("exp", np.exp, expr="exp(self)", example=("[0.0]", "[1.0]"), doc="e to the power input, elementwise.",
      self=lambda xp, g, out: g * xp.conj(out))


def _exp2(a: np.ndarray) -> np.ndarray:
    return np.exp2(a) if a.dtype.kind != "c" else np.exp(a * a.dtype.type(_LN2))


unary("exp2", _exp2, expr="exp2(self)", example=("[3.0]", "[8.0]"), doc="2 to the power input, elementwise.",
      aliases=("special.exp2",), self=lambda xp, g, out: g * xp.conj(out) * _LN2)
unary("expm1", np.expm1, expr="expm1(self)", example=("[0.0]", "[0.0]"), aliases=("special.expm1",),
      doc="exp(input) - 1, elementwise, precise near 0.", self=lambda xp, g, out: g * xp.conj(out + 1))
unary("log", np.log, expr="log(self)", example=("[1.0]", "[0.0]"), samples=unary_samples(0.1, 3.0),
      doc="Natural logarithm, elementwise: nan for negative numbers, -inf for 0.",
      self=lambda xp, g, self: g / xp.conj(self))


def _log2(a: np.ndarray) -> np.ndarray:
    return np.log2(a) if a.dtype.kind != "c" else np.log(a) / a.dtype.type(_LN2)


unary("log2", _log2, expr="log2(self)", example=("[8.0]", "[3.0]"), samples=unary_samples(0.1, 3.0),
      doc="Logarithm to base 2, elementwise.", self=lambda xp, g, self: g / (xp.conj(self) * _LN2))
unary("log10", np.log10, expr="log10(self)", example=("[100.0]", "[2.0]"), samples=unary_samples(0.1, 3.0),
      doc="Logarithm to base 10, elementwise.", self=lambda xp, g, self: g / (xp.conj(self) * _LN10))
unary("log1p", np.log1p, expr="log1p(self)", example=("[0.0]", "[0.0]"), aliases=("special.log1p",),
      samples=unary_samples(-0.5, 3.0), doc="log(1 + input), elementwise, precise near 0.",
      self=lambda xp, g, self: g / xp.conj(self + 1))


# --------------------------------------------------------------------------------- roots and squares


@wide
def _sqrt_backward(g: np.ndarray, out: np.ndarray) -> np.ndarray:
    t = np.true_divide(g, np.conjugate(out) if out.dtype.kind == "c" else out, new(out))
    return np.multiply(t, HALVES[t.dtype], t)


@wide
def _rsqrt_backward(g: np.ndarray, out: np.ndarray) -> np.ndarray:
    if out.dtype.kind == "c":
        out = np.conjugate(out)
    t = np.multiply(out, out, new(out))
    np.multiply(t, out, t)
    np.multiply(t, g, t)
    return np.multiply(t, -HALVES[t.dtype], t)


@steps
def _rsqrt(a: np.ndarray, out: np.ndarray) -> np.ndarray:
    out = np.sqrt(a, out)
    return np.reciprocal(out, out)


fused("sqrt_backward", _sqrt_backward, lambda xp, g, out: g / (xp.conj(out) * 2))
fused("rsqrt_backward", _rsqrt_backward, lambda xp, g, out: g * -0.5 * xp.conj(out * out * out))
unary("sqrt", np.sqrt, expr="sqrt(self)", example=("[4.0]", "[2.0]"), samples=unary_samples(0.1, 3.0),
      doc="Square root, elementwise; nan for negative numbers.", self=lambda xp, g, out: xp.sqrt_backward(g, out))
unary("rsqrt", _rsqrt, expr="rsqrt(self)", example=("[4.0]", "[0.5]"), samples=unary_samples(0.1, 3.0),
      doc="1 / sqrt(input), elementwise.", self=lambda xp, g, out: xp.rsqrt_backward(g, out))


# --------------------------------------------------------------------------------- powers
#
# A number as exponent is a parameter: the common ones need no power function, and only the base is saved.


def _square(a: np.ndarray) -> np.ndarray:
    if a.dtype.kind == "b":
        a = a.astype(k.INT64)
    return np.multiply(a, a)


@wide
def _pow_number(a: np.ndarray, exponent: Any) -> np.ndarray:
    d = a.dtype
    if d.kind in "fc" and type(exponent) in (int, float):
        if exponent == 2:
            return np.multiply(a, a)
        if exponent == 0.5:
            return np.sqrt(a)
        if exponent == 3:
            return np.multiply(np.multiply(a, a), a)
        if exponent == 1:
            return clone(a)
        if exponent == -1:
            return np.reciprocal(a)
        if exponent == -2:
            return np.reciprocal(np.multiply(a, a))
        if exponent == -0.5:
            return np.reciprocal(np.sqrt(a))
    a, c = meet(a, exponent)
    if c.dtype.kind == "b":
        return np.logical_or(a, np.logical_not(c))
    if c.dtype.kind in "iu" and exponent < 0:
        raise RuntimeError("Integers to negative integer powers are not allowed. Convert the tensor to a floating dtype "
                           "first.")
    return np.power(a, c)


def _pow(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if b.dtype.kind == "i" and b.size and (negative := b < 0).any():
        # 1 / integer, rounded to zero: only 1 and -1 leave something
        kept = np.power(a, np.where(negative, -b, b))
        return np.where(negative, np.where(a == 1, 1, np.where(a == -1, kept, 0)).astype(kept.dtype), kept)
    k.refuse("pow", b, "b")
    return np.power(a, b)


@wide
def _pow_backward(g: np.ndarray, a: np.ndarray, exponent: Any) -> np.ndarray:
    if exponent == 0:
        return np.zeros_like(g)
    if exponent == 2:
        t = np.add(a, a, new(a))
    else:
        t = np.asarray(_pow_number(a, exponent - 1))
        t = t * exponent if t.dtype.kind == "c" or isinstance(exponent, complex) else np.multiply(
            t, k.scalar(exponent, t.dtype), t)
    if t.dtype.kind == "c":
        t = np.conjugate(t)
        return t * g
    return np.multiply(t, g, t)


def _pow_composed(xp: Any, g: Any, a: Any, exponent: Any) -> Any:
    return xp.zeros_like(g) if exponent == 0 else g * xp.conj(exponent * xp.pow_scalar(a, exponent - 1))


def _at_zero(xp: Any, g: Any, a: Any, b: Any) -> Any:
    """The exponents at which the derivative of 0 ** exponent is 0."""
    return (a == 0) & (xp.real(b) >= 0)


fused("pow_backward", _pow_backward, _pow_composed)
POW_SCALAR = SCALAR_FORMS["pow"] = primitive(
    "pow_scalar", _pow_number, params=("exponent",), scalars=("exponent",), pointwise=True, same_dtype=True, expr=KERNEL,
    node="PowBackward0", self=lambda xp, g, self, exponent: xp.pow_backward(g, self, exponent))
SQUARE = primitive("square", _square, pointwise=True, same_dtype=True, expr="self * self", node="PowBackward0",
                   inplace=np.square, self=lambda xp, g, self: xp.pow_backward(g, self, 2))
def _power(self: Meta, number: Any) -> Meta:
    return Meta(self.shape, np.result_type(*[x.dtype for x in meet(np.zeros(1, self.dtype), number)]), preserved(self))


POW_WIDE = primitive("pow_wide", lambda a, exponent: np.power(*meet(a, exponent)), params=("exponent",),
                     scalars=("exponent",), meta=_power, batch="leading", expr=KERNEL, node="PowBackward0",
                     self=lambda xp, g, self, exponent: xp.pow_backward(g, self, exponent))
POW = binary(
    "pow", _pow, inputs=("self", "exponent"), front=False, doc="", expr="pow(self, exponent)", node="PowBackward1",
    self=lambda xp, g, self, exponent: xp.drop(g * xp.conj(exponent * xp.pow(self, exponent - 1)), exponent == 0),
    exponent=lambda xp, g, self, exponent, out: xp.drop(g * xp.conj(out * xp.log(xp.as_float(self, out))),
                                                        _at_zero(xp, g, self, exponent)))
POW_BASE = BASE_FORMS["pow"] = primitive(
    "pow_base", lambda b, base: _pow(*meet(b, base)[::-1]), inputs=("exponent",), params=("base",), scalars=("base",),
    meta=_power, batch="leading", expr=KERNEL, node="PowBackward2",
    exponent=lambda xp, g, exponent, base, out: _pow_base_backward(xp, g, exponent, base, out))


def _pow_base_backward(xp: Any, g: Any, exponent: Any, base: Any, out: Any) -> Any:
    if base == 0:
        return xp.drop(g * xp.conj(out * -math.inf), xp.real(exponent) >= 0)
    if isinstance(base, complex):
        import cmath

        return g * xp.conj(out * cmath.log(base))
    if base < 0 and xp.is_complex(out):
        return g * xp.conj(out * complex(math.log(-base), math.pi))
    return g * xp.conj(out * (math.log(base) if base > 0 else math.nan))


def _as_float(a: Any, like: Any) -> Any:
    return a if a.dtype.kind in "fVc" else a.astype(like.dtype)


fused("as_float", _as_float, lambda xp, a, like: to_dtype(a, dtype_of(like)))


def _pow_samples(t: Any) -> list:
    return [call(t(3, 4, low=0.3, high=2.0), t(4)), call(t(3, 4), 2), call(t(), 3), call(t(3, 4, low=0.3, high=2.0), -0.5),
            call(t(3, dtype="int64"), 2), call(1.7, t(3, 4))]


@public(op=POW, inplace=True, samples=_pow_samples)
def pow(input: Any, exponent: Any) -> Any:
    """input to the power exponent, elementwise, with broadcasting. One of them may be a number.

    Raises:
        RuntimeError: integers to a negative integer number.

    Numerical caveats:
        The gradient for the exponent is 0 where input is 0 and the exponent is not negative.

    >>> flambeau.pow(flambeau.tensor([2., 3.]), 2).tolist()
    [4.0, 9.0]
    """
    if isinstance(input, TensorBase):
        if not isinstance(exponent, TensorBase) and is_number(exponent):
            if isinstance(exponent, complex) and dtype_of(input).kind != "c":
                return apply1(POW_WIDE, input, (exponent,))
            return apply1(POW_SCALAR, input, (exponent,))
    elif isinstance(exponent, TensorBase) and is_number(input):
        return apply1(POW_BASE, exponent, (input,))
    return call2(POW, input, exponent, "pow")


@public(inplace=True, samples=lambda t: [call(t(3, 4, low=0.3, high=2.0), t(4)), call(t(3, 4, low=0.3, high=2.0), 1.5),
                                         call(t(3, dtype="int64"), 2)])
def float_power(input: Any, exponent: Any) -> Any:
    """input to the power exponent, computed in float64 (complex128 for complex input); the result has that dtype.

    >>> flambeau.float_power(flambeau.tensor([1, 2]), 2).tolist()
    [1.0, 4.0]
    """
    both = (input, exponent)
    complexes = any(dtype_of(x).kind == "c" if isinstance(x, TensorBase) else isinstance(x, complex) for x in both)
    d = k.C128 if complexes else k.F64
    made = [to_dtype(x, d) if isinstance(x, TensorBase) else (complex(x) if complexes else float(x)) for x in both]
    return pow(*made)


@public(op=SQUARE, inplace=True, samples=unary_samples())
def square(input: Any) -> Any:
    """input * input, elementwise.

    >>> flambeau.square(flambeau.tensor([3.])).tolist()
    [9.0]
    """
    return apply1(SQUARE, tensor(input, "square"))


# --------------------------------------------------------------------------------- pairs


@wide
def _xlogy(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    x = np.asarray(np.multiply(a, np.log(b)))
    np.copyto(x, ZEROS[x.dtype], where=np.equal(a, ZEROS[a.dtype]) & ~np.isnan(b))
    return x


@wide
def _xlog1py(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    x = np.asarray(np.multiply(a, np.log1p(b)))
    np.copyto(x, ZEROS[x.dtype], where=np.equal(a, ZEROS[a.dtype]) & ~np.isnan(b))
    return x


binary("xlogy", _xlogy, float_result=True, expr=KERNEL, aliases=("special.xlogy",),
       example=("flambeau.tensor([0., 2.]), flambeau.tensor([0., 1.])", "[0.0, 0.0]"), samples=binary_samples(0.2, 3.0),
       doc="input * log(other), elementwise, with broadcasting; 0 where input is 0, even if other is not positive.",
       self=lambda xp, g, self, other: xp.drop(g * xp.log(other), (self == 0) & (other <= 0)),
       other=lambda xp, g, self, other: g * self / other)
binary("xlog1py", _xlog1py, float_result=True, expr=KERNEL, namespaces=("special",), method=False, inplace=False,
       example=("flambeau.tensor([0.]), flambeau.tensor([-1.])", "[0.0]"),
       samples=binary_samples(0.2, 3.0), node="SpecialXlog1PyBackward0",
       doc="input * log1p(other), elementwise, with broadcasting; 0 where input is 0.",
       self=lambda xp, g, self, other: xp.drop(g * xp.log1p(other), (self == 0) & (other <= -1)),
       other=lambda xp, g, self, other: g * self / (other + 1))


def _less_far(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """-|a - b|, and 0 where both are the same infinity."""
    t = np.asarray(np.subtract(a, b))
    same = np.isnan(t) & np.equal(a, b)
    if same.any():
        t = np.where(same, ZEROS[t.dtype], t)
    np.absolute(t, t)
    return np.negative(t, t)


_FEW = 256      # elements up to which NumPy's logaddexp, one loop over scalars, is the quicker


@k.elementwise
def _real_logaddexp(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.size <= _FEW and b.size <= _FEW:
        return np.asarray(np.logaddexp(a, b))
    t = _less_far(a, b)
    np.exp(t, t)
    np.log1p(t, t)
    return np.add(t, np.maximum(a, b), t)


@k.elementwise
def _real_logaddexp2(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.size <= _FEW and b.size <= _FEW:
        return np.asarray(np.logaddexp2(a, b))
    t = _less_far(a, b)
    np.exp2(t, t)
    np.log1p(t, t)
    np.multiply(t, k.scalar(1 / math.log(2), t.dtype), t)
    return np.add(t, np.maximum(a, b), t)


def _logaddexp(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.dtype.kind != "c":
        k.refuse("logaddexp_cpu", a, "biu")
        return _real_logaddexp(a, b)
    a, b = np.broadcast_arrays(a, b)
    smaller = np.isnan(a.real) | (a.real < b.real)
    low, high = np.where(smaller, a, b), np.where(smaller, b, a)
    same = ~np.isfinite(low.real) & (low.real == high.real)
    plain = np.where((low.real < 0) & same, low, np.log(np.exp(low) + np.exp(high)))
    return np.where(same, plain, high + np.log1p(np.exp(low - high))).astype(a.dtype)


def _logaddexp2(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    k.refuse("logaddexp2_cpu", a, "biuc")
    return _real_logaddexp2(a, b)


binary("logaddexp", _logaddexp, numbers=False, expr=KERNEL, inplace=False,
       example=("flambeau.tensor([0.]), flambeau.tensor([float('-inf')])", "[0.0]"),
       doc="log(exp(input) + exp(other)), elementwise, with broadcasting, without overflow.",
       self=lambda xp, g, self, other: g / xp.conj(xp.exp(other - self) + 1),
       other=lambda xp, g, self, other: g / xp.conj(xp.exp(self - other) + 1))
binary("logaddexp2", _logaddexp2, numbers=False, expr=KERNEL, inplace=False,
       example=("flambeau.tensor([0.]), flambeau.tensor([0.])", "[1.0]"),
       doc="log2(2 ** input + 2 ** other), elementwise, with broadcasting, without overflow.",
       self=lambda xp, g, self, other: g / (xp.exp2(other - self) + 1),
       other=lambda xp, g, self, other: g / (xp.exp2(self - other) + 1))


# --------------------------------------------------------------------------------- the logistic function


_ONE32, _ONE64 = ONES[k.F32], ONES[k.F64]
_FEW = 256          # elements up to which one slow pass (SciPy's) beats four fast ones
_expit: Any = None  # scipy.special.expit, or the four passes where there is no SciPy


@steps
def _logistic(a: np.ndarray, out: np.ndarray) -> np.ndarray:
    out = np.negative(a, out)
    np.exp(out, out)
    one = ONES[out.dtype]
    np.add(out, one, out)
    return np.true_divide(one, out, out)        # half the time of np.reciprocal


def _sigmoid(a: np.ndarray) -> np.ndarray:
    global _expit
    d = a.dtype
    if (d is not k.F32 and d is not k.F64) or a.ndim == 0:
        return _logistic(a)
    if not a.flags.c_contiguous:
        a = clone(a)         # a quarter of the time that NumPy takes to set up a strided loop
    if a.size > _FEW:
        if a.size > k.LARGE:
            return _logistic(a)
        out = np.negative(a)
        np.exp(out, out)
        np.add(out, _ONE32 if d is k.F32 else _ONE64, out)
        return np.reciprocal(out, out)
    if _expit is None:
        try:
            _expit = special("expit")
        except ImportError:
            _expit = _logistic
    return _expit(a)


_sigmoid.into = _logistic.into                                                # type: ignore[attr-defined]


def _sigmoid_backward(g: np.ndarray, out: np.ndarray) -> np.ndarray:
    d = out.dtype
    if (d is k.F32 or d is k.F64) and out.ndim:
        t = np.subtract(_ONE32 if d is k.F32 else _ONE64, out)
        np.multiply(t, out, t)
        return np.multiply(t, g, t)
    return _any_sigmoid_backward(g, out)


@wide
def _any_sigmoid_backward(g: np.ndarray, out: np.ndarray) -> np.ndarray:
    t = np.subtract(ONES[out.dtype], out, new(out))
    np.multiply(t, out, t)
    if t.dtype.kind == "c":
        np.conjugate(t, t)
    return np.multiply(t, g, t)


fused("sigmoid_backward", _sigmoid_backward, lambda xp, g, out: g * xp.conj((1 - out) * out))
SIGMOID = unary("sigmoid", _sigmoid, expr="1 / (1 + exp(-self))", example=("[0.0]", "[0.5]"),
                aliases=("special.expit",), doc="1 / (1 + exp(-input)), elementwise.",
                self=lambda xp, g, out: xp.sigmoid_backward(g, out))


@wide
def _logit(a: np.ndarray, eps: float | None) -> np.ndarray:
    if eps is not None:
        a = np.minimum(np.maximum(a, k.scalar(eps, a.dtype)), k.scalar(1 - eps, a.dtype))
    return np.log(a / (ONES[a.dtype] - a))


@wide
def _logit_backward(g: np.ndarray, a: np.ndarray, eps: float | None) -> np.ndarray:
    t = np.asarray(g / (a * (ONES[a.dtype] - a)))
    if eps is not None:
        return keep(t, (a >= k.scalar(eps, a.dtype)) & (a <= k.scalar(1 - eps, a.dtype)))
    np.copyto(t, np.array(np.nan, t.dtype), where=(a < ZEROS[a.dtype]) | (a > ONES[a.dtype]))
    return t


def _logit_composed(xp: Any, g: Any, a: Any, eps: float | None) -> Any:
    inside = (a >= (eps or 0)) & (a <= 1 - (eps or 0))
    t = xp.keep(g / (a * (1 - a)), inside)
    return t * (inside / inside) if eps is None else t          # 0 / 0 outside


fused("logit_backward", _logit_backward, _logit_composed)
LOGIT = primitive("logit", _logit, params=("eps",), pointwise=True, same_dtype=True, float_result=True, expr=KERNEL,
                  self=lambda xp, g, self, eps: xp.logit_backward(g, self, eps))


@public(op=LOGIT, inplace=True, aliases=("special.logit",),
        samples=lambda t: [call(t(3, 4, low=0.1, high=0.9)), call(t(3, 4, low=0.1, high=0.9), eps=0.05)])
def logit(input: Any, eps: float | None = None) -> Any:
    """log(input / (1 - input)), elementwise: the inverse of `sigmoid`.

    Args:
        eps: input is clamped to [eps, 1 - eps] first; None for no clamp, and nan outside [0, 1].

    >>> flambeau.logit(flambeau.tensor([0.5])).tolist()
    [0.0]
    """
    return apply1(LOGIT, tensor(input, "logit"), (eps,))
