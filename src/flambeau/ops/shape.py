"""view, reshape and their relatives: the same elements under another shape."""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.apply import apply1
from flambeau.core.dtype import DType
from flambeau.core.objects import TensorBase, dtype_of, shape_of
from flambeau.kernels import strides

from ._args import dim as one_dim
from ._args import dims as many_dims
from ._args import sizes as as_sizes
from ._args import tensor
from ._meta import Meta
from ._record import KERNEL, call, kernels, ops, primitive, public
from ._shapes import shaped
from .engine_ops import alias, clone

# ------------------------------------------------------------------------------------- view and reshape

VIEW = primitive(
    "view", strides.view, params=("size",), view=True, expr=KERNEL, self=lambda xp, g, self_shape: xp.reshape(g, self_shape)
)
# The shape of a fresh copy: nobody else holds its memory, so the result is no view.
UNSAFE_VIEW = primitive(
    "_unsafe_view",
    lambda a, size: a.reshape(size),
    params=("size",),
    meta=shaped(),
    expr=KERNEL,
    self=lambda xp, g, self_shape: xp.reshape(g, self_shape),
)
kernels.reshape = strides.reshape


def strides_of(t: TensorBase) -> tuple:
    """Strides in elements; also of a tensor without values."""
    a = t._array
    if a is not None:
        return strides.torch_strides(a)
    known = getattr(t._lazy, "strides", None)
    return strides.contiguous_strides(tuple(shape_of(t))) if known is None else tuple(known)


def _fits(t: TensorBase, shape: tuple) -> bool:
    """Whether the elements can be seen under another shape without a copy."""
    old = tuple(shape_of(t))
    return not old or 0 in old or strides.view_strides(old, strides_of(t), shape) is not None


def reshaped(t: TensorBase, size: tuple) -> Any:
    """t under another shape: a view where one exists, else a copy."""
    a = t._array
    if a is not None and a.flags.c_contiguous:
        return apply1(VIEW, t, (size,))
    n = 1
    for s in shape_of(t):
        n *= s
    shape = strides.infer_shape(size, n)
    if _fits(t, shape):
        return apply1(VIEW, t, (size,))
    return apply1(UNSAFE_VIEW, apply1(clone, t, ("contiguous",)), (shape,))


ops.reshape = reshaped


@public(
    out=False,
    samples=lambda t: [
        call(t(2, 6), (3, 4)),
        call(t(2, 6), (-1, 2)),
        call(t(2, 3, transposed=True), (6,)),
        call(t(), (1, 1)),
        call(t(0, 3), (3, 0)),
        call(t(4, 3), (12,)),
    ],
    errors=lambda t: [
        (call(t(2, 3), (4,)), RuntimeError, "invalid for input of size 6"),
        (call(t(2, 3), (-1, -1)), RuntimeError, "only one dimension can be inferred"),
    ],
)
def reshape(input: Any, *size: Any, shape: Any = None) -> Any:
    """The elements of input, in row-major order, under another shape; a view of input where its strides allow.

    Args:
        input: tensor of shape (*).
        shape: the new sizes, as a sequence or one by one; one may be -1: what the others leave.

    Returns:
        Tensor of that shape, dtype of input.

    Raises:
        RuntimeError: the number of elements differs, or two sizes are -1.

    >>> flambeau.reshape(flambeau.tensor([1, 2, 3, 4]), (2, 2)).tolist()
    [[1, 2], [3, 4]]
    """
    return reshaped(tensor(input, "reshape"), as_sizes(size if shape is None else (shape,)))


_ITEMSIZE_ERROR = (
    "self.size(-1) must be divisible by {ratio} to view {old} as {new} (different element sizes), but got {size}"
)


def _view_dtype(a: np.ndarray, dtype: DType) -> np.ndarray:
    new, old = dtype.array_type, a.dtype
    if new.itemsize == old.itemsize:
        return a.view(new)
    if a.ndim == 0:
        raise RuntimeError(f"self.dim() cannot be 0 to view {old} as {new} (different element sizes)")
    if new.itemsize > old.itemsize:
        ratio = new.itemsize // old.itemsize
        if a.shape[-1] % ratio:
            raise RuntimeError(_ITEMSIZE_ERROR.format(ratio=ratio, old=old, new=new, size=a.shape[-1]))
    if a.shape[-1] != 1 and a.strides[-1] != old.itemsize:
        raise RuntimeError(
            f"self.stride(-1) must be 1 to view {old} as {new} (different element sizes), but got "
            f"{a.strides[-1] // old.itemsize}. Call .contiguous() first."
        )
    return a.view(new)


VIEW_DTYPE = primitive(
    "view_dtype", _view_dtype, params=("dtype",), view=True, differentiable=False,
    batch="leading", expr=KERNEL, node="ViewBackward1"
)


