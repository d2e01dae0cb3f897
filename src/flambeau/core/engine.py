"""Backward: seed the roots, reach what they lead to, run nodes in decreasing sequence number.

A node's gradients go to the tasks of its edges: summed there, fitted to the input's shape and dtype (undoing
broadcasting and casts). A leaf is finished as soon as its last reader has run. No recursion anywhere.
"""
from __future__ import annotations

from heapq import heappop
from typing import Any, Final, cast

from mypy_extensions import i64

from .apply import apply1
from .errors import freed_error, no_grad_error, node_text, shape_text, unused_error
from .hooks import as_tensor, finish_leaf, run_posthooks, run_prehooks, run_tensor_hooks
from .objects import (
    Extra,
    Node,
    TensorBase,
    View,
    array_of,
    copied,
    dtype_of,
    edge,
    edge_number,
    extra_of,
    make,
    requires,
    shape_of,
    user_frame,
)
from .op import BINARY, IDENTITY, UNARY, Formula
from .saved import call_formula, needs_saved, read, release
from .state import local, set_grad_enabled, state
from .tasks import Call, Task, done, has_needed, prune, push, reach, task_edge, task_of
from .views import grad_fn, replay, view_chain


def fit(gi: Any, shape: Any, dtype: Any, xp: Any, create: bool) -> Any:
    """Undo broadcasting and casts: a gradient looks like the input it belongs to."""
    if create:
        t = cast(TensorBase, gi)
        if shape_of(t) != shape:
            gi = xp.sum_to(gi, shape)
        if dtype_of(t) is not dtype:
            gi = xp.cast(gi, dtype)
        return gi
    if type(gi) is not state.array:
        gi = state.wrap(gi)
    if gi.shape != shape:
        gi = xp.sum_to(gi, shape)
    if gi.dtype is not dtype:
        gi = xp.cast(gi, dtype)
    return gi


def contribute(task: Task, k: i64, gi: Any, xp: Any, create: bool) -> None:
    """Fit gi to output k of the task's target and add it to the buffer."""
    e = task.target
    if task.is_node:
        n = cast(Node, e)
        if not n.op.sparse:                     # formulas of dense operators take dense gradients
            if create:
                if gi._array is None and type(gi._lazy) is state.sparse:
                    gi = xp.sparse_dense(gi)
            elif type(gi) is state.sparse:
                gi = gi.dense()
        x = n.extra
        if x is not None and x.metas is not None:
            m: list[Any] = x.metas
            meta: tuple[Any, Any] = m[int(k)]
            gi = fit(gi, meta[0], meta[1], xp, create)
            buf: Any = task.grad
            if buf is None:
                buf = [None] * len(m)
                task.grad = buf
            if buf[int(k)] is not None:
                gi = xp.add(buf[int(k)], gi)
                if not create and type(gi) is not state.array:
                    gi = state.wrap(gi)
            buf[int(k)] = gi
            return
        gi = fit(gi, n.shape, n.dtype, xp, create)
    else:
        leaf = cast(TensorBase, e)
        gi = fit(gi, shape_of(leaf), dtype_of(leaf), xp, create)
    accumulate(task, gi, xp, create)


def accumulate(task: Task, gi: Any, xp: Any, create: bool) -> None:
    """Add a fitted gradient to a task's single buffer."""
    prev = task.grad
    if prev is None:
        task.grad = gi
    elif create:
        # dense + sparse, not the reverse
        task.grad = xp.add(prev, gi) if prev._array is not None or gi._array is None else xp.add(gi, prev)
    elif task.owned:
        task.grad = state.add(prev, gi, prev)       # prev itself, unless it is sparse
    else:
        s = state.add(prev, gi)
        if type(s) is not state.array:
            s = state.wrap(s)
        task.grad = s
        task.owned = True


def root_target(r: Any, index: i64, is_root: bool) -> Any:
    """(node or leaf, output number) of a tensor or GradientEdge."""
    if isinstance(r, TensorBase):
        f = grad_fn(r)
        if f is not None:
            return (f, int(r._nr))
        if not r._rg and (is_root or not requires(r)):       # nothing leads to a view that was made in no_grad mode
            raise no_grad_error(index, r, state.why_no_grad(r) if state.why_no_grad is not None else "")
        return (r, 0)
    node = r[0]
    if isinstance(node, Node):
        return (node, int(r[1]))
    return (node.variable, 0)


