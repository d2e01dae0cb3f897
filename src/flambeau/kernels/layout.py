"""Where an array's elements lie: strides, storage, memory formats, overlap.

Strides are counted in elements, as in PyTorch, unless a name ends in `_bytes`. Of the strides of axes of
size 1, NumPy keeps those that `transpose`, basic slicing and `np.ndarray(buffer=...)` make; it puts dense
values when an array is allocated, copied, or reshaped while contiguous, and zeros in a fresh empty array
(`torch_strides` reports PyTorch's there). Of an empty view it keeps no position: its storage offset is that
of the view it was taken from, or 0. PyTorch's storage is the whole allocation: `storage_array` walks `.base`
to the owning array.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

Shape = tuple[int, ...]

CHANNELS_LAST_ORDER = {"channels_last": (0, 2, 3, 1), "channels_last_3d": (0, 2, 3, 4, 1)}


def as_int(value: Any, what: str = "dim") -> int:
    """Return a number of dimensions, elements or steps as an int: anything with `__index__` but bool.

    Raises:
        TypeError: value is something else.
    """
    if type(value) is int:
        return value
    if not isinstance(value, (bool, np.bool_, str)):
        try:
            return operator.index(value)
        except (TypeError, ValueError, RuntimeError):
            pass
    raise TypeError(f"argument '{what}' must be int, not {type(value).__name__}")


def normalize_dim(dim: int, ndim: int) -> int:
    """Return dim counted from the front; a 0-d array accepts 0 and -1.

    Raises:
        IndexError: dim is outside [-ndim, ndim - 1].
        TypeError: dim is no int.
    """
    if type(dim) is not int:
        dim = as_int(dim)
    limit = ndim if ndim > 0 else 1
    if -limit <= dim < limit:
        return dim + limit if dim < 0 else dim
    raise IndexError(
        f"Dimension out of range: got {dim}, but an array of {ndim} dimensions expects to be in range "
        f"of [{-limit}, {limit - 1}]"
    )


def normalize_dims(dim: int | Iterable[int], ndim: int) -> Shape:
    """Return dims counted from the front, in the order given.

    Raises:
        IndexError: one is out of range.
        RuntimeError: one appears twice.
    """
    if isinstance(dim, (tuple, list)):
        dims = tuple([normalize_dim(d, ndim) for d in dim])
    else:
        dims = (normalize_dim(dim, ndim),)      # type: ignore[arg-type]
    if len(set(dims)) != len(dims):
        repeated = next(d for d in dims if dims.count(d) > 1)
        raise RuntimeError(f"dim {repeated} appears multiple times in the list of dims {dims}")
    return dims


def contiguous_strides(shape: Sequence[int]) -> Shape:
    """Return the strides of a fresh row-major array: an axis of size 0 counts as 1."""
    strides = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= size if size > 1 else 1
    return tuple(reversed(strides))


def torch_strides(a: np.ndarray) -> Shape:
    """Return the strides in elements."""
    itemsize = a.itemsize
    if a.size == 0 and not any(a.strides):  # what NumPy gives a fresh empty array
        return contiguous_strides(a.shape)
    return tuple([step // itemsize for step in a.strides])


# Storage


def address(a: np.ndarray) -> int:
    """Return the address of the first element."""
    return a.__array_interface__["data"][0]


def storage_owner(a: np.ndarray) -> np.ndarray:
    """Return the array at the end of the chain of `.base`: the one that holds the memory."""
    base = a.base
    while isinstance(base, np.ndarray):
        a = base
        base = a.base
    return a


def storage_array(a: np.ndarray) -> np.ndarray:
    """Return a 1-D array, of a's dtype, over the whole memory of a's owner, in address order."""
    owner = storage_owner(a)
    flags = owner.flags
    if flags.c_contiguous:
        flat = owner.reshape(-1)
    elif flags.f_contiguous:
        flat = owner.T.reshape(-1)
    else:
        order = sorted(range(owner.ndim), key=lambda d: -abs(owner.strides[d]))
        dense = owner[tuple(slice(None, None, -1 if step < 0 else None) for step in owner.strides)].transpose(order)
        if dense.flags.c_contiguous:
            flat = dense.reshape(-1)
        else:  # memory of another library, with gaps
            span = 1 + sum((size - 1) * step for size, step in zip(dense.shape, torch_strides(dense), strict=True))
            flat = np.lib.stride_tricks.as_strided(dense, (span if dense.size else 0,), (dense.itemsize,))
    if flat.dtype == a.dtype:
        return flat
    usable = flat.nbytes - flat.nbytes % a.itemsize
    return flat.view(np.uint8)[:usable].view(a.dtype)


def storage_offset(a: np.ndarray) -> int:
    """Return the position of a's first element in its storage, in elements."""
    if a.base is None:
        return 0
    storage = storage_array(a)
    if storage.size == 0 or a.size == 0 and not address(storage) <= address(a) <= address(storage) + storage.nbytes:
        return 0
    return (address(a) - address(storage)) // a.itemsize


