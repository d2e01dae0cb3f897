"""Random draws whose parameters are arrays: multinomial, Poisson, binomial, gamma, Dirichlet.

All but the multinomial draw an unknown count of uniforms per element (rejection), so they walk the elements
one by one, in index order, in Python floats; the numbers are those of PyTorch's CPU kernels. For many elements,
uniforms are drawn ahead, and what is left goes back to the stream.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from operator import length_hint

import numpy as np

from flambeau.kernels.random import exponential
from flambeau.kernels.random_engine import MersenneTwister
from flambeau.kernels.random_normal import next_normal
from flambeau.kernels.sort import topk


# -- multinomial -------------------------------------------------------------------------------------
def multinomial(
    engine: MersenneTwister, probabilities: np.ndarray, num_samples: int, replacement: bool
) -> np.ndarray:
    """Indices drawn in proportion to the last axis of `probabilities`, int64 (num_samples,) or (N, num_samples).

    Args:
        probabilities: (C,) or (N, C), floating, not negative, not necessarily summing to 1.

    Raises:
        RuntimeError: a row has a negative, infinite or NaN entry, or sums to nothing.
    """
    shape = (*probabilities.shape[:-1], num_samples)
    if probabilities.size == 0:
        return np.empty(shape, np.int64)
    if replacement and num_samples > 1:
        rows = probabilities.reshape(-1, probabilities.shape[-1])
        return np.stack([_search(engine, row, num_samples) for row in rows]).reshape(shape)
    wide = probabilities.astype(np.float64)
    if not (wide.min() >= 0 and wide.max() < math.inf):
        raise RuntimeError(
            "multinomial(): the probability tensor contains either `inf`, `nan` or element < 0: "
            f"minimum {wide.min()}, maximum {wide.max()}. Give weights that are finite and not negative."
        )
    if not wide.sum(-1).all():
        raise RuntimeError(
            "multinomial(): invalid multinomial distribution (sum of probabilities <= 0): a row is all zeros."
        )
    # The race: each category finishes at an exponential time of its rate; the first ones are the sample.
    times = exponential(engine, probabilities.shape, 1.0, probabilities.dtype)
    speeds = np.divide(probabilities, times, dtype=probabilities.dtype)
    if num_samples == 1:
        return np.argmax(speeds, axis=-1, keepdims=True)
    return topk(speeds, num_samples)[1]


def _search(engine: MersenneTwister, row: np.ndarray, num_samples: int) -> np.ndarray:
    """Inversion: the first category whose cumulative probability reaches a uniform draw."""
    smallest = row.min()
    if not smallest >= 0:
        raise RuntimeError(
            f"multinomial(): invalid multinomial distribution (encountering probability entry < 0): {smallest}."
        )
    if not row.max() < math.inf:
        raise RuntimeError(
            "multinomial(): invalid multinomial distribution (encountering probability entry = infinity or NaN)."
        )
    cumulative = np.cumsum(row, dtype=np.float64 if row.dtype.char == "d" else np.float32)
    total = cumulative[-1]
    if not total > 0:
        raise RuntimeError(
            "multinomial(): invalid multinomial distribution (sum of probabilities <= 0): a row is all zeros."
        )
    cumulative = cumulative / total
    cumulative[-1] = 1
    return np.searchsorted(cumulative.astype(np.float64), engine.uniform53(num_samples))


# -- counts ------------------------------------------------------------------------------------------
def poisson(engine: MersenneTwister, rate: np.ndarray) -> np.ndarray:
    """Poisson counts of each rate (>= 0), in the shape and floating dtype of `rate`."""
    drawn = _each(engine, _poisson, [(value,) for value in rate.ravel().astype(np.float64).tolist()])
    return np.array(drawn, np.float64).reshape(rate.shape).astype(rate.dtype)


def _poisson(uniform: Callable[[], float], rate: float) -> float:
    if rate < 0.0 or rate != rate:
        raise RuntimeError(f"poisson(): invalid Poisson rate, expected rate to be non-negative, got {rate}.")
    if rate == 0.0:
        return 0.0
    if rate < 10.0:  # multiply uniforms until the product falls to exp(-rate)
        count, product, limit = 0, uniform(), math.exp(-rate)
        while product > limit:
            count += 1
            product *= uniform()
        return float(count)
    # Transformed rejection with squeeze. Source: Hoermann, 1993, algorithm PTRS, Insurance: Mathematics
    # and Economics 12(1).
    root, log_rate = math.sqrt(rate), math.log(rate)
    b = 0.931 + 2.53 * root
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    squeeze = 0.9277 - 3.6224 / (b - 2.0)
    while True:
        u = uniform() - 0.5
        v = uniform()
        distance = 0.5 - abs(u)
        k = _floor((2.0 * a / distance + b) * u + rate + 0.43) if distance else -math.inf
        if distance >= 0.07 and v <= squeeze:
            return k
        if k < 0.0 or (distance < 0.013 and v > distance):
            continue
        hat = _log(v) + math.log(inverse_alpha) - math.log(a / (distance * distance) + b)
        if hat <= -rate + k * log_rate - math.lgamma(k + 1.0):
            return k


def binomial(engine: MersenneTwister, count: np.ndarray, prob: np.ndarray) -> np.ndarray:
    """Successes in `count` trials of probability `prob`; arrays of one floating dtype that broadcast together."""
    count, prob = np.broadcast_arrays(count, prob)
    pairs = zip(count.ravel().astype(np.float64).tolist(), prob.ravel().astype(np.float64).tolist(), strict=True)
    drawn = _each(engine, _binomial, list(pairs))
    return np.array(drawn, np.float64).reshape(count.shape).astype(count.dtype)


def _binomial(uniform: Callable[[], float], trials: float, p: float) -> float:
    if trials <= 0.0 or p <= 0.0:
        return 0.0
    if p >= 1.0:
        return trials
    if p != p or trials != trials:
        return math.nan
    if p > 0.5:
        return trials - _binomial_half(uniform, trials, 1.0 - p)
    return _binomial_half(uniform, trials, p)


def _binomial_half(uniform: Callable[[], float], trials: float, p: float) -> float:
    """Binomial for p at most 1/2."""
    if trials * p < 10.0:  # waiting times between successes are geometric
        log_failure = math.log1p(-p)
        successes, waited = -1, 0.0
        while waited <= trials:
            successes += 1
            waited += math.ceil(_log(uniform()) / log_failure)
        return float(successes)
    # Transformed rejection. Source: Hoermann, 1993, algorithm BTRS, J. Statistical Computation and
    # Simulation 46(1-2).
    deviation = math.sqrt(trials * p * (1.0 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    centre = trials * p + 0.5
    squeeze = 0.92 - 4.2 / b
    odds = p / (1.0 - p)
    alpha = (2.83 + 5.1 / b) * deviation
    mode = math.floor((trials + 1.0) * p)
    while True:
        u = uniform() - 0.5
        v = uniform()
        distance = 0.5 - abs(u)
        k = _floor((2.0 * a / distance + b) * u + centre) if distance else -math.inf
        if distance >= 0.07 and v <= squeeze:
            return k
        if k < 0.0 or k > trials:
            continue
        hat = _log(v * alpha / (a / (distance * distance) + b))
        bound = (
            (mode + 0.5) * math.log((mode + 1.0) / (odds * (trials - mode + 1.0)))
            + (trials + 1.0) * math.log((trials - mode + 1.0) / (trials - k + 1.0))
            + (k + 0.5) * math.log(odds * (trials - k + 1.0) / (k + 1.0))
            + _stirling_error(mode) + _stirling_error(trials - mode)
            - _stirling_error(k) - _stirling_error(trials - k)
        )
        if hat <= bound:
            return k


_STIRLING = (
    0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509, 0.0166446911898211,
    0.0138761288230707, 0.0118967099458917, 0.0104112652619720, 0.00925546218271273, 0.00833056343336287,
)  # log(k!) less Stirling's approximation of it, at k + 1


def _stirling_error(k: float) -> float:
    if k <= 9:
        return _STIRLING[int(k)]
    square = (k + 1.0) * (k + 1.0)
    return (1.0 / 12.0 - (1.0 / 360.0 - 1.0 / 1260.0 / square) / square) / (k + 1.0)


# -- gamma -------------------------------------------------------------------------------------------
def standard_gamma(engine: MersenneTwister, alpha: np.ndarray) -> np.ndarray:
    """Gamma of each shape parameter `alpha` and scale 1, never below the dtype's least normal number."""
    return np.maximum(_gammas(engine, alpha), np.finfo(alpha.dtype).tiny).astype(alpha.dtype)