def run_backward(roots: list[Any], seeds: list[Any], retain: bool, create: bool, inputs: list[Any] | None,
                 accumulate_grad: bool) -> Any:
    """One backward call. roots: tensors or edges; seeds: their gradients (arrays, or Tensors with create).

    Returns the captured gradients of `inputs` (None where none arrived), or None.
    """
    if state.n_step_watchers != 0:
        answer: Any = state.intercept_step("backward", (roots, seeds, retain, create, inputs, accumulate_grad))
        if answer is not NotImplemented:
            return answer
    recorded = create
    for seed in seeds:
        if isinstance(seed, TensorBase):     # on the meta device formulas run on tensors, recorded or not
            create = True
    call = Call(retain, create, accumulate_grad)
    xp: Any = state.ops if create else state.xp
    call.line = user_frame()
    starts: list[Task] = []
    stack: list[Task] = []
    token = state.quiet_set(state.quiet_value)
    previous = token.old_value
    if previous is not token.MISSING:
        state.loud_value = previous          # hooks run with the user's own NumPy settings
    old = set_grad_enabled(recorded)
    outer: Any = getattr(local, "call", None)
    local.call = call
    try:
        i: i64 = 0
        for r in roots:
            target: tuple[Any, int] = root_target(r, i, True)
            task = task_of(call, target[0], stack)
            if task not in starts:
                starts.append(task)
            g = seeds[int(i)]
            k = target[1]
            if not task.is_node and not create:
                g = copied(g)
            contribute(task, k, g, xp, create)
            i += 1
        reach(call, stack)
        wanted: list[Any] = []
        if inputs is not None:
            i = 0
            for r in inputs:
                wanted.append(root_target(r, i, False))
                i += 1
            prune(call, starts, wanted)
        for task in starts:
            if task.deps == 0:
                if task.is_node:
                    push(call, task)
                else:
                    call.leaves.append(task)
        loop(call, xp)
        for fn in call.callbacks:
            fn()
        if inputs is None:
            return None
        res: list[Any] = []
        for pair in wanted:
            tw = call.tasks.get(pair[0])
            gw: Any = None
            if tw is not None and tw.wanted is not None:
                gw = tw.wanted.get(pair[1])
            res.append(None if gw is None else as_tensor(gw))
        return res
    finally:
        local.call = outer
        set_grad_enabled(old)
        state.quiet_reset(token)


def loop(call: Call, xp: Any) -> None:
    create = call.create
    pruned = call.pruned
    while True:
        if call.leaves:
            ready = call.leaves
            call.leaves = []
            for leaf in ready:
                finish_leaf(call, leaf)
        task = call.next
        if task is None:
            break
        call.next = cast(Task, heappop(call.heap)[2]) if call.heap else None
        n: Node = cast(Node, task.target)
        g = task.grad
        task.grad = None
        if pruned and not task.needed:      # nothing asked for lies behind: its hooks do not run either
            pass_over(call, task, n)
            continue
        x = n.extra
        if state.n_anomaly != 0:
            local.evaluating = n
        if x is not None:
            if x.tensor is not None or x.retain is not None:
                g = run_tensor_hooks(call, x, g)
        if pruned:
            w = task.wanted
            if w is not None:
                for k2 in w:
                    w[k2] = g if x is None or x.metas is None else (g[k2] if g is not None else None)
            if not has_needed(task) and (w is None or not call.accumulate):   # `backward(inputs=)` runs its inputs' nodes
                pass_over(call, task, n)
                continue
        watch: Any = state.watch
        if watch is not None:
            watch(n, True)
        try:
            if x is not None and x.pre is not None:
                g = run_prehooks(create, x.pre, g, x.metas is not None, n.op)
            if n.freed and (x is None or x.call is None) and needs_saved(n):
                raise freed_error(n)
            if n.op.joint is not None or (x is not None and (
                    x.post is not None or x.inner is not None or x.call is not None or x.metas is not None)):
                slow(call, task, n, g, xp)
            elif g is None:
                pass_over(call, task, n)
            else:
                step(call, task, n, g, xp, create)
        except Exception as error:
            annotate(error, n)
            raise
        if watch is not None:
            watch(n, False)
        task.t0 = None                      # a long chain of tasks must not be freed by recursion
        task.t1 = None
        if not call.retain:
            release(n, call.line)
            if needs_saved(n):
                extra_of(n).first_backward = call.line
            if x is not None and x.release is not None:
                x.release(n)


