"""How an operator maps tangents: its own `jvp`, the same view, or its reverse formulas transposed.

A reverse formula is linear in the incoming gradient u: gi(u) = J_i^H u. Its own derivative in the direction of the
tangent t_i is J_i t_i, the forward derivative; so no operator needs a second rule to have both modes. For an elementwise
operator of real numbers J_i is diagonal, and J_i t_i is the formula itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.apply import INPLACE, SPLIT, apply1, apply_split, constant
from flambeau.core.engine import fit, run_backward
from flambeau.core.inplace import apply_inplace2, saves_first
from flambeau.core.objects import Packed, TensorBase, array_of, dtype_of, make, requires, shape_of
from flambeau.core.op import DTYPE, DTYPES, INPUTS, NEEDS, OUT, PARAM, SHAPE, SHAPES, Formula, Op, slot
from flambeau.core.state import grad_enabled, set_grad_enabled, set_inference, state
from flambeau.core.views import grad_fn

from ._rerun import rerun
from ._tangents import active, any_tangent, materialized, off, set_aligned, set_tangent, tangent_of

COPY = slot("copy")


def intercept(op: Op, inputs: tuple, params: Any, kind: int) -> Any:
    """Run the operator on values, then on tangents."""
    if not active() or not any_tangent(inputs):
        return NotImplemented
    tangents = [tangent_of(t) if isinstance(t, TensorBase) else None for t in inputs]
    with off():
        if kind == INPLACE:
            return _inplace(op, inputs, params, tangents)
        if kind == SPLIT:
            outs = rerun(op, inputs, params, kind)
            for o, t in zip(outs, apply_split(op, tangents[0], params), strict=True):
                set_tangent(o, t)
            return outs
        out = rerun(op, inputs, params, kind)
        if out is NotImplemented:
            return out
        if op.view:
            set_tangent(out, apply1(op, tangents[0], params))
            return out
        if op.differentiable:
            several = isinstance(out, (list, tuple))
            outs = list(out) if several else [out]
            made = push(op, list(inputs), params, outs, tangents)
            given = list(zip(outs, made, strict=True))
            for o, t in given:
                if t is not None and state.is_float(dtype_of(o)):
                    set_aligned(o, clone_tangent(t) if _shared(t, tangents) else t)
            carry(outs[0]._node if op.n_out == 1 else next((o._node for o in outs if o._node is not None), None), op, inputs,
                  outs)
        return out


def _inplace(op: Op, inputs: tuple, params: Any, tangents: list) -> Any:
    a = inputs[0]
    old = list(inputs)
    if op.differentiable and (saves_first(op) or any(t is a for t in inputs[1:])):
        tangents = [None if t is None else clone_tangent(t) for t in tangents]
        before = make(state.xp.clone(array_of(a)))
        if requires(a):
            node = grad_fn(a)
            before._node, before._nr, before._rg = node, a._nr, node is not None
        old = [before if t is a else t for t in inputs]
    out = rerun(op, inputs, params, INPLACE)
    if out is NotImplemented:
        return out
    if op.differentiable and state.is_float(dtype_of(a)):
        new = push(op, old, params, [a], tangents)[0]
        for t, tangent in zip(old, tangents, strict=True):
            if tangent is not None and t is not a and t._tangent is None:
                set_tangent(t, tangent)
        _write_tangent(a, new)
        node = a._node
        if a._view is not None and a._view.base._node is not None and a._view.base._node.extra is not None:
            node = a._view.base._node.extra.inner
        carry(node, op, tuple(old), [a])
    return out


def _shared(tangent: TensorBase, others: list) -> bool:
    """Whether a new tangent may be memory of an old one, where the values are not: of clone() and the like."""
    a = array_of(tangent)
    return any(t is not None and np.may_share_memory(a, array_of(t)) for t in others)


def clone_tangent(tangent: TensorBase) -> TensorBase:
    """A copy that later writes to the tangent do not change."""
    return state.ops.clone(tangent)


def _keep(value: TensorBase) -> Packed:
    """A saved value with its tangent: for a backward that is itself followed in forward mode."""
    d = make(array_of(value))
    d._cell = value._cell
    set_tangent(d, value._tangent)
    return Packed(d, lambda t: t)


def carry(node: Any, op: Op, inputs: tuple, outs: list) -> None:
    """Let the values that a new node saves keep their tangents."""
    if node is None or node.op is not op:
        return
    for i, t in enumerate(inputs):
        if not isinstance(t, TensorBase) or t._tangent is None:
            continue
        if i == 0 and node.s0 is not None and not isinstance(node.s0, Packed):
            node.s0 = _keep(t)
        elif i == 1 and node.s1 is not None and not isinstance(node.s1, Packed):
            node.s1 = _keep(t)
        elif i > 1 and node.more[(i - 2) * 5 + 2] is not None and not isinstance(node.more[(i - 2) * 5 + 2], Packed):
            node.more[(i - 2) * 5 + 2] = _keep(t)
    for j, o in enumerate(outs):
        if o._tangent is None or node.out is None:
            continue
        if isinstance(node.out, list):
            if node.out[3 * j] is not None and not isinstance(node.out[3 * j], Packed):
                node.out[3 * j] = _keep(o)
        elif not isinstance(node.out, Packed):
            node.out = _keep(o)


def _write_tangent(a: TensorBase, new: TensorBase | None) -> None:
    """The tangent of a after a write: into the old one's memory, which views share."""
    own = tangent_of(a)
    if own is None:
        v = a._view
        if v is not None:
            set_tangent(v.base, materialized(v.base))
            own = tangent_of(a)
    if own is None or _fixed(own):
        set_tangent(a, new if new is not None else materialized(a))
    else:
        apply_inplace2(COPY, own, 0.0 if new is None else new)


