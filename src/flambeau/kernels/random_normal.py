"""Standard normals as PyTorch's CPU kernels compute them, and the fused product-and-sum they rest on.

The float32 transform repeats the arithmetic of vectorised single-precision routines, rounding for
rounding, so that the numbers are equal bit for bit: a polynomial logarithm, and a sine and cosine with the
angle reduced to a quarter of pi. float32 values are held in float64, where the product of two is exact, so
that product and sum round once, as a fused instruction does. (The rounding to float64 in between can
change the result once in some 10**8 times.)

Source: Moshier, Cephes mathematical library, single precision (logf, sinf, cosf): the coefficients.
Box and Muller, 1958, Annals of Mathematical Statistics 29(2): the transform.
"""

from __future__ import annotations

import math

import numpy as np

from flambeau.kernels.random_engine import MersenneTwister


def _singles(*values: float) -> tuple[float, ...]:
    return tuple(float(np.float32(value)) for value in values)


# log(1 + x) = x - x**2/2 + x**3 * P(x), sqrt(1/2) <= 1 + x < sqrt(2)
_LOG = _singles(
    7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
    -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
)
_LN2_SMALL, _LN2_LARGE = _singles(-2.12194440e-4, 0.693359375)  # ln 2 in two parts
_SQRT_HALF, _FOUR_OVER_PI, _TWO_PI = _singles(0.70710678118654752, 1.27323954473516, 2.0 * math.pi)
_QUARTER_PI = _singles(-0.78515625, -2.4187564849853515625e-4, -3.77489497744594108e-8)  # -pi/4 in three
_COS_SIN = np.array(
    [_singles(2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2),
     _singles(-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)]
).T[:, :, None]  # one (2, 1) column a step
_CHUNK = 1 << 11  # pairs at a time: some ten float64 temporaries, in the first- and second-level caches


