"""Reading and writing by index on batches: the batch is folded into the dimension that is indexed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from flambeau.core.apply import apply1, apply_n
from flambeau.core.objects import TensorBase, make, requires, shape_of
from flambeau.core.op import slot
from flambeau.core.state import state
from flambeau.kernels import indexing
from flambeau.kernels.indexing import ALL, IndexPlan
from flambeau.ops import batch_rows  # noqa: F401  registers rows_of_samples

from ._call import Call, into_first, rank, reshape
from ._each import each
from ._rules_dims import moved

INDEX = slot("index")


# ------------------------------------------------------------------------------------------ whole slices of a dimension


def rows(index: Any, n: int) -> Any:
    """Indices (B, k...) into n rows of each sample, as indices of the B * n rows of all samples."""
    return state.ops.rows_of_samples(index, n)


def slices(call: Call) -> Any:
    """index_select, index_add, index_copy, index_fill: index is a vector along `dim` of self."""
    index = call.inputs[1]
    names = call.op.param_names
    i = names.index("dim")
    backward = "shape" in names
    shape = tuple(call.param("shape")) if backward else tuple(shape_of(call.inputs[0]))
    if not shape:
        return each(call)
    dim = call.params[i] % len(shape)
    params = list(call.params)
    if not call.is_batched(index):
        params[i] = dim + 1
        if backward:
            params[names.index("shape")] = (call.size, *shape)
        others = [call.whole(t) if k != 1 and isinstance(t, TensorBase) and rank(t) else t
                  for k, t in enumerate(call.inputs)]
        if any(call.is_batched(t) and rank(t) == 0 for t in call.inputs):
            return each(call)
        return call.run(others, tuple(params))
    if rank(index) != 1 or any(isinstance(t, TensorBase) and rank(t) == 0 for t in call.inputs):
        return each(call)
    n = shape[dim]
    own = reshape(rows(call.inner(index), n), (-1,))
    values: list[Any] = []
    for k, t in enumerate(call.inputs):
        values.append(own if k == 1 else _folded(call.whole(t), dim) if isinstance(t, TensorBase) else t)
    params[i] = 0
    rest = shape[:dim] + shape[dim + 1:]
    if backward:
        params[names.index("shape")] = (call.size * n, *rest)
    out = call.run(values, tuple(params))
    k = shape_of(out)[0] // call.size if call.size else n
    return reshape(out, (call.size, k, *rest)).movedim(1, dim + 1)


def _folded(t: Any, dim: int) -> Any:
    """(B, ...) with the batch folded into a sample's dimension, put first."""
    return into_first(t.movedim(dim + 1, 1))


def take(call: Call) -> Any:
    """Elements of the flattened sample."""
    t, index = call.inputs
    flat = reshape(call.whole(t), (-1,))
    return call.run([flat, rows(call.whole(index), math.prod(shape_of(t)))], call.params)


def take_backward(call: Call) -> Any:
    g, index = call.inputs
    shape = tuple(call.params[0])
    n = math.prod(shape)
    out = call.run([call.whole(g), rows(call.whole(index), n)], ((call.size * n,),))
    return reshape(out, (call.size, *shape))


def along(call: Call) -> Any:
    """Elements picked along a dimension, or put back: of a sample without dimensions one by one."""
    scalar = not shape_of(call.inputs[0]) and not ("shape" in call.op.param_names and call.param("shape"))
    return each(call) if scalar else moved(call)


def masked_select(call: Call) -> Any:
    """With a mask that all samples share; one of their own gives results of different lengths."""
    t, mask = call.inputs
    if call.is_batched(mask):
        return dynamic(call)
    shape = np.broadcast_shapes(tuple(shape_of(t)), tuple(shape_of(mask)))
    wide = state.ops.expand(t, shape)
    return call.whole(state.getitem(wide, state.ops.expand(mask, shape)))


def embedding(call: Call) -> Any:
    weight, index = call.inputs
    if not call.is_batched(weight):
        return call.run([weight, call.inner(index)], call.params)
    table = call.inner(weight)
    n, d = shape_of(table)[1:]
    padding, by_frequency = call.params
    if padding >= 0 and requires(table):        # the padding row gets no gradient
        keep = make(np.arange(n) != padding)
        table = state.ops.where(state.ops.unsqueeze(keep, 1), table, table.detach())
    own = rows(call.whole(index), n)
    return call.run([reshape(table, (call.size * n, d)), own], (-1, by_frequency))