def _fixed(tangent: TensorBase) -> bool:
    """Whether a tangent cannot be written: a leaf that requires grad, or memory that elements share."""
    array = array_of(tangent)
    return (requires(tangent) and grad_fn(tangent) is None) or not array.flags.writeable or state.xp.overlaps(array)


def push(op: Op, inputs: list, params: Any, outs: list, tangents: list) -> list:
    """The tangents of the outputs."""
    if op.jvp is not None:
        made = op.jvp(state.ops, tangents, inputs, outs, params)
        return list(made) if isinstance(made, (list, tuple)) else [made]
    record = grad_enabled()
    if op.pointwise and op.joint is None and _all_real([*outs, *tangents]):
        return [_diagonal(op, inputs, params, outs, tangents, record)]
    old = set_grad_enabled(True)
    inference = set_inference(False)        # the formulas are recorded, to be transposed, in any mode
    try:
        made = _transpose(op, inputs, params, outs, tangents, record)
    finally:
        set_inference(inference)
        set_grad_enabled(old)
    if inference:
        for t in made:
            if t is not None:
                t._inference = True
    return made


def _all_real(tensors: list) -> bool:
    return all(t is None or (t._array is not None and dtype_of(t).kind != "c") for t in tensors)


def _diagonal(op: Op, inputs: list, params: Any, outs: list, tangents: list, record: bool) -> TensorBase:
    """The sum of the formulas, each of its input's tangent.

    Besides being fewer steps than a transposition this is 0 where the gradient is masked: the transposed mask would
    multiply its 0 by the infinite slope that it hides.
    """
    shape, d = tuple(shape_of(outs[0])), dtype_of(outs[0])
    xp = state.ops if record else state.xp
    values, results = _as_tensors(inputs, outs[0]), outs
    total: Any = None
    for f, t in zip(op.formulas, tangents, strict=False):
        if f is None or t is None:
            continue
        g = t if dtype_of(t) is d else state.ops.cast(t, d)
        if tuple(shape_of(g)) != shape:
            g = state.ops.expand(g, shape)
        given = _arguments(f, values, results, params, [s is not None for s in tangents])
        if record:
            part = f.fn(xp, g, *given)
        else:
            part = f.fn(xp, array_of(g), *[array_of(x) if isinstance(x, TensorBase) else x for x in given])
        total = part if total is None else total + part
    if total is None:
        return materialized(outs[0])
    if not record:
        array = np.asarray(total)
        total = make(array if array.shape == shape else np.broadcast_to(array, shape).copy())
    return total if dtype_of(total) is d else state.ops.cast(total, d)


