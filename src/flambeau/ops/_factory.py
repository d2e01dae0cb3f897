"""What all creation functions share: dtype, device, layout, requires_grad, pin_memory, memory_format, out."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from flambeau.core import dtype as dtypes
from flambeau.core.basics import set_requires_grad
from flambeau.core.dtype import META, DType, MemoryFormat, as_device
from flambeau.core.objects import TensorBase, array_of, make, set_array
from flambeau.kernels.casting import cast
from flambeau.kernels.strides import torch_strides

from ._assemble import write_out
from ._meta import meta_tensor

_FORMATS = {"contiguous_format": "contiguous", "preserve_format": "preserve", "channels_last": "channels_last",
            "channels_last_3d": "channels_last_3d"}
_PYTHON_TYPES = {builtins.float: "float64", builtins.int: "int64", builtins.bool: "bool", builtins.complex: "complex128"}


def array_dtype(dtype: Any, function: str) -> np.dtype | None:
    """The arrays' dtype of a `dtype=` argument; None stays None. Python's number types are understood."""
    if dtype is None:
        return None
    if isinstance(dtype, DType):
        return dtype.array_type
    if dtype in _PYTHON_TYPES:
        return dtypes.by_name[_PYTHON_TYPES[dtype]].array_type
    raise TypeError(f"{function}(): argument 'dtype' must be torch.dtype, not {type(dtype).__name__}. Write torch.float32 "
                    "and so on; NumPy's dtypes and names are not understood here.")


def format_name(memory_format: Any) -> str:
    """The kernels' name of a memory format."""
    if memory_format is None:
        return "preserve"
    if isinstance(memory_format, MemoryFormat):
        return _FORMATS[memory_format.name]
    raise TypeError(f"argument 'memory_format' must be torch.memory_format, not {type(memory_format).__name__}")


def check_options(layout: Any, pin_memory: Any) -> None:
    """Only strided tensors in ordinary memory can be made."""
    if layout is not None and layout is not dtypes.STRIDED:
        raise NotImplementedError(f"layout {layout} is not supported by this function: only torch.zeros and torch.empty "
                                  "make sparse tensors. Make a dense one and call .to_sparse(), or use "
                                  "torch.sparse_coo_tensor.")
    if pin_memory:
        raise RuntimeError(
            "pin_memory=True requires a CUDA or other accelerator backend: there is none here, and copies from ordinary "
            "memory need no pinning. Leave it out, or pass pin_memory=torch.cuda.is_available().")


def size_of(size: tuple, function: str) -> tuple[int, ...]:
    """Sizes given as numbers or as one sequence."""
    if len(size) == 1 and not isinstance(size[0], (int, np.integer)) and not (
            isinstance(size[0], TensorBase) and not size[0].shape):
        one = size[0]
        if isinstance(one, (float, str)) or not hasattr(one, "__iter__"):
            raise TypeError(f"{function}(): argument 'size' must be tuple of ints, not {type(one).__name__}")
        size = tuple(one)
    try:
        shape = tuple([n if type(n) is int else n.__index__() for n in size])
    except AttributeError:
        bad = next((i, n) for i, n in enumerate(size) if not hasattr(n, "__index__"))
        raise TypeError(
            f"{function}(): argument 'size' must be tuple of ints, but found element of type {type(bad[1]).__name__} at pos "
            f"{bad[0]}. Round it to an int first.") from None
    if shape and min(shape) < 0:
        raise RuntimeError(f"{function}(): Trying to create tensor with negative dimension {min(shape)}: {list(shape)}")
    return shape


def finish(a: np.ndarray, requires_grad: bool = False) -> TensorBase:
    """The tensor of a fresh array."""
    t = make(a)
    if requires_grad:
        set_requires_grad(t, True)
    return t


def filled(shape: tuple[int, ...], dtype: np.dtype, value: Any, device: Any, requires_grad: bool) -> TensorBase:
    """A fresh tensor; value None leaves its memory uninitialised."""
    if as_device(device) is META:
        t = meta_tensor(shape, dtype)
        if requires_grad:
            set_requires_grad(t, True)
        return t
    if value is None:
        a = np.empty(shape, dtype)
    elif type(value) is int and value == 1 or type(value) is float and dtype.kind == "f":
        a = np.empty(shape, dtype)
        a.fill(value)       # half the time of np.full
    elif value == 0 and type(value) is not complex:
        a = np.zeros(shape, dtype)
    else:
        a = np.full(shape, value, dtype)
    return finish(a, requires_grad)


def to_device(t: TensorBase, device: Any) -> TensorBase:
    """A fresh CPU tensor where it was asked for."""
    if as_device(device) is META:
        a = array_of(t)
        m = meta_tensor(a.shape, a.dtype, torch_strides(a))
        if t._rg:
            set_requires_grad(m, True)
        return m
    return t


def into(out: Any, a: np.ndarray, function: str, dtype: np.dtype | None) -> TensorBase:
    """Write a into out=: resized when it has another shape; the values take out's dtype."""
    if not isinstance(out, TensorBase):
        raise TypeError(f"{function}(): argument 'out' must be Tensor, not {type(out).__name__}")
    o = array_of(out)
    if dtype is not None and dtype != o.dtype:
        raise RuntimeError(
            f"{function}(): dtype {dtypes.dtype_of_array(dtype)} does not match dtype of out parameter ({out.dtype})")
    if o.shape != a.shape:
        set_array(out, np.empty(a.shape, o.dtype))
    return write_out(function, out, make(cast(a, o.dtype)))
