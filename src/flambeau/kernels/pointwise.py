"""What pointwise kernels share: constants, half precision by way of float32, selection by a mask."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .casting import BFLOAT16, cast

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
        rest = tuple(r.astype(F32) if isinstance(r, np.ndarray) and is_half(r) else r for r in rest)
        return narrow(kernel(a.astype(F32), *rest), d)

    return run


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
            out = np.array(a)
            np.putmask(out, ~mask, ZEROS[a.dtype])
            return out
        bits = _BITS.get(a.dtype.itemsize)
        if bits is not None and a.dtype is not BOOL:
            return np.bitwise_and(a.view(bits), np.negative(mask.view(np.int8))).view(a.dtype)
    return np.where(mask, a, ZEROS[a.dtype])


def drop(a: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """a where not mask, else 0."""
    if a.shape == mask.shape and a.size <= _SMALL:
        out = np.array(a)
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
                args.append(x.astype(F32) if exact and is_half(np.asarray(x)) else x)
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
        d = a.dtype
        if d is F16 or d is BFLOAT16:
            w = a.astype(F32)
            return np.asarray(body(w, new(w))).astype(d)
        return body(a, new(a))

    def into(a: np.ndarray, out: np.ndarray) -> None:
        if is_half(a):
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
