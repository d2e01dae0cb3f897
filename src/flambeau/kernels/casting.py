"""Conversion of arrays between dtypes, with the values that `tensor.to(dtype)` gives in PyTorch.

NumPy's `astype` already agrees for most pairs. The exceptions, all here:

- complex to real drops the imaginary part, and a hook is told so;
- float64 to float16 rounds twice, by way of float32;
- floats to integers outside the target's range, nan and inf included, are undefined in C. PyTorch gives what
  x86 processors do: truncate to a wide integer (int32, or int64 for int64 and for float64 to uint8), whose
  lowest value stands for everything that does not fit, then keep the low bits. Other processors
  are made to agree.
"""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np

from .layout import empty_like

__all__ = ["BFLOAT16", "cast", "converted", "set_discard_hook", "widen"]

BFLOAT16: np.dtype = np.dtype(ml_dtypes.bfloat16)

_BOOL: np.dtype = np.dtype(np.bool_)
_UINT8: np.dtype = np.dtype(np.uint8)
_INT32: np.dtype = np.dtype(np.int32)
_WIDER = (np.dtype(np.uint32), np.dtype(np.uint64))
_INT64: np.dtype = np.dtype(np.int64)
_FLOAT16: np.dtype = np.dtype(np.float16)
_FLOAT32: np.dtype = np.dtype(np.float32)
_FLOAT64: np.dtype = np.dtype(np.float64)

_discard_hook: Callable[[], None] | None = None


def set_discard_hook(hook: Callable[[], None] | None) -> Callable[[], None] | None:
    """Have `hook` called whenever `cast` drops imaginary parts; returns the hook that it replaces.

    PyTorch warns of this once a process, and not for bool, which looks at both parts.
    """
    global _discard_hook
    previous = _discard_hook
    _discard_hook = hook
    return previous


def cast(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Convert to `dtype`.

    Args:
        array: any shape (*), any dtype, any strides.
        dtype: a dtype that tensors have.

    Returns:
        `array` itself when it has that dtype, else a new array of shape (*), in the same memory order.

    Numerical caveats:
        A nan stays a nan but its payload and sign bit may differ from PyTorch's, which differ with the length
        of the array.
    """
    source = array.dtype
    if source is dtype:
        return array
    exception = _EXCEPTIONS.get((source, dtype))
    if exception is None:
        return converted(array, dtype)
    return exception(array, dtype)


def widen(dtype: np.dtype) -> np.dtype:
    """The dtype to compute in: float32 for the two-byte floats, which BLAS does not know, else dtype."""
    if dtype.itemsize == 2 and dtype.kind not in "iu":      # float16 has kind "f", ml_dtypes' bfloat16 has "V"
        return _FLOAT32
    return dtype


def converted(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """array.astype(dtype) in the memory order that PyTorch gives it.

    An expanded dimension says nothing of the order there; NumPy makes it the innermost one.
    """
    if array.flags.c_contiguous or 0 not in array.strides:
        return array.astype(dtype)
    out = empty_like(array, "preserve", dtype)
    out[...] = array
    return out


def _same(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    return array


def _drop_imaginary(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    if _discard_hook is not None:
        _discard_hook()
    real = array.real
    return converted(real, dtype) if real.dtype == dtype else cast(real, dtype)


def _round_twice(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    return converted(array, _FLOAT32).astype(dtype)


def _truncate(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    wide = _INT64 if dtype == _INT64 or dtype in _WIDER or (dtype == _UINT8 and array.dtype == _FLOAT64) else _INT32
    whole = converted(array, wide) if _PROCESSOR_AGREES else _truncate_portably(array, wide)
    return whole if wide == dtype else whole.astype(dtype)


def _truncate_portably(array: np.ndarray, wide: np.dtype) -> np.ndarray:
    """Truncate to a wide integer, its lowest value standing for all that does not fit, on any processor."""
    if array.dtype.itemsize == 2:
        array = array.astype(_FLOAT32)  # the bounds below overflow float16
    lowest = np.iinfo(wide).min
    bound = array.dtype.type(-float(lowest))
    # For float64 to int32 the values just below the lowest truncate to it: the bound need not be exact there.
    fits = (array >= -bound) & (array < bound)
    return np.where(fits, array, -bound).astype(wide, order="K")


def _processor_agrees() -> bool:
    """Whether float-to-integer conversion of what does not fit gives the lowest integer, as on x86."""
    misfits = [np.nan, np.inf, -np.inf, 1e19, -1e19] * 8  # long enough for vector instructions, with a rest
    with np.errstate(invalid="ignore"):
        return all(
            bool(np.all(np.array(misfits, source).astype(wide) == np.iinfo(wide).min))
            for source in (_FLOAT32, _FLOAT64)
            for wide in (_INT32, _INT64)
        )


_PROCESSOR_AGREES = _processor_agrees()


def _exceptions() -> dict[tuple[np.dtype, np.dtype], Callable[[np.ndarray, np.dtype], np.ndarray]]:
    integers: list[np.dtype] = [_UINT8, _INT32, _INT64, *map(np.dtype, ("int8", "int16", "uint16", "uint32", "uint64"))]
    floats: list[np.dtype] = [_FLOAT16, BFLOAT16, _FLOAT32, _FLOAT64]
    complexes: list[np.dtype] = [np.dtype(np.complex64), np.dtype(np.complex128)]
    table: dict[tuple[np.dtype, np.dtype], Callable[[np.ndarray, np.dtype], np.ndarray]] = {
        (source, target): _drop_imaginary for source in complexes for target in integers + floats
    }
    table.update({(source, target): _truncate for source in floats for target in integers})
    table[_FLOAT64, _FLOAT16] = _round_twice
    # Equal dtypes are nearly always one object, and `cast` looks no further; this is for the rest.
    for dtype in [_BOOL, *integers, *floats, *complexes]:
        table[dtype, dtype] = _same
    return table


_EXCEPTIONS = _exceptions()
