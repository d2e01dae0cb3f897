"""Tensors from data: `tensor`, `as_tensor`, `asarray`, `from_numpy`, `frombuffer`, `scalar_tensor`."""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.basics import set_requires_grad
from flambeau.core.dtype import META, STRIDED, as_device, dtype_of_array
from flambeau.core.objects import TensorBase, array_of, dtype_of, is_mapped, make
from flambeau.core.origin import warn_user
from flambeau.kernels.casting import cast
from flambeau.kernels.services import default_array_type

from ._args import integer
from ._factory import array_dtype, check_options, finish, to_device
from ._from_data import checked_array, from_data, warn_once
from ._record import call, public


@public(method=False, out=False, differentiable=False,
        samples=lambda t: [call([1.0, 2.0]), call([[1, 2], [3, 4]]), call(True), call([1, 2.5]), call([])],
        errors=lambda t: [(call([[1, 2], [3]]), ValueError, "expected sequence of length 2")])
def tensor(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
           pin_memory: bool = False) -> Any:
    """A new tensor with a copy of the data, a leaf of the graph.

    Args:
        data: a number, nested lists or tuples of numbers, a NumPy array or scalar.
        dtype: element type; by default that of the data: bool, int64, or the default float or complex dtype for
            Python numbers, the array's own for NumPy.
        device: "cpu" or "meta".
        requires_grad: record operators on it.

    Raises:
        ValueError: rows of different lengths.
        TypeError, RuntimeError: data that are not numbers; requires_grad with an integer dtype.

    >>> flambeau.tensor([[1, 2], [3, 4]])
    tensor([[1, 2],
            [3, 4]])
    """
    check_options(None, pin_memory)
    d = array_dtype(dtype, "tensor")
    if isinstance(data, TensorBase):
        warn_user(
            "torch.tensor() was given a tensor. To copy construct from a tensor, use x.detach().clone(), followed "
            "by .requires_grad_(True) where the copy is to collect gradients: this says what torch.tensor(x) does, "
            "which copies the values and leaves the graph.")
        if data.layout is not STRIDED or is_mapped(data):        # sparse, or batched by vmap
            copied = data.detach().clone() if d is None else data.detach().to(dtype, copy=True)
            return copied.requires_grad_() if requires_grad else copied
        if data._array is None and (device is None or as_device(device) is META):
            return finish_meta(data, d, requires_grad)
        a = array_of(data)
        a = np.array(a if d is None else cast(a, d), copy=True)
    else:
        a = from_data(data, d)
    t = make(a)
    if requires_grad:
        set_requires_grad(t, True)
    return t if device is None and not _elsewhere() else to_device(t, device)


def _elsewhere() -> bool:
    return as_device(None) is META


def finish_meta(source: Any, d: np.dtype | None, requires_grad: bool) -> Any:
    """A fresh meta tensor like another."""
    from ._meta import meta_tensor

    t = meta_tensor(source.shape, dtype_of(source) if d is None else d)
    if requires_grad:
        set_requires_grad(t, True)
    return t


def share_array(a: Any) -> np.ndarray:
    """A view of a NumPy array whose memory a tensor may use."""
    if any(step < 0 for step in a.strides):
        raise ValueError(
            "At least one stride in the given numpy array is negative (as after a[::-1]), and a tensor has no "
            "negative strides. Make a copy of the array first: torch.from_numpy(array.copy()).")
    if a.size and any(step % a.itemsize for step in a.strides):
        raise ValueError("The given numpy array has strides that are not a multiple of its element size. Make a "
                         "copy of the array first: array.copy().")
    a = checked_array(a)
    if not a.flags.writeable:
        warn_once("not writable array",
                  "The given NumPy array is not writable, and a tensor over it cannot be written either: an in-place "
                  "operation "
                  "on it will raise an error. Copy the array (array.copy()) if the tensor is to be changed.")
    return a.view(np.ndarray)


@public(method=False, out=False, differentiable=False, samples=lambda t: [call(np.arange(3.0))])
def from_numpy(ndarray: np.ndarray) -> Any:
    """A tensor that shares the memory of a NumPy array: writing one changes the other.

    Args:
        ndarray: array of a dtype that tensors have, without negative strides.

    Raises:
        TypeError: not an array, or another dtype.
        ValueError: negative strides.

    >>> flambeau.from_numpy(np.arange(3))
    tensor([0, 1, 2])
    """
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {_full_name(ndarray)})")
    return make(share_array(ndarray))


def _full_name(x: Any) -> str:
    kind = type(x)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


@public(method=False, out=False, differentiable=False,
        samples=lambda t: [call([1.0, 2.0]), call(np.arange(3)), call(t(2, 3))])
def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Any:
    """The data as a tensor, without a copy when they are one already, or a NumPy array of the same dtype.

    A tensor keeps its history; a dtype conversion of it is recorded.

    >>> t = flambeau.ones(2)
    >>> flambeau.as_tensor(t) is t
    True
    """
    d = array_dtype(dtype, "as_tensor")
    if isinstance(data, TensorBase):
        if d is not None and d != dtype_of(data) or device is not None and as_device(device) is not data.device:
            return data.to(dtype=None if d is None else dtype_of_array(d), device=device)
        return data
    if isinstance(data, np.ndarray):
        a = share_array(data)
        return to_device(make(a if d is None else cast(a, d)), device)
    return to_device(make(from_data(data, d)), device)


