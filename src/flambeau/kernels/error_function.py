"""The error function and the normal distribution of large float32 arrays, as quotients of polynomials.

In float64 for `erf`, four times as fast as SciPy's loop; in float32 for the distribution function.

erf(x) = x P(x^2) / Q(x^2) for |x| <= 3.92, beyond which it rounds to 1. The coefficients are our own, found by reweighted
least squares: they minimise the greatest relative error over that range, 2e-9. Rounded to float32 the result is the right
one but for 2 % of the elements, as SciPy's is. Those of the distribution function were found in the same way, of lower
degree.
"""

from __future__ import annotations

import math

import numpy as np

from .pointwise import F32, HALVES, ONES, limit, scalar
from .scipy_special import special

_BOUND = 3.92
_P = (1.128379169131852, 0.18513794476407527, 0.054244092429529676, 0.0038386993469996782, 0.00037675037428586063,
      4.608943290655691e-06, -1.2798493696095853e-08)
_Q = (1.0, 0.497407637596348, 0.11387464249626661, 0.015430172200848441, 0.0013015289403280777, 6.239642732954769e-05)
_BLOCK = 1 << 14        # elements at a time: the four float64 buffers stay in the second-level cache
_FEW = 1 << 12          # elements up to which SciPy is as fast


def erf(a: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """The error function of a floating array, into `out` when given (which may be a)."""
    if a.dtype is not F32 or a.size <= _FEW or not a.flags.c_contiguous or (out is not None and not out.flags.c_contiguous):
        return special("erf")(a, out)
    if out is None:
        out = np.empty_like(a)
    source, target = a.reshape(-1), out.reshape(-1)
    buffers = np.empty((4, _BLOCK))
    for start in range(0, a.size, _BLOCK):
        part = source[start:start + _BLOCK]
        x, square, p, q = buffers[:, :part.size]
        x[...] = limit(part, -_BOUND, _BOUND)
        np.multiply(x, x, square)
        _horner(_P, square, p)
        _horner(_Q, square, q)
        p *= x
        np.divide(p, q, target[start:start + _BLOCK], casting="same_kind")
    return out


# erf(x / sqrt 2) = x P(x^2) / Q(x^2) for |x| <= 3.92 sqrt 2, to 2e-8; lowest powers first, and Q's highest, one, left out
_CDF_BOUND = _BOUND * math.sqrt(2)
_CDF_P = tuple(np.array(c, F32) for c in (
    670305.892, 56551.075, 7833.47723, 279.573545, 10.5762546, 0.0380573543))
_CDF_Q = tuple(np.array(c, F32) for c in (
    840103.867, 210893.325, 23964.743, 1571.83791, 61.0323974))


def normal_cdf(a: np.ndarray, out: np.ndarray) -> np.ndarray:
    """The distribution function of the normal distribution, (1 + erf(a / sqrt 2)) / 2, into out, which is not a.

    Large float32 arrays are computed in float32: a third of the time of `erf`, with errors up to 2e-7, which is what
    rounding leaves of 1 + erf.
    """
    d = a.dtype
    if d is F32 and a.size > _FEW and a.flags.c_contiguous:
        x = limit(a, -_CDF_BOUND, _CDF_BOUND)
        square = np.multiply(x, x)
        np.multiply(square, _CDF_P[-1], out)
        for c in _CDF_P[-2:0:-1]:
            np.add(out, c, out)
            np.multiply(out, square, out)
        np.add(out, _CDF_P[0], out)
        np.multiply(out, x, out)
        q = np.add(square, _CDF_Q[-1], x)
        for c in _CDF_Q[-2::-1]:
            np.multiply(q, square, q)
            np.add(q, c, q)
        np.divide(out, q, out)
        limit(out, -1, 1, out)      # at the bounds the quotient is a little above 1: beyond them erf is 1 exactly
    else:
        np.multiply(a, scalar(math.sqrt(0.5), d), out)
        erf(out, out)
    np.add(out, ONES[d], out)
    return np.multiply(out, HALVES[d], out)


def _horner(coefficients: tuple[float, ...], x: np.ndarray, out: np.ndarray) -> None:
    np.multiply(x, coefficients[-1], out)
    for c in coefficients[-2:0:-1]:
        out += c
        out *= x
    out += coefficients[0]
