"""Arrays from Python data: numbers, nested sequences, NumPy arrays and scalars, tensors inside lists.

PyTorch's rules: the shape is read off the first elements and every other row must agree; the dtype is the
widest that the values ask for (bool, int64, the default float or complex dtype, or what a NumPy value or a
tensor brings along); tensors inside a list stand for one number each.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from flambeau.core.dtype import by_array_type
from flambeau.core.objects import TensorBase, array_of, requires
from flambeau.core.origin import warn_user
from flambeau.kernels.casting import cast
from flambeau.kernels.promotion import number_dtype, promote_types
from flambeau.kernels.services import default_array_type

_BOOL, _INT64, _F64, _C128 = np.dtype("?"), np.dtype("i8"), np.dtype("f8"), np.dtype("c16")
_LEAVES = (bool, int, float, complex, TensorBase, np.generic)
_PYTHON_NUMBERS = frozenset((bool, int, float, complex))
_MAX_DIMS = 64              # NumPy's limit; PyTorch's is 128
_warned: set[str] = set()


def warn_once(key: str, text: str) -> None:
    """A warning that is given once in a process."""
    if key not in _warned:
        _warned.add(key)
        warn_user(text)


def from_data(data: Any, dtype: np.dtype | None) -> np.ndarray:
    """A fresh array of the data.

    Args:
        data: a number, a NumPy array or scalar, an object with an array interface, or nested sequences.
        dtype: the array's dtype; None to infer it.

    Raises:
        ValueError: rows of different lengths, an integer that does not fit 64 bits.
        TypeError: strings, mixed depths.
        RuntimeError: a value that is no number, or does not fit an integer dtype.
    """
    kind = type(data)
    if kind is list or kind is tuple:
        return from_sequence(data, dtype)
    if isinstance(data, np.ndarray):
        a = checked_array(data)
        return np.array(a, copy=True) if dtype is None or dtype is a.dtype else np.array(cast(a, dtype), copy=None)
    if isinstance(data, np.generic):
        a = checked_array(np.asarray(data))
        return np.array(a if dtype is None else cast(a, dtype), copy=True)
    if isinstance(data, (bool, int, float, complex)):
        return numbers([data], dtype).reshape(())
    if isinstance(data, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{kind.__name__}': a tensor is made of numbers")
    if hasattr(data, "__array_interface__") or hasattr(data, "__array__"):
        return from_data(np.asarray(data), dtype)
    if hasattr(data, "__len__") and hasattr(data, "__getitem__") and not isinstance(data, dict):
        return from_sequence(data, dtype)
    raise RuntimeError(
        f"Could not infer dtype of {kind.__name__}: a tensor is made of numbers, nested lists or tuples of numbers, or "
        "NumPy arrays" + (". Make a list of it first: torch.tensor(list(...))." if hasattr(data, "__iter__") else "."))


def checked_array(a: np.ndarray) -> np.ndarray:
    """a itself, if its dtype and byte order are ones that tensors have.

    The dtype of an unpickled array, and of one of np.longlong, equals the one that kernels compare by `is`, but is
    not the same object: then the result is a view with that object.
    """
    known = by_array_type.get(a.dtype)
    if known is not None and a.dtype.isnative:
        return a if a.dtype is known.array_type else a.view(known.array_type)
    if not a.dtype.isnative:
        raise ValueError(
            "The given numpy array has byte order different from this machine's. Convert it first: "
            "a.astype(a.dtype.newbyteorder('='))")
    raise TypeError(
        f"can't convert np.ndarray of type numpy.{a.dtype.type.__name__}. The only supported types are: float64, float32, "
        "float16, bfloat16 (ml_dtypes), complex64, complex128, int64, int32, int16, int8, uint64, uint32, uint16, uint8, "
        "and bool.")


def _is_leaf(x: Any) -> bool:
    if isinstance(x, _LEAVES):
        return True
    return not (hasattr(x, "__len__") and hasattr(x, "__getitem__")) or isinstance(x, dict) or (
        isinstance(x, np.ndarray) and x.ndim == 0)


def from_sequence(data: Any, dtype: np.dtype | None) -> np.ndarray:
    """An array from nested sequences."""
    shape: list[int] = []
    level: Any = [data]
    while True:
        first = level[0] if len(level) else None
        if isinstance(first, (str, bytes)):
            raise ValueError(f"too many dimensions '{type(first).__name__}': a tensor is made of numbers, not text")
        if not len(level) or _is_leaf(first):
            break
        if len(shape) >= _MAX_DIMS:
            raise ValueError(f"too many dimensions: sequences are nested more than {_MAX_DIMS} deep")
        if isinstance(first, np.ndarray) and first.ndim > 0 and len(level) > 1:
            warn_once("list of arrays",
                      "Creating a tensor from a list of numpy.ndarrays is slow: every element passes through "
                      "Python. Make one array of them first, with numpy.array(...) or numpy.stack(...).")
        size = len(first)
        if len(level) > 1:
            for row in level:
                if _is_leaf(row):
                    raise TypeError(
                        f"not a sequence: at dim {len(shape)} the data has sequences of length {size} and also "
                        f"{row!r} of type {type(row).__name__}. All rows must be nested equally deep.")
                if len(row) != size:
                    raise ValueError(
                        f"expected sequence of length {size} at dim {len(shape)} (got {len(row)}). All rows of a "
                        "tensor have "
                        "one length: pad the shorter ones, for example with torch.nn.utils.rnn.pad_sequence.")
        shape.append(size)
        level = first if len(level) == 1 else list(chain.from_iterable(level))
        if type(level) is not list:
            level = list(level)
    if not level:
        return np.empty(shape, default_array_type() if dtype is None else dtype)
    return numbers(level, dtype).reshape(shape)


def numbers(flat: Sequence[Any], dtype: np.dtype | None) -> np.ndarray:
    """A 1-D array of Python and NumPy numbers and one-element tensors."""
    kinds = set(map(type, flat))
    if not kinds <= _PYTHON_NUMBERS:
        found = None
        plain = []
        for x in flat:
            own, value = _number(x)
            found = own if found is None else promote_types(found, own)
            plain.append(value)
        flat, kinds = plain, set(map(type, plain))
        dtype = found if dtype is None else dtype
    elif dtype is None:
        float_dtype = default_array_type()
        dtype = (number_dtype(1j, float_dtype) if complex in kinds else float_dtype if float in kinds
                 else _INT64 if int in kinds else _BOOL)
    assert dtype is not None
    return _fill(flat, kinds, dtype)


def _number(x: Any) -> tuple[np.dtype, Any]:
    """The dtype that a value brings along, and the value as a Python number."""
    own = number_dtype(x, default_array_type()) if not isinstance(x, np.generic) else None
    if own is not None:
        # a subclass of a number (an IntEnum) counts as the number
        return own, x if type(x) in _PYTHON_NUMBERS else x.__index__() if own is _INT64 or own == _INT64 else x + 0
    if isinstance(x, TensorBase):
        a = array_of(x)
        if a.size != 1:
            raise ValueError(
                f"only one element tensors can be converted to Python scalars: a tensor of shape {list(a.shape)} inside a "
                "list. Join tensors with torch.stack(list) or torch.cat(list).")
        if requires(x):
            warn_user("Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior: "
                      "the new "
                      "tensor has no history, so no gradient flows to the ones in the list. Use torch.stack(list) "
                      "to keep "
                      "it, or detach() them.")
        return a.dtype, _python(a)
    if isinstance(x, (np.generic, np.ndarray)):
        a = checked_array(np.asarray(x))
        return a.dtype, _python(a)
    if isinstance(x, (str, bytes)):
        raise ValueError(f"too many dimensions '{type(x).__name__}': a tensor is made of numbers, not text")
    if isinstance(x, (list, tuple)):
        raise TypeError(
            f"'{type(x).__name__}' object cannot be interpreted as an integer: a sequence stands where other rows have a "
            "number. All rows must be nested equally deep.")
    if hasattr(x, "__index__"):
        return _INT64, x.__index__()
    if hasattr(x, "__float__"):
        return default_array_type(), float(x)
    raise RuntimeError(f"Could not infer dtype of {type(x).__name__}: a tensor is made of numbers")


def _python(a: np.ndarray) -> Any:
    value = a.reshape(()).item()
    return value if type(value) in _PYTHON_NUMBERS else float(value)     # bfloat16 gives its own scalar


def _fill(flat: Sequence[Any], kinds: set[type], dtype: np.dtype) -> np.ndarray:
    kind = dtype.kind
    if kind == "b":
        return np.array([bool(x) for x in flat], dtype)
    if kind in "iu":
        return _integers(flat, kinds, dtype)
    if kind == "c":
        return np.array(flat, _C128).astype(dtype, copy=False)
    if complex in kinds:
        raise TypeError(f"must be real number, not complex: give a complex dtype instead of {dtype.name}")
    wide = np.array(flat, _F64)
    if dtype is _F64 or dtype == _F64:
        return wide
    with np.errstate(all="ignore"):
        return cast(wide, dtype)


def _integers(flat: Sequence[Any], kinds: set[type], dtype: np.dtype) -> np.ndarray:
    if complex in kinds:
        raise TypeError(f"can't convert complex to int: give a complex dtype instead of {dtype.name}")
    if float in kinds:
        try:
            flat = [int(x) for x in flat]
        except (ValueError, OverflowError):
            bad = next(x for x in flat if x != x or x in (float("inf"), float("-inf")))
            raise RuntimeError(f"value cannot be converted to type {dtype.name} without overflow: {bad}") from None
    if dtype == np.uint64 and any(x < 0 for x in flat):
        raise OverflowError("can't convert negative int to unsigned: uint64 takes integers from 0")
    try:
        wide = np.array(flat, _INT64)
    except OverflowError:
        if dtype == np.uint64 and all(0 <= x < 2**64 for x in flat):
            return np.array(flat, np.uint64)
        raise ValueError(
            "Overflow when unpacking long long: an integer outside [-2**63, 2**63) does not fit int64. Give a floating "
            "dtype, or a float.") from None
    if dtype == _INT64:
        return wide
    info = np.iinfo(dtype)
    low = info.min if info.min else -info.max        # negative numbers wrap around in uint8, as in PyTorch
    outside = (wide < low) | (wide > info.max)
    if outside.any():
        bad = wide[outside][0]
        raise RuntimeError(f"value cannot be converted to type {dtype.name} without overflow: {bad} is outside "
                           f"[{info.min}, {info.max}]")
    return wide.astype(dtype)
