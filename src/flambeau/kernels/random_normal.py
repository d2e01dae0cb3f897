"""Standard normals as PyTorch's CPU kernels compute them, and the fused product-and-sum they rest on.

The float32 transform repeats the arithmetic of vectorised single-precision routines, rounding for
rounding, so that the numbers are equal bit for bit: a polynomial logarithm, and a sine and cosine with the
angle reduced to a quarter of pi. The product of two float32 is exact in float64, so that product and sum there
round once, as a fused instruction does. (The rounding to float64 in between can change the result once in
some 10**8 times.)

Source: Moshier, Cephes mathematical library, single precision (logf, sinf, cosf): the coefficients.
Box and Muller, 1958, Annals of Mathematical Statistics 29(2): the transform.
"""

from __future__ import annotations

import math

import numpy as np

from flambeau.kernels.random_engine import MersenneTwister


def _singles(*values: float) -> tuple[float, ...]:
    return tuple(float(np.float32(value)) for value in values)


def _constants(d: type, *values: float) -> tuple[np.ndarray, ...]:
    """float32 values as arrays of dtype d, which meet an array in half the time that Python's numbers need."""
    return tuple(np.array(value, d) for value in _singles(*values))


# log(1 + x) = x - x**2/2 + x**3 * P(x), sqrt(1/2) <= 1 + x < sqrt(2)
_LOG = _constants(
    np.float64,
    7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
    -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
)
_LN2_SMALL, _LN2_LARGE = _constants(np.float32, -2.12194440e-4, 0.693359375)  # ln 2 in two parts
_SQRT_HALF, _FOUR_OVER_PI, _TWO_PI = _constants(np.float32, 0.70710678118654752, 1.27323954473516, 2.0 * math.pi)
_ONE, _HALF, _MINUS_HALF, _MINUS_TWO = _constants(np.float32, 1.0, 0.5, -0.5, -2.0)
_QUARTER_PI = _constants(np.float32, -0.78515625, -2.4187564849853515625e-4, -3.77489497744594108e-8)  # -pi/4 in three
_COS_SIN = np.array(
    [_singles(2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2),
     _singles(-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)]
).T[:, :, None]  # one (2, 1) column a step
_SIGN = np.int32(-(2**31))
_CHUNK = 1 << 11  # pairs at a time: some ten temporaries, in the first- and second-level caches


