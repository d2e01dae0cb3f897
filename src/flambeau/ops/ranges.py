"""Tensors of evenly spaced numbers: `arange`, `range`, `linspace`, `logspace`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from flambeau.core.dtype import META, as_device
from flambeau.core.objects import TensorBase, array_of
from flambeau.core.origin import warn_user
from flambeau.kernels.casting import cast
from flambeau.kernels.promotion import number_dtype
from flambeau.kernels.services import default_array_type

from ._factory import array_dtype, check_options, filled, finish, into, to_device
from ._from_data import from_data
from ._lazy import is_meta
from ._meta import meta_tensor
from ._record import call, public

_INT64 = np.dtype("i8")
_NAMES = {"bool": "Bool", "complex64": "ComplexFloat", "complex128": "ComplexDouble"}


def _number(value: Any, function: str, argument: str) -> Any:
    """A Python number from a number or a 0-d tensor."""
    if type(value) is int or type(value) is float:
        return value
    if isinstance(value, TensorBase):
        a = array_of(value)
        if a.size != 1:
            raise RuntimeError(f"{function}(): {argument} must be a number or a tensor of one element, not of shape "
                               f"{list(a.shape)}")
        value = a.reshape(())[()]
    if number_dtype(value) is None:
        raise TypeError(f"{function}(): argument '{argument}' must be Number, not {type(value).__name__}")
    if isinstance(value, np.generic) or type(value) not in (bool, int, float, complex):
        kind = number_dtype(value).kind
        return complex(value) if kind == "c" else float(value) if kind == "f" else int(value)
    return value


def _refuse(d: np.dtype, function: str) -> None:
    if d.kind in "bc":
        raise NotImplementedError(
            f'"{function}_cpu" not implemented for \'{_NAMES[d.name]}\': give an integer or floating dtype')


# PyTorch computes arange in vectors (of 4 float64, 8 float32 or 16 halves), two at a time, each from its own first
# element, and the rest one by one; sums of products are fused. NumPy's long double (80 bits on x86) holds such a
# product exactly.
_LANES = {8: 4, 4: 8, 2: 16}


def _fused(start: Any, step: Any, i: Any, d: np.dtype) -> np.ndarray:
    """start + step * i, rounded once to d."""
    wide: Any = np.longdouble if d == np.float64 else np.float64
    return np.asarray(wide(start) + wide(step) * np.asarray(i).astype(wide)).astype(d)


def steps_of(start: Any, step: Any, n: int, d: np.dtype) -> np.ndarray:
    """start + i * step for i < n, in d."""
    if d.kind in "iu":
        whole_steps = np.arange(n)
        if step != 1:
            whole_steps *= int(step)
        if start != 0:
            whole_steps += int(start)
        return whole_steps.astype(d, copy=False)
    if d.itemsize > 2 and float(start).is_integer() and float(step).is_integer() and abs(start) + abs(step) * n < 2**24:
        exact = np.arange(n, dtype=d)       # in any order
        if step != 1:
            exact *= d.type(step)
        if start != 0:
            exact += d.type(start)
        return exact
    # halves are computed in float32 and rounded
    work = np.dtype("f8") if d.itemsize >= 4 else np.dtype("f4")
    start, step = work.type(start), work.type(step)
    lanes = _LANES[d.itemsize]

    def element(first: Any, i: Any) -> np.ndarray:
        return cast(_fused(first, step, i, work), d) if d.itemsize == 2 else _fused(first, step, i, d)

    whole = n - n % (2 * lanes)
    if whole == 0:
        return element(start, np.arange(n))
    out = np.empty(n, d)
    firsts = element(start, np.arange(0, whole, lanes))
    for lane in np.arange(lanes):
        if d.itemsize == 2:
            out[lane:whole:lanes] = cast((firsts.astype(np.float64) + lane * float(step)).astype(work), d)
        elif d.itemsize == 4:
            out[lane:whole:lanes] = firsts.astype(np.float64) + lane * float(step)
        else:
            out[lane:whole:lanes] = (firsts.astype(np.longdouble) + lane * np.longdouble(step)).astype(d)
    out[whole:] = element(start, np.arange(whole, n))
    return out


def _check_range(start: Any, end: Any, step: Any) -> None:
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if not (math.isfinite(start) and math.isfinite(end)):
        raise RuntimeError(f"unsupported range: {start} -> {end}: the bounds must be finite")
    if step > 0 and end < start or step < 0 and end > start:
        raise RuntimeError(
            f"upper bound and lower bound inconsistent with step sign: from {start} to {end} by {step}")


@public(method=False, out=False, differentiable=False,
        samples=lambda t: [call(5), call(1, 5, 2), call(0, 1, 0.25), call(5, 1, -1)],
        errors=lambda t: [(call(0, 5, -1), RuntimeError, "step sign"), (call(0, 5, 0), RuntimeError, "nonzero")])
def arange(*args: Any, start: Any = 0, end: Any = None, step: Any = 1, out: Any = None, dtype: Any = None,
           layout: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False) -> Any:
    """The numbers start, start + step, ... below end; shape (ceil((end - start) / step),).

    Called as arange(end), arange(start, end) or arange(start, end, step).

    Args:
        dtype: default: int64 when all three are integers, else the default float dtype.

    Raises:
        RuntimeError: step zero or of the wrong sign, bounds not finite.

    >>> flambeau.arange(1, 7, 2)
    tensor([1, 3, 5])
    """
    check_options(layout, pin_memory)
    if len(args) == 1:
        if end is None:
            end = args[0]
        else:
            start, = args
    elif len(args) == 2:
        start, end = args
    elif len(args) == 3:
        start, end, step = args
    elif len(args) > 3:
        raise TypeError(f"arange() takes at most 3 positional arguments (start, end, step), got {len(args)}")
    if end is None:
        raise TypeError("arange() missing 1 required argument: 'end'")
    start, end, step = _number(start, "arange", "start"), _number(end, "arange", "end"), _number(step, "arange", "step")
    whole = isinstance(start, int) and isinstance(end, int) and isinstance(step, int)
    d = array_dtype(dtype, "arange")
    target = array_of(out).dtype if out is not None else d
    if target is None:
        target = _INT64 if whole else default_array_type()
    _refuse(target, "arange")
    _check_range(start, end, step)
    if target.kind in "iu":
        if int(step) == 0:
            raise ValueError(f"step must be nonzero: {step} is 0 as an integer. Give a floating dtype.")
    if target == _INT64:
        start, end, step = int(start), int(end), int(step)      # PyTorch counts the elements of int64 in integers
        whole = True
    n = -((start - end) // step) if whole else math.ceil((end - start) / step)
    if out is not None:
        return into(out, steps_of(start, step, n, target), "arange", d)
    if as_device(device) is META:
        return filled((n,), target, None, device, requires_grad)
    return finish(steps_of(start, step, n, target), requires_grad)


@public(method=False, out=False, differentiable=False, samples=lambda t: [call(0, 3), call(1, 2, 0.25)])
def range(start: Any = 0, end: Any = None, step: Any = 1, *, out: Any = None, dtype: Any = None, layout: Any = None,
          device: Any = None, requires_grad: bool = False, pin_memory: bool = False) -> Any:
    """The numbers start, start + step, ... up to and including end. Deprecated: use arange.

    >>> flambeau.range(0, 2)
    tensor([0., 1., 2.])
    """
    warn_user(
        "torch.range is deprecated: unlike Python's range it includes the end. Use torch.arange, whose values lie "
        "in [start, end); for those of torch.range add one step to the end.")
    check_options(layout, pin_memory)
    if end is None:
        start, end = 0, start
    start, end, step = (_number(v, "range", n) for v, n in ((start, "start"), (end, "end"), (step, "step")))
    d = array_dtype(dtype, "range")
    _check_range(start, end, step)
    n = math.floor((end - start) / step) + 1
    if out is not None:
        return into(out, steps_of(start, step, n, array_of(out).dtype), "range", d)
    return to_device(finish(steps_of(start, step, n, d or default_array_type()), requires_grad), device)


def _spaced(name: str, start: Any, end: Any, steps: Any, out: Any, dtype: Any, layout: Any,
            pin_memory: Any) -> tuple[Any, Any, int, np.dtype]:
    check_options(layout, pin_memory)
    if steps is None:
        raise TypeError(f"{name}() received an invalid combination of arguments: missing 'steps', the number of elements")
    start, end = _number(start, name, "start"), _number(end, name, "end")
    n = _number(steps, name, "steps")
    if not isinstance(n, int):
        raise TypeError(f"{name}(): argument 'steps' must be int, not {type(steps).__name__}")
    if n < 0:
        raise RuntimeError(f"number of steps must be non-negative, got {n}")
    d = array_dtype(dtype, name)
    if d is None:
        d = array_of(out).dtype if out is not None else default_array_type()
        if out is None and (isinstance(start, complex) or isinstance(end, complex)):
            d = number_dtype(1j, d)
    if d.kind == "b":
        raise NotImplementedError(f'"{name}_cpu" not implemented for \'Bool\': give a floating or integer dtype')
    return start, end, n, d


def _unknown_steps(name: str, steps: Any, dtype: Any) -> TensorBase:
    """What numbers between meta tensors would be."""
    return meta_tensor((int(steps),), array_dtype(dtype, name) or default_array_type())


def spaced(start: Any, end: Any, n: int, d: np.dtype) -> np.ndarray:
    """n numbers from start to end, the second half counted back from the end so that both are exact."""
    if n == 1:
        return _as(np.array([start]), d)
    if d.kind == "f" and d.itemsize >= 4:
        return _spaced_floats(start.real, end.real, n, d)
    i = np.arange(n)
    back = n - 1 - i
    if d.kind in "iu":
        start, end = (int(from_data(v, d)) for v in (start, end))       # raises when d cannot hold them
        step = (float(end) - float(start)) / max(n - 1, 1)
        low = _fused(start, step, i, np.dtype("f8")).astype(np.int64)
        high = _fused(end, -step, back, np.dtype("f8")).astype(np.int64)
        return np.where(i < n // 2, low, high).astype(d)
    # start and end are rounded to d first; the narrow dtypes round after every operation
    first, last = _as(np.array(start), d), _as(np.array(end), d)
    count = np.asarray(n - 1).astype(d)
    step = ((last - first) / (count if n > 1 else np.ones((), d))).astype(d)
    low, high = first + step * i.astype(d), last - step * back.astype(d)
    return np.where(i < n // 2, low, high).astype(d)


def _spaced_floats(start: float, end: float, n: int, d: np.dtype) -> np.ndarray:
    """`spaced` for float32 and float64: products and sums are rounded together, as in `_fused`."""
    first, last = d.type(start), d.type(end)
    wide: Any = np.longdouble if d.itemsize == 8 else np.float64
    step = wide((last - first) / d.type(max(n - 1, 1)))
    half = n // 2
    out = np.empty(n, d)
    out[:half] = np.arange(half, dtype=wide) * step + wide(first)
    out[half:] = wide(last) - np.arange(n - half - 1, -1, -1, dtype=wide) * step
    return out


def _as(a: np.ndarray, d: np.dtype) -> np.ndarray:
    return a.astype(d) if d.kind == "c" or a.dtype.kind != "c" else a.real.astype(d)


@public(method=False, out=False, differentiable=False,
        samples=lambda t: [call(0, 1, 5), call(-3.5, 2, 4), call(1, 2, 1), call(0, 1, 0)],
        errors=lambda t: [(call(0, 1, -1), RuntimeError, "non-negative")])
def linspace(start: Any, end: Any, steps: Any = None, *, out: Any = None, dtype: Any = None, layout: Any = None,
             device: Any = None, requires_grad: bool = False, pin_memory: bool = False) -> Any:
    """`steps` evenly spaced numbers from start to end, both included; shape (steps,).

    >>> flambeau.linspace(0, 1, 3)
    tensor([0.0000, 0.5000, 1.0000])
    """
    if is_meta(start) or is_meta(end):
        return _unknown_steps("linspace", steps, dtype)
    first, last, n, d = _spaced("linspace", start, end, steps, out, dtype, layout, pin_memory)
    if out is not None:
        return into(out, spaced(first, last, n, d), "linspace", d if dtype is not None else None)
    if as_device(device) is META:
        return filled((n,), d, None, device, requires_grad)
    return finish(spaced(first, last, n, d), requires_grad)


@public(method=False, out=False, differentiable=False, samples=lambda t: [call(0, 2, 3), call(-1, 1, 5, base=2.0)])
def logspace(start: Any, end: Any, steps: Any = None, base: float = 10.0, *, out: Any = None, dtype: Any = None,
             layout: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False) -> Any:
    """`steps` numbers from base**start to base**end, evenly spaced on a logarithmic scale; shape (steps,).

    >>> flambeau.logspace(0, 2, 3)
    tensor([  1.,  10., 100.])
    """
    if is_meta(start) or is_meta(end):
        return _unknown_steps("logspace", steps, dtype)
    first, last, n, d = _spaced("logspace", start, end, steps, out, dtype, layout, pin_memory)
    if out is None and as_device(device) is META:
        return filled((n,), d, None, device, requires_grad)
    with np.errstate(all="ignore"):
        if d.kind == "c":
            a = np.power(complex(base), spaced(first, last, n, np.dtype("c16"))).astype(d)
        elif d.kind in "iu":
            a = np.power(float(base), spaced(first, last, n, np.dtype("f8"))).astype(np.int64).astype(d)
        else:
            a = np.power(float(base), spaced(first, last, n, np.dtype("f8"))).astype(d)
    if out is not None:
        return into(out, a, "logspace", d if dtype is not None else None)
    return to_device(finish(a, requires_grad), device)
