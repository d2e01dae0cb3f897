"""Gather and scatter: elements picked and placed by an index tensor along one dimension, or in the flattened tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.apply import apply_n
from flambeau.core.objects import TensorBase, array_of, dtype_of, make, shape_of
from flambeau.kernels import scatter as k
from flambeau.kernels.promotion import check_fits, number_dtype

from ._args import tensor, word
from ._lazy import is_meta, placed, standing_for
from ._meta import Meta, meta_of
from ._pointwise import to_dtype
from ._record import KERNEL, call, composite, kernels, ops, primitive, public
from ._shapes import checked, like, shaped

kernels.shape = lambda a: a.shape
ops.shape = shape_of
kernels.to_like = lambda a, like: a.astype(like.dtype)
ops.to_like = lambda t, like: ops.cast(t, dtype_of(like))

def _gathered(self: Meta, index: Meta, *_: Any) -> Meta:
    return Meta(index.shape, self.dtype)


def _along(self: Meta, index: Meta, dim: int | None) -> Meta:
    if dim is None:
        return Meta((index.size,), self.dtype)
    shapes = [list(m.shape) for m in (self, index)]
    shapes[0][dim] = 1
    return Meta([index.shape[i] if i == dim else max(a, b) if a and b else 0
                 for i, (a, b) in enumerate(zip(*shapes, strict=True))], self.dtype)


GATHER = primitive("gather", lambda a, index, dim: k.gather(a, dim, index), inputs=("self", "index"), params=("dim",),
                   promotes=False, may_raise=True, meta=checked(_gathered), expr=KERNEL,
                   self=lambda xp, g, self_shape, index, dim: xp.gather_backward(g, index, self_shape, dim))
primitive("gather_backward", lambda g, index, shape, dim: k.gather_backward(g, shape, dim, index), inputs=("self", "index"),
          params=("shape", "dim"), promotes=False, meta=shaped(2), expr=KERNEL, node="ScatterAddBackward0",
          self=lambda xp, g, index, dim: xp.gather(g, index, dim))


def _spread(g: np.ndarray, shape: tuple) -> np.ndarray:
    """g in the leading corner of zeros of a shape: the gradient of a source that the index covers in part."""
    if g.shape == shape:
        return g
    out = np.zeros(shape, g.dtype)
    out[tuple(slice(0, n) for n in g.shape)] = g
    return out


def _corner(g: np.ndarray, shape: tuple) -> np.ndarray:
    return g if g.shape == shape else np.array(g[tuple(slice(0, n) for n in shape)])


primitive("corner_spread", _spread, params=("shape",), meta=shaped(), expr=KERNEL,
          self=lambda xp, g, self_shape: xp.corner(g, self_shape))
primitive("corner", _corner, params=("shape",), meta=shaped(), expr=KERNEL,
          self=lambda xp, g, self_shape: xp.corner_spread(g, self_shape))

SCATTER = primitive(
    "scatter", lambda a, index, src, dim: k.scatter(a, dim, index, src), inputs=("self", "index", "src"), params=("dim",),
    promotes=False, may_raise=True, meta=checked(like()), expr=KERNEL,
    self=lambda xp, g, index, dim: xp.scatter_value(g, index, dim, 0),
    src=lambda xp, g, src_shape, index, dim: xp.corner_spread(xp.gather(g, index, dim), src_shape))
SCATTER_VALUE = primitive(
    "scatter_value", lambda a, index, dim, value: k.scatter(a, dim, index, value), inputs=("self", "index"),
    params=("dim", "value"), scalars=("value",), promotes=False, may_raise=True, meta=checked(like()),
    expr=KERNEL, node="ScatterBackward1",
    self=lambda xp, g, index, dim: xp.scatter_value(g, index, dim, 0))
SCATTER_ADD = primitive(
    "scatter_add", lambda a, index, src, dim: k.scatter_add(a, dim, index, src), inputs=("self", "index", "src"),
    params=("dim",), promotes=False, may_raise=True, meta=checked(like()), expr=KERNEL,
    self=lambda xp, g: g,
    src=lambda xp, g, src_shape, index, dim: xp.corner_spread(xp.gather(g, index, dim), src_shape))


def _scatter_reduce(a: np.ndarray, index: np.ndarray, src: np.ndarray, dim: int, reduce: str,
                    include_self: bool) -> np.ndarray:
    return k.scatter_reduce(a, dim, index, src, reduce, include_self)


@composite("scatter_reduce_gradients")
def _scatter_reduce_gradients(xp: Any, g: Any, self: Any, index: Any, src: Any, out: Any, dim: int, reduce: str,
                              include_self: bool, src_shape: tuple) -> tuple:
    """The gradients of self and src; ties of amax and amin share the gradient equally, prod divides out zeros aside."""
    picked = xp.corner(src, xp.shape(index))
    if reduce == "sum":
        g_self, g_src = g, xp.gather(g, index, dim)
    elif reduce == "mean":
        ones = xp.ones_like(picked)
        count = xp.ones_like(self) if include_self else xp.zeros_like(self)
        count = xp.maximum(xp.scatter_add(count, index, ones, dim), xp.ones_like(self))
        g_self = g / count
        g_src = xp.gather(g / count, index, dim)
    elif reduce == "prod":
        # the product of all others, by excluding each factor: zeros are replaced by one and counted
        zero_self, zero_src = xp.to_like(self == 0, self), xp.to_like(picked == 0, picked)
        base = zero_self if include_self else xp.zeros_like(self)
        n_zeros = xp.scatter_add(base, index, zero_src, dim)
        safe_src = picked + zero_src
        safe_self = self + zero_self
        rest = xp.scatter_reduce(safe_self, index, safe_src, dim, "prod", include_self)
        # `vanishing` is 0 in value; through it second derivatives reach the only zero among the other factors
        own_self, own_src = self * zero_self, picked * zero_src
        vanishing = xp.scatter_add(own_self if include_self else xp.zeros_like(self), index, own_src, dim)
        left_src, left_self = xp.gather(n_zeros, index, dim) - zero_src, n_zeros - base
        through_src = xp.to_like(left_src == 0, picked) + xp.to_like(left_src == 1, picked) * (
            xp.gather(vanishing, index, dim) - own_src)
        through_self = xp.to_like(left_self == 0, self) + xp.to_like(left_self == 1, self) * (vanishing - own_self)
        g_src = xp.gather(g, index, dim) * xp.gather(rest, index, dim) / safe_src * through_src
        g_self = g * rest / safe_self * through_self
    else:
        value = xp.gather(out, index, dim)
        here_self, here_src = xp.to_like(self == out, self), xp.to_like(picked == value, picked)
        base = here_self if include_self else xp.zeros_like(self)
        ties = xp.scatter_add(base, index, here_src, dim)
        share = g / xp.maximum(ties, xp.ones_like(ties))
        g_self = share * here_self
        g_src = xp.gather(share, index, dim) * here_src
    if not include_self:
        g_self = xp.scatter_value(g_self, index, dim, 0)      # what was overwritten does not matter
    return g_self, xp.corner_spread(g_src, src_shape)


def _reduce_joint(xp: Any, g: Any, needs: list, self: Any, index: Any, src: Any, out: Any, dim: int, reduce: str,
                  include_self: bool) -> tuple:
    g_self, g_src = xp.scatter_reduce_gradients(g, self, index, src, out, dim, reduce, include_self, xp.shape(src))
    return g_self if needs[0] else None, None, g_src if needs[2] else None


SCATTER_REDUCE = primitive("scatter_reduce", _scatter_reduce, inputs=("self", "index", "src"),
                           params=("dim", "reduce", "include_self"), promotes=False, may_raise=True, meta=checked(like()),
                           expr=KERNEL,
                           joint=_reduce_joint)

TAKE = primitive("take", k.take, inputs=("self", "index"), promotes=False, may_raise=True, meta=_gathered, expr=KERNEL,
                 self=lambda xp, g, self_shape, index: xp.take_backward(g, index, self_shape))
primitive("take_backward", lambda g, index, shape: k.take_backward(g, shape, index), inputs=("self", "index"),
          params=("shape",), promotes=False, meta=shaped(2),
          expr=KERNEL, node="PutBackward0", self=lambda xp, g, index: xp.take(g, index))
PUT = primitive(
    "put", lambda a, index, source, accumulate: k.put(a, index, source, accumulate), inputs=("self", "index", "source"),
    params=("accumulate",), promotes=False, may_raise=True, meta=like(), expr=KERNEL,
    self=lambda xp, g, index, accumulate: g if accumulate else xp.put(g, index, xp.zeros_like(xp.take(g, index)), False),
    source=lambda xp, g, source_shape, index: xp.reshape(xp.take(g, index), source_shape))
TAKE_ALONG_DIM = primitive(
    "take_along_dim", lambda a, index, dim: k.take_along_dim(a, index, dim), inputs=("self", "index"), params=("dim",),
    promotes=False, may_raise=True, meta=_along, expr=KERNEL, node="GatherBackward0",
    self=lambda xp, g, self_shape, index, dim: xp.take_along_dim_backward(g, index, self_shape, dim))


def _take_along_dim_backward(g: np.ndarray, index: np.ndarray, shape: tuple, dim: int | None) -> np.ndarray:
    flat = np.zeros(int(np.prod(shape)), g.dtype)
    positions = k.take_along_dim(np.arange(flat.size).reshape(shape), index, dim)
    np.add.at(flat, positions.reshape(-1), g.reshape(-1))
    return flat.reshape(shape)


primitive("take_along_dim_backward", _take_along_dim_backward, inputs=("self", "index"), params=("shape", "dim"),
          promotes=False, meta=shaped(2), expr=KERNEL, node="ScatterAddBackward0",
          self=lambda xp, g, index, dim: xp.take_along_dim(g, index, dim))

for _op in (SCATTER, SCATTER_VALUE, SCATTER_ADD, SCATTER_REDUCE, PUT):
    _op.no_overlap = True


def _index(t: Any, *shape: int, high: int) -> Any:
    return t(*shape, low=0, high=high - 1, dtype="int64", grad=False)


@public(op=GATHER, samples=lambda t: [call(t(3, 4), 0, _index(t, 2, 4, high=3)), call(t(3, 4), -1, _index(t, 3, 2, high=4)),
                                      call(t(), 0, _index(t, high=1)), call(t(4), 0, _index(t, 6, high=4))],
        errors=lambda t: [
            (call(t(3, 4), 0, t(2, 4, values=np.full((2, 4), 7), dtype="int64")), RuntimeError, "out of bounds"),
            (call(t(3), 0, t(2)), RuntimeError, "int64")])
def gather(input: Any, dim: int, index: Any, *, sparse_grad: bool = False) -> Any:
    """out[i, j, k] = input[i, index[i, j, k], k] (for dim 1).

    Args:
        input: tensor of any shape.
        dim: the dimension indexed.
        index: int64 tensor with as many dimensions, no longer than input along the others.
        sparse_grad: the gradient of input is a sparse tensor.

    Returns:
        Tensor of index's shape.

    Raises:
        RuntimeError: a value of index is outside [0, input.size(dim)), or shapes do not fit.

    >>> flambeau.gather(flambeau.tensor([[1, 2], [3, 4]]), 1, flambeau.tensor([[0, 0], [1, 0]])).tolist()
    [[1, 1], [4, 3]]
    """
    if dtype_of(tensor(index, "gather", "index", 3)) == np.uint8:
        index = to_dtype(index, np.dtype("i8"))
    if sparse_grad:
        from .sparse_gradients import gather as taken

        return taken(tensor(input, "gather"), dim, index)
    return apply_n(GATHER, [tensor(input, "gather"), index], (dim,))


@public(op=SCATTER, inplace=True,
        samples=lambda t: [call(t(3, 4), 0, t(1, 4, values=[[0, 1, 2, 0]], dtype="int64"), t(2, 4)),
                           call(t(3, 4), 1, t(3, 1, values=[[0], [2], [1]], dtype="int64"), 1.5)],
        errors=lambda t: [(call(t(3), 0, t(1, values=[5], dtype="int64"), t(1)), RuntimeError, "out of bounds")])
def scatter(input: Any, dim: int, index: Any, src: Any = None, *, value: Any = None, reduce: str | None = None) -> Any:
    """A copy of input with out[i, index[i, j, k], k] = src[i, j, k] (for dim 1).

    Args:
        src: tensor at least as long as index along each dimension, or a number. With repeated positions one of
            the writes stays, and the gradient of src is only right where positions are unique.
        reduce: "add" or "multiply" instead of overwriting (`scatter_add` and `scatter_reduce` are differentiable).

    >>> flambeau.scatter(flambeau.zeros(3), 0, flambeau.tensor([2]), flambeau.tensor([5.])).tolist()
    [0.0, 0.0, 5.0]
    """
    source = value if src is None else src
    inputs = [tensor(input, "scatter"), tensor(index, "scatter", "index", 3)]
    if reduce is not None:
        if reduce not in ("add", "multiply"):
            raise RuntimeError(f"reduce argument must be either add or multiply, not {reduce!r}")
        if not isinstance(source, TensorBase):
            shape, d = tuple(shape_of(index)), dtype_of(input)
            source = placed(input, shape, d, lambda: np.full(shape, source, d))
        return apply_n(SCATTER_REDUCE, [*inputs, source], (dim, "sum" if reduce == "add" else "prod", True))
    if isinstance(source, TensorBase):
        return apply_n(SCATTER, [*inputs, source], (dim,))
    if number_dtype(source) is None:
        raise TypeError(f"scatter(): argument 'src' (position 4) must be Tensor or a number, not {type(source).__name__}")
    check_fits(source, dtype_of(input))
    return apply_n(SCATTER_VALUE, inputs, (dim, source))


@public(op=SCATTER_ADD, inplace=True,
        samples=lambda t: [call(t(3, 4), 0, _index(t, 2, 4, high=3), t(3, 4)), call(t(3), -1, _index(t, 5, high=3), t(5))])
def scatter_add(input: Any, dim: int, index: Any, src: Any) -> Any:
    """A copy of input with src added at the positions that `scatter` writes, repeats included.

    >>> flambeau.scatter_add(flambeau.zeros(2), 0, flambeau.tensor([1, 1]), flambeau.tensor([2., 3.])).tolist()
    [0.0, 5.0]
    """
    return apply_n(SCATTER_ADD, [tensor(input, "scatter_add"), tensor(index, "scatter_add", "index", 3),
                                 tensor(src, "scatter_add", "src", 4)], (dim,))


@public(op=SCATTER_REDUCE, inplace=True,
        samples=lambda t: [call(t(3, 4), 0, t(2, 4, values=[[0, 1, 2, 0], [1, 1, 0, 0]], dtype="int64"), t(2, 4), r,
                                include_self=s) for r in ("sum", "mean", "amax", "amin", "prod") for s in (True, False)])
def scatter_reduce(input: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True) -> Any:
    """A copy of input with src reduced into the positions that `scatter` writes.

    Args:
        reduce: "sum", "prod", "mean", "amax" or "amin".
        include_self: whether input's own values take part where something is written.

    >>> flambeau.scatter_reduce(flambeau.zeros(2), 0, flambeau.tensor([0, 0]), flambeau.tensor([2., 3.]), "amax").tolist()
    [3.0, 0.0]
    """
    return apply_n(SCATTER_REDUCE, [tensor(input, "scatter_reduce"), tensor(index, "scatter_reduce", "index", 3),
                                    tensor(src, "scatter_reduce", "src", 4)],
                   (dim, word(reduce, "scatter_reduce", "reduce"), bool(include_self)))


@public(inplace=True,
        samples=lambda t: [call(t(3, 4), 0, t(3, values=[0, 2, 0], dtype="int64"), t(3, 4), r, include_self=s)
                           for r in ("mean", "amax", "amin", "prod") for s in (True, False)])
def index_reduce(input: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True) -> Any:
    """A copy of input with source's slices reduced into those at index along dim.

    Args:
        index: vector of int64 or int32.
        reduce: "prod", "mean", "amax" or "amin".
        include_self: whether input's own values take part where something is written.

    >>> flambeau.index_reduce(flambeau.ones(2), 0, flambeau.tensor([1, 1]), flambeau.tensor([2., 3.]), "prod").tolist()
    [1.0, 6.0]
    """
    if word(reduce, "index_reduce", "reduce") not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(f"index_reduce(): reduce must be 'prod', 'mean', 'amax' or 'amin', not '{reduce}'.")
    x, s = tensor(input, "index_reduce"), tensor(source, "index_reduce", "source", 4)
    if is_meta(x):
        return standing_for([x, index, s], meta_of(x), "index_reduce")
    grid = k.index_grid(array_of(x), dim, array_of(tensor(index, "index_reduce", "index", 3)), array_of(s))
    return apply_n(SCATTER_REDUCE, [x, make(grid), s], (dim, reduce, bool(include_self)))


@public(op=TAKE,
        samples=lambda t: [call(t(3, 4), _index(t, 2, 3, high=12)), call(t(3), t(2, values=[-1, 0], dtype="int64"))],
        errors=lambda t: [(call(t(3), t(1, values=[3], dtype="int64")), IndexError, "out of range")])
def take(input: Any, index: Any) -> Any:
    """Elements of the flattened input at index (negative counts from the end), of index's shape.

    >>> flambeau.take(flambeau.tensor([[1, 2], [3, 4]]), flambeau.tensor([0, 3])).tolist()
    [1, 4]
    """
    return apply_n(TAKE, [tensor(input, "take"), tensor(index, "take", "index", 2)])


@public(op=PUT, inplace=True,
        samples=lambda t: [call(t(3, 4), t(3, values=[0, 5, 11], dtype="int64"), t(3)),
                           call(t(3, 4), t(3, values=[0, 5, 5], dtype="int64"), t(3), True)])
def put(input: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    """A copy of input with source written (or added) at positions of the flattened tensor.

    >>> flambeau.put(flambeau.zeros(3), flambeau.tensor([1]), flambeau.tensor([7.])).tolist()
    [0.0, 7.0, 0.0]
    """
    return apply_n(PUT, [tensor(input, "put"), tensor(index, "put", "index", 2), tensor(source, "put", "source", 3)],
                   (bool(accumulate),))


@public(op=TAKE_ALONG_DIM,
        samples=lambda t: [call(t(3, 4), _index(t, 3, 2, high=4), 1), call(t(3, 4), _index(t, 5, high=12)),
                           call(t(3, 4), _index(t, 1, 4, high=3), 0)])
def take_along_dim(input: Any, indices: Any, dim: int | None = None) -> Any:
    """Elements of input at indices along dim, the other dimensions broadcast; dim None flattens both.

    >>> x = flambeau.tensor([[3, 1], [2, 4]])
    >>> flambeau.take_along_dim(x, flambeau.argsort(x, dim=1), dim=1).tolist()
    [[1, 3], [2, 4]]
    """
    inputs = [tensor(input, "take_along_dim"), tensor(indices, "take_along_dim", "indices", 2)]
    return apply_n(TAKE_ALONG_DIM, inputs, (dim,))
