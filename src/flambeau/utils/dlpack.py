"""Exchange with other array libraries: `from_dlpack`, `to_dlpack`."""

from __future__ import annotations

from flambeau.tensor._dlpack import DLDeviceType, from_dlpack, to_dlpack

__all__ = ["DLDeviceType", "from_dlpack", "to_dlpack"]
