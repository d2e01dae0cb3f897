"""In-place: refuse what autograd cannot follow, write, count the version, make the write part of the history."""
from __future__ import annotations

from typing import Any, cast

from mypy_extensions import i64

from .apply import INPLACE, OUT_BIT, connect, failed, keep, operand, run_n
from .errors import inference_inplace_error, leaf_inplace_error, view_error
from .objects import (
    DATA_WRITE,
    Node,
    TensorBase,
    array_of,
    cell_of,
    dtype_of,
    extra_of,
    make,
    memory_of,
    put_edge,
    requires,
    shape_of,
    user_frame,
)
from .op import COPY_SLICES, Op
from .saved import save, save_output
from .state import grad_enabled, inference_enabled, quiet, quiet2, quiet3, state
from .views import find_again, is_leaf, move_retain, renew, set_edge, without_base


def check_writable(op: Op, a: TensorBase, ra: bool, recording: bool) -> None:
    """Raise before anything is written when autograd cannot follow a write into a."""
    if a._inference and not inference_enabled():
        raise inference_inplace_error()
    if recording:
        v = a._view
        if v is not None:
            if ra and is_leaf(v.base):
                raise leaf_inplace_error(a, True, inplace_name(op))
            if v.creation != "":
                fn = a._node
                raise view_error(a, fn, fn.op.node_name if fn is not None else v.op.node_name, v.creation, False, a._nr)
            if ra and is_leaf(a):
                raise leaf_inplace_error(a, False, inplace_name(op))
        elif ra and a._node is None:
            raise leaf_inplace_error(a, False, inplace_name(op))


def inplace_name(op: Op) -> str:
    return op.name if op.name.endswith("_") else op.name + "_"


def wrote(op: Op, a: TensorBase, n: Node | None) -> None:
    """Count the write, and remember where it was."""
    c = cell_of(a)
    c.stamp += 1
    c.op = op
    if n is not None:
        c.code = n.code
        c.lasti = n.lasti
    else:
        pair: tuple[Any, Any] = user_frame()
        c.code = pair[0]
        c.lasti = pair[1]
    o = c.origin
    if o is not None:
        o.stamp += DATA_WRITE
        o.op = op
        o.code = c.code
        o.lasti = c.lasti


def apply_inplace1(op: Op, a: TensorBase) -> Any:
    """a.op_()"""
    return inplace_pointwise(op, a, None, False)


def apply_inplace2(op: Op, a: TensorBase, b: Any) -> Any:
    """a.op_(b) for a pointwise operator: b is a tensor or a number."""
    return inplace_pointwise(op, a, b, True)


def inplace_pointwise(op: Op, a: TensorBase, b: Any, two: bool) -> Any:
    if state.special != 0:
        r = state.intercept(op, (a, b) if two else (a,), None, INPLACE)
        if r is not NotImplemented:
            return r
    aa = a._array
    if aa is None:
        r = state.lazy(op, (a, b) if two else (a,), None, INPLACE)
        if r is not NotImplemented:
            return r
        aa = memory_of(a)
        if type(aa) is not state.array:        # meta, beside what is no number
            return NotImplemented
    da = a._dtype
    if da is None:
        da = aa.dtype
        a._dtype = da
    bb: Any = None
    rb = False
    tb: TensorBase | None = None
    same = True
    if two:
        if isinstance(b, TensorBase):
            t: TensorBase = b               # checked once: a narrowed name is checked at each use
            tb = t
            bb = t._array
            if bb is None:
                r = state.lazy(op, (a, b), None, INPLACE)
                if r is not NotImplemented:
                    return r
                bb = array_of(t)
            rb = t._rg or (t._view is not None and requires(t))
            db = dtype_of(t)
        else:
            bb = operand(op, b, da)
            if bb is None:
                return NotImplemented
            db = bb.dtype
            b = bb
        same = da is db
    ra = a._rg or (a._view is not None and requires(a))
    recording = ((ra or rb) and (state.n_grad_off == 0 or grad_enabled()) and op.differentiable
                 and (da is state.f32 or da is state.f64 or state.is_float(da)))
    if recording or a._inference:
        check_writable(op, a, ra, recording)
    wide: Any = bb
    first: Any = aa
    to_float = op.float_result and da is not state.f32 and da is not state.f64 and not state.is_float(da)
    if not same or to_float or op.bool_out:
        # may refuse: the result's dtype must be castable to a's
        pair: tuple[Any, Any] = state.promote_inplace(op, aa, bb, two and tb is None)
        first = pair[0]
        wide = pair[1]
    if (aa.base is not None and not op.overlap_allowed and not (op.is_copy and (b is a or tb is None))
            and state.xp.overlaps(aa)):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor lies at the same place in "
            "memory, as in an expand()ed tensor. Write to a clone() of it.")
    if tb is not None and (aa.base is not None or bb.base is not None) and state.xp.partial(aa, bb):
        raise RuntimeError(
            "unsupported operation: some elements of the input tensor and of the one written to share a single "
            "memory location, so that the result would depend on the order of the writes. Pass a clone() of one of "
            "them.")
    n: Node | None = None
    mask: i64 = 0
    if recording:
        n = Node(op)
        mask = (op.mask0 if ra else 0) | (op.mask1 if rb else 0)
        n.n = 2 if two else 1
        if ra:
            if a._view is None:
                n.e0 = a._node
                n.k0 = a._nr
            else:
                set_edge(n, 0, a)
        if mask & 1:
            save(n, 0, make(state.xp.clone(aa)))        # the value before the write
        if two:
            if rb:
                assert tb is not None
                if tb._view is None:
                    nd = tb._node
                    if nd is not None:
                        n.e1 = nd
                        n.k1 = tb._nr
                    else:
                        n.e1 = tb
                else:
                    set_edge(n, 1, tb)
            if mask & 2:
                save(n, 1, b)                                # x.mul_(x): its own write spoils it, as in PyTorch
        sa = shape_of(a)
        n.shape = sa
        n.dtype = da
        if same and op.same_dtype and len(sa) != 0:
            if tb is None:
                n.exact = True
            else:
                sb = shape_of(tb)
                if sa is sb:
                    n.exact = True
                elif sa == sb:
                    tb._shape = sa           # one tuple for both: the next comparison is by identity
                    n.exact = True
    try:
        if first is aa and op.inplace is not None:
            if two:
                quiet3(op.inplace, aa, wide, aa)
            else:
                quiet2(op.inplace, aa, aa)
        else:
            x = quiet2(op.kernel, first, wide) if two else quiet(op.kernel, (first,))
            quiet2(state.xp.copy_into, aa, x)
    except (ValueError, TypeError) as error:
        raise failed(op, (aa, bb, aa), error) from None
    wrote(op, a, n)
    if n is not None:
        rebase(a, n)
        if mask & OUT_BIT:
            save_output(n, a, aa)
    return a


