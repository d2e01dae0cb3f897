"""The objects of a graph: tensors, version cells, view recipes and nodes.

Who holds what (the rules that keep graphs free of reference cycles):
    TensorBase -> Node (its history), Cell (version), View (recipe; only views) -> base TensorBase
    Node       -> older Nodes and leaf TensorBases (edges), arrays and Cells (saved); never a non-leaf tensor
    Cell       -> a count, and where the last write was
    the View in a CopySlices node -> the recipe alone, no base
"""
from __future__ import annotations

import sys
from typing import Any, Final, cast

from mypy_extensions import i64, mypyc_attr

from .op import Op
from .state import current_scope, inference_enabled, state

_getframe: Final = sys._getframe
VERSION_MASK: Final = 4294967295
DATA_WRITE: Final = 4294967296


class Cell:
    """The version count of a piece of memory, shared by its views and `detach()`; made at first need.

    `stamp` holds two counts: writes that autograd sees (low 32 bits: `_version`) and writes through `.data`
    (high bits), which PyTorch does not see and which are reported when they spoil a saved value.
    """

    def __init__(self) -> None:
        self.stamp: i64 = 0
        self.op: Op | None = None    # the last write: operator, code object, instruction
        self.code: Any = None
        self.lasti: Any = None
        self.warned: i64 = -1        # the stamp of which a spoilt saved value was reported
        self.origin: Cell | None = None   # for `.data`: the cell of the tensor it was taken from
        self.reshaped: i64 = 0       # the version at which the base was last given another shape in place (`t_`)


class View:
    """How a view is made again from its base: a chain of view operators, the last one first."""

    def __init__(self, base: TensorBase, up: View | None, op: Op, params: Any, shape: Any, creation: str,
                 version: i64) -> None:
        self.base: TensorBase = base
        self.up: View | None = up
        self.op: Op = op
        self.params: Any = params
        self.shape: Any = shape          # of this operator's input
        self.creation: str = creation    # "" or why in-place is refused: "no_grad", "multi", "inference", "custom"
        self.version: i64 = version      # the stamp of the memory when the view's node was last right


@mypyc_attr(allow_interpreted_subclasses=True)
class Node:
    """One recorded operator call. Two inputs stand inline; `more` has five entries for each further one."""

    def __init__(self, op: Op) -> None:
        self.op: Op = op
        self.n: i64 = 0                  # inputs
        self.e0: Any = None              # edges: Node | leaf TensorBase | None
        self.e1: Any = None
        self.k0: i64 = 0                 # output number at the edge's node
        self.k1: i64 = 0
        self.s0: Any = None              # saved: an array | Packed | None
        self.s1: Any = None
        self.c0: Cell | None = None   # its version cell, None for a constant
        self.c1: Cell | None = None
        self.v0: i64 = 0                 # and the stamp when saved
        self.v1: i64 = 0
        self.more: list[Any] | None = None   # [edge, number, saved, cell, stamp] of inputs 2...
        self.out: Any = None             # saved output; a list [array, cell, stamp, ...] for several
        self.out_cell: Cell | None = None
        self.out_version: i64 = 0
        self.params: Any = None
        self.shape: Any = None           # of the output: what an incoming gradient must look like
        self.dtype: Any = None
        self.exact: bool = False         # inputs and output have one shape and dtype: gradients need no fitting
        self.freed: bool = False
        self.extra: Extra | None = None
        self.seq: i64 = state.seq
        state.seq += 1
        f = _getframe(0)
        code = f.f_code
        if code is not state.user_code:      # not the function that made the last node: is it the user's?
            while code.co_filename in state.internal:
                b: Any = f.f_back
                if b is None:
                    break
                f = b
                code = f.f_code
            state.user_code = code
        self.code: Any = code
        self.lasti: Any = f.f_lasti
        self.scope: Any = current_scope() if state.n_scoped != 0 else None
        if state.n_anomaly != 0:
            state.trace(self)


class Extra:
    """What few nodes have."""

    def __init__(self) -> None:
        self.metas: list[Any] | None = None    # (shape, dtype) of each output when several
        self.inner: Node | None = None         # CopySlices: the operator that wrote
        self.view: View | None = None          # CopySlices: the slice written
        self.strides: Any = None                  # CopySlices: layout of the base
        self.call: Any = None                     # custom backward: (node, grads, create_graph) -> grads
        self.release: Any = None                  # custom backward: (node), called when saved values are given up
        self.pre: list[Any] | None = None      # node prehooks: [id, fn]
        self.post: list[Any] | None = None     # node hooks: [id, fn]
        self.tensor: list[Any] | None = None   # hooks of the outputs: [id, output number, fn]
        self.retain: dict[int, Any] | None = None   # output number -> weak reference of the tensor
        self.metadata: Any = None
        self.traceback: Any = None                # anomaly mode: (forward stack, node being differentiated then)
        self.first_backward: Any = None           # (code, instruction) of the backward that freed it


class Packed:
    """A saved value that went through the user's pack hook."""

    def __init__(self, value: Any, unpack: Any) -> None:
        self.value: Any = value
        self.unpack: Any = unpack


class LeafHooks:
    """Hooks of a leaf: they belong to the tensor, since its AccumulateGrad node is made on demand."""

    def __init__(self) -> None:
        self.tensor: list[Any] = []      # [id, fn]
        self.post_acc: list[Any] = []    # [id, fn]
        self.pre: list[Any] = []         # hooks of its AccumulateGrad node
        self.post: list[Any] = []
        self.node: Any = None            # weak reference of that node
        self.metadata: Any = None