@public(
    namespaces=(),
    out=False,
    samples=lambda t: [call(t(2, 6), (3, 4)), call(t(2, 6), (-1,)), call(t(), (1,))],
    errors=lambda t: [
        (call(t(2, 3), (4,)), RuntimeError, "invalid for input of size 6"),
        (call(t(2, 3, transposed=True), (6,)), RuntimeError, "view size is not compatible"),
    ],
)
def view(input: Any, *size: Any, dtype: DType | None = None) -> Any:
    """The same memory under another shape, or read as another dtype.

    Args:
        input: tensor of shape (*).
        size: the new sizes (one may be -1), or a dtype: the memory is read as that dtype, not converted; between
            dtypes of different widths the last dimension grows or shrinks.

    Returns:
        A tensor that shares input's memory.

    Raises:
        RuntimeError: the number of elements differs, or input's strides do not allow the shape: use `reshape`.

    >>> flambeau.tensor([1, 2, 3, 4]).view(2, -1).tolist()
    [[1, 2], [3, 4]]
    """
    if dtype is None and len(size) == 1 and isinstance(size[0], DType):
        dtype = size[0]
    if dtype is not None:
        if dtype.array_type is dtype_of(input):
            return apply1(alias, input)
        out = apply1(VIEW_DTYPE, input, (dtype,))
        out._view = None  # bits have no derivative: autograd does not follow such a view
        return out
    return apply1(VIEW, input, (as_sizes(size),))


@public(namespaces=(), out=False, samples=lambda t: [call(t(2, 6), t(3, 4))])
def view_as(input: Any, other: Any) -> Any:
    """input viewed under the shape of other.

    >>> flambeau.tensor([1, 2]).view_as(flambeau.tensor([[0], [0]])).tolist()
    [[1], [2]]
    """
    return apply1(VIEW, input, (tuple(shape_of(other)),))


@public(namespaces=(), out=False, samples=lambda t: [call(t(2, 6), t(3, 4)), call(t(3, 2, transposed=True), t(6))])
def reshape_as(input: Any, other: Any) -> Any:
    """input reshaped to the shape of other.

    >>> flambeau.tensor([1, 2]).reshape_as(flambeau.tensor([[0], [0]])).tolist()
    [[1], [2]]
    """
    return reshaped(input, tuple(shape_of(other)))


