"""What the random operators refuse: dtypes and parameters, with the words of PyTorch's messages."""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.objects import TensorBase, array_of
from flambeau.core.origin import warn_user

# By `dtype.char`, which costs less than `dtype.name`; "E" is bfloat16's.
_DIGITS = {"e": 11, "E": 8, "f": 24, "d": 53}  # bits of a significand
_REAL = {"F": "f", "D": "d"}
_LARGEST = {"e": 65504.0, "E": 3.3895313892515355e38, "f": 3.4028234663852886e38, "d": 1.7976931348623157e308}
_RANGE = {np.dtype(t).char: (int(np.iinfo(t).min), int(np.iinfo(t).max)) for t in "bBhHiIlLqQ"} | {"?": (0, 1)} | {
    char: (-largest, largest) for char, largest in _LARGEST.items()}
_NAMES = {
    "uint8": "Byte", "int8": "Char", "int16": "Short", "int32": "Int", "int64": "Long", "float16": "Half",
    "bfloat16": "BFloat16", "float32": "Float", "float64": "Double", "bool": "Bool", "complex64": "ComplexFloat",
    "complex128": "ComplexDouble",
}


def number(value: Any, function: str, argument: str) -> float:
    """A real number, also from a tensor of one element."""
    if type(value) is float:
        return value
    if isinstance(value, TensorBase):
        value = array_of(value).item()
    if isinstance(value, (str, bytes)) or not hasattr(value, "__float__"):
        raise TypeError(f"{function}(): argument '{argument}' must be float, not {type(value).__name__}")
    return float(value)


def integer(value: Any, function: str, argument: str) -> int:
    """An integer, also from an integer tensor of one element."""
    if type(value) is int:
        return value
    if isinstance(value, TensorBase):
        value = array_of(value).item()
    if not hasattr(value, "__index__"):
        raise TypeError(f"{function}(): argument '{argument}' must be int, not {type(value).__name__}")
    return int(value.__index__())


def floating(function: str, dtype: np.dtype, complex_too: bool = False) -> None:
    """Refuse a dtype in which a continuous distribution has no numbers."""
    if dtype.char not in _DIGITS and not (complex_too and dtype.char in _REAL):
        raise NotImplementedError(
            f'"{function}" not implemented for \'{_NAMES.get(dtype.name, dtype.name)}\': the distribution is continuous. '
            "Use a floating dtype, for example dtype=torch.float32.")


def continuous(function: str, title: str, dtype: np.dtype) -> None:
    """As `floating`, for the two operators that say so in another type of error."""
    if dtype.char not in _DIGITS:
        raise RuntimeError(
            f"{function}: {title} distribution is a continuous probability distribution. dtype must be a floating point "
            f"but you specified {_NAMES.get(dtype.name, dtype.name)}")


def uniform_bounds(low: float, high: float, dtype: np.dtype) -> None:
    if -65504.0 <= low <= high <= 0.0 or 0.0 <= low <= high <= 65504.0:
        return              # within every dtype
    largest = _LARGEST[_REAL.get(dtype.char, dtype.char)]
    for word, bound in (("from", low), ("to", high)):
        if not -largest <= bound <= largest:
            raise RuntimeError(f"{word} is out of bounds for {dtype.name}: uniform_ got {word}={bound:g}")
    if low > high:
        raise RuntimeError(f"uniform_ expects to return a [from, to) range; here from={low:g} is above to={high:g}. "
                           "Swap them.")
    if high - low > largest:
        raise RuntimeError(
            f"uniform_ expects to-from <= the largest {dtype.name}, but found to={high:g} and from={low:g}, whose "
            "difference exceeds that limit")


def integer_bounds(low: int, high: int, dtype: np.dtype) -> None:
    """Refuse an empty range, or one with integers that the dtype does not have."""
    if low >= high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    discrete(dtype)
    least, largest = _RANGE[dtype.char]
    digits = _DIGITS.get(dtype.char)
    if least <= low and high - 1 <= largest and digits is None:
        return
    for word, bound in (("from", low), ("to - 1", high - 1)):
        if not least <= bound <= largest:
            raise RuntimeError(f"{word} is out of bounds for {dtype.name}: {bound} does not lie in [{least:g}, {largest:g}]")
        if digits is not None and not -(1 << digits) <= bound <= 1 << digits:
            warn_user(
                f"{word} is out of bounds [-(2^{digits}), 2^{digits}]: {dtype.name} has not every integer outside of it, so "
                "some numbers come twice as often and others never. Draw integers of dtype torch.int64, and convert.")


def discrete(dtype: np.dtype) -> None:
    """Refuse a dtype without an order."""
    if dtype.kind == "c":
        raise NotImplementedError(
            f'"random_" not implemented for \'{_NAMES[dtype.name]}\': it handles only integral, floating-point and boolean '
            "types")


def probability(p: float, function: str = "bernoulli_") -> None:
    if not 0.0 <= p <= 1.0:
        raise RuntimeError(f"{function} expects p to be in [0, 1], but got p={p:g}")


def probabilities(p: np.ndarray) -> None:
    """Refuse what is no array of probabilities."""
    floating("bernoulli", p.dtype)
    if p.size and not (p.min() >= 0 and p.max() <= 1):
        raise RuntimeError(
            f"bernoulli: Expected p_in >= 0 && p_in <= 1 to be true, but got values from {float(p.min()):g} to "
            f"{float(p.max()):g}. Probabilities lie in [0, 1]: apply torch.sigmoid or clamp first.")


def deviation(std: float) -> None:
    if not std >= 0.0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")


def deviations(std: np.ndarray) -> None:
    if std.dtype.kind == "c":
        raise RuntimeError("normal expects standard deviation to be non-complex")
    if std.size and not std.min() >= 0:
        raise RuntimeError(f"normal expects all elements of std >= 0.0, but found {float(std.min()):g}")


def positive(value: float, function: str, name: str) -> None:
    if not value > 0.0:
        raise RuntimeError(f"{function} expects {name} > 0.0, but found {name}={value:g}")


def open_probability(p: float, function: str) -> None:
    if not 0.0 < p < 1.0:
        raise RuntimeError(f"{function} expects p to be in (0, 1), but got p={p:g}")


def weights(p: np.ndarray, num_samples: int, replacement: bool) -> None:
    """Refuse arguments of `multinomial` whose shape or dtype is no distribution's."""
    if len(p.shape) not in (1, 2):
        raise RuntimeError(f"multinomial: prob_dist must be 1 or 2 dim, not {len(p.shape)}: give weights (C,) or (N, C)")
    if p.dtype.char not in _DIGITS:
        raise RuntimeError(
            "multinomial only supports floating-point dtypes: the weights given are "
            f"{_NAMES.get(p.dtype.name, p.dtype.name)}. Convert them with .float().")
    if num_samples <= 0:
        raise RuntimeError(f"multinomial: cannot sample n_sample <= 0 samples, got {num_samples}")
    if not replacement and num_samples > p.shape[-1]:
        raise RuntimeError(
            "multinomial: cannot sample n_sample > prob_dist.size(-1) samples without replacement: "
            f"{num_samples} samples of {p.shape[-1]} categories. Pass replacement=True.")
