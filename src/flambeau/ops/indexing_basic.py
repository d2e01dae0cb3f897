"""`x[key]` and `x[key] = value`.

Integers, slices, None and Ellipsis give a chain of views, one node each, as in PyTorch; lists, tensors and masks in
the key give a copy (`index`).
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from flambeau.core.apply import apply1
from flambeau.core.inplace import apply_inplace, apply_inplace2
from flambeau.core.objects import TensorBase, array_of, dtype_of, shape_of
from flambeau.core.op import slot
from flambeau.core.state import state
from flambeau.kernels import indexing
from flambeau.kernels.layout import clone, surely_overlap
from flambeau.kernels.promotion import check_fits, number_dtype
from flambeau.kernels.services import sum_to

from . import _mapped
from ._lazy import is_meta, placed
from ._meta import Meta
from ._record import KERNEL, primitive
from ._shapes import like, needs_values, shaped

_COPY, _ALIAS = slot("copy"), slot("alias")


def _select(a: np.ndarray, dim: int, i: int) -> np.ndarray:
    if dim == 0:
        return a[i, ...]
    return a[(slice(None),) * dim + (i, ...)]


def _slice(a: np.ndarray, dim: int, start: int, stop: int, step: int) -> np.ndarray:
    if dim == 0:
        return a[start:stop:step]
    return a[(slice(None),) * dim + (slice(start, stop, step),)]


def _select_backward(g: np.ndarray, shape: tuple, dim: int, i: int) -> np.ndarray:
    out = np.zeros(shape, g.dtype)
    _select(out, dim, i)[...] = g
    return out


def _slice_backward(g: np.ndarray, shape: tuple, dim: int, start: int, stop: int, step: int) -> np.ndarray:
    out = np.zeros(shape, g.dtype)
    _slice(out, dim, start, stop, step)[...] = g
    return out


SELECT = primitive("select", _select, params=("dim", "i"), view=True, expr=KERNEL,
                   self=lambda xp, g, self_shape, dim, i: xp.select_backward(g, self_shape, dim, i))
primitive("select_backward", _select_backward, params=("shape", "dim", "i"), meta=shaped(), expr=KERNEL,
          self=lambda xp, g, dim, i: xp.select(g, dim, i))
SLICE = primitive("slice", _slice, params=("dim", "start", "stop", "step"), view=True, expr=KERNEL,
                  self=lambda xp, g, self_shape, dim, start, stop, step: xp.slice_backward(
                      g, self_shape, dim, start, stop, step))
primitive("slice_backward", _slice_backward, params=("shape", "dim", "start", "stop", "step"), meta=shaped(), expr=KERNEL,
          self=lambda xp, g, dim, start, stop, step: xp.slice(g, dim, start, stop, step))

def _picked(m: Meta, plan: Any) -> Meta:
    """The copy that a key selects."""
    view = indexing.index_basic(m.stand_in(), plan)
    if plan.advanced is None:
        return Meta(view.shape, m.dtype)
    return Meta(indexing.advanced_shape(view.shape, plan.advanced), m.dtype)


INDEX = primitive("index", indexing.index, params=("plan",), meta=_picked, expr=KERNEL,
                  self=lambda xp, g, self_shape, plan: xp.index_backward(g, self_shape, plan))
primitive("index_backward", indexing.index_backward, params=("shape", "plan"), meta=shaped(), expr=KERNEL,
          self=lambda xp, g, plan: xp.index(g, plan))


def _index_put(a: np.ndarray, values: np.ndarray, plan: Any) -> np.ndarray:
    out = clone(a)
    indexing.assign(out, plan, values)
    return out


def _index_cleared(g: np.ndarray, plan: Any) -> np.ndarray:
    out = clone(g)
    indexing.assign(out, plan, np.zeros((), g.dtype))
    return out


def _index_values(g: np.ndarray, shape: tuple, plan: Any) -> np.ndarray:
    picked = indexing.index(g, plan)
    return sum_to(picked, shape) if picked.ndim >= len(shape) else picked.reshape(shape)


INDEX_PUT = primitive("index_put", _index_put, inputs=("self", "values"), params=("plan",), promotes=False, meta=like(),
                      expr=KERNEL,
                      self=lambda xp, g, plan: xp.index_cleared(g, plan),
                      values=lambda xp, g, values_shape, plan: xp.index_values(g, values_shape, plan))
primitive("index_cleared", _index_cleared, params=("plan",), meta=like(), expr=KERNEL,
          self=lambda xp, g, plan: xp.index_cleared(g, plan))
primitive("index_values", _index_values, params=("shape", "plan"), meta=shaped(), expr=KERNEL,
          self=lambda xp, g, self_shape, shape, plan: xp.index_backward(xp.expand_as_index(g, self_shape, plan), self_shape,
                                                                        plan))


def _expand_as_index(g: np.ndarray, shape: tuple, plan: Any) -> np.ndarray:
    probe = indexing.index(np.lib.stride_tricks.as_strided(np.zeros(1, "?"), shape, (0,) * len(shape)), plan)
    return np.array(np.broadcast_to(g, probe.shape))


primitive("expand_as_index", _expand_as_index, params=("shape", "plan"),
          meta=lambda self, shape, plan: _picked(Meta(shape, self.dtype), plan), expr=KERNEL,
          self=lambda xp, g, self_shape: xp.sum_to(g, self_shape))


def _unknown(index: TensorBase, writing: bool) -> np.ndarray:
    """A meta index as an array of its shape, whose values nobody reads: zeros in the memory of one element."""
    d, shape = dtype_of(index), tuple(shape_of(index))
    if (d.kind == "b" or d == np.uint8) and not writing:
        raise needs_values("nonzero")
    if not shape:
        raise RuntimeError("Tensor.item() cannot be called on meta tensors: an index without dimensions is a number")
    return np.broadcast_to(np.zeros(1, d), shape)


def _plain(item: Any, writing: bool = False) -> Any:
    """An item of a key without tensors: 0-d integer tensors are numbers, others arrays."""
    if isinstance(item, TensorBase):
        a = array_of(item) if not is_meta(item) else _unknown(item, writing)
        return int(a) if a.ndim == 0 and a.dtype.kind in "iu" and a.dtype != np.uint8 else a
    if type(item) is list and item and any(isinstance(x, (TensorBase, list)) for x in item):
        return [_plain(x, writing) for x in item]
    if isinstance(item, slice):
        if any(isinstance(x, TensorBase) for x in (item.start, item.stop, item.step)):
            return slice(*[x.__index__() if isinstance(x, TensorBase) else x for x in (item.start, item.stop, item.step)])
        return item
    if isinstance(item, np.integer):
        return int(item)
    return item


def parse(key: Any, shape: tuple, writing: bool = False) -> Any:
    """The plan of a key. Where it is written to, the number of places that a mask names need not be known."""
    if isinstance(key, str):
        raise TypeError(f"new(): invalid data type 'str': a tensor cannot be indexed with {key!r}")
    key = tuple([_plain(k, writing) for k in key]) if type(key) is tuple else _plain(key, writing)
    return indexing.parse_index(key, shape)


def _view(t: TensorBase, items: tuple) -> Any:
    """The chain of views of a basic key that ends in Ellipsis."""
    first, dim = t, 0
    for item in items[:-1]:
        if item is None:
            t = state.ops.unsqueeze(t, dim)
            dim += 1
        elif isinstance(item, slice):
            size = shape_of(t)[dim]
            start, stop, step = item.indices(size)
            if (start, stop, step) != (0, size, 1) or len(items) == 2:
                t = apply1(SLICE, t, (dim, start, max(start, stop), step))
            dim += 1
        else:
            t = apply1(SELECT, t, (dim, int(item)))
    return apply1(_ALIAS, t) if t is first else t


def _no_meta(key: Any) -> None:
    """An index on the meta device picks from no other."""
    for item in key if isinstance(key, (tuple, list)) else (key,):
        if is_meta(item):
            raise RuntimeError("Expected all tensors to be on the same device, but a tensor on cpu was indexed by one on "
                               "meta: Tensor on device meta is not on the expected device cpu.")


def getitem(t: TensorBase, key: Any) -> Any:
    """t[key]"""
    if state.special != 0 and _mapped.getter:
        r = _mapped.getter[0](t, key)
        if r is not NotImplemented:
            return r
    plan = parse(key, shape_of(t))
    if plan.is_view:
        return _view(t, plan.basic)
    if t._array is not None:
        _no_meta(key)
    return apply1(INDEX, t, (plan,))


def setitem(t: TensorBase, key: Any, value: Any) -> None:
    """t[key] = value: value is a tensor that broadcasts, or a number."""
    if t._array is None and type(t._lazy) is state.sparse:
        raise TypeError("Cannot assign to a sparse tensor: its positions are fixed. Write to .to_dense(), or make another "
                        "one with torch.sparse_coo_tensor.")
    if state.special != 0 and _mapped.setter and _mapped.setter[0](t, key, value):
        return
    if not isinstance(value, TensorBase):
        if number_dtype(value) is None:
            raise TypeError(
                f"can't assign a {type(value).__name__} to a torch.{str(t.dtype).split('.')[-1]} tensor: the value "
                "must be a "
                "tensor or a number. Convert it with torch.tensor(...) or torch.from_numpy(...).")
        number = value
        check_fits(value, dtype_of(t))
    else:
        number = None
    plan = parse(key, shape_of(t), True)
    if plan.is_view:
        part = _view(t, plan.basic)
        if number is not None:
            apply_inplace2(_COPY, part, number)
            return
        extra = len(shape_of(value)) - len(shape_of(part))
        if extra > 0 and all(n == 1 for n in shape_of(value)[:extra]):
            for _ in range(extra):
                value = apply1(SELECT, value, (0, 0))
        apply_inplace2(_COPY, part, value)
        return
    if number is not None and isinstance(key, TensorBase) and t._array is not None and state.xp.overlaps(t._array):
        t.masked_fill_(key, number)
        return
    if number is not None:
        d = dtype_of(t)
        value = placed(t, (), d, lambda: np.asarray(number).astype(d))
    elif value.dtype is not t.dtype:
        arrays = [k for k in plan.advanced if isinstance(k, np.ndarray)]
        if len(arrays) == 1 and arrays[0].dtype == np.bool_ and prod(shape_of(value)) == 1:     # one number where a mask is
            value = state.ops.cast(value, dtype_of(t))
        if value.dtype is not t.dtype:
            raise RuntimeError(
                f"Index put requires the source and destination dtypes match: the destination is {t.dtype} and the "
                f"source is {value.dtype}. Convert the value with .to({t.dtype}).")
    if value._array is not None and t._array is not None and surely_overlap(t._array, value._array):
        raise RuntimeError(
            "unsupported operation: some elements of the input tensor and of the one written to share a single "
            "memory location, so that the result would depend on the order of the writes. Assign a clone() of the "
            "value.")
    apply_inplace(INDEX_PUT, [t, value], (plan,))


state.getitem = getitem
