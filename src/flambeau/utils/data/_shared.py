"""Batches between processes: small things are pickled, arrays lie in shared memory and are not copied again.

A `Segment` is memory without a name (Linux: `memfd_create`). Its file descriptor travels beside the pickled
bytes over a Unix socket, so nothing is left behind when a process dies, and no size of `/dev/shm` limits it.
Where the system has no such memory, arrays are pickled and cross the pipe.

A tensor that `empty` made lies in a segment already; other arrays are copied into one segment for the batch. Segments
are lent, and used again when the main process has dropped the batch: see `_lending`.
"""

from __future__ import annotations

import io
import math
import os
import pickle
import socket
import weakref
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np

from flambeau.core.objects import array_of, make
from flambeau.ops._from_data import checked_array
from flambeau.tensor import Tensor
from flambeau.tensor._python import attributes

from ._lending import Borrower, Lender
from ._segment import AVAILABLE, Segment

LARGE = 16384              # bytes: smaller arrays are pickled, which is cheaper than mapping memory
MOST_MAPPED = 512          # batches of which this process keeps the sender's memory; later ones are copied out
_ALIGNMENT = 64
_FDS_A_MESSAGE = 200       # the kernel takes 253 in one message

_mapped: weakref.WeakSet = weakref.WeakSet()


# of this worker process; None in others, whose memory is given away
_lender: list[Lender | None] = [None]


def lend_from(lender: Lender) -> None:
    """Take the memory of batches from a lender, in this process."""
    _lender[0] = lender


def _allocated(size_bytes: int) -> Segment:
    lender = _lender[0]
    return Segment.allocate(size_bytes) if lender is None else lender.allocate(size_bytes)


