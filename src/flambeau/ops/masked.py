"""Selection by masks, and the positions of nonzero elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.apply import apply_n
from flambeau.core.objects import TensorBase, array_of, dtype_of, make, shape_of
from flambeau.kernels import indexing
from flambeau.kernels import masks as k
from flambeau.kernels.services import sum_to
from flambeau.ops.indexing_basic import INDEX_PUT, parse

from ._args import integer, tensor
from ._lazy import is_meta
from ._meta import Meta
from ._record import KERNEL, call, primitive, public
from ._shapes import INT64, elementwise, like, needs_values, shaped


def _mask(t: Any, *shape: int) -> Any:
    return t(*shape, dtype="bool", grad=False)


def _masked_select_backward(g: np.ndarray, mask: np.ndarray, shape: tuple) -> np.ndarray:
    return sum_to(k.masked_select_backward(g, shape, mask), shape)


MASKED_SELECT = primitive(
    "masked_select", k.masked_select, inputs=("self", "mask"), promotes=False, dynamic_shape=True, expr=KERNEL,
    self=lambda xp, g, self_shape, mask: xp.masked_select_backward(g, mask, self_shape))
primitive("masked_select_backward", _masked_select_backward, inputs=("self", "mask"), params=("shape",), promotes=False,
          meta=shaped(2), expr=KERNEL, self=lambda xp, g, mask: xp.masked_select(g, mask))


def _scatter_source(g: np.ndarray, mask: np.ndarray, shape: tuple) -> np.ndarray:
    out = np.zeros(int(np.prod(shape)), g.dtype)
    picked = g[np.broadcast_to(mask, g.shape)]
    out[: picked.size] = picked
    return out.reshape(shape)


def _scatter_source_backward(g: np.ndarray, mask: np.ndarray, shape: tuple) -> np.ndarray:
    full = np.broadcast_to(mask, shape)
    out = np.zeros(shape, g.dtype)
    out[full] = g.reshape(-1)[: np.count_nonzero(full)]
    return out


MASKED_SCATTER = primitive(
    "masked_scatter", k.masked_scatter, inputs=("self", "mask", "source"), promotes=False, may_raise=True,
    meta=elementwise(2, first=True), expr=KERNEL,
    self=lambda xp, g, mask: xp.masked_fill(g, mask, 0),
    source=lambda xp, g, source_shape, mask: xp.masked_scatter_source(g, mask, source_shape))
primitive("masked_scatter_source", _scatter_source, inputs=("self", "mask"), params=("shape",), promotes=False,
          meta=shaped(2), expr=KERNEL,
          self=lambda xp, g, self_shape, mask: xp.masked_scatter_source_backward(g, mask, self_shape))
primitive("masked_scatter_source_backward", _scatter_source_backward, inputs=("self", "mask"), params=("shape",),
          promotes=False, meta=shaped(2),
          expr=KERNEL, self=lambda xp, g, self_shape, mask: xp.masked_scatter_source(g, mask, self_shape))


@public(op=MASKED_SELECT,
        samples=lambda t: [call(t(3, 4), _mask(t, 3, 4)), call(t(3, 4), _mask(t, 4)), call(t(4), _mask(t, 3, 4))],
        errors=lambda t: [(call(t(3), t(3)), RuntimeError, "BoolTensor|bool")])
def masked_select(input: Any, mask: Any) -> Any:
    """The elements where mask is True, in order, as a vector; both broadcast.

    >>> x = flambeau.tensor([1, -2, 3])
    >>> flambeau.masked_select(x, x > 0).tolist()
    [1, 3]
    """
    return apply_n(MASKED_SELECT, [tensor(input, "masked_select"), tensor(mask, "masked_select", "mask", 2)])


@public(op=MASKED_SCATTER, inplace=True, namespaces=("torch",),
        samples=lambda t: [call(t(3, 4), _mask(t, 3, 4), t(12)), call(t(3, 4), _mask(t, 4), t(4, 4))])
def masked_scatter(input: Any, mask: Any, source: Any) -> Any:
    """A copy of input whose elements under mask are replaced by the first elements of source, in order.

    >>> x = flambeau.zeros(3)
    >>> flambeau.masked_scatter(x, flambeau.tensor([True, False, True]), flambeau.tensor([5., 6.])).tolist()
    [5.0, 0.0, 6.0]
    """
    return apply_n(MASKED_SCATTER, [tensor(input, "masked_scatter"), tensor(mask, "masked_scatter", "mask", 2),
                                    tensor(source, "masked_scatter", "source", 3)])


def _values(t: TensorBase, name: str) -> np.ndarray:
    """The array of a tensor whose values decide the size of the result."""
    if is_meta(t):
        raise needs_values(name)
    return array_of(t)


@public(differentiable=False, samples=lambda t: [call(t(3, 4) > 0), call(t(3) > 5), call(t(2, 3) > 0, as_tuple=True)])
def nonzero(input: Any, *, as_tuple: bool = False) -> Any:
    """Positions of the nonzero elements: one a row, or (as_tuple) one int64 vector for each dimension.

    >>> flambeau.nonzero(flambeau.tensor([0, 7, 8])).tolist()
    [[1], [2]]
    """
    a = _values(tensor(input, "nonzero"), "nonzero")
    if as_tuple:
        return tuple(make(np.ascontiguousarray(i)) for i in k.nonzero_tuple(a))
    return make(k.nonzero(a))


@public(differentiable=False, meta=lambda input, *, size, fill_value=-1: Meta((size, input.ndim), INT64, (1, size)),
        samples=lambda t: [call(t(3, 4) > 0, size=5), call(t(3) > 5, size=2, fill_value=-7)])
def nonzero_static(input: Any, *, size: int, fill_value: int = -1) -> Any:
    """The first `size` positions of nonzero elements, filled up with fill_value: a shape known beforehand.

    >>> flambeau.nonzero_static(flambeau.tensor([0, 7]), size=2).tolist()
    [[1], [-1]]
    """
    found = k.nonzero(array_of(tensor(input, "nonzero_static")))[:size]
    out = np.full((size, found.shape[1]), integer(fill_value, "nonzero_static", "fill_value"), np.int64)
    out[: len(found)] = found
    return make(out)


@public(differentiable=False, out=False, samples=lambda t: [call(t(3, 4) > 0)])
def argwhere(input: Any) -> Any:
    """Positions of the nonzero elements, one a row.

    >>> flambeau.argwhere(flambeau.tensor([0, 7])).tolist()
    [[1]]
    """
    return make(k.nonzero(_values(tensor(input, "argwhere"), "argwhere")))


@public(op=INDEX_PUT, inplace=True,
        samples=lambda t: [call(t(3, 4), (t(2, values=[0, 2], dtype="int64"),), t(2, 4)),
                           call(t(3, 4), (t(2, values=[0, 2], dtype="int64"), t(2, values=[1, 1], dtype="int64")), t(2)),
                           call(t(3, 4), (t(3, values=[0, 0, 2], dtype="int64"),), t(3, 4), True)])
def index_put(input: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """A copy of input with values written (or added, repeats included) where the index tensors point.

    Args:
        indices: tuple of int64 or bool tensors (None: the whole dimension).

    >>> flambeau.index_put(flambeau.zeros(2), (flambeau.tensor([1, 1]),), flambeau.tensor([2., 3.]), True).tolist()
    [0.0, 5.0]
    """
    x = tensor(input, "index_put")
    key = tuple(slice(None) if i is None else i for i in indices)
    plan = parse(key, shape_of(x), True)
    if dtype_of(tensor(values, "index_put", "values", 3)) != dtype_of(x):
        raise RuntimeError("Index put requires the source and destination dtypes match: the destination is "
                           f"{x.dtype} and the source is {values.dtype}. Convert the source with .to({x.dtype}).")
    if not accumulate:
        return apply_n(INDEX_PUT, [x, values], (plan,))
    return apply_n(INDEX_PUT_ADD, [x, values], (plan,))


def _index_put_add(a: np.ndarray, values: np.ndarray, plan: Any) -> np.ndarray:
    target = indexing.index(a, plan)
    sizes = zip(values.shape[::-1], target.shape[::-1], strict=False)
    if values.ndim > target.ndim or any(n not in (1, m) for n, m in sizes):
        raise RuntimeError(f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to indexing "
                           f"result of shape {list(target.shape)}")
    return a + indexing.index_backward(np.array(np.broadcast_to(values, target.shape)), a.shape, plan)


INDEX_PUT_ADD = primitive("index_put_add", _index_put_add, inputs=("self", "values"), params=("plan",), promotes=False,
                          meta=like(), expr=KERNEL, node="IndexPutBackward0", self=lambda xp, g: g,
                          values=lambda xp, g, values_shape, plan: xp.index_values(g, values_shape, plan))

for _op in (INDEX_PUT, INDEX_PUT_ADD):
    _op.no_overlap = True
