"""The format before the zip archive: five pickles, then the storages one after the other.

The pickles are a magic number, a protocol number, facts of the system, the object, and the keys of the storages in the
order in which they follow; each storage is its number of elements, 8 bytes, and its bytes. Such files follow each other
in one stream, so a reader takes from an open file no more than belongs to one.
"""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ._errors import CheckpointError, short
from ._files import Source
from ._machine import Machine
from ._pickler import Storages, pickler, raw_bytes
from ._rebuild import LoadedStorage

MAGIC_NUMBER = 0x1950A86A20F9469CFC6C
PROTOCOL_VERSION = 1001


def load(source: Source, restore: Any, unpickle: Callable) -> Any:
    """Read one object from a stream of the older format."""
    data = source.read(0, source.size)
    what = source.what
    heads = Machine(data, _no_storage, f"the head of {what}")
    magic, protocol, system = heads.load(), heads.load(), heads.load()
    if magic != MAGIC_NUMBER:
        raise CheckpointError(f"{what} has an invalid magic number: it is corrupt, or was not written by "
                              "torch.save")
    if protocol != PROTOCOL_VERSION:
        raise CheckpointError(f"{what} has an invalid protocol version {short(protocol)}; {PROTOCOL_VERSION} "
                              "is read")
    big = isinstance(system, dict) and system.get("little_endian") is False
    storages = _Storages(restore)
    start = heads.position
    value, length = unpickle(data[start:], storages.persistent, f"the object in {what}")
    tails = Machine(data, _no_storage, f"the list of storages in {what}")
    tails.position = start + length
    keys = tails.load()
    if not isinstance(keys, list):
        raise CheckpointError(f"{what} is damaged: at byte {start + length} there should be the list of its "
                              "storages")
    end = storages.read(keys, data, tails.position, what, big)
    source.file.seek(source.origin + end)
    return value


def _no_storage(pid: Any) -> Any:
    raise CheckpointError("a storage is described where none can be")


class _Storages:
    """Storages are described before their bytes are there: they are filled after the object is made."""

    def __init__(self, restore: Any) -> None:
        self._restore = restore
        self._found: dict[str, tuple[LoadedStorage, Any, Any, list]] = {}

    def persistent(self, pid: Any) -> Any:
        """The storage that a pickle names by ("storage", type, key, location, number of elements, view)."""
        from ._load import described, storage_of

        if type(pid) is tuple and len(pid) == 4 and pid[0] == "module":
            return pid[1]                   # a class, with the file and the text of its source
        kind, key, location, n = described(pid, 5)
        itemsize = 1 if kind.dtype is None else kind.dtype.itemsize
        if len(pid) > 5 and pid[5] is not None:
            raise NotImplementedError("the file has views of storages as they were before PyTorch 0.4: "
                                      "load and save it again with PyTorch")
        known = self._found.get(key)
        if known is None:
            known = self._found[key] = self._new(kind, location, n * itemsize)
        elif n * itemsize > known[0].nbytes():
            raise CheckpointError(f"the storage {key} is described twice, with {n * itemsize} and "
                                  f"{known[0].nbytes()} bytes")
        return storage_of(known[1], kind)

    def _new(self, kind: Any, location: str, nbytes: int) -> tuple[LoadedStorage, Any, Any, list]:
        waiting: list[np.ndarray] = []
        loaded = LoadedStorage(nbytes, waiting.append)
        loaded.later = []
        return loaded, self._restore(loaded, location), kind, waiting

    def read(self, keys: list, data: bytes, position: int, what: str, big: bool) -> int:
        """Fill the storages; returns where the last one ends."""
        from ._load import swapped

        for key in keys:
            known = self._found.get(key) if isinstance(key, str) else None
            if known is None:
                raise CheckpointError(f"{what} is damaged: it lists a storage {short(key)} that its object "
                                      "does not use")
            loaded, _, kind, waiting = known
            itemsize = 1 if kind.dtype is None else kind.dtype.itemsize
            head = data[position:position + 8]
            n = int.from_bytes(head, "little")
            if len(head) < 8 or n * itemsize != loaded.nbytes():
                raise CheckpointError(
                    f"{what} is damaged or truncated: at byte {position} of {len(data)} there should be the "
                    f"length of storage {key} ({loaded.nbytes()} bytes)")
            raw = np.frombuffer(data, np.uint8, min(loaded.nbytes(), len(data) - position - 8), position + 8)
            if raw.size != loaded.nbytes():
                raise CheckpointError(f"{what} is truncated at byte {len(data)}: storage {key} has "
                                      f"{raw.size} bytes of {loaded.nbytes()}")
            if big:
                raw = swapped(raw, kind)
            loaded.accept(raw, waiting)
            position += 8 + loaded.nbytes()
        missing = set(self._found) - set(keys)
        if missing:
            raise CheckpointError(f"{what} is damaged: it has no elements of storage {min(missing)}")
        return position


def save(obj: Any, write: Any, protocol: int, pickle_module: Any) -> None:
    """Write one object in the older format."""
    for part in (MAGIC_NUMBER, PROTOCOL_VERSION, {
            "protocol_version": PROTOCOL_VERSION, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}):
        write(pickle.dumps(part, protocol=protocol))
    buffer, storages = io.BytesIO(), Storages()
    pickler(buffer, protocol, storages, pickle_module, legacy=True).dump(obj)
    write(buffer.getvalue())
    write(pickle.dumps(list(storages.flat), protocol=protocol))
    for flat in storages.flat.values():
        write(flat.size.to_bytes(8, "little"))
        write(raw_bytes(flat if sys.byteorder == "little" else flat.byteswap()))

