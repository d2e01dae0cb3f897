"""Elementwise random distributions over a `MersenneTwister`, with the numbers of PyTorch's CPU kernels.

Each function takes the engine first and a shape, and returns a fresh C-contiguous array; the forms ending
in `_` fill an array. A fill goes in the order of the memory, not of the indices, because PyTorch's does: a
transposed tensor receives the numbers its own transpose would.

Integers, uniforms and float32 normals are equal bit for bit to those of PyTorch built for AVX2 (every x86
machine of the last ten years), where products are fused with the sums that follow them. What passes
through a float64 logarithm, exponential or tangent is within 2 units in the last place of float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from flambeau.kernels.layout import empty_like
from flambeau.kernels.random_engine import MersenneTwister
from flambeau.kernels.random_normal import MOST_FROM_BLOCK, box_muller_float32, fma64, normals_from_block, scalar_normals

_CHUNK = 1 << 15  # elements at a time, where a pass needs wider temporaries
# By `dtype.char` (a look at `dtype.char` costs as much as a small draw); "E" is bfloat16's.
_DIGITS = {"e": 11, "E": 8, "f": 24, "d": 53}  # bits of a significand
_REAL: dict[str, np.dtype] = {"F": np.dtype(np.float32), "D": np.dtype(np.float64)}
_WIDE_RANGE = 1 << 28  # ranges from here on take 64-bit draws, so that the remainder's bias stays small

Shape = Sequence[int]


# -- uniform -----------------------------------------------------------------------------------------
def uniform(engine: MersenneTwister, shape: Shape, low: float, high: float, dtype: np.dtype) -> np.ndarray:
    """Uniform on [low, high); dtype floating or complex (both parts drawn). `high` itself becomes `low`."""
    if dtype.char in _REAL:
        return uniform(engine, (*shape, 2), low, high, _REAL[dtype.char]).view(dtype)[..., 0]
    n = math.prod(shape)
    if low == 0.0 and high == 1.0 and dtype.char == "f":
        return engine.uniform24(n).reshape(shape)
    if dtype.char == "d":
        values = engine.uniform53(n)
        if low != 0.0 or high != 1.0:
            values = fma64(values, high - low, low)
            values[values == high] = low
        return values.reshape(shape)
    values = engine.uniform24(n)
    start, end = np.float32(low), np.float32(high)
    if start != 0.0 or end != 1.0:
        _scale_float32(values, end - start, start)
    if dtype.char != "f":
        values = values.astype(dtype)
    values[values == end.astype(dtype)] = start
    return values.reshape(shape)


def _scale_float32(values: np.ndarray, scale: np.float32, offset: np.float32) -> None:
    """values * scale + offset, rounded once, in place: the product of two float32 is exact in float64."""
    for first in range(0, values.size, _CHUNK):
        part = values[first : first + _CHUNK]
        wide = part.astype(np.float64)
        wide *= float(scale)
        wide += float(offset)
        part[...] = wide


# -- normal ------------------------------------------------------------------------------------------
def normal(engine: MersenneTwister, shape: Shape, mean: float, std: float, dtype: np.dtype) -> np.ndarray:
    """Normal of the given mean and standard deviation; complex dtypes share the variance of their parts.

    From 16 elements on, uniforms fill the array and are transformed in groups of 16 (Box and Muller);
    below, normals come one by one as from `scalar_normals`. A complex dtype's `mean` is that of each part.
    """
    if dtype.char in _REAL:
        return normal(engine, (*shape, 2), mean, std / math.sqrt(2.0), _REAL[dtype.char]).view(dtype)[..., 0]
    n = math.prod(shape)
    if n < 16:
        return _serial_normal(engine, n, mean, std, dtype).reshape(shape)
    if n <= MOST_FROM_BLOCK and dtype.char == "f":
        return normals_from_block(engine, n, mean, std).reshape(shape)
    wide = dtype.char == "d"
    draw = engine.uniform53 if wide else engine.uniform24
    transform = _box_muller_float64 if wide else box_muller_float32
    whole = n - n % 16
    # A last part of a group is drawn and overwritten by 16 more draws; 16-bit floats skip the first of it.
    values = np.empty(n, np.float32) if dtype.itemsize == 2 else draw(n)
    if dtype.itemsize == 2:
        values[:whole] = draw(whole)
    transform(values[:whole], mean, std)
    if whole != n:
        values[-16:] = draw(16)
        transform(values[-16:], mean, std)
    return values.astype(dtype, copy=False).reshape(shape)


def _box_muller_float64(values: np.ndarray, mean: float, std: float) -> None:
    groups = values.reshape(-1, 2, 8)
    for first in range(0, len(groups), _CHUNK // 16):
        part = groups[first : first + _CHUNK // 16]
        radius = np.sqrt(-2.0 * np.log(1.0 - part[:, 0]))
        angle = 2.0 * math.pi * part[:, 1]
        part[:, 0] = _scaled(radius * np.cos(angle), mean, std)
        part[:, 1] = _scaled(radius * np.sin(angle), mean, std)


def _scaled(normals: np.ndarray, mean: float, std: float) -> np.ndarray:
    return normals if mean == 0.0 and std == 1.0 else fma64(normals, std, mean)


def _serial_normal(engine: MersenneTwister, n: int, mean: float, std: float, dtype: np.dtype) -> np.ndarray:
    return _narrow(_scaled(scalar_normals(engine, n), mean, std), dtype)


def _narrow(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """float64 to `dtype`; to the 16-bit floats through float32, as the conversions of PyTorch go."""
    if dtype.itemsize == 2 and dtype.kind not in "iu":
        values = values.astype(np.float32)
    return values.astype(dtype, copy=False)


# -- integers ----------------------------------------------------------------------------------------
def randint(engine: MersenneTwister, shape: Shape, low: int, high: int, dtype: np.dtype) -> np.ndarray:
    """Integers in [low, high), in any real dtype: a draw's remainder by high - low, plus low.

    In a floating dtype, bounds at which conversion would leave the range are moved inwards.
    """
    if dtype.char in _DIGITS:
        low, high = _inner_bounds(low, high, dtype)
    span = (high - low) & 0xFFFFFFFFFFFFFFFF
    n = math.prod(shape)
    if span < _WIDE_RANGE:
        values = (engine.draw32(n) % span).astype(np.int64)
    elif span == 0:
        raise AssertionError("randint: an empty range")
    else:
        values = (engine.draw64(n) % np.uint64(span)).view(np.int64)
    if low != 0:
        values += np.int64(low)  # wraps for spans over 2**63, rightly
    return values.astype(dtype, copy=False).reshape(shape)


def _inner_bounds(low: int, high: int, dtype: np.dtype) -> tuple[int, int]:
    """Bounds such that low + 1 and high - 1, converted to the floating dtype, stay within the given ones."""
    first, last = (int(_narrow(np.array(bound, np.float64), dtype)) for bound in (low + 1, high - 1))
    if first < low:
        low = first + _spacing(low + 1, dtype)
    if last >= high:
        high = last - _spacing(high - 1, dtype)
    return low, high


def _spacing(value: int, dtype: np.dtype) -> int:
    return 1 << max(0, abs(value).bit_length() - _DIGITS[dtype.char])


def randint_all(engine: MersenneTwister, shape: Shape, dtype: np.dtype) -> np.ndarray:
    """Every non-negative integer a dtype holds exactly, up to its largest: for floats 0 to 2**digits."""
    if dtype.char in _DIGITS:
        count, wide = 2 ** _DIGITS[dtype.char] + 1, dtype.char == "d"
    elif dtype.kind == "b":
        count, wide = 2, False
    else:
        count, wide = int(np.iinfo(dtype).max) + 1, dtype.itemsize == 8
    n = math.prod(shape)
    values = engine.draw64(n) % np.uint64(count) if wide else engine.draw32(n) % np.uint32(count)
    return values.astype(dtype).reshape(shape)


def randint_from(engine: MersenneTwister, shape: Shape, low: int, dtype: np.dtype) -> np.ndarray:
    """Integers from `low` to the dtype's largest (for floats 2**digits), that one included."""
    if dtype.char in _DIGITS:
        return randint(engine, shape, low, 2 ** _DIGITS[dtype.char] + 1, dtype)
    last = 1 if dtype.kind == "b" else int(np.iinfo(dtype).max)
    if last - low + 1 == 1 << 64:
        return engine.draw64(math.prod(shape)).view(np.int64).reshape(shape)
    return randint(engine, shape, low, last + 1, dtype)


