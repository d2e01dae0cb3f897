"""Exchange with other array libraries, without a copy."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from flambeau.core.objects import array_of, make, requires
from flambeau.kernels.casting import BFLOAT16


class DLDeviceType(enum.IntEnum):
    """Kinds of devices in the DLPack protocol."""

    kDLCPU = 1
    kDLCUDA = 2
    kDLCUDAHost = 3
    kDLOpenCL = 4
    kDLVulkan = 7
    kDLMetal = 8
    kDLVPI = 9
    kDLROCM = 10
    kDLExtDev = 12
    kDLOneAPI = 14


class DLPack:
    """The DLPack protocol of Tensor."""

    def __dlpack__(self: Any, *, stream: Any = None, max_version: Any = None, dl_device: Any = None,
                   copy: bool | None = None) -> Any:
        if requires(self):
            raise BufferError("A tensor that requires gradient cannot be exported: use tensor.detach()")
        if stream not in (None, -1):
            raise TypeError("stream must be None for a tensor on the CPU")
        a = array_of(self)
        if a.dtype == BFLOAT16:
            raise BufferError("bfloat16 tensors cannot be exported through NumPy's DLPack. Use tensor.float().")
        options: dict[str, Any] = {}
        if max_version is not None:
            options["max_version"] = max_version
        if copy is not None:
            options["copy"] = copy
        return a.view().__dlpack__(**options)

    def __dlpack_device__(self: Any) -> tuple[DLDeviceType, int]:
        if self.is_meta:
            raise BufferError("a meta tensor has no memory to exchange")
        return (DLDeviceType.kDLCPU, 0)


class _Capsule:
    """An exported capsule as an object with the protocol, which is what NumPy imports."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Any:
    """A tensor over the memory of an object of another library that has the DLPack protocol, or of a DLPack capsule.

    Args:
        ext_tensor: an object with `__dlpack__` and `__dlpack_device__`, or a capsule.
        copy: True for memory of its own.

    Raises:
        BufferError: memory that is not on the CPU.

    >>> flambeau.from_dlpack(np.arange(3))
    tensor([0, 1, 2])
    """
    source = ext_tensor if hasattr(ext_tensor, "__dlpack__") else _Capsule(ext_tensor)
    if isinstance(source, np.ndarray):
        a = source.view()
    else:
        a = np.from_dlpack(source)
        if not a.flags.writeable:
            # NumPy marks what older exporters give as read-only; the protocol leaves writing to both sides
            a = _writeable(a)
    if device is not None and str(device) not in ("cpu", "1"):
        raise ValueError(f"from_dlpack(): device {device!r} is not available: flambeau computes on the CPU")
    return make(a.copy() if copy else a)


class _Memory:
    """An array interface over another array's memory, writeable."""

    def __init__(self, a: np.ndarray) -> None:
        self.owner = a
        self.__array_interface__ = {**a.__array_interface__, "data": (a.__array_interface__["data"][0], False)}


def _writeable(a: np.ndarray) -> np.ndarray:
    return np.asarray(_Memory(a))


def to_dlpack(tensor: Any) -> Any:
    """A DLPack capsule of a tensor's memory."""
    return tensor.__dlpack__()
