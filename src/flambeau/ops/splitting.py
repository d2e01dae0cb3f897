"""unbind, split, chunk, tensor_split and the splits by name: several views at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from flambeau.core.apply import apply1, apply_n, apply_split
from flambeau.core.objects import TensorBase, array_of, dtype_of, shape_of
from flambeau.kernels.layout import torch_strides

from ._args import dim as one_dim
from ._args import integer, tensor
from ._args import sizes as as_sizes
from ._lazy import placed
from ._meta import Meta
from ._record import KERNEL, call, kernels, ops, primitive, public
from .parts import NARROW

# Zeros of a shape and dtype, on the device of `beside`
kernels.zeros_of = lambda shape, dtype, beside: np.zeros(shape, dtype)
ops.zeros_of = lambda shape, dtype, beside: placed(beside, shape, dtype, lambda: np.zeros(shape, dtype))


def _known(g: list) -> Any:
    """One of the gradients that there are."""
    return next(y for y in g if y is not None)


def _part(a: np.ndarray, dim: int, start: int, stop: int) -> np.ndarray:
    return a[start:stop] if dim == 0 else a[(slice(None),) * dim + (slice(start, stop),)]


def _unbind(a: np.ndarray, dim: int, i: int | None = None) -> Any:
    before = (slice(None),) * dim
    if i is not None:
        return a[(*before, i, ...)]
    return [a[(*before, k, ...)] for k in range(a.shape[dim])]


def _split(a: np.ndarray, size: int, dim: int, i: int | None = None) -> Any:
    n = a.shape[dim]
    if i is not None:
        return _part(a, dim, i * size, (i + 1) * size)
    if not n or not size:
        return [a.view()]
    if dim == 0:
        return [a[k:k + size] for k in range(0, n, size)]
    if dim == 1:
        return [a[:, k:k + size] for k in range(0, n, size)]
    before = (slice(None),) * dim
    return [a[(*before, slice(k, k + size))] for k in range(0, n, size)]


def _split_with_sizes(a: np.ndarray, sizes: tuple, dim: int, i: int | None = None) -> Any:
    if i is not None:
        start = sum(sizes[:i])
        return _part(a, dim, start, start + sizes[i])
    parts, start = [], 0
    for n in sizes:
        parts.append(_part(a, dim, start, start + n))
        start += n
    return parts


def _joined(xp: Any, g: Any, shape: Sequence[int], dtype: Any, sizes: Sequence[int], dim: int) -> Any:
    """The gradients of consecutive parts, in place; parts without one are zeros."""
    return xp.cat(
        [
            xp.zeros_of((*shape[:dim], n, *shape[dim + 1 :]), dtype, _known(g)) if y is None else y
            for y, n in zip(g, sizes, strict=True)
        ],
        dim,
    )


def _even(n: int, size: int) -> list[int]:
    """Sizes of the parts of n, all of `size` but perhaps the last."""
    return [min(size, n - k) for k in range(0, n, size)] if n and size else [n]


def _unbind_grad(xp: Any, g: Any, self_shape: Any, self_dtype: Any, dim: int) -> Any:
    shape = (*self_shape[:dim], *self_shape[dim + 1 :])
    return xp.stack([xp.zeros_of(shape, self_dtype, _known(g)) if y is None else y for y in g], dim)


def _split_grad(xp: Any, g: Any, self_shape: Any, self_dtype: Any, split_size: int, dim: int) -> Any:
    for y in g:
        if y is None:
            return _joined(xp, g, self_shape, self_dtype, _even(self_shape[dim], split_size), dim)
    return xp.cat(g, dim)


def _sizes_grad(xp: Any, g: Any, self_shape: Any, self_dtype: Any, split_sizes: tuple, dim: int) -> Any:
    return _joined(xp, g, self_shape, self_dtype, split_sizes, dim)


UNBIND = primitive("unbind", _unbind, params=("dim",), view=True, outputs=(), expr=KERNEL, self=_unbind_grad)
SPLIT = primitive("split", _split, params=("split_size", "dim"), view=True, outputs=(), expr=KERNEL, self=_split_grad)
SPLIT_WITH_SIZES = primitive(
    "split_with_sizes",
    _split_with_sizes,
    params=("split_sizes", "dim"),
    view=True,
    outputs=(),
    expr=KERNEL,
    self=_sizes_grad,
)


def _copies(kernel: Callable) -> Callable:
    """The shape rule of parts that are no views."""
    return lambda self, *params: [Meta(p.shape, p.dtype, torch_strides(p)) for p in kernel(self.stand_in(), *params)]


# The unsafe forms promise that parts and whole are not both written: their parts count as no views.
UNSAFE_SPLIT = primitive("unsafe_split", _split, params=("split_size", "dim"), outputs=(),
                         meta=_copies(_split), expr=KERNEL, self=_split_grad)
UNSAFE_SPLIT_WITH_SIZES = primitive(
    "unsafe_split_with_sizes", _split_with_sizes, params=("split_sizes", "dim"), outputs=(),
    meta=_copies(_split_with_sizes), expr=KERNEL, self=_sizes_grad
)


def _replay_part(op: Any, t: TensorBase, params: tuple) -> Any:
    """One part again, from the recipe of a view: the parameters, then its number."""
    return apply_split(op, t, params[:-1])[params[-1]]


ops.replay_part = _replay_part


@public(
    out=False,
    samples=lambda t: [call(t(3, 2)), call(t(3, 2), 1), call(t(2, 3, 2), dim=-2)],
    errors=lambda t: [(call(t(3), 1), IndexError, "out of range")],
)
def unbind(input: Any, dim: int = 0) -> tuple:
    """Views of all slices along a dimension, which is removed.

    >>> flambeau.unbind(flambeau.tensor([[1, 2], [3, 4]]))
    (tensor([1, 2]), tensor([3, 4]))
    """
    n = len(shape_of(tensor(input, "unbind")))
    if n == 0:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    return tuple(apply_split(UNBIND, input, (one_dim(dim, n),)))


def _checked_split(name: str, t: Any, size: int, dim: int) -> int:
    shape = shape_of(tensor(t, name))
    if len(shape) == 0:
        raise RuntimeError(f"{name} expects at least a 1-dimensional tensor")
    d = one_dim(dim, len(shape))
    if size < 0:
        raise RuntimeError(f"{name} expects split_size be non-negative, but got split_size={size}")
    if size == 0 and shape[d] != 0:
        raise RuntimeError(f"split_size can only be 0 if the dimension is empty, and it has size {shape[d]}. Give a "
                           "positive size.")
    return d


def _checked_sizes(t: Any, sizes: Any, dim: int) -> tuple[tuple[int, ...], int]:
    shape = shape_of(tensor(t, "split_with_sizes", "tensor"))
    if len(shape) == 0:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    d, found = one_dim(dim, len(shape)), as_sizes((sizes,))
    if any(n < 0 for n in found):
        raise RuntimeError(
            f"split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes={list(found)}"
        )
    if sum(found) != shape[d]:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {shape[d]} (input tensor's size at "
            f"dimension {d}), but got split_sizes={list(found)}"
        )
    return found, d


@public(
    out=False,
    samples=lambda t: [
        call(t(5, 2), 2),
        call(t(5, 2), 1, -1),
        call(t(5, 2), [2, 3]),
        call(t(2, 5), [0, 5], dim=1),
        call(t(4), 9),
    ],
    errors=lambda t: [
        (call(t(4), [1, 2]), RuntimeError, "to sum exactly to 4"),
        (call(t(4), 0), RuntimeError, "split_size"),
        (call(t(4), -1), RuntimeError, "non-negative"),
    ],
)
def split(tensor: Any, split_size_or_sections: Any = None, dim: int = 0, *, split_size: Any = None) -> tuple:
    """Views of consecutive parts of a dimension.

    Args:
        tensor: tensor to split.
        split_size_or_sections: the size of each part (the last may be smaller), or a list of sizes.
        dim: the dimension.

    >>> flambeau.split(flambeau.tensor([1, 2, 3]), 2)
    (tensor([1, 2]), tensor([3]))
    """
    size = split_size if split_size_or_sections is None else split_size_or_sections
    if isinstance(size, (list, tuple)):
        return split_with_sizes(tensor, size, dim)
    size = integer(size, "split", "split_size")
    return tuple(apply_split(SPLIT, tensor, (size, _checked_split("split", tensor, size, dim))))


@public(out=False, samples=lambda t: [call(t(5, 2), [2, 3]), call(t(2, 5), (1, 4), 1)])
def split_with_sizes(input: Any, split_sizes: Any, dim: int = 0) -> tuple:
    """Views of consecutive parts of a dimension, of the sizes given.

    >>> flambeau.split_with_sizes(flambeau.tensor([1, 2, 3]), [1, 2])
    (tensor([1]), tensor([2, 3]))
    """
    return tuple(apply_split(SPLIT_WITH_SIZES, input, _checked_sizes(input, split_sizes, dim)))


@public(out=False, samples=lambda t: [call(t(5, 2), 2), call(t(2, 5), 3, 1)])
def unsafe_split(tensor: Any, split_size: int, dim: int = 0) -> tuple:
    """As `split`, but the parts do not count as views of the tensor: only one of them and it may be written.

    >>> flambeau.unsafe_split(flambeau.tensor([1, 2, 3]), 2)
    (tensor([1, 2]), tensor([3]))
    """
    return tuple(apply_n(UNSAFE_SPLIT, [tensor], (split_size, _checked_split("split", tensor, split_size, dim))))


@public(out=False, samples=lambda t: [call(t(5, 2), [2, 3])])
def unsafe_split_with_sizes(input: Any, split_sizes: Any, dim: int = 0) -> tuple:
    """As `split_with_sizes`, but the parts do not count as views.

    >>> flambeau.unsafe_split_with_sizes(flambeau.tensor([1, 2, 3]), [1, 2])
    (tensor([1]), tensor([2, 3]))
    """
    return tuple(apply_n(UNSAFE_SPLIT_WITH_SIZES, [input], _checked_sizes(input, split_sizes, dim)))


def _chunks(name: str, input: Any, chunks: int, dim: int) -> tuple[int, int, Any]:
    shape = shape_of(tensor(input, name))
    if len(shape) == 0:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    d = one_dim(dim, len(shape))
    size = -(-shape[d] // chunks)
    sizes = (0,) * chunks if shape[d] == 0 else None  # an empty dimension gives as many parts as asked for
    return size, d, sizes


@public(
    out=False,
    samples=lambda t: [call(t(5, 2), 2), call(t(2, 5), 3, 1), call(t(3), 5), call(t(0, 2), 2)],
    errors=lambda t: [(call(t(3), 0), RuntimeError, "to be greater than 0")],
)
def chunk(input: Any, chunks: int, dim: int = 0) -> tuple:
    """Views of at most `chunks` parts of a dimension, all of one size but perhaps the last.

    >>> flambeau.chunk(flambeau.tensor([1, 2, 3]), 2)
    (tensor([1, 2]), tensor([3]))
    """
    size, d, sizes = _chunks("chunk", input, chunks, dim)
    if sizes is not None:
        return tuple(apply_split(SPLIT_WITH_SIZES, input, (sizes, d)))
    return tuple(apply_split(SPLIT, input, (size, d)))


@public(out=False, samples=lambda t: [call(t(5, 2), 2), call(t(2, 5), 3, 1)])
def unsafe_chunk(input: Any, chunks: int, dim: int = 0) -> tuple:
    """As `chunk`, but the parts do not count as views.

    >>> flambeau.unsafe_chunk(flambeau.tensor([1, 2, 3]), 2)
    (tensor([1, 2]), tensor([3]))
    """
    size, d, sizes = _chunks("unsafe_chunk", input, chunks, dim)
    if sizes is not None:
        return tuple(apply_n(UNSAFE_SPLIT_WITH_SIZES, [input], (sizes, d)))
    return tuple(apply_n(UNSAFE_SPLIT, [input], (size, d)))


@public(
    out=False,
    samples=lambda t: [call(t(7, 2), 3), call(t(7), (1, 4)), call(t(2, 5), (3, 1), dim=1), call(t(4), (-1,)), call(t(2), 4)],
    errors=lambda t: [(call(t(3), 0), RuntimeError, "number of sections must be larger than 0")],
)
def tensor_split(
    input: Any, indices_or_sections: Any = None, dim: int = 0, *, indices: Any = None, sections: Any = None
) -> tuple:
    """Views of consecutive parts of a dimension: so many nearly equal ones, or split at the indices given.

    Args:
        indices_or_sections: an int: the first `size % sections` parts are one larger; a list: each part runs from one
            index to the next, as in slices.
        dim: the dimension.

    >>> flambeau.tensor_split(flambeau.tensor([1, 2, 3, 4]), (1, 3))
    (tensor([1]), tensor([2, 3]), tensor([4]))
    """
    where = next((x for x in (indices_or_sections, indices, sections) if x is not None), None)
    shape = shape_of(tensor(input, "tensor_split"))
    if len(shape) == 0:
        raise RuntimeError("tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims")
    d = one_dim(dim, len(shape))
    n = shape[d]
    if isinstance(where, TensorBase):
        if dtype_of(where).name != "int64" or len(shape_of(where)) > 1:
            raise RuntimeError(
                "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or one-dimensional "
                f"int64 tensor, but got {dtype_of(where)} of {len(shape_of(where))} dimensions"
            )
        where = array_of(where).tolist()
    if isinstance(where, int):
        if where <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {where}")
        small, extra = divmod(n, where)
        sizes = [small + 1] * extra + [small] * (where - extra)
        starts = [sum(sizes[:k]) for k in range(where)]
    else:
        if not hasattr(where, "__iter__") or isinstance(where, str):
            raise TypeError("tensor_split(): argument 'indices_or_sections' must be int or a sequence of ints, not "
                            f"{type(where).__name__}")
        places = [integer(i, "tensor_split", "indices") for i in where]
        bounds = [0, *[min(max(i + n if i < 0 else i, 0), n) for i in places], n]
        starts = bounds[:-1]
        sizes = [max(stop - start, 0) for start, stop in zip(bounds[:-1], bounds[1:], strict=True)]
    return tuple(apply1(NARROW, input, (d, start, size)) for start, size in zip(starts, sizes, strict=True))


def _named_split(name: str, at_least: int, input: Any, where: Any, dim: int) -> tuple:
    shape = shape_of(tensor(input, name))
    if len(shape) < at_least:
        raise RuntimeError(
            f"torch.{name} requires a tensor with at least {at_least} dimension{'s' if at_least > 1 else ''}, "
            f"but got a tensor with {len(shape)} dimensions!"
        )
    if isinstance(where, int) and (where <= 0 or shape[dim] % where):
        raise RuntimeError(
            f"torch.{name} attempted to split along dimension {dim}, but the size of the dimension "
            f"{shape[dim]} is not divisible by the split_size {where}!"
        )
    return tensor_split(input, where, dim)


@public(
    out=False,
    samples=lambda t: [call(t(4), 2), call(t(2, 4), (1, 3))],
    errors=lambda t: [(call(t(3), 2), RuntimeError, "not divisible"), (call(t(), 2), RuntimeError, "at least 1 dimension")],
)
def hsplit(input: Any, indices_or_sections: Any) -> tuple:
    """`tensor_split` of columns: dimension 1, or 0 of a vector; a number must divide its size.

    >>> flambeau.hsplit(flambeau.tensor([1, 2, 3, 4]), 2)
    (tensor([1, 2]), tensor([3, 4]))
    """
    return _named_split("hsplit", 1, input, indices_or_sections, 0 if len(shape_of(tensor(input, "hsplit"))) == 1 else 1)


@public(
    out=False,
    samples=lambda t: [call(t(4, 2), 2), call(t(4, 2), (1, 3))],
    errors=lambda t: [(call(t(4), 2), RuntimeError, "at least 2 dimensions")],
)
def vsplit(input: Any, indices_or_sections: Any) -> tuple:
    """`tensor_split` of rows: dimension 0 of a matrix or more.

    >>> [x.shape for x in flambeau.vsplit(flambeau.zeros(4, 2), 2)]
    [torch.Size([2, 2]), torch.Size([2, 2])]
    """
    return _named_split("vsplit", 2, input, indices_or_sections, 0)


@public(
    out=False,
    samples=lambda t: [call(t(1, 2, 4), 2), call(t(1, 2, 4), (1, 3))],
    errors=lambda t: [(call(t(4, 2), 2), RuntimeError, "at least 3 dimensions")],
)
def dsplit(input: Any, indices_or_sections: Any) -> tuple:
    """`tensor_split` of dimension 2.

    >>> [x.shape for x in flambeau.dsplit(flambeau.zeros(1, 2, 4), 2)]
    [torch.Size([1, 2, 2]), torch.Size([1, 2, 2])]
    """
    return _named_split("dsplit", 3, input, indices_or_sections, 2)
