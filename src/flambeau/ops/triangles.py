"""Triangles and diagonals of matrices: tril, triu and their positions, diag, diag_embed, diagflat, vander."""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.apply import apply1
from flambeau.core.objects import TensorBase, dtype_of, make, shape_of
from flambeau.kernels import rearrange as k
from flambeau.kernels import strides

from . import cumulative, rearranging, views  # noqa: F401  they register shift, flip, diagonal and expand
from ._args import dim as one_dim
from ._args import integer, ndim, tensor
from ._factory import array_dtype, to_device
from ._meta import Meta
from ._pointwise import to_dtype
from ._record import KERNEL, call, ops, primitive, public
from ._shapes import checked, like

# --------------------------------------------------------------------------------- triangles

TRIL = primitive("tril", k.tril, params=("diagonal",), meta=checked(like()),
batch="leading", expr=KERNEL, self=lambda xp, g, diagonal: xp.tril(g, diagonal))
TRIU = primitive("triu", k.triu, params=("diagonal",), meta=checked(like()),
batch="leading", expr=KERNEL, self=lambda xp, g, diagonal: xp.triu(g, diagonal))


def _triangle_samples(t: Any) -> list:
    return [call(t(3, 4)), call(t(4, 3), 1), call(t(3, 3), -1), call(t(2, 3, 4), diagonal=2), call(t(0, 3)),
            call(t(4, 3, transposed=True)), call(t(3, 3, dtype="bool"))]


def _matrix_error(t: Any) -> list:
    return [(call(t(3)), RuntimeError, "at least 2 dimensions")]


@public(op=TRIL, inplace=True, samples=_triangle_samples, errors=_matrix_error)
def tril(input: Any, diagonal: int = 0) -> Any:
    """The lower triangle of matrices (*, M, N): zeros above a diagonal.

    Args:
        diagonal: the last one kept: 0 the main one, positive above it, negative below.

    >>> flambeau.tril(flambeau.tensor([[1, 2], [3, 4]])).tolist()
    [[1, 0], [3, 4]]
    """
    return apply1(TRIL, tensor(input, "tril"), (integer(diagonal, "tril", "diagonal"),))


@public(op=TRIU, inplace=True, samples=_triangle_samples, errors=_matrix_error)
def triu(input: Any, diagonal: int = 0) -> Any:
    """The upper triangle of matrices (*, M, N): zeros below a diagonal.

    Args:
        diagonal: the first one kept: 0 the main one, positive above it, negative below.

    >>> flambeau.triu(flambeau.tensor([[1, 2], [3, 4]])).tolist()
    [[1, 2], [0, 4]]
    """
    return apply1(TRIU, tensor(input, "triu"), (integer(diagonal, "tril", "diagonal"),))


def _indices(name: str, kernel: Any, row: int, col: int, offset: int, dtype: Any, device: Any) -> TensorBase:
    d = array_dtype(dtype, name)
    found = kernel(*[integer(v, "tril_indices", w) for v, w in ((row, "row"), (col, "col"), (offset, "offset"))])
    return to_device(make(found if d is None else found.astype(d)), device)


@public(method=False, out=False, differentiable=False, samples=lambda t: [call(3, 4), call(4, 3, 1), call(3, 3, offset=-1)],
        errors=lambda t: [(call(-1, 2), RuntimeError, "non-negative")])
def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None, layout: Any = None) -> Any:
    """Row and column numbers, shape (2, count), of the lower triangle of a (row, col) matrix, row by row.

    >>> flambeau.tril_indices(2, 2).tolist()
    [[0, 1, 1], [0, 0, 1]]
    """
    return _indices("tril_indices", k.tril_indices, row, col, offset, dtype, device)


@public(method=False, out=False, differentiable=False, samples=lambda t: [call(3, 4), call(4, 3, 1), call(3, 3, offset=-1)],
        errors=lambda t: [(call(-1, 2), RuntimeError, "non-negative")])
def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None, layout: Any = None) -> Any:
    """Row and column numbers, shape (2, count), of the upper triangle of a (row, col) matrix, row by row.

    >>> flambeau.triu_indices(2, 2).tolist()
    [[0, 0, 1], [0, 1, 1]]
    """
    return _indices("triu_indices", k.triu_indices, row, col, offset, dtype, device)


# --------------------------------------------------------------------------------- diagonals

def _embedded(self: Meta, offset: int, dim1: int, dim2: int) -> Meta:
    first, second = (one_dim(d, self.ndim + 1) for d in (dim1, dim2))
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical: {dim1}, {dim2}")
    shape = list(self.shape[:-1])
    for d in sorted((first, second)):
        shape.insert(d, self.shape[-1] + abs(offset))
    return Meta(shape, self.dtype)


def _diagonal_shape(self: Meta, offset: int) -> Meta:
    return Meta(strides.diagonal(self.stand_in(), offset, 0, 1).shape, self.dtype)


DIAG_EMBED = primitive("diag_embed", k.diag_embed, params=("offset", "dim1", "dim2"), meta=_embedded, expr=KERNEL,
                       self=lambda xp, g, offset, dim1, dim2: xp.diagonal(g, offset, dim1, dim2))
