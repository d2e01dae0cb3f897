"""Padding of arrays: with a constant, mirrored, with the edge, and around.

`pads` counts from the last axis, two numbers for each: before and after; negative ones crop.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def _pairs(n_dims: int, pads: Sequence[int]) -> list[tuple[int, int, int]]:
    """(axis, before, after) for each padded axis."""
    return [(n_dims - 1 - k, pads[2 * k], pads[2 * k + 1]) for k in range(len(pads) // 2)]


def padded_shape(shape: Sequence[int], pads: Sequence[int]) -> tuple[int, ...]:
    """Return the shape with its padding.

    Raises:
        RuntimeError: more is cropped than there is.
    """
    out = list(shape)
    for axis, before, after in _pairs(len(shape), pads):
        n = out[axis]
        out[axis] = n + before + after
        if out[axis] < 0 or (n + min(before, 0) + min(after, 0) < 0):
            raise RuntimeError(
                f"The input size {n}, plus negative padding {before} and {after}, resulted in a negative output size, which "
                f"is invalid. Check dimension {axis} of your input."
            )
    return tuple(out)


def constant_pad(a: np.ndarray, pads: Sequence[int], value: object = 0) -> np.ndarray:
    """Return a with `value` around it."""
    shape = padded_shape(a.shape, pads)
    inner = [slice(None)] * a.ndim
    outer = [slice(None)] * a.ndim
    for axis, before, after in _pairs(a.ndim, pads):
        n = a.shape[axis]
        outer[axis] = slice(max(before, 0), max(before, 0) + n + min(before, 0) + min(after, 0))
        inner[axis] = slice(max(-before, 0), n - max(-after, 0))
    out = np.empty(shape, a.dtype)
    out.fill(value)
    out[tuple(outer)] = a[tuple(inner)]
    return out


def source(mode: str, n: int, before: int, after: int) -> np.ndarray:
    """Return, for each position of a padded axis, the position that it repeats."""
    if mode == "circular":  # around what is left after cropping
        start, left = max(-before, 0), n - max(-before, 0) - max(-after, 0)
        return start + np.arange(-max(before, 0), left + max(after, 0)) % max(left, 1)
    at = np.arange(-before, n + after)
    if mode == "replicate":
        return np.clip(at, 0, n - 1)
    at = np.abs(at)
    return np.where(at >= n, 2 * (n - 1) - at, at)


def pad(a: np.ndarray, pads: Sequence[int], mode: str) -> np.ndarray:
    """Return a with its own elements around it: mode "reflect", "replicate" or "circular"."""
    for axis, before, after in _pairs(a.ndim, pads):
        if before or after:
            a = a.take(source(mode, a.shape[axis], before, after), axis)
    return np.ascontiguousarray(a)


def pad_backward(g: np.ndarray, shape: Sequence[int], pads: Sequence[int], mode: str) -> np.ndarray:
    """Return the adjoint of `pad` for an array of this shape: repeated elements add up."""
    for axis, before, after in _pairs(g.ndim, pads):
        if not (before or after):
            continue
        n = shape[axis]
        where = source(mode, n, before, after)
        x = np.moveaxis(g, axis, 0)
        first, last = max(before, 0), max(before, 0) + n - max(-before, 0) - max(-after, 0)  # what lies inside
        out = np.zeros((n, *x.shape[1:]), g.dtype)
        out[where[first:last]] = x[first:last]
        for place in (*range(first), *range(last, x.shape[0])):
            out[where[place]] += x[place]
        g = np.moveaxis(out, 0, axis)
    return np.ascontiguousarray(g)
