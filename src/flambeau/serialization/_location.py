"""`map_location`: on which device a storage of a file comes back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.core.dtype import CPU, META, Device
from flambeau.tensor._storage import TypedStorage, UntypedStorage

from ._errors import CheckpointError, short
from ._rebuild import LoadedStorage

Restore = Callable[[LoadedStorage, str], UntypedStorage]


def _no_cuda(location: str) -> RuntimeError:
    return RuntimeError(
        f"Attempting to deserialize object on a CUDA device ({location!r}) but torch.cuda.is_available() is "
        "False: flambeau computes on the CPU. Use torch.load(..., map_location='cpu') to put its storages "
        "there.")


def default_restore_location(storage: Any, location: str) -> Any:
    """The storage on the device that `location` names.

    Raises:
        RuntimeError: that device is not here.
    """
    kind = location.partition(":")[0]
    if kind == "cpu":
        return storage
    if kind == "meta":
        return LoadedStorage(storage.nbytes(), None, device=META)
    if kind == "cuda":
        raise _no_cuda(location)
    raise RuntimeError(
        f"don't know how to restore data location of a storage (tagged with {short(location)}): flambeau "
        "has no such device. Use torch.load(..., map_location='cpu') to put its storages on the CPU.")


def restorer(map_location: Any) -> Restore:
    """The function that puts a storage where `map_location` says.

    Args:
        map_location: None, for the device it was saved from; a device or its name; a dict from names to names; or a
            function (storage, name) that returns a storage, or None for the device it was saved from.

    Raises:
        RuntimeError: the device is not here.
    """
    if map_location is None:
        return default_restore_location
    if isinstance(map_location, dict):
        return lambda storage, location: default_restore_location(storage, str(map_location.get(location, location)))
    if isinstance(map_location, (str, bytes, Device)):
        target = map_location.decode() if isinstance(map_location, bytes) else str(map_location)
        device = Device(target)
        if device.type not in (CPU.type, META.type):
            default_restore_location(None, target)
        return lambda storage, location: default_restore_location(storage, target)
    if not callable(map_location):
        raise TypeError(f"map_location must be a device, its name, a dict or a function, not "
                        f"{type(map_location).__name__}")

    def restore(storage: LoadedStorage, location: str) -> UntypedStorage:
        result = map_location(storage, location)
        if result is None:
            return default_restore_location(storage, location)
        if isinstance(result, TypedStorage):
            result = result.untyped()
        if not isinstance(result, UntypedStorage):
            raise TypeError(f"map_location(storage, location) must return a storage or None, not "
                            f"{type(result).__name__}")
        return result

    return restore


def tag(location: Any) -> str:
    """The device name that a file gives to a storage."""
    if not isinstance(location, str):
        raise CheckpointError(f"a storage of the file is tagged with {short(location)} instead of a device's "
                              "name")
    return location
