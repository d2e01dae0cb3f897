"""Whole slices along a dimension, picked and placed by a vector of indices."""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.apply import apply_n
from flambeau.core.objects import TensorBase, array_of, dtype_of, make, make_lazy, shape_of
from flambeau.kernels import rearrange
from flambeau.kernels import scatter as k
from flambeau.kernels.layout import normalize_dim
from flambeau.kernels.promotion import check_fits, number_dtype

from ._args import integer, tensor
from ._lazy import is_meta
from ._meta import Meta
from ._record import KERNEL, call, primitive, public
from ._shapes import INT64, checked, like, resized, shaped


def _selected(self: Meta, index: Meta, dim: int) -> Meta:
    return resized(self, normalize_dim(dim, self.ndim), index.size)


INDEX_SELECT = primitive(
    "index_select", lambda a, index, dim: k.index_select(a, dim, index), inputs=("self", "index"), params=("dim",),
    promotes=False, may_raise=True, meta=checked(_selected), expr=KERNEL,
    self=lambda xp, g, self_shape, index, dim: xp.index_select_backward(g, index, self_shape, dim))
primitive("index_select_backward", lambda g, index, shape, dim: k.index_select_backward(g, shape, dim, index),
          inputs=("self", "index"), params=("shape", "dim"), promotes=False, meta=shaped(2),
          expr=KERNEL, node="IndexAddBackward0",
          self=lambda xp, g, index, dim: xp.index_select(g, index, dim))
INDEX_ADD = primitive(
    "index_add", lambda a, index, source, dim, alpha: k.index_add(a, dim, index, source, alpha),
    inputs=("self", "index", "source"), params=("dim", "alpha"), scalars=("alpha",), promotes=False, may_raise=True,
    meta=like(), expr=KERNEL, self=lambda xp, g: g,
    source=lambda xp, g, source_shape, index, dim, alpha: xp.reshape(xp.index_select(g, index, dim), source_shape) * alpha)
INDEX_COPY = primitive(
    "index_copy", lambda a, index, source, dim: k.index_copy(a, dim, index, source), inputs=("self", "index", "source"),
    params=("dim",), promotes=False, may_raise=True, meta=like(), expr=KERNEL,
    self=lambda xp, g, index, dim: xp.index_fill(g, index, dim, 0),
    source=lambda xp, g, source_shape, index, dim: xp.reshape(xp.index_select(g, index, dim), source_shape))
INDEX_FILL = primitive(
    "index_fill", lambda a, index, dim, value: k.index_fill(a, dim, index, value), inputs=("self", "index"),
    params=("dim", "value"), scalars=("value",), promotes=False, may_raise=True, meta=like(), expr=KERNEL,
    self=lambda xp, g, index, dim: xp.index_fill(g, index, dim, 0))
INDEX_FILL_TENSOR = primitive(
    "index_fill_tensor", lambda a, index, value, dim: k.index_fill(a, dim, index, value), inputs=("self", "index", "value"),
    params=("dim",), promotes=False, may_raise=True, meta=like(), expr=KERNEL, node="IndexFillBackward1",
    self=lambda xp, g, index, dim: xp.index_fill(g, index, dim, 0),
    value=lambda xp, g, index, dim: xp.sum_to(g - xp.index_fill(g, index, dim, 0), ()))
REPEAT = primitive(
    "repeat_interleave", lambda a, repeats, dim: rearrange.repeat_interleave(a, repeats, dim), inputs=("self", "repeats"),
    params=("dim",), promotes=False, dynamic_shape=True, expr=KERNEL, node="IndexSelectBackward0",
    self=lambda xp, g, self_shape, repeats, dim: xp.repeat_interleave_backward(g, repeats, self_shape, dim))


def _repeat_backward(g: np.ndarray, repeats: np.ndarray, shape: tuple, dim: int) -> np.ndarray:
    n = shape[dim] if shape else 1
    index = np.repeat(np.arange(n), np.broadcast_to(repeats.reshape(-1), n))
    if not shape:
        g, index = g.sum(keepdims=False).reshape(1), index[:1]
    return k.index_select_backward(g, shape, dim, index)