def embedding_backward(call: Call) -> Any:
    grad, index = call.inputs
    n, padding, by_frequency = call.params
    g, own = call.whole(grad), rows(call.whole(index), n)
    if padding >= 0:
        g = state.ops.masked_fill(g, state.ops.unsqueeze(call.whole(index) == padding, rank(own)), 0)
    out = call.run([g, own], (call.size * n, -1, by_frequency))
    return reshape(out, (call.size, n, shape_of(out)[1]))


def row_counts(call: Call) -> Any:
    n, dtype = call.params
    own = rows(call.inner(call.inputs[0]), n)
    return reshape(call.run([own], (call.size * n, dtype)), (call.size, n))


# ------------------------------------------------------------------------------------------ keys


def behind(plan: IndexPlan) -> IndexPlan:
    """A sample's plan on the batch."""
    advanced = None if plan.advanced is None else (ALL, *plan.advanced)
    return IndexPlan((ALL, *plan.basic), advanced, plan.new_axes)


def front(plan: IndexPlan, shape: tuple) -> int:
    """How many dimensions the plan's arrays make in front of the batch: they are not adjacent; 0 when they are."""
    if plan.advanced is None:
        return 0
    at = [i for i, item in enumerate(plan.advanced) if item is not ALL]
    if at[-1] - at[0] + 1 == len(at):
        return 0
    arrays = [a.nonzero()[0] if a.dtype == np.bool_ else a for a in plan.advanced if a is not ALL]
    return len(np.broadcast_shapes(*[a.shape for a in arrays]))


def index(call: Call) -> Any:
    plan = call.params[0]
    t = call.inner(call.inputs[0])
    out = apply1(INDEX, t, (behind(plan),))
    k = front(plan, tuple(shape_of(t)))
    return out.movedim(k, 0) if k else out


def index_backward(call: Call) -> Any:
    shape, plan = call.params
    g = call.inner(call.inputs[0])
    k = front(plan, shape)
    if k:
        g = g.movedim(0, k)
    return call.run([g], ((call.size, *shape), behind(plan)))


def index_cleared(call: Call) -> Any:
    return call.run([call.inner(call.inputs[0])], (behind(call.params[0]),))


def selected_shape(shape: tuple, plan: IndexPlan) -> tuple:
    return tuple(indexing.index(np.lib.stride_tricks.as_strided(np.zeros(1, "?"), shape, (0,) * len(shape)), plan).shape)


def index_values(call: Call) -> Any:
    """The gradient of what was written: read where it went, summed over what was broadcast."""
    g, (shape, plan) = call.inputs[0], call.params
    picked = apply1(INDEX, g, (plan,))
    if rank(picked) < len(shape):
        return call.whole(state.ops.reshape(picked, tuple(shape)))
    return call.whole(picked if tuple(shape_of(picked)) == tuple(shape) else state.ops.sum_to(picked, tuple(shape)))


def expand_as_index(call: Call) -> Any:
    g, (shape, plan) = call.inputs[0], call.params
    return call.whole(state.ops.clone(state.ops.expand(g, selected_shape(tuple(shape), plan))))


def selection_rank(shape: tuple, plan: IndexPlan) -> int:
    return len(selected_shape(shape, plan))


def index_put(call: Call) -> Any:
    t, values = call.inputs
    plan = call.params[0]
    if front(plan, tuple(shape_of(t))):
        return each(call)
    v = call.aligned_to(values, max(selection_rank(tuple(shape_of(t)), plan), rank(values)))
    return apply_n(call.op, [call.whole(t), v], (behind(plan),))


# ------------------------------------------------------------------------------------------ joins


def join(call: Call) -> Any:
    """cat and stack."""
    inputs = call.inputs
    if call.op.name == "cat" and any(rank(t) == 1 and shape_of(t)[0] == 0 for t in inputs):
        longest = max(rank(t) for t in inputs)
        kept = [t for t in inputs if not (rank(t) == 1 and shape_of(t)[0] == 0 and longest > 1)]
        if len(kept) < len(inputs):             # empty vectors join with anything, and add nothing
            d = call.params[0] % longest
            sizes = tuple([shape_of(t)[d] for t in kept])
            return apply_n(call.op, [call.whole(t) for t in kept], (d + 1, sizes))
    return moved(call)


