"""`torch.storage`: the memory behind tensors."""

from __future__ import annotations

from .tensor._storage import TypedStorage, UntypedStorage
from .tensor._typed_storages import CLASSES

globals().update(CLASSES)

__all__ = ["TypedStorage", "UntypedStorage"]