def step(call: Call, task: Task, n: Node, g: Any, xp: Any, create: bool) -> None:
    """An ordinary node: one formula for each input."""
    op = n.op
    k: i64 = 0
    count: i64 = n.n
    fitted = n.exact and op.pointwise
    while k < count:
        t = task.t0 if k == 0 else task.t1 if k == 1 else task_edge(task, k)
        if t is not None:
            if t.needed:
                f = op.f0 if k == 0 else op.f1 if k == 1 else op.formulas[int(k)]
                if f is not None:
                    gi: Any = None
                    kind = f.kind
                    if create or kind == 0 or (f.real_only and (n.dtype is state.c64 or n.dtype is state.c128)):
                        gi = call_formula(f, n, g, xp, create, None)
                    elif kind == IDENTITY:
                        gi = g
                    elif kind == BINARY:
                        gi = f.direct(g, read(n, f.c0, False, None))
                    elif kind == UNARY:
                        gi = f.direct(g)
                    if gi is not None:
                        if state.n_anomaly != 0:
                            state.check_nan(n, k, gi)
                        if (gi is g and not create and not t.is_node and t.grad is None
                                and shape_of(cast(TensorBase, t.target)) == n.shape):
                            gi = copied(g)      # `fit` would not make it anew
                        if fitted and not t.several and (kind != 0 or create or gi.dtype is n.dtype):
                            accumulate(t, gi, xp, create)
                        else:
                            contribute(t, n.k0 if k == 0 else n.k1 if k == 1 else edge_number(n, k), gi, xp, create)
            t.deps -= 1
            if t.deps == 0:
                if t.is_node:
                    push(call, t)
                else:
                    call.leaves.append(t)
        k += 1


def pass_over(call: Call, task: Task, n: Node) -> None:
    """No gradient goes through this node, but its inputs must not wait for it."""
    k: i64 = 0
    while k < n.n:
        t = task_edge(task, k)
        if t is not None:
            done(call, t)
        k += 1


def slow(call: Call, task: Task, n: Node, g: Any, xp: Any) -> None:
    """Nodes with a joint formula, several outputs, node hooks, a custom backward or a written slice."""
    create = call.create
    x = n.extra
    grads: list[Any]
    if x is not None and x.inner is not None:
        grads = slice_grads(call, task, n, x, g, xp)
    else:
        grads = node_grads(task, n, x, g, xp, create, None)
    if x is not None and x.post is not None:
        grads = run_posthooks(create, x.post, grads, g, n.op)
    deliver(call, task, n, grads, g, xp)


def deliver(call: Call, task: Task, n: Node, grads: list[Any], g: Any, xp: Any) -> None:
    create = call.create
    x = n.extra
    user = x is not None and x.call is not None     # may have returned a tensor that it keeps
    k: i64 = 0
    while k < n.n:
        t = task_edge(task, k)
        if t is not None:
            gi = grads[int(k)] if k < len(grads) else None
            if gi is not None and t.needed:
                if state.n_anomaly != 0:
                    state.check_nan(n, k, gi)
                if not create and not t.is_node and t.grad is None and (user or shares(gi, g, grads, k)):
                    gi = copied(gi)
                contribute(t, edge_number(n, k), gi, xp, create)
            done(call, t)
        k += 1


def shares(gi: Any, g: Any, grads: list[Any], k: i64) -> bool:
    """Whether gi is also somebody else's: the incoming gradient, or the gradient of an earlier input."""
    if gi is g:
        return True
    if isinstance(g, list):
        for y in g:
            if y is gi:
                return True
    i: i64 = 0
    while i < k:
        if grads[int(i)] is gi:
            return True
        i += 1
    return False