@mypyc_attr(allow_interpreted_subclasses=True)
class TensorBase:
    _array: Any = None                   # None: meta or pending, see `_lazy`
    _node: Node | None = None
    _nr: i64 = 0
    _rg: bool = False
    _inference: bool = False
    _retains: bool = False               # non-leaf: retain_grad() was called
    _cell: Cell | None = None
    _view: View | None = None
    _grad: Any = None
    _hooks: LeafHooks | None = None
    _shape: Any = None                   # cached: a tuple or Size; None when not yet asked
    _dtype: Any = None                   # cached: the array's dtype
    _lazy: Any = None                    # a tensor without values: shape and dtype (meta), or how to get them
    _tangent: Any = None                 # forward mode: {level: tangent}


def make(array: Any) -> TensorBase:
    """A new public Tensor. `__init__` is skipped: the class defaults fill the slots."""
    t = cast(TensorBase, state.alloc(state.new))
    t._array = array
    if state.n_inference != 0 and inference_enabled():
        t._inference = True
    return t


def make_as(cls: Any, array: Any) -> TensorBase:
    """A new tensor of a subclass of Tensor."""
    t = cast(TensorBase, state.alloc(cls))
    t._array = array
    if state.n_inference != 0 and inference_enabled():
        t._inference = True
    return t


def make_lazy(lazy: Any) -> TensorBase:
    """A tensor without an array: meta or pending."""
    t = cast(TensorBase, state.alloc(state.new))
    t._lazy = lazy
    t._shape = lazy.shape
    t._dtype = lazy.dtype
    if state.n_inference != 0 and inference_enabled():
        t._inference = True
    return t


def array_of(t: TensorBase) -> Any:
    """The array; a pending tensor is computed, a meta tensor raises."""
    a = t._array
    if a is None:
        a = t._lazy.materialise(t)
    return a


def memory_of(t: TensorBase) -> Any:
    """What a graph keeps of t: its array, or what stands in for one (`stands_in`: of meta, sparse, mapped tensors)."""
    a = t._array
    if a is None:
        m = t._lazy
        a = m if getattr(m, "stands_in", False) else m.materialise(t)
    return a


def is_mapped(t: TensorBase) -> bool:
    """Whether t stands for each sample of a batch, in torch.func.vmap: what it stands for runs its operators."""
    return t._array is None and hasattr(t._lazy, "operate")


def remake(kept: Any) -> TensorBase:
    """A tensor of what `memory_of` gave."""
    return make_lazy(kept) if is_lazy(kept) else make(kept)


def is_lazy(kept: Any) -> bool:
    """Whether this is no array (nor NumPy's scalar), but stands for one: of a meta or sparse tensor."""
    return type(kept) is not state.array and hasattr(kept, "materialise")


def copied(kept: Any) -> Any:
    """A copy of an array or of sparse data."""
    return kept.clone() if type(kept) is state.sparse else state.xp.clone(kept)


def remake_as(cls: Any, kept: Any) -> TensorBase:
    """The same, of a subclass of Tensor."""
    t = make_as(cls, None)
    set_memory(t, kept)
    return t


def set_array(t: TensorBase, array: Any) -> None:
    """Give t another array (`.data =`, `set_`, `resize_`, `t_`)."""
    t._array = array
    t._lazy = None
    t._shape = None
    t._dtype = None


def set_memory(t: TensorBase, kept: Any) -> None:
    """Give t what `memory_of` gave for another tensor."""
    if not is_lazy(kept):
        set_array(t, kept)
    else:
        t._array = None
        t._lazy = kept
        t._shape = kept.shape
        t._dtype = kept.dtype


def shape_of(t: TensorBase) -> Any:
    s = t._shape
    if s is None:
        s = t._array.shape
        t._shape = s
    return s


def dtype_of(t: TensorBase) -> Any:
    d = t._dtype
    if d is None:
        d = t._array.dtype
        t._dtype = d
    return d


def cell_of(t: TensorBase) -> Cell:
    c = t._cell
    if c is None:
        c = Cell()
        t._cell = c
    return c


def version_of(t: TensorBase) -> int:
    c = t._cell
    return 0 if c is None else int(c.stamp & VERSION_MASK)


def requires(t: TensorBase) -> bool:
    if t._rg:
        return True
    v = t._view
    return v is not None and v.base._rg     # a view's base is never a view


def extra_of(n: Node) -> Extra:
    x = n.extra
    if x is None:
        x = Extra()
        n.extra = x
    return x


def leaf_hooks(t: TensorBase) -> LeafHooks:
    h = t._hooks
    if h is None:
        h = LeafHooks()
        t._hooks = h
    return h


def edge(n: Node, i: i64) -> Any:
    if i == 0:
        return n.e0
    if i == 1:
        return n.e1
    m = n.more
    return None if m is None else m[(i - 2) * 5]


def edge_number(n: Node, i: i64) -> i64:
    if i == 0:
        return n.k0
    if i == 1:
        return n.k1
    m = n.more
    if m is None:
        return 0
    return cast(int, m[(i - 2) * 5 + 1])


def put_edge(n: Node, i: i64, e: Any, k: i64) -> None:
    """Set edge i; edges beyond the second must be put in order."""
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


def user_frame() -> Any:
    """(code, instruction) of the innermost frame that is the user's."""
    f = _getframe(0)
    while f.f_code.co_filename in state.internal:
        b: Any = f.f_back
        if b is None:
            break
        f = b
    return (f.f_code, f.f_lasti)
