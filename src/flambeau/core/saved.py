"""What a node keeps for backward, and how a formula gets it back."""
from __future__ import annotations

from typing import Any, cast

from mypy_extensions import i64

from .errors import data_write_warning, inference_save_error, version_error
from .objects import (
    VERSION_MASK,
    Cell,
    Node,
    Packed,
    TensorBase,
    View,
    array_of,
    cell_of,
    dtype_of,
    edge,
    edge_number,
    memory_of,
    remake,
    shape_of,
    version_of,
)
from .op import ALL_INPUTS_BIT, DTYPE, DTYPES, INPUTS, OUT, PARAM, SHAPE, SHAPES, Formula, Op
from .state import local, set_grad_enabled, state


def pack(t: TensorBase) -> Any:
    """t through the innermost saved-tensor hook of this thread, which records nothing, or None when there is none."""
    h = getattr(local, "saved_hooks", None)
    if not h:
        return None
    top = h[-1]
    before = version_of(t)
    old = set_grad_enabled(False)
    try:
        kept: Any = top[0](t)
    finally:
        set_grad_enabled(old)
    if version_of(t) != before:
        raise RuntimeError(
            "A saved tensor pack hook is modifying its input in place. Tensors given to a pack hook are still in use by "
            "the forward: change a clone() of them.")
    return Packed(kept, top[1])


def unpacked(s: Packed) -> TensorBase:
    """What the user's unpack hook gives back."""
    t: Any = s.unpack(s.value)
    if not isinstance(t, TensorBase):
        raise TypeError("Output of saved tensor unpack_hook must be a Tensor, and is a "
                        + type(t).__name__)
    return t


def refuse_inference() -> None:
    """Raise for a tensor of inference mode that is to be saved; to what torch.func records it is a constant."""
    if getattr(local, "n_recording", 0) == 0:
        raise inference_save_error()


def save(n: Node, i: i64, value: Any) -> None:
    """Save input i: its array, its version cell and the stamp now.

    Never the tensor: a tensor written in place later points to a younger node, and node -> tensor -> younger
    node -> node would be a cycle. What is needed to make the tensor again is the edge, which the node has.
    """
    version: i64 = 0
    cell: Cell | None = None
    array: Any = value
    if isinstance(value, TensorBase):
        if value._inference:
            refuse_inference()
        p: Any = None
        if state.n_saved_hooks != 0:
            p = pack(value)
        if p is not None:
            array = p
        else:
            cell = value._cell
            if cell is None:
                cell = Cell()
                value._cell = cell
            version = cell.stamp
            array = value._array
            if array is None:
                array = memory_of(value)
    if i == 0:
        n.s0 = array
        n.c0 = cell
        n.v0 = version
    elif i == 1:
        n.s1 = array
        n.c1 = cell
        n.v1 = version
    else:
        m = n.more
        assert m is not None
        m[(i - 2) * 5 + 2] = array
        m[(i - 2) * 5 + 3] = cell
        m[(i - 2) * 5 + 4] = version


def save_output(n: Node, out: TensorBase, array: Any) -> None:
    """Save the single output."""
    if state.n_saved_hooks != 0:
        d = remake(array)
        d._cell = cell_of(out)
        p = pack(d)
        if p is not None:
            n.out = p
            return
    n.out = array
    c = out._cell
    if c is None:
        c = Cell()
        out._cell = c
    n.out_cell = c
    n.out_version = c.stamp


def save_outputs(n: Node, mask: i64, outs: list[Any]) -> None:
    """Save some of several outputs: a list [array, cell, stamp] * number of outputs."""
    kept: list[Any] = []
    i: i64 = 0
    one: i64 = 1
    for o in outs:
        if mask & (one << (OUT + i)):
            t = cast(TensorBase, o)
            c = t._cell
            if c is None:
                c = Cell()
                t._cell = c
            p: Any = None
            if state.n_saved_hooks != 0:
                d = remake(memory_of(t))
                d._cell = c
                p = pack(d)
            if p is not None:
                kept.extend([p, None, 0])
            else:
                kept.extend([memory_of(t), c, int(c.stamp)])
        else:
            kept.extend([None, None, 0])
        i += 1
    n.out = kept


