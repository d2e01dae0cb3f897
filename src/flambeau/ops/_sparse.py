"""Sparse tensors in the engine: a `Sparse` stands in `_lazy`, and two primitives lead from values to it and back.

    sparse_make(values, pattern)     the values, a dense tensor, at the positions of a pattern
    sparse_values(self)              the values of a sparse tensor

Every other operator on sparse tensors is composed of these and of dense operators on the values (`sparse_rules`), so
derivatives of any order follow. The gradient of a sparse tensor is sparse, with the positions of the tensor itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from flambeau.core.apply import INPLACE, OUT_BIT, apply1, apply_n, record_inputs
from flambeau.core.inplace import check_writable, wrote
from flambeau.core.objects import Node, TensorBase, array_of, cell_of, dtype_of, make, make_lazy, requires, shape_of
from flambeau.core.op import Op, slot
from flambeau.core.saved import save_output
from flambeau.core.state import grad_enabled, inference_enabled, quiet, state
from flambeau.kernels import sparse as k
from flambeau.kernels import sparse_layouts as layouts
from flambeau.kernels.services import refuse_cast
from flambeau.kernels.sparse import Pattern, Sparse

from ._record import KERNEL, kernels, ops, primitive

SPARSE_COO = Pattern.layout


def is_sparse(t: Any) -> bool:
    """Whether t is a tensor of a sparse layout."""
    return isinstance(t, TensorBase) and t._array is None and type(t._lazy) is Sparse


def data(t: TensorBase) -> Sparse:
    """The pattern and values of a sparse tensor."""
    found: Sparse = t._lazy
    return found


def tensor_of(x: Any) -> Any:
    """A tensor of an array or of sparse data."""
    if type(x) is not Sparse:
        return make(x)
    t = make_lazy(x)
    if state.n_inference != 0 and inference_enabled():
        t._inference = True
    return t


def run(op: Op, inputs: list, params: tuple | None = None) -> Any:
    """What `apply_n` does, for an operator of which inputs or the output may be sparse."""
    values = [t if t is None else t._lazy if is_sparse(t) else array_of(t) for t in inputs]
    out = tensor_of(quiet(op.kernel, (*values, *(params or ()))))
    d = dtype_of(out)
    if (op.differentiable and grad_enabled() and state.is_float(d)
            and any(t is not None and requires(t) for t in inputs)):
        n = Node(op)
        mask = record_inputs(n, op, inputs)
        n.params, n.shape, n.dtype = params, tuple(shape_of(out)), d
        out._node, out._rg = n, True
        if mask & OUT_BIT:
            save_output(n, out, out._array)
    return out


def sparse_primitive(name: str, kernel: Callable, **kwargs: Any) -> Op:
    """A primitive that takes or gives sparse data: its counterpart on Tensors goes through `run`."""
    op = primitive(name, kernel, expr=KERNEL, **kwargs)
    n = int(op.n_in)
    setattr(ops, name, lambda *args: run(op, list(args[:n]), tuple(args[n:]) or None))
    _OWN.add(op)
    return op


_OWN: set[Op] = set()

# --------------------------------------------------------------------------------- between values and sparse tensors


def _values_at(g: Any, pattern: Any) -> np.ndarray:
    """The elements of a dense or sparse gradient at the positions of a pattern, shaped like its values."""
    if type(g) is not Sparse:
        taken: np.ndarray = pattern.take(g)
        return taken
    if g.pattern is pattern or k.same_positions(g.pattern, pattern) and pattern.unique:
        return g.values
    flat = Sparse(g.pattern.flat(), g.values.reshape((-1, *g.pattern.flat().values_shape[1:]))).coalesce()
    wanted = pattern.flat()
    places, there = k.find(flat.pattern, wanted)
    out = np.zeros(wanted.values_shape, g.dtype)
    out[there] = flat.values[places[there]]
    return out.reshape(pattern.values_shape)


MAKE = sparse_primitive(
    "sparse_make", lambda values, pattern: Sparse(pattern, values), inputs=("values",), params=("pattern",),
    node="SparseCooTensorWithDimsAndTensorsBackward0", values=lambda xp, g, pattern: xp.sparse_values_at(g, pattern))
VALUES = sparse_primitive(
    "sparse_values", lambda s, pattern: s.values, params=("pattern",), node="ValuesBackward0",
    self=lambda xp, g, pattern: xp.sparse_make(g, pattern))
COALESCE = sparse_primitive("sparse_coalesce", Sparse.coalesce, node="CoalesceBackward0", self=lambda xp, g: g)
GATHER = primitive(
    "sparse_gather", lambda dense, pattern: pattern.take(dense), params=("pattern",), expr=KERNEL,
    node="SparseMaskBackward0", self=lambda xp, g, pattern: xp.sparse_spread(g, pattern))
SPREAD = primitive(
    "sparse_spread", lambda values, pattern: pattern.spread(values), inputs=("values",), params=("pattern",), expr=KERNEL,
    node="ToDenseBackward0", values=lambda xp, g, pattern: xp.sparse_values_at(g, pattern))
kernels.sparse_values_at = _values_at
MAKE.sparse = COALESCE.sparse = True


def values_at(g: TensorBase, pattern: Any) -> Any:
    """`_values_at` on Tensors."""
    if not is_sparse(g):
        return apply1(GATHER, g, (pattern,))
    own = data(g).pattern
    if own is pattern or k.same_positions(own, pattern) and pattern.unique:
        return values(g)
    p, v = flat(g)
    places, there = k.find(p, pattern.flat())
    if not p.nnz:
        return make(np.zeros(pattern.values_shape, dtype_of(v)))
    taken = v.index_select(0, make(places))
    mask = there.reshape(there.shape + (1,) * (len(shape_of(taken)) - 1)).astype(dtype_of(v))
    return (taken * make(mask)).reshape(pattern.values_shape)


ops.sparse_values_at = values_at

_NAMED: dict[str, Op] = {}


def _maker(node: str) -> Op:
    """`sparse_make` whose node shows under the name of the operator that computed the values."""
    found = _NAMED.get(node)
    if found is None:
        found = _NAMED[node] = slot(f"sparse_make {node}")
        for name in ("kernel", "n_in", "n_out", "outputs", "input_names", "param_names", "static", "formulas", "f0", "mask0",
                     "differentiable", "expr", "sparse"):
            setattr(found, name, getattr(MAKE, name))
        found.node_name = node
        _OWN.add(found)
    return found


def with_values(pattern: Any, v: TensorBase, node: str | None = None) -> Any:
    """A sparse tensor of values at positions; its grad_fn is named node, or like the values' own."""
    if node is None and v._node is not None:
        node = v._node.op.node_name
    return run(MAKE if node is None else _maker(node), [v], (pattern,))


