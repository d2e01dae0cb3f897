"""The error function of large float32 arrays: a quotient of polynomials in float64, four times as fast as SciPy's loop.

erf(x) = x P(x^2) / Q(x^2) for |x| <= 3.92, beyond which it rounds to 1. The coefficients minimise the greatest relative
error over that range, 2e-9 (found by reweighted least squares): rounded to float32 the result is the right one but for
2 % of the elements, as SciPy's is.
"""

from __future__ import annotations

import numpy as np

from .pointwise import F32, limit
from .scipy_special import special

_BOUND = 3.92
_P = (1.128379169131852, 0.18513794476407527, 0.054244092429529676, 0.0038386993469996782, 0.00037675037428586063,
      4.608943290655691e-06, -1.2798493696095853e-08)
_Q = (1.0, 0.497407637596348, 0.11387464249626661, 0.015430172200848441, 0.0013015289403280777, 6.239642732954769e-05)
_BLOCK = 1 << 14
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


def _horner(coefficients: tuple[float, ...], x: np.ndarray, out: np.ndarray) -> None:
    np.multiply(x, coefficients[-1], out)
    for c in coefficients[-2:0:-1]:
        out += c
        out *= x
    out += coefficients[0]
