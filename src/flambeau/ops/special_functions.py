"""Special functions, computed by SciPy (imported when the first one is called)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from flambeau.core.apply import apply1
from flambeau.core.objects import TensorBase
from flambeau.kernels.error_function import erf
from flambeau.kernels.pointwise import LARGE, ZEROS, in_blocks, refuse, wide
from flambeau.kernels.scipy_special import scipy_kernel, special

from ._args import integer, tensor
from ._pointwise import binary, call2, no_derivative, unary, unary_samples
from ._record import KERNEL, call, primitive, public

_SPECIAL = ("special",)
_TWO_OVER_SQRT_PI = 2.0 / math.sqrt(math.pi)


def _real(name: str) -> Callable:
    """scipy.special.<name>, refusing complex arrays, of which PyTorch has no such function."""
    kernel = scipy_kernel(name)

    def checked(a: np.ndarray, *rest: Any) -> np.ndarray:
        refuse(f"{name}_cpu", a, "c")
        return kernel(a, *rest)

    return checked


# --------------------------------------------------------------------------------- error function, gamma


@wide
def _erf_kernel(a: np.ndarray) -> np.ndarray:
    refuse("erf_cpu", a, "c")
    return erf(a)


def _erf(name: str, aliases: tuple, result: str, doc: str, formula: Callable, **kw: Any) -> None:
    unary(name, _erf_kernel if name == "erf" else _real(name), expr=f"{name}(self)", aliases=aliases,
          example=("[0.0]", result), doc=doc, self=formula, **kw)


_erf("erf", ("special.erf",), "[0.0]", "The error function, elementwise.",
     lambda xp, g, self: g * _TWO_OVER_SQRT_PI * xp.exp(-self * self))
_erf("erfc", ("special.erfc",), "[1.0]", "1 - erf(input), elementwise, precise for large input.",
     lambda xp, g, self: g * -_TWO_OVER_SQRT_PI * xp.exp(-self * self))
_erf("erfinv", ("special.erfinv",), "[0.0]", "The inverse of erf, elementwise; nan outside [-1, 1].",
     lambda xp, g, self: g * (1 / _TWO_OVER_SQRT_PI) * xp.exp(xp.square(xp.erfinv(self))), samples=unary_samples(-0.9, 0.9))
unary("erfcx", _real("erfcx"), namespaces=_SPECIAL, method=False, inplace=False, expr=KERNEL, example=("[0.0]", "[1.0]"),
      doc="exp(input ** 2) * erfc(input), elementwise.", node="SpecialErfcxBackward0",
      self=lambda xp, g, self, out: g * (self * out * 2 - _TWO_OVER_SQRT_PI))
def _lgamma(a: np.ndarray) -> np.ndarray:
    out = np.asarray(_real("gammaln")(a))
    infinite = np.isinf(out)
    if infinite.any():              # SciPy's overflows at subnormal numbers, where gamma(a) is 1 / a, and is -inf at -inf
        return np.where(infinite & (np.abs(a) < 1), -np.log(np.abs(a)), np.abs(out))
    return out


unary("lgamma", _lgamma, expr="lgamma(self)", aliases=("special.gammaln",), example=("[1.0]", "[0.0]"),
      samples=unary_samples(0.3, 3.0), doc="Logarithm of the absolute value of the gamma function, elementwise.",
      self=lambda xp, g, self: g * xp.digamma(self))


@wide
def _digamma(a: np.ndarray) -> np.ndarray:
    x = np.asarray(_real("psi")(a))
    # +-inf at the poles: by the sign of zero at 0, nan at negative whole numbers
    return np.where(np.equal(a, ZEROS[a.dtype]), np.copysign(a.dtype.type(np.inf), -a), np.where(
        np.less(a, ZEROS[a.dtype]) & np.equal(a, np.trunc(a)), a.dtype.type(np.nan), x))


unary("digamma", _digamma, expr=KERNEL, aliases=("special.digamma", "special.psi"),
      example=("[1.0]", "[-0.5772156715393066]"),
      samples=unary_samples(0.3, 3.0), doc="Derivative of lgamma, elementwise.",
      self=lambda xp, g, self: g * xp.polygamma(self, 1))


def _polygamma(a: np.ndarray, n: int) -> np.ndarray:
    if n == 0:
        return _digamma(a)
    refuse("polygamma", a, "c")
    d = a.dtype
    wide_a = a.astype(np.float64)
    x = special("zeta")(n + 1.0, wide_a) * (special("gamma")(n + 1.0) * (-1.0) ** (n + 1))
    return np.asarray(x).astype(d)


# Bernoulli numbers B2, B4, ..., B16: the asymptotic series of the trigamma function
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)


def _trigamma(a: np.ndarray) -> np.ndarray:
    """Reflected to arguments from 1/2, psi'(1 - x) + psi'(x) = pi^2 / sin^2(pi x), moved to arguments from 8.5 by
    psi'(x) = psi'(x + 1) + 1 / x^2, and there by 1/x + 1/(2 x^2) + the sum of B(2k) / x^(2k + 1)."""
    if a.size > LARGE:
        return in_blocks(_trigamma, a)
    w = np.asarray(a.astype(np.float64))
    low = w < 0.5
    x = np.where(low, 1 - w, w)
    if x.size <= 64:        # all steps at once
        steps = x[..., None] + np.arange(8.0)
        value = np.add.reduce(1 / (steps * steps), -1)
        inverse = 1 / (x + 8)
        square = inverse * inverse
        series = np.asarray(np.power(square[..., None], np.arange(8)).dot(_BERNOULLI))
    else:
        value = np.zeros_like(x)
        for _ in range(8):
            value += 1 / (x * x)
            x = x + 1
        inverse = 1 / x
        square = inverse * inverse
        series = np.full_like(x, _BERNOULLI[-1])
        for b in _BERNOULLI[-2::-1]:
            series = series * square + b
    value += inverse + square * (0.5 + series * inverse)
    if low.any():
        value = np.where(low, (math.pi / np.sin(math.pi * w)) ** 2 - value, value)
    return value.astype(a.dtype)


POLYGAMMA = primitive("polygamma", lambda a, n: _trigamma(a) if n == 1 else _polygamma(a, n), params=("n",), pointwise=True,
                      same_dtype=True, float_result=True, expr=KERNEL,
                      self=lambda xp, g, self, n: g * xp.polygamma(self, n + 1))


def polygamma(n: int, input: Any) -> Any:
    """The n-th derivative of digamma, elementwise.

    Raises:
        RuntimeError: n is negative.

    >>> flambeau.polygamma(0, flambeau.tensor([1.0])).shape
    torch.Size([1])
    """
    if isinstance(n, TensorBase):       # as a method: input.polygamma(n)
        n, input = input, n
    if n < 0:
        raise RuntimeError(f"polygamma(n, x) does not support negative n, got n={n}")
    return apply1(POLYGAMMA, tensor(input, "polygamma", "input", 2), (integer(n, "polygamma", "n"),))


public(op=POLYGAMMA, inplace=True, aliases=("special.polygamma",),
       samples=lambda t: [call(1, t(3, 4, low=0.5, high=2.0))])(polygamma)


def _mvlgamma(a: np.ndarray, p: int) -> np.ndarray:
    refuse("mvlgamma", a, "c")
    d = a.dtype
    w = a.astype(np.float64)
    x = np.full(a.shape, p * (p - 1) / 4 * math.log(math.pi))
    for i in range(p):
        x = x + special("gammaln")(w - 0.5 * i)
    return x.astype(d)


def _mvlgamma_backward(xp: Any, g: Any, a: Any, p: int) -> Any:
    total = xp.digamma(a)
    for i in range(1, p):
        total = total + xp.digamma(a - 0.5 * i)
    return g * total


MVLGAMMA = primitive("mvlgamma", _mvlgamma, params=("p",), pointwise=True, same_dtype=True, float_result=True, expr=KERNEL,
                     self=lambda xp, g, self, p: _mvlgamma_backward(xp, g, self, p))


@public(op=MVLGAMMA, inplace=True, aliases=("special.multigammaln",),
        samples=lambda t: [call(t(3, 4, low=2.0, high=4.0), 2)])
def mvlgamma(input: Any, p: int) -> Any:
    """Logarithm of the multivariate gamma function of dimension p, elementwise, without its constant's sign.

    Raises:
        RuntimeError: p is below 1.

    >>> flambeau.mvlgamma(flambeau.tensor([1.0]), 1).tolist()
    [0.0]
    """
    if p < 1:
        raise RuntimeError(f"p has to be greater than or equal to 1, got {p}")
    return apply1(MVLGAMMA, tensor(input, "mvlgamma"), (integer(p, "mvlgamma", "p"),))


def _gamma_backward(xp: Any, g: Any, a: Any, x: Any) -> Any:
    return g * xp.exp((a - 1) * xp.log(x) - x - xp.lgamma(a))


for _name, _scipy, _sign, _alias, _doc in (
    ("igamma", "gammainc", 1, "special.gammainc", "The regularised lower incomplete gamma function P(input, other)."),
    ("igammac", "gammaincc", -1, "special.gammaincc", "The regularised upper incomplete gamma function Q(input, other)."),
):
    def _kernel(a: np.ndarray, b: np.ndarray, _scipy: str = _scipy, _name: str = _name) -> np.ndarray:
        refuse(f"{_name}_cpu", a, "biuc")
        return scipy_kernel(_scipy)(a, b)

    binary(_name, _kernel, numbers=False, expr=KERNEL, aliases=(_alias,),
           doc=f"{_doc[:-1]}, elementwise, with broadcasting.",
           samples=lambda t: [call(t(3, 4, low=0.5, high=2.0, grad=False), t(4, low=0.5, high=2.0))],
           self=no_derivative(f"{_name}: input"),
           other=(lambda xp, g, self, other: _gamma_backward(xp, g, self, other)) if _sign > 0 else
           (lambda xp, g, self, other: -_gamma_backward(xp, g, self, other)))


# --------------------------------------------------------------------------------- Bessel functions

unary("i0", _real("i0"), expr=KERNEL, aliases=("special.i0",), example=("[0.0]", "[1.0]"),
      doc="Modified Bessel function of the first kind of order 0, elementwise.",
      self=lambda xp, g, self: g * xp.special_i1(self))
unary("i0e", _real("i0e"), expr=KERNEL, namespaces=_SPECIAL, method=False, inplace=False, example=("[0.0]", "[1.0]"),
      doc="exp(-|input|) * i0(input), elementwise.", node="SpecialI0EBackward0",
      self=lambda xp, g, self, out: g * (xp.special_i1e(self) - xp.sgn(self) * out))


def _over(xp: Any, a: Any, x: Any) -> Any:
    """x / a, at 0 the limit 1/2: i1(a) / a."""
    tiny = xp.abs(a) < 1e-30             # x may have underflowed
    limit = xp.as_float(tiny, a)
    return xp.drop(x / (a + limit), tiny) + limit * 0.5


unary("i1", _real("i1"), expr=KERNEL, namespaces=_SPECIAL, method=False, inplace=False, example=("[0.0]", "[0.0]"),
      samples=unary_samples(0.3, 2.0), doc="Modified Bessel function of the first kind of order 1, elementwise.",
      node="SpecialI1Backward0", self=lambda xp, g, self, out: g * (xp.i0(self) - _over(xp, self, out)))
unary("i1e", _real("i1e"), expr=KERNEL, namespaces=_SPECIAL, method=False, inplace=False, example=("[0.0]", "[0.0]"),
      samples=unary_samples(0.3, 2.0), doc="exp(-|input|) * i1(input), elementwise.", node="SpecialI1EBackward0",
      self=lambda xp, g, self, out: g * (xp.special_i0e(self) - xp.sgn(self) * out - _over(xp, self, out)))


def _spherical_j0(a: np.ndarray) -> np.ndarray:
    w = a.astype(np.float64)
    x = np.sin(w) / w
    return np.where(w == 0, 1.0, np.where(np.isinf(w), 0.0, x)).astype(a.dtype)


def _airy(a: np.ndarray) -> np.ndarray:
    out = np.asarray(special("airy")(a)[0]).astype(a.dtype)
    lost = np.isnan(out) & np.isfinite(a)
    if lost.any():          # SciPy gives up where |a| is large: 0 on the right, section 10.4.60 on the left
        z = np.abs(np.asarray(a, np.float64))
        wave = np.sin(2 / 3 * z * np.sqrt(z) + np.pi / 4) / np.sqrt(np.pi * np.sqrt(z))
        return np.where(lost, np.where(a > 0, 0.0, wave), out).astype(a.dtype)
    return out


_FIRST, _SECOND = "The Bessel function of the first kind,", "The Bessel function of the second kind,"
_MODIFIED, _MODIFIED_SECOND = (f"The modified Bessel function of the {kind} kind," for kind in ("first", "second"))
for _name, _kernel, _what in (
    ("bessel_j0", _real("j0"), f"{_FIRST} of order 0: J_0(input) = sum over k of (-1)^k (input / 2)^(2k) / k!^2"),
    ("bessel_j1", _real("j1"), f"{_FIRST} of order 1: J_1(input), the negative derivative of J_0"),
    ("bessel_y0", _real("y0"), f"{_SECOND} of order 0: Y_0(input), -inf at 0 and nan below"),
    ("bessel_y1", _real("y1"), f"{_SECOND} of order 1: Y_1(input), the negative derivative of Y_0"),
    ("modified_bessel_i0", _real("i0"), f"{_MODIFIED} of order 0: I_0(input) = sum over k of (input / 2)^(2k) / k!^2"),
    ("modified_bessel_i1", _real("i1"), f"{_MODIFIED} of order 1: I_1(input), the derivative of I_0"),
    ("modified_bessel_k0", _real("k0"), f"{_MODIFIED_SECOND} of order 0: K_0(input), inf at 0 and nan below"),
    ("modified_bessel_k1", _real("k1"), f"{_MODIFIED_SECOND} of order 1: K_1(input), the negative derivative of K_0"),
    ("scaled_modified_bessel_k0", _real("k0e"), "exp(input) K_0(input): `modified_bessel_k0` without its underflow"),
    ("scaled_modified_bessel_k1", _real("k1e"), "exp(input) K_1(input): `modified_bessel_k1` without its underflow"),
    ("spherical_bessel_j0", _spherical_j0, "The spherical Bessel function of order 0: sin(input) / input, 1 at 0"),
    ("airy_ai", _airy, "The Airy function Ai(input): the solution of y'' = input y that falls to 0 at infinity"),
):
    unary(_name, _kernel, expr=KERNEL, namespaces=_SPECIAL, method=False, inplace=False, differentiable=False,
          samples=lambda t: [call(t(3, 4, low=0.3, high=2.0, grad=False))],
          doc=f"{_what}; elementwise. Not differentiable.\n\nSource: Abramowitz and Stegun, chapters 9 and 10.")


# --------------------------------------------------------------------------------- entropy, normal distribution


@wide
def _entr(a: np.ndarray) -> np.ndarray:
    return np.asarray(special("entr")(a)).astype(a.dtype)


unary("entr", _entr, expr=KERNEL, namespaces=_SPECIAL, method=False, inplace=False, example=("[0.0, 1.0]", "[0.0, -0.0]"),
      samples=unary_samples(0.2, 2.0), node="SpecialEntrBackward0",
      doc="-input * log(input), elementwise; 0 at 0, -inf for negative input.",
      self=lambda xp, g, self: g * (-xp.log(self) - 1))
unary("ndtr", _real("ndtr"), expr=KERNEL, namespaces=_SPECIAL, method=False, inplace=False, example=("[0.0]", "[0.5]"),
      doc="Distribution function of the normal distribution, elementwise.", node="MulBackward1",
      self=lambda xp, g, self: g * (1 / math.sqrt(2 * math.pi)) * xp.exp(self * self * -0.5))
@wide
def _wide_slope(a: np.ndarray) -> np.ndarray:
    scaled = np.asarray(a * a.dtype.type(-math.sqrt(0.5)))
    return np.asarray(math.sqrt(2 / math.pi) / special("erfcx")(scaled)).astype(a.dtype)


unary("log_ndtr", _real("log_ndtr"), expr=KERNEL, namespaces=_SPECIAL, method=False, inplace=False,
      doc="Logarithm of the distribution function of the normal distribution, elementwise.", node="SpecialLogNdtrBackward0",
      self=lambda xp, g, self: g * xp.log_ndtr_slope(self))
# The density divided by the distribution function; its own derivative reads no reciprocal, which overflows
primitive("log_ndtr_slope", _wide_slope, pointwise=True, same_dtype=True, expr=KERNEL,
          self=lambda xp, g, self, out: -g * out * (self + out))
unary("ndtri", _real("ndtri"), expr=KERNEL, namespaces=_SPECIAL, method=False, inplace=False, example=("[0.5]", "[0.0]"),
      samples=unary_samples(0.1, 0.9), node="SpecialNdtriBackward0",
      doc="Inverse of the distribution function of the normal distribution, elementwise.",
      self=lambda xp, g, out: g * math.sqrt(2 * math.pi) * xp.exp(out * out * 0.5))


def _zeta(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return _real("zeta")(a, b)


binary("zeta", _zeta, float_result=True, expr=KERNEL, namespaces=_SPECIAL, method=False, inplace=False,
       samples=lambda t: [call(t(3, 4, low=1.5, high=3.0, grad=False), t(4, low=0.5, high=2.0))],
       doc="The Hurwitz zeta function: the sum over k of (k + other) ** -input, elementwise.", node="SpecialZetaBackward0",
       self=no_derivative("special_zeta: self"),
       other=lambda xp, g, self, other: g * -self * xp.special_zeta(self + 1, other))


# --------------------------------------------------------------------------------- orthogonal polynomials
#
# The recurrences are those of the definitions; n is truncated to a whole number, and negative n give 0.


def _polynomial(first: Callable, second: Callable, step: Callable) -> Callable:
    """p0 = first(x), p1 = second(x), p(k+1) = step(k, x, pk, p(k-1))."""

    def of_one_degree(x: np.ndarray, n: int) -> np.ndarray:
        previous, current = first(x), second(x)
        if n < 0:
            return np.zeros_like(x)
        for k in range(1, n):
            previous, current = current, step(k, x, current, previous)
        return current if n else previous

    def kernel(x: np.ndarray, n: np.ndarray) -> np.ndarray:
        d = x.dtype
        if n.ndim == 0 and abs(float(n)) < 1 << 20:
            if x.size > LARGE and x.flags.c_contiguous:
                return in_blocks(kernel, x, n)
            return np.asarray(of_one_degree(x.astype(np.float64), int(n))).astype(d)
        x, n = np.broadcast_arrays(x.astype(np.float64), np.trunc(n.astype(np.float64)))
        result = np.where(n == 0, first(x), 0.0)
        previous, current = first(x), second(x)
        top = int(n.max()) if n.size else 0
        for k in range(1, top + 1):
            result = np.where(n == k, current, result)
            previous, current = current, step(k, x, current, previous)
        return result.astype(d)

    return kernel


def _one(x: np.ndarray) -> np.ndarray:
    return np.ones_like(x)


def _shifted(kernel: Callable) -> Callable:
    def shifted(x: np.ndarray, n: np.ndarray) -> np.ndarray:
        if x.size > LARGE and n.ndim == 0 and x.flags.c_contiguous:
            return in_blocks(shifted, x, n)
        return kernel(x.astype(np.float64) * 2 - 1, n).astype(x.dtype)

    return shifted


def _chebyshev(k: int, x: Any, p: Any, q: Any) -> Any:
    return 2 * x * p - q


_T = _polynomial(_one, lambda x: x, _chebyshev)
_U = _polynomial(_one, lambda x: 2 * x, _chebyshev)
_V = _polynomial(_one, lambda x: 2 * x - 1, _chebyshev)
_W = _polynomial(_one, lambda x: 2 * x + 1, _chebyshev)

_RECURRENCES = {       # how the documentation defines them
    "chebyshev_polynomial_t": "T_0 = 1, T_1 = x, T_(k+1) = 2 x T_k - T_(k-1); T_n(cos a) = cos(n a)",
    "chebyshev_polynomial_u": "U_0 = 1, U_1 = 2 x, U_(k+1) = 2 x U_k - U_(k-1)",
    "chebyshev_polynomial_v": "V_0 = 1, V_1 = 2 x - 1, V_(k+1) = 2 x V_k - V_(k-1)",
    "chebyshev_polynomial_w": "W_0 = 1, W_1 = 2 x + 1, W_(k+1) = 2 x W_k - W_(k-1)",
    "hermite_polynomial_h": "H_0 = 1, H_1 = 2 x, H_(k+1) = 2 x H_k - 2 k H_(k-1) (of the physicists)",
    "hermite_polynomial_he": "He_0 = 1, He_1 = x, He_(k+1) = x He_k - k He_(k-1) (of the probabilists)",
    "laguerre_polynomial_l": "L_0 = 1, L_1 = 1 - x, (k + 1) L_(k+1) = (2 k + 1 - x) L_k - k L_(k-1)",
    "legendre_polynomial_p": "P_0 = 1, P_1 = x, (k + 1) P_(k+1) = (2 k + 1) x P_k - k P_(k-1)",
}


def _polynomial_doc(name: str) -> str:
    plain = name.removeprefix("shifted_")
    kind = plain.split("_")[0].capitalize()
    at = "at 2 x - 1 (shifted to [0, 1])" if plain != name else "at x"
    return (f"The {kind} polynomial of degree n {at}, elementwise, with broadcasting: {_RECURRENCES[plain]}.\n"
            "Not differentiable.\n\nSource: Abramowitz and Stegun, chapter 22.")


def _front(name: str, op: Any) -> None:
    """The public function of a polynomial, whose arguments are called x and n."""

    def polynomial(x: Any, n: Any) -> Any:
        return call2(op, x, n, name)

    polynomial.__name__ = polynomial.__qualname__ = name
    polynomial.__doc__ = _polynomial_doc(name)
    public(op=op, name=name, namespaces=_SPECIAL, method=False, inplace=False, differentiable=False,
           samples=lambda t: [call(t(3, 4, grad=False), 3)])(polynomial)


for _name, _kernel in (
    ("chebyshev_polynomial_t", _T), ("chebyshev_polynomial_u", _U), ("chebyshev_polynomial_v", _V),
    ("chebyshev_polynomial_w", _W), ("shifted_chebyshev_polynomial_t", _shifted(_T)),
    ("shifted_chebyshev_polynomial_u", _shifted(_U)), ("shifted_chebyshev_polynomial_v", _shifted(_V)),
    ("shifted_chebyshev_polynomial_w", _shifted(_W)),
    ("hermite_polynomial_h", _polynomial(_one, lambda x: 2 * x, lambda k, x, p, q: 2 * x * p - 2 * k * q)),
    ("hermite_polynomial_he", _polynomial(_one, lambda x: x, lambda k, x, p, q: x * p - k * q)),
    ("laguerre_polynomial_l", _polynomial(
        _one, lambda x: 1 - x, lambda k, x, p, q: ((2 * k + 1 - x) * p - k * q) / (k + 1))),
    ("legendre_polynomial_p", _polynomial(_one, lambda x: x, lambda k, x, p, q: ((2 * k + 1) * x * p - k * q) / (k + 1))),
):
    _front(_name, binary(_name, _kernel, inputs=("x", "n"), float_result=True, expr=KERNEL, namespaces=_SPECIAL, front=False,
                         differentiable=False, doc=""))