def restride_bytes(a: np.ndarray, shape: Shape, strides: Shape, offset: int = 0) -> np.ndarray:
    """Return a writeable view over a's memory; strides and offset (from a's first element) in bytes.

    The caller has checked that the elements lie within a's own extent.
    """
    flags = a.flags
    if flags.c_contiguous or flags.f_contiguous:
        if 0 in shape:
            offset = 0
        return np.ndarray(shape, a.dtype, a, offset, strides)
    storage = storage_array(a)
    return np.ndarray(shape, a.dtype, storage, address(a) - address(storage) + offset, strides)


# Memory formats


def is_contiguous(a: np.ndarray, memory_format: str = "contiguous") -> bool:
    """Tell whether a is dense in the given order; axes of size 1 may have any stride."""
    if memory_format == "contiguous":
        return a.flags.c_contiguous
    order = CHANNELS_LAST_ORDER.get(memory_format)
    if order is None:
        raise RuntimeError(f"is_contiguous: unsupported memory format {memory_format!r}")
    if a.ndim != len(order):
        return False
    expected = 1
    shape, strides = a.shape, torch_strides(a)
    for axis in reversed(order):
        if shape[axis] != 1:
            if strides[axis] != expected:
                return False
            expected *= shape[axis]
    return True


def is_dense(a: np.ndarray) -> bool:
    """Tell whether a fills one block of memory without gap or overlap, in some order of its axes."""
    flags = a.flags
    if flags.c_contiguous or flags.f_contiguous:
        return True
    expected = a.itemsize
    for step, size in sorted([(step, n) for step, n in zip(a.strides, a.shape, strict=True) if n != 1]):
        if step != expected:
            return False
        expected *= size
    return True


def dense_strides(shape: Shape, strides: Shape) -> Shape:
    """Return dense strides in the axis order that `strides` suggests (PyTorch's preserve_format).

    Axes are sorted by insertion, from the last: a stride 0 says nothing of the order, and equal strides
    put the larger axis outside.
    """
    order = list(range(len(shape) - 1, -1, -1))  # innermost first
    for position in range(1, len(order)):
        moving = position
        for other in range(position - 1, -1, -1):
            inner, outer = order[other], order[moving]
            if strides[inner] == 0 or strides[outer] == 0:
                continue
            if strides[inner] < strides[outer]:
                break
            if strides[inner] > strides[outer] or shape[inner] > shape[outer]:
                order[other], order[moving] = outer, inner
                moving = other
    out = [1] * len(shape)
    step = 1
    for axis in order:
        out[axis] = step
        step *= shape[axis] if shape[axis] > 1 else 1
    return tuple(out)


def empty_strided(shape: Shape, strides: Shape, dtype: np.dtype) -> np.ndarray:
    """Return a fresh array with these strides, in elements: exact also on axes of size 1."""
    n = 0 if 0 in shape else 1 + sum([(size - 1) * step for size, step in zip(shape, strides, strict=True)])
    buffer = np.empty(n, dtype)
    return np.ndarray(shape, buffer.dtype, buffer, 0, tuple([step * buffer.itemsize for step in strides]))


def _format_strides(shape: Shape, memory_format: str) -> Shape:
    order = CHANNELS_LAST_ORDER[memory_format]
    if len(shape) != len(order):
        raise RuntimeError(f"required rank {len(order)} tensor to use {memory_format} format, got shape {list(shape)}")
    strides = [0] * len(shape)
    step = 1
    for axis in reversed(order):
        strides[axis] = step
        step *= shape[axis]
    return tuple(strides)


