"""Handles of hooks kept in lists `[number, ..., function]`: see `core.hooks`."""

from __future__ import annotations

import itertools
from typing import Any

from flambeau.core.state import bump_meta_epoch

_numbers = itertools.count()


def next_number() -> int:
    """A number for a new hook; they grow, so that hooks run in order of registration."""
    return next(_numbers)


class Handle:
    """Removes a hook; a context manager too, which removes it at the end of the block."""

    def __init__(self, hooks: list, number: int) -> None:
        self._hooks, self.id = hooks, number

    def remove(self) -> None:
        """Take the hook out; doing it twice is harmless."""
        hooks = self._hooks
        for i, entry in enumerate(hooks):
            if entry[0] == self.id:
                del hooks[i]
                bump_meta_epoch()
                return

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *error: Any) -> None:
        self.remove()
