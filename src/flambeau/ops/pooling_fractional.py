"""Fractional max pooling: windows whose distances are drawn, so that sizes shrink by any ratio.

Source: Graham, "Fractional max-pooling", arXiv:1412.6071.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from flambeau.core.apply import apply_n
from flambeau.core.dtype import dtype_of_array
from flambeau.core.objects import dtype_of, shape_of
from flambeau.core.op import Op
from flambeau.kernels.pool import _argmax
from flambeau.kernels.services import is_float

from ._args import tensor
from ._meta import Meta
from ._record import KERNEL, call, primitive, public
from ._shapes import with_positions
from .pooling import _ints, _max_formula
from .random import rand


def _starts(u: np.ndarray, size: int, out: int, k: int) -> np.ndarray:
    """Where the windows begin, (planes, out), for draws u in [0, 1) of one axis: the last ends with the input."""
    starts = np.full((len(u), out), size - k, np.int64)
    if out > 1:
        alpha = u.dtype.type(size - k) / u.dtype.type(out - 1)
        steps = ((np.arange(out - 1, dtype=u.dtype) + u[:, None]) * alpha).astype(np.int64)
        starts[:, :-1] = steps - (u[:, None] * alpha).astype(np.int64)
    return starts


def _fractional(x: np.ndarray, draws: np.ndarray, kernel_size: tuple, output_size: tuple) -> tuple[np.ndarray, np.ndarray]:
    """(maxima, their flat spatial positions) of windows drawn for each plane of x (*, *spatial)."""
    nd = len(kernel_size)
    lead, size = x.shape[:-nd], x.shape[-nd:]
    planes = x.reshape(prod(lead), prod(size))
    u = draws.reshape(-1, nd)[:len(planes)].astype(x.dtype)     # a single sample takes the first ones
    # for images PyTorch takes the first draw for the width, for volumes the first for the depth
    order = (1, 0) if nd == 2 else (0, 1, 2)
    starts = [_starts(u[:, order[i]], size[i], output_size[i], kernel_size[i]) for i in range(nd)]
    flat = np.zeros((len(planes), *(1,) * (2 * nd)), np.int64)
    for i in range(nd):
        at = starts[i][:, :, None] + np.arange(kernel_size[i])
        shape = [len(planes)] + [1] * (2 * nd)
        shape[1 + i], shape[1 + nd + i] = output_size[i], kernel_size[i]
        flat = flat * size[i] + at.reshape(shape)
    windows = flat.reshape(len(planes), prod(output_size), prod(kernel_size))
    values = np.take_along_axis(planes[:, None, :], windows, 2) if x.size else np.zeros(windows.shape, x.dtype)
    best = _argmax(values.reshape(-1, values.shape[2])).reshape(*values.shape[:2], 1)
    shape = lead + output_size
    return (np.take_along_axis(values, best, 2).reshape(shape), np.take_along_axis(windows, best, 2).reshape(shape))


def _drawn(self: Meta, draws: Meta, kernel_size: tuple, output_size: tuple) -> Meta:
    return Meta((*self.shape[:self.ndim - len(output_size)], *output_size), self.dtype)


def _op(nd: int) -> Op:
    return primitive(
        f"fractional_max_pool{nd}d", _fractional, inputs=("self", "random_samples"), params=("kernel_size", "output_size"),
        outputs=(True, False), promotes=False,
        meta=with_positions(_drawn), batch="items", expr=KERNEL, node=f"FractionalMaxPool{nd}DBackward0",
        self=lambda xp, g, self, self_shape, out1, kernel_size: _max_formula(xp, g, self, self_shape, out1,
            len(kernel_size)))


_OPS = {2: _op(2), 3: _op(3)}


def _pool(nd: int, input: Any, kernel_size: Any, output_size: Any, output_ratio: Any, draws: Any) -> Any:
    function = f"fractional_max_pool{nd}d"
    t: Any = tensor(input, function)
    shape = shape_of(t)
    if output_size is None and output_ratio is None:
        raise ValueError(f"{function} needs the size of its result: pass either output_size or output_ratio.")
    d = dtype_of(t)
    if d.kind == "c" or not is_float(d):
        raise NotImplementedError(f'"{function}" not implemented for {str(dtype_of_array(d))[6:]!r}: convert input to '
                                  'a floating dtype')
    if len(shape) not in (nd + 1, nd + 2):
        raise IndexError(f"{function}: Expected {nd + 1}D or {nd + 2}D tensor, but got {list(shape)} (Dimension out of "
                         "range)")
    inner = shape[-nd:]
    size = _ints(function, kernel_size, nd, "kernel_size")
    if output_size is None:
        ratios = output_ratio if isinstance(output_ratio, (tuple, list)) else (output_ratio,) * nd
        output_size = tuple(int(s * r) for s, r in zip(inner, ratios, strict=True))
    out = _ints(function, output_size, nd, "output_size")
    for s, k, o in zip(inner, size, out, strict=True):
        if o + k - 1 > s or o < 1:
            raise RuntimeError(f"{function}(): pool size {k} too large relative to input size {s}: {o} windows do not "
                               "fit")
    if draws is None:
        n = shape[0] if len(shape) == nd + 2 else 1
        draws = rand(n, shape[-nd - 1], nd, dtype=t.dtype, device=t.device)
    given = shape_of(tensor(draws, function, "_random_samples", 6))
    if len(given) != 3 or given[2] != nd or given[1] != shape[-nd - 1] or given[0] < prod(shape[:-nd - 1]):
        raise RuntimeError(f"{function}: Expect _random_samples to have the shape (N, C, {nd}): got {list(given)} for an "
                           f"input of shape {list(shape)}")
    return apply_n(_OPS[nd], [t, draws], (size, out))


_SIZES = {2: (6, 7), 3: (5, 4, 6)}


def _register(nd: int) -> None:
    def pool(input: Any, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: bool = False,
             _random_samples: Any = None) -> Any:
        values, indices = _pool(nd, input, kernel_size, output_size, output_ratio, _random_samples)
        return (values, indices) if return_indices else values

    def with_indices(input: Any, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
                     return_indices: bool = False, _random_samples: Any = None) -> Any:
        return tuple(_pool(nd, input, kernel_size, output_size, output_ratio, _random_samples))

    name = f"fractional_max_pool{nd}d"
    letters = "H, W" if nd == 2 else "D, H, W"
    pool.__name__ = pool.__qualname__ = name
    with_indices.__name__ = with_indices.__qualname__ = name + "_with_indices"
    pool.__doc__ = (f"Maxima over windows at random distances.\n\nArgs:\n    input: (N, C, {letters}) or (C, "
                    f"{letters}).\n"
                    "    kernel_size: of the windows. output_size: their number, or output_ratio: its ratio to input's "
                    "size.\n"
                    "    return_indices: give also the positions of the maxima, int64.\n\nRaises:\n    ValueError: "
                    "neither size nor ratio. RuntimeError: windows that do not fit.\n\nSource: Graham, "
                    "arXiv:1412.6071.\n")
    with_indices.__doc__ = f"`{name}` with the positions of the maxima.\n\nReturns:\n    (maxima, int64 indices).\n"

    def samples(t: Any) -> list:
        return [call(t(2, 3, *_SIZES[nd]), 2, 3, _random_samples=t(2, 3, nd, low=0.0, high=0.99, grad=False)),
                call(t(3, *_SIZES[nd]), 2, output_ratio=0.5, _random_samples=t(1, 3, nd, low=0.0, high=0.99, grad=False))]

    for fn in (pool, with_indices):
        public(namespaces=("nn.functional",), method=False, out=False, samples=samples, random=True, errors=lambda t: [
            (call(t(2, 3, *_SIZES[nd]), 2), ValueError, "either output_size or output_ratio"),
            (call(t(2, 3, *_SIZES[nd]), 9, 3), RuntimeError, "too large relative to input")])(fn)


for _nd in (2, 3):
    _register(_nd)