def empty_like(a: np.ndarray, memory_format: str = "preserve", dtype: np.dtype | None = None) -> np.ndarray:
    """Return an uninitialised array of a's shape.

    "preserve" keeps a's strides when a is dense and, when not, the order of its axes.
    """
    if memory_format == "contiguous" or memory_format == "preserve" and a.flags.c_contiguous:
        return np.empty(a.shape, a.dtype if dtype is None else dtype)
    new_dtype = a.dtype if dtype is None else np.dtype(dtype)
    if memory_format == "preserve":
        strides = torch_strides(a)
        if not is_dense(a):
            strides = dense_strides(a.shape, strides)
    elif memory_format in CHANNELS_LAST_ORDER:
        strides = _format_strides(a.shape, memory_format)
    else:
        raise RuntimeError(f"empty_like: unknown memory format {memory_format!r}")
    return empty_strided(a.shape, strides, new_dtype)


_STRIPE, _FAR = 32, 1024      # columns copied at a time; bytes between the elements of a row that make them pay


def row_major(a: np.ndarray) -> np.ndarray:
    """A copy in row-major order.

    Where the elements of a row lie far apart, some columns are copied at a time, so that what is read of a cache line
    is still there for the next column: a transposed float32 matrix of 1024 x 1024 takes 0.5 ms instead of 4.
    """
    if a.ndim < 2 or a.size < 1 << 16 or abs(a.strides[-1]) < _FAR or a.shape[-1] < _STRIPE:
        return a.copy()
    out = np.empty(a.shape, a.dtype)
    stripe = _STRIPE if a.strides[-1] % 4096 else _STRIPE // 2      # such rows share few places of the cache
    for start in range(0, a.shape[-1], stripe):
        out[..., start:start + stripe] = a[..., start:start + stripe]
    return out


def contiguous(a: np.ndarray, memory_format: str = "contiguous") -> np.ndarray:
    """Return a itself when it is dense in that order, else a copy that is.

    Raises:
        RuntimeError: "preserve", or a rank that the format does not have.
    """
    if memory_format == "contiguous":
        return a if a.flags.c_contiguous else row_major(a)
    if memory_format == "preserve":
        if a.flags.c_contiguous:
            return a
        raise RuntimeError("preserve memory format is unsupported by the contiguous operator: use clone()")
    if is_contiguous(a, memory_format):
        return a
    out = empty_like(a, memory_format)
    out[...] = a
    return out


def clone(a: np.ndarray, memory_format: str = "preserve") -> np.ndarray:
    """Return a copy, with the strides that `empty_like` gives."""
    if memory_format == "contiguous" or memory_format == "preserve" and a.flags.c_contiguous:
        return a.copy() if a.flags.c_contiguous else row_major(a)
    out = empty_like(a, memory_format)
    out[...] = a
    return out


# Overlap


def has_internal_overlap(a: np.ndarray) -> bool:
    """Tell whether elements certainly share memory: an axis of more than one element with stride 0.

    This is the cheap test that in-place operators apply; other overlaps (of `as_strided`) pass it.
    """
    if a.flags.c_contiguous:
        return False
    return any(step == 0 and n > 1 for step, n in zip(a.strides, a.shape, strict=True)) and a.size > 0


def surely_overlap(a: np.ndarray, b: np.ndarray) -> bool:
    """Tell whether writing a while reading other elements of b is refused: dense arrays with a common byte."""
    if a is b:
        return True
    if a.size == 0 or b.size == 0 or storage_owner(a) is not storage_owner(b) or not (is_dense(a) and is_dense(b)):
        return False
    a_begin, b_begin = address(a), address(b)
    return a_begin < b_begin + b.nbytes and b_begin < a_begin + a.nbytes


def may_partially_overlap(a: np.ndarray, b: np.ndarray) -> bool:
    """Tell whether writing a while reading b is refused: same memory, but not the same elements.

    Only dense arrays are judged, by their byte ranges; others pass, as in PyTorch.
    """
    if a is b or a.size == 0 or b.size == 0 or storage_owner(a) is not storage_owner(b):
        return False
    if not (is_dense(a) and is_dense(b)):
        return False
    a_begin, b_begin = address(a), address(b)
    if a_begin == b_begin and a.nbytes == b.nbytes:
        return a.strides != b.strides
    return a_begin < b_begin + b.nbytes and b_begin < a_begin + a.nbytes
