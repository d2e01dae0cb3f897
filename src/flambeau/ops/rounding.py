"""Rounding, parts of numbers, and what concerns their representation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from flambeau.core.apply import apply1, apply2, apply_n
from flambeau.core.objects import TensorBase, dtype_of
from flambeau.kernels.casting import cast, converted
from flambeau.kernels.layout import clone
from flambeau.kernels.pointwise import TWOS, ZEROS, is_half, limit, refuse, scalar, select, wide

from ._args import tensor
from ._pointwise import binary, binary_samples, call2, is_number, no_derivative, scalar_form, tensors_only, unary
from ._record import KERNEL, call, primitive, public
from ._shapes import always, like, several


def _zero(xp: Any, g: Any) -> Any:
    return xp.zeros_like(g)


def _whole(ufunc: Any, name: str) -> Any:
    """Integers are whole already."""

    def kernel(a: np.ndarray) -> np.ndarray:
        kind = a.dtype.kind
        if kind in "fV":
            return ufunc(a)
        refuse(f"{name}_vml_cpu", a, "bc")
        return clone(a)

    return kernel


for _name, _ufunc, _aliases, _example, _doc in (
    ("floor", np.floor, (), ("[1.7, -1.2]", "[1.0, -2.0]"), "The largest whole number not above input, elementwise."),
    ("ceil", np.ceil, (), ("[1.2, -1.7]", "[2.0, -1.0]"), "The smallest whole number not below input, elementwise."),
    ("trunc", np.trunc, ("fix",), ("[1.7, -1.7]", "[1.0, -1.0]"), "input without its fraction, elementwise."),
):
    unary(_name, _whole(_ufunc, _name), float_result=False, aliases=_aliases, expr=f"{_name}(self)", example=_example,
          doc=_doc, self=_zero)


def _frac(a: np.ndarray) -> np.ndarray:
    refuse("frac_cpu", a, "biuc")
    return np.subtract(a, np.trunc(a))


unary("frac", _frac, float_result=False, expr="self - trunc(self)", example=("[1.5, -1.5]", "[0.5, -0.5]"),
      doc="input - trunc(input), elementwise: the fraction with its sign.", self=lambda xp, g: g)


@wide
def _round_decimals(a: np.ndarray, decimals: int) -> np.ndarray:
    # PyTorch multiplies, rounds and divides in the tensor's own precision
    power = scalar(10.0 ** abs(decimals) if abs(decimals) < 309 else math.inf, a.dtype)
    if decimals < 0:
        return np.multiply(np.rint(np.true_divide(a, power)), power)
    return np.true_divide(np.rint(np.multiply(a, power)), power)




ROUND = primitive("round", _whole(np.rint, "round"), pointwise=True, same_dtype=True, expr="rint(self)", self=_zero)
ROUND_DECIMALS = primitive("round_decimals", _round_decimals, params=("decimals",), pointwise=True, same_dtype=True,
                           expr=KERNEL, node="RoundBackward1", self=_zero)


@public(op=ROUND, inplace=True, aliases=("special.round",),
        samples=lambda t: [call(t(3, 4, low=1.1, high=1.4)), call(t(3, 4, low=1.11, high=1.14), decimals=1)])
def round(input: Any, *, decimals: int = 0) -> Any:
    """The nearest whole number, elementwise; halves go to the even one.

    Args:
        decimals: decimal places to keep; negative ones round to tens, hundreds, ...

    Raises:
        NotImplementedError: integers with decimals other than 0.

    >>> flambeau.round(flambeau.tensor([0.5, 1.5, 2.6])).tolist()
    [0.0, 2.0, 3.0]
    """
    if decimals == 0:
        return apply1(ROUND, tensor(input, "round"))
    if dtype_of(tensor(input, "round")).kind not in "fV":
        raise NotImplementedError(f'"round_vml_cpu" not implemented for {dtype_of(input)} with decimals={decimals}')
    return apply1(ROUND_DECIMALS, input, (decimals,))


# --------------------------------------------------------------------------------- representation


def _copysign(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    refuse("copysign_cpu", a, "c")
    return np.copysign(a, b)


def _copysign_backward(xp: Any, g: Any, a: Any, out: Any) -> Any:
    return xp.drop(g * (out / a), a == 0)


COPYSIGN = binary("copysign", _copysign, front=False, doc="", float_result=True, expr="copysign(self, other)",
                  self=lambda xp, g, self, out: _copysign_backward(xp, g, self, out), other=_zero)
COPYSIGN_SCALAR = scalar_form("copysign", lambda a, b: _copysign(cast(a, b.dtype), b), "CopysignBackward1",
                              self=lambda xp, g, self, out: _copysign_backward(xp, g, self, out))


@public(op=COPYSIGN, inplace=True, samples=binary_samples(0.3, 2.0))
def copysign(input: Any, other: Any) -> Any:
    """The magnitude of input with the sign of other, elementwise, with broadcasting.

    >>> flambeau.copysign(flambeau.tensor([1., 2.]), -0.0).tolist()
    [-1.0, -2.0]
    """
    if isinstance(input, TensorBase) and is_number(other):
        return apply1(COPYSIGN_SCALAR, input, (float(other),))
    return call2(COPYSIGN, tensor(input, "copysign"), other, "copysign")


def _nextafter(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    refuse("nextafter_cpu", a, "biuc")
    return np.nextafter(a, b)


binary("nextafter", _nextafter, numbers=False, expr=KERNEL, node="NextafterBackward0",
       example=("flambeau.tensor([0.]), flambeau.tensor([0.])", "[0.0]"),
       samples=lambda t: [call(t(3, 4), t(4))],
       doc="The next representable number after input towards other, elementwise, with broadcasting.",
       self=lambda xp, g, self, other: xp.drop(g, self == other),
       other=_zero)


def _ldexp(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.multiply(a, np.exp2(b) if b.dtype.kind != "c" else np.power(TWOS[b.dtype], b))


binary("ldexp", _ldexp, numbers=False, float_result=True, expr="self * exp2(other)",
       example=("flambeau.tensor([1.]), flambeau.tensor([3])", "[8.0]"), samples=binary_samples(-1.0, 1.0, number=None),
       doc="input * 2 ** other, elementwise, with broadcasting.",
       self=lambda xp, g, other: g * xp.conj(xp.pow_base(other, 2.0)),
       other=lambda xp, g, out: g * xp.conj(out) * 0.6931471805599453)


def _frexp(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    d = a.dtype
    mantissa, exponent = np.frexp(converted(a, np.dtype(np.float32)) if is_half(a) else a)
    mantissa, exponent = np.asarray(mantissa), np.asarray(exponent)
    finite = np.isfinite(mantissa)
    return mantissa.astype(d), np.where(finite, exponent, exponent).astype(np.int32)


FREXP = primitive("frexp", _frexp, outputs=(True, False), meta=several(like(), like(always("i4"))),
batch="leading", expr=KERNEL,
                  self=lambda xp, g, out1: g / xp.exp2(xp.as_float(out1, g)))


@public(op=FREXP, samples=lambda t: [call(t(3, 4, low=0.3, high=2.0))])
def frexp(input: Any) -> Any:
    """Mantissa in (-1, -0.5] or [0.5, 1), and exponent, such that input = mantissa * 2 ** exponent; elementwise.

    Returns:
        (mantissa, exponent): the dtype of input, and int32.

    Raises:
        RuntimeError: input is not floating.

    >>> flambeau.frexp(flambeau.tensor([8.]))[1].tolist()
    [4]
    """
    if dtype_of(tensor(input, "frexp")).kind not in "fV":
        raise RuntimeError("torch.frexp() only supports floating-point dtypes")
    return FrexpResult(*apply_n(FREXP, [input]))


from collections import namedtuple  # noqa: E402

FrexpResult = namedtuple("frexp", ("mantissa", "exponent"))


def _heaviside(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    refuse("heaviside_cpu", a, "c")
    at_zero = np.where(np.equal(a, ZEROS[a.dtype]), b, np.greater(a, ZEROS[a.dtype]).astype(a.dtype))
    return at_zero if a.dtype.kind not in "fV" else np.where(np.isnan(a), ZEROS[a.dtype], at_zero)


HEAVISIDE = binary("heaviside", _heaviside, front=False, doc="", expr=KERNEL, node="NotImplemented",
                   self=no_derivative("heaviside"), other=no_derivative("heaviside"))


@public(op=HEAVISIDE, inplace=True, differentiable=False, samples=lambda t: [call(t(3, 4, grad=False), t(4, grad=False))])
def heaviside(input: Any, values: Any) -> Any:
    """0 where input is negative, 1 where positive, values where 0; elementwise, with broadcasting.

    Raises:
        RuntimeError: the dtypes differ.

    >>> flambeau.heaviside(flambeau.tensor([-1., 0., 2.]), flambeau.tensor([0.5])).tolist()
    [0.0, 0.5, 1.0]
    """
    tensors_only("heaviside", input, values, "values")
    if dtype_of(input) != dtype_of(values):
        raise RuntimeError("heaviside is not implemented for tensors with different dtypes. Convert one of them "
                           "with .to().")
    return apply2(HEAVISIDE, input, values)


@wide
def _nan_to_num(a: np.ndarray, nan: float | None, posinf: float | None, neginf: float | None) -> np.ndarray:
    if a.dtype.kind not in "fc":
        return clone(a)
    if a.dtype.kind == "c":
        x = clone(a)
        x.real, x.imag = _nan_to_num(a.real, nan, posinf, neginf), _nan_to_num(a.imag, nan, posinf, neginf)
        return x
    top = np.finfo(a.dtype)
    high = float(top.max) if posinf is None else posinf
    low = float(top.min) if neginf is None else neginf
    if posinf is None and neginf is None and a.ndim:
        x = limit(a, low, high)
    else:
        x = select(np.asarray(np.equal(a, np.inf)), scalar(high, a.dtype), a)
        x = select(np.asarray(np.equal(a, -np.inf)), scalar(low, a.dtype), x)
    wrong = np.asarray(np.isnan(a))
    return select(wrong, scalar(0.0 if nan is None else nan, a.dtype), x) if wrong.any() else x


def _nan_to_num_typed(a: np.ndarray, nan: float | None, posinf: float | None, neginf: float | None) -> np.ndarray:
    if is_half(a):         # the largest number is the narrow dtype's
        import ml_dtypes

        top = ml_dtypes.finfo(a.dtype)
        posinf = float(top.max) if posinf is None else posinf
        neginf = float(top.min) if neginf is None else neginf
    return _nan_to_num(a, nan, posinf, neginf)


NAN_TO_NUM = primitive("nan_to_num", _nan_to_num_typed, params=("nan", "posinf", "neginf"),
                       scalars=("nan", "posinf", "neginf"),
                       pointwise=True, same_dtype=True, expr=KERNEL, self=lambda xp, g, self: xp.keep(g, xp.isfinite(self)))


@public(op=NAN_TO_NUM, inplace=True, samples=lambda t: [call(t(3, 4)), call(t(3, 4), nan=1.0, posinf=2.0, neginf=-2.0)])
def nan_to_num(input: Any, nan: float | None = None, posinf: float | None = None, neginf: float | None = None) -> Any:
    """input with nan and the infinities replaced, elementwise.

    Args:
        nan: 0 when None.
        posinf, neginf: the largest and the lowest number of the dtype when None.

    >>> flambeau.nan_to_num(flambeau.tensor([1., float("nan")])).tolist()
    [1.0, 0.0]
    """
    return apply1(NAN_TO_NUM, tensor(input, "nan_to_num"), (nan, posinf, neginf))


