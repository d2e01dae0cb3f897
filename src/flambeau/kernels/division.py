"""Remainders and quotients rounded down, of float32 arrays, by way of float64.

NumPy divides such numbers one by one, with the C library's fmod, 12 ns for each. The quotient of two float32 numbers in
float64, cut to a whole number n below 2^28, is right, and a - n b has no rounding error: at most 53 bits. So the
remainder is exact, as fmod's is, and what follows from it is the same. Blocks with greater quotients, infinities,
nan or a divisor 0 are left to NumPy.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .pointwise import F32, in_blocks, select

_FEW = 256              # elements up to which NumPy's loop is as fast
_LARGEST = float(1 << 28)


def _cut(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """(the remainder with the sign of a, float32; b) or None where the method does not hold."""
    x, y = a.astype(np.float64), b.astype(np.float64)
    if not np.isfinite(y).all():
        return None
    n = np.divide(x, y)
    np.trunc(n, n)
    if not (np.maximum.reduce(n, None) < _LARGEST and np.minimum.reduce(n, None) > -_LARGEST):     # nan fails too
        return None
    np.multiply(n, y, n)
    np.subtract(x, n, n)
    rest = n.astype(np.float32)
    return np.copysign(rest, a, rest), b


def _opposite(rest: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Where the remainder has another sign than the divisor."""
    return np.not_equal(np.signbit(rest), np.signbit(b)) & np.not_equal(rest, np.float32(0))


def _python_remainder(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """np.remainder, but a remainder 0 has the dividend's sign, as in C."""
    rest = np.remainder(a, b)
    if rest.dtype.kind in "biu":
        return rest
    zero = rest == 0
    return np.where(zero, np.copysign(rest, a), rest) if zero.any() else rest


def _by_blocks(ufunc: Callable, finish: Callable) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    def part(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        found = _cut(a, b)
        return ufunc(a, b) if found is None else finish(a, *found)

    def kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        if a.dtype is not F32 or b.dtype is not F32 or max(a.size, b.size) <= _FEW:
            return ufunc(a, b)
        if a.shape != b.shape and b.ndim:
            a, b = (np.ascontiguousarray(x) for x in np.broadcast_arrays(a, b))
        return in_blocks(part, a, b) if a.flags.forc else part(a, b)

    return kernel


def _remainder(a: np.ndarray, rest: np.ndarray, b: np.ndarray) -> np.ndarray:
    np.add(rest, np.multiply(_opposite(rest, b), b), rest)
    zero = rest == 0
    return select(zero, np.copysign(rest, a), rest) if zero.any() else rest


def _floor_divide(a: np.ndarray, rest: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The quotient without the remainder, which is whole but for rounding: the whole number nearest below or above."""
    quotient = np.subtract(a, rest)
    np.divide(quotient, b, quotient)
    np.subtract(quotient, _opposite(rest, b), quotient)
    whole = np.floor(quotient)
    np.add(whole, np.subtract(quotient, whole) > np.float32(0.5), whole)
    zero = quotient == 0
    return select(zero, np.copysign(np.float32(0), np.divide(a, b)), whole) if zero.any() else whole


fmod = _by_blocks(np.fmod, lambda a, rest, b: rest)
remainder = _by_blocks(_python_remainder, _remainder)
floor_divide = _by_blocks(np.floor_divide, _floor_divide)