def apply_inplace(op: Op, inputs: list[Any], params: Any = None) -> Any:
    """inputs[0].op_(...) for any operator of one output: its kernel's result is written into inputs[0]."""
    a = cast(TensorBase, inputs[0])
    if state.special != 0:
        r = state.intercept(op, tuple(inputs), params, INPLACE)
        if r is not NotImplemented:
            return r
    arrays: list[Any] = []
    need = False
    for t in inputs:
        if t is None or not isinstance(t, TensorBase):
            arrays.append(t)
        else:
            aa = t._array
            if aa is None:
                r = state.lazy(op, tuple(inputs), params, INPLACE)
                if r is not NotImplemented:
                    return r
                aa = array_of(t)
            arrays.append(aa)
            if requires(t):
                need = True
    aa = arrays[0]
    ra = requires(a)
    recording = need and grad_enabled() and op.differentiable and state.is_float(dtype_of(a))
    check_writable(op, a, ra, recording)
    if aa.base is not None and not op.overlap_allowed and state.xp.overlaps(aa):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor lies at the same place in "
            "memory, as in an expand()ed tensor. Write to a clone() of it.")
    try:
        x = run_n(op, arrays, params)
    except (ValueError, TypeError) as error:
        raise failed(op, tuple(arrays), error) from None
    fits = type(x) is state.array and x.dtype is aa.dtype and x.shape == aa.shape
    if not fits:
        x = state.xp.fit_write(op, aa, x)                 # refuses another shape, or a dtype that cannot be cast
    n: Node | None = None
    mask: i64 = 0
    if recording:
        n = Node(op)
        mask = connect(n, op, inputs)
        values = inputs
        if saves_first(op):                               # a formula reads the value before the write
            old = make(state.xp.clone(aa))
            values = [old, *inputs[1:]]
        keep(n, mask, values)
        n.params = params
        n.shape = shape_of(a)
        n.dtype = dtype_of(a)
    if fits:
        aa[...] = x
    else:
        quiet2(state.xp.copy_into, aa, x)
    wrote(op, a, n)
    if n is not None:
        rebase(a, n)
        if mask & OUT_BIT:
            save_output(n, a, aa)
    return a


def saves_first(op: Op) -> bool:
    """Whether some formula reads the first input: then its value before the write is kept."""
    if op.joint is not None and (op.joint.mask & 1) != 0:
        return True
    for f in op.formulas:
        if f is not None and (f.mask & 1) != 0:
            return True
    return False


def rebase(a: TensorBase, n: Node) -> None:
    """Make n the history of a; for a view, make a CopySlices the history of its base."""
    v = a._view
    old = a._node
    if v is None:
        if a._retains:
            move_retain(a, old, n, 0)
        a._node = n
        a._nr = 0
        a._rg = True
        return
    base = v.base
    cs = Node(COPY_SLICES)
    cs.code = n.code
    cs.lasti = n.lasti
    cs.scope = n.scope
    cs.n = n.n
    set_edge(cs, 0, base)
    i: i64 = 1
    while i < n.n:
        if i == 1:
            cs.e1 = n.e1
            cs.k1 = n.k1
        else:
            m = n.more
            assert m is not None
            put_edge(cs, i, m[int((i - 2) * 5)], cast(int, m[int((i - 2) * 5 + 1)]))
        i += 1
    x = extra_of(cs)
    x.inner = n                # keeps the view's own old edge: what its saved `self` is a function of
    c = cell_of(a)
    if c.reshaped != 0:
        find_again(a, v, c)
    x.view = without_base(v)
    ba = memory_of(base)
    cs.shape = ba.shape
    cs.dtype = ba.dtype
    x.strides = ba.strides
    if base._retains:
        move_retain(base, base._node, cs, 0)
    base._node = cs
    base._nr = 0
    base._rg = True
    new = renew(v, base)
    if a._retains:
        move_retain(a, old, new, 0)
    a._node = new
    a._nr = 0
    a._rg = True
    v.version = c.stamp