def randperm(engine: MersenneTwister, n: int, dtype: np.dtype) -> np.ndarray:
    """A permutation of 0..n-1, shape (n,): each place in turn swaps with a later one, or itself.

    From 2**32/20 on, places swap with earlier ones by 64-bit draws.
    """
    if n < 0xFFFFFFFF // 20:
        if n < 2:
            return np.arange(n).astype(dtype)
        ahead = engine.draw32(n - 1) % np.arange(n, 1, -1, dtype=np.uint32)
        order = list(range(n))
        for place, other in enumerate((ahead + np.arange(n - 1, dtype=np.uint32)).tolist()):
            order[place], order[other] = order[other], order[place]
        return np.array(order).astype(dtype)
    result = np.arange(n)
    for first in range(0, n, _CHUNK):
        places = np.arange(first, min(first + _CHUNK, n), dtype=np.uint64)
        earlier = engine.draw64(places.size) % (places + np.uint64(1))
        for place, other in zip(places.tolist(), earlier.tolist(), strict=True):
            result[place], result[other] = result[other], place
    return result.astype(dtype)


# -- Bernoulli ---------------------------------------------------------------------------------------
def bernoulli(engine: MersenneTwister, shape: Shape, p: float, dtype: np.dtype) -> np.ndarray:
    """1 with probability `p`, else 0, in any dtype: a 53-bit uniform is less than `p`."""
    n = math.prod(shape)
    if n <= _CHUNK:
        return _bernoulli(engine, n, p).astype(dtype, copy=False).reshape(shape)
    out = np.empty(n, np.bool_)
    for first in range(0, n, _CHUNK):
        part = out[first : first + _CHUNK]
        part[...] = _bernoulli(engine, part.size, p)
    return out.astype(dtype, copy=False).reshape(shape)


