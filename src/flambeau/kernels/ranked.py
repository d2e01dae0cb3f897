"""The element of a rank in each line of a large array, by partition: linear in the line, where a sort is not."""

from __future__ import annotations

import numpy as np

LARGE = 1 << 13         # elements from which it pays


def nth(keys: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray, bool] | None:
    """(values, positions, whether each is alone) of the elements of rank k along the last axis, all (..., 1).

    Among equal elements, positions are those of the stable order. None where there is NaN, and for small arrays.
    """
    if keys.size < LARGE or keys.dtype.char not in "fdlib" or (keys.dtype.kind == "f" and np.isnan(keys).any()):
        return None
    values = np.partition(keys, k, axis=-1)[..., k:k + 1]
    same = keys == values
    if np.count_nonzero(same) * keys.shape[-1] == keys.size:     # one in each line, at least
        return values, same.argmax(-1)[..., None], True
    before = k - np.count_nonzero(keys < values, axis=-1)[..., None]
    return values, (same & (same.cumsum(-1) == before + 1)).argmax(-1)[..., None], False
