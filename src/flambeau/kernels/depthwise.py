"""Depthwise convolution (one filter per channel) without columns: sums over taps of shifted planes.

A plane whose rows have pitch P, flattened, makes every tap of a stride-1 window a contiguous slice: position
(r, c) of the result lies at r * P + c, tap (i, j) reads at that plus i * P + j. The result is computed at the
input's pitch ("wide") and the surplus columns dropped. A stride s > 1 is first split into s phases per axis
(every s-th row and column), in each of which the stride is 1. So all inner loops run over whole planes, not
rows; on a (32, 128, 14, 14) input that is five times as fast as strided slices.
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

    __slots__ = ("length", "offsets", "padded", "phase_shape", "pitch", "stride", "taps")

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
            max(n, (m - 1) * s + (k - 1) * d + 1)
            for n, m, s, k, d in zip(size, out, stride, kernel, dilation, strict=True)
        ]
        self.phase_shape = tuple([-(-n // s) for n, s in zip(reach, stride, strict=True)])
        self.padded = tuple([n * s for n, s in zip(self.phase_shape, stride, strict=True)])
        pitch = [prod(self.phase_shape[i + 1 :]) for i in range(len(size))]
        self.pitch = pitch
        self.length = sum((m - 1) * p for m, p in zip(out, pitch, strict=True)) + 1
        self.taps = list(product(*map(range, kernel)))
        self.offsets = []
        for tap in self.taps:
            reads = [t * d for t, d in zip(tap, dilation, strict=True)]
            phase = 0
            for r, s in zip(reads, stride, strict=True):
                phase = phase * s + r % s
            self.offsets.append((phase, sum(r // s * p for r, s, p in zip(reads, stride, pitch, strict=True))))

    def split(self, x: np.ndarray, low: Sequence[int]) -> np.ndarray:
        """Zero-pad x (N, C, *) by `low` in front, to `padded` overall: phases (phase, N * C, plane)."""
        n, c = x.shape[:2]
        nd = len(low)
        full = np.zeros((n, c, *self.padded), x.dtype)
        full[(..., *[slice(p, p + s) for p, s in zip(low, x.shape[2:], strict=True)])] = x
        if prod(self.stride) == 1:
            return full.reshape(1, n * c, -1)
        interleaved = [v for pair in zip(self.phase_shape, self.stride, strict=True) for v in pair]
        axes = [2 + 2 * i for i in range(nd)], [1 + 2 * i for i in range(nd)]
        parts = full.reshape(n * c, *interleaved).transpose(*axes[0], 0, *axes[1])
        return parts.reshape(prod(self.stride), n * c, -1)

    def join(self, phases: np.ndarray) -> np.ndarray:
        """Inverse of `split`: (phase, planes, plane) to (planes, *padded)."""
        if prod(self.stride) == 1:
            return phases.reshape(phases.shape[1], *self.padded)
        nd = len(self.stride)
        parts = phases.reshape(*self.stride, phases.shape[1], *self.phase_shape)
        axes = [nd] + [axis for i in range(nd) for axis in (nd + 1 + i, i)]
        return parts.transpose(axes).reshape(phases.shape[1], *self.padded)

    def widen(self, g: np.ndarray) -> np.ndarray:
        """g (N, C, *out) at the phases' pitch, the surplus columns zero: (N * C, length)."""
        planes, out = g.shape[0] * g.shape[1], g.shape[2:]
        wide = np.zeros((planes, out[0], *self.phase_shape[1:]), g.dtype)
        wide[(..., *[slice(m) for m in out[1:]])] = g.reshape(planes, *out)
        return wide.reshape(planes, -1)[:, : self.length]


def _plane_blocks(planes: int, plane: int):
    step = max(1, _BLOCK // plane)
    for i in range(0, planes, step):
        yield slice(i, min(i + step, planes))


def depthwise(
    x: np.ndarray,
    w: np.ndarray,
    out: Sequence[int],
    stride: Sequence[int],
    low: Sequence[int],
    dilation: Sequence[int],
) -> np.ndarray:
    """x (N, C, *), already padded but for `low` zeros in front, with w (C, *kernel): (N, C, *out)."""
    n, c = x.shape[:2]
    size = [s + p for s, p in zip(x.shape[2:], low, strict=True)]
    plan = _Plan(size, w.shape[1:], out, stride, dilation)
    phases = plan.split(x, low)
    columns = np.tile(w.reshape(c, -1), (n, 1))[:, :, None]  # one filter per plane
    result = np.empty((n * c, *out), x.dtype)
    width = out[0] * plan.pitch[0]
    keep = (slice(None), slice(None), *[slice(m) for m in out[1:]])
    for planes in _plane_blocks(n * c, width):
        count = planes.stop - planes.start
        total = np.empty((count, width), x.dtype)
        sums = total[:, : plan.length]
        part = np.empty_like(sums)
        for tap, (phase, offset) in enumerate(plan.offsets):
            image = phases[phase, planes, offset : offset + plan.length]
            weight = columns[planes, tap]
            if tap == 0:
                np.multiply(image, weight, out=sums)
            else:
                np.multiply(image, weight, out=part)
                np.add(sums, part, out=sums)
        result[planes] = total.reshape(count, out[0], *plan.phase_shape[1:])[keep]
    return result.reshape(n, c, *out)


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
    columns = np.tile(w.reshape(c, -1), (n, 1))[:, :, None]
    phases = np.zeros((prod(plan.stride), n * c, prod(plan.phase_shape)), g.dtype)
    for planes in _plane_blocks(n * c, plan.length):
        grad = wide[planes]
        part = np.empty_like(grad)
        for tap, (phase, offset) in enumerate(plan.offsets):
            np.multiply(grad, columns[planes, tap], out=part)
            target = phases[phase, planes, offset : offset + plan.length]
            np.add(target, part, out=target)
    full = plan.join(phases)
    inner = full[(slice(None), *[slice(p, p + s) for p, s in zip(padding, size, strict=True)])]
    return np.ascontiguousarray(inner).reshape(n, c, *size)


def depthwise_grad_weight(
    g: np.ndarray,
    x: np.ndarray,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> np.ndarray:
    """Adjoint of `depthwise` in w: g (N, C, *out) and x (N, C, *) to (C, *kernel)."""
    n, c = g.shape[:2]
    size = [s + 2 * p for s, p in zip(x.shape[2:], padding, strict=True)]
    plan = _Plan(size, kernel, g.shape[2:], stride, dilation)
    phases = plan.split(x, padding)
    wide = plan.widen(g)
    products = np.empty((n * c, len(plan.taps)), x.dtype)
    for planes in _plane_blocks(n * c, plan.length):
        grad = wide[planes]
        for tap, (phase, offset) in enumerate(plan.offsets):
            image = phases[phase, planes, offset : offset + plan.length]
            # einsum rather than vecdot: complex values are not to be conjugated.
            products[planes, tap] = np.einsum("pl,pl->p", image, grad)
    return products.reshape(n, c, -1).sum(axis=0).reshape(c, *kernel)
