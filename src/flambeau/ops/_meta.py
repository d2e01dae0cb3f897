"""Tensors on the meta device: a shape, a dtype and strides, without values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from flambeau.core.dtype import META, Device
from flambeau.core.objects import TensorBase, array_of, make_lazy
from flambeau.kernels import strides as _strides


class Meta:
    """What a meta tensor has instead of an array; it stands in the tensor's `_lazy`.

    Attributes:
        shape: tuple of sizes.
        dtype: NumPy dtype.
        strides: in elements.
        offset: position of the first element in the storage it would have.
        device: the meta device.
    """

    __slots__ = ("device", "dtype", "offset", "shape", "strides")

    def __init__(self, shape: Sequence[int], dtype: np.dtype, strides: Sequence[int] | None = None, offset: int = 0,
                 device: Device = META) -> None:
        self.shape = tuple(shape)
        self.dtype = np.dtype(dtype)
        self.strides = _strides.contiguous_strides(self.shape) if strides is None else tuple(strides)
        self.offset = offset
        self.device = device

    def materialise(self, tensor: Any) -> Any:
        raise NotImplementedError(
            f"Cannot copy out of meta tensor; no data! The tensor of shape {list(self.shape)} is on the meta device, which "
            "keeps shapes and dtypes only. Make real memory with torch.empty_like(t, device='cpu') (a module: "
            "module.to_empty(device='cpu')) and fill it.")

    def stand_in(self) -> np.ndarray:
        """An array of this shape, dtype and strides' order in the memory of one element."""
        one = np.zeros(1, self.dtype)
        return np.lib.stride_tricks.as_strided(one, self.shape, (0,) * len(self.shape))


def meta_tensor(shape: Sequence[int], dtype: np.dtype, strides: Sequence[int] | None = None) -> TensorBase:
    """A new meta tensor."""
    return make_lazy(Meta(shape, dtype, strides))


def to_meta(t: TensorBase, dtype: np.dtype) -> TensorBase:
    """The shape and order of a tensor on the meta device, in a dtype."""
    a = array_of(t)
    return meta_tensor(a.shape, dtype, _strides.torch_strides(_strides.empty_like(a)) if not a.flags.c_contiguous else None)
