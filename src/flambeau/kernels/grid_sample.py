"""Images and volumes read at any places, between their elements: what `nn.functional.grid_sample` computes.

The neighbours outside the image are found in a border of zeros around a copy of it, so that no place needs a mask.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from flambeau.kernels.indexing import add_at
from flambeau.kernels.layout import contiguous_strides

__all__ = ["grid_sample", "sample", "sample_backward_places", "sample_backward_self"]

_FAR = 2.0**30


def grid_sample(x: np.ndarray, grid: np.ndarray, mode: str, padding: str, align: bool) -> np.ndarray:
    """x (N, C, *size) at grid (N, *out, len(size)), float32 or float64: (N, C, *out).

    Args:
        mode: "bilinear" or "nearest".
        padding: "zeros", "border" or "reflection".
        align: -1 and 1 are the centres of the corner elements.
    """
    limits = np.array(x.shape[2:], grid.dtype).reshape(-1, *[1] * (x.ndim - 1))
    places = _padded(_in_elements(_turned(grid), limits, align), limits, padding, align)
    if mode == "bilinear":
        return _sample(x, places)
    flat, steps, starts = _bordered(x)
    return flat.take(np.add.reduce(_positions(np.rint(_near(places)), limits, steps))[:, None] + starts)


def sample(x: np.ndarray, places: np.ndarray) -> np.ndarray:
    """x (N, C, *size) at places (N, *out, len(size)), counted in elements from the first, x, y(, z): (N, C, *out).

    Between elements the values are linear along each axis; outside there are zeros.
    """
    return _sample(x, _turned(places))


def sample_backward_self(g: np.ndarray, places: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Adjoint of `sample` in x: g (N, C, *out) to x's shape."""
    out = np.zeros((*shape[:2], *[n + 2 for n in shape[2:]]), g.dtype)
    flat, steps, starts = _flat(out)
    for weights, position in _corners(_turned(places), shape[2:], steps):
        add_at(flat, position[:, None] + starts, g * _product(weights)[:, None])
    return out[_inner(len(shape) - 2)].copy()


def sample_backward_places(g: np.ndarray, x: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Gradient of `sample` in places: (N, *out, len(size))."""
    flat, steps, starts = _bordered(x)
    turned = _turned(places)
    out = np.zeros_like(turned)
    for corner, (weights, position) in zip(_numbers(len(turned)), _corners(turned, x.shape[2:], steps), strict=True):
        share = np.add.reduce(flat.take(position[:, None] + starts) * g, 1)
        for axis, after in enumerate(corner):
            others = _product([share, *weights[:axis], *weights[axis + 1 :]])
            target = out[axis]
            (np.add if after else np.subtract)(target, others, target)
    return np.ascontiguousarray(out[::-1].transpose(*range(1, out.ndim), 0))


def _product(factors: list[np.ndarray]) -> np.ndarray:
    return functools.reduce(np.multiply, factors)


def _turned(grid: np.ndarray) -> np.ndarray:
    """(N, *out, nd), the last axis x, y(, z), as (nd, N, *out) in the order of the image's dimensions."""
    return np.ascontiguousarray(grid.transpose(grid.ndim - 1, *range(grid.ndim - 1))[::-1])


def _bordered(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`_flat` of a copy of x with a border of zeros."""
    wide = np.zeros((*x.shape[:2], *[n + 2 for n in x.shape[2:]]), x.dtype)
    wide[_inner(x.ndim - 2)] = x
    return _flat(wide)


def _inner(nd: int) -> tuple[Any, ...]:
    """The index of a bordered image without its border."""
    return (..., *[slice(1, -1)] * nd)


def _flat(wide: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(wide (N, C, *size) flattened; the steps of its dimensions of size (nd, 1, ..., 1); where each image begins)."""
    nd = wide.ndim - 2
    steps = np.array(contiguous_strides(wide.shape)[2:]).reshape(-1, *[1] * (nd + 1))
    starts = np.arange(0, wide.size, math.prod(wide.shape[2:])).reshape(*wide.shape[:2], *[1] * nd)
    return wide.reshape(-1), steps, starts


def _near(places: np.ndarray) -> np.ndarray:
    """What is far outside, or no number, as something that is far outside as an integer too."""
    return np.fmax(np.fmin(places, _FAR), -_FAR)


def _numbers(nd: int) -> Iterator[tuple[int, ...]]:
    return product((0, 1), repeat=nd)


def _corners(places: np.ndarray, size: tuple[int, ...], steps: np.ndarray) -> Iterator[tuple[list[np.ndarray], np.ndarray]]:
    """For each neighbour of places (nd, N, *out): (its weight along each axis, its position in the bordered image)."""
    limits = np.array(size, places.dtype).reshape(steps.shape)
    base = np.floor(_near(places))
    after = places - base
    shares = 1 - after, after
    at = _positions(base, limits, steps), _positions(base + 1, limits, steps)
    for corner in _numbers(len(size)):
        weights = [shares[c][i] for i, c in enumerate(corner)]
        yield weights, functools.reduce(np.add, [at[c][i] for i, c in enumerate(corner)])


def _sample(x: np.ndarray, places: np.ndarray) -> np.ndarray:
    flat, steps, starts = _bordered(x)
    total = None
    for weights, position in _corners(places, x.shape[2:], steps):
        value = flat.take(position[:, None] + starts)
        value *= _product(weights)[:, None]
        total = value if total is None else np.add(total, value, total)
    assert total is not None
    return total


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
