"""Histograms: counts in equal bins, and in a grid of bins with given edges."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def check_floating(name: str, a: np.ndarray) -> None:
    """Raise for dtypes that have no histogram."""
    if a.dtype.char not in "fd":
        raise NotImplementedError(f'"{name}" not implemented for {a.dtype.name}: convert with .float()')


def _check_bins(bins: int, name: str) -> None:
    if bins <= 0:
        raise RuntimeError(f"torch.{name}(): bins must be > 0, but got {bins} for dimension 0")


def histc(a: np.ndarray, bins: int = 100, low: float = 0, high: float = 0) -> np.ndarray:
    """Return how many elements (a's dtype) lie in each of equal bins of [low, high]; of a's range when these are equal.

    Raises:
        RuntimeError: no bins, or a range that is reversed or not finite.
    """
    check_floating("histogram_cpu", a)
    _check_bins(bins, "histogram")
    a = a.reshape(-1)
    if low == high and a.size:
        low, high = float(a.min()), float(a.max())
    if low == high:
        low, high = low - 1, high + 1
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"torch.histc: range of [{low}, {high}] is not finite")
    if low >= high:
        raise RuntimeError("torch.histc: max must be larger than min")
    kind = a.dtype.type
    inside = a[(a >= kind(low)) & (a <= kind(high))]
    place = ((inside - kind(low)) * kind(bins) / (kind(high) - kind(low))).astype(np.int64)
    return np.bincount(np.clip(place, 0, bins - 1), minlength=bins).astype(a.dtype)


def outer_edges(a: np.ndarray, bins: int, low_high: Sequence[float] | None, name: str) -> tuple[float, float]:
    """Return the outer edges of equal bins: low_high, or the range of a vector; never equal."""
    _check_bins(bins, name)
    if low_high is not None:
        if len(low_high) != 2:
            raise RuntimeError(f"torch.{name}: for a 1-dimensional histogram range should have 2 elements, but got "
                               f"{len(low_high)}")
        low, high = float(low_high[0]), float(low_high[1])
    elif a.size:
        low, high = float(a.min()), float(a.max())
    else:
        low, high = 0.0, 1.0
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"torch.{name}: dimension 0's range [{low}, {high}] is not finite")
    if low > high:
        raise RuntimeError(f"torch.{name}: min should not exceed max, but got min {low} max {high} for dimension 0")
    return (low - 0.5, high + 0.5) if low == high else (low, high)


def histogramdd(points: np.ndarray, edges: Sequence[np.ndarray], weight: np.ndarray | None = None,
                density: bool = False) -> np.ndarray:
    """Return the weight of the points (N, D) in each cell of the grid with these edges; the last edges belong to it.

    Args:
        density: divide by the total weight and the cell's volume.
    """
    shape = tuple(len(e) - 1 for e in edges)
    inside = np.ones(len(points), np.bool_)
    places = []
    for axis, edge in enumerate(edges):
        column = points[:, axis]
        inside &= (column >= edge[0]) & (column <= edge[-1])
        places.append(np.minimum(edge.searchsorted(column, "right") - 1, len(edge) - 2))
    cells = np.zeros(len(points), np.int64)
    for n, place in zip(shape, places, strict=True):
        cells = cells * n + place
    w = None if weight is None else weight[inside].astype(np.float64)
    out = np.bincount(cells[inside], w, math.prod(shape)).astype(points.dtype).reshape(shape)
    if density:
        with np.errstate(all="ignore"):
            out = out / out.sum(dtype=points.dtype)
        for axis, edge in enumerate(edges):
            out = out / np.diff(edge).reshape((-1,) + (1,) * (len(edges) - 1 - axis))
    return out