def values(t: TensorBase) -> Any:
    """The values of a sparse tensor, differentiable; they share its memory."""
    s = data(t)
    out = run(VALUES, [t], (s.pattern,))
    out._cell = cell_of(t)
    return out


def coalesced(t: TensorBase) -> Any:
    """t sorted, each position once; t itself when it is so."""
    return t if data(t).pattern.unique else run(COALESCE, [t])


def elements(t: TensorBase, distinct: bool = False) -> tuple[Any, Any]:
    """(pattern, values) of t, in its layout: with `distinct`, or when a gradient is asked for, each position once.

    A gradient names each position once: two values at one place have one gradient between them.
    """
    if not data(t).pattern.unique and (distinct or requires(t) and grad_enabled()):
        t = coalesced(t)
    return data(t).pattern, values(t)


def flat(t: TensorBase, distinct: bool = True) -> tuple[Pattern, Any]:
    """(COO pattern, values) of t in any layout, sorted by position when distinct."""
    pattern, v = elements(t, distinct)
    if pattern.layout is SPARSE_COO:
        return pattern, v
    if pattern.block is not None:
        v = v.reshape(-1)
    pattern = pattern.flat()
    if distinct and not pattern.coalesced:
        order = np.argsort(pattern.keys(), kind="stable")
        v = v.index_select(0, make(order))
        pattern = Pattern(np.ascontiguousarray(pattern.indices[:, order]), pattern.shape, True)
    return pattern, v


def to_dense(t: TensorBase) -> Any:
    """t as a dense tensor; its gradient comes back with the positions of t."""
    pattern, v = elements(t, distinct=requires(t))
    return apply1(SPREAD, v, (pattern,))


ops.sparse_dense = to_dense


def in_layout(t: TensorBase, layout: Any, block: Any = None) -> Any:
    """A sparse tensor in another layout."""
    if layout is SPARSE_COO:                # in the order in which the elements are stored
        pattern, v = flat(t, False)
        merged, places = pattern.merged()
        return with_values(merged if places is None else pattern, v, "ToSparseBackward1")
    pattern, v = flat(t)
    return from_coo(pattern, v, layout, block, node="ToSparse" + k.LAYOUT_NAMES[layout][6:] + "Backward0")