primitive("repeat_interleave_backward", _repeat_backward, inputs=("self", "repeats"), params=("shape", "dim"),
          promotes=False, meta=shaped(2), expr=KERNEL, node="IndexAddBackward0",
          self=lambda xp, g, repeats, dim: xp.repeat_interleave(g, repeats, dim))

for _op in (INDEX_ADD, INDEX_COPY, INDEX_FILL):
    _op.no_overlap = True


def _vector(t: Any, *values: int) -> Any:
    return t(len(values), values=list(values), dtype="int64")


@public(op=INDEX_SELECT, samples=lambda t: [call(t(3, 4), 0, _vector(t, 2, 0, 2)), call(t(3, 4), -1, _vector(t, 1)),
                                            call(t(), 0, _vector(t, 0)), call(t(3, 4), 1, _vector(t))],
        errors=lambda t: [(call(t(3), 0, _vector(t, 3)), IndexError, "out of range")])
def index_select(input: Any, dim: int, index: Any) -> Any:
    """The slices of input at index along dim, as a copy.

    Args:
        index: vector of int64 or int32, not negative.

    >>> flambeau.index_select(flambeau.tensor([10, 20, 30]), 0, flambeau.tensor([2, 0])).tolist()
    [30, 10]
    """
    return apply_n(INDEX_SELECT, [tensor(input, "index_select"), tensor(index, "index_select", "index", 3)], (dim,))


@public(op=INDEX_ADD, inplace=True,
        samples=lambda t: [call(t(3, 4), 0, _vector(t, 2, 0, 2), t(3, 4)),
                           call(t(3, 2), 1, _vector(t, 1), t(3, 1), alpha=2.0)])