_LOW21 = np.uint32(2**21 - 1)


def _bernoulli(engine: MersenneTwister, n: int, p: float) -> np.ndarray:
    # Compare integers, the first word's 21 bits first: only one in two million needs the second word.
    high, low = divmod(math.ceil(p * 2.0**53), 1 << 32)
    words = engine.draw32(2 * n)
    leading = words[0::2] & _LOW21
    out: np.ndarray = leading < high
    undecided = leading == high
    if np.count_nonzero(undecided):
        for index in np.flatnonzero(undecided).tolist():
            out[index] = words[2 * index + 1] < low
    return out


def bernoulli_tensor(engine: MersenneTwister, p: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """1 with the probability of each element of `p` (floating), in p's index order and shape.

    float64 probabilities take 53-bit uniforms, the others 24-bit ones.
    """
    if p.dtype.char == "d":
        return (engine.uniform53(p.size).reshape(p.shape) < p).astype(dtype)
    return (engine.uniform24(p.size).reshape(p.shape) < p.astype(np.float32)).astype(dtype)


# -- continuous and geometric ------------------------------------------------------------------------
def exponential(engine: MersenneTwister, shape: Shape, rate: float, dtype: np.dtype) -> np.ndarray:
    """Exponential of the given rate (> 0): -log(1 - u) / rate."""
    values = np.log1p(-engine.uniform53(math.prod(shape)))
    values *= -1.0 / rate
    return _narrow(values, dtype).reshape(shape)


def cauchy(engine: MersenneTwister, shape: Shape, median: float, sigma: float, dtype: np.dtype) -> np.ndarray:
    """Cauchy of the given median and half-width: median + sigma * tan(pi * (u - 1/2))."""
    values = np.tan(math.pi * (engine.uniform53(math.prod(shape)) - 0.5))
    return _narrow(fma64(values, sigma, median), dtype).reshape(shape)


def log_normal(engine: MersenneTwister, shape: Shape, mean: float, std: float, dtype: np.dtype) -> np.ndarray:
    """The exponential of a normal of that mean and standard deviation."""
    normals = _scaled(scalar_normals(engine, math.prod(shape)), mean, std)
    return _narrow(np.exp(normals), dtype).reshape(shape)


def geometric(engine: MersenneTwister, shape: Shape, p: float, dtype: np.dtype) -> np.ndarray:
    """The number of trials up to the first success (1, 2, ...): ceil(log(u) / log(1 - p))."""
    values = np.ceil(np.log(engine.uniform53(math.prod(shape))) / math.log1p(-p))
    if dtype.kind in "iu":
        values = values.astype(np.int64)  # then cut to the dtype's bits
    return _narrow(values, dtype).reshape(shape)


# -- filling -----------------------------------------------------------------------------------------
def fill_in_memory_order(out: np.ndarray, values: np.ndarray) -> None:
    """Write `values` (as many as `out` has) along the axes of `out` from the largest stride to the least."""
    view = memory_order(out)
    view[...] = values.reshape(view.shape)


def like(draw: Callable[..., np.ndarray], fill_: Callable[..., None], engine: MersenneTwister, a: np.ndarray,
         *parameters: float) -> np.ndarray:
    """New numbers in the shape, dtype and memory order of a: by `draw` where that is C order, else by `fill_`."""
    if a.flags.c_contiguous:
        return draw(engine, a.shape, *parameters, a.dtype)
    out = empty_like(a)
    fill_(engine, out, *parameters)
    return out


def memory_order(array: np.ndarray) -> np.ndarray:
    """A transposed view whose axes go from the largest stride to the least."""
    if array.flags.c_contiguous:
        return array
    strides = array.strides
    return array.transpose(sorted(range(array.ndim), key=lambda axis: -abs(strides[axis])))


def _filling(draw: Callable[..., np.ndarray]) -> Callable[..., None]:
    def fill_(engine: MersenneTwister, out: np.ndarray, *parameters: float) -> None:
        fill_in_memory_order(out, draw(engine, (out.size,), *parameters, out.dtype))

    fill_.__name__ = fill_.__qualname__ = draw.__name__ + "_"
    fill_.__doc__ = f"`{draw.__name__}`, filling `out` in the order of its memory."
    return fill_


uniform_ = _filling(uniform)
randint_ = _filling(randint)
randint_all_ = _filling(randint_all)
randint_from_ = _filling(randint_from)
bernoulli_ = _filling(bernoulli)
exponential_ = _filling(exponential)
cauchy_ = _filling(cauchy)
log_normal_ = _filling(log_normal)
geometric_ = _filling(geometric)


def normal_(engine: MersenneTwister, out: np.ndarray, mean: float, std: float) -> None:
    """`normal` into `out`; where `out` is not C-contiguous, `normal_serial_`."""
    if out.flags.c_contiguous:
        out[...] = normal(engine, out.shape, mean, std, out.dtype)
    else:
        normal_serial_(engine, out, mean, std)


def normal_serial_(engine: MersenneTwister, out: np.ndarray, mean: float, std: float) -> None:
    """Normals one by one whatever their number, filling `out` in the order of its memory."""
    if out.dtype.char in _REAL:
        parts = _serial_normal(engine, 2 * out.size, mean, std / math.sqrt(2.0), _REAL[out.dtype.char])
        fill_in_memory_order(out, parts.view(out.dtype))
    else:
        fill_in_memory_order(out, _serial_normal(engine, out.size, mean, std, out.dtype))


def bernoulli_tensor_(engine: MersenneTwister, out: np.ndarray, p: np.ndarray) -> None:
    """`bernoulli_tensor` into `out`, in the order of its memory; `p` broadcasts to its shape."""
    axes = np.argsort([-abs(stride) for stride in out.strides], kind="stable").tolist()
    view = out.transpose(axes)
    view[...] = bernoulli_tensor(engine, np.broadcast_to(p, out.shape).transpose(axes), out.dtype)


def rrelu_noise(engine: MersenneTwister, x: np.ndarray, lower: float, upper: float) -> np.ndarray:
    """The slopes of a randomised leaky ReLU in training: uniform where x <= 0 (in index order), else 1."""
    noise = np.ones(x.shape, x.dtype)
    negative = x <= 0
    if x.dtype.char != "d":
        lower, upper = float(np.float32(lower)), float(np.float32(upper))
    slopes = engine.uniform53(int(np.count_nonzero(negative))) * (upper - lower) + lower  # not fused here
    noise[negative] = _narrow(slopes, x.dtype)
    return noise
