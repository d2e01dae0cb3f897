"""Helpers that distributions share: broadcasting of parameters, probabilities and log-odds, packed triangles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

import flambeau
from flambeau.overrides import is_tensor_like
from flambeau.types import _Number

__all__ = ["broadcast_all", "clamp_probs", "lazy_property", "logits_to_probs", "probs_to_logits",
           "tril_matrix_to_vec", "vec_to_tril_matrix"]

euler_constant = 0.57721566490153286060     # Euler and Mascheroni's
_R = TypeVar("_R")


def broadcast_all(*values: Any) -> tuple:
    """Tensors of one shape out of tensors and numbers.

    Args:
        values: tensors that broadcast against each other, and Python numbers. A number takes the dtype and device of
            the first tensor, or the default dtype when there is none.

    Returns:
        A tuple with one tensor for each value; views where possible.

    Raises:
        ValueError: a value is neither a tensor nor a number.

    >>> [t.shape for t in broadcast_all(flambeau.zeros(3, 1), flambeau.ones(2), 0.5)]
    [torch.Size([3, 2]), torch.Size([3, 2]), torch.Size([3, 2])]
    """
    first = None
    numbers = False
    for value in values:
        if is_tensor_like(value):
            first = value if first is None and isinstance(value, flambeau.Tensor) else first
        elif isinstance(value, _Number):
            numbers = True
        else:
            raise ValueError("Input arguments must all be instances of Number, torch.Tensor or objects implementing "
                             f"__torch_function__; got a {type(value).__name__}.")
    if numbers:
        options: dict = {"dtype": flambeau.get_default_dtype()} if first is None else \
            {"dtype": first.dtype, "device": first.device}
        values = tuple(flambeau.tensor(v, **options) if isinstance(v, _Number) else v for v in values)
    return tuple(flambeau.broadcast_tensors(*values))


def _standard_normal(shape: Any, dtype: Any, device: Any) -> Any:
    """Independent N(0, 1) draws, unrecorded."""
    return flambeau.randn(shape, dtype=dtype, device=device)


def _sum_rightmost(value: Any, dim: int) -> Any:
    """The sum over the last `dim` dimensions, which may be none."""
    return value if dim == 0 else value.flatten(-dim).sum(-1) if value.ndim > dim else value.sum()


def logits_to_probs(logits: Any, is_binary: bool = False) -> Any:
    """Probabilities from log-odds (`is_binary`), or from unnormalised log-probabilities along the last dimension.

    >>> logits_to_probs(flambeau.zeros(2)).tolist()
    [0.5, 0.5]
    """
    return logits.sigmoid() if is_binary else logits.softmax(-1)


def clamp_probs(probs: Any) -> Any:
    """Probabilities moved into [eps, 1 - eps], eps being that of the dtype, so that logarithms stay finite."""
    eps = flambeau.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: Any, is_binary: bool = False) -> Any:
    """Log-odds (`is_binary`) or log-probabilities, finite also at 0 and 1 (see `clamp_probs`).

    >>> probs_to_logits(flambeau.tensor(0.5), is_binary=True).item()
    0.0
    """
    inside = clamp_probs(probs)
    return inside.log() - (-inside).log1p() if is_binary else inside.log()


class lazy_property(Generic[_R]):
    """A property computed when it is first read, then kept; gradients are recorded even inside `no_grad()`.

    >>> class Square:
    ...     side = 3
    ...     @lazy_property
    ...     def area(self):
    ...         return self.side ** 2
    >>> Square().area
    9
    """

    def __init__(self, wrapped: Callable[[Any], _R]) -> None:
        self.wrapped = wrapped
        self.__doc__ = wrapped.__doc__
        self.__name__ = wrapped.__name__

    @overload
    def __get__(self, instance: None, owner: Any = None) -> lazy_property[_R]: ...
    @overload
    def __get__(self, instance: object, owner: Any = None) -> _R: ...
    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        with flambeau.enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.__name__, value)     # found before this descriptor from now on
        return value


def tril_matrix_to_vec(mat: Any, diag: int = 0) -> Any:
    """The entries of square matrices (..., D, D) on and below diagonal `diag`, row by row.

    Raises:
        ValueError: `diag` is not a diagonal of the matrix.

    >>> tril_matrix_to_vec(flambeau.tensor([[1, 2], [3, 4]])).tolist()
    [1, 3, 4]
    """
    n = mat.shape[-1]
    if not isinstance(diag, int) or not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}], the diagonals of a {n} x {n} matrix.")
    row, column = flambeau.tril_indices(n, n, diag, device=mat.device)
    return mat[..., row, column]


def vec_to_tril_matrix(vec: Any, diag: int = 0) -> Any:
    """Square matrices with the given entries on and below diagonal `diag`, row by row, and zeros above.

    Args:
        vec: (..., n) where n counts the entries of some D x D matrix on and below that diagonal.

    Raises:
        ValueError: no D fits n.

    >>> vec_to_tril_matrix(flambeau.tensor([1, 3, 4])).tolist()
    [[1, 0], [3, 4]]
    """
    # A triangle up to diagonal d has L = (D + d)(D + d + 1)/2 entries where d <= 0, else D^2 - (D - d - 1)(D - d)/2.
    # Solved for D, both are:
    n = (((1 + 2 * diag) ** 2 + 8 * vec.shape[-1] + 4 * abs(diag) * (diag + 1)) ** 0.5 - (1 + 2 * diag)) / 2
    eps = flambeau.finfo(vec.dtype).eps if vec.is_floating_point() else 1e-7
    if abs(round(n) - n) > eps:
        raise ValueError(f"The size of last dimension is {vec.shape[-1]}, which is not the number of entries of a "
                         "triangle: it cannot be expressed as the lower triangular part of a square D x D matrix.")
    n = round(n)
    mat = vec.new_zeros(vec.shape[:-1] + (n, n))
    row, column = flambeau.tril_indices(n, n, diag, device=vec.device)
    mat[..., row, column] = vec
    return mat
