"""Operators on meta tensors: the shape, dtype and strides of the result, without values.

The kernel runs on stand-ins: arrays of the right shape over the memory of one element. A pointwise operator needs
only its dtype rule, so it runs on one element. Nothing is recorded: there is no backward on the meta device.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.apply import INPLACE, SPLIT, apply1, apply2, apply_n, apply_split
from flambeau.core.inplace import wrote
from flambeau.core.objects import TensorBase, cell_of, make, make_lazy, requires, shape_of
from flambeau.core.state import grad_enabled, set_grad_enabled, state
from flambeau.kernels import strides
from flambeau.kernels.services import broadcast_error

from ._meta import Meta


def is_meta(t: Any) -> bool:
    return isinstance(t, TensorBase) and t._array is None and isinstance(t._lazy, Meta)


def _stand_in(t: Any, view: bool, one: bool) -> Any:
    """A tensor with an array for a meta tensor; everything else as it is."""
    if isinstance(t, (list, tuple)):
        return type(t)(_stand_in(x, view, one) for x in t)
    if not isinstance(t, TensorBase):
        return t
    if not is_meta(t):
        return t.detach() if not one else make(np.zeros((1,) * len(shape_of(t)), t._array.dtype))
    m = t._lazy
    if one:
        return make(np.zeros((1,) * len(m.shape), m.dtype))
    memory = np.zeros(1, m.dtype)
    steps = tuple(s * m.dtype.itemsize for s in m.strides) if view else (0,) * len(m.shape)
    return make(np.lib.stride_tricks.as_strided(memory, m.shape, steps))


def _result(t: Any, source: Any, view: bool, shape: tuple | None) -> Any:
    a = t._array
    if shape is not None:
        return make_lazy(Meta(shape, a.dtype))
    if not view:
        return make_lazy(Meta(a.shape, a.dtype, strides.torch_strides(a) if a.size else None))
    first = source._array
    offset = (strides.address(a) - strides.address(first)) // a.itemsize if a.size and first.size else 0
    return make_lazy(Meta(a.shape, a.dtype, strides.torch_strides(a), offset))


def _one_device(op: Any, inputs: tuple) -> None:
    for t in inputs:
        if isinstance(t, TensorBase) and not is_meta(t) and shape_of(t):
            raise RuntimeError(
                f"Expected all tensors to be on the same device, but {op.name}() got tensors on meta and cpu (of shape "
                f"{list(shape_of(t))}). Move one of them with .to('meta').")


def _broadcast(op: Any, inputs: tuple) -> tuple:
    shapes = [tuple(shape_of(t)) for t in inputs if isinstance(t, TensorBase)]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise broadcast_error(op.name, shapes) from None


def lazy(op: Any, inputs: tuple, params: Any, kind: int) -> Any:
    """The result of an operator some of whose inputs are meta tensors, or NotImplemented when none is."""
    flat = [x for t in inputs for x in (t if isinstance(t, (list, tuple)) else (t,))]
    if not any(is_meta(t) for t in flat):
        return NotImplemented
    if not (kind == INPLACE and op.is_copy):
        _one_device(op, tuple(flat))
    if kind == INPLACE:
        target = inputs[0]
        if op.pointwise and _broadcast(op, inputs) != tuple(shape_of(target)):
            raise RuntimeError(
                f"output with shape {list(shape_of(target))} doesn't match the broadcast shape "
                f"{list(_broadcast(op, inputs))}: "
                f"{op.name}_ cannot change the tensor's shape. Use the out-of-place form.")
        wrote(op, target, None)
        return target
    shape = _broadcast(op, inputs) if op.pointwise else None
    fakes = tuple(_stand_in(t, op.view, shape is not None) for t in inputs)
    old = set_grad_enabled(False)
    try:
        if op.meta is not None:
            made = op.meta(*(f._array if isinstance(f, TensorBase) else f for f in fakes), *(params or ()))
            out: Any = [make(x) for x in made] if isinstance(made, (list, tuple)) else make(made)
        elif kind == SPLIT:
            out = apply_split(op, fakes[0], params)
        elif len(fakes) == 1 and op.n_in == 1 and op.n_out == 1:
            out = apply1(op, fakes[0], params)
        elif len(fakes) == 2 and op.pointwise and params is None:
            out = apply2(op, *fakes)
        else:
            out = apply_n(op, list(fakes), params)
    finally:
        set_grad_enabled(old)
    if out is NotImplemented:
        return out
    if isinstance(out, (list, tuple)):
        results = [_result(t, fakes[0], op.view, None) for t in out]
    else:
        results = [_result(out, fakes[0], op.view, shape)]
    if grad_enabled() and op.differentiable and any(isinstance(t, TensorBase) and requires(t) for t in flat):
        for r in results:
            r._rg = state.is_float(r._dtype)
    return results if isinstance(out, (list, tuple)) else results[0]


def detach(t: TensorBase) -> TensorBase:
    """detach() of a meta tensor."""
    if t._array is None:
        out = make_lazy(t._lazy)
        out._cell = t._cell
        return out
    out = make(t._array)
    out._cell = cell_of(t)
    return out