def box_muller_float32(values: np.ndarray, mean: float, std: float) -> None:
    """Uniforms to normals of that mean and standard deviation, in place; float32, 16 k of them.

    In each group of 16 the first eight give the radius and the last eight the angle; the cosines
    replace the first eight, the sines the last.
    """
    groups = values.reshape(-1, 2, 8)
    mean, std = _singles(mean, std)
    for first in range(0, len(groups), _CHUNK // 8):
        part = groups[first : first + _CHUNK // 8]
        radius = _log_float32((np.float32(1) - part[:, 0]).reshape(-1))
        radius *= -2.0
        radius = np.sqrt(_round(radius))
        products = _cos_sin_float32((part[:, 1] * np.float32(_TWO_PI)).reshape(-1))
        products *= _round(radius)
        if mean != 0.0 or std != 1.0:
            products = _round(products)
            products *= std
        products += mean  # also for 0: it turns -0 into 0
        part[...] = products.reshape(2, -1, 8).swapaxes(0, 1)


def _round(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float32).astype(np.float64)


def _log_float32(x: np.ndarray) -> np.ndarray:
    """The natural logarithm of positive normal float32, as float64 holding float32 values."""
    bits = x.view(np.int32)
    exponent = ((bits >> 23) - 126).astype(np.float64)
    bits &= 0x7FFFFF
    bits |= 0x3F000000
    x = x.astype(np.float64)  # in [1/2, 1)
    small = x < _SQRT_HALF
    exponent -= small
    x += np.where(small, x, 0.0)
    x -= 1.0
    narrow = np.empty(x.size, np.float32)
    y = x * _LOG[0]
    y += _LOG[1]
    for coefficient in _LOG[2:]:
        narrow[...] = y
        np.multiply(narrow, x, out=y)
        y += coefficient
    narrow[...] = y
    y = _round(narrow * x)
    square = _round(x * x)
    y *= square
    y += _round(exponent * _LN2_SMALL)
    y = _round(y)
    square *= 0.5
    y -= square
    x += _round(y)
    exponent *= _LN2_LARGE
    exponent += _round(x)
    return _round(exponent)


def _cos_sin_float32(angle: np.ndarray) -> np.ndarray:
    """Cosine (row 0) and sine (row 1) of float32 angles in [0, 2 pi], as float64 holding float32 values."""
    octant = (angle * np.float32(_FOUR_OVER_PI)).astype(np.int32)
    octant += 1
    octant &= -2
    x = angle.astype(np.float64)
    for part in _QUARTER_PI:
        x = _round(octant * part + x)
    square = _round(x * x)
    y = np.empty((2, x.size))
    y[...] = _COS_SIN[0]
    for coefficients in _COS_SIN[1:]:
        y *= square
        y += coefficients
        y = _round(y)
    y *= square
    cosine, sine = _round(y)
    half = square * 0.5
    cosine *= square
    cosine -= half
    cosine = _round(cosine)
    cosine += 1.0
    sine *= x
    sine += x
    swap = (octant & 2) != 0
    y[0] = np.where(swap, sine, cosine)
    y[1] = np.where(swap, cosine, sine)
    y[0] *= 1.0 - 2.0 * ((octant + 2 & 4) != 0)
    y[1] *= 1.0 - 2.0 * ((octant & 4) != 0)
    return _round(y)


def scalar_normals(engine: MersenneTwister, n: int) -> np.ndarray:
    """`n` float64 standard normals made in pairs: of a pair, the second waits in `engine.next_normal`."""
    if n < 32:  # `math` is faster here, and gives the last bit of the C library
        return np.array([next_normal(engine) for _ in range(n)], np.float64)
    out = np.empty(n)
    first = 0
    if engine.next_normal is not None:
        out[0] = engine.next_normal
        engine.next_normal = None
        first = 1
    pairs = engine.uniform53((n - first + 1) // 2 * 2).reshape(-1, 2)
    radius = np.sqrt(-2.0 * np.log1p(-pairs[:, 1]))
    angle = 2.0 * math.pi * pairs[:, 0]
    out[first::2] = radius * np.cos(angle)
    sines = radius * np.sin(angle)
    if (n - first) % 2:
        engine.next_normal = float(sines[-1])
        sines = sines[:-1]
    out[first + 1 :: 2] = sines
    return out


def next_normal(engine: MersenneTwister) -> float:
    """One float64 standard normal."""
    waiting = engine.next_normal
    if waiting is not None:
        engine.next_normal = None
        return waiting
    angle = 2.0 * math.pi * engine.next_uniform53()
    radius = math.sqrt(-2.0 * math.log1p(-engine.next_uniform53()))
    engine.next_normal = radius * math.sin(angle)
    return radius * math.cos(angle)


def fma64(a: np.ndarray, b: float, c: float) -> np.ndarray:
    """a * b + c in float64, rounded once, for finite values not near the limits of the range.

    The product's and the sum's rounding errors are found exactly; their own sum is rounded to odd, which
    makes the last rounding right. Source: Boldo and Melquiond, 2008, IEEE Transactions on Computers 57(4).
    """
    if b == 0.0 or c == 0.0 or abs(math.frexp(b)[0]) == 0.5:  # the product or the sum is exact
        return a * b + c
    high = a * b
    a_high = a * 134217729.0
    a_high -= a_high - a
    b_high = b * 134217729.0
    b_high -= b_high - b
    a_low, b_low = a - a_high, b - b_high
    low = ((a_high * b_high - high) + a_high * b_low + a_low * b_high) + a_low * b_low
    inner, inner_error = _two_sum(low, np.float64(c))
    outer, outer_error = _two_sum(high, inner)
    tail, rest = _two_sum(inner_error, outer_error)
    bits = np.ascontiguousarray(tail).view(np.int64)
    even = ((bits & 1) == 0) & (rest != 0.0)
    bits[even] += np.where((rest[even] > 0) == (tail[even] > 0), 1, -1)
    return outer + tail


def _two_sum(a: np.ndarray, b: np.ndarray | np.float64) -> tuple[np.ndarray, np.ndarray]:
    """a + b rounded, and the error of that rounding. Source: Knuth, TAOCP volume 2, section 4.2.2."""
    total = a + b
    back = total - a
    return total, (a - (total - back)) + (b - back)
