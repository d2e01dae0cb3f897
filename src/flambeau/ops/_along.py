"""Picking elements along a dimension by position, and putting gradients back: what sort, max, median share.

`pick` and `place` are each other's derivative; the positions along a line are distinct there. `pick_any` and
`place_sum`, which adds, are the same for positions that may repeat (cummax, quantile).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.apply import apply_n
from flambeau.core.objects import TensorBase
from flambeau.core.op import Op
from flambeau.kernels.scatter import gather_backward

from ._meta import Meta
from ._record import KERNEL, primitive
from ._shapes import reduced, shaped


def _pick(a: np.ndarray, index: np.ndarray, dim: int, keepdim: bool) -> np.ndarray:
    if a.ndim == 0:
        return a.copy() if index.ndim == 0 else a.reshape(1)[index]
    if keepdim:
        return np.take_along_axis(a, index, dim)
    return np.take_along_axis(a, np.expand_dims(index, dim), dim).squeeze(dim)


def _place(g: np.ndarray, index: np.ndarray, shape: tuple, dim: int, keepdim: bool) -> np.ndarray:
    out = np.zeros(shape, g.dtype)
    if not shape:
        out[...] = g.reshape(())
    elif keepdim:
        np.put_along_axis(out, index, g, dim)
    else:
        np.put_along_axis(out, np.expand_dims(index, dim), np.expand_dims(g, dim), dim)
    return out


def _pick_shape(self: Meta, index: Meta, *_: Any) -> Meta:
    return Meta(index.shape, self.dtype)


# keepdim: the positions have the dimension; without it, one position for each line
PICK = primitive("pick", _pick, inputs=("self", "index"), params=("dim", "keepdim"), promotes=False, meta=_pick_shape,
                 expr=KERNEL,
                 node="GatherBackward0",
                 self=lambda xp, g, index, self_shape, dim, keepdim: xp.place(g, index, self_shape, dim, keepdim))
PLACE = primitive("place", _place, inputs=("self", "index"), params=("shape", "dim", "keepdim"), promotes=False,
                  meta=shaped(2), expr=KERNEL,
                  node="ScatterBackward0", self=lambda xp, g, index, dim, keepdim: xp.pick(g, index, dim, keepdim))
PLACE_SUM = primitive("place_sum", lambda g, index, shape, dim: gather_backward(g, shape, dim, index),
                      inputs=("self", "index"), params=("shape", "dim"), promotes=False, meta=shaped(2), expr=KERNEL,
                      node="ScatterAddBackward0", self=lambda xp, g, index, dim: xp.pick_any(g, index, dim))
# positions may repeat along a line
PICK_ANY = primitive("pick_any", lambda a, index, dim: _pick(a, index, dim, True), inputs=("self", "index"), params=("dim",),
                     promotes=False, meta=_pick_shape, expr=KERNEL, node="GatherBackward0",
                     self=lambda xp, g, index, self_shape, dim: xp.place_sum(g, index, self_shape, dim))


def selection(name: str, kernel: Any, params: tuple, node: str | None = None, meta: Any = None) -> Op:
    """A primitive with outputs (values, indices) that picks one element of each line: params[...] has dim, keepdim."""
    return primitive(name, kernel, params=params, outputs=(True, False), node=node,
                     meta=meta or reduced(index=True, empty=False), expr=KERNEL,
                     self=lambda xp, g, out1, self_shape, dim, keepdim: xp.place(g, out1, self_shape, dim, keepdim))


def pair(result_type: type, op: Op, t: TensorBase, params: tuple) -> Any:
    """The two outputs of op under their names."""
    return tuple.__new__(result_type, apply_n(op, [t], params))
