"""Names that programs take from PyTorch's compiled module."""

from __future__ import annotations

from .core.dtype import Device as device
from .core.dtype import DType as dtype
from .core.size import Size
from .tensor import Tensor as TensorBase
from .tensor._torch_function import DisableTorchFunction, DisableTorchFunctionSubclass, _disabled_torch_function_impl

_TensorBase = TensorBase
_TensorMeta = type(TensorBase)


def _get_tracing_state() -> None:
    """The record that a tracer is making: none, as nothing is recorded while a function runs."""
    return


__all__ = ["DisableTorchFunction", "DisableTorchFunctionSubclass", "Size", "TensorBase", "_TensorBase",
           "_TensorMeta", "_get_tracing_state", "_disabled_torch_function_impl", "device", "dtype"]
