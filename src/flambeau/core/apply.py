"""The forward: run an operator's kernel, make the result's tensor, record a node when a gradient may be asked.

One function per arity, so that the hot way packs no argument lists. Operators that write in place are in
`inplace`.
"""
from __future__ import annotations

from math import copysign
from typing import Any, Final, cast

from mypy_extensions import i64

from .objects import (
    Cell,
    Node,
    TensorBase,
    View,
    array_of,
    cell_of,
    dtype_of,
    edge,
    extra_of,
    make,
    memory_of,
    requires,
    shape_of,
)
from .op import ALL_INPUTS_BIT, OUT, Op
from .saved import refuse_inference, save, save_output, save_outputs
from .state import grad_enabled, quiet, quiet1, quiet2, quiet3, quiet4, quiet5, state
from .views import attach_view, set_edge

OUT_BIT: Final = 65536       # bit of the (first) output in a save mask
CALL: Final = 0              # kinds of interception
INPLACE: Final = 1
SPLIT: Final = 2


def failed(op: Op, arrays: Any, error: Any) -> Any:
    """The exception to raise for a kernel's ValueError or TypeError."""
    return state.explain(op, arrays, error)


def apply1(op: Op, a: TensorBase, params: Any = None) -> Any:
    """An operator of one tensor and parameters."""
    if state.special != 0:
        r = state.intercept(op, (a,), params, CALL)
        if r is not NotImplemented:
            return r
    aa = a._array
    if aa is None:
        r = state.lazy(op, (a,), params, CALL)
        if r is not NotImplemented:
            return r
        aa = array_of(a)
    pointwise = op.pointwise
    if pointwise:
        d = a._dtype
        if d is None:
            d = aa.dtype
            a._dtype = d
        if op.float_result and d is not state.f32 and d is not state.f64 and not state.is_float(d):
            aa = state.floating(aa)
            d = aa.dtype
    try:
        if params is None:
            x = quiet1(op.kernel, aa)
        else:
            p: tuple[Any, ...] = params
            k = len(p)
            if k == 1:
                x = quiet2(op.kernel, aa, p[0])
            elif k == 2:
                x = quiet3(op.kernel, aa, p[0], p[1])
            elif k == 3:
                x = quiet4(op.kernel, aa, p[0], p[1], p[2])
            elif k == 4:
                x = quiet5(op.kernel, aa, p[0], p[1], p[2], p[3])
            else:
                x = quiet(op.kernel, (aa, *p))
    except (ValueError, TypeError) as error:
        raise failed(op, (aa,), error) from None
    if type(x) is not state.array:
        x = state.wrap(x)
    out = make(x)
    grad = state.n_grad_off == 0 or grad_enabled()
    if op.view:
        attach_view(out, op, a, params, "" if grad else "no_grad")
        if a._inference:
            out._inference = True
        elif out._inference:
            out._inference = False          # a view of a normal tensor is a normal tensor
            v = out._view
            if v is not None and v.creation == "":
                v.creation = "inference"
    if grad and op.differentiable and (a._rg or (a._view is not None and requires(a))):
        if pointwise and op.same_dtype:
            shape = a._shape
            if shape is None:
                shape = aa.shape
                a._shape = shape
            out._shape = shape
            out._dtype = d
        else:
            shape = x.shape
            d = x.dtype
            out._shape = shape
            out._dtype = d
            if op.check_float and not state.is_float(d):
                return out
        n = Node(op)
        n.n = 1
        if a._view is None:
            nd = a._node
            if nd is not None:
                n.e0 = nd
                n.k0 = a._nr
            else:
                n.e0 = a
        else:
            set_edge(n, 0, a)
        mask = op.mask0
        if mask & 1:
            save(n, 0, a)
        n.params = params
        n.shape = shape
        n.dtype = d
        if pointwise and op.same_dtype and d is a._dtype and len(shape) != 0:
            n.exact = True
        out._node = n
        out._rg = True
        if mask & OUT_BIT:
            save_output(n, out, x)
    return out


_constants: Final[dict[Any, Any]] = {}
_int_constants: Final[dict[Any, Any]] = {}      # apart: 2 and 2.0 are equal keys
_zeros: Final[dict[Any, Any]] = {}              # and so are 0.0 and -0.0


