"""Views: their recipes, and their history after a write to the memory they share with others."""
from __future__ import annotations

import weakref
from typing import Any, Final

from mypy_extensions import i64

from .errors import view_error
from .objects import VERSION_MASK, Cell, Node, TensorBase, View, cell_of, extra_of, memory_of, requires, shape_of
from .op import Op
from .state import grad_enabled, quiet, quiet1, quiet2, quiet3, state

weak: Final = weakref.ref


def run_kernel(op: Op, a: Any, params: Any) -> Any:
    """The kernel on one array and parameters, without NumPy's warnings."""
    if type(a) is not state.array:
        return state.meta(op, a, params)
    if params is None:
        return quiet1(op.kernel, a)
    p: tuple[Any, ...] = params
    k = len(p)
    if k == 1:
        return quiet2(op.kernel, a, p[0])
    if k == 2:
        return quiet3(op.kernel, a, p[0], p[1])
    return quiet(op.kernel, (a, *p))


def attach_view(out: TensorBase, op: Op, a: TensorBase, params: Any, creation: str) -> None:
    """Make out a view of a through op."""
    c = cell_of(a)
    out._cell = c
    up = a._view
    if up is not None and c.reshaped != 0:
        find_again(a, up, c)
    if up is None:
        out._view = View(a, None, op, params, shape_of(a), creation, c.stamp)
    else:
        why = up.creation if up.creation != "" else creation
        out._view = View(up.base, up, op, params, shape_of(a), why, c.stamp)


def find_again(t: TensorBase, v: View, c: Cell) -> None:
    """Have the recipe of a view whose base was given another shape since say where the view lies in memory."""
    if (v.version & VERSION_MASK) < c.reshaped:
        place: tuple[Any, Any] = state.place(t, v.base)
        v.up = None
        v.op = place[0]
        v.params = place[1]
        v.shape = shape_of(v.base)


def grad_fn(t: TensorBase) -> Node | None:
    """The node of t; that of a view whose memory was written since is made again from its base."""
    v = t._view
    if v is not None:
        c = cell_of(t)
        if (v.version ^ c.stamp) & VERSION_MASK:
            if c.reshaped != 0:
                find_again(t, v, c)
            base = v.base
            if t._node is None and not base._rg:
                return None
            if v.creation != "":
                name = t._node.op.node_name if t._node is not None else v.op.node_name
                raise view_error(t, t._node, name, v.creation, True, t._nr)
            old = t._node
            new = renew(v, base)
            move_retain(t, old, new, 0)
            t._node = new
            t._nr = 0
            t._rg = True
            v.version = c.stamp
    return t._node


def renew(v: View, base: TensorBase) -> Node:
    """The view's recipe, recorded anew on the base's present history."""
    chain: list[View] = []
    u: View | None = v
    while u is not None:
        chain.append(u)
        u = u.up
    e: Any = base._node if base._node is not None else base if base._rg else None
    k: i64 = base._nr
    node: Node | None = None
    a = memory_of(base)
    i: i64 = len(chain) - 1
    while i >= 0:
        w = chain[int(i)]
        node = Node(w.op)
        node.n = 1
        node.e0 = e
        node.k0 = k
        node.params = w.params
        a = run_kernel(w.op, a, w.params)
        node.shape = a.shape
        node.dtype = a.dtype
        e = node
        k = 0
        i -= 1
    assert node is not None
    return node


def is_leaf(t: TensorBase) -> bool:
    return not requires(t) or grad_fn(t) is None


def without_base(v: View) -> View:
    """The recipe alone: a node must not hold the base, which holds the node."""
    u: View | None = None
    for w in view_chain(v):
        u = View(NO_BASE, u, w.op, w.params, w.shape, "", 0)
    assert u is not None
    return u


NO_BASE: Final = TensorBase()


def move_retain(t: TensorBase, old: Node | None, new: Node, nr: i64) -> None:
    """retain_grad follows the tensor to its new node; other hooks stay with the old one."""
    if not t._retains or old is None:
        return
    x = old.extra
    if x is not None and x.retain is not None:
        w = x.retain.pop(int(t._nr), None)
        if w is not None:
            y = extra_of(new)
            d: dict[int, Any] | None = y.retain
            if d is None:
                d = {}
                y.retain = d
            d[int(nr)] = w


def set_edge(n: Node, i: i64, t: TensorBase) -> None:
    """Connect input i of n to the history of t."""
    e: Any = None
    k: i64 = 0
    if requires(t):
        f = t._node if t._view is None else grad_fn(t)
        if f is not None:
            e = f
            k = t._nr
        elif t._rg:             # a view that requires grad only through its base has no edge, as in PyTorch
            e = t
    if i == 0:
        n.e0 = e
        n.k0 = k
    elif i == 1:
        n.e1 = e
        n.k1 = k
    else:
        m = n.more
        if m is None:
            m = []
            n.more = m
        m.extend([e, k, None, None, 0])


def replay(v: View, array: Any) -> Any:
    """The slice of an array that v names."""
    for w in view_chain(v):
        array = run_kernel(w.op, array, w.params)
    return array


def creation_now() -> str:
    """How a view made now may be written later."""
    return "" if grad_enabled() else "no_grad"


def view_chain(v: View) -> list[View]:
    """The recipe in the order in which it is applied."""
    chain: list[View] = []
    u: View | None = v
    while u is not None:
        chain.append(u)
        u = u.up
    chain.reverse()
    return chain


def retain_grad(t: TensorBase) -> None:
    n = grad_fn(t)
    if n is not None:
        t._retains = True
        x = extra_of(n)
        d = x.retain
        if d is None:
            d = {}
            x.retain = d
        d[int(t._nr)] = weak(t)
