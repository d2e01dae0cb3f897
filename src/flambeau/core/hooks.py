"""Hooks during backward. Values are wrapped as tensors only here.

Order at a node, as in PyTorch: hooks of its output tensors, retain_grad, capture for `inputs=`, the node's
prehooks, the derivative, the node's hooks. At a leaf: tensor hooks, capture, the AccumulateGrad node's
prehooks, accumulation, post-accumulate hooks, the node's hooks.
"""
from __future__ import annotations

import _thread
from typing import Any, Final, cast

from .objects import Extra, LeafHooks, TensorBase, cell_of, copied, memory_of, remake
from .op import Op
from .state import grad_enabled, state
from .tasks import Call, Task

leaf_lock: Final = _thread.allocate_lock()


def as_tensor(x: Any) -> Any:
    return x if isinstance(x, TensorBase) else remake(x)


def value_of(r: Any, create: bool) -> Any:
    """A hook's result as the engine carries it."""
    return r if create else memory_of(cast(TensorBase, r))


def hook_text(fn: Any) -> str:
    """`scale, defined at file.py:3`, as far as it is known."""
    code: Any = getattr(fn, "__code__", None)
    name: Any = getattr(fn, "__qualname__", None)
    text = str(name) if name is not None else type(fn).__name__
    return text if code is None else f"{text}, defined at {code.co_filename}:{code.co_firstlineno}"


def checked(r: Any, old: Any, what: str, fn: Any) -> Any:
    """The tensor that the hook fn returned in place of old."""
    if not isinstance(r, TensorBase):
        raise TypeError(f"a {what} must return a Tensor or None, not {type(r).__name__} ({hook_text(fn)}). Return the new "
                        "gradient, or nothing to keep the old one.")
    if old is not None:
        a = memory_of(r)
        b = memory_of(old) if isinstance(old, TensorBase) else old
        if a.shape != b.shape:
            raise RuntimeError(f"a {what} has changed the size of value: it was given {list(b.shape)} and returned "
                               f"{list(a.shape)} ({hook_text(fn)}). A gradient has the shape of the tensor that it belongs "
                               "to.")
        if a.dtype != b.dtype:
            raise RuntimeError(f"a {what} has changed the type of value: it was given {b.dtype} and returned {a.dtype} "
                               f"({hook_text(fn)}). Convert the result back with .to(grad.dtype).")
    return r


def call_hook(fn: Any, args: Any) -> Any:
    """The user's function, with the user's own NumPy settings."""
    token = state.quiet_set(state.loud_value) if state.loud_value is not None else None
    try:
        return fn(*args)
    finally:
        if token is not None:
            state.quiet_reset(token)


def run_tensor_hooks(call: Call, x: Extra, g: Any) -> Any:
    """Hooks of the node's outputs, then retain_grad."""
    create = call.create
    hooks = x.tensor
    multi = x.metas is not None
    if hooks is not None:
        for h in list(hooks):
            k: int = h[1]
            gk = g if not multi else (g[k] if g is not None else None)
            t = None if gk is None else as_tensor(gk)
            r = call_hook(h[2], (t,))             # PyTorch calls the hook with None for an undefined gradient
            if r is not None:
                gk = value_of(checked(r, t, "hook", h[2]), create)
                if not multi:
                    g = gk
                else:
                    if g is None:
                        metas = x.metas
                        assert metas is not None
                        g = [None] * len(metas)
                    g[k] = gk
            elif t is not None and not create and t is not gk:
                gk = memory_of(cast(TensorBase, t))      # a hook may have changed it in place
                if not multi:
                    g = gk
                else:
                    g[k] = gk
    d = x.retain
    if d is not None:
        for k2, w in list(d.items()):
            tt = w()
            gk = g if not multi else (g[k2] if g is not None else None)
            if tt is not None and gk is not None:
                tb = cast(TensorBase, tt)
                new = gk if create else remake(copied(gk))
                tb._grad = new if tb._grad is None else state.ops.add(tb._grad, new)
    return g


def shown(op: Op, g: Any) -> list[Any]:
    """The output gradients that hooks of a node see: outputs that are never differentiable (indices) have none."""
    flags = op.outputs
    if len(flags) == 0 or op.view:
        return list(g)
    return [y for y, f in zip(g, flags, strict=False) if f]


