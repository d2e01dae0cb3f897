"""Names that programs take from PyTorch's compiled module."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from .core.dtype import Device as device
from .core.dtype import DType as dtype
from .core.dtype import as_device, dtype_of_array
from .core.size import Size
from .ops.conversion import parse_to
from .tensor import Tensor as TensorBase
from .tensor._torch_function import DisableTorchFunction, DisableTorchFunctionSubclass, _disabled_torch_function_impl

_TensorBase = TensorBase
_TensorMeta = type(TensorBase)


def _get_tracing_state() -> None:
    """The record that a tracer is making: none, as nothing is recorded while a function runs."""
    return


def _log_api_usage_once(event: str) -> None:
    """Nothing: no use is counted."""


def _get_accelerator(check: bool = False) -> device:
    """The device that a program without a choice computes on."""
    return as_device("cpu")


def _parse_to(*args: Any, **kwargs: Any) -> tuple[device | None, dtype | None, bool, Any]:
    """What the arguments of `Module.to` ask for: device, dtype, non_blocking, memory format."""
    if "copy" in kwargs:
        raise RuntimeError(".to() does not accept copy argument")
    if "tensor" in kwargs:
        kwargs["other"] = kwargs.pop("tensor")
    if not args and not kwargs:
        return None, None, False, None
    kind, where, non_blocking, _, _ = parse_to(args, kwargs)
    return where, None if kind is None else dtype_of_array(kind), non_blocking, kwargs.get("memory_format")


_nn = SimpleNamespace(_parse_to=_parse_to)

__all__ = ["DisableTorchFunction", "DisableTorchFunctionSubclass", "Size", "TensorBase", "_TensorBase",
           "_TensorMeta", "_get_accelerator", "_get_tracing_state",
           "_log_api_usage_once", "_disabled_torch_function_impl", "_nn", "device", "dtype"]