def box_muller_float32(values: np.ndarray, mean: float, std: float) -> None:
    """Uniforms to normals of that mean and standard deviation, in place; float32, 16 k of them.

    In each group of 16 the first eight give the radius and the last eight the angle; the cosines
    replace the first eight, the sines the last.
    """
    groups = values.reshape(-1, 2, 8)
    for first in range(0, len(groups), _CHUNK // 8):
        part = groups[first : first + _CHUNK // 8]
        products = _cos_sin(part[:, 1].reshape(-1))
        products *= _radius(part[:, 0].reshape(-1))
        part[...] = products.reshape(2, -1, 8).swapaxes(0, 1)
        _scale(part, mean, std)


MOST_FROM_BLOCK = 512     # about as many as cost the same either way


def normals_from_block(engine: MersenneTwister, n: int, mean: float, std: float) -> np.ndarray:
    """`n` float32 normals, 16 <= n <= MOST_FROM_BLOCK.

    The steps of `box_muller_float32` are so many that they take nearly as long for a block of 624 as for 16: they are
    done once a block, and each draw multiplies its radii by its cosines and sines.
    """
    out = np.empty(n, np.float32)
    tail = n % 16
    _combine(engine, out[: n - tail])
    if tail:
        engine.draw32(tail)
        _combine(engine, out[-16:])        # the last 16 are drawn anew
    _scale(out, mean, std)
    return out


def _combine(engine: MersenneTwister, out: np.ndarray) -> None:
    """Groups of 16 normals from the radii, cosines and sines of the engine's next words."""
    rows = _derived(engine, out.size).reshape(3, -1, 2, 8)
    np.multiply(rows[1:, :, 1], rows[0, :, 0], out=out.reshape(-1, 2, 8).swapaxes(0, 1))


def _derived(engine: MersenneTwister, n: int) -> np.ndarray:
    """The radii, cosines and sines, (3, n), of the next n words, which are drawn."""
    here = min(n, engine.left())
    start = engine.take(here)
    if engine.derived is None:
        uniforms = engine.uniforms()
        engine.derived = np.concatenate([_radius(uniforms)[None], _cos_sin(uniforms)])
    rows = engine.derived[:, start : start + here]
    return rows if here == n else np.concatenate([rows, _derived(engine, n - here)], axis=1)


def _scale(normals: np.ndarray, mean: float, std: float) -> None:
    """normals * std + mean, rounded once, in place."""
    if mean == 0.0 and std == 1.0:
        normals += 0.0      # it turns -0 into 0
        return
    mean, std = _singles(mean, std)
    wide = normals * np.float64(std)
    wide += mean
    normals[...] = wide


def _radius(uniform: np.ndarray) -> np.ndarray:
    """sqrt(-2 log(1 - u))"""
    radius = _log(_ONE - uniform)
    radius *= _MINUS_TWO
    return np.sqrt(radius, out=radius)


# A step a * b + c rounded once: the product goes to float64, where it is exact, the sum back to float32. Where a product
# is exact in float32 already, all is done there.


def _log(x: np.ndarray) -> np.ndarray:
    """The natural logarithm of positive normal float32, which are overwritten."""
    bits = x.view(np.int32)
    exponent = (bits >> 23) - 126
    bits &= 0x7FFFFF
    bits |= 0x3F000000
    small = x < _SQRT_HALF      # x is in [1/2, 1)
    exponent -= small
    np.add(x, x, out=x, where=small)
    x -= _ONE
    e = exponent.astype(np.float32)
    wide = x.astype(np.float64)
    product = wide * _LOG[0]
    product += _LOG[1]
    y = product.astype(np.float32)
    for coefficient in _LOG[2:]:
        np.multiply(y, wide, out=product)
        product += coefficient
        y[...] = product
    y *= x
    square = x * x
    np.multiply(y, square.astype(np.float64), out=product)
    product += e * _LN2_SMALL
    y[...] = product
    square *= _HALF
    y -= square
    x += y
    e *= _LN2_LARGE     # exact: the constant has nine bits
    e += x
    return e


def _cos_sin(uniform: np.ndarray) -> np.ndarray:
    """Cosine (row 0) and sine (row 1) of the float32 angles 2 pi u, 0 <= u < 1."""
    x = uniform * _TWO_PI
    octant = (x * _FOUR_OVER_PI).astype(np.int32)
    octant += 1
    octant &= -2
    turns = octant.astype(np.float32)
    x += turns * _QUARTER_PI[0]     # exact: the first two constants have few bits
    x += turns * _QUARTER_PI[1]
    last = turns.astype(np.float64)
    last *= _QUARTER_PI[2]
    last += x
    factors = np.empty((2, x.size), np.float32)     # of the last step
    square, x = factors
    x[...] = last
    np.multiply(x, x, out=square)
    wide = square.astype(np.float64)
    product = _COS_SIN[0] * wide
    product += _COS_SIN[1]
    y = product.astype(np.float32)
    np.multiply(y, wide, out=product)
    product += _COS_SIN[2]
    y[...] = product
    y *= square
    np.multiply(y, factors.astype(np.float64), out=product)
    square *= _MINUS_HALF
    product += factors
    y[...] = product
    y[0] += _ONE
    swap = (octant & 2) != 0
    y = np.where(swap, y[::-1], y)
    octant <<= 29       # the bit of 4 becomes the sign
    signs = y.view(np.int32)
    signs[1] ^= octant & _SIGN
    octant += 2 << 29
    signs[0] ^= octant & _SIGN
    return y


def scalar_normals(engine: MersenneTwister, n: int) -> np.ndarray:
    """`n` float64 standard normals made in pairs: of a pair, the second waits in `engine.next_normal`."""
    if n < 32:  # `math` is faster here, and gives the last bit of the C library
        return np.array(_few_normals(engine, n), np.float64)
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


def _few_normals(engine: MersenneTwister, n: int) -> list[float]:
    found = [] if engine.next_normal is None or n == 0 else [next_normal(engine)]
    drawn = iter(engine.next_uniforms53((n - len(found) + 1) // 2 * 2))
    for first, second in zip(drawn, drawn, strict=True):
        angle, radius = 2.0 * math.pi * first, math.sqrt(-2.0 * math.log1p(-second))
        found.append(radius * math.cos(angle))
        found.append(radius * math.sin(angle))
    if len(found) > n:
        engine.next_normal = found.pop()
    return found


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