@public(method=False, out=False, differentiable=False, samples=lambda t: [call([1.0, 2.0]), call(np.arange(3)), call(2.5)],
        errors=lambda t: [(call([1], copy=False), ValueError, "can't alias")])
def asarray(obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None,
            requires_grad: bool | None = None) -> Any:
    """A tensor of obj: a tensor, a NumPy array or scalar, an object with DLPack or a buffer, a number or a sequence.

    Args:
        dtype: element type; by default obj's own (float32-typed default for a buffer).
        copy: True always copies, False never (an error if it would have to), None only when needed.
        requires_grad: record operators on it; None takes over that of a tensor.

    Raises:
        ValueError: copy=False where memory cannot be shared.

    >>> flambeau.asarray([1, 2])
    tensor([1, 2])
    """
    d = array_dtype(dtype, "asarray")
    shared: Any = None
    if isinstance(obj, TensorBase):
        if requires_grad is None:
            requires_grad = obj.requires_grad
        shared = obj
    elif isinstance(obj, np.ndarray):
        shared = make(share_array(obj))
    elif isinstance(obj, np.generic):
        shared = None
    elif hasattr(obj, "__dlpack__"):
        shared = make(share_array(np.from_dlpack(obj)))
    elif _has_buffer(obj):
        shared = make(buffer_array(obj, default_array_type() if d is None else d, -1, 0))
    if shared is None:
        if copy is False:
            raise ValueError("can't alias arbitrary sequence into a tensor: a list or a number has no memory to share. "
                             "Leave "
                             "copy out.")
        t = make(from_data(obj, d))
    else:
        a = array_of(shared)
        if copy is False and d is not None and d != a.dtype:
            raise ValueError(f"can't alias tensor with dtype {a.dtype.name} into dtype {d.name}: conversion needs a copy")
        if isinstance(obj, TensorBase) and not copy and (d is None or d == a.dtype):
            if bool(requires_grad) == obj.requires_grad:
                return obj
            t = obj.detach()
        else:
            converted = a if d is None else cast(a, d)
            t = make(np.array(converted, copy=True) if copy and converted is a else converted)
    if requires_grad:
        set_requires_grad(t, True)
    return to_device(t, device)


def _has_buffer(obj: Any) -> bool:
    try:
        memoryview(obj)
    except TypeError:
        return False
    return True


def buffer_array(buffer: Any, dtype: np.dtype, count: int, offset: int) -> np.ndarray:
    """A 1-D array over the memory of an object with Python's buffer protocol."""
    try:
        view = memoryview(buffer)
    except TypeError:
        raise ValueError("object does not implement Python buffer protocol.") from None
    length, item = view.nbytes, dtype.itemsize
    if length == 0 or count == 0:
        raise ValueError(f"both buffer length ({length}) and count ({count}) must not be 0")
    if not 0 <= offset < length:
        raise ValueError(f"offset ({offset} bytes) must be non-negative and lie inside the buffer, which has "
                         f"{length} bytes: at most {length - 1}")
    if count < 0:
        if (length - offset) % item:
            raise ValueError(f"buffer length ({length - offset} bytes) after offset ({offset} bytes) must be a "
                             "multiple of "
                             f"element size ({item})")
    elif offset + count * item > length:
        raise ValueError(f"requested buffer length ({count} * {item} bytes) after offset ({offset} bytes) must not be "
                         "greater "
                         f"than actual buffer length ({length} bytes)")
    if view.readonly:
        warn_once("not writable buffer",
                  "The given buffer is not writable, and a tensor over it cannot be written either: an in-place "
                  "operation on it "
                  "will raise an error. Copy it (bytearray(buffer)) if the tensor is to be changed.")
    return np.frombuffer(buffer, dtype, count if count > 0 else -1, offset)


@public(method=False, out=False, differentiable=False,
        samples=lambda t: [call(bytearray(range(8)), dtype=t.library.int32),
                           call(bytearray(9), dtype=t.library.uint8, offset=2)])
def frombuffer(buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Any:
    """A 1-D tensor that shares the memory of an object with Python's buffer protocol.

    Args:
        dtype: how the bytes are read.
        count: number of elements; -1 for all.
        offset: bytes to skip first.

    Raises:
        ValueError: a size or offset that the buffer does not have.

    >>> flambeau.frombuffer(bytearray([1, 0, 2, 0]), dtype=flambeau.int16).tolist()
    [1, 2]
    """
    d = array_dtype(dtype, "frombuffer")
    if d is None:
        raise TypeError("frombuffer() missing 1 required keyword argument: 'dtype'")
    places = integer(count, "frombuffer", "count"), integer(offset, "frombuffer", "offset")
    return finish(buffer_array(buffer, d, *places), requires_grad)


@public(method=False, out=False, differentiable=False, samples=lambda t: [call(2.5)])
def scalar_tensor(s: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: bool = False,
                  requires_grad: bool = False) -> Any:
    """A 0-d tensor of a number, of the default float dtype unless one is given.

    >>> flambeau.scalar_tensor(2)
    tensor(2.)
    """
    check_options(layout, pin_memory)
    d = array_dtype(dtype, "scalar_tensor")
    return to_device(finish(from_data(s, default_array_type() if d is None else d), requires_grad), device)
