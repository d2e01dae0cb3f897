"""Type promotion: which dtype an operation on several operands computes in, by PyTorch's rules.

Dtypes fall in four categories, bool < integer < floating < complex. Operands fall in three groups: tensors
with dimensions, zero-dimensional tensors, Python numbers. Inside a group dtypes are promoted as in a lattice;
between groups the earlier one decides, unless a later one is of a higher category.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from flambeau.kernels.casting import BFLOAT16, cast

__all__ = ["can_cast", "combine_groups", "constant", "number_dtype", "promote_types", "result_type"]

_BOOL, _UINT8, _INT8, _INT16, _INT32, _INT64, _FLOAT16, _FLOAT32, _FLOAT64, _COMPLEX64, _COMPLEX128 = map(
    np.dtype,
    "bool uint8 int8 int16 int32 int64 float16 float32 float64 complex64 complex128".split(),
)

_INTEGER, _FLOATING, _COMPLEX = 1, 2, 3
_CATEGORY: dict[np.dtype, int] = {_BOOL: 0}
_CATEGORY.update(dict.fromkeys((_UINT8, _INT8, _INT16, _INT32, _INT64), _INTEGER))
# Wide unsigned integers store and convert; they have no promotion with other integers, bools and complex numbers
WIDE_UNSIGNED = tuple(map(np.dtype, ("uint16", "uint32", "uint64")))
_CATEGORY.update(dict.fromkeys(WIDE_UNSIGNED, _INTEGER))
_CATEGORY.update(dict.fromkeys((_FLOAT16, BFLOAT16, _FLOAT32, _FLOAT64), _FLOATING))
_CATEGORY.update(dict.fromkeys((_COMPLEX64, _COMPLEX128), _COMPLEX))


def _complex_of(dtype: np.dtype) -> np.dtype:
    """The complex dtype of a floating one. There is no complex32: float16 goes to complex64."""
    return _COMPLEX128 if dtype == _FLOAT64 else _COMPLEX64


def _promote(a: np.dtype, b: np.dtype) -> np.dtype:
    if a == b:
        return a
    low, high = sorted((a, b), key=lambda dtype: (_CATEGORY[dtype], dtype.itemsize))
    if _CATEGORY[low] == _CATEGORY[high]:
        if low.itemsize == high.itemsize:
            # Neither of uint8 and int8, nor of float16 and bfloat16, holds the other.
            return _INT16 if high.itemsize == 1 else _FLOAT32
        return high
    if _CATEGORY[low] == _FLOATING:
        return _promote(_complex_of(low), high)
    return high


def _has_promotion(a: np.dtype, b: np.dtype) -> bool:
    return a == b or all(d not in WIDE_UNSIGNED or _CATEGORY[other] == _FLOATING for d, other in ((a, b), (b, a)))


_PROMOTED = {(a, b): _promote(a, b) for a in _CATEGORY for b in _CATEGORY if _has_promotion(a, b)}


def _refused(a: np.dtype, b: np.dtype) -> RuntimeError:
    return RuntimeError(f"Promotion for uint16, uint32, uint64 types is not supported, attempted to promote {a.name} and "
                        f"{b.name}: convert one of them, for instance to int64.")


def promote_types(a: np.dtype, b: np.dtype) -> np.dtype:
    """Return the smallest dtype of the higher category that both promote to.

    Args:
        a, b: two dtypes.

    >>> promote_types(np.dtype("uint8"), np.dtype("int8"))
    dtype('int16')
    """
    found = _PROMOTED.get((a, b))
    if found is None:
        raise _refused(a, b)
    return found


def can_cast(source: np.dtype, target: np.dtype) -> bool:
    """Whether a result of dtype `source` may be written to a tensor of dtype `target`.

    It may not go to a lower category; the width within a category does not matter.
    """
    return _CATEGORY[source] <= _CATEGORY[target]


def combine_groups(
    tensors: Iterable[np.dtype], scalars: Iterable[np.dtype] = (), numbers: Iterable[np.dtype] = ()
) -> np.dtype | None:
    """Return the dtype that the three groups of operands compute in; None when all are empty.

    Args:
        tensors: dtypes of the operands with at least one dimension.
        scalars: dtypes of the zero-dimensional tensors.
        numbers: dtypes that the Python numbers have by themselves (see `number_dtype`).
    """
    result: np.dtype | None = None
    # From the lowest group up, as PyTorch does: numbers first meet the zero-dimensional tensors.
    for group in (numbers, scalars, tensors):
        promoted: np.dtype | None = None
        for dtype in group:
            promoted = dtype if promoted is None else promote_types(promoted, dtype)
        if promoted is None:
            continue
        result = promoted if result is None else _outrank(promoted, result)
    return result


def _outrank(higher: np.dtype, lower: np.dtype) -> np.dtype:
    if _CATEGORY[lower] <= _CATEGORY[higher]:
        return higher
    return _complex_of(higher) if _CATEGORY[higher] == _FLOATING else lower


def result_type(*operands: Any, default_float_dtype: np.dtype = _FLOAT32) -> np.dtype:
    """Return the dtype that an operation on these operands computes in.

    Args:
        operands: arrays (a 0-d array stands for a zero-dimensional tensor) and Python or NumPy numbers.
        default_float_dtype: dtype of a Python float among bools and integers.

    Raises:
        TypeError: an operand is neither, or there is none.
    """
    groups: tuple[list[np.dtype], list[np.dtype], list[np.dtype]] = ([], [], [])
    for operand in operands:
        if isinstance(operand, np.ndarray):
            groups[0 if operand.ndim else 1].append(operand.dtype)
            continue
        dtype = number_dtype(operand, default_float_dtype)
        if dtype is None:
            raise TypeError(f"result_type() needs tensors and numbers, got {type(operand).__name__}")
        groups[2].append(dtype)
    result = combine_groups(*groups)
    if result is None:
        raise TypeError("result_type() needs at least one tensor or number")
    return result


def number_dtype(value: object, default_float_dtype: np.dtype = _FLOAT32) -> np.dtype | None:
    """Dtype that a number has by itself, None for what is not a number.

    NumPy scalars count as the Python number of their kind, whatever their width.
    """
    if isinstance(value, (bool, np.bool_)):
        return _BOOL
    if isinstance(value, (float, np.floating, BFLOAT16.type)):
        return default_float_dtype
    if isinstance(value, (int, np.integer)):
        # Not np.timedelta64, which NumPy derives from its integers.
        return None if isinstance(value, np.timedelta64) else _INT64
    if isinstance(value, (complex, np.complexfloating)):
        return _complex_of(default_float_dtype)
    return None


def check_fits(value: Any, dtype: np.dtype) -> None:
    """Refuse a number that dtype cannot hold, as PyTorch does where a value is written as it is.

    Negative integers wrap around in unsigned dtypes; inf and nan fit floats.

    Raises:
        RuntimeError: value is outside the range of dtype, or complex for a real dtype.
    """
    kind = dtype.kind
    if type(value) is int:
        if kind in "if" and -128 <= value <= 127:
            return
    elif type(value) is float and kind == "f" and -65504.0 <= value <= 65504.0:
        return
    if kind == "b":
        return
    if isinstance(value, (complex, np.complexfloating)):
        fits = dtype.kind == "c" or value.imag == 0
        value = value.real
    else:
        fits = True
    if fits and dtype.kind in "iu":
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        if isinstance(value, (int, np.integer)):
            fits = -high <= value <= high if low == 0 else low <= value <= high
        else:
            fits = low <= value <= high
    elif fits and dtype.kind in "fVc" and math.isfinite(value):
        real = {8: np.dtype("f4"), 16: np.dtype("f8")}[dtype.itemsize] if dtype.kind == "c" else dtype
        fits = abs(value) <= (3.3895313892515355e38 if real == BFLOAT16 else float(np.finfo(real).max))
    if not fits:
        raise RuntimeError(f"value cannot be converted to type {dtype.name} without overflow: {value}")


# Constants of user programs are few and come back at every step; learning rates may be many, hence the limit.
_CACHE_LIMIT = 4096
_constants: dict[tuple[type, Any, np.dtype, np.dtype], np.ndarray] = {}


def constant(value: object, dtype: np.dtype, default_float_dtype: np.dtype = _FLOAT32) -> np.ndarray | None:
    """A Python number as an operand beside a tensor of `dtype`.

    Args:
        value: bool, int, float, complex or NumPy scalar; anything else gives None.
        dtype: dtype of the tensor, of any number of dimensions.
        default_float_dtype: dtype of a float beside a tensor of bools or integers.

    Returns:
        A read-only 0-d array, which may be shared between calls, of `result_type(tensor, value)`. Integers
        wrap around in the narrow dtypes, and floats overflow to inf, as in PyTorch.

    Raises:
        OverflowError: an int outside [-2**63, 2**64).
        RuntimeError: an int from 2**63 upwards beside a tensor of bools: the result would be uint64.
    """
    kind = type(value)
    if kind is float or kind is int or kind is bool:
        # 0.0 and -0.0 are equal as keys: tell them apart.
        key = (kind, value if value or kind is not float else str(value), dtype, default_float_dtype)
        found = _constants.get(key)
        if found is None:
            found = _make_constant(value, dtype, default_float_dtype)
            if len(_constants) >= _CACHE_LIMIT:
                _constants.clear()
            if found is not None:
                _constants[key] = found
        return found
    return _make_constant(value, dtype, default_float_dtype)


def _make_constant(value: Any, dtype: np.dtype, default_float_dtype: np.dtype) -> np.ndarray | None:
    own = number_dtype(value, default_float_dtype)
    if own is None:
        return None
    target = _outrank(dtype, own)
    if own == _INT64:
        number = np.array(int(value), _integer_container(int(value), dtype))
    elif _CATEGORY[own] == _FLOATING:
        number = np.array(float(value), _FLOAT64)
    elif _CATEGORY[own] == _COMPLEX:
        number = np.array(complex(value), _COMPLEX128)
    else:
        number = np.array(bool(value), _BOOL)
    with np.errstate(all="ignore"):
        array = cast(number, target)
    array.flags.writeable = False
    return array


def _integer_container(value: int, dtype: np.dtype) -> np.dtype:
    if -(2**63) <= value < 2**63:
        return _INT64
    if not 0 <= value < 2**64:
        shown = str(value) if abs(value) < 10**40 else f"about 10**{round(math.log10(abs(value)))}"
        raise OverflowError(
            f"the Python int {shown} is too big to convert: tensors hold integers in [-2**63, 2**64). "
            "Write it as a float."
        )
    if dtype == _BOOL:
        raise RuntimeError(
            f"cannot promote bool with the Python int {value}: it needs uint64, which has no promotion. "
            "Convert the tensor to int64 or a floating dtype first."
        )
    return np.dtype(np.uint64)