def constant(value: Any, dtype: Any) -> Any:
    """A number as a read-only 0-d array, of the dtype in which it meets a tensor of dtype; None if not a number."""
    if type(value) is float:
        if value == 0.0:
            z = _zeros.get(dtype)
            if z is None or copysign(1.0, value) < 0.0:
                z = state.constant(value, dtype)
                if copysign(1.0, value) > 0.0:
                    _zeros[dtype] = z
            return z
        key: Any = (value, dtype)
        r = _constants.get(key)
        if r is not None:
            return r
        r = state.constant(value, dtype)
        if r is not None and len(_constants) < 4096:
            _constants[key] = r
        return r
    if type(value) is int:
        k: Any = (value, dtype)
        r = _int_constants.get(k)
        if r is None:
            r = state.constant(value, dtype)
            if len(_int_constants) < 4096:
                _int_constants[k] = r
        return r
    return state.constant(value, dtype)


def operand(op: Op, value: Any, dtype: Any) -> Any:
    """A number beside a tensor of dtype in op: not rounded to integers when the operator computes in floats."""
    if op.float_result and dtype is not state.f32 and dtype is not state.f64 and not state.is_float(dtype):
        one = constant(1.0, dtype)
        dtype = one.dtype
    return constant(value, dtype)


def forget_constants() -> None:
    """The default dtype has changed."""
    _constants.clear()
    _int_constants.clear()
    _zeros.clear()


def apply2(op: Op, a: Any, b: Any) -> Any:
    """An operator of two tensors, or of a tensor and a number, that broadcasts them."""
    if state.special != 0:
        r = state.intercept(op, (a, b), None, CALL)
        if r is not NotImplemented:
            return r
    ra = False
    rb = False
    ta: TensorBase | None = None
    tb: TensorBase | None = None
    if isinstance(a, TensorBase):
        t1: TensorBase = a                  # checked once: a narrowed name is checked at each use
        ta = t1
        aa = t1._array
        if aa is None:
            r = state.lazy(op, (a, b), None, CALL)
            if r is not NotImplemented:
                return r
            aa = memory_of(t1)
            if type(aa) is not state.array:        # meta, beside what is no number
                return NotImplemented
        da = t1._dtype
        if da is None:
            da = aa.dtype
            t1._dtype = da
        ra = t1._rg or (t1._view is not None and requires(t1))
        if isinstance(b, TensorBase):
            t2: TensorBase = b
            tb = t2
            bb = t2._array
            if bb is None:
                r = state.lazy(op, (a, b), None, CALL)
                if r is not NotImplemented:
                    return r
                bb = memory_of(t2)
                if type(bb) is not state.array:        # meta, beside what is no number
                    return NotImplemented
            db = t2._dtype
            if db is None:
                db = bb.dtype
                t2._dtype = db
            rb = t2._rg or (t2._view is not None and requires(t2))
        else:
            bb = operand(op, b, da)
            if bb is None:
                return NotImplemented
            db = bb.dtype
            b = bb
    elif isinstance(b, TensorBase):
        t3: TensorBase = b
        tb = t3
        bb = t3._array
        if bb is None:
            r = state.lazy(op, (a, b), None, CALL)
            if r is not NotImplemented:
                return r
            bb = memory_of(t3)
            if type(bb) is not state.array:        # meta, beside what is no number
                return NotImplemented
        db = t3._dtype
        if db is None:
            db = bb.dtype
            t3._dtype = db
        rb = t3._rg or (t3._view is not None and requires(t3))
        aa = operand(op, a, db)
        if aa is None:
            return NotImplemented
        da = aa.dtype
        a = aa
    else:
        return NotImplemented
    same = da is db
    if not same or (op.float_result and da is not state.f32 and da is not state.f64 and not state.is_float(da)):
        pair: tuple[Any, Any] = state.promote(op, aa, bb, ta is None, tb is None)
        aa = pair[0]
        bb = pair[1]
        same = False
    try:
        x = quiet2(op.kernel, aa, bb)
    except (ValueError, TypeError) as error:
        raise failed(op, (aa, bb), error) from None
    if type(x) is not state.array:
        x = state.wrap(x)
    elif op.pointwise and ta is not None and tb is not None and not aa.flags.c_contiguous:
        x = state.follow(x, aa, bb)
    out = make(x)
    if (ra or rb) and op.differentiable and (state.n_grad_off == 0 or grad_enabled()):
        n = Node(op)
        n.n = 2
        mask: i64 = 0
        if ra:
            t = ta
            assert t is not None
            if t._view is None:
                nd = t._node
                if nd is not None:
                    n.e0 = nd
                    n.k0 = t._nr
                else:
                    n.e0 = t
            else:
                set_edge(n, 0, t)
            mask = op.mask0
        if rb:
            t = tb
            assert t is not None
            if t._view is None:
                nd = t._node
                if nd is not None:
                    n.e1 = nd
                    n.k1 = t._nr
                else:
                    n.e1 = t
            else:
                set_edge(n, 1, t)
            mask |= op.mask1
        if mask & 3:
            if state.n_saved_hooks == 0:         # `save`, written out
                if mask & 1:
                    if ta is None:
                        n.s0 = a
                    else:
                        if ta._inference:
                            refuse_inference()
                        c = ta._cell
                        if c is None:
                            c = Cell()
                            ta._cell = c
                        n.s0 = ta._array
                        n.c0 = c
                        n.v0 = c.stamp
                if mask & 2:
                    if tb is None:
                        n.s1 = b
                    else:
                        if tb._inference:
                            refuse_inference()
                        c = tb._cell
                        if c is None:
                            c = Cell()
                            tb._cell = c
                        n.s1 = tb._array
                        n.c1 = c
                        n.v1 = c.stamp
            else:
                if mask & 1:
                    save(n, 0, a)
                if mask & 2:
                    save(n, 1, b)
        if same and op.same_dtype:
            if ta is not None and tb is not None:
                sa = shape_of(ta)
                sb = shape_of(tb)
                if sa is sb:
                    n.exact = len(sa) != 0
                    out._shape = sa
                elif sa == sb:
                    tb._shape = sa           # one tuple for both: the next comparison is by identity
                    n.exact = len(sa) != 0
                    out._shape = sa
                else:
                    out._shape = x.shape
            else:
                t = ta if ta is not None else tb
                assert t is not None
                sa = shape_of(t)
                n.exact = len(sa) != 0
                out._shape = sa
            out._dtype = da
        else:
            out._shape = x.shape
            out._dtype = x.dtype
        n.shape = out._shape
        n.dtype = out._dtype
        out._node = n
        out._rg = True
        if mask & OUT_BIT:
            save_output(n, out, x)
    return out


