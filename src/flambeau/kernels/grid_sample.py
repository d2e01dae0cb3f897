"""Images and volumes read at any places, between their elements: what `nn.functional.grid_sample` computes.

The neighbours outside the image are found in a border of zeros around a copy of it, so that no place needs a mask.
"""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np

from flambeau.kernels.layout import contiguous_strides

__all__ = ["grid_sample"]


def grid_sample(x: np.ndarray, grid: np.ndarray, mode: str, padding: str, align: bool) -> np.ndarray:
    """x (N, C, *size) at grid (N, *out, len(size)), float32 or float64: (N, C, *out).

    Args:
        mode: "bilinear" or "nearest".
        padding: "zeros", "border" or "reflection".
        align: -1 and 1 are the centres of the corner elements.
    """
    size, nd = x.shape[2:], x.ndim - 2
    # the grid's last axis is x, y(, z), the last dimension first: turned round, it is the first axis here
    turned = np.ascontiguousarray(grid.transpose(nd + 1, *range(nd + 1))[::-1])
    limits = np.array(size, grid.dtype).reshape(-1, *[1] * (nd + 1))
    places = _padded(_in_elements(turned, limits, align), limits, padding, align)
    # what is far outside, or no number, must be so as an integer too
    near = np.fmax(np.fmin(places, _FAR), -_FAR)
    base = np.rint(near) if mode == "nearest" else np.floor(near)
    wide = np.zeros((*x.shape[:2], *[n + 2 for n in size]), x.dtype)
    wide[(..., *[slice(1, -1)] * nd)] = x
    flat = wide.reshape(-1)
    steps = np.array(contiguous_strides(wide.shape)[2:]).reshape(limits.shape)
    starts = np.arange(0, flat.size, prod(wide.shape[2:])).reshape(*x.shape[:2], *[1] * nd)
    if mode == "nearest":
        return flat.take(np.add.reduce(_positions(base, limits, steps))[:, None] + starts)
    after = places - base
    shares = 1 - after, after
    at = _positions(base, limits, steps), _positions(base + 1, limits, steps)
    total = None
    for corner in product((0, 1), repeat=nd):
        weight, position = shares[corner[0]][0], at[corner[0]][0]
        for i in range(1, nd):
            weight = weight * shares[corner[i]][i]
            position = position + at[corner[i]][i]
        value = flat.take(position[:, None] + starts)
        value *= weight[:, None]
        total = value if total is None else np.add(total, value, total)
    assert total is not None
    return total


_FAR = 2.0**30


def _positions(index: np.ndarray, limits: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """The share of each axis, the first here, in flat positions in an image with a border of one."""
    inside = np.minimum(np.maximum(index, -1), limits).astype(np.int64)
    inside += 1
    inside *= steps
    return inside


def _in_elements(grid: np.ndarray, limits: np.ndarray, align: bool) -> np.ndarray:
    """Coordinates from -1 to 1 as positions counted in elements."""
    places = grid + 1
    if align:
        places *= (limits - 1) / 2
        return places
    places *= limits
    places -= 1
    places /= 2
    return places


def _padded(places: np.ndarray, limits: np.ndarray, padding: str, align: bool) -> np.ndarray:
    """Positions brought inside, as the padding says."""
    if padding == "zeros":
        return places
    if padding == "reflection":
        places = _reflected(places, 0.0, limits - 1) if align else _reflected(places, -0.5, limits - 0.5)
    return np.minimum(np.maximum(places, 0), limits - 1)


def _reflected(places: np.ndarray, low: float, high: np.ndarray) -> np.ndarray:
    """Positions mirrored at low and high, as often as needed; all are 0 between equal bounds."""
    span = high - low
    away = np.abs(places - low)
    flips = np.floor(np.where(np.isfinite(away), away, 0) / np.where(span == 0, span.dtype.type(1), span))
    extra = away - flips * span
    inside = np.where(flips % 2 == 0, extra + low, (span - extra) + low)
    return np.where(span == 0, places * 0, inside)
