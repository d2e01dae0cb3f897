"""Depthwise convolution (one filter per channel) without columns: sums over taps of shifted planes.

A plane whose rows have pitch P, flattened, makes every tap of a stride-1 window a contiguous slice: position
(r, c) of the result lies at r * P + c, tap (i, j) reads at that plus i * P + j. The planes of all samples of a
channel follow one another, so one inner loop serves a channel. The result is computed at the input's pitch
("wide"); what falls on surplus columns, or across the end of a plane, is dropped. A stride s > 1 is first split
into s phases per axis (every s-th row and column), in each of which the stride is 1.

The adjoints multiply the zeros between wide rows too: an infinity in x (or w) then shows as NaN in the gradient of
its whole filter (or plane), where a direct sum would keep some entries infinite or finite.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

import numpy as np

__all__ = ["depthwise", "depthwise_grad_input", "depthwise_grad_weight"]

# Elements per block: the planes read, the accumulator and one product together stay in the cache.
_BLOCK = 1 << 15


class _Plan:
    """Where each tap finds its slice: the phase it reads and the offset in that phase's flattened plane."""

    __slots__ = ("offsets", "padded", "phase_shape", "stride", "taps")

    def __init__(
        self,
        size: Sequence[int],
        kernel: Sequence[int],
        out: Sequence[int],
        stride: Sequence[int],
        dilation: Sequence[int],
    ) -> None:
        self.stride = tuple(stride)
        # Rounded up to whole strides, and large enough for the last window.
        reach = [
            max(n, (m - 1) * s + (k - 1) * d + 1) for n, m, s, k, d in zip(size, out, stride, kernel, dilation, strict=True)
        ]
        self.phase_shape = tuple([-(-n // s) for n, s in zip(reach, stride, strict=True)])
        self.padded = tuple([n * s for n, s in zip(self.phase_shape, stride, strict=True)])
        pitch = [prod(self.phase_shape[i + 1 :]) for i in range(len(size))]
        self.taps = list(product(*map(range, kernel)))
        self.offsets = []
        for tap in self.taps:
            reads = [t * d for t, d in zip(tap, dilation, strict=True)]
            phase = 0
            for r, s in zip(reads, stride, strict=True):
                phase = phase * s + r % s
            self.offsets.append((phase, sum(r // s * p for r, s, p in zip(reads, stride, pitch, strict=True))))

    def split(self, x: np.ndarray, low: Sequence[int]) -> np.ndarray:
        """Zero-pad x (N, C, *) by `low` in front, to `padded` overall: phases (phase, C, N * plane)."""
        n, c = x.shape[:2]
        full = np.zeros((c, n, *self.padded), x.dtype)
        full[(..., *[slice(p, p + s) for p, s in zip(low, x.shape[2:], strict=True)])] = x.swapaxes(0, 1)
        if prod(self.stride) == 1:
            return full.reshape(1, c, -1)
        phases = np.empty((prod(self.stride), c, n, *self.phase_shape), x.dtype)
        for phase, start in enumerate(product(*map(range, self.stride))):
            phases[phase] = full[(..., *[slice(i, None, s) for i, s in zip(start, self.stride, strict=True)])]
        return phases.reshape(prod(self.stride), c, -1)

    def join(self, phases: np.ndarray, n: int) -> np.ndarray:
        """Inverse of `split`: (phase, C, N * plane) to (C, N, *padded)."""
        c = phases.shape[1]
        if prod(self.stride) == 1:
            return phases.reshape(c, n, *self.padded)
        full = np.empty((c, n, *self.padded), phases.dtype)
        for phase, start in enumerate(product(*map(range, self.stride))):
            part = phases[phase].reshape(c, n, *self.phase_shape)
            full[(..., *[slice(i, None, s) for i, s in zip(start, self.stride, strict=True)])] = part
        return full

    def widen(self, g: np.ndarray) -> np.ndarray:
        """g (N, C, *out) at the phases' pitch, zero elsewhere: (C, N * plane)."""
        n, c, *out = g.shape
        wide = np.zeros((c, n, *self.phase_shape), g.dtype)
        wide[(..., *[slice(m) for m in out])] = g.swapaxes(0, 1)
        return wide.reshape(c, -1)

    def blocks(self, channels: int, length: int):
        """Pairs (channels, range of positions) of at most _BLOCK elements."""
        step = max(1, _BLOCK // length)
        for i in range(0, channels, step):
            for start in range(0, length, _BLOCK):
                yield slice(i, min(i + step, channels)), start, min(start + _BLOCK, length)


def depthwise(
    x: np.ndarray,
    w: np.ndarray,
    out: Sequence[int],
    stride: Sequence[int],
    low: Sequence[int],
    dilation: Sequence[int],
) -> np.ndarray:
    """x (N, C, *), with `low` zeros in front and as many as needed behind, with w (C, *kernel): (N, C, *out)."""
    n, c = x.shape[:2]
    size = [s + p for s, p in zip(x.shape[2:], low, strict=True)]
    plan = _Plan(size, w.shape[1:], out, stride, dilation)
    phases = plan.split(x, low)
    length = phases.shape[2]
    columns = w.reshape(c, -1, 1)
    wide = np.empty((c, length), x.dtype)
    scratch = np.empty(_BLOCK, x.dtype)
    for channels, start, stop in plan.blocks(c, length):
        for tap, (phase, offset) in enumerate(plan.offsets):
            image = phases[phase, channels, start + offset : stop + offset]
            total = wide[channels, start : start + image.shape[1]]
            if tap == 0:
                np.multiply(image, columns[channels, tap], out=total)
            else:
                part = scratch[: image.size].reshape(image.shape)
                np.multiply(image, columns[channels, tap], out=part)
                np.add(total, part, out=total)
    kept = wide.reshape(c, n, *plan.phase_shape)[(..., *[slice(m) for m in out])]
    return np.ascontiguousarray(kept.swapaxes(0, 1))


def depthwise_grad_input(
    g: np.ndarray,
    w: np.ndarray,
    size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> np.ndarray:
    """Adjoint of `depthwise` in x: g (N, C, *out) and w (C, *kernel) to (N, C, *size)."""
    n, c = g.shape[:2]
    padded = [s + 2 * p for s, p in zip(size, padding, strict=True)]
    plan = _Plan(padded, w.shape[1:], g.shape[2:], stride, dilation)
    wide = plan.widen(g)
    length = wide.shape[1]
    columns = w.reshape(c, -1, 1)
    phases = np.zeros((prod(plan.stride), c, length), g.dtype)
    scratch = np.empty(_BLOCK, g.dtype)
    for channels, start, stop in plan.blocks(c, length):
        for tap, (phase, offset) in enumerate(plan.offsets):
            target = phases[phase, channels, start + offset : stop + offset]
            part = scratch[: target.size].reshape(target.shape)
            np.multiply(wide[channels, start : start + target.shape[1]], columns[channels, tap], out=part)
            np.add(target, part, out=target)
    inner = plan.join(phases, n)[(..., *[slice(p, p + s) for p, s in zip(padding, size, strict=True)])]
    return np.ascontiguousarray(inner.swapaxes(0, 1))


def depthwise_grad_weight(
    g: np.ndarray,
    x: np.ndarray,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> np.ndarray:
    """Adjoint of `depthwise` in w: g (N, C, *out) and x (N, C, *) to (C, *kernel)."""
    c = g.shape[1]
    size = [s + 2 * p for s, p in zip(x.shape[2:], padding, strict=True)]
    plan = _Plan(size, kernel, g.shape[2:], stride, dilation)
    phases = plan.split(x, padding)
    wide = plan.widen(g)
    result = np.zeros((c, len(plan.taps)), x.dtype)
    for channels, start, stop in plan.blocks(c, wide.shape[1]):
        for tap, (phase, offset) in enumerate(plan.offsets):
            image = phases[phase, channels, start + offset : stop + offset]
            # einsum rather than vecdot: complex values are not to be conjugated.
            result[channels, tap] += np.einsum("cl,cl->c", image, wide[channels, start : start + image.shape[1]])
    return result.reshape(c, *kernel)