def empty(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An array that another process can map, of any content."""
    return np.ndarray(shape, dtype, _allocated(max(1, math.prod(shape) * np.dtype(dtype).itemsize)).buffer())


def _segment_of(a: np.ndarray) -> Segment | None:
    base: Any = a
    while isinstance(base, (np.ndarray, memoryview)):
        base = base.base if isinstance(base, np.ndarray) else base.obj
    return base if isinstance(base, Segment) and base.descriptor is not None else None


def _offset(a: np.ndarray, segment: Segment) -> int:
    whole = np.frombuffer(segment, np.uint8)
    return int(a.__array_interface__["data"][0] - whole.__array_interface__["data"][0])


class _New:
    """The segment of a batch, whose size is known when everything has been seen."""


def _view(segment: Any, shape: tuple, dtype: Any, offset: int, steps: tuple) -> np.ndarray:
    return np.ndarray(shape, dtype, segment, offset, steps)


def _tensor(a: np.ndarray, requires_grad: bool) -> Any:
    t: Any = make(checked_array(a))        # an unpickled dtype is another object
    if requires_grad:
        t.requires_grad_(True)
    return t


class _Pickler(pickle.Pickler):
    def __init__(self, file: Any) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.dispatch_table = ForkingPickler(file).dispatch_table        # what multiprocessing knows to send
        self.segments: list[Any] = []
        self.copied: list[tuple[np.ndarray, int]] = []
        self.size_bytes = 0
        self._new = _New()
        self._numbers: dict[int, int] = {}

    def persistent_id(self, obj: Any) -> Any:
        if not isinstance(obj, (Segment, _New)):
            return None
        number = self._numbers.get(id(obj))
        if number is None:
            number = self._numbers[id(obj)] = len(self.segments)
            self.segments.append(obj)
        return number

    def reducer_override(self, obj: Any) -> Any:
        kind = type(obj)
        if kind is Tensor and obj.device.type == "cpu":
            if obj.requires_grad and not obj.is_leaf:
                raise RuntimeError(
                    "A non-leaf tensor which requires_grad cannot be sent to another process: its graph stays in "
                    "this one. Call detach() on it, in the data set or in collate_fn.")
            if not attributes(obj):
                return _tensor, (array_of(obj), obj.requires_grad)
        elif kind is np.ndarray and AVAILABLE and obj.nbytes >= LARGE and not obj.dtype.hasobject:
            return self._array(obj)
        return NotImplemented

    def _array(self, a: np.ndarray) -> Any:
        segment = _segment_of(a)
        if segment is not None and min(a.strides, default=0) >= 0:
            return _view, (segment, a.shape, a.dtype, _offset(a, segment), a.strides)
        offset = -(-self.size_bytes // _ALIGNMENT) * _ALIGNMENT
        self.size_bytes = offset + a.nbytes
        self.copied.append((a, offset))
        return _view, (self._new, a.shape, a.dtype, offset, _dense(a))

    def share(self) -> None:
        """Copy what lay elsewhere into one new segment."""
        if not self.copied:
            return
        segment = _allocated(self.size_bytes)
        for a, offset in self.copied:
            np.ndarray(a.shape, a.dtype, segment, offset, _dense(a))[...] = a
        self.segments[self._numbers[id(self._new)]] = segment


def _dense(a: np.ndarray) -> tuple[int, ...]:
    """Strides without gaps, in the order in which a's dimensions lie in memory; row by row if some overlap."""
    steps = [0] * a.ndim
    step = a.itemsize
    order = list(reversed(range(a.ndim)))
    if 0 not in a.strides:
        order.sort(key=lambda d: (abs(a.strides[d]), a.shape[d]))
    for d in order:
        steps[d] = step
        step *= a.shape[d]
    return tuple(steps)


class _Unpickler(pickle.Unpickler):
    segments: list[Any]

    def persistent_load(self, pid: Any) -> Any:
        return self.segments[pid]


class Message:
    """An object made ready to be sent; made before anything is written, so that an error of it can be told."""

    def __init__(self, obj: Any) -> None:
        file = io.BytesIO()
        pickler = _Pickler(file)
        pickler.dump(obj)
        pickler.share()
        self.segments: list[Segment] = pickler.segments
        self.data = file.getbuffer()

    def send(self, connection: Any, channel: socket.socket | None) -> None:
        """Write it; waits until the other process reads if it is large."""
        lender = _lender[0]
        lent = [(None, True) if lender is None else lender.lend(segment) for segment in self.segments]
        heads = [(token, len(segment), new) for (token, new), segment in zip(lent, self.segments, strict=True)]
        connection.send_bytes(pickle.dumps((heads, [] if lender is None else lender.take_forgotten())))
        connection.send_bytes(self.data)
        fds = [s.descriptor for s, (_, new) in zip(self.segments, lent, strict=True) if new and s.descriptor is not None]
        for i in range(0, len(fds), _FDS_A_MESSAGE):
            assert channel is not None
            socket.send_fds(channel, [b"s"], fds[i:i + _FDS_A_MESSAGE])


def receive(connection: Any, channel: socket.socket | None, borrower: Borrower | None) -> Any:
    """The object of the next message.

    Args:
        borrower: keeps the memory that is lent; None drops the message unread (and answers None).

    Raises:
        EOFError, OSError: the sender has gone.
    """
    heads, forgotten = pickle.loads(connection.recv_bytes())
    data = connection.recv_bytes()
    n_new = sum(new for _, _, new in heads)
    fds: list[int] = []
    while len(fds) < n_new:
        assert channel is not None
        byte, found, _, _ = socket.recv_fds(channel, 1, _FDS_A_MESSAGE)
        if not byte:
            raise EOFError
        if len(found) == 0:
            raise OSError("the batch's shared memory was lost: too many open files in this process (see ulimit -n)")
        fds.extend(found)
    if borrower is None:
        for fd in fds:
            os.close(fd)
        return None
    unpickler = _Unpickler(io.BytesIO(data))
    unpickler.segments = _buffers(heads, fds, borrower)
    borrower.forget(forgotten)
    return unpickler.load()


def _buffers(heads: list, fds: list[int], borrower: Borrower) -> list:
    """The memory of a message's arrays."""
    crowded = len(_mapped) + len(fds) > MOST_MAPPED     # before Python 3.13 each holds a descriptor
    rest = iter(fds)
    found: list[Any] = []
    for token, size, new in heads:
        segment = Segment.at(next(rest), size) if new else borrower.maps[token]
        if token is not None:
            found.append(borrower.hold(token, segment))
        elif crowded:
            found.append(bytearray(segment))
        else:
            _mapped.add(segment)
            found.append(segment)
    return found


def channel(connection: Any) -> socket.socket | None:
    """The socket under a connection, for descriptors."""
    return socket.socket(fileno=os.dup(connection.fileno())) if AVAILABLE else None