def dirichlet(engine: MersenneTwister, alpha: np.ndarray) -> np.ndarray:
    """Dirichlet along the last axis: gammas over their sum; at least the dtype's least normal number.

    In float64 the sum may round otherwise than PyTorch's.
    """
    gammas = np.maximum(_gammas(engine, alpha.astype(np.float64)), np.finfo(np.float64).tiny)
    shares = gammas / gammas.sum(-1, keepdims=True)
    return np.maximum(shares, np.finfo(alpha.dtype).tiny).astype(alpha.dtype)


# The reference kernel writes these in single precision, also where it computes in double.
_THIRD, _SQUEEZE = np.float32(1) / np.float32(3), float(np.float32(0.0331))


def _gammas(engine: MersenneTwister, alpha: np.ndarray) -> np.ndarray:
    """The parameters derived from `alpha` are rounded to its dtype, the rest is float64."""
    boosted = np.where(alpha < 1, alpha + alpha.dtype.type(1), alpha)
    with np.errstate(divide="ignore"):
        inverse = alpha.dtype.type(1) / alpha
    columns = (alpha, inverse, boosted - alpha.dtype.type(_THIRD))
    rows = list(zip(*(column.ravel().astype(np.float64).tolist() for column in columns), strict=True))
    if len(rows) < _FEW:
        drawn = [_gamma(engine, *row) for row in rows]
    else:
        drawn = []
        while len(drawn) < len(rows):
            _gammas_ahead(engine, rows, drawn)
    return np.array(drawn, np.float64).reshape(alpha.shape)