def apply_n(op: Op, inputs: list[Any], params: Any = None) -> Any:
    """Any operator: a list of tensors (None where absent), parameters; one or several outputs."""
    if state.special != 0:
        r = state.intercept(op, tuple(inputs), params, CALL)
        if r is not NotImplemented:
            return r
    arrays: list[Any] = []
    need = False
    for t in inputs:
        if t is None:
            arrays.append(None)
        else:
            tt = cast(TensorBase, t)
            aa = tt._array
            if aa is None:
                r = state.lazy(op, tuple(inputs), params, CALL)
                if r is not NotImplemented:
                    return r
                aa = array_of(tt)
            arrays.append(aa)
            if tt._rg or (tt._view is not None and requires(tt)):
                need = True
            if tt._inference:
                pass
    try:
        x = run_n(op, arrays, params)
    except (ValueError, TypeError) as error:
        raise failed(op, tuple(arrays), error) from None

    record = need and op.differentiable and (state.n_grad_off == 0 or grad_enabled())
    if op.n_out != 1:
        return several(op, inputs, params, x, record)
    if type(x) is not state.array:
        x = state.wrap(x)
    out = make(x)
    if record:
        d = x.dtype
        out._dtype = d
        if op.check_float and not state.is_float(d):
            return out
        s = x.shape
        out._shape = s
        n = Node(op)
        mask = record_inputs(n, op, inputs)
        n.params = params
        n.shape = s
        n.dtype = d
        out._node = n
        out._rg = True
        if mask & OUT_BIT:
            save_output(n, out, x)
    return out


def run_n(op: Op, arrays: list[Any], params: Any) -> Any:
    """The kernel on several arrays; a variadic operator gets them as one list."""
    if op.n_in < 0:
        if params is None:
            return quiet1(op.kernel, arrays)
        p: tuple[Any, ...] = params
        if len(p) == 1:
            return quiet2(op.kernel, arrays, p[0])
        if len(p) == 2:
            return quiet3(op.kernel, arrays, p[0], p[1])
        return quiet(op.kernel, (arrays, *p))
    if params is None:
        if len(arrays) == 3:
            return quiet3(op.kernel, arrays[0], arrays[1], arrays[2])
        if len(arrays) == 2:
            return quiet2(op.kernel, arrays[0], arrays[1])
        return quiet(op.kernel, tuple(arrays))
    if len(arrays) == 2 and len(params) == 1:
        return quiet3(op.kernel, arrays[0], arrays[1], params[0])
    return quiet(op.kernel, (*arrays, *params))


