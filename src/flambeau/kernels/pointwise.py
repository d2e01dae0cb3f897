"""What pointwise kernels share: constants, half precision by way of float32, selection by a mask."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .casting import BFLOAT16, cast, converted
from .layout import clone

F16, F32, F64 = np.dtype("float16"), np.dtype("float32"), np.dtype("float64")
BOOL, INT64 = np.dtype("bool"), np.dtype("int64")
C64, C128 = np.dtype("complex64"), np.dtype("complex128")
DTYPES = (BOOL, *map(np.dtype, ("uint8", "int8", "int16", "int32", "int64")), F16, BFLOAT16, F32, F64, C64, C128)


def _constants(value: float) -> dict[np.dtype, np.ndarray]:
    """A number as a read-only 0-d array of every dtype."""
    found = {}
    for d in DTYPES:
        a = np.array(value, F64).astype(d)
        a.flags.writeable = False
        found[d] = a
    return found


ZEROS, ONES, TWOS, HALVES = _constants(0), _constants(1), _constants(2), _constants(0.5)
_SMALL = 256                # elements up to which np.putmask beats bit masks
LARGE = 1 << 18             # elements above which a kernel of several passes works a block at a time
BLOCK = 1 << 16             # elements of such a block
clip = getattr(np._core.umath, "clip", np.clip)      # the ufunc, without a Python function around it
_BITS = {1: np.dtype("int8"), 2: np.dtype("int16"), 4: np.dtype("int32"), 8: INT64}


def scalar(value: Any, d: np.dtype) -> np.ndarray:
    """A number as a read-only 0-d array of dtype d; whole numbers wrap around in narrow integer dtypes."""
    if value:
        return _scalar(value, d)
    if type(value) is int or (type(value) is float and math.copysign(1.0, value) > 0.0):
        return ZEROS[d]
    return _make_scalar(value, d)           # not kept: 0.0 and -0.0 are equal keys


def new(a: np.ndarray) -> np.ndarray | None:
    """What a ufunc is given as output to make an array like a: nothing, but for 0-d ones, of which it makes scalars."""
    return None if a.ndim else np.empty_like(a)


def _make_scalar(value: Any, d: np.dtype) -> np.ndarray:
    if d.kind in "iu" and isinstance(value, (int, np.integer)):
        return np.array(int(value) & 0xFFFFFFFFFFFFFFFF, np.uint64).astype(INT64).astype(d)
    c = cast(np.array(value), d)
    c.flags.writeable = False
    return c


_scalar = functools.lru_cache(4096, typed=True)(_make_scalar)


def is_half(a: np.ndarray) -> bool:
    d = a.dtype
    return d is F16 or d is BFLOAT16


def wide(kernel: Callable) -> Callable:
    """Have arrays of float16 and bfloat16 computed in float32, the result rounded once."""

    @functools.wraps(kernel)
    def run(a: np.ndarray, *rest: Any) -> Any:
        d = a.dtype
        if d is F32 or d is F64 or not (d is F16 or d is BFLOAT16):
            return kernel(a, *rest)
        rest = tuple(converted(r, F32) if isinstance(r, np.ndarray) and is_half(r) else r for r in rest)
        return narrow(kernel(converted(a, F32), *rest), d)

    return run


def elementwise(kernel: Callable) -> Callable:
    """`wide` for a kernel of which each element of the result depends on the same element of every array.

    Large arrays are computed a block at a time: the passes of the kernel then find the block in the cache (twice as fast for
    eight million elements, no slower for one).
    """

    @functools.wraps(kernel)
    def run(a: np.ndarray, *rest: Any) -> Any:
        d = a.dtype
        if a.size > LARGE:
            return in_blocks(widened, a, *rest)
        if d is F32 or d is F64 or not (d is F16 or d is BFLOAT16):
            return kernel(a, *rest)
        return widened(a, *rest)

    widened = wide(kernel)
    return run


def in_blocks(kernel: Callable, a: np.ndarray, *rest: Any) -> np.ndarray:
    """kernel(a, *rest), elementwise, a block at a time where all arrays among them have a's shape and order."""
    order = "C" if a.flags.c_contiguous else "F"
    arrays = [r for r in (a, *rest) if isinstance(r, np.ndarray) and r.ndim]
    if not all(r.shape == a.shape and r.flags[order + "_CONTIGUOUS"] for r in arrays):
        return kernel(a, *rest)
    flat = [r.reshape(-1, order=order) if isinstance(r, np.ndarray) and r.ndim else None for r in (a, *rest)]
    out = None
    for start in range(0, a.size, BLOCK):
        stop = start + BLOCK
        part = kernel(*[r if f is None else f[start:stop] for f, r in zip(flat, (a, *rest), strict=True)])
        if out is None:
            out = np.empty(a.size, part.dtype)
        out[start:stop] = part
    assert out is not None
    return out.reshape(a.shape, order=order)