def repeat_interleave(call: Call) -> Any:
    """Counts are one tensor for all samples; of their own they would give results of different lengths."""
    t, counts = call.inputs
    if call.is_batched(counts):
        return each(call)
    n = rank(t)
    params = list(call.params)
    names = call.op.param_names
    if "shape" in names:
        shape = params[names.index("shape")]
        n = len(shape)
        params[names.index("shape")] = (call.size, *shape)
    params[names.index("dim")] = params[names.index("dim")] % max(n, 1) + 1
    inner = call.inner(t)
    return call.run([inner if n else state.ops.unsqueeze(inner, 1), counts], tuple(params))


def take_along(call: Call) -> Any:
    """take_along_dim and its adjoint; dim None flattens both."""
    t, index = call.inputs
    names, params = call.op.param_names, list(call.params)
    i = names.index("dim")
    if params[i] is not None:
        return moved(call)
    own = reshape(call.whole(index), (call.size, -1))
    if "shape" in names:
        shape = params[names.index("shape")]
        flat = call.run([reshape(call.whole(t), (call.size, -1)), own], ((call.size, math.prod(shape)), 1))
        return reshape(flat, (call.size, *shape))
    return call.run([reshape(call.whole(t), (call.size, -1)), own], (1,))


def searchsorted(call: Call) -> Any:
    """Sorted rows and values with the same leading dimensions; one sorted row serves any values."""
    ordered, values, sorter = call.inputs
    if rank(ordered) == 1 and rank(values) != 1:
        flat = reshape(call.whole(values), (call.size, -1))
        if not call.is_batched(ordered) and (sorter is None or not call.is_batched(sorter)):
            return call.run([ordered, call.inner(values), sorter], call.params)
        out = call.run([call.whole(ordered), flat, None if sorter is None else call.whole(sorter)], call.params)
        return reshape(out, (call.size, *shape_of(values)))
    return call.run([call.whole(ordered), call.whole(values), None if sorter is None else call.whole(sorter)], call.params)


def isin(call: Call) -> Any:
    elements, tests = call.inputs
    if not call.is_batched(tests):
        return call.run([call.inner(elements), tests], call.params)
    return each(call)


def dynamic(call: Call) -> Any:
    """Operators whose result has a shape that depends on values."""
    raise RuntimeError(
        f"vmap: {call.op.name}() has a dynamic (data-dependent) output shape, which may differ from sample to sample: it "
        "cannot be mapped. Use torch.where or masked_fill with a mask of fixed shape instead.")


def multinomial(call: Call) -> Any:
    """Weights (C,) or (N, C) of each sample: the rows of one matrix."""
    p = call.inner(call.inputs[0])
    shape = tuple(shape_of(p))
    if len(shape) == 2:
        return call.run([p], call.params)
    drawn = call.run([into_first(p)], call.params)
    return reshape(drawn, (*shape[:2], call.param("num_samples")))


RULES: dict[str, Any] = {
    "multinomial": multinomial,
    **dict.fromkeys(("index_select", "index_select_backward", "index_add", "index_copy", "index_fill", "index_fill_tensor"),
                    slices),
    **dict.fromkeys(("take_along_dim", "take_along_dim_backward"), take_along),
    **dict.fromkeys(("repeat_interleave", "repeat_interleave_backward"), repeat_interleave),
    **dict.fromkeys(("pick", "place", "place_sum", "pick_any"), along),
    **dict.fromkeys(("masked_select_backward", "masked_scatter_source", "masked_scatter_source_backward"), each),
    **dict.fromkeys(("unique", "unique_dim", "unique_consecutive", "bincount"), dynamic),
    "take": take,
    "take_backward": take_backward,
    "embedding": embedding,
    "embedding_dense_backward": embedding_backward,
    "row_counts": row_counts,
    "index": index,
    "index_backward": index_backward,
    "index_cleared": index_cleared,
    "index_put": index_put,
    "index_put_add": index_put,
    "index_values": index_values,
    "expand_as_index": expand_as_index,
    "masked_select": masked_select,
    "cat": join,
    "searchsorted": searchsorted,
    "isin": isin,
}