def _gamma(engine: MersenneTwister, alpha: float, inverse: float, d: float) -> float:
    """Source: Marsaglia and Tsang, 2000, "A simple method for generating gamma variables", ACM TOMS 26(3)."""
    if not alpha > 0.0:  # below 0 and NaN, where the rejection would never end
        return 0.0 if alpha == 0.0 else math.nan
    scale = 1.0
    if alpha < 1.0:
        scale = math.pow(1.0 - engine.next_uniform53(), inverse)
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        y = 0.0
        while y <= 0.0:
            x = next_normal(engine)
            y = 1.0 + c * x
        v = y * y * y
        u = 1.0 - engine.next_uniform53()
        square = x * x
        if u < 1.0 - _SQUEEZE * square * square or math.log(u) < 0.5 * square + d * (1.0 - v + math.log(v)):
            return scale * d * v


def _gammas_ahead(engine: MersenneTwister, rows: list[tuple], drawn: list[float]) -> None:
    """Append the `_gamma` of further rows to `drawn`, at least of one, as far as uniforms drawn at once reach."""
    mark = engine.mark()
    waiting = engine.next_normal
    uniforms = engine.uniform53(min(_AHEAD, 64 + 4 * (len(rows) - len(drawn)))).tolist()
    sqrt, log, log1p, sin, cos = math.sqrt, math.log, math.log1p, math.sin, math.cos
    at, end = 0, len(uniforms) - 4
    kept, kept_normal = 0, waiting  # before the element under way
    for alpha, inverse, d in itertools.islice(rows, len(drawn), None):
        if not alpha > 0.0:
            drawn.append(0.0 if alpha == 0.0 else math.nan)
            continue
        scale = 1.0
        if alpha < 1.0:
            scale = math.pow(1.0 - uniforms[at], inverse)
            at += 1
        c = 1.0 / sqrt(9.0 * d)
        while at < end:
            if waiting is None:
                angle, radius = 2.0 * math.pi * uniforms[at], sqrt(-2.0 * log1p(-uniforms[at + 1]))
                x, waiting = radius * cos(angle), radius * sin(angle)
                at += 2
            else:
                x, waiting = waiting, None
            y = 1.0 + c * x
            if y <= 0.0:
                continue
            v = y * y * y
            u = 1.0 - uniforms[at]
            at += 1
            square = x * x
            if u < 1.0 - _SQUEEZE * square * square or log(u) < 0.5 * square + d * (1.0 - v + log(v)):
                drawn.append(scale * d * v)
                kept, kept_normal = at, waiting
                break
        else:  # the uniforms end: this element begins anew, with more
            break
    engine.rewind(mark, 2 * kept)
    engine.next_normal = kept_normal


# -- shared ------------------------------------------------------------------------------------------
_FEW = 256  # elements: below, drawing ahead costs more than it saves (above, it takes half the time)
_AHEAD = 1 << 13  # uniforms at a time


def _each(engine: MersenneTwister, draw: Callable[..., float], rows: list[tuple]) -> list[float]:
    """draw(uniform, *row) for every row in order; `uniform()` gives the next of the stream's uniforms."""
    if len(rows) < _FEW:
        return [draw(engine.next_uniform53, *row) for row in rows]
    drawn: list[float] = []
    while len(drawn) < len(rows):
        mark = engine.mark()
        ahead = left = min(_AHEAD, 64 + 8 * (len(rows) - len(drawn)))
        source = iter(engine.uniform53(ahead).tolist())
        uniform = source.__next__
        try:
            for row in rows[len(drawn) :]:
                drawn.append(draw(uniform, *row))
                left = length_hint(source)
        except StopIteration:
            pass  # in the midst of an element, which begins anew
        finally:
            engine.rewind(mark, 2 * (ahead - left))
        if left == ahead and len(drawn) < len(rows):  # it needs more than are ever drawn ahead
            drawn.append(draw(engine.next_uniform53, *rows[len(drawn)]))
    return drawn


def _log(value: float) -> float:
    return math.log(value) if value > 0.0 else -math.inf


def _floor(value: float) -> float:
    return float(math.floor(value)) if math.isfinite(value) else value
