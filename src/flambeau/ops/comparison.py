"""Comparisons; tests for nan, inf and closeness; the larger and the smaller of two."""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.objects import array_of, dtype_of, make, shape_of
from flambeau.kernels.casting import cast
from flambeau.kernels.layout import empty_like
from flambeau.kernels.pointwise import TWOS, keep, not_implemented, refuse, wide
from flambeau.kernels.services import common_dtype
from flambeau.kernels.strides import broadcast_shapes

from ._pointwise import binary, fused, tensors_only, unary
from ._record import call, public
from ._shapes import always, elementwise

for _name, _ufunc, _symbol, _aliases in (
    ("eq", np.equal, "==", ()), ("ne", np.not_equal, "!=", ("not_equal",)), ("lt", np.less, "<", ("less",)),
    ("le", np.less_equal, "<=", ("less_equal",)), ("gt", np.greater, ">", ("greater",)),
    ("ge", np.greater_equal, ">=", ("greater_equal",)),
):
    _kernel = _ufunc
    if _name not in ("eq", "ne"):
        def _kernel(a: np.ndarray, b: np.ndarray, _ufunc: Any = _ufunc, _kernel_name: str = f"{_name}_cpu") -> np.ndarray:
            if a.dtype.kind == "c":
                raise not_implemented(_kernel_name, a)
            return _ufunc(a, b)
    binary(_name, _kernel, bool_out=True, aliases=_aliases, expr=f"self {_symbol} other", differentiable=False,
           example=("flambeau.tensor([1, 2, 3]), 2", str(_ufunc(np.arange(1, 4), 2).tolist())),
           doc=f"Whether input {_symbol} other, elementwise, with broadcasting; a bool tensor.")


# --------------------------------------------------------------------------------- kinds of values


def _all(a: np.ndarray, answer: bool) -> np.ndarray:
    """The same answer for every element of a."""
    out = empty_like(a, dtype=np.dtype(bool))
    out.fill(answer)
    return out


def _never(a: np.ndarray) -> np.ndarray:
    return _all(a, False)


def _isinf(a: np.ndarray) -> np.ndarray:
    return np.isinf(a) if a.dtype.kind in "fVc" else _never(a)


def _isnan(a: np.ndarray) -> np.ndarray:
    return np.isnan(a) if a.dtype.kind in "fVc" else _never(a)


def _isfinite(a: np.ndarray) -> np.ndarray:
    return np.isfinite(a) if a.dtype.kind in "fVc" else _all(a, True)


def _signed_inf(value: float, kernel: str) -> Any:
    def test(a: np.ndarray) -> np.ndarray:
        refuse(kernel, a, "c")
        return np.equal(a, a.dtype.type(value)) if a.dtype.kind in "fV" else _never(a)

    return test


def _signbit(a: np.ndarray) -> np.ndarray:
    refuse("signbit_cpu", a, "c")
    if a.dtype.kind in "fV":
        return np.signbit(a)
    return np.less(a, 0) if a.dtype.kind == "i" else _never(a)


def _isreal(a: np.ndarray) -> np.ndarray:
    return np.equal(a.imag, 0) if a.dtype.kind == "c" else _all(a, True)


for _name, _kernel, _example, _doc in (
    ("isnan", _isnan, ("[1., float('nan')]", "[False, True]"), "Whether each element is nan (in either part, for complex)."),
    ("isinf", _isinf, ("[1., float('-inf')]", "[False, True]"), "Whether each element is infinite."),
    ("isfinite", _isfinite, ("[1., float('inf')]", "[True, False]"), "Whether each element is neither infinite nor nan."),
    ("isposinf", _signed_inf(np.inf, "isposinf"), ("[1., float('inf')]", "[False, True]"), "Whether each element is +inf."),
    ("isneginf", _signed_inf(-np.inf, "isneginf"), ("[1., float('-inf')]", "[False, True]"),
     "Whether each element is -inf."),
    ("signbit", _signbit, ("[1., -0.0]", "[False, True]"), "Whether the sign bit of each element is set; true for -0.0."),
    ("isreal", _isreal, ("[1., 2.]", "[True, True]"), "Whether each element's imaginary part is 0; true for real dtypes."),
):
    unary(_name, _kernel, bool_out=True, float_result=False, inplace=False, differentiable=False, expr="runs as a kernel",
          example=_example, doc=_doc)


# --------------------------------------------------------------------------------- closeness


def _close_samples(t: Any) -> list:
    return [call(t(3, 4), t(3, 4)), call(t(3, 4), t(4), rtol=0.5, atol=0.5)]


