"""Checks and conversions of arguments, shared by the public functions of operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from flambeau.core.apply import constant
from flambeau.core.dtype import DType, by_name, dtype_of_array
from flambeau.core.errors import not_a_tensor
from flambeau.core.objects import TensorBase, array_of, dtype_of, make, requires, shape_of
from flambeau.core.state import grad_enabled, state
from flambeau.kernels.layout import as_int
from flambeau.kernels.strides import normalize_dim, normalize_dims

_PYTHON_TYPES: dict[Any, str] = {float: "float64", int: "int64", bool: "bool", complex: "complex128"}


def tensor(value: Any, function: str, argument: str = "input", position: int = 1) -> TensorBase:
    """value, if it is a tensor; else the TypeError that says which argument is not."""
    if not isinstance(value, TensorBase):
        raise not_a_tensor(function, argument, position, value)
    return value


def followed(*tensors: TensorBase) -> bool:
    """Whether operators on these may be differentiated, by reverse or by forward mode, or be seen by something else."""
    return state.special != 0 or grad_enabled() and any(requires(t) for t in tensors)


def ndim(t: TensorBase) -> int:
    return len(shape_of(t))


def dim(value: int, n_dims: int) -> int:
    """A dimension counted from the front; IndexError when out of range."""
    return normalize_dim(value, n_dims)


def dims(value: int | Sequence[int] | None, n_dims: int) -> tuple[int, ...] | None:
    """Dimensions counted from the front; None and () stay as given: all dimensions."""
    if value is None:
        return None
    return normalize_dims(value, n_dims)


def sizes(args: tuple) -> tuple[int, ...]:
    """Sizes given as separate numbers or as one sequence."""
    if len(args) == 1 and isinstance(args[0], (tuple, list)):
        args = tuple(args[0])
    return tuple([s if type(s) is int else as_int(s, "size") for s in args])


def integer(value: Any, function: str, argument: str) -> int:
    """value as an int; TypeError for anything that is no integer (a bool is none)."""
    if type(value) is int:
        return value
    if isinstance(value, TensorBase) and not shape_of(value) and dtype_of(value).kind in "iu":
        return int(array_of(value))
    try:
        return as_int(value, argument)
    except TypeError as error:
        raise TypeError(f"{function}(): {error}") from None


def optional_integer(value: Any, function: str, argument: str) -> int | None:
    """`integer`, or None."""
    return None if value is None else integer(value, function, argument)


def number(value: Any, function: str, argument: str) -> float:
    """value as a float; TypeError for anything that is no number."""
    if type(value) is float or type(value) is int:
        return float(value)
    if isinstance(value, TensorBase):
        return float(array_of(value))
    if isinstance(value, str) or not hasattr(value, "__float__"):
        raise TypeError(f"{function}(): argument '{argument}' must be a number, not {type(value).__name__}")
    return float(value)


def word(value: Any, function: str, argument: str) -> str:
    """value, if it is a str; else TypeError."""
    if not isinstance(value, str):
        raise TypeError(f"{function}(): argument '{argument}' must be str, not {type(value).__name__}")
    return value


def np_dtype(d: DType | None) -> np.dtype | None:
    """The arrays' dtype for a public one."""
    if d is None:
        return None
    if not isinstance(d, DType):
        name = _PYTHON_TYPES.get(d) if isinstance(d, type) else None
        if name is not None:
            return by_name[name].array_type
        raise TypeError(f"argument 'dtype' must be torch.dtype, not {type(d).__name__}: write torch.float32 and so on")
    return d.array_type


def public_dtype(t: TensorBase) -> DType:
    return dtype_of_array(dtype_of(t))


def like(value: Any, t: TensorBase) -> TensorBase:
    """A tensor from a tensor or a number that meets t in an operator."""
    if isinstance(value, TensorBase):
        return value
    a = constant(value, dtype_of(t))
    if a is None:
        raise TypeError(f"expected a Tensor or a number, not {type(value).__name__}")
    return make(a)


def array(t: Any) -> Any:
    """The array of a tensor; other values as they are."""
    return array_of(t) if isinstance(t, TensorBase) else t
