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