DIAGONAL_OF = primitive("diagonal_of", lambda a, offset: np.array(strides.diagonal(a, offset, 0, 1)), params=("offset",),
                        node="DiagonalBackward0_copy",
                        meta=_diagonal_shape, expr=KERNEL,
                        self=lambda xp, g, self_shape, offset: xp.diagonal_backward(g, tuple(self_shape), offset, 0, 1))


@public(op=DIAG_EMBED, out=False, samples=lambda t: [
    call(t(3)), call(t(2, 3)), call(t(2, 3), 1), call(t(2, 3), offset=-1, dim1=0, dim2=2)],
    errors=lambda t: [(call(t(3), 0, 0, 0), RuntimeError, "cannot be identical"),
                      (call(t(3), 0, 0, 4), IndexError, "out of range")])
def diag_embed(input: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """Zeros with the last dimension of input on a diagonal of two new dimensions.

    >>> flambeau.diag_embed(flambeau.tensor([1, 2])).tolist()
    [[1, 0], [0, 2]]
    """
    return apply1(DIAG_EMBED, tensor(input, "diag_embed"), (offset, dim1, dim2))


@public(op=DIAGONAL_OF, samples=lambda t: [call(t(3)), call(t(3, 4)), call(t(3), 1), call(t(3, 4), diagonal=-1)],
        errors=lambda t: [(call(t(2, 2, 2)), RuntimeError, "1D or 2D")])
def diag(input: Any, diagonal: int = 0) -> Any:
    """A vector as the diagonal of a square matrix; or a matrix's diagonal, a copy.

    >>> flambeau.diag(flambeau.tensor([[1, 2], [3, 4]])).tolist()
    [1, 4]
    """
    n = ndim(tensor(input, "diag"))
    if n == 1:
        return apply1(DIAG_EMBED, input, (diagonal, -2, -1))
    if n == 2:
        return apply1(DIAGONAL_OF, input, (diagonal,))
    raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {n}D: for batches use diagonal() or diag_embed()")


@public(out=False, samples=lambda t: [call(t(3)), call(t(2, 2)), call(t()), call(t(3), 1), call(t(3), offset=-1)])
def diagflat(input: Any, offset: int = 0) -> Any:
    """All elements of input on a diagonal of a square matrix.

    >>> flambeau.diagflat(flambeau.tensor([[1], [2]])).tolist()
    [[1, 0], [0, 2]]
    """
    return apply1(DIAG_EMBED, ops.reshape(ops.clone(tensor(input, "diagflat")), (-1,)), (offset, 0, 1))


# --------------------------------------------------------------------------------- powers

_INT64 = np.dtype(np.int64)


def _powers(x: TensorBase, n: int) -> TensorBase:
    """1, x, x ** 2, ... along a new last dimension of size n."""
    shape = tuple(shape_of(x))
    if dtype_of(x).kind in "bui":
        x = to_dtype(x, _INT64)
    wide = ops.expand(ops.unsqueeze(x, len(shape)), (*shape, n))
    return ops.shift(ops.cumprod(wide, len(shape)), len(shape), 1, 1)


@public(method=False, out=False, samples=lambda t: [
    call(t(3, grad=False)), call(t(3, grad=False), 2), call(t(3, grad=False), N=4, increasing=True), call(t(0, grad=False))],
        errors=lambda t: [(call(t(2, 2)), RuntimeError, "one-dimensional"), (call(t(2), -1), RuntimeError, "non-negative")])
def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    """Vandermonde matrix (len(x), N): powers of each element, from the greatest unless increasing.

    >>> flambeau.vander(flambeau.tensor([1, 2, 3])).tolist()
    [[1, 1, 1], [4, 2, 1], [9, 3, 1]]
    """
    if ndim(tensor(x, "vander", "x")) != 1:
        raise RuntimeError(f"vander(): x must be a one-dimensional tensor, got {ndim(x)} dimensions")
    n = shape_of(x)[0] if N is None else N
    if n < 0:
        raise RuntimeError(f"vander(): N must be non-negative, got {n}")
    out = _powers(x, n)
    return out if increasing else ops.flip(out, (1,))


@public(name="vander", namespaces=("linalg",), method=False, out=False, samples=lambda t: [
    call(t(3)), call(t(2, 3)), call(t(3), N=4), call(t(), N=3)],
    errors=lambda t: [(call(t(3), N=1), RuntimeError, "greater than 1")])
def linalg_vander(x: Any, *, N: int | None = None) -> Any:
    """Vandermonde matrices (*, n, N) of vectors (*, n): powers 0 to N - 1 of each element.

    >>> flambeau.linalg.vander(flambeau.tensor([1, 2, 3])).tolist()
    [[1, 1, 1], [1, 2, 4], [1, 3, 9]]
    """
    if ndim(tensor(x, "linalg.vander", "x")) == 0:
        x = ops.unsqueeze(x, 0)
    if dtype_of(x).kind == "b":
        raise RuntimeError("linalg.vander(): x must be a numeric tensor, got bool")
    n = shape_of(x)[-1] if N is None else N
    if n <= 1:
        raise RuntimeError(f"linalg.vander(): N must be greater than 1, got {n}")
    return _powers(x, n)
