"""`torch.save`."""

from __future__ import annotations

import io
import os
import sys
from typing import Any

from . import _legacy
from ._files import PathLike, written
from ._pickler import Storages, pickler, raw_bytes
from ._zip import ALIGNMENT, ArchiveWriter


def save(obj: Any, f: Any, pickle_module: Any = None, pickle_protocol: int = 2,
         _use_new_zipfile_serialization: bool = True, _disable_byteorder_record: bool = False) -> None:
    """Write an object to a file that `load`, and PyTorch's torch.load, read.

    Tensors that share memory share it in the file, which holds the whole storage of each: `clone()` a small slice of a
    large tensor before saving it. Hooks, graphs and gradients are not saved. Prefer `model.state_dict()` to a whole
    module: a module's file names its classes, and only weights_only=False reads it.

    A path is written completely or not at all: after an error or a crash the old file is there as it was.

    Args:
        obj: tensors, parameters, modules, plain containers and whatever pickle takes.
        f: a path, or anything with a `write` method that takes bytes.
        pickle_module: another module to pickle with, whose Pickler derives from Python's own (dill).
        pickle_protocol: PyTorch's weights_only=True reads 2 only.
        _use_new_zipfile_serialization: False writes the format before PyTorch 1.6.

    Raises:
        RuntimeError: the path's folder does not exist, or tensors look at one storage as different dtypes.
        pickle.PicklingError: an object that cannot be pickled.

    >>> import io
    >>> file = io.BytesIO()
    >>> flambeau.save([flambeau.zeros(3)], file)
    """
    if not _use_new_zipfile_serialization:
        with written(f) as write:
            _legacy.save(obj, write, pickle_protocol, pickle_module)
        return
    with written(f) as write:
        buffer, storages = io.BytesIO(), Storages()
        pickler(buffer, pickle_protocol, storages, pickle_module).dump(obj)     # before anything is written
        archive = ArchiveWriter(write, _folder(f))
        archive.add("data.pkl", buffer.getvalue())
        archive.add(".format_version", b"1")
        archive.add(".storage_alignment", str(ALIGNMENT).encode())
        if not _disable_byteorder_record:
            archive.add("byteorder", sys.byteorder.encode())
        for key, flat in storages.flat.items():
            archive.add(f"data/{key}", raw_bytes(flat))
        archive.add("version", b"3\n")
        archive.finish()


def _folder(f: Any) -> str:
    """The folder of the archive's members: the file's name, without what follows the last dot."""
    if not isinstance(f, PathLike):
        return "archive"
    name = os.path.basename(os.fsdecode(os.fspath(f)))
    stem = name[:name.rfind(".")] if "." in name[1:] else name
    try:
        stem.encode()
    except UnicodeEncodeError:      # a name that is not of the system's encoding
        return "archive"
    return stem or "archive"