def needs_saved(n: Node) -> bool:
    """Whether n's formulas read values that a backward gives up."""
    op = n.op
    j = op.joint
    if j is not None:
        return j.mask != 0
    i: i64 = 0
    for f in op.formulas:
        if f is not None and f.mask != 0 and edge(n, i) is not None:
            return True
        i += 1
    return False


def release(n: Node, by: Any) -> None:
    """Give up saved values; by is (code, instruction) of the backward."""
    n.freed = True
    n.s0 = None
    n.s1 = None
    n.c0 = None
    n.c1 = None
    n.out = None
    n.out_cell = None
    m = n.more
    if m is not None:
        i: i64 = 2
        k: i64 = len(m)
        while i < k:
            m[int(i)] = None
            m[int(i + 1)] = None
            i += 5


def check(n: Node, c: Cell | None, had: i64, what: str, s: Any, i: i64 = -1) -> None:
    """The saved value, of input i if it is one, must be as it was."""
    if c is not None and c.stamp != had:
        if isinstance(s, Packed):
            s = s.value
        if (c.stamp & VERSION_MASK) != (had & VERSION_MASK):
            raise version_error(n, what, i, c, had, s.shape, s.dtype)
        data_write_warning(n, what, c)


def input_name(n: Node, i: i64) -> str:
    names = n.op.input_names
    if i < len(names):
        return "input '" + names[int(i)] + "'"
    return "input %d" % int(i)


def read_input(n: Node, i: i64, create: bool) -> Any:
    had: i64
    c: Cell | None
    if i == 0:
        s = n.s0
        c = n.c0
        had = n.v0
    elif i == 1:
        s = n.s1
        c = n.c1
        had = n.v1
    else:
        m = n.more
        assert m is not None
        s = m[(i - 2) * 5 + 2]
        c = cast(Cell | None, m[(i - 2) * 5 + 3])
        had = cast(int, m[(i - 2) * 5 + 4])
    if c is not None and c.stamp != had:
        check(n, c, had, input_name(n, i), s, i)
    if not create:
        if isinstance(s, Packed):
            return array_of(unpacked(s))
        return s
    if s is None:
        return None
    e = edge(n, i)
    if isinstance(s, Packed):
        u = unpacked(s)
        if e is None:
            return u
        t = remake(memory_of(u))
        t._tangent = u._tangent
        if isinstance(e, Node):
            t._node = e
            t._nr = edge_number(n, i)
        else:
            t._node = alias_of(cast(TensorBase, e))
        t._rg = True
        return t
    if e is not None and not isinstance(e, Node):
        leaf = cast(TensorBase, e)
        if leaf._array is None or leaf._array is s:
            return e                               # a leaf is itself
        t = remake(s)                              # but for `leaf.data = other` since: the old values, with its history
        t._node = alias_of(leaf)
        t._rg = True
        return t
    t = remake(s)
    t._cell = c
    if e is not None:
        t._node = e
        t._nr = edge_number(n, i)
        t._rg = True
    return t


def alias_of(leaf: TensorBase) -> Node:
    """An identity node whose input is the leaf."""
    n = Node(ALIAS[0])
    n.n = 1
    n.e0 = leaf
    n.shape = shape_of(leaf)
    n.dtype = dtype_of(leaf)
    return n


ALIAS: list[Op] = []