def select(mask: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a where mask, else b, of one dtype; they broadcast. See `keep` for why large arrays are not left to np.where."""
    bits = _BITS.get(a.dtype.itemsize)
    if bits is None or mask.size <= _SMALL or a.dtype is not b.dtype:
        return np.where(mask, a, b)
    y = b.view(bits)
    t = np.bitwise_xor(a.view(bits), y)
    choice = np.negative(mask.view(np.int8))
    if t.shape == mask.shape:
        np.bitwise_and(t, choice, t)
    else:
        t = np.bitwise_and(t, choice)
    return np.bitwise_xor(t, y, t).view(a.dtype)


def limit(a: np.ndarray, low: Any, high: Any, out: np.ndarray | None = None) -> np.ndarray:
    """min(max(a, low), high) of floats, nan kept: four times as fast as np.maximum for large arrays and a number."""
    d = a.dtype
    if (d is F32 or d is F64) and low <= high:
        return clip(a, scalar(low, d), scalar(high, d), out)
    x = np.maximum(a, scalar(low, d), out=out)
    return np.minimum(x, scalar(high, d), out=x if isinstance(x, np.ndarray) else None)


def narrow(x: Any, d: np.dtype) -> Any:
    if isinstance(x, tuple):
        return tuple(narrow(y, d) for y in x)
    return x.astype(d) if x.dtype.kind == "f" else x


def keep(a: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """a where mask, else 0, whatever a holds there: inf and nan too, which a product with the mask would spread.

    np.where costs a mispredicted branch for every change of the mask (4 ns an element): large arrays use bits.
    """
    if a.shape == mask.shape:
        if a.size <= _SMALL:
            out = clone(a) if a.ndim else np.array(a)
            np.putmask(out, ~mask, ZEROS[a.dtype])
            return out
        bits = _BITS.get(a.dtype.itemsize)
        if bits is not None and a.dtype is not BOOL:
            return np.bitwise_and(a.view(bits), np.negative(mask.view(np.int8))).view(a.dtype)
    return np.where(mask, a, ZEROS[a.dtype])


def drop(a: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """a where not mask, else 0."""
    if a.shape == mask.shape and a.size <= _SMALL:
        out = clone(a) if a.ndim else np.array(a)
        np.putmask(out, mask, ZEROS[a.dtype])
        return out
    return keep(a, np.logical_not(mask))


def not_implemented(kernel: str, a: np.ndarray) -> NotImplementedError:
    """PyTorch's error for a dtype that an operator is not defined for."""
    from .services import _torch_name

    return NotImplementedError(f'"{kernel}" not implemented for {_torch_name(a.dtype)!r}. Convert the tensor first, for '
                               "example with .float().")


def refuse(kernel: str, a: np.ndarray, kinds: str) -> None:
    """Raise when a's dtype is of one of the kinds (letters of np.dtype.kind)."""
    if a.dtype.kind in kinds:
        raise not_implemented(kernel, a)


class HalfNumber(np.ndarray):
    """A number that meets float16 or bfloat16: rounded, except that products and quotients use it as it is.

    PyTorch computes those in float32 with the number's own value, and rounds once.
    """

    value: np.ndarray | None = None     # an array made from this one has none

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **kwargs: Any) -> Any:
        exact = self.value is not None and method == "__call__" and (ufunc is np.multiply or ufunc is np.true_divide)
        args = []
        for x in inputs:
            if isinstance(x, HalfNumber):
                args.append(x.value if exact and x.value is not None else x.view(np.ndarray))
            else:
                args.append(converted(x, F32) if exact and is_half(np.asarray(x)) else x)
        if not exact:
            if out is not None:
                kwargs["out"] = out
            return getattr(ufunc, method)(*args, **kwargs)
        result = np.asarray(ufunc(*args, **kwargs)).astype(self.dtype)
        if out is None:
            return result
        out[0][...] = result
        return out[0]


def half_number(value: float, rounded: np.ndarray) -> np.ndarray:
    """`rounded`, a 0-d array of a half precision, with the value that it was rounded from."""
    exact = np.asarray(value, F32)
    if not np.isfinite(exact) or exact == rounded.astype(F32):
        return rounded
    number = rounded.view(HalfNumber)
    number.value = exact
    return number


def steps(body: Callable) -> Callable:
    """A kernel made of several ufuncs, written once as body(array, out): `kernel(a)`, and `kernel.into(a, out)`.

    `out` may be None: the first ufunc then makes the array.

    float16 and bfloat16 are computed in float32 and rounded once.
    """

    @functools.wraps(body)
    def kernel(a: np.ndarray) -> np.ndarray:
        return whole(a) if a.size <= LARGE else in_blocks(whole, a)

    def whole(a: np.ndarray) -> np.ndarray:
        d = a.dtype
        if d is F16 or d is BFLOAT16:
            w = converted(a, F32)
            return np.asarray(body(w, new(w))).astype(d)
        return body(a, new(a))

    def into(a: np.ndarray, out: np.ndarray) -> None:
        if is_half(a) or a.size > LARGE:
            out[...] = kernel(a)
        elif out is a:
            out[...] = body(a, new(a))
        else:
            body(a, out)

    kernel.into = into                                                        # type: ignore[attr-defined]
    return kernel


def sign(a: np.ndarray) -> np.ndarray:
    """-1, 0 or 1; 0 for nan."""
    return np.subtract(np.greater(a, ZEROS[a.dtype]).view(np.int8), np.less(a, ZEROS[a.dtype]).view(np.int8)).astype(a.dtype)


def sgn(a: np.ndarray) -> np.ndarray:
    """sign, and z / |z| for complex z, 0 at 0."""
    if a.dtype.kind == "c":
        return np.asarray(np.sign(a))
    return sign(a) if a.dtype is not BOOL else a.copy()
