"""Opening what users give as `f`, and writing so that a file is whole or as it was."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from typing import IO, Any

from ._errors import CheckpointError, EmptyFileError

PathLike = (str, os.PathLike)
ZIP = b"PK\3\4"
MAGIC = bytes.fromhex("8a0a6cfc9c46f9206aa850192e")    # the number that files of the older format begin with, as pickled


class Source:
    """Bytes at positions of an open file, counted from where it stands when it is given.

    Args:
        file: a binary file that can be read and sought in.
        what: how messages call it.
    """

    def __init__(self, file: Any, what: str) -> None:
        for method in ("seek", "tell", "read"):
            if not callable(getattr(file, method, None)):
                raise AttributeError(
                    f"{type(file).__name__!r} object has no attribute '{method}': torch.load takes a path, "
                    "or a file opened in binary mode that can be sought in. Read other streams into an "
                    "io.BytesIO first.")
        self.file = file
        self.what = what
        self.origin = file.tell()
        file.seek(0, os.SEEK_END)
        self.size = max(file.tell() - self.origin, 0)

    def read(self, position: int, n: int) -> bytes:
        """At most n bytes at a position."""
        self.file.seek(self.origin + position)
        data = self.file.read(n)
        if isinstance(data, str):
            raise TypeError(f"Expected bytes, got str: {self.what} is open in text mode. Open it with mode "
                            "'rb'.")
        return data

    def fill(self, position: int, target: Any) -> int:
        """Read into an array of bytes; returns how many came."""
        self.file.seek(self.origin + position)
        done, view = 0, memoryview(target)
        readinto = getattr(self.file, "readinto", None)
        while done < len(view):
            if readinto is not None:
                n = readinto(view[done:])
            else:
                part = self.file.read(len(view) - done)
                n = len(part)
                view[done:done + n] = part
            if not n:
                break
            done += n
        return done


@contextlib.contextmanager
def opened(f: Any) -> Iterator[Source]:
    """A path, opened and closed again; or an open file, left open."""
    if isinstance(f, PathLike):
        path = os.fspath(f)
        with open(path, "rb") as file:
            yield Source(file, f"the file {path!r}")
    else:
        name = getattr(f, "name", None)
        yield Source(f, f"the file {name!r}" if isinstance(name, str) else f"the {type(f).__name__}")


def kind_of(source: Source) -> str:
    """"zip" or "legacy".

    Raises:
        CheckpointError: neither; the message says what it looks like.
    """
    head = source.read(0, 300)
    if head.startswith(ZIP):
        return "zip"
    if head[:1] == b"\x80" and head[2:].startswith(MAGIC):
        return "legacy"
    if not head:
        raise EmptyFileError(f"{source.what} is empty, or is at its end: Ran out of input (EOF). Was the "
                             "program that wrote it stopped, or the file not rewound with seek(0)?")
    raise CheckpointError(f"{source.what} is not a zip archive and no checkpoint: {_guess(head)}")


def _guess(head: bytes) -> str:
    if head[257:262] == b"ustar":
        return ("it is a tar archive, the format of PyTorch before 0.1.10, which is not read here. Load "
                "and save it again with PyTorch.")
    if ZIP.startswith(head):
        return f"it is truncated at byte {len(head)}. Copy or download it again."
    if head.startswith(b"version https://git-lfs"):
        return "it is a Git LFS pointer: the file itself was not downloaded. Run `git lfs pull`."
    if head.lstrip()[:1] == b"<":
        return "it begins like a web page: the download probably gave an error page."
    if head[:6] == b"\x93NUMPY":
        return "it is a NumPy array; read it with numpy.load."
    if head[8:9] == b"{" and int.from_bytes(head[:8], "little") < 1 << 30:
        return "it looks like a safetensors file; read it with safetensors.torch.load_file."
    if head[:8] == b"\x89HDF\r\n\x1a\n":
        return "it is an HDF5 file."
    if head[:1] == b"\x80":
        return ("it is a pickle, but has an invalid magic number: it was not written by torch.save "
                "(corrupt file?). If you trust it, pickle.load reads it.")
    return f"it begins with {head[:16]!r}. Was it written by torch.save, and copied in binary mode?"


@contextlib.contextmanager
def written(f: Any) -> Iterator[Any]:
    """A `write` method for a path or an open file.

    A path is written under a temporary name in its folder, flushed to disk and renamed: after an error or a crash the
    old file is still there, whole.
    """
    if not isinstance(f, PathLike):
        write = getattr(f, "write", None)
        if not callable(write):
            raise AttributeError("expected 'f' to be string, path, or a file-like object with a 'write' "
                                 f"attribute, not {type(f).__name__}")
        yield lambda data: write_all(write, data)
        flush = getattr(f, "flush", None)
        if callable(flush):
            flush()
        return
    path = os.path.realpath(os.fspath(f))       # a link stays a link
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise RuntimeError(f"Parent directory {folder} does not exist. Make it first: "
                           f"os.makedirs({folder!r}, exist_ok=True).")
    try:
        old = os.stat(path)
    except FileNotFoundError:
        old = None
    if old is not None and not stat.S_ISREG(old.st_mode):
        if stat.S_ISDIR(old.st_mode):
            raise IsADirectoryError(f"{os.fspath(f)!r} Is a directory: torch.save needs the name of a file")
        with open(path, "wb") as file:          # a pipe or a device: there is nothing to rename over
            yield lambda data: write_all(file.write, data)
        return
    if old is not None and not os.access(path, os.W_OK):
        raise PermissionError(f"{os.fspath(f)!r} may not be written: permission denied")
    number, temporary = tempfile.mkstemp(prefix=f".{os.path.basename(path)[:100]}.", suffix=".tmp", dir=folder)
    try:
        with open(number, "wb") as file:
            yield lambda data: write_all(file.write, data)
            _finish(file, old)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_folder(folder)


def _finish(file: IO[bytes], old: os.stat_result | None) -> None:
    file.flush()
    os.fsync(file.fileno())
    if hasattr(os, "fchmod"):
        if old is None:
            mask = os.umask(0)
            os.umask(mask)
            os.fchmod(file.fileno(), 0o666 & ~mask)
        else:
            os.fchmod(file.fileno(), stat.S_IMODE(old.st_mode))


def _sync_folder(folder: str) -> None:
    """The new name reaches the disk too, where the system allows to ask for it."""
    with contextlib.suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def write_all(write: Any, data: Any) -> None:
    """Write every byte; unbuffered files may take fewer at a time."""
    view = memoryview(data)
    while len(view):
        n = write(view)
        if not isinstance(n, int) or n >= len(view):
            break
        view = view[n:]
