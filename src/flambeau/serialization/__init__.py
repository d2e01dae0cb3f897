"""Saving and loading, in PyTorch's file format; its module `torch.serialization`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau._unavailable import missing, refusal
from flambeau.core.dtype import Device

from ._allowed import add_safe_globals, clear_safe_globals, get_safe_globals, safe_globals
from ._errors import CheckpointError, EmptyFileError, UnsafeGlobalError
from ._inspect import get_unsafe_globals_in_checkpoint
from ._load import load
from ._location import default_restore_location
from ._save import save

__all__ = [
    "CheckpointError", "EmptyFileError", "SourceChangeWarning", "UnsafeGlobalError", "add_safe_globals",
    "clear_safe_globals", "default_restore_location", "get_safe_globals", "get_unsafe_globals_in_checkpoint", "load",
    "safe_globals", "save",
]

# what load takes as map_location, for annotations
MAP_LOCATION = Callable[[Any, str], Any] | Device | str | dict[str, str] | None

_INSTEAD = "files are written and read whole, in the byte order that they record, with storages on the CPU"
globals().update(missing(
    __name__, "skip_data register_package set_default_load_endianness get_default_load_endianness "
    "set_default_mmap_options get_default_mmap_options set_crc32_options get_crc32_options", _INSTEAD))


class SourceChangeWarning(Warning):
    """A saved module's source has changed; never given here, as sources are not saved."""


_unknown = refusal(__name__, _INSTEAD)


def __getattr__(name: str) -> Any:
    return _unknown(name)
