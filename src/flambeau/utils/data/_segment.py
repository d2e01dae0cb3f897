"""Shared memory without a name, which another process maps by its file descriptor."""

from __future__ import annotations

import mmap
import os
import socket
import sys
import weakref
from typing import Any

import numpy as np

AVAILABLE = hasattr(os, "memfd_create") and hasattr(socket, "send_fds")
# mmap keeps a copy of the descriptor open, unless told not to
_UNTRACKED: dict[str, Any] = {"trackfd": False} if sys.version_info >= (3, 13) else {}


class Buffer(np.ndarray):
    """The bytes of a segment, over which arrays are made: it lives as long as any of them.

    A subclass, since NumPy lets an array refer to the owner of the memory past plain arrays and memoryviews.
    """


class Segment(mmap.mmap):
    """Shared memory, with the descriptor by which another process maps it if this process made it."""

    descriptor: int | None = None
    token: int | None = None                    # under which a worker has lent it
    again: bool = False                         # it was sent while it was lent
    _buffer: Any = None

    @classmethod
    def allocate(cls, size_bytes: int) -> Segment:
        """New memory, zeroed."""
        fd = os.memfd_create("flambeau")
        try:
            os.ftruncate(fd, size_bytes)
            made = cls(fd, size_bytes)
        except BaseException:
            os.close(fd)
            raise
        made.descriptor = fd
        weakref.finalize(made, os.close, fd).atexit = False
        return made

    @classmethod
    def at(cls, fd: int, size_bytes: int) -> Segment:
        """The memory of a descriptor, which is closed."""
        try:
            return cls(fd, size_bytes, **_UNTRACKED)
        finally:
            os.close(fd)

    def buffer(self) -> Buffer:
        """What to make arrays over: `in_use` says whether any of the last one's is still there."""
        made = np.ndarray.__new__(Buffer, (len(self),), np.uint8, self)
        self._buffer = weakref.ref(made)
        return made

    def in_use(self) -> bool:
        """Whether arrays over the last `buffer` exist."""
        return self._buffer is not None and self._buffer() is not None
