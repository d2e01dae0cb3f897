"""cat, stack and the joins by name, meshgrid, block_diag and products of vectors."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from flambeau.core.apply import apply1, apply_n
from flambeau.core.objects import TensorBase, dtype_of, make, shape_of
from flambeau.core.origin import warn_user
from flambeau.core.size import Size
from flambeau.kernels import joining, strides
from flambeau.kernels.layout import CHANNELS_LAST_ORDER

from ._args import dim as one_dim
from ._args import word
from ._meta import Meta
from ._record import KERNEL, call, kernels, ops, primitive, public
from ._shapes import in_order
from .at_least import atleast_1d, atleast_2d, atleast_3d
from .shape import reshaped
from .views import EXPAND

# ------------------------------------------------------------------------------------- cat and stack


def _cat_grad(xp: Any, g: Any, needs: list, input_shapes: list, dim: int, sizes: tuple) -> list:
    grads: list[Any] = []
    start = 0
    for needed, shape, n in zip(needs, input_shapes, sizes, strict=True):
        part = None
        if needed:
            part = xp.narrow(g, dim, start, n)
            if len(shape) == 1 and shape[0] == 0:  # skipped by cat: its shape is not that of a part
                part = xp.reshape(part, (0,))
        grads.append(part)
        start += n
    return grads


def _cat_shape(tensors: list, dim: int, sizes: Any) -> Meta:
    kept = [m for m in tensors if m.shape != (0,)] or list(tensors)
    joining.check_cat(kept, dim)
    shape = list(kept[0].shape)
    shape[dim] = sum([m.shape[dim] for m in kept])
    for form, order in CHANNELS_LAST_ORDER.items():
        if kept[0].ndim == len(order) and all(m.is_contiguous(form) and not m.is_contiguous() for m in kept):
            return Meta(shape, joining.common_dtype(tensors), in_order(shape, order))
    return Meta(shape, joining.common_dtype(tensors))


def _stack_shape(tensors: list, dim: int) -> Meta:
    shape = tensors[0].shape
    joining.check_stack(tensors)
    return Meta((*shape[:dim], len(tensors), *shape[dim:]), joining.common_dtype(tensors))


def _block_shape(tensors: list, corners: tuple) -> Meta:
    shapes = [(1,) * (2 - m.ndim) + m.shape for m in tensors]
    return Meta((sum(s[0] for s in shapes), sum(s[1] for s in shapes)), joining.common_dtype(tensors))


CAT = primitive(
    "cat", joining.cat, inputs=("tensors",), params=("dim", "sizes"), variadic=True, meta=_cat_shape,
    expr=KERNEL, joint=_cat_grad
)
STACK = primitive(
    "stack",
    joining.stack,
    inputs=("tensors",),
    params=("dim",),
    variadic=True,
    meta=_stack_shape,
    expr=KERNEL,
    joint=lambda xp, g, needs, dim: [xp.select(g, dim, i) if needed else None for i, needed in enumerate(needs)],
)


def _list_of(tensors: Any, name: str) -> list:
    if isinstance(tensors, TensorBase) or not isinstance(tensors, (tuple, list)):
        try:
            if isinstance(tensors, TensorBase):
                raise TypeError
            tensors = list(tensors)
        except TypeError:
            raise TypeError(
                f"{name}(): argument 'tensors' (position 1) must be tuple of Tensors, not {type(tensors).__name__}"
            ) from None
    for i, x in enumerate(tensors):
        if not isinstance(x, TensorBase):
            raise TypeError(f"expected Tensor as element {i} in argument 0, but got {type(x).__name__}")
    return list(tensors)


def joined(tensors: Sequence[TensorBase], dim: int = 0) -> Any:
    """The tensors joined along an existing dimension."""
    if not tensors:
        raise ValueError("torch.cat(): expected a non-empty list of Tensors")
    n = 1
    for x in tensors:  # a 1-D empty tensor joins with anything, so it does not say how many dimensions
        s = shape_of(x)
        n = len(s)
        if n != 1 or s[0] != 0:
            break
    d = one_dim(dim, n)
    sizes = tuple([s[d] if len(s) > d else 0 for s in [shape_of(x) for x in tensors]])
    return apply_n(CAT, list(tensors), (d, sizes))


def stacked(tensors: Sequence[TensorBase], dim: int = 0) -> Any:
    """Tensors of one shape joined along a new dimension."""
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    return apply_n(STACK, list(tensors), (one_dim(dim, len(shape_of(tensors[0])) + 1),))


kernels.cat = joining.cat
ops.cat, ops.stack, ops.stack_tensors = joined, stacked, stacked


@public(
    method=False,
    aliases=("concat", "concatenate"),
    samples=lambda t: [
        call([t(2, 3), t(1, 3)]),
        call([t(2, 3), t(2, 1)], 1),
        call([t(2, 3)], dim=-1),
        call([t(2, 3), t(2, 3, transposed=True)]),
        call([t(2, 3), t(2, 3, dtype="float64")]),
        call([t(0, grad=False), t(2, 3)]),
        call([t(2, 0), t(2, 3)], dim=1),
    ],
    errors=lambda t: [
        (call([t(2, 3), t(2)]), RuntimeError, "same number of dimensions"),
        (call([t(2, 3), t(2, 4)]), RuntimeError, "Sizes of tensors must match except in dimension 0"),
        (call([t(), t()]), RuntimeError, "cannot be concatenated"),
        (call([]), ValueError, "non-empty list"),
    ],
)
def cat(tensors: Any, dim: int = 0) -> Any:
    """The tensors joined along an existing dimension.

    Args:
        tensors: tensors whose shapes agree except in dimension dim; 1-D empty ones are skipped.
        dim: the dimension.

    Returns:
        Tensor of the promoted dtype.

    Raises:
        ValueError: no tensors. RuntimeError: shapes do not agree. TypeError: not a sequence of tensors.

    >>> flambeau.cat([flambeau.tensor([1, 2]), flambeau.tensor([3])]).tolist()
    [1, 2, 3]
    """
    return joined(_list_of(tensors, "cat"), dim)


@public(
    method=False,
    samples=lambda t: [
        call([t(2, 3), t(2, 3)]),
        call([t(2, 3), t(2, 3)], 2),
        call([t(2, 3)], dim=-1),
        call([t(), t()]),
        call([t(2, 3), t(2, 3, transposed=True)], 1),
    ],
    errors=lambda t: [
        (call([t(2), t(3)]), RuntimeError, "stack expects each tensor to be equal size"),
        (call([]), RuntimeError, "non-empty TensorList"),
    ],
)
def stack(tensors: Any, dim: int = 0) -> Any:
    """Tensors of one shape joined along a new dimension.

    >>> flambeau.stack([flambeau.tensor([1, 2]), flambeau.tensor([3, 4])]).tolist()
    [[1, 2], [3, 4]]
    """
    return stacked(_list_of(tensors, "stack"), dim)


@public(method=False, samples=lambda t: [call([t(2), t(3)]), call([t(2, 3), t(2, 1)]), call([t(), t()])])
def hstack(tensors: Any) -> Any:
    """The tensors side by side: joined along dimension 1, vectors along 0.

    >>> flambeau.hstack([flambeau.tensor([1, 2]), flambeau.tensor([3])]).tolist()
    [1, 2, 3]
    """
    rows = [atleast_1d(x) for x in _list_of(tensors, "hstack")]
    if not rows:
        raise RuntimeError("hstack expects a non-empty TensorList")
    return joined(rows, 0 if len(shape_of(rows[0])) == 1 else 1)


@public(
    method=False, aliases=("row_stack",), samples=lambda t: [call([t(2), t(2)]), call([t(2, 3), t(1, 3)]), call([t(), t()])]
)
def vstack(tensors: Any) -> Any:
    """The tensors one above the other: joined along dimension 0, vectors as rows.

    >>> flambeau.vstack([flambeau.tensor([1, 2]), flambeau.tensor([3, 4])]).tolist()
    [[1, 2], [3, 4]]
    """
    rows = [atleast_2d(x) for x in _list_of(tensors, "vstack")]
    if not rows:
        raise RuntimeError("vstack expects a non-empty TensorList")
    return joined(rows, 0)


@public(method=False, samples=lambda t: [call([t(2), t(2)]), call([t(2, 3), t(2, 3)]), call([t(1, 2, 1), t(1, 2, 2)])])
def dstack(tensors: Any) -> Any:
    """The tensors one behind the other: joined along dimension 2.

    >>> flambeau.dstack([flambeau.tensor([1, 2]), flambeau.tensor([3, 4])]).tolist()
    [[[1, 3], [2, 4]]]
    """
    rows = [atleast_3d(x) for x in _list_of(tensors, "dstack")]
    if not rows:
        raise RuntimeError("dstack expects a non-empty TensorList")
    return joined(rows, 2)


@public(method=False, samples=lambda t: [call([t(2), t(2)]), call([t(2, 3), t(2)]), call([t(), t()])])
def column_stack(tensors: Any) -> Any:
    """The tensors side by side, vectors as columns.

    >>> flambeau.column_stack([flambeau.tensor([1, 2]), flambeau.tensor([3, 4])]).tolist()
    [[1, 3], [2, 4]]
    """
    found = _list_of(tensors, "column_stack")
    if not found:
        raise RuntimeError("column_stack expects a non-empty TensorList")
    return joined([x if len(shape_of(x)) > 1 else reshaped(x, (-1 if 0 not in shape_of(x) else 0, 1)) for x in found], 1)


# ------------------------------------------------------------------------------------- grids and products


@public(
    method=False,
    out=False,
    samples=lambda t: [call(t(2), t(3), indexing="ij"), call([t(2), t(3), t()], indexing="xy"), call(t(2), indexing="ij")],
    errors=lambda t: [(call(t(2), t(3), indexing="no"), RuntimeError, "indexing must be one of")],
)
def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple:
    """Coordinates of a grid: each vector expanded along the dimensions of the others; views.

    Args:
        tensors: vectors or scalars, one for each dimension of the grid.
        indexing: "ij": dimension k belongs to vector k; "xy": the first two are exchanged. Default "ij", with a warning.

    >>> [x.tolist() for x in flambeau.meshgrid(flambeau.tensor([1, 2]), flambeau.tensor([3, 4]), indexing="ij")]
    [[[1, 1], [2, 2]], [[3, 4], [3, 4]]]
    """
    found = _list_of(tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors, "meshgrid")
    if not found:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    if indexing is None:
        warn_user(
            "torch.meshgrid: in an upcoming release, it will be required to pass the indexing argument "
            "(indexing='ij' is what happens now).")
        indexing = "ij"
    if word(indexing, "meshgrid", "indexing") not in ("ij", "xy"):
        raise RuntimeError(f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    for x in found:
        if len(shape_of(x)) > 1:
            raise RuntimeError(f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {list(shape_of(x))}")
        if dtype_of(x) != dtype_of(found[0]):
            raise RuntimeError("torch.meshgrid expects all tensors to have the same dtype")
    swap = indexing == "xy" and len(found) > 1
    if swap:
        found[0], found[1] = found[1], found[0]
    sizes = tuple([shape_of(x)[0] if len(shape_of(x)) else 1 for x in found])
    grids = []
    for i, x in enumerate(found):
        view = reshaped(x, (1,) * i + (sizes[i],) + (1,) * (len(found) - 1 - i))
        grids.append(apply1(EXPAND, view, (sizes,)))
    if swap:
        grids[0], grids[1] = grids[1], grids[0]
    return tuple(grids)


@public(
    method=False,
    out=False,
    samples=lambda t: [call(t(2), t(3)), call(t(2)), call(t(2), t(1), t(3))],
    errors=lambda t: [(call(t(2, 2)), RuntimeError, "Expect a 1D vector")],
)
def cartesian_prod(*tensors: Any) -> Any:
    """All combinations of one element from each vector, as rows, the last vector's element changing fastest.

    >>> flambeau.cartesian_prod(flambeau.tensor([1, 2]), flambeau.tensor([3, 4])).tolist()
    [[1, 3], [1, 4], [2, 3], [2, 4]]
    """
    found = _list_of(
        tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors, "cartesian_prod"
    )
    for x in found:
        if len(shape_of(x)) != 1:
            raise RuntimeError(f"Expect a 1D vector, but got shape {list(shape_of(x))}")
    if len(found) == 1:
        return found[0]
    return stacked([reshaped(x, (-1,) if 0 not in shape_of(x) else (0,)) for x in meshgrid(*found, indexing="ij")], 1)


def _combinations_shape(input: Meta, r: int = 2, with_replacement: bool = False) -> Meta:
    if input.ndim != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(input.shape)}")
    n = input.shape[0]
    return Meta((math.comb(n + r - 1 if with_replacement else n, r), r) if r else (0,), input.dtype)


@public(
    meta=_combinations_shape,
    out=False,
    samples=lambda t: [call(t(4)), call(t(3), 3), call(t(3), with_replacement=True), call(t(2), r=0)],
    errors=lambda t: [(call(t(2, 2)), RuntimeError, "Expect a 1D vector")],
)
def combinations(input: Any, r: int = 2, with_replacement: bool = False) -> Any:
    """All combinations of r elements of a vector, as rows, in the order of itertools.

    >>> flambeau.combinations(flambeau.tensor([1, 2, 3])).tolist()
    [[1, 2], [1, 3], [2, 3]]
    """
    if len(shape_of(input)) != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(shape_of(input))}")
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return make(np.empty((0,), dtype_of(input)))
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = np.array(list(choose(range(shape_of(input)[0]), r)), np.int64).reshape(-1, r)
    return stacked([input[make(np.ascontiguousarray(rows[:, k]))] for k in range(r)], 1)


def _block_diag_grad(xp: Any, g: Any, needs: list, input_shapes: list, corners: tuple) -> list:
    return [
        xp.reshape(xp.narrow(xp.narrow(g, 0, row, n_rows), 1, col, n_cols), tuple(shape)) if needed else None
        for needed, shape, (row, col, n_rows, n_cols) in zip(needs, input_shapes, corners, strict=True)
    ]


BLOCK_DIAG = primitive(
    "block_diag",
    lambda arrays, corners: joining.block_diag(arrays),
    inputs=("tensors",),
    params=("corners",),
    variadic=True,
    meta=_block_shape,
    expr=KERNEL,
    joint=_block_diag_grad,
)


@public(
    method=False,
    out=False,
    samples=lambda t: [call(t(2, 3), t(1, 2)), call(t(2), t()), call(t(2, 2), t(0, 3))],
    errors=lambda t: [(call(t(1, 2, 3)), RuntimeError, "must have 2 or fewer dimensions")],
)
def block_diag(*tensors: Any) -> Any:
    """A matrix with the tensors down its diagonal; vectors are rows, scalars 1 by 1.

    >>> flambeau.block_diag(flambeau.tensor([[1, 2]]), flambeau.tensor(3)).tolist()
    [[1, 2, 0], [0, 0, 3]]
    """
    corners, row, col = [], 0, 0
    for i, x in enumerate(tensors):
        s = tuple(shape_of(x))
        if len(s) > 2:
            raise RuntimeError(
                f"torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {i} has {len(s)} dimensions"
            )
        n_rows, n_cols = (1,) * (2 - len(s)) + s
        corners.append((row, col, n_rows, n_cols))
        row, col = row + n_rows, col + n_cols
    if not tensors:
        return make(np.empty((1, 0), np.float32))
    return apply_n(BLOCK_DIAG, list(tensors), (tuple(corners),))


@public(
    method=False,
    out=False,
    differentiable=False,
    samples=lambda t: [call((2, 1), (3,)), call((1,), (4, 5)), call(())],
    errors=lambda t: [(call((2,), (3,)), RuntimeError, "must match")],
)
def broadcast_shapes(*shapes: Any) -> Any:
    """The shape to which several broadcast.

    >>> flambeau.broadcast_shapes((2, 1), (3,))
    torch.Size([2, 3])
    """
    return Size(strides.broadcast_shapes(*[(s,) if isinstance(s, int) else tuple(s) for s in shapes]))