def several(op: Op, inputs: list[Any], params: Any, results: Any, record: bool) -> Any:
    """Tensors for several outputs (no views), and their node."""
    outs: list[Any] = []
    metas: list[Any] = []
    for y in results:
        if type(y) is not state.array:
            y = state.wrap(y)
        outs.append(make(y))
        if record:
            metas.append((y.shape, y.dtype))
    if record:
        n = Node(op)
        mask = record_inputs(n, op, inputs)
        n.params = params
        x = extra_of(n)
        x.metas = metas
        flags = op.outputs
        i: i64 = 0
        for o in outs:
            t = cast(TensorBase, o)
            if (len(flags) == 0 or flags[int(i)]) and state.is_float(dtype_of(t)):
                t._node = n
                t._nr = i
                t._rg = True
            i += 1
        if mask >> OUT:
            save_outputs(n, mask, outs)
    return outs


def record_inputs(n: Node, op: Op, inputs: list[Any]) -> i64:
    """Edges and saved inputs of n; returns the save mask of the formulas that will be consulted."""
    mask = connect(n, op, inputs)
    keep(n, mask, inputs)
    return mask & (ALL_INPUTS_BIT - 1)


def connect(n: Node, op: Op, inputs: list[Any]) -> i64:
    """The edges of n; returns the save mask."""
    mask: i64 = 0
    i: i64 = 0
    joint = op.joint
    for t in inputs:
        if t is not None and isinstance(t, TensorBase):
            if joint is None:
                f = op.formulas[int(i)] if i < len(op.formulas) else None
                if f is None:
                    none_edge(n, i)
                else:
                    set_edge(n, i, t)
                    if edge(n, i) is not None:
                        mask |= f.mask
            else:
                set_edge(n, i, t)
        else:
            none_edge(n, i)
        i += 1
    n.n = i
    if joint is not None:
        mask |= joint.mask
    return mask


def keep(n: Node, mask: i64, values: list[Any]) -> None:
    """Save the inputs in mask."""
    if mask == 0:
        return
    i: i64 = 0
    one: i64 = 1
    everything = (mask & ALL_INPUTS_BIT) != 0
    for t in values:
        if everything or (i < OUT and mask & (one << i)):
            save(n, i, t)
        i += 1


def none_edge(n: Node, i: i64) -> None:
    if i > 1:
        m = n.more
        if m is None:
            m = []
            n.more = m
        m.extend([None, 0, None, None, 0])


def apply_split(op: Op, a: TensorBase, params: Any) -> Any:
    """A view operator with several outputs (unbind, split, chunk): a list of views.

    The recipe of output i is the operator's with i appended to params: the kernel called so gives that part.
    """
    if state.special != 0:
        r = state.intercept(op, (a,), params, SPLIT)
        if r is not NotImplemented:
            return r
    aa = a._array
    if aa is None:
        r = state.lazy(op, (a,), params, SPLIT)
        if r is not NotImplemented:
            return r
        aa = array_of(a)
    k = len(params)
    parts: Any = quiet2(op.kernel, aa, params[0]) if k == 1 else quiet3(op.kernel, aa, params[0], params[1])
    outs: list[Any] = []
    grad = grad_enabled()
    n: Node | None = None
    metas: list[Any] = []
    if grad and requires(a):
        n = Node(op)
        n.n = 1
        set_edge(n, 0, a)
        n.params = params
        extra_of(n).metas = metas
    c: Cell = cell_of(a)
    up = a._view
    base = a if up is None else up.base
    why = "multi" if grad else "no_grad"
    if up is not None and up.creation != "":
        why = up.creation
    shape = shape_of(a)
    stamp = c.stamp
    inference = a._inference
    d = dtype_of(a)
    i: i64 = 0
    for p in parts:
        out = make(p)
        out._cell = c
        out._view = View(base, up, op, params + (int(i),), shape, why, stamp)
        out._inference = inference
        if n is not None:
            s = p.shape
            out._shape = s
            out._dtype = d
            metas.append((s, d))
            out._node = n
            out._nr = i
            out._rg = True
        outs.append(out)
        i += 1
    return outs
