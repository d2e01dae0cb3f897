"""`torch.load`."""

from __future__ import annotations

import io
import mmap as memory_map
import os
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np

from . import _legacy, _names
from ._errors import CheckpointError, short
from ._files import PathLike, Source, kind_of, opened
from ._location import Restore, restorer, tag
from ._machine import Machine
from ._rebuild import LoadedStorage, StorageType, TypedStorage
from ._zip import Archive

MARKED = "storage"      # the first element of what a pickle says of a storage


def load(f: Any, map_location: Any = None, pickle_module: Any = None, *, weights_only: bool | None = None,
         mmap: bool | None = None, **pickle_load_args: Any) -> Any:
    """Read what `save`, or PyTorch's torch.save, wrote.

    With weights_only=True (the default) a file can hold tensors, parameters, numbers, texts, plain containers, and what
    `torch.serialization.add_safe_globals` permits; it is refused as soon as it names anything else, before anything is
    called, so that files of strangers are safe to read. **With weights_only=False the file is a program**: it runs
    whatever its author wrote, with your rights. Use it only for files that you made, or whose author you trust.

    Args:
        f: a path, or a file open in binary mode, which is read from its current position.
        map_location: where storages come back: a device or its name, a dict from names to names, or a function
            (storage, name) that returns a storage. Files saved on a GPU need "cpu".
        pickle_module: another module than pickle to unpickle with; it implies weights_only=False.
        weights_only: see above.
        mmap: map the file into memory instead of reading it: pages are read when they are first used, and writes stay
            in this process. f must be a path, and the file of the zip format.
        encoding, errors, fix_imports: for texts written by Python 2.

    Returns:
        The object. Tensors that shared memory share it again.

    Raises:
        CheckpointError: the file is no checkpoint, truncated or damaged (a RuntimeError and a pickle.UnpicklingError).
        UnsafeGlobalError: weights_only, and the file names what is not permitted (a CheckpointError).
        RuntimeError: the file's device is not here.
        FileNotFoundError: there is no such file.

    >>> import io
    >>> file = io.BytesIO()
    >>> flambeau.save({"w": flambeau.ones(2), "epoch": 3}, file)
    >>> _ = file.seek(0)
    >>> flambeau.load(file)
    {'w': tensor([1., 1.]), 'epoch': 3}
    """
    if pickle_module is not None:
        if weights_only:
            raise RuntimeError("Can not safely load weights when explicit pickle_module is specified: "
                               "leave out pickle_module, or pass weights_only=False if you trust the file.")
        weights_only = False
    if weights_only is None:
        weights_only = os.environ.get("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "0") not in ("1", "y", "yes", "true")
    unknown = set(pickle_load_args) - {"encoding", "errors", "fix_imports", "buffers"}
    if unknown:
        raise TypeError(f"load() got an unexpected keyword argument {min(unknown)!r}; known are encoding, "
                        "errors and fix_imports")
    if mmap and not isinstance(f, PathLike):
        raise ValueError("f must be a file path in order to use the mmap argument: an open file or a "
                         "buffer cannot be mapped. Pass the path, or leave mmap out.")
    restore = restorer(map_location)
    with opened(f) as source:
        kind = kind_of(source)
        if kind == "legacy":
            if mmap:
                raise RuntimeError("mmap can only be used with files saved with the zip format: this one "
                                   "is older. Load and save it again without mmap.")
            return _legacy.load(source, restore, _unpickler(weights_only, pickle_module, pickle_load_args))
        archive = Archive(source.read, source.size, source.what)
        if "constants.pkl" in archive.members and any(name.startswith("code/") for name in archive.members):
            raise CheckpointError(f"{source.what} is a TorchScript archive: a program, not a checkpoint. In "
                                  "PyTorch, load it with torch.jit.load and save its state_dict() with "
                                  "torch.save.")
        storages = ZipStorages(archive, source, restore, bool(mmap))
        data = archive.read("data.pkl")
        if "version" not in archive.members and ".format_version" not in archive.members:
            raise CheckpointError(f"{source.what} is incomplete: it has no member 'version'. It was saved or "
                                  "repacked wrongly.")
        read = _unpickler(weights_only, pickle_module, pickle_load_args)
        value, _ = read(data, storages.persistent, f"data.pkl of {source.what}")
        storages.finish()
        source.file.seek(source.origin + archive.end)       # where a next object may begin
        return value


Unpickle = Callable[[bytes, Callable[[Any], Any], str], tuple[Any, int]]    # -> the object, and where its pickle ends


def _unpickler(weights_only: bool, pickle_module: Any, arguments: dict[str, Any]) -> Unpickle:
    arguments = {"encoding": "utf-8", **arguments}
    if weights_only:
        def restricted(data: bytes, persistent: Callable[[Any], Any], what: str) -> tuple[Any, int]:
            machine = Machine(data, persistent, what, arguments["encoding"])
            return machine.load(), machine.position
        return restricted
    module = pickle if pickle_module is None else pickle_module

    class Unpickler(module.Unpickler):  # type: ignore[name-defined, misc]
        """Python's unpickler, which calls whatever the file says; names of PyTorch are looked up here."""

        def find_class(self, mod_name: str, name: str) -> Any:
            new, own = _names.modern(mod_name, name)
            if new.partition(".")[0] in ("torch", "flambeau"):
                return _names.find(new, own)
            try:
                return super().find_class(new, own)
            except AttributeError as error:
                raise AttributeError(f"Can't get attribute {own!r} on module {new!r}, which the "
                                     f"file names: {error}. Define or import it under that name "
                                     "before loading, or save a state_dict.") from None

    def trusting(data: bytes, persistent: Callable[[Any], Any], what: str) -> tuple[Any, int]:
        stream = io.BytesIO(data)
        unpickler = Unpickler(stream, **arguments)
        unpickler.persistent_load = persistent
        try:
            return unpickler.load(), stream.tell()
        except CheckpointError as error:
            raise type(error)(f"{what}, up to byte {stream.tell()}: {error}") from None
        except (pickle.UnpicklingError, EOFError) as error:
            raise CheckpointError(f"{what} is damaged, at or before byte {stream.tell()}: {error}") from error

    return trusting


class ZipStorages:
    """The storages of an archive: one object for each key, read when it is first needed."""

    def __init__(self, archive: Archive, source: Source, restore: Restore, mapped: bool) -> None:
        self._archive = archive
        self._source = source
        self._restore = restore
        self._found: dict[str, Any] = {}
        self._mapping = _Mapping(source) if mapped else None
        order = archive.read("byteorder") if "byteorder" in archive.members else b"little"
        if order not in (b"little", b"big"):
            raise CheckpointError(f"{source.what} is damaged: its byteorder is {order[:20]!r} instead of "
                                  "little or big")
        self._swapped = order == b"big"

    def persistent(self, pid: Any) -> Any:
        """The storage that a pickle names by ("storage", type, key, location, number of elements)."""
        kind, key, location, n = described(pid, 5)
        itemsize = 1 if kind.dtype is None else kind.dtype.itemsize
        raw = self._found.get(key)
        if raw is None:
            member = self._archive.member(f"data/{key}")
            if n * itemsize != member.size:
                raise CheckpointError(
                    f"record size ({member.size} bytes) of data/{key} does not match expected size "
                    f"({n * itemsize} bytes: {n} elements of {kind!r}). The file is damaged or truncated.")
            loaded = LoadedStorage(member.size, self._reader(member, kind), self._map(member, kind))
            raw = self._found[key] = self._restore(loaded, location)
        elif n * itemsize > raw.nbytes():
            raise CheckpointError(f"the storage {key} is described twice, with {n * itemsize} and "
                                  f"{raw.nbytes()} bytes")
        return storage_of(raw, kind)

    def finish(self) -> None:
        """Read the storages that no tensor has asked for, while the file is open."""
        for raw in self._found.values():
            if isinstance(raw, LoadedStorage):
                raw.read()

    def _reader(self, member: Any, kind: StorageType) -> Callable[[np.ndarray], None]:
        def fill(target: np.ndarray) -> None:
            n = self._source.fill(member.start, target)
            if n != member.size:
                raise CheckpointError(f"{self._source.what} is truncated at byte {member.start + n}, in "
                                      f"{member.name!r}")
            self._archive.check(member, target)
            if self._swapped:
                target[:] = swapped(target, kind)
        return fill

    def _map(self, member: Any, kind: StorageType) -> np.ndarray | None:
        if self._mapping is None or member.size == 0:
            return None
        part = self._mapping.part(member.start, member.size)
        itemsize = 1 if kind.dtype is None else kind.dtype.itemsize
        if self._swapped and itemsize > 1:
            raise CheckpointError(f"{self._source.what} was written on a big-endian machine: it can be "
                                  "read, but not mapped. Leave mmap out.")
        return part


class _Mapping:
    """A file in memory, copied page by page when written to."""

    def __init__(self, source: Source) -> None:
        self._map = memory_map.mmap(source.file.fileno(), 0, access=memory_map.ACCESS_COPY)
        self._address = np.frombuffer(self._map, np.uint8).__array_interface__["data"][0]

    def part(self, start: int, n: int) -> np.ndarray:
        """n bytes from a position, as an array that owns no more than these."""
        return np.asarray(_Part(self._map, self._address + start, n))


class _Part:
    """Keeps the mapping while a part of it is in use."""

    def __init__(self, mapping: Any, address: int, n: int) -> None:
        self.mapping = mapping
        self.__array_interface__ = {"data": (address, False), "shape": (n,), "typestr": "|u1", "version": 3}


def described(pid: Any, length: int) -> tuple[StorageType, str, str, int]:
    """Check what a pickle says of a storage: type, key, location, number of elements."""
    if type(pid) is not tuple or len(pid) < length or pid[0] != MARKED:
        raise CheckpointError(f"the file describes a storage by {short(pid)}")
    kind, key, location, n = pid[1:5]
    if type(kind) is not StorageType:
        raise CheckpointError(f"the file describes a storage of the type {short(kind)}")
    if type(key) is not str or type(n) is not int or n < 0:
        raise CheckpointError(f"the file describes a storage with the key {short(key)} and {short(n)} "
                              "elements")
    return kind, key, tag(location), n


def swapped(target: np.ndarray, kind: StorageType) -> np.ndarray:
    """The bytes in the other order, element by element; a complex number is two."""
    if kind.dtype is None:
        raise CheckpointError("the file was written on a big-endian machine and holds an untyped storage: "
                              "its elements are unknown")
    size = kind.dtype.itemsize // (2 if kind.dtype.is_complex else 1)
    return target.reshape(-1, size)[:, ::-1].reshape(-1)


def storage_of(raw: Any, kind: StorageType) -> Any:
    """The storage as the file calls it: untyped, or of elements."""
    return raw if kind.dtype is None else TypedStorage(wrap_storage=raw, dtype=kind.dtype)
