"""`torch.Tensor(...)` as a constructor, and the old types torch.FloatTensor, torch.LongTensor, ..."""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core import dtype as dtypes
from flambeau.core.dtype import META, DType, as_device
from flambeau.core.objects import TensorBase, array_of, dtype_of, make
from flambeau.core.size import Size
from flambeau.core.state import state
from flambeau.ops._factory import size_of
from flambeau.ops._from_data import from_data
from flambeau.ops._meta import meta_tensor
from flambeau.ops.conversion import TYPE_NAMES

from ._storage import TypedStorage, UntypedStorage


def new_tensor(args: tuple, dtype: np.dtype, device: Any = None, strict: bool = False) -> TensorBase:
    """A tensor from sizes, data, another tensor, a storage, or nothing.

    Args:
        strict: a tensor must have this dtype, as torch.FloatTensor(t) asks.
    """
    if as_device(device) is META:
        shape = (0,) if not args else tuple(args[0].shape) if hasattr(args[0], "shape") else size_of(args, "new")
        return meta_tensor(shape, dtype)
    if not args:
        return make(np.empty(0, dtype))
    first = args[0]
    if len(args) == 1:
        if isinstance(first, TensorBase):
            if strict and dtype_of(first) != dtype:
                raise TypeError(f"expected {TYPE_NAMES[dtypes.dtype_of_array(dtype).name]} tensor (got "
                                f"{first.type()}): convert it "
                                "with .to(dtype)")
            return state.ops.alias(first)
        if isinstance(first, Size):
            return make(np.empty(size_of((first,), "new"), dtype))
        if isinstance(first, (UntypedStorage, TypedStorage)):
            raw = first.untyped() if isinstance(first, TypedStorage) else first
            return make(raw._bytes[:raw.nbytes() - raw.nbytes() % dtype.itemsize].view(dtype))
        if not isinstance(first, (int, np.integer)):
            if not (hasattr(first, "__len__") and hasattr(first, "__getitem__")) or isinstance(first, (str, bytes, dict)):
                raise TypeError(f"new(): data must be a sequence (got {type(first).__name__}): use torch.tensor(...) "
                                "for numbers")
            return make(from_data(first, dtype))
    if not all(hasattr(n, "__index__") for n in args):
        bad = next(n for n in args if not hasattr(n, "__index__"))
        raise TypeError(f"new() received an invalid combination of arguments: sizes are integers, not "
                        f"{type(bad).__name__}. Use "
                        "torch.tensor(...) to make a tensor of data.")
    return make(np.empty(size_of(args, "new"), dtype))


class _OldType(type):
    """The class of torch.FloatTensor and the like: isinstance asks the dtype."""

    dtype: DType

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, TensorBase) and instance.dtype is cls.dtype and not instance.is_meta

    def __call__(cls, *args: Any, device: Any = None) -> Any:
        return new_tensor(args, cls.dtype.array_type, device, strict=True)

    @property
    def is_cuda(cls) -> bool:
        return False


def old_types() -> dict[str, Any]:
    """The old types by name."""
    found = {}
    for name, short in TYPE_NAMES.items():
        if short.startswith(("Complex", "UInt")):        # PyTorch has no such names
            continue
        kind = _OldType(f"{short}Tensor", (), {
            "dtype": dtypes.by_name[name], "__module__": "torch", "layout": dtypes.STRIDED,
            "__doc__": f"The old type of {name} tensors on the CPU."})
        found[f"{short}Tensor"] = kind
    return found


def new(self: Any, *args: Any, device: Any = None) -> Any:
    """A tensor of this one's dtype from sizes, data or nothing: the old form of new_empty and new_tensor."""
    if len(args) == 1 and isinstance(args[0], TensorBase):
        return make(array_of(args[0]).astype(dtype_of(self)))
    return new_tensor(args, dtype_of(self), device)