def index_add(input: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Any:
    """A copy of input with alpha * source's slices added at index along dim, repeats included.

    >>> flambeau.index_add(flambeau.zeros(2), 0, flambeau.tensor([1, 1]), flambeau.tensor([2., 3.])).tolist()
    [0.0, 5.0]
    """
    return apply_n(INDEX_ADD, [tensor(input, "index_add"), tensor(index, "index_add", "index", 3),
                               tensor(source, "index_add", "source", 4)], (dim, alpha))


@public(op=INDEX_COPY, inplace=True, samples=lambda t: [call(t(3, 4), 0, _vector(t, 2, 0), t(2, 4))])
def index_copy(input: Any, dim: int, index: Any, source: Any) -> Any:
    """A copy of input with the slices at index along dim replaced by source's.

    >>> flambeau.index_copy(flambeau.zeros(2), 0, flambeau.tensor([1]), flambeau.tensor([7.])).tolist()
    [0.0, 7.0]
    """
    return apply_n(INDEX_COPY, [tensor(input, "index_copy"), tensor(index, "index_copy", "index", 3),
                                tensor(source, "index_copy", "source", 4)], (dim,))


@public(op=INDEX_FILL, inplace=True, samples=lambda t: [call(t(3, 4), 0, _vector(t, 2, 0), 1.5)])
def index_fill(input: Any, dim: int, index: Any, value: Any) -> Any:
    """A copy of input with the slices at index along dim filled with a number or 0-d tensor.

    >>> flambeau.index_fill(flambeau.zeros(2), 0, flambeau.tensor([1]), 3).tolist()
    [0.0, 3.0]
    """
    inputs = [tensor(input, "index_fill"), tensor(index, "index_fill", "index", 3)]
    if not isinstance(value, TensorBase):
        if number_dtype(value) is None:
            raise TypeError("index_fill(): argument 'value' (position 4) must be Tensor or a number, not "
                            f"{type(value).__name__}")
        check_fits(value, dtype_of(input))
        return apply_n(INDEX_FILL, inputs, (dim, value))
    if len(shape_of(value)) != 0:
        raise RuntimeError("index_fill_ only supports a 0-dimensional value tensor; this one has "
                           f"{len(shape_of(value))} dimension(s). Take one element of it, or use index_copy_.")
    if not value.requires_grad and value._array is not None:
        return apply_n(INDEX_FILL, inputs, (dim, array_of(value)[()]))
    return apply_n(INDEX_FILL_TENSOR, [*inputs, value], (dim,))


@public(samples=lambda t: [call(t(3, 2), 2), call(t(3, 2), _vector(t, 1, 0, 2), dim=0), call(t(3, 2), 3, dim=1)])
def repeat_interleave(input: Any, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None) -> Any:
    """Each slice along dim repeated; dim None flattens. With one tensor of counts: the indices repeated.

    >>> flambeau.repeat_interleave(flambeau.tensor([1, 2]), 2).tolist()
    [1, 1, 2, 2]
    """
    x = tensor(input, "repeat_interleave")
    if repeats is None:
        counts = array_of(x)
        if counts.ndim != 1 or counts.dtype.kind not in "iu":
            raise RuntimeError("repeat_interleave only accepts a 1-D tensor of integers as repeats")
        if counts.size and counts.min() < 0:
            raise RuntimeError("repeats can not be negative")
        return make(np.repeat(np.arange(counts.size), counts))
    if dim is None:
        x, dim = x.flatten(), 0
    if not isinstance(repeats, TensorBase):
        count = integer(repeats, "repeat_interleave", "repeats")
        if count < 0:
            raise RuntimeError("Repeats must be non-negative")
        repeats = make(np.asarray([count], np.int64))
    if is_meta(x):
        n = shape_of(x)[dim] if shape_of(x) else 1
        return apply_n(INDEX_SELECT, [x, make_lazy(Meta((_repeated(n, repeats, output_size),), INT64))], (dim,))
    return apply_n(REPEAT, [x, repeats], (dim,))


def _repeated(n: int, repeats: TensorBase, output_size: int | None) -> int:
    """How many slices come out."""
    if output_size is not None:
        return output_size
    if is_meta(repeats):
        raise RuntimeError("cannot repeat_interleave a meta tensor without output_size: how often each slice comes is not "
                           "known there. Pass output_size=, the length of the result.")
    counts = array_of(repeats)
    return int(counts.sum()) if counts.size != 1 else n * int(counts.reshape(()))


def _one_hot_shape(tensor: Meta, num_classes: int = -1) -> Meta:
    if num_classes < 0:
        raise RuntimeError("Tensor.item() cannot be called on meta tensors: one_hot needs num_classes= there")
    return Meta((*tensor.shape, num_classes), INT64)


@public(method=False, namespaces=("nn.functional",), out=False, differentiable=False, meta=_one_hot_shape,
        samples=lambda t: [call(t(2, 3, low=0, high=4, dtype="int64", grad=False), 5)],
        errors=lambda t: [(call(_vector(t, 3), 2), RuntimeError, "Class values must be smaller than num_classes")])
def one_hot(tensor: Any, num_classes: int = -1) -> Any:
    """One-hot vectors of class numbers.

    Args:
        tensor: int64 tensor of shape (*), values in [0, num_classes).
        num_classes: length of the vectors; -1: one more than the greatest value.

    Returns:
        int64 tensor of shape (*, num_classes).

    >>> flambeau.nn.functional.one_hot(flambeau.tensor([0, 2]), 3).tolist()
    [[1, 0, 0], [0, 0, 1]]
    """
    a = array_of(tensor)
    if a.dtype != np.int64:
        raise RuntimeError(f"one_hot is only applicable to index tensor of type LongTensor, not {dtype_of(tensor)}: "
                           "use .long()")
    if a.size == 0:
        if num_classes <= 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        return make(np.zeros((*a.shape, num_classes), np.int64))
    least, greatest = int(np.minimum.reduce(a, None)), int(np.maximum.reduce(a, None))
    if least < 0:
        raise RuntimeError(f"Class values must be non-negative, got {least}")
    if num_classes == -1:
        num_classes = greatest + 1
    elif greatest >= num_classes:
        raise RuntimeError(f"Class values must be smaller than num_classes: got {greatest} with "
                           f"num_classes={num_classes}")
    out = np.zeros((*a.shape, num_classes), np.int64)
    out.reshape(-1)[np.arange(0, out.size, num_classes) + a.reshape(-1)] = 1
    return make(out)