def from_coo(pattern: Pattern, v: Any, layout: Any, block: Any = None, node: str | None = None) -> Any:
    """Coalesced coordinates and values, in a compressed layout."""
    if len(pattern.shape) != 2:
        raise NotImplementedError(
            f"a tensor of shape {list(pattern.shape)} in layout {layout!r}: compressed layouts are for matrices here, "
            "batches and dense dimensions are not supported. Use torch.sparse_coo, or keep a list of matrices.")
    if block is not None and (pattern.shape[0] % block[0] or pattern.shape[1] % block[1]):
        raise RuntimeError(f"tensor size ({pattern.shape[0]}, {pattern.shape[1]}) must be divisible by blocksize {block}")
    found, places = layouts.compress(pattern, layout, block)
    if block is not None:
        blocks = int(np.prod(found.values_shape))
        v = make(np.zeros(blocks, dtype_of(v))).index_add(0, make(places), v).reshape(found.values_shape)
    elif places is not None:
        v = v.index_select(0, make(places))
    return with_values(found, v, node)


# --------------------------------------------------------------------------------- dispatch

RULES: dict[str, Callable] = {}         # (inputs, params) -> tensor, by the name of the primitive


def rule(*names: str) -> Callable[[Callable], Callable]:
    """Register what primitives do when an input is sparse."""

    def add(fn: Callable) -> Callable:
        for name in names:
            RULES[name] = fn
        return fn

    return add


def operate(op: Op, inputs: tuple, params: Any, kind: int) -> Any:
    """The result of an operator some input of which is sparse (see `_no_array`)."""
    if op in _OWN:
        return run(op, list(inputs), params)
    fn = RULES.get(op.name)
    if fn is None:
        raise not_supported(op.name, inputs)
    return write(op, inputs, lambda: fn(inputs, params or ())) if kind == INPLACE else fn(inputs, params or ())



def not_supported(name: str, inputs: Any) -> NotImplementedError:
    """The error of an operator that has no sparse form."""
    found = ", ".join(f"{data(t).layout!r} {list(shape_of(t))}" if is_sparse(t) else f"dense {list(shape_of(t))}"
                      for t in inputs if isinstance(t, TensorBase))
    return NotImplementedError(
        f"{name}() is not implemented for sparse tensors (got {found}). Call .to_dense() on the sparse one first, or, to "
        "work on the elements alone, compute with .coalesce().values() and make a tensor of them with "
        "torch.sparse_coo_tensor(indices, values, size).")


def write(op: Op, inputs: tuple, compute: Callable) -> Any:
    """inputs[0].op_(...): the result takes the place of the first input's data, or is written into its memory."""
    a = inputs[0]
    ra = requires(a)
    recording = (grad_enabled() and op.differentiable and state.is_float(dtype_of(a))
                 and any(isinstance(t, TensorBase) and requires(t) for t in inputs))
    check_writable(op, a, ra, recording)
    if not is_sparse(a):
        b = inputs[1] if len(inputs) == 2 else None
        if (op.name in ("add", "sub") and not recording and is_sparse(b) and shape_of(a) == shape_of(b)
                and np.can_cast(dtype_of(b), dtype_of(a), "same_kind")):
            s = data(b)
            quiet(k.add_into, (array_of(a), s if op.name == "add" else Sparse(s.pattern, np.negative(s.values))))
            wrote(op, a, None)
            return a
        result = compute()
        return a.copy_(to_dense(result) if is_sparse(result) else result)
    before = a
    if recording:
        before = tensor_of(Sparse(data(a).pattern, data(a).values))
        before._node, before._nr, before._rg = a._node, a._nr, a._rg
    result = compute() if before is a else RULES[op.name]((before, *inputs[1:]), ())
    if not is_sparse(result):
        raise RuntimeError(f"{op.name}_: the result is dense, and cannot be written into a sparse tensor. Use the form "
                           "without underscore.")
    refuse_cast(dtype_of(result), dtype_of(a))
    replace(a, data(result))
    wrote(op, a, result._node)
    if recording:
        a._node, a._nr, a._rg = result._node, result._nr, True
    return a


def replace(a: TensorBase, new: Sparse) -> None:
    """Put other positions and values into a sparse tensor, and those that share its memory."""
    own = data(a)
    if new.layout is not own.layout:
        new = layouts.to_layout(new, own.layout, getattr(own.pattern, "block", None))
    d = own.dtype
    own.pattern, own.values = new.pattern, new.values if new.dtype is d else new.values.astype(d)


def cast(t: Any, dtype: Any) -> Any:
    """A tensor in another dtype; itself when it has it."""
    return t if dtype_of(t) == dtype else apply1(slot("to_copy"), t, (dtype, "preserve"))


def concatenated(vs: list, dim: int = 0) -> Any:
    """Dense values one after another."""
    return vs[0] if len(vs) == 1 else apply_n(slot("cat"), vs, (dim, tuple(shape_of(v)[dim] for v in vs)))
