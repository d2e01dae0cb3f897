"""Norms under older names in `torch`: norm_except_dim, nuclear_norm, frobenius_norm."""

from __future__ import annotations

import math
from typing import Any

from flambeau.core.objects import shape_of
from flambeau.core.origin import warn_user

from ._args import dim as one_dim
from ._args import integer, tensor
from ._record import call, ops, public
from .linalg_norms import matrix_norm
from .norms import norm, vector_norm


@public(method=False, out=False, samples=lambda t: [
    call(t(3, 4)), call(t(3, 4), 2, -1), call(t(2, 3, 4), 1, 2), call(t(2, 3, 4), dim=1)],
    errors=lambda t: [(call(t(3, 4), 2, 2), IndexError, "out of range")])
def norm_except_dim(v: Any, pow: int = 2, dim: int = 0) -> Any:
    """The norm of order pow of each slice of v along dim, with the other dimensions of size 1; of all of v for dim=-1.

    >>> flambeau.norm_except_dim(flambeau.tensor([[3., 4.], [6., 8.]])).tolist()
    [[5.0], [10.0]]
    """
    n = len(shape_of(tensor(v, "norm_except_dim", "v")))
    if dim == -1:
        return norm(v, pow)
    at = one_dim(dim, n)
    rows = ops.contiguous(ops.transpose(v, 0, at))
    length = shape_of(rows)[0]
    values = vector_norm(ops.reshape(rows, (length, math.prod(shape_of(rows)[1:]))), pow, 1)
    return ops.reshape(values, (*[1] * at, length, *[1] * (n - at - 1)))


@public(samples=lambda t: [call(t(3, 4)), call(t(3, 4), keepdim=True), call(t(2, 3, 4), (0, 2), True)],
        errors=lambda t: [(call(t(3, 4), (1,)), RuntimeError, "2-tuple")])
def nuclear_norm(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Deprecated: `linalg.matrix_norm(input, 'nuc', dim)`, the sum of the singular values.

    >>> round(flambeau.nuclear_norm(flambeau.tensor([[3., 0.], [0., 4.]])).item(), 4)
    7.0
    """
    warn_user("torch.nuclear_norm is deprecated: write torch.linalg.matrix_norm(A, 'nuc', dim, keepdim).")
    t = tensor(input, "nuclear_norm")
    if isinstance(dim, bool):
        dim, keepdim = None, dim
    if dim is None:
        dim = (-2, -1)
    if not isinstance(dim, (tuple, list)) or len(dim) != 2:
        raise RuntimeError(f"nuclear_norm: dim must be a 2-tuple of dimensions, got {dim}")
    return matrix_norm(t, "nuc", tuple(dim), keepdim)


@public(method=False, samples=lambda t: [call(t(3, 4), (0, 1)), call(t(3, 4), 1, True), call(t(3, 4), ())],
        errors=lambda t: [(call(t(2, 3, 4), (0, 1, 2)), RuntimeError, "at most 2 dimensions"),
                          (call(t(3, 4)), TypeError, "dim")])
def frobenius_norm(input: Any, dim: Any, keepdim: bool = False) -> Any:
    """Deprecated: `linalg.vector_norm(input, 2, dim)`, over one or two dimensions.

    >>> flambeau.frobenius_norm(flambeau.tensor([[3., 4.]]), 1).tolist()
    [5.0]
    """
    warn_user("torch.frobenius_norm is deprecated: write torch.linalg.vector_norm(A, 2, dim, keepdim).")
    dims = tuple(integer(d, "frobenius_norm", "dim") for d in (dim if isinstance(dim, (tuple, list)) else (dim,)))
    if len(dims) > 2:
        raise RuntimeError(f"frobenius_norm: Expected at most 2 dimensions, but got {len(dims)} dimensions instead.")
    return vector_norm(tensor(input, "frobenius_norm"), 2, dims or None, keepdim)
