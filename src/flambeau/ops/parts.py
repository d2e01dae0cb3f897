"""Views of parts: select, narrow, diagonal, unfold."""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.apply import apply1
from flambeau.core.objects import TensorBase, array_of, dtype_of, shape_of
from flambeau.kernels import rearrange, strides

from ._args import dim as one_dim
from ._args import integer, tensor
from ._record import KERNEL, call, primitive, public
from ._shapes import shaped
from .indexing_basic import SELECT


def _narrow(a: np.ndarray, dim: int, start: int, length: int) -> np.ndarray:
    if dim == 0:
        return a[start : start + length]
    return a[(slice(None),) * dim + (slice(start, start + length),)]


def _narrow_backward(g: np.ndarray, shape: tuple, dim: int, start: int) -> np.ndarray:
    out = np.zeros(shape, g.dtype)
    _narrow(out, dim, start, g.shape[dim])[...] = g
    return out


NARROW = primitive(
    "narrow",
    _narrow,
    params=("dim", "start", "length"),
    view=True,
    expr=KERNEL,
    node="SliceBackward0",
    self=lambda xp, g, self_shape, dim, start: xp.narrow_backward(g, tuple(self_shape), dim, start),
)
primitive(
    "narrow_backward",
    _narrow_backward,
    params=("shape", "dim", "start"),
    meta=shaped(),
    expr=KERNEL,
    node="SliceBackwardBackward0",
    self=lambda xp, g, self_shape, dim, start: xp.narrow(g, dim, start, self_shape[dim]),
)


@public(
    out=False,
    samples=lambda t: [call(t(5, 3), 0, 1, 2), call(t(5, 3), 1, -2, 2), call(t(5, 3), -1, 3, 0)],
    errors=lambda t: [
        (call(t(2, 3), 0, 1, 2), RuntimeError, "exceeds dimension size"),
        (call(t(2, 3), 0, 3, 1), IndexError, "out of range"),
    ],
)
def narrow(input: Any, dim: int, start: Any, length: int) -> Any:
    """A view of `length` indices of one dimension, from `start`.

    Raises:
        RuntimeError: start + length exceeds the dimension's size, or length is negative.
        IndexError: start is outside [-size, size].

    >>> flambeau.narrow(flambeau.tensor([1, 2, 3, 4]), 0, 1, 2).tolist()
    [2, 3]
    """
    shape = shape_of(tensor(input, "narrow"))
    if len(shape) == 0:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    if isinstance(start, TensorBase):
        if len(shape_of(start)) != 0 or dtype_of(start).kind not in "iu":
            raise RuntimeError("start must be an 0-dim integral Tensor.")
        start = int(array_of(start))
    d = one_dim(dim, len(shape))
    n = shape[d]
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    if not -n <= start <= n:
        raise IndexError(f"start out of range (expected to be in range of [-{n}, {n}], but got {start})")
    if start < 0:
        start += n
    if start + length > n:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({n}).")
    return apply1(NARROW, input, (d, start, length))


@public(
    out=False,
    samples=lambda t: [call(t(3, 4), 0, 1), call(t(3, 4), 1, -1), call(t(3, 4), dim=-1, index=0)],
    errors=lambda t: [(call(t(2, 3), 0, 2), IndexError, "out of range"), (call(t(), 0, 0), IndexError, "0-dim")],
)
def select(input: Any, dim: int, index: Any) -> Any:
    """A view of one index of a dimension, which is removed.

    >>> flambeau.select(flambeau.tensor([[1, 2], [3, 4]]), 0, 1).tolist()
    [3, 4]
    """
    shape = shape_of(tensor(input, "select"))
    if len(shape) == 0:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    d, i = one_dim(dim, len(shape)), index if type(index) is int else integer(index, "select", "index")
    if not -shape[d] <= i < shape[d]:
        raise IndexError(f"select(): index {i} out of range for tensor of size {list(shape)} at dimension {d}")
    return apply1(SELECT, input, (d, i + shape[d] if i < 0 else i))


DIAGONAL = primitive(
    "diagonal",
    strides.diagonal,
    params=("offset", "dim1", "dim2"),
    view=True,
    expr=KERNEL,
    self=lambda xp, g, self_shape, offset, dim1, dim2: xp.diagonal_backward(g, tuple(self_shape), offset, dim1, dim2),
)
primitive(
    "diagonal_backward",
    rearrange.diagonal_backward,
    params=("shape", "offset", "dim1", "dim2"),
    meta=shaped(),
    expr=KERNEL,
    self=lambda xp, g, offset, dim1, dim2: xp.diagonal(g, offset, dim1, dim2),
)


@public(
    out=False,
    samples=lambda t: [
        call(t(3, 4)),
        call(t(3, 4), 1),
        call(t(3, 4), -1),
        call(t(2, 3, 3), 0, 1, 2),
        call(t(3, 4), 9),
        call(t(2, 3, 4), 1, -1, 0),
    ],
    errors=lambda t: [(call(t(3, 3), 0, 1, 1), RuntimeError, "diagonal dimensions cannot be identical")],
)
def diagonal(input: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """A view of a diagonal of dimensions dim1 and dim2, as the last dimension.

    Args:
        offset: 0 the main diagonal, positive above it, negative below.

    >>> flambeau.diagonal(flambeau.tensor([[1, 2], [3, 4]])).tolist()
    [1, 4]
    """
    tensor(input, "diagonal")
    return apply1(DIAGONAL, input, (offset, dim1, dim2))


@public(
    name="diagonal",
    namespaces=("linalg",),
    method=False,
    out=False,
    samples=lambda t: [call(t(2, 3, 3)), call(t(3, 4), offset=1)],
)
def linalg_diagonal(A: Any, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """As `torch.diagonal`, by default of the last two dimensions.

    >>> flambeau.linalg.diagonal(flambeau.tensor([[1, 2], [3, 4]])).tolist()
    [1, 4]
    """
    return apply1(DIAGONAL, tensor(A, "linalg.diagonal", "A"), (offset, dim1, dim2))


UNFOLD = primitive(
    "unfold_dim",
    strides.unfold,
    params=("dim", "size", "step"),
    view=True,
    expr=KERNEL,
    node="UnfoldBackward0",
    self=lambda xp, g, self_shape, dim, size, step: xp.unfold_backward(g, tuple(self_shape), dim, size, step),
)
primitive(
    "unfold_backward",
    rearrange.unfold_backward,
    params=("shape", "dim", "size", "step"),
    meta=shaped(),
    expr=KERNEL,
    self=lambda xp, g, dim, size, step: xp.unfold_dim(g, dim, size, step),
)


@public(
    namespaces=(),
    out=False,
    samples=lambda t: [call(t(7), 0, 3, 1), call(t(2, 7), 1, 2, 3), call(t(4, 3), 0, 4, 1), call(t(), 0, 1, 1)],
    errors=lambda t: [(call(t(3), 0, 4, 1), RuntimeError, "maximum size for tensor at dimension 0 is 3")],
)
def unfold(input: Any, dimension: int, size: int, step: int) -> Any:
    """A view of all windows of `size` indices along a dimension, `step` apart; the window is a new last dimension.

    >>> flambeau.tensor([1, 2, 3, 4]).unfold(0, 2, 1).tolist()
    [[1, 2], [2, 3], [3, 4]]
    """
    window = integer(size, "unfold", "size"), integer(step, "unfold", "step")
    return apply1(UNFOLD, input, (one_dim(dimension, len(shape_of(input))), *window))
