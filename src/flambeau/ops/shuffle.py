"""Channels traded for pixels and back, and channels exchanged between groups."""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.apply import apply1
from flambeau.core.objects import shape_of

from ._args import integer, tensor
from ._meta import Meta
from ._record import KERNEL, call, primitive, public
from ._shapes import like


def _pixel_shuffle(a: np.ndarray, r: int) -> np.ndarray:
    *batch, c, h, w = a.shape
    n = len(batch)
    parts = a.reshape((*batch, c // (r * r), r, r, h, w))
    order = (*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return np.ascontiguousarray(parts.transpose(order)).reshape((*batch, c // (r * r), h * r, w * r))


def _pixel_unshuffle(a: np.ndarray, r: int) -> np.ndarray:
    *batch, c, h, w = a.shape
    n = len(batch)
    parts = a.reshape((*batch, c, h // r, r, w // r, r))
    order = (*range(n), n, n + 2, n + 4, n + 1, n + 3)
    return np.ascontiguousarray(parts.transpose(order)).reshape((*batch, c * r * r, h // r, w // r))


def _channel_shuffle(a: np.ndarray, groups: int) -> np.ndarray:
    n, c, *rest = a.shape
    return np.ascontiguousarray(a.reshape((n, groups, c // groups, *rest)).swapaxes(1, 2)).reshape(a.shape)


def _shuffled(self: Meta, r: int, back: bool) -> Meta:
    *lead, c, h, w = self.shape
    return Meta((*lead, c * r * r, h // r, w // r) if back else (*lead, c // (r * r), h * r, w * r), self.dtype)


PIXEL_SHUFFLE = primitive(
    "pixel_shuffle",
    _pixel_shuffle,
    params=("factor",),
    meta=lambda self, factor: _shuffled(self, factor, False),
    batch="leading", expr=KERNEL,
    self=lambda xp, g, factor: xp.pixel_unshuffle(g, factor),
)
PIXEL_UNSHUFFLE = primitive(
    "pixel_unshuffle",
    _pixel_unshuffle,
    params=("factor",),
    meta=lambda self, factor: _shuffled(self, factor, True),
    batch="leading", expr=KERNEL,
    self=lambda xp, g, factor: xp.pixel_shuffle(g, factor),
)
CHANNEL_SHUFFLE = primitive(
    "channel_shuffle",
    _channel_shuffle,
    params=("groups",),
    meta=like(),
    batch="items", expr=KERNEL,
    self=lambda xp, g, self_shape, groups: xp.channel_shuffle(g, self_shape[1] // groups),
)


def _checked(name: str, input: Any, factor: int, what: str) -> tuple:
    shape = tuple(shape_of(tensor(input, name)))
    if len(shape) < 3:
        raise RuntimeError(
            f"{name} expects input to have at least 3 dimensions, (*, C, H, W), and this one has {len(shape)}: shape "
            f"{list(shape)}"
        )
    factor = integer(factor, name, what)
    if factor <= 0:
        raise RuntimeError(f"{name} expects a positive {what}, but got {factor}")
    return shape


@public(
    namespaces=("torch", "nn.functional"),
    method=False,
    out=False,
    samples=lambda t: [call(t(1, 8, 2, 3), 2), call(t(9, 1, 2), 3), call(t(2, 2, 4, 1, 1), 2),
                       call(t(0, 4, 2, 2, grad=False), 2)],
    errors=lambda t: [
        (call(t(1, 3, 2, 2), 2), RuntimeError, "upscale_factor"),
        (call(t(2, 2), 2), RuntimeError, "at least 3 dimensions"),
    ],
)
def pixel_shuffle(input: Any, upscale_factor: int) -> Any:
    """Channels laid out as pixels: (*, C * r * r, H, W) becomes (*, C, H * r, W * r) for upscale_factor r.

    Source: Shi et al., 2016, arXiv:1609.05158.

    >>> flambeau.pixel_shuffle(flambeau.arange(4).reshape(4, 1, 1), 2).tolist()
    [[[0, 1], [2, 3]]]
    """
    shape = _checked("pixel_shuffle", input, upscale_factor, "upscale_factor")
    if shape[-3] % (upscale_factor * upscale_factor):
        raise RuntimeError(
            f"pixel_shuffle takes upscale_factor ** 2 = {upscale_factor * upscale_factor} channels for each channel "
            f"of the result, and this does not divide input.size(-3)={shape[-3]}. Change the number of channels "
            "before it."
        )
    return apply1(PIXEL_SHUFFLE, input, (upscale_factor,))


@public(
    namespaces=("torch", "nn.functional"),
    method=False,
    out=False,
    samples=lambda t: [call(t(1, 2, 4, 6), 2), call(t(1, 3, 3), 3), call(t(2, 2, 1, 2, 2), 2)],
    errors=lambda t: [(call(t(1, 3, 3, 2), 2), RuntimeError, "to be divisible by")],
)
def pixel_unshuffle(input: Any, downscale_factor: int) -> Any:
    """Pixels laid out as channels, the inverse of `pixel_shuffle`: (*, C, H * r, W * r) becomes (*, C * r * r, H, W).

    >>> flambeau.pixel_unshuffle(flambeau.arange(4).reshape(1, 2, 2), 2).flatten().tolist()
    [0, 1, 2, 3]
    """
    shape = _checked("pixel_unshuffle", input, downscale_factor, "downscale_factor")
    for name, n in (("height", shape[-2]), ("width", shape[-1])):
        if n % downscale_factor:
            raise RuntimeError(
                f"pixel_unshuffle expects {name} to be divisible by downscale_factor, but {n} is not divisible by "
                f"{downscale_factor}"
            )
    return apply1(PIXEL_UNSHUFFLE, input, (downscale_factor,))


@public(
    namespaces=("torch", "nn.functional"),
    method=False,
    out=False,
    samples=lambda t: [call(t(1, 6, 2, 2), 3), call(t(2, 4, 3), 2)],
    errors=lambda t: [
        (call(t(1, 4, 2, 2), 3), RuntimeError, "divisible by groups"),
        (call(t(2, 2), 2), RuntimeError, "> 2 dims"),
    ],
)
def channel_shuffle(input: Any, groups: int) -> Any:
    """Channels dealt out from their groups in turn: with 2 groups of 2, channels 0 1 2 3 come out as 0 2 1 3.

    Args:
        input: (N, C, *) with C divisible by groups.

    Source: Zhang et al., 2018, arXiv:1707.01083.

    >>> flambeau.channel_shuffle(flambeau.arange(4).reshape(1, 4, 1), 2).flatten().tolist()
    [0, 2, 1, 3]
    """
    shape = tuple(shape_of(tensor(input, "channel_shuffle")))
    if len(shape) < 3:
        raise RuntimeError(f"channel_shuffle expects input with > 2 dims, but got input with shape {list(shape)}")
    groups = integer(groups, "channel_shuffle", "groups")
    if groups <= 0:
        raise RuntimeError(f"Number of groups to divide channels in must be positive. Value of groups:{groups}")
    if shape[1] % groups:
        raise RuntimeError(f"Number of channels must be divisible by groups. Got {shape[1]} channels and {groups} groups.")
    return apply1(CHANNEL_SHUFFLE, input, (groups,))
