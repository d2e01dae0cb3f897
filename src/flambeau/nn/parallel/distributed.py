"""`DistributedDataParallel`, by its long name."""

from __future__ import annotations

from . import DistributedDataParallel

__all__ = ["DistributedDataParallel"]