@public(
    out=False,
    samples=lambda t: [
        call(t(2, 3, 4)),
        call(t(2, 3, 4), 1),
        call(t(2, 3, 4), start_dim=0, end_dim=1),
        call(t()),
        call(t(0, 3)),
        call(t(3, 4, transposed=True)),
        call(t(3)),
    ],
    errors=lambda t: [
        (call(t(2, 3), 1, 0), RuntimeError, "start_dim cannot come after end_dim"),
        (call(t(2, 3), 2), IndexError, "out of range"),
    ],
)
def flatten(input: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    """Dimensions start_dim to end_dim, both included, as one.

    Returns:
        Tensor of one dimension in their place: input itself when there is nothing to do, else as `reshape`.

    Raises:
        RuntimeError: start_dim comes after end_dim.
        IndexError: a dimension is out of range.

    >>> flambeau.flatten(flambeau.tensor([[1, 2], [3, 4]])).tolist()
    [1, 2, 3, 4]
    """
    shape = shape_of(tensor(input, "flatten"))
    n = len(shape)
    first = start_dim if type(start_dim) is int and 0 <= start_dim < n else one_dim(start_dim, n)
    last = n - 1 if end_dim == -1 and n else one_dim(end_dim, n)
    if first > last:
        raise RuntimeError(f"flatten() has invalid args: start_dim cannot come after end_dim ({start_dim} and {end_dim})")
    if n == 0:
        return reshaped(input, (1,))
    if first == last:
        return input
    size = 1
    for s in shape[first : last + 1]:
        size *= s
    return reshaped(input, (*shape[:first], size, *shape[last + 1 :]))


@public(
    out=False,
    samples=lambda t: [call(t(2, 6), 1, (2, 3)), call(t(6, 2), 0, (-1, 3)), call(t(2, 4), -1, (2, 2))],
    errors=lambda t: [(call(t(2, 4), 1, (3, 2)), RuntimeError, "don't multiply up to the size of dim 1")],
)
def unflatten(input: Any, dim: int, sizes: Any) -> Any:
    """One dimension as several: the inverse of `flatten`.

    Args:
        dim: the dimension.
        sizes: the sizes that replace it; one may be -1.

    >>> flambeau.unflatten(flambeau.tensor([1, 2, 3, 4]), 0, (2, -1)).shape
    torch.Size([2, 2])
    """
    shape = shape_of(tensor(input, "unflatten"))
    if not shape:
        raise RuntimeError("unflatten: a tensor has no dimensions: there is none to split")
    d = one_dim(dim, len(shape))
    new = as_sizes((sizes,))
    if not new:
        raise RuntimeError("unflatten: sizes must be non-empty")
    try:
        new = strides.infer_shape(new, shape[d])
    except RuntimeError as error:
        if "only one" in str(error):
            raise
        raise RuntimeError(
            f"unflatten: Provided sizes {list(new)} don't multiply up to the size of dim {d} ({shape[d]}) "
            "in the input tensor"
        ) from None
    return apply1(VIEW, input, ((*shape[:d], *new, *shape[d + 1 :]),))


@public(out=False, samples=lambda t: [call(t(2, 3)), call(t(3, 2, transposed=True)), call(t())])
def ravel(input: Any) -> Any:
    """All elements in one dimension, in row-major order; a view when input is contiguous.

    >>> flambeau.ravel(flambeau.tensor([[1, 2], [3, 4]])).tolist()
    [1, 2, 3, 4]
    """
    return apply1(VIEW, ops.contiguous(tensor(input, "ravel")), ((-1,),))


# ------------------------------------------------------------------------------------- axes of size 1


def _unsqueeze(a: np.ndarray, dim: int) -> np.ndarray:
    if a.flags.c_contiguous and a.size:  # a reshape gives the new axis PyTorch's stride, and is faster
        shape = a.shape
        if dim == 0:
            return a.reshape(1, *shape)
        dim = dim + len(shape) + 1 if dim < 0 else dim
        return a.reshape((*shape[:dim], 1, *shape[dim:]))
    return strides.unsqueeze(a, dim)


def _squeeze_dim(a: np.ndarray, dim: int) -> np.ndarray:
    return a.squeeze(dim) if a.ndim and a.shape[dim] == 1 else a.view()


SQUEEZE = primitive(
    "squeeze", strides.squeeze, view=True, expr=KERNEL, self=lambda xp, g, self_shape: xp.reshape(g, self_shape)
)
SQUEEZE_DIM = primitive(
    "squeeze_dim",
    _squeeze_dim,
    params=("dim",),
    view=True,
    expr=KERNEL,
    node="SqueezeBackward1",
    self=lambda xp, g, self_shape: xp.reshape(g, self_shape),
)
SQUEEZE_DIMS = primitive(
    "squeeze_dims",
    strides.squeeze,
    params=("dim",),
    view=True,
    expr=KERNEL,
    node="SqueezeBackward2",
    self=lambda xp, g, self_shape: xp.reshape(g, self_shape),
)
def _squeezed(self: Meta, dim: int) -> Meta:
    view = strides.squeeze(self.stand_in(), dim)
    return Meta(view.shape, self.dtype, strides.torch_strides(view))


# Of a fresh result of our own: PyTorch writes squeeze_(), whose node this is.
SQUEEZE_OWN = primitive(
    "_squeeze_dim",
    strides.squeeze,
    params=("dim",),
    meta=_squeezed,
    expr=KERNEL,
    node="SqueezeBackward4",
    self=lambda xp, g, dim: xp.unsqueeze(g, dim),
)
UNSQUEEZE = primitive(
    "unsqueeze", _unsqueeze, params=("dim",), view=True, expr=KERNEL, self=lambda xp, g, dim: xp.squeeze_dim(g, dim)
)


@public(
    out=False,
    samples=lambda t: [
        call(t(1, 3, 1)),
        call(t(1, 3, 1), 0),
        call(t(1, 3, 1), 1),
        call(t(1, 3, 1), -1),
        call(t(1, 3, 1), (0, 2)),
        call(t(1, 3, 1), dim=(0, 1)),
        call(t()),
        call(t(), 0),
    ],
    errors=lambda t: [(call(t(1, 3), 2), IndexError, "out of range")],
)
def squeeze(input: Any, dim: Any = None) -> Any:
    """A view without dimensions of size 1: all of them, or those named; others named are kept.

    >>> flambeau.squeeze(flambeau.tensor([[[1], [2]]])).shape
    torch.Size([2])
    """
    tensor(input, "squeeze")
    if dim is None:
        return apply1(SQUEEZE, input)
    n = len(shape_of(input))
    if isinstance(dim, (tuple, list)):
        return apply1(SQUEEZE_DIMS, input, (many_dims(dim, n),))
    return apply1(SQUEEZE_DIM, input, (one_dim(dim, n),))


@public(
    out=False,
    samples=lambda t: [call(t(2, 3), 0), call(t(2, 3), 1), call(t(2, 3), -1), call(t(), 0)],
    errors=lambda t: [(call(t(2, 3), 3), IndexError, "out of range")],
)
def unsqueeze(input: Any, dim: int) -> Any:
    """A view with a new dimension of size 1 at position dim, in [-ndim - 1, ndim].

    >>> flambeau.unsqueeze(flambeau.tensor([1, 2]), 1).tolist()
    [[1], [2]]
    """
    return apply1(UNSQUEEZE, input, (one_dim(dim, len(shape_of(tensor(input, "unsqueeze"))) + 1),))
