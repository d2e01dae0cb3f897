"""Causal masks for attention over different numbers of queries and keys."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import flambeau

__all__ = ["CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(IntEnum):
    """Which corner of the mask the diagonal meets."""

    UPPER_LEFT = 1
    LOWER_RIGHT = 2


def _checked(size: tuple) -> tuple:
    if len(size) != 2:
        raise AssertionError(f"causal masks are 2D: give the number of queries and of keys, not {size}")
    return size


def causal_upper_left(*size: int) -> Any:
    """A mask (L, S), bool, by which query i sees keys 0 to i: for `attn_mask` of scaled_dot_product_attention.

    >>> causal_upper_left(2, 3).int().tolist()
    [[1, 0, 0], [1, 1, 0]]
    """
    return flambeau.ones(_checked(size), dtype=flambeau.bool).tril()


def causal_lower_right(*size: int) -> Any:
    """The same mask moved so that the last query sees all keys: for queries that continue a sequence.

    >>> causal_lower_right(2, 3).int().tolist()
    [[1, 1, 0], [1, 1, 1]]
    """
    rows, columns = _checked(size)
    return flambeau.ones(size, dtype=flambeau.bool).tril(columns - rows)
