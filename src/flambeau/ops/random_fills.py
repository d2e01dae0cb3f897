"""Methods that fill a tensor with random numbers: uniform_, normal_, random_, bernoulli_, exponential_, and others.

A fill forgets what the tensor was: the gradient of its old history is zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from flambeau.core.inplace import apply_inplace
from flambeau.core.objects import TensorBase, dtype_of, shape_of
from flambeau.core.op import Op
from flambeau.kernels import random
from flambeau.kernels.layout import empty_like

from . import _random_checks as check
from ._generator import Generator, generator_of
from ._record import KERNEL, call, primitive, public
from ._shapes import like


def _fill(name: str, kernel: Callable, params: Sequence[str] = (), inputs: Sequence[str] = ("self",),
          node: str | None = None, method: str | None = None, draw: Callable | None = None) -> Op:
    """A primitive that gives new values for its first input: kernel(engine, out, other arrays..., params...).

    `method` is the method that messages name, where it is not the primitive's name and "_". `draw` is the kernel that
    returns a new array, for self in C order: draw(engine, shape, params..., dtype).
    """

    def filled(a: np.ndarray, *args: Any) -> np.ndarray:
        generator = args[-1]
        if draw is not None:
            with generator.lock:
                return random.like(draw, kernel, generator.engine, a, *args[:-1])
        out = empty_like(a)      # in the same order in memory, which is the order of filling
        with generator.lock:
            kernel(generator.engine, out, *args[:-1])
        return out

    op = primitive(name, filled, inputs=inputs, params=(*params, "generator"), scalars=params, node=node, random=True,
                   meta=like(), expr=KERNEL, self=lambda xp, g: xp.zeros_like(g))
    op.name = method or name + "_"
    return op


def _apply(op: Op, self: Any, others: list, params: tuple, generator: Any) -> Any:
    source = generator_of(generator, op.name)
    if self._array is None and self.is_meta:
        return self
    return apply_inplace(op, [self, *others], (*params, source))


def _bounds(function: str, args: tuple, given: dict[str, Any], defaults: tuple) -> tuple[Any, Any]:
    """The arguments `from` and `to`, whose first name Python does not allow in a signature."""
    if not given and len(args) in (0, 2):
        return args or defaults
    names = ("from", "to")
    if len(args) > 2:
        raise TypeError(f"{function}() takes at most 2 positional arguments, from and to, got {len(args)}")
    values = dict(zip(names, args, strict=False))
    for name, value in given.items():
        if name not in names:
            raise TypeError(f"{function}() got an unexpected keyword argument '{name}'; the arguments are from, to and "
                            "generator")
        if name in values:
            raise TypeError(f"{function}() got multiple values for argument '{name}'")
        values[name] = value
    return values.get("from", defaults[0]), values.get("to", defaults[1])


# ---------------------------------------------------------------------------------------------- uniform, normal


_UNIFORM = _fill("uniform", random.uniform_, ("low", "high"), draw=random.uniform)
_NORMAL = _fill("normal", random.normal_, ("mean", "std"), draw=random.normal)
_NORMAL_SERIAL = _fill("normal_serial", random.normal_serial_, ("mean", "std"), node="NormalBackward0", method="normal_")


@public(namespaces=(), random=True, samples=lambda t: [call(t(3, 4)), call(t(3, 4), -1.0, 2.0)],
        errors=lambda t: [(call(t(2), 1.0, 0.0), RuntimeError, "from=1"),
                          (call(t(2, dtype="int64")), NotImplementedError, "not implemented for 'Long'")])
def uniform_(self: Any, *args: Any, generator: Generator | None = None, **bounds: Any) -> Any:
    """Fill with uniform random numbers in [from, to).

    Args:
        from: default 0.
        to: default 1.
        generator: the stream to draw from; by default the one that `torch.manual_seed` seeds.

    Raises:
        RuntimeError: from is above to, or a bound that the dtype does not have.
        NotImplementedError: an integer dtype.
    """
    low, high = _bounds("uniform_", args, bounds, (0.0, 1.0))
    low, high = check.number(low, "uniform_", "from"), check.number(high, "uniform_", "to")
    check.floating("uniform_", dtype_of(self), complex_too=True)
    check.uniform_bounds(low, high, dtype_of(self))
    return _apply(_UNIFORM, self, [], (low, high), generator)


@public(namespaces=(), random=True, samples=lambda t: [call(t(3, 4)), call(t(3, 20), 1.0, 2.0)],
        errors=lambda t: [(call(t(2), 0.0, -1.0), RuntimeError, "std >= 0.0")])
def normal_(self: Any, mean: Any = 0.0, std: Any = 1.0, *, generator: Generator | None = None) -> Any:
    """Fill with normal random numbers.

    Args:
        mean, std: numbers; std, the standard deviation, is not negative.
        generator: the stream to draw from; by default the one that `torch.manual_seed` seeds.

    Raises:
        RuntimeError: a negative std.
        NotImplementedError: an integer dtype.
    """
    centre, spread = check.number(mean, "normal_", "mean"), check.number(std, "normal_", "std")
    check.deviation(spread)
    check.floating("normal_", dtype_of(self), complex_too=True)
    contiguous = self._array is None or self._array.flags.c_contiguous      # PyTorch's two streams
    return _apply(_NORMAL if contiguous else _NORMAL_SERIAL, self, [], (centre, spread), generator)


# ------------------------------------------------------------------------------------------------------ integers


_RANDOM = _fill("random", random.randint_all_, node="RandomBackward2", draw=random.randint_all)
_RANDOM_TO = _fill("random_to", random.randint_, ("low", "high"), node="RandomBackward1", method="random_",
                   draw=random.randint)
_RANDOM_RANGE = _fill("random_range", random.randint_, ("low", "high"), node="RandomBackward0", method="random_",
                      draw=random.randint)
_RANDOM_FROM = _fill("random_from", random.randint_from_, ("low",), node="RandomBackward0", method="random_",
                     draw=random.randint_from)


@public(namespaces=(), random=True, samples=lambda t: [call(t(3, 4)), call(t(3, dtype="int64"), 5), call(t(3), -2, 9)],
        errors=lambda t: [(call(t(2), 5, 2), RuntimeError, "'from' to be less than 'to'"),
                          (call(t(2), 2.5), TypeError, "must be int")])
def random_(self: Any, *args: Any, generator: Generator | None = None, **bounds: Any) -> Any:
    """Fill with random integers: `random_()`, `random_(to)` or `random_(from, to)`.

    Args:
        from: least integer, default 0.
        to: one above the largest. Without it (or None): all that the dtype has from there on; for floats up to
            2**24 (float32) or 2**53 (float64), where integers cease to be exact.
        generator: the stream to draw from; by default the one that `torch.manual_seed` seeds.

    Raises:
        RuntimeError: from is not below to, or a bound that the dtype does not have.
    """
    low, high = _bounds("random_", args, bounds, (None, None))
    if len(args) == 1 and "to" not in bounds:
        low, high = None, low
    check.discrete(dtype_of(self))
    if low is None and high is None:
        return _apply(_RANDOM, self, [], (), generator)
    first = 0 if low is None else check.integer(low, "random_", "from")
    if high is None:
        check.integer_bounds(first, first + 1, dtype_of(self))
        return _apply(_RANDOM_FROM, self, [], (first,), generator)
    last = check.integer(high, "random_", "to")
    check.integer_bounds(first, last, dtype_of(self))
    return _apply(_RANDOM_TO if low is None else _RANDOM_RANGE, self, [], (first, last), generator)


# ----------------------------------------------------------------------------------------------------- bernoulli


def _bernoulli_tensor_(engine: Any, out: np.ndarray, p: np.ndarray) -> None:
    check.probabilities(p)
    random.bernoulli_tensor_(engine, out, p)


_BERNOULLI = _fill("bernoulli_number", random.bernoulli_, ("p",), node="BernoulliBackward2", method="bernoulli_",
                   draw=random.bernoulli)
_BERNOULLI_TENSOR = _fill("bernoulli_tensor", _bernoulli_tensor_, inputs=("self", "p"), node="BernoulliBackward1",
                          method="bernoulli_")


@public(namespaces=(), random=True,
        samples=lambda t: [call(t(3, 4)), call(t(3, 4), 0.3), call(t(3, 4), t(4, low=0.0, high=1.0))],
        errors=lambda t: [(call(t(2), 1.5), RuntimeError, "expects p to be in"),
                          (call(t(3), t(2, low=0.0, high=1.0)), RuntimeError, "must match the existing size")])
def bernoulli_(self: Any, p: Any = 0.5, *, generator: Generator | None = None) -> Any:
    """Fill with 0 and 1, a 1 with probability p.

    Args:
        p: a number, or a floating tensor that broadcasts to self.
        generator: the stream to draw from; by default the one that `torch.manual_seed` seeds.

    Raises:
        RuntimeError: a probability outside [0, 1].
    """
    if dtype_of(self).kind == "c":
        raise NotImplementedError("\"bernoulli_\" not implemented for complex dtypes: fill a real tensor")
    if isinstance(p, TensorBase):
        shape, sizes = shape_of(p), shape_of(self)
        if len(shape) > len(sizes) or any(n not in (1, m) for n, m in zip(shape[::-1], sizes[::-1], strict=False)):
            raise RuntimeError(
                f"bernoulli_: The expanded size of the tensor {list(sizes)} must match the existing size {list(shape)} of "
                "p: p does not broadcast to it")
        check.floating("bernoulli_", dtype_of(p))
        return _apply(_BERNOULLI_TENSOR, self, [p], (), generator)
    value = check.number(p, "bernoulli_", "p")
    check.probability(value)
    return _apply(_BERNOULLI, self, [], (value,), generator)


# ------------------------------------------------------------------------------------------------- other families


_EXPONENTIAL = _fill("exponential", random.exponential_, ("lambd",), draw=random.exponential)
_CAUCHY = _fill("cauchy", random.cauchy_, ("median", "sigma"), draw=random.cauchy)
_LOG_NORMAL = _fill("log_normal", random.log_normal_, ("mean", "std"), draw=random.log_normal)
_GEOMETRIC = _fill("geometric", random.geometric_, ("p",), draw=random.geometric)


@public(namespaces=(), random=True, samples=lambda t: [call(t(3, 4)), call(t(3, 4), 2.0)],
        errors=lambda t: [(call(t(2), 0.0), RuntimeError, "lambda > 0.0"),
                          (call(t(2, dtype="int64")), RuntimeError, "continuous probability distribution")])
def exponential_(self: Any, lambd: Any = 1.0, *, generator: Generator | None = None) -> Any:
    """Fill with exponential random numbers of rate lambd, a positive number (their mean is 1 / lambd)."""
    rate = check.number(lambd, "exponential_", "lambd")
    check.continuous("exponential_", "Exponential", dtype_of(self))
    check.positive(rate, "exponential_", "lambda")
    return _apply(_EXPONENTIAL, self, [], (rate,), generator)


@public(namespaces=(), random=True, samples=lambda t: [call(t(3, 4)), call(t(3, 4), 1.0, 2.0)],
        errors=lambda t: [(call(t(2), 0.0, 0.0), RuntimeError, "sigma > 0.0")])
def cauchy_(self: Any, median: Any = 0.0, sigma: Any = 1.0, *, generator: Generator | None = None) -> Any:
    """Fill with Cauchy random numbers of the given median and half-width sigma, a positive number."""
    centre, width = check.number(median, "cauchy_", "median"), check.number(sigma, "cauchy_", "sigma")
    check.continuous("cauchy_", "Cauchy", dtype_of(self))
    check.positive(width, "cauchy_", "sigma")
    return _apply(_CAUCHY, self, [], (centre, width), generator)


@public(namespaces=(), random=True, samples=lambda t: [call(t(3, 4)), call(t(3, 4), 1.0, 0.5)],
        errors=lambda t: [(call(t(2), 0.0, 0.0), RuntimeError, "std > 0.0")])
def log_normal_(self: Any, mean: Any = 1.0, std: Any = 2.0, *, generator: Generator | None = None) -> Any:
    """Fill with exponentials of normal random numbers of the given mean and standard deviation, a positive number."""
    centre, spread = check.number(mean, "log_normal_", "mean"), check.number(std, "log_normal_", "std")
    check.floating("log_normal_", dtype_of(self))
    check.positive(spread, "log_normal_", "std")
    return _apply(_LOG_NORMAL, self, [], (centre, spread), generator)


@public(namespaces=(), random=True, samples=lambda t: [call(t(3, 4), 0.3)],
        errors=lambda t: [(call(t(2), 1.0), RuntimeError, "expects p to be in")])
def geometric_(self: Any, p: Any, *, generator: Generator | None = None) -> Any:
    """Fill with the number of trials up to the first success, 1, 2, ...; each succeeds with probability p in (0, 1)."""
    chance = check.number(p, "geometric_", "p")
    if dtype_of(self).kind in "bc":
        raise NotImplementedError(f'"geometric_" not implemented for dtype {dtype_of(self).name}: use integers or floats')
    check.open_probability(chance, "geometric_")
    return _apply(_GEOMETRIC, self, [], (chance,), generator)