def run_prehooks(create: bool, pre: list[Any], g: Any, multi: bool, op: Op | None) -> Any:
    """Prehooks of a node: each gets and may replace the tuple of output gradients."""
    for h in list(pre):
        if multi:
            seen = g if op is None or g is None else shown(op, g)
            args = tuple([None if y is None else as_tensor(y) for y in seen]) if g is not None else None
        else:
            args = (None if g is None else as_tensor(g),)
        r = call_hook(h[1], (args,))
        if r is not None:
            values = r if isinstance(r, tuple) else (r,)
            if multi:
                new = [None if y is None else value_of(checked(y, None, "prehook", h[1]), create) for y in values]
                if op is None or g is None or len(new) == len(g):
                    g = new
                else:
                    rest = list(new)
                    g = [rest.pop(0) if f and rest else None for f in op.outputs]
            else:
                g = None if values[0] is None else value_of(checked(values[0], None, "prehook", h[1]), create)
    return g


def run_posthooks(create: bool, post: list[Any], grads: list[Any], g: Any, op: Op | None) -> list[Any]:
    """Hooks of a node: each gets (input gradients, output gradients) and may replace the former."""
    if isinstance(g, list):
        outs = tuple([None if y is None else as_tensor(y) for y in (g if op is None else shown(op, g))])
    else:
        outs = (None if g is None else as_tensor(g),)
    for h in list(post):
        ins = tuple([None if y is None else as_tensor(y) for y in grads])
        r = call_hook(h[1], (ins, outs))
        if r is not None:
            values = r if isinstance(r, tuple) else (r,)
            if len(values) != len(grads):
                raise RuntimeError("a node hook returned %d gradients, but the node has %d inputs (%s). Return one for each "
                                   "input, or None to keep them." % (len(values), len(grads), hook_text(h[1])))
            grads = [None if y is None else value_of(checked(y, None, "hook", h[1]), create) for y in values]
    return grads


def finish_leaf(call: Call, task: Task) -> None:
    """All contributions to a leaf are in: hooks, capture, `.grad`."""
    t = cast(TensorBase, task.target)
    g = task.grad
    task.grad = None
    owned = task.owned
    h: LeafHooks | None = t._hooks
    create = call.create
    if (g is None and h is None) or not task.needed:
        return
    if h is not None:
        for pair in list(h.tensor):
            gt = None if g is None else as_tensor(g)
            r = call_hook(pair[1], (gt,))
            if r is not None:
                g = value_of(checked(r, gt, "hook", pair[1]), create)
                owned = False
            elif gt is not None and not create and gt is not g:
                g = memory_of(cast(TensorBase, gt))
    if task.wanted is not None:
        task.wanted[0] = g
    if not call.accumulate or (call.pruned and task.wanted is None):
        return
    if h is not None and len(h.pre) != 0:
        g = run_prehooks(create, h.pre, g, False, None)
        owned = False
    if g is None:
        if h is not None:               # PyTorch says so even when nothing was accumulated
            for pair in list(h.post_acc):
                call_hook(pair[1], (t,))
        return
    if t._node is not None:
        raise RuntimeError(
            "leaf variable has been moved into the graph interior: it was written in place, with a result that requires "
            "grad, after the graph had been recorded with it as a leaf. Compute out of place, or run backward before the "
            "write.")
    if not t._rg:
        return                          # requires_grad_(False) since
    if create and t._array is None and not grad_enabled():
        old = t._grad
        if old is None:
            t._grad = state.ops.clone_as(g, memory_of(t).strides)     # nobody else's, and in the order of t
        else:
            cell_of(cast(TensorBase, old)).stamp += 1       # written in place, and there are no values
    elif create:
        t._grad = g if t._grad is None else state.ops.add(t._grad, g)
    else:
        if not owned and g.base is not None:
            g = state.xp.clone(g) if t._array is None else state.xp.clone_as(g, t._array.strides)
        leaf_lock.acquire()
        try:
            old = t._grad
            if old is None:
                t._grad = remake(g)
            else:
                ot = cast(TensorBase, old)
                if ot._rg or ot._array is None:
                    new = remake(g)
                    t._grad = state.ops.add(new, ot) if new._array is not None else state.ops.add(ot, new)
                else:
                    oa = ot._array
                    state.xp.iadd(oa, g)
                    cell_of(ot).stamp += 1
        finally:
            leaf_lock.release()
    if h is not None:
        for pair in list(h.post_acc):
            call_hook(pair[1], (t,))
        if len(h.post) != 0:
            run_posthooks(create, h.post, [], g, None)