def node_grads(task: Task, n: Node, x: Extra | None, g: Any, xp: Any, create: bool,
               owner: Node | None) -> list[Any]:
    """The gradients of n's inputs, not yet fitted."""
    count: i64 = n.n
    grads: list[Any] = []
    k: i64 = 0
    if x is not None and x.call is not None:
        gs: list[Any]
        if x.metas is not None:
            gs = [None] * len(x.metas) if g is None else [None if y is None else as_tensor(y) for y in g]
        else:
            gs = [None if g is None else as_tensor(g)]
        res: Any = x.call(n, gs, create)
        while k < count:
            y = res[int(k)]
            t = task_edge(task, k) if owner is None else None
            if y is None or (owner is None and t is None):
                grads.append(None)
            else:
                tb = cast(TensorBase, y)
                check_shape(n, k, tb, edge(n, k))
                grads.append(tb if create else array_of(tb))
            k += 1
        return grads
    op = n.op
    if x is not None and x.metas is not None and g is not None:
        one = single(op.outputs)
        if one >= 0:
            g = g[int(one)]
    if g is None:
        return [None] * int(count)
    joint = op.joint
    if joint is not None:
        return list(call_formula(joint, n, g, xp, create, owner))
    while k < count:
        f: Formula | None = op.formulas[int(k)] if k < len(op.formulas) else None
        t = task_edge(task, k)                  # of a written slice: the base's, which the first input is a part of
        wanted = f is not None and t is not None and t.needed
        if wanted and f is not None:
            grads.append(call_formula(f, n, g, xp, create, owner))
        else:
            grads.append(None)
        k += 1
    return grads


def single(flags: list[bool]) -> i64:
    """The number of the only differentiable output, or -1 when there are several."""
    found: i64 = -1
    i: i64 = 0
    for f in flags:
        if f:
            if found >= 0:
                return -1
            found = i
        i += 1
    return found


def check_shape(n: Node, k: i64, gi: TensorBase, e: Any) -> None:
    """A custom backward's gradient must have, or broadcast from, the input's shape."""
    if e is None:
        return
    if isinstance(e, Node):
        x = e.extra
        want: Any = e.shape if x is None or x.metas is None else x.metas[int(edge_number(n, k))][0]
    else:
        want = shape_of(cast(TensorBase, e))
    got = shape_of(gi)
    if got == want:
        return
    ok = len(got) >= len(want)
    if ok:
        off = len(got) - len(want)
        i: i64 = 0
        for s in want:
            if s != got[int(i + off)] and s != 1:
                ok = False
            i += 1
    if not ok:
        raise RuntimeError(
            "Function %s returned an invalid gradient at index %d - got %s but expected shape compatible with %s. A "
            "gradient has the shape of the input that it belongs to: sum it over what was broadcast." % (
                n.op.node_name, int(k), shape_text(got), shape_text(want)))


def slice_grads(call: Call, task: Task, n: Node, x: Extra, g: Any, xp: Any) -> list[Any]:
    """A write into a slice: the base's gradient, with the slice's part sent through the writer."""
    create = call.create
    inner = x.inner
    v = x.view
    assert inner is not None and v is not None
    count = int(n.n)
    if g is None:
        return [None] * count
    if inner.freed and needs_saved(inner):
        raise freed_error(inner)
    gb = xp.clone_as(g, x.strides)              # the base's own layout, so that view recipes stay views
    gs = replay_tensor(v, gb) if create else replay(v, gb)
    gc = xp.clone(gs)
    grads = node_grads(task, inner, inner.extra, gc, xp, create, n)
    first = grads[0]
    t0 = task.t0
    if t0 is not None and t0.needed:
        if first is None:
            xp.write(gs, None)
        else:
            xp.write(gs, fit(first, inner.shape, inner.dtype, xp, create))
        grads[0] = gb
    else:
        grads[0] = None
    if not call.retain:
        release(inner, call.line)
        ix = inner.extra
        if ix is not None and ix.release is not None:
            ix.release(inner)
    return grads


def replay_tensor(v: View, t: Any) -> Any:
    for w in view_chain(v):
        if w.op.view and w.op.n_out == 1:
            t = apply1(w.op, t, w.params)
        else:
            t = state.ops.replay_part(w.op, t, w.params)
    return t


COMPUTING: Final = "while computing the gradient of "


def annotate(error: BaseException, n: Node) -> None:
    """Say in the exception which forward line's derivative failed; once, and not if its message says so."""
    e: Any = error
    notes: Any = getattr(e, "__notes__", None)
    if notes is not None:
        for note in notes:
            if str(note).startswith(COMPUTING):
                return
    if state.n_anomaly != 0:
        state.report(n)
    text = node_text(n)
    if text not in str(e):
        e.add_note(COMPUTING + text)


def ones_seed(t: TensorBase) -> Any:
    return state.xp.ones_like(array_of(t))


def gradients(call_result: Any, allow_unused: bool) -> Any:
    """The result of autograd.grad from captured gradients."""
    i: i64 = 0
    for g in call_result:
        if g is None and not allow_unused:
            raise unused_error(i)
        i += 1
    return tuple(call_result)


def wrap_array(a: Any) -> Any:
    return make(a)
