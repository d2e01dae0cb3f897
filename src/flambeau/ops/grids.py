"""Images sampled at any places: grid_sample, and the places of an affine map, affine_grid.

Derivatives in the image and in the grid exist to any order. Where none is asked for, grid_sample is one kernel; in
"bilinear" mode, `sample` at places in elements, and what leads there, else a composition.
Source: Jaderberg et al., "Spatial transformer networks", arXiv:1506.02025.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator
from itertools import product
from math import prod
from typing import Any

import numpy as np

from flambeau.core.apply import apply_n
from flambeau.core.objects import array_of, dtype_of, make, requires, shape_of
from flambeau.core.origin import warn_user
from flambeau.core.state import grad_enabled, state
from flambeau.kernels import grid_sample as kernel
from flambeau.kernels.services import is_float

from ._args import integer, tensor
from ._lazy import is_meta, placed, standing_for
from ._meta import Meta
from ._record import KERNEL, call, kernels, ops, primitive, public

_MODES = ("bilinear", "nearest", "bicubic")
_PADDINGS = ("zeros", "border", "reflection")


def _warn_corners(function: str) -> None:
    warn_user(f"Default {function} behavior has changed to align_corners=False since 1.3.0. Please specify "
              "align_corners=True if the old behavior is desired, or align_corners=False.")


# --------------------------------------------------------------------------------- places of an affine map


@public(namespaces=("nn.functional",), method=False, out=False, samples=lambda t: [
    call(t(2, 2, 3), (2, 1, 3, 4), align_corners=False), call(t(1, 3, 4), [1, 1, 2, 3, 2], align_corners=True)],
    errors=lambda t: [
    (call(t(1, 2, 2), (1, 1, 2, 2), False), ValueError, "Expected a batch of 2D affine matrices"),
    (call(t(1, 2, 3), (1, 1, 2), False), NotImplementedError, "only supports 4D and 5D sizes"),
    (call(t(1, 2, 3), (1, 1, 0, 2), False), ValueError, "non-zero, positive output size")])
def affine_grid(theta: Any, size: Any, align_corners: bool | None = None) -> Any:
    """The places that affine maps send the elements of an image to, for `grid_sample`.

    Args:
        theta: maps, (N, 2, 3) for images, (N, 3, 4) for volumes.
        size: of the output, (N, C, H, W) or (N, C, D, H, W).
        align_corners: -1 and 1 are the centres of the corner elements, not their outer corners.

    Returns:
        Tensor (N, H, W, 2) or (N, D, H, W, 3): coordinates x, y(, z) from -1 to 1.

    Raises:
        ValueError, NotImplementedError: theta or size that do not fit.

    >>> identity = flambeau.tensor([[[1., 0., 0.], [0., 1., 0.]]])
    >>> flambeau.nn.functional.affine_grid(identity, (1, 1, 1, 2), align_corners=True)[0, 0].tolist()
    [[-1.0, 0.0], [1.0, 0.0]]
    """
    t: Any = tensor(theta, "affine_grid", "theta")
    sizes = tuple(integer(s, "affine_grid", "size") for s in size)
    if not is_float(dtype_of(t)):
        raise ValueError(f"Expected theta to have floating point type, but got {t.dtype}")
    n = len(sizes) - 2
    if n not in (2, 3):
        raise NotImplementedError("affine_grid only supports 4D and 5D sizes: (N, C, H, W) for 2D transforms and "
                                  f"(N, C, D, H, W) for 3D ones. Got size {sizes}.")
    if len(shape_of(t)) != 3 or shape_of(t)[1:] != (n, n + 1):
        raise ValueError(f"Expected a batch of {n}D affine matrices of shape Nx{n}x{n + 1} for size {sizes}. Got "
                         f"{t.shape}.")
    if min(sizes) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {sizes}")
    if shape_of(t)[0] != sizes[0]:
        raise RuntimeError(f"affine_grid: theta holds {shape_of(t)[0]} maps, but size asks for {sizes[0]} images")
    if align_corners is None:
        _warn_corners("grid_sample and affine_grid")
        align_corners = False
    d = dtype_of(t)

    def places() -> np.ndarray:
        found = np.ones((*sizes[2:], n + 1), d)
        for i, s in enumerate(reversed(sizes[2:])):
            found[..., i] = _centres(s, align_corners, d).reshape(-1, *(1,) * i)
        return found.reshape(1, -1, n + 1)

    flat: Any = placed(t, (1, prod(sizes[2:]), n + 1), d, places)
    flat = flat.expand(sizes[0], -1, -1)
    return (flat @ t.transpose(1, 2)).reshape(sizes[0], *sizes[2:], n)


def _centres(size: int, align: bool, d: np.dtype) -> np.ndarray:
    if size == 1:
        return np.zeros(1, d)
    centres = np.linspace(-1, 1, size)
    return (centres if align else centres * (size - 1) / size).astype(d)


# --------------------------------------------------------------------------------- sampling


def _in_elements(x: Any, size: int, align: bool) -> Any:
    """Coordinates from -1 to 1 as positions counted in elements."""
    return (x + 1) * ((size - 1) / 2) if align else ((x + 1) * size - 1) / 2


def _reflected(x: Any, low: float, high: float) -> Any:
    """Positions mirrored at low and high, as often as needed."""
    if low == high:
        return x * 0
    span = high - low
    x = (x - low).abs()
    a = np.nan_to_num(array_of(x), nan=0.0, posinf=0.0)
    flips = np.floor(a / span)
    extra = x - make((flips * span).astype(dtype_of(x)))
    return (extra + low).where(make(flips % 2 == 0), (span - extra) + low)


def _padded(x: Any, size: int, padding: str, align: bool) -> Any:
    """Positions brought inside, as the padding mode says."""
    if padding == "zeros":
        return x
    if padding == "reflection":
        x = _reflected(x, 0.0, size - 1.0) if align else _reflected(x, -0.5, size - 0.5)
    return x.clamp(0, size - 1)


def _cubic_weights(t: Any) -> list[Any]:
    """Of the elements at -1, 0, 1 and 2 from a position 0 <= t < 1 (Keys, 1981, with a = -0.75)."""
    a = -0.75

    def near(x: Any) -> Any:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: Any) -> Any:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def _near(x: Any) -> np.ndarray:
    """The values of x, with something far outside for what is no finite number."""
    values = array_of(x)
    return np.where(np.isfinite(values), np.clip(values, -2.0**30, 2.0**30), -100).astype(values.dtype)


def _linear_taps(x: Any) -> list[tuple[np.ndarray, Any]]:
    """The two neighbours of positions x along one axis, and their weights."""
    base = np.floor(_near(x))
    t = x - make(base)
    first = base.astype(np.int64)
    return [(first, 1 - t), (first + 1, t)]


def _taps(x: Any, size: int, mode: str, padding: str, align: bool) -> list[tuple[np.ndarray, Any]]:
    """For each neighbour along one axis: (positions, whole; weights, or None for one)."""
    d = dtype_of(x)
    x = _in_elements(x, size, align)
    if mode != "bicubic":
        x = _padded(x, size, padding, align)
    if mode == "nearest":
        return [(np.rint(_near(x)).astype(np.int64), None)]
    if mode == "bilinear":
        return _linear_taps(x)
    base = np.floor(_near(x))
    t = x - make(base)
    first = base.astype(np.int64)
    taps = []
    for k, w in enumerate(_cubic_weights(t)):
        at = make((first + (k - 1)).astype(d))
        taps.append((np.rint(array_of(_padded(at, size, padding, align))).astype(np.int64), w))
    return taps


def _planned(input: Meta, grid: Meta, *_: Any) -> Meta:
    return Meta((*input.shape[:2], *grid.shape[1:-1]), input.dtype)


VALUES = primitive("grid_sample_values", kernel.grid_sample, inputs=("self", "grid"), params=("mode", "padding", "align"),
                   promotes=False, differentiable=False, meta=_planned, expr=KERNEL)


def _plain(input: Any, grid: Any, mode: str) -> bool:
    """Whether one kernel may do it: no derivative is asked for."""
    d = dtype_of(input)
    return (mode != "bicubic" and (d is state.f32 or d is state.f64) and state.special == 0
            and not (grad_enabled() and (requires(input) or requires(grid))))


def _product(factors: list) -> Any:
    """None of nothing."""
    return functools.reduce(operator.mul, factors) if factors else None


def _flat_index(corner: tuple, shape: tuple) -> tuple[Any, Any]:
    """(for each place and channel the position in a flattened image of shape, int64 (N, C, places); the mask of places
    outside it, None when there is none)."""
    index = np.zeros(corner[0][0].shape, np.int64)
    inside = np.ones(index.shape, bool)
    for (at, _), size in zip(corner, shape[2:], strict=True):
        inside &= (at >= 0) & (at < size)
        index = index * size + np.clip(at, 0, size - 1)
    where = np.broadcast_to(index.reshape(shape[0], 1, -1), (shape[0], shape[1], prod(index.shape[1:])))
    return make(np.ascontiguousarray(where)), None if inside.all() else make(~inside[:, None])


def _gathered(input: Any, where: Any, outside: Any, out_size: tuple) -> Any:
    shape = shape_of(input)
    values = input.reshape(*shape[:2], -1).gather(2, where).reshape(*shape[:2], *out_size)
    return values if outside is None else values.masked_fill(outside, 0)


# The derivatives of `sample` are kernels in an ordinary backward; with create_graph=True they are composed.


def _neighbours(places: Any, shape: tuple) -> Iterator[tuple]:
    """For each corner: (number of its tap along each axis, weights, position and mask as in `_flat_index`)."""
    n = len(shape) - 2
    axes = [list(enumerate(_linear_taps(places.select(-1, n - 1 - i)))) for i in range(n)]
    for corner in product(*axes):
        taps = tuple([tap for _, tap in corner])
        yield [k for k, _ in corner], [w for _, w in taps], *_flat_index(taps, shape)


def _composed_self(g: Any, places: Any, shape: tuple) -> Any:
    total: Any = make(np.zeros((*shape[:2], prod(shape[2:])), dtype_of(g)))
    for _, weights, where, outside in _neighbours(places, shape):
        part = g * _product(weights).unsqueeze(1)
        if outside is not None:
            part = part.masked_fill(outside, 0)
        total = total.scatter_add(2, where, part.reshape(*shape[:2], -1))
    return total.reshape(shape)


def _composed_places(g: Any, self: Any, places: Any) -> Any:
    shape = shape_of(self)
    found: list[Any] = [None] * (len(shape) - 2)
    for numbers, weights, where, outside in _neighbours(places, shape):
        share = (_gathered(self, where, outside, shape_of(g)[2:]) * g).sum(1)
        for axis, number in enumerate(numbers):
            part = _product([share, *weights[:axis], *weights[axis + 1:]])
            part = part if number else -part
            found[axis] = part if found[axis] is None else found[axis] + part
    return ops.stack(found[::-1], len(shape) - 1)


kernels.sample_backward_self, ops.sample_backward_self = kernel.sample_backward_self, _composed_self
kernels.sample_backward_places, ops.sample_backward_places = kernel.sample_backward_places, _composed_places
SAMPLE = primitive("grid_sample_at", kernel.sample, inputs=("self", "places"), promotes=False, meta=_planned, expr=KERNEL,
                   node="GridSampler2DBackward0",
                   self=lambda xp, g, places, self_shape: xp.sample_backward_self(g, places, self_shape),
                   places=lambda xp, g, self, places: xp.sample_backward_places(g, self, places))


def _places(grid: Any, size: tuple, padding: str, align: bool) -> Any:
    """The places of a grid counted in elements, brought inside as the padding mode says."""
    if padding == "zeros":
        sizes = np.array(size[::-1], dtype_of(grid))
        return (grid + 1) * make((sizes - 1) / 2) if align else ((grid + 1) * make(sizes) - 1) / 2
    n = len(size)
    return ops.stack([_padded(_in_elements(grid.select(-1, i), size[n - 1 - i], align), size[n - 1 - i], padding, align)
                      for i in range(n)], n + 1)


def _sample(input: Any, grid: Any, mode: str, padding: str, align: bool) -> Any:
    shape = shape_of(input)
    if is_meta(input) or is_meta(grid):
        return standing_for([input, grid], Meta((*shape[:2], *shape_of(grid)[1:-1]), dtype_of(input)), "grid_sample")
    if _plain(input, grid, mode):
        return apply_n(VALUES, [input, grid], (mode, padding, align))
    inner = shape[2:]
    n, out_size = len(inner), shape_of(grid)[1:-1]
    if mode == "bilinear" and (dtype_of(input) is state.f32 or dtype_of(input) is state.f64):
        return apply_n(SAMPLE, [input, _places(grid, inner, padding, align)])
    # the grid's last axis is x, y(, z): the last dimension first
    axes = [_taps(grid.select(-1, n - 1 - i), inner[i], mode, padding, align) for i in range(n)]
    total = None
    for corner in product(*axes):
        where, outside = _flat_index(corner, shape)
        values = _gathered(input, where, outside, out_size)
        weight = _product([w for _, w in corner if w is not None])
        values = values if weight is None else values * weight.unsqueeze(1)
        total = values if total is None else total + values
    if mode == "nearest" and grid.requires_grad:       # linked: the derivative in the grid is zero, as in PyTorch
        total = total * ((grid * 0).nan_to_num(0, 0, 0).sum(-1).unsqueeze(1) + 1)
    return total


@public(namespaces=("nn.functional",), method=False, out=False, samples=lambda t: [
    call(t(2, 3, 4, 5), t(2, 3, 2, 2, low=-1.2, high=1.2), align_corners=False),
    call(t(1, 2, 4, 4), t(1, 3, 2, 2, low=-1.4, high=1.4), "bilinear", "border", True),
    call(t(1, 2, 4, 4), t(1, 3, 2, 2, low=-1.4, high=1.4), "bicubic", "reflection", False),
    call(t(1, 2, 4, 4), t(1, 3, 2, 2), "nearest", "zeros", False),
    call(t(1, 2, 3, 4, 2), t(1, 2, 2, 2, 3, low=-1.1, high=1.1), align_corners=True)], errors=lambda t: [
    (call(t(1, 2, 4, 4), t(2, 3, 2, 2), align_corners=False), RuntimeError, "to have same batch size"),
    (call(t(1, 2, 4, 4), t(1, 3, 2, 3), align_corners=False), RuntimeError, "to have size 2 in last dimension"),
    (call(t(1, 2, 4, 4), t(1, 3, 2, 2), "some"), ValueError, "mode must be"),
    (call(t(1, 2, 4, 4), t(1, 3, 2, 2), "nearest", "some"), ValueError, "padding_mode")])
def grid_sample(input: Any, grid: Any, mode: str = "bilinear", padding_mode: str = "zeros",
                align_corners: bool | None = None) -> Any:
    """input at the places of grid.

    Args:
        input: (N, C, H, W) or (N, C, D, H, W).
        grid: places, (N, H', W', 2) or (N, D', H', W', 3): x, y(, z) from -1 to 1 across input.
        mode: "bilinear" (trilinear in volumes), "nearest" or "bicubic" (images only).
        padding_mode: outside there are "zeros", the nearest "border" element, or its "reflection".
        align_corners: -1 and 1 are the centres of the corner elements, not their outer corners.

    Returns:
        Tensor (N, C, H', W') or (N, C, D', H', W').

    Raises:
        ValueError: another mode. RuntimeError: sizes or dtypes that do not fit.

    >>> image = flambeau.tensor([[[[1., 3.]]]])
    >>> flambeau.nn.functional.grid_sample(image, flambeau.zeros(1, 1, 1, 2), align_corners=True).item()
    2.0
    """
    a, g = tensor(input, "grid_sample"), tensor(grid, "grid_sample", "grid", 2)
    if mode not in _MODES:
        raise ValueError("nn.functional.grid_sample(): mode must be 'bilinear', 'nearest' or 'bicubic', not "
                         f"'{mode}'")
    if padding_mode not in _PADDINGS:
        raise ValueError("nn.functional.grid_sample(): padding_mode must be 'zeros', 'border' or 'reflection', not "
                         f"'{padding_mode}'")
    if align_corners is None:
        _warn_corners("grid_sample and affine_grid")
        align_corners = False
    shape, places = shape_of(a), shape_of(g)
    sizes = f"input with sizes {list(shape)} and grid with sizes {list(places)}"
    if len(shape) not in (4, 5) or len(places) != len(shape):
        raise RuntimeError("grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but got "
                           f"{sizes}")
    if shape[0] != places[0]:
        raise RuntimeError(f"grid_sampler(): expected grid and input to have same batch size, but got {sizes}")
    if places[-1] != len(shape) - 2:
        raise RuntimeError(f"grid_sampler(): expected grid to have size {len(shape) - 2} in last dimension, but got "
                           f"{sizes}")
    if 0 in shape[2:]:
        raise RuntimeError(f"grid_sampler(): expected input to have non-empty spatial dimensions, but got {sizes}")
    if mode == "bicubic" and len(shape) == 5:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
    if dtype_of(a) is not dtype_of(g):
        raise RuntimeError("grid_sampler(): expected input and grid to have same dtype, but input has "
                           f"{dtype_of(a).name} and grid {dtype_of(g).name}")
    return _sample(a, g, mode, padding_mode, bool(align_corners))


def _grid_sampler(input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Any:
    """`nn.functional.grid_sample` with modes by number: bilinear, nearest, bicubic; zeros, border, reflection."""
    return grid_sample(input, grid, _MODES[interpolation_mode], _PADDINGS[padding_mode], align_corners)


for _name, _size in (("grid_sampler", (4, 5)), ("grid_sampler_2d", (4, 5)), ("grid_sampler_3d", (3, 2, 4))):
    public(name=_name, method=False, out=False, samples=lambda t, _size=_size: [
        call(t(1, 2, *_size), t(1, *[2] * len(_size), len(_size), low=-1.2, high=1.2), 0, 1, False)])(_grid_sampler)
