"""Shared memory that goes back and forth: a worker writes a new batch over one that the main process no longer has.

New memory costs a page fault for every 4 KB, several times what writing the batch costs. So the worker (`Lender`) keeps
the segments that it sent; the main process (`Borrower`) keeps their mappings, notices when the last array of a batch has
gone, and tells the worker so with the next order.
"""

from __future__ import annotations

import itertools
import os
import weakref
from typing import Any

from ._segment import Segment

MOST_LENT = 32          # segments of one worker that the main process may hold; further ones are given away
_PAGE = 4096

_n_forks = [0]          # a process forked meanwhile may still read what this one has dropped


def _count_fork() -> None:
    _n_forks[0] += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_count_fork)


class Lender:
    """The segments of a worker."""

    def __init__(self) -> None:
        self.free: list[Segment] = []
        self.lent: dict[int, Segment] = {}
        self.forgotten: list[int] = []              # tokens whose mapping the main process can drop
        self._tokens = itertools.count()

    def allocate(self, size_bytes: int) -> Segment:
        """Memory of at least this size, of any content."""
        for i, segment in enumerate(self.free):
            if size_bytes <= len(segment) <= 2 * size_bytes + _PAGE:
                return self.free.pop(i)
        if self.free:                               # batches have another size now
            self._forget(self.free.pop(0))
        return Segment.allocate(size_bytes)

    def lend(self, segment: Segment) -> tuple[int | None, bool]:
        """(token, whether the main process does not know it yet); the token is None if it is given away."""
        token = segment.token
        if token is not None and token in self.lent:
            segment.again = True
            return None, True
        if token is None and len(self.lent) >= MOST_LENT:
            return None, True
        new = token is None
        if token is None:
            token = segment.token = next(self._tokens)
        self.lent[token] = segment
        return token, new

    def give_back(self, finished: list[tuple[int, bool]]) -> None:
        """Tokens of batches that the main process has dropped, each with whether the memory may be written."""
        for token, writable in finished:
            segment = self.lent.pop(token, None)
            if segment is None:
                continue
            if writable and not segment.again and not segment.in_use():
                self.free.append(segment)
            else:
                self._forget(segment)

    def _forget(self, segment: Segment) -> None:
        if segment.token is not None:
            self.forgotten.append(segment.token)
            segment.token = None

    def take_forgotten(self) -> list[int]:
        """The tokens forgotten since the last call."""
        found, self.forgotten = self.forgotten, []
        return found


class Borrower:
    """The main process's mappings of one worker's segments."""

    def __init__(self) -> None:
        self.maps: dict[int, Segment] = {}
        self.finished: list[tuple[int, bool]] = []

    def forget(self, tokens: list[int]) -> None:
        """Drop mappings; arrays that still use one keep it."""
        for token in tokens:
            self.maps.pop(token, None)

    def hold(self, token: int, segment: Segment) -> Any:
        """A buffer over a segment for the arrays of one batch; when all have gone the worker may write it again."""
        self.maps[token] = segment
        buffer = segment.buffer()
        weakref.finalize(buffer, _finish, self.finished, token, _n_forks[0]).atexit = False
        return buffer

    def take_finished(self) -> list[tuple[int, bool]]:
        """Tokens of batches dropped since the last call."""
        found = self.finished[:]            # a finalizer may append at any moment
        del self.finished[:len(found)]
        return found


def _finish(finished: list, token: int, n_forks: int) -> None:
    finished.append((token, n_forks == _n_forks[0]))