def _transpose(op: Op, inputs: list, params: Any, outs: list, tangents: list, record: bool) -> list:
    values = _as_tensors(inputs, outs[0])
    if not record:
        values = [None if v is None else _plain(v) for v in values]
    results = outs if record else [_plain(o) for o in outs]
    flags = op.outputs or [True] * len(outs)
    seeds = []
    for o, flag in zip(outs, flags, strict=True):
        seed = None
        if flag and state.is_float(dtype_of(o)):
            seed = make(np.zeros(tuple(shape_of(o)), dtype_of(o)))
            seed._rg = True
        seeds.append(seed)
    if len(outs) == 1:
        g: Any = seeds[0]
    elif sum(flags) == 1:
        g = seeds[list(flags).index(True)]
    else:
        g = list(seeds)
    needs = [t is not None for t in tangents]
    grads: list[Any] = []
    if op.joint is not None:
        grads = list(_evaluate(op.joint, g, values, results, params, needs))
    else:
        for f, t in zip(op.formulas, tangents, strict=False):
            grads.append(None if f is None or t is None else _evaluate(f, g, values, results, params, needs))
    roots, cotangents = [], []
    for gi, t, v in zip(grads, tangents, values, strict=False):
        if gi is None or t is None:
            continue
        gi = fit(gi, tuple(shape_of(v)), dtype_of(v), state.ops, True)
        if requires(gi):
            roots.append(gi)
            cotangents.append(t if record else array_of(t))
    wanted = [s for s in seeds if s is not None]
    if not roots or not wanted:
        return [materialized(o) if s is not None else None for o, s in zip(outs, seeds, strict=True)]
    found = iter(run_backward(roots, cotangents, True, record, wanted, False))
    made: list[Any] = []
    for o, s in zip(outs, seeds, strict=True):
        t = None if s is None else next(found)
        made.append(materialized(o) if t is None and s is not None else t)
    return made


def _plain(t: TensorBase) -> TensorBase:
    """The same values without history, free to be saved."""
    d = make(array_of(t))
    d._cell = t._cell
    return d


def _as_tensors(inputs: list, out: TensorBase) -> list:
    """Numbers among the inputs as tensors."""
    like = next((dtype_of(t) for t in inputs if isinstance(t, TensorBase)), dtype_of(out))
    values: list[Any] = []
    for t in inputs:
        if t is None or isinstance(t, TensorBase):
            values.append(t)
        else:
            values.append(make(constant(t, like)))
    return values


def _evaluate(f: Formula, g: Any, values: list, outs: list, params: Any, needs: list) -> Any:
    """A reverse formula on Tensors, outside any node."""
    return f.fn(state.ops, g, *_arguments(f, values, outs, params, needs))


def _arguments(f: Formula, values: list, outs: list, params: Any, needs: list) -> list:
    """What a formula asks for by name."""
    found: list[Any] = []
    for code in f.codes:
        if code < OUT:
            found.append(values[code])
        elif code < SHAPE:
            found.append(outs[code - OUT])
        elif code < DTYPE:
            found.append(tuple(shape_of(values[code - SHAPE])))
        elif code < PARAM:
            found.append(dtype_of(values[code - DTYPE]))
        elif code < INPUTS:
            found.append(params[code - PARAM])
        elif code == INPUTS:
            found.append(list(values))
        elif code == SHAPES:
            found.append([None if v is None else tuple(shape_of(v)) for v in values])
        elif code == DTYPES:
            found.append([None if v is None else dtype_of(v) for v in values])
        elif code == NEEDS:
            found.append(list(needs))
    return found


