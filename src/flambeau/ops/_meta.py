"""Tensors on the meta device: a shape, a dtype and strides, without values.

A meta tensor has a `Meta` where others have an array. Shape rules of operators (`_shapes`) map Metas to Metas;
`_lazy` runs them. See docs/meta.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from flambeau.core.dtype import META, Device
from flambeau.core.objects import TensorBase, array_of, make_lazy
from flambeau.kernels import layout as _layout


class Memory:
    """The memory that a meta tensor and its views would share: a size in bytes."""

    __slots__ = ("nbytes",)

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes


class Meta:
    """What a meta tensor has instead of an array; it stands in the tensor's `_lazy`.

    Attributes:
        shape: tuple of sizes.
        dtype: NumPy dtype.
        strides: in elements.
        offset: position of the first element in the memory it would have.
        memory: shared with its views.
        device: the meta device.
    """

    __slots__ = ("device", "dtype", "memory", "offset", "shape", "strides")
    stands_in = True

    def __init__(self, shape: Sequence[int], dtype: np.dtype, strides: Sequence[int] | None = None, offset: int = 0,
                 device: Device = META, memory: Memory | None = None) -> None:
        self.shape = tuple(shape)
        self.dtype = np.dtype(dtype)
        self.strides = _layout.contiguous_strides(self.shape) if strides is None else tuple(strides)
        self.offset = offset
        self.device = device
        self.memory = Memory(self.extent() * self.dtype.itemsize) if memory is None else memory

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return prod(self.shape)

    def extent(self) -> int:
        """How many elements of memory the tensor reaches over, from its first."""
        if 0 in self.shape:
            return 0
        return 1 + sum([(n - 1) * step for n, step in zip(self.shape, self.strides, strict=True)])

    def is_dense(self) -> bool:
        """Whether it fills one block of memory, without gap or overlap, in some order of its axes."""
        expected = 1
        for step, n in sorted([(s, n) for s, n in zip(self.strides, self.shape, strict=True) if n != 1]):
            if step != expected:
                return False
            expected *= n
        return True

    def is_contiguous(self, memory_format: str = "contiguous") -> bool:
        """Whether it lies densely in row-major order, or in the order of a memory format."""
        order = _layout.CHANNELS_LAST_ORDER.get(memory_format, tuple(range(self.ndim)))
        if len(order) != self.ndim:
            return False
        expected = 1
        for axis in reversed(order):
            if self.shape[axis] != 1:
                if self.strides[axis] != expected and self.size:
                    return False
                expected *= self.shape[axis]
        return True

    def overlaps(self) -> bool:
        """Whether several elements lie at one place, as in an expanded tensor."""
        return any(step == 0 and n > 1 for step, n in zip(self.strides, self.shape, strict=True))

    def materialise(self, tensor: Any) -> Any:
        raise NotImplementedError(
            f"Cannot copy out of meta tensor; no data! The tensor of shape {list(self.shape)} is on the meta device, which "
            "keeps shapes and dtypes only. Make real memory with torch.empty_like(t, device='cpu') (a module: "
            "module.to_empty(device='cpu')) and fill it.")

    def stand_in(self) -> np.ndarray:
        """An array of this shape, dtype and strides in the memory of one element: for looking at, not for reading."""
        one = np.zeros(1, self.dtype)
        return np.lib.stride_tricks.as_strided(one, self.shape, [s * one.itemsize for s in self.strides])


def meta_tensor(shape: Sequence[int], dtype: np.dtype, strides: Sequence[int] | None = None) -> TensorBase:
    """A new meta tensor."""
    return make_lazy(Meta(shape, dtype, strides))


def meta_of(value: Any) -> Any:
    """The Meta of a tensor or of an array; None and other values as they are."""
    if isinstance(value, TensorBase):
        if value._array is None and isinstance(value._lazy, Meta):
            return value._lazy
        value = array_of(value)
    if isinstance(value, np.ndarray):
        return Meta(value.shape, value.dtype, _layout.torch_strides(value))
    if isinstance(value, (list, tuple)):
        return [meta_of(v) for v in value]
    return value


def preserved(m: Meta) -> tuple[int, ...]:
    """The strides of a copy: those of m when it is dense, and when not, dense ones in the order of its axes."""
    return m.strides if m.is_dense() else _layout.dense_strides(m.shape, m.strides)


def to_meta(t: TensorBase, dtype: np.dtype) -> TensorBase:
    """The shape and order of a tensor on the meta device, in a dtype."""
    m = meta_of(t)
    return meta_tensor(m.shape, dtype, preserved(m))
