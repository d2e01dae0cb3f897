"""One number or several, as layers take sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


def ntuple(n: int, name: str) -> Callable[[Any], tuple]:
    """A function that repeats a number n times and makes anything iterable a tuple."""

    def expand(value: Any) -> tuple:
        return tuple(value) if isinstance(value, Iterable) else (value,) * n

    expand.__name__ = name
    return expand


_single = ntuple(1, "_single")
_pair = ntuple(2, "_pair")
_triple = ntuple(3, "_triple")
_quadruple = ntuple(4, "_quadruple")


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Take a prefix ("module.") off the names of a state_dict, in place."""
    for key in list(state_dict):
        if key.startswith(prefix):
            state_dict[key[len(prefix):]] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", None)
    if metadata is not None:
        for key in list(metadata):
            if key and key in (prefix.replace(".", ""), prefix):
                metadata[""] = metadata.pop(key)
            elif key.startswith(prefix):
                metadata[key[len(prefix):]] = metadata.pop(key)