def read_output(n: Node, j: i64, create: bool, owner: Node | None) -> Any:
    x = n.extra
    multi = x is not None and x.metas is not None
    s: Any
    c: Cell | None
    had: i64
    if multi:
        kept = cast(list[Any], n.out)
        s = kept[int(j * 3)]
        c = cast(Cell | None, kept[int(j * 3 + 1)])
        had = cast(int, kept[int(j * 3 + 2)])
    else:
        s = n.out
        c = n.out_cell
        had = n.out_version
    if c is not None and c.stamp != had:
        check(n, c, had, "output" if not multi else "output %d" % int(j), s)
    tangent: Any = None
    if isinstance(s, Packed):
        u = unpacked(s)
        if not create:
            return array_of(u)
        s = memory_of(u)
        tangent = u._tangent
    if not create:
        return s
    t = remake(s)
    t._cell = c
    t._tangent = tangent
    if multi and not n.op.outputs[int(j)]:
        return t
    t._node = n if owner is None else slice_node(owner, n)
    t._nr = j if multi else 0
    t._rg = True
    return t


def slice_node(owner: Node, inner: Node) -> Node:
    """The history of a written slice is its CopySlices seen through the view, never the writer itself, which
    would be run, and freed, twice. Made on demand: kept, it would close a cycle."""
    chain: list[View] = []
    x = owner.extra
    assert x is not None
    v = x.view
    while v is not None:
        chain.append(v)
        v = v.up
    node = owner
    i: i64 = len(chain) - 1
    while i >= 0:
        new = Node(chain[int(i)].op)
        new.n = 1
        new.e0 = node
        new.params = chain[int(i)].params
        new.shape = chain[int(i - 1)].shape if i > 0 else inner.shape
        new.dtype = inner.dtype
        node = new
        i -= 1
    return node


def input_shape(n: Node, i: i64) -> Any:
    e = edge(n, i)
    if isinstance(e, Node):
        x = e.extra
        if x is not None and x.metas is not None:
            return x.metas[int(edge_number(n, i))][0]
        return e.shape
    if e is None:
        return None
    return shape_of(cast(TensorBase, e))


def input_dtype(n: Node, i: i64) -> Any:
    e = edge(n, i)
    if isinstance(e, Node):
        x = e.extra
        if x is not None and x.metas is not None:
            return x.metas[int(edge_number(n, i))][1]
        return e.dtype
    if e is None:
        return None
    return dtype_of(cast(TensorBase, e))


def read(n: Node, code: i64, create: bool, owner: Node | None) -> Any:
    """A value that a formula names: an array, or a Tensor when the backward is recorded."""
    if code < OUT:
        return read_input(n, code, create)
    if code < SHAPE:
        return read_output(n, code - OUT, create, owner)
    if code < DTYPE:
        return input_shape(n, code - SHAPE)
    if code < PARAM:
        return input_dtype(n, code - DTYPE)
    if code < INPUTS:
        return n.params[int(code - PARAM)]
    k: i64 = 0
    res: list[Any] = []
    while k < n.n:
        if code == INPUTS:
            res.append(read_input(n, k, create))
        elif code == SHAPES:
            res.append(input_shape(n, k))
        elif code == DTYPES:
            res.append(input_dtype(n, k))
        else:
            res.append(edge(n, k) is not None)
        k += 1
    return res


def call_formula(f: Formula, n: Node, g: Any, xp: Any, create: bool, owner: Node | None) -> Any:
    k = f.n
    if k == 0:
        return f.fn(xp, g)
    v0 = read(n, f.c0, create, owner)
    if k == 1:
        return f.fn(xp, g, v0)
    v1 = read(n, f.c1, create, owner)
    if k == 2:
        return f.fn(xp, g, v0, v1)
    v2 = read(n, f.c2, create, owner)
    if k == 3:
        return f.fn(xp, g, v0, v1, v2)
    vs: list[Any] = [v0, v1, v2]
    i: i64 = 3
    while i < k:
        vs.append(read(n, f.codes[int(i)], create, owner))
        i += 1
    return f.fn(xp, g, *vs)


def all_inputs(mask: i64) -> bool:
    return (mask & ALL_INPUTS_BIT) != 0

