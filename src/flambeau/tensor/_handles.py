"""Handles by which registered hooks are removed again."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Sequence
from typing import Any

from flambeau.core.state import bump_meta_epoch

_ids = itertools.count()


class RemovableHandle:
    """What registering a hook returns: `remove()` takes the hook away; as a context manager, at the block's
    end.

    Args:
        hooks_dict: the dictionary in which the hook stands under `id`; it is not kept alive.
        extra_dict: one or several further dictionaries that have entries under the same id.
    """

    __module__ = "flambeau.utils.hooks"        # its public place, under which it is pickled
    id: int
    next_id: int = 0

    def __init__(self, hooks_dict: Any, *, extra_dict: Any = None) -> None:
        self.id = next(_ids)
        RemovableHandle.next_id = self.id + 1
        self.hooks_dict_ref = weakref.ref(hooks_dict)
        extra = extra_dict if isinstance(extra_dict,
                                         Sequence) else (() if extra_dict is None else (extra_dict,))
        self.extra_dict_ref: tuple = tuple(weakref.ref(d) for d in extra)

    def _registries(self) -> list:
        return [d for d in (ref() for ref in (self.hooks_dict_ref, *self.extra_dict_ref)) if d is not None]

    def remove(self) -> None:
        """Take the hook away; nothing happens when it is gone already."""
        bump_meta_epoch()
        for registry in self._registries():
            registry.pop(self.id, None)

    def __getstate__(self) -> tuple:
        return (self.hooks_dict_ref(), self.id, tuple(ref() for ref in self.extra_dict_ref))

    def __setstate__(self, state: tuple) -> None:
        hooks, self.id = state[0], state[1]
        self.hooks_dict_ref = weakref.ref(_Empty() if hooks is None else hooks)
        extra = state[2] if len(state) > 2 else ()
        self.extra_dict_ref = tuple(weakref.ref(d) for d in extra if d is not None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *error: Any) -> None:
        self.remove()


class _Empty(dict):
    """Stands for a registry that did not survive pickling."""
