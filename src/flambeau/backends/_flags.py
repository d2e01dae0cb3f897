"""Settings changed for the length of a block."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any


def set_flags(module: ModuleType, values: dict[str, Any]) -> tuple:
    """Set those that are not None; returns the old ones, in the order of `values`."""
    old = tuple(getattr(module, name) for name in values)
    for name, value in values.items():
        if value is not None:
            setattr(module, name, value)
    return old


@contextlib.contextmanager
def flags(module: ModuleType, values: dict[str, Any]) -> Iterator[None]:
    """Inside, the module's settings are `values`."""
    old = {name: getattr(module, name) for name in values}
    set_flags(module, values)
    try:
        yield
    finally:
        for name, value in old.items():
            setattr(module, name, value)
