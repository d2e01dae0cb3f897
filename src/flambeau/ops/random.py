"""New random tensors: of a given shape (rand, randn, randint, randperm, normal), and like another tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from flambeau.core.basics import set_requires_grad
from flambeau.core.dtype import META, as_device, device_stack
from flambeau.core.objects import TensorBase, array_of, dtype_of, make, shape_of
from flambeau.core.state import quiet, state
from flambeau.kernels import random
from flambeau.kernels.services import default_array_type

from . import _mapped
from . import _random_checks as check
from ._factory import array_dtype, check_options, filled, finish, into, size_of
from ._generator import Generator, generator_of
from ._record import call, public
from .fills import empty_like

_INT64 = np.dtype(np.int64)


def _draw(kernel: Callable, generator: Generator, *args: Any) -> np.ndarray:
    with generator.lock:
        return quiet(kernel, (generator.engine, *args))


def _new(
    function: str, kernel: Callable, shape: tuple, params: tuple, checks: Callable[[np.dtype], None],
    default: np.dtype | None, generator: Any, out: Any, dtype: Any, layout: Any, device: Any, requires_grad: bool,
    pin_memory: Any,
) -> Any:
    """A tensor of `kernel(engine, shape, *params, dtype)`."""
    if layout is not None or pin_memory:
        check_options(layout, pin_memory)
    source = generator_of(generator, function)
    d = None if dtype is None else array_dtype(dtype, function)
    if out is not None and isinstance(out, TensorBase):
        own = dtype_of(out)
        checks(own)
        return into(out, _draw(kernel, source, shape, *params, own), function, d)
    if d is None:
        d = default_array_type() if default is None else default
    checks(d)
    if (device is not None or device_stack) and as_device(device) is META:
        return filled(shape, d, None, device, requires_grad)
    if state.special != 0 and _mapped.creator:
        r = _mapped.creator[0](
            function, lambda size: finish(_draw(kernel, source, size, *params, d), requires_grad), shape)
        if r is not NotImplemented:
            return r
    return finish(_draw(kernel, source, shape, *params, d), requires_grad)


def _like(
    function: str, draw: Callable, fill: Callable, source: Any, params: tuple, checks: Callable[[np.dtype], None],
    generator: Any, dtype: Any, layout: Any, device: Any, requires_grad: bool, pin_memory: Any, memory_format: Any,
) -> Any:
    """A tensor in the memory order of another, filled by `fill(engine, array, *params)` in that order.

    In row-major order, `draw(engine, shape, *params, dtype)` makes it.
    """
    if not isinstance(source, TensorBase):
        raise TypeError(f"{function}(): argument 'input' (position 1) must be Tensor, not {type(source).__name__}")
    check_options(layout, pin_memory)
    d = array_dtype(dtype, function) or dtype_of(source)
    checks(d)
    if state.special != 0 and _mapped.creator:
        def drawn(size: tuple) -> Any:
            made = make(np.empty(size, d))
            _draw(fill, generator_of(generator, function), array_of(made), *params)
            return finish(array_of(made), requires_grad)

        r = _mapped.creator[0](function, drawn, tuple(shape_of(source)))
        if r is not NotImplemented:
            return r
    a = source._array
    if a is not None and device is None and memory_format is None and a.flags.c_contiguous:
        return finish(_draw(draw, generator_of(generator, function), a.shape, *params, d), requires_grad)
    t = empty_like(source, dtype=dtype, device=device, memory_format=memory_format)
    if t._array is not None:
        _draw(fill, generator_of(generator, function), array_of(t), *params)
    if requires_grad:
        set_requires_grad(t, True)
    return t


def _sizes(args: tuple, size: Any, function: str) -> tuple[int, ...]:
    if size is not None:
        if args:
            raise TypeError(f"{function}(): argument 'size' is given twice")
        return size_of((size,), function)
    if not args:
        raise TypeError(f'{function}() missing 1 required positional arguments: "size"')
    return size_of(args, function)


def _samples(t: Any) -> list:
    return [call(2, 3), call((40,)), call(0, 2), call(())]


def _like_samples(t: Any) -> list:
    return [call(t(2, 3)), call(t(3, 20, transposed=True)), call(t())]


# ------------------------------------------------------------------------------------------- of a given shape


def _uniform_dtype(dtype: np.dtype) -> None:
    check.floating("uniform_", dtype, complex_too=True)


def _normal_dtype(dtype: np.dtype) -> None:
    check.floating("normal_", dtype, complex_too=True)


@public(method=False, out=False, differentiable=False, random=True, samples=_samples,
        errors=lambda t: [(call(-1), RuntimeError, "negative dimension"), (call(2.5), TypeError, "size")])
def rand(*args: Any, size: Any = None, generator: Generator | None = None, out: Any = None, dtype: Any = None,
         layout: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False) -> Any:
    """Uniform random numbers in [0, 1).

    Args:
        *args: the sizes, as numbers or as one sequence.
        generator: the stream to draw from; by default the one that `torch.manual_seed` seeds.
        dtype: floating or complex (both parts are drawn); default: the default float dtype.

    Raises:
        NotImplementedError: an integer dtype.

    >>> _ = flambeau.manual_seed(1)
    >>> flambeau.rand(3)
    tensor([0.7576, 0.2793, 0.4031])
    """
    return _new("rand", random.uniform, _sizes(args, size, "rand"), (0.0, 1.0), _uniform_dtype, None, generator, out,
                dtype, layout, device, requires_grad, pin_memory)


@public(method=False, out=False, differentiable=False, random=True, samples=_samples)
def randn(*args: Any, size: Any = None, generator: Generator | None = None, out: Any = None, dtype: Any = None,
          layout: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False) -> Any:
    """Normal random numbers of mean 0 and variance 1.

    Args:
        *args: the sizes, as numbers or as one sequence.
        generator: the stream to draw from; by default the one that `torch.manual_seed` seeds.
        dtype: floating or complex (each part then has variance 1/2); default: the default float dtype.

    Raises:
        NotImplementedError: an integer dtype.

    >>> _ = flambeau.manual_seed(1)
    >>> flambeau.randn(3)
    tensor([0.6614, 0.2669, 0.0617])
    """
    return _new("randn", random.normal, _sizes(args, size, "randn"), (0.0, 1.0), _normal_dtype, None, generator, out,
                dtype, layout, device, requires_grad, pin_memory)


def new_normal(function: str, size: Any, mean: float, std: float, generator: Any, dtype: Any, layout: Any, device: Any,
               requires_grad: bool, pin_memory: Any) -> Any:
    """Normal numbers of this mean and standard deviation, in a new tensor."""
    return _new(function, random.normal, size_of((size,), function), (mean, std), _normal_dtype, None, generator, None,
                dtype, layout, device, requires_grad, pin_memory)


def _is_size(value: Any) -> bool:
    return hasattr(value, "__iter__") and not (isinstance(value, TensorBase) and not value.shape)


def _range(function: str, args: tuple, low: Any, high: Any) -> tuple[int, int]:
    """The bounds of (high) or (low, high), positional or by name."""
    if low is None and high is None and len(args) in (1, 2):
        return check.integer(args[0], function, "low") if len(args) == 2 else 0, check.integer(args[-1], function, "high")
    names = ("high",) if len(args) == 1 and high is None else ("low", "high")
    given = dict(zip(names, args, strict=False))
    if len(args) > 2 or "low" in given and low is not None or "high" in given and high is not None:
        raise TypeError(f"{function}(): too many bounds; the forms are (high, ...) and (low, high, ...)")
    low, high = given.get("low", low), given.get("high", high)
    if high is None:
        raise TypeError(f'{function}() missing 1 required positional arguments: "high"')
    return check.integer(0 if low is None else low, function, "low"), check.integer(high, function, "high")


@public(method=False, out=False, differentiable=False, random=True,
        samples=lambda t: [call(10, (2, 3)), call(-5, 5, (40,)), call(2**40, (3,))],
        errors=lambda t: [(call(3, 3, (2,)), RuntimeError, "'from' to be less than 'to'"),
                          (call(2.5, (2,)), TypeError, "must be int")])
def randint(*args: Any, low: Any = None, high: Any = None, size: Any = None, generator: Generator | None = None,
            out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
            pin_memory: bool = False) -> Any:
    """Random integers in [low, high): `randint(high, size)` or `randint(low, high, size)`.

    Args:
        low: least integer, default 0.
        high: one above the largest.
        size: a sequence of sizes.
        generator: the stream to draw from; by default the one that `torch.manual_seed` seeds.
        dtype: any real one; default int64.

    Raises:
        RuntimeError: low is not below high, or a bound that the dtype does not have.

    >>> _ = flambeau.manual_seed(1)
    >>> flambeau.randint(10, (4,))
    tensor([5, 9, 4, 8])
    """
    bounds = args
    if size is None:
        if len(args) < 2 and not (args and high is not None):
            raise TypeError('randint() missing required arguments: the forms are (high, size) and (low, high, size)')
        bounds, size = args[:-1], args[-1]
    if not _is_size(size):
        raise TypeError(f"randint(): argument 'size' (position {len(bounds) + 1}) must be tuple of ints, not "
                        f"{type(size).__name__}")
    first, last = _range("randint", bounds, low, high)
    return _new("randint", random.randint, size_of((size,), "randint"), (first, last),
                lambda d: check.integer_bounds(first, last, d), _INT64, generator, out, dtype, layout, device, requires_grad,
                pin_memory)


@public(method=False, out=False, differentiable=False, random=True, samples=lambda t: [call(5), call(100), call(0)],
        errors=lambda t: [(call(-1), RuntimeError, "negative"), (call(2.5), TypeError, "must be int")])
def randperm(n: int, *, generator: Generator | None = None, out: Any = None, dtype: Any = None, layout: Any = None,
             device: Any = None, requires_grad: bool = False, pin_memory: bool = False) -> Any:
    """A random permutation of 0, 1, ..., n - 1.

    Args:
        generator: the stream to draw from; by default the one that `torch.manual_seed` seeds.
        dtype: any real one that has the number n - 1; default int64.

    Returns:
        Tensor of shape (n,).

    Raises:
        RuntimeError: n is negative, or too large for the dtype.

    >>> _ = flambeau.manual_seed(1)
    >>> flambeau.randperm(4)
    tensor([1, 3, 2, 0])
    """
    count = check.integer(n, "randperm", "n")
    if count < 0:
        raise RuntimeError(f"randperm(): Trying to create tensor with negative dimension {count}: n must be non-negative")

    def fits(d: np.dtype) -> None:
        if d.kind in "bc":
            raise NotImplementedError(f'"randperm" not implemented for dtype {d.name}: use an integer one')
        largest = int(np.iinfo(d).max) + 1 if d.kind in "iu" else {"float16": 2049, "bfloat16": 257,
                                                                   "float32": 2**24 + 1}.get(d.name, 2**53 + 1)
        if count > largest:
            raise RuntimeError(f"randperm(): n cannot be greater than {largest} for dtype {d.name}, got {count}: the value "
                               "cannot be converted without overflow or rounding")

    def permutation(engine: Any, shape: tuple, d: np.dtype) -> np.ndarray:
        if len(shape) == 1:
            return random.randperm(engine, shape[0], d)
        drawn = [permutation(engine, shape[1:], d) for _ in range(shape[0])]        # one for each sample of a vmap
        return np.stack(drawn) if drawn else np.empty(shape, d)

    return _new("randperm", permutation, (count,), (), fits, _INT64, generator, out, dtype, layout, device, requires_grad,
                pin_memory)


# ----------------------------------------------------------------------------------------- like another tensor


@public(method=False, out=False, differentiable=False, random=True, samples=_like_samples)
def rand_like(input: Any, *, generator: Generator | None = None, dtype: Any = None, layout: Any = None, device: Any = None,
              requires_grad: bool = False, pin_memory: bool = False, memory_format: Any = None) -> Any:
    """Uniform random numbers in [0, 1), with the shape, dtype and memory order of another tensor.

    >>> _ = flambeau.manual_seed(1)
    >>> flambeau.rand_like(flambeau.zeros(3))
    tensor([0.7576, 0.2793, 0.4031])
    """
    return _like("rand_like", random.uniform, random.uniform_, input, (0.0, 1.0), _uniform_dtype, generator, dtype, layout,
                 device, requires_grad, pin_memory, memory_format)


@public(method=False, out=False, differentiable=False, random=True, samples=_like_samples)
def randn_like(input: Any, *, generator: Generator | None = None, dtype: Any = None, layout: Any = None, device: Any = None,
               requires_grad: bool = False, pin_memory: bool = False, memory_format: Any = None) -> Any:
    """Normal random numbers of mean 0 and variance 1, with the shape, dtype and memory order of another tensor.

    >>> _ = flambeau.manual_seed(1)
    >>> flambeau.randn_like(flambeau.zeros(3))
    tensor([0.6614, 0.2669, 0.0617])
    """
    return _like("randn_like", random.normal, random.normal_, input, (0.0, 1.0), _normal_dtype, generator, dtype, layout,
                 device, requires_grad, pin_memory, memory_format)


@public(method=False, out=False, differentiable=False, random=True,
        samples=lambda t: [call(t(2, 3), 10), call(t(3, 20, dtype="int64", transposed=True), -5, 5)])
def randint_like(input: Any, *args: Any, low: Any = None, high: Any = None, generator: Generator | None = None,
                 dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
                 pin_memory: bool = False, memory_format: Any = None) -> Any:
    """Random integers in [low, high), with the shape, dtype and memory order of another tensor.

    The forms are `randint_like(input, high)` and `randint_like(input, low, high)`.

    >>> _ = flambeau.manual_seed(1)
    >>> flambeau.randint_like(flambeau.zeros(3), 10)
    tensor([5., 9., 4.])
    """
    first, last = _range("randint_like", args, low, high)
    return _like("randint_like", random.randint, random.randint_, input, (first, last),
                 lambda d: check.integer_bounds(first, last, d), generator, dtype, layout, device, requires_grad,
                 pin_memory, memory_format)
