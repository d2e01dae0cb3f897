"""Types for annotations."""

from __future__ import annotations

import builtins
import typing

from .core.dtype import Device, DType, Layout
from .core.size import Size
from .tensor import Tensor

__all__ = ["Device", "FileLike", "IntLikeType", "Number", "Storage"]

_TensorOrTensors = typing.Union[Tensor, typing.Sequence[Tensor]]  # noqa: UP007
_dtype, _device, _layout, _size = DType, Device, Layout, typing.Union[Size, list, tuple]  # noqa: UP007
_int, _float, _bool, _complex = builtins.int, builtins.float, builtins.bool, builtins.complex
Number = typing.Union[builtins.int, builtins.float, builtins.bool]  # noqa: UP007
_Number = (builtins.int, builtins.float, builtins.bool)     # for isinstance
IntLikeType = builtins.int
FloatLikeType = builtins.float
BoolLikeType = builtins.bool
Device = typing.Union[Device, str, builtins.int, None]  # type: ignore[misc]  # noqa: UP007
FileLike = typing.Union[str, "typing.IO[bytes]"]  # noqa: UP007


class Storage:
    """Base of storages, for annotations."""
