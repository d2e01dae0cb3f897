"""Operators on meta tensors: the shape, dtype and strides of the result, its graph node, and no values.

What the core's `apply` functions do for tensors with arrays, with a shape rule in the place of the kernel: the `meta=` of
the operator's record, or for views the kernel itself (it reads no memory), and for pointwise operators broadcasting.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from flambeau.core.apply import INPLACE, OUT_BIT, SPLIT, apply1, apply2, apply_n, connect, keep, operand, record_inputs
from flambeau.core.inplace import check_writable, rebase, saves_first, wrote
from flambeau.core.objects import (
    Node,
    TensorBase,
    View,
    cell_of,
    dtype_of,
    extra_of,
    make,
    make_lazy,
    memory_of,
    requires,
    shape_of,
)
from flambeau.core.op import OUT, slot
from flambeau.core.saved import save_output, save_outputs
from flambeau.core.state import grad_enabled, set_grad_enabled, state
from flambeau.core.views import attach_view, run_kernel, set_edge
from flambeau.kernels import strides
from flambeau.kernels.services import broadcast_error, refuse_cast

from ._meta import Meta, meta_of, to_meta
from ._shapes import broadcast_strides, needs_values

CHEAP = 4096        # elements of a kernel's inputs that may be made to see what it returns


def is_meta(t: Any) -> bool:
    return isinstance(t, TensorBase) and t._array is None and isinstance(t._lazy, Meta)


def lazy(op: Any, inputs: tuple, params: Any, kind: int) -> Any:
    """The result of an operator some of whose inputs are meta tensors, or NotImplemented when none is."""
    if not any(is_meta(t) for t in inputs):
        return NotImplemented
    _one_device(op, inputs, kind)
    if kind == INPLACE:
        return _write(op, inputs, params)
    if kind == SPLIT:
        return _split(op, inputs[0], params)
    made = infer(op, inputs, params)
    if made is NotImplemented:
        return made
    if op.n_out != 1:
        outs = [make_lazy(m) for m in made]
    else:
        outs = [make_lazy(made)]
    if op.view:
        _share(op, outs[0], inputs[0], params)
    if op.differentiable and grad_enabled() and any(isinstance(t, TensorBase) and requires(t) for t in inputs):
        _record(op, inputs, params, outs)
    return outs if op.n_out != 1 else outs[0]


def _one_device(op: Any, inputs: tuple, kind: int) -> None:
    """All tensors are on one device; a zero-dimensional CPU tensor counts as a number, a copy may cross, and CPU indices
    may pick from a meta table."""
    into_meta = kind == INPLACE and op.is_copy and is_meta(inputs[0])
    for i, t in enumerate(inputs):
        written = kind == INPLACE and t is inputs[0]
        if isinstance(t, TensorBase) and not is_meta(t) and not into_meta and (shape_of(t) or written):
            if 0 < i < len(op.input_names) and op.input_names[i] == "indices":
                continue
            if kind == INPLACE and op.is_copy:
                inputs[1]._lazy.materialise(inputs[1])
            raise _device_error(op.name, t)


def _device_error(name: str, t: TensorBase) -> RuntimeError:
    return RuntimeError(
        f"Expected all tensors to be on the same device, but {name}() got tensors on meta and on cpu (of shape "
        f"{list(shape_of(t))}): Tensor on device meta is not on the expected device cpu. Move one of them with .to('meta').")


# ------------------------------------------------------------------------------------------------- shape, dtype, strides


def infer(op: Any, inputs: Any, params: Any) -> Any:
    """The Meta of the result, or a list of them; NotImplemented for operands that the operator does not take."""
    if op.meta is not None:
        metas = [meta_of(t) for t in inputs]
        check = getattr(op.meta, "check", None)
        if check is not None:
            _check(op, metas, params, check)
        return op.meta(metas, *(params or ())) if op.n_in < 0 else op.meta(*metas, *(params or ()))
    if op.view:
        return view_meta(op, meta_of(inputs[0]), params)
    if op.pointwise:
        return _pointwise(op, inputs, params)
    if op.dynamic_shape:
        raise needs_values(op.name)
    return _looked_up(op, inputs, params)


def _check(op: Any, metas: list, params: Any, how: str) -> None:
    """Run the kernel on single elements (see `checked` in `_shapes`), so that it refuses what it refuses."""
    if any(m is not None and m.size == 0 for m in metas[1:]):
        return                  # an empty index or source is taken whatever its dimensions
    whole = how == "refuses empty" and metas[0].size == 0
    shapes = [None if m is None else m.shape if whole else (1,) * m.ndim for m in metas]
    _computed(op, [None if m is None else make(np.zeros(s, m.dtype)) for s, m in zip(shapes, metas, strict=True)], params)


def view_meta(op: Any, m: Meta, params: Any) -> Meta:
    """The view that op makes of m. Its kernel computes strides and an address, and reads nothing."""
    if op.meta is not None:
        return op.meta(m, *(params or ()))
    whole = m.stand_in()
    a = run_kernel(op, whole, params)
    return _part(m, whole, a)


def _part(m: Meta, whole: np.ndarray, a: np.ndarray) -> Meta:
    moved = (strides.address(a) - strides.address(whole)) // m.dtype.itemsize if a.size and whole.size else 0
    return Meta(a.shape, a.dtype, strides.torch_strides(a), m.offset + moved, memory=m.memory)


def _pointwise(op: Any, inputs: Any, params: Any) -> Any:
    """Shape by broadcasting; the dtype is that of one element, computed."""
    ones = [make(np.ones((1,) * len(shape_of(t)), dtype_of(t))) if isinstance(t, TensorBase) else t for t in inputs]
    one = _computed(op, ones, params)
    if one is NotImplemented:
        return one
    metas = [meta_of(t) for t in inputs if isinstance(t, TensorBase)]
    shape = broadcast(op, metas)
    return Meta(shape, dtype_of(one), broadcast_strides(shape, metas, len(metas) != len(inputs)))


def broadcast(op: Any, metas: list) -> tuple[int, ...]:
    """The common shape of the inputs of op."""
    try:
        return np.broadcast_shapes(*[m.shape for m in metas])
    except ValueError:
        raise broadcast_error(op.name, [m.shape for m in metas]) from None


def _looked_up(op: Any, inputs: Any, params: Any) -> Any:
    """What the kernel returns for ones: only where its inputs are small."""
    metas = [m for t in inputs for m in (meta_of(t) if isinstance(t, list) else [meta_of(t)]) if isinstance(m, Meta)]
    if sum(m.size for m in metas) > CHEAP:
        raise NotImplementedError(
            f"{op.name}() has no shape rule, and running it to see what it returns would compute on {len(metas)} inputs of "
            f"shapes {[list(m.shape) for m in metas]}. Give its record meta=, a function from the inputs' shapes to the "
            "result's, or call it on a real tensor.")
    ones = [make(np.ones(shape_of(t), dtype_of(t))) if isinstance(t, TensorBase) else t for t in inputs]
    return meta_of(_computed(op, ones, params))


def _computed(op: Any, inputs: list, params: Any) -> Any:
    old = set_grad_enabled(False)
    try:
        if len(inputs) == 1 and op.n_in == 1 and op.n_out == 1:
            return apply1(op, inputs[0], params)
        if len(inputs) == 2 and op.pointwise and params is None:
            return apply2(op, inputs[0], inputs[1])
        return apply_n(op, inputs, params)
    finally:
        set_grad_enabled(old)


# ------------------------------------------------------------------------------------------------- the graph


def _share(op: Any, out: TensorBase, base: TensorBase, params: Any) -> None:
    """Make out a view of base, as `apply1` does."""
    attach_view(out, op, base, params, "" if grad_enabled() else "no_grad")
    out._inference = base._inference


def _record(op: Any, inputs: tuple, params: Any, outs: list) -> None:
    """The node of a call, and what it saves: Metas in the place of arrays."""
    if op.n_out == 1 and op.check_float and not state.is_float(dtype_of(outs[0])):
        return
    n = Node(op)
    mask = record_inputs(n, op, _values(op, inputs))
    n.params = params
    if op.n_out == 1:
        out = outs[0]
        n.shape, n.dtype = shape_of(out), dtype_of(out)
        out._node, out._rg = n, True
        if mask & OUT_BIT:
            save_output(n, out, memory_of(out))
        return
    extra_of(n).metas = [(shape_of(t), dtype_of(t)) for t in outs]
    for i, t in enumerate(outs):
        if (not op.outputs or op.outputs[i]) and state.is_float(dtype_of(t)):
            t._node, t._nr, t._rg = n, i, True
    if mask >> OUT:
        save_outputs(n, mask, outs)


def _values(op: Any, inputs: tuple) -> list:
    """The inputs, numbers as the arrays that formulas expect."""
    if op.n_in < 0 or not op.pointwise:
        return list(inputs)
    d = next(dtype_of(t) for t in inputs if isinstance(t, TensorBase))
    return [t if t is None or isinstance(t, TensorBase) else operand(op, t, d) for t in inputs]


def _split(op: Any, a: TensorBase, params: tuple) -> list:
    """Several views, as `apply_split` makes them."""
    m = meta_of(a)
    whole = m.stand_in()
    parts = [_part(m, whole, p) for p in op.kernel(whole, *params)]
    outs = [make_lazy(p) for p in parts]
    grad = grad_enabled()
    up, cell = a._view, cell_of(a)
    why = up.creation if up is not None and up.creation else "multi" if grad else "no_grad"
    for i, out in enumerate(outs):
        out._cell = cell
        out._view = View(a if up is None else up.base, up, op, (*params, i), shape_of(a), why, cell.stamp)
        out._inference = a._inference
    if grad and requires(a):
        n = Node(op)
        n.n = 1
        set_edge(n, 0, a)
        n.params = params
        extra_of(n).metas = [(p.shape, p.dtype) for p in parts]
        for i, out in enumerate(outs):
            out._node, out._nr, out._rg = n, i, True
    return outs


# ------------------------------------------------------------------------------------------------- in place


def _write(op: Any, inputs: tuple, params: Any) -> Any:
    """inputs[0].op_(...): checked and recorded as with values."""
    target = inputs[0]
    values = _values(op, inputs)
    if any(v is None for v in values[1:]) and op.pointwise and not any(v is None for v in inputs[1:]):
        return NotImplemented
    m = meta_of(target)
    made = m if op.is_copy and op.meta is None else infer(op, inputs, params)
    if made is NotImplemented:
        return made
    shape = broadcast(op, [meta_of(t) for t in inputs if isinstance(t, TensorBase)]) if op.is_copy else made.shape
    if shape != m.shape:
        raise RuntimeError(
            f"output with shape {list(m.shape)} doesn't match the broadcast shape {list(shape)}: {op.name}_ cannot change "
            "the tensor's shape. Use the out-of-place form.")
    if not op.is_copy and not op.bool_out:
        refuse_cast(made.dtype, m.dtype)
    ra = requires(target)
    recording = (grad_enabled() and op.differentiable and state.is_float(m.dtype)
                 and any(isinstance(t, TensorBase) and requires(t) for t in inputs))
    check_writable(op, target, ra, recording)
    if m.overlaps() and not op.overlap_allowed and not (op.is_copy and not isinstance(inputs[-1], TensorBase)):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor lies at the same place in "
            "memory, as in an expand()ed tensor. Write to a clone() of it.")
    if not recording:
        wrote(op, target, None)
        return target
    n = Node(op)
    mask = connect(n, op, values)
    keep(n, mask, [make_lazy(m), *values[1:]] if saves_first(op) else values)
    n.params, n.shape, n.dtype = params, m.shape, m.dtype
    wrote(op, target, n)
    rebase(target, n)
    if mask & OUT_BIT:
        save_output(n, target, m)
    return target


# ------------------------------------------------------------------------------------------------- whole functions


def with_rule(fn: Callable, rule: Callable) -> Callable:
    """fn, answered by a shape rule when an argument is a meta tensor: for functions that look at values on their way."""

    @functools.wraps(fn)
    def function(*args: Any, **kwargs: Any) -> Any:
        given = _tensors((*args, *kwargs.values()))
        if not any(is_meta(t) for t in given):
            return fn(*args, **kwargs)
        return standing_for(given, rule(*[_arguments(a) for a in args], **{k: _arguments(v) for k, v in kwargs.items()}),
                            fn.__name__)

    return function


def _tensors(values: Any) -> list:
    found = []
    for v in values:
        if isinstance(v, TensorBase):
            found.append(v)
        elif isinstance(v, (tuple, list)):
            found.extend(_tensors(v))
    return found


def _arguments(value: Any) -> Any:
    """An argument with Metas in the place of tensors."""
    if isinstance(value, (tuple, list)):
        return type(value)(_arguments(v) for v in value)
    return meta_of(value) if isinstance(value, TensorBase) else value


def standing_for(inputs: list, made: Any, name: str = "") -> Any:
    """Meta tensors for results that are known by shape only; their gradients have the shapes of the inputs."""
    if isinstance(made, Meta):
        _same_device(name, inputs)
        out = make_lazy(made)
        if grad_enabled() and state.is_float(made.dtype) and any(requires(t) for t in inputs):
            _record(slot("whole"), tuple(inputs), None, [out])
        return out
    if isinstance(made, (tuple, list)):
        found = [standing_for(inputs, m, name) for m in made]
        return type(made)(found)
    return made


def moved_to_meta(t: TensorBase, dtype: np.dtype) -> TensorBase:
    """t on the meta device: it requires grad if t does, though no gradient can come back."""
    out = to_meta(t, dtype)
    if grad_enabled() and requires(t) and state.is_float(dtype):
        _record(slot("whole"), (t,), None, [out])
    return out


def _same_device(name: str, inputs: Sequence) -> None:
    for t in inputs:
        if not is_meta(t) and shape_of(t):
            raise _device_error(name, t)


def placed(where: TensorBase, shape: Sequence[int], dtype: np.dtype, array: Callable[[], np.ndarray]) -> TensorBase:
    """A constant of that shape and dtype on the device of a tensor: array() computes it, on the CPU."""
    return make_lazy(Meta(shape, dtype)) if is_meta(where) else make(array())


def evaluated(kernel: Callable, rule: Callable, inputs: Sequence, *params: Any) -> Any:
    """What a kernel that belongs to no graph returns, as a tensor or tensors; of meta tensors what the rule says."""
    if any(is_meta(t) for t in inputs):
        made = rule(*[meta_of(t) for t in inputs], *params)
        return tuple(make_lazy(m) for m in made) if isinstance(made, (tuple, list)) else make_lazy(made)
    found = kernel(*[memory_of(t) for t in inputs], *params)
    return tuple(make(a) for a in found) if isinstance(found, (tuple, list)) else make(found)


def detach(t: TensorBase) -> TensorBase:
    """detach() of a meta tensor."""
    out = make_lazy(t._lazy) if t._array is None else make(t._array)
    out._cell = cell_of(t)
    return out


state.meta = view_meta