@public(meta=elementwise(2, always("?")), samples=_close_samples, differentiable=False, out=False)
def isclose(input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Any:
    """Whether |input - other| <= atol + rtol * |other|, elementwise, with broadcasting; a bool tensor.

    Args:
        rtol, atol: relative and absolute tolerance, not negative.
        equal_nan: two nan count as close.

    Raises:
        RuntimeError: the dtypes differ, or a tolerance is negative.

    >>> flambeau.isclose(flambeau.tensor([1., 2.]), flambeau.tensor([1., 2.1])).tolist()
    [True, False]
    """
    tensors_only("isclose", input, other)
    if dtype_of(input) != dtype_of(other):
        raise RuntimeError(f"{dtype_of(input)} did not match {dtype_of(other)}: isclose() compares tensors of one dtype")
    if rtol < 0 or atol < 0:
        raise RuntimeError(f"rtol and atol must be greater than or equal to zero, but got rtol={rtol}, atol={atol}")
    a, b = array_of(input), array_of(other)
    broadcast_shapes(a.shape, b.shape)
    with np.errstate(all="ignore"):
        close = np.equal(a, b)
        if a.dtype.kind in "fVc" and equal_nan:
            close = close | (np.isnan(a) & np.isnan(b))
        if rtol == 0 and atol == 0:
            return make(np.asarray(close))
        if a.dtype.kind not in "fVc":
            a, b = a.astype(np.float64), b.astype(np.float64)
        elif a.dtype.itemsize == 2:
            a, b = a.astype(np.float32), b.astype(np.float32)
        error = np.abs(a - b)
        return make(np.asarray(close | (np.isfinite(error) & (error <= atol + np.abs(rtol * b)))))


@public(samples=_close_samples, differentiable=False, out=False)
def allclose(input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Whether all elements are close: see `isclose`.

    >>> flambeau.allclose(flambeau.tensor([1.]), flambeau.tensor([1.0000001]))
    True
    """
    return bool(isclose(input, other, rtol, atol, equal_nan).all())


_FEW = 4096


@public(samples=lambda t: [call(t(3, 4), t(3, 4))], differentiable=False, out=False)
def equal(input: Any, other: Any) -> bool:
    """Whether two tensors have the same shape and the same elements.

    >>> flambeau.equal(flambeau.tensor([1, 2]), flambeau.tensor([1, 2]))
    True
    """
    tensors_only("equal", input, other)
    if shape_of(input) != shape_of(other):
        return False
    a, b = array_of(input), array_of(other)
    if a.dtype is not b.dtype:
        d = common_dtype(a, b, False, False)
        a, b = cast(a, d), cast(b, d)
    if a.size > _FEW and a.flags.c_contiguous and b.flags.c_contiguous:
        a, b = a.reshape(-1), b.reshape(-1)
        if not np.array_equal(a[:_FEW], b[:_FEW]):      # most unequal ones differ early
            return False
    same = np.equal(a, b)
    return bool(np.count_nonzero(same) == same.size if same.size <= 4096 else same.all())


# --------------------------------------------------------------------------------- the larger, the smaller
#
# Equal elements share the gradient of `maximum` half and half; it lets nan through, and both inputs then get the
# gradient. `fmax` prefers the number, and the first of equal ones.


@wide
def _extremum_backward(g: np.ndarray, winner: np.ndarray, ties: np.ndarray) -> np.ndarray:
    t = keep(g, winner)
    if ties.any():
        np.copyto(t, g / TWOS[g.dtype], where=ties)
    return t


fused("extremum_backward", _extremum_backward,
      lambda xp, g, winner, ties: xp.keep(g, winner & ~ties) + xp.keep(g / 2, ties))


def _extremum(name: str, ufunc: Any, doc: str, result: str, **formulas: Any) -> None:
    def kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        if a.dtype.kind == "c":
            raise not_implemented(f"{name}_cpu", a)
        return ufunc(a, b)

    binary(name, kernel, numbers=False, expr=f"{name}(self, other)", inplace=False,
           example=("flambeau.tensor([1., 5.]), flambeau.tensor([3., 2.])", result), doc=doc, **formulas)


_extremum("maximum", np.maximum, "The larger of input and other, elementwise, with broadcasting; nan if either is.",
          "[3.0, 5.0]",
          self=lambda xp, g, self, other: xp.extremum_backward(g, ~(self < other), self == other),
          other=lambda xp, g, self, other: xp.extremum_backward(g, ~(self > other), self == other))
_extremum("minimum", np.minimum, "The smaller of input and other, elementwise, with broadcasting; nan if either is.",
          "[1.0, 2.0]",
          self=lambda xp, g, self, other: xp.extremum_backward(g, ~(self > other), self == other),
          other=lambda xp, g, self, other: xp.extremum_backward(g, ~(self < other), self == other))
_extremum("fmax", np.fmax, "The larger of input and other, elementwise, with broadcasting; the number when one is nan.",
          "[3.0, 5.0]", self=lambda xp, g, self, other: xp.keep(g, (self >= other) | xp.isnan(other)),
          other=lambda xp, g, self, other: xp.drop(g, (self >= other) | xp.isnan(other)))
_extremum("fmin", np.fmin, "The smaller of input and other, elementwise, with broadcasting; the number when one is nan.",
          "[1.0, 2.0]", self=lambda xp, g, self, other: xp.keep(g, (self <= other) | xp.isnan(other)),
          other=lambda xp, g, self, other: xp.drop(g, (self <= other) | xp.isnan(other)))
