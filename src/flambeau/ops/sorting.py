"""Order along one dimension: sort, argsort, msort, topk, kthvalue."""

from __future__ import annotations

from typing import Any

from flambeau.core.apply import apply1
from flambeau.kernels import sort as k

from ._along import pair, selection
from ._args import dim as one_dim
from ._args import integer, ndim, tensor
from ._meta import Meta
from ._record import KERNEL, call, primitive, public
from ._return_types import return_types
from ._shapes import INT64, always, like, reduced, resized, several


def _permuting(name: str, kernel: Any, params: tuple, meta: Any) -> Any:
    """A primitive whose indices keep the dimension, and are distinct along it."""
    return primitive(name, kernel, params=params, outputs=(True, False), meta=meta, expr=KERNEL,
                     self=lambda xp, g, out1, self_shape, dim: xp.place(g, out1, self_shape, dim, True))


def _topk_shape(self: Meta, k: int, dim: int, *_: Any) -> list:
    if not 0 <= k <= (self.shape[dim] if self.shape else 1):
        raise RuntimeError(f"selected index k out of range: k is {k}, and dimension {dim} of shape {list(self.shape)} is "
                           "smaller")
    m = resized(self, dim, k)
    return [m, Meta(m.shape, INT64)]


def _kth_shape(self: Meta, n: int, dim: int, keepdim: bool) -> list:
    if not 1 <= n <= (self.shape[dim] if self.shape else 1):
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {dim}: {n} of {list(self.shape)}")
    return reduced(index=True)(self, dim, keepdim)


SORT = _permuting("sort", k.sort, ("dim", "descending", "stable"), several(like(), like(always("i8"))))
TOPK = _permuting("topk", k.topk, ("k", "dim", "largest", "sorted"), _topk_shape)
KTHVALUE = selection("kthvalue", k.kthvalue, ("k", "dim", "keepdim"), meta=_kth_shape)
ARGSORT = primitive("argsort", k.argsort, params=("dim", "descending", "stable"), differentiable=False,
                    meta=like(always("i8")), expr=KERNEL)


def _dim_error(t: Any) -> list:
    return [(call(t(3), 4), IndexError, "out of range")]


def _sort_samples(t: Any) -> list:
    return [call(t(3, 4)), call(t(3, 4), 0), call(t(3, 4), dim=-2, descending=True), call(t()), call(t(0, 2), 0),
            call(t(4, 3, transposed=True)), call(t(5, dtype="int64")), call(t(3, 4), stable=True)]


@public(op=SORT, samples=_sort_samples, errors=_dim_error)
def sort(input: Any, dim: int = -1, descending: bool = False, stable: bool | None = False) -> Any:
    """Elements in order along dim, and their positions; nan counts as greatest.

    Args:
        input: real tensor.
        stable: equal elements keep their order.

    Returns:
        (values, indices), both of input's shape; indices int64.

    Raises:
        IndexError: dim is out of range.
        RuntimeError: input is complex.

    >>> flambeau.sort(flambeau.tensor([3., 1., 2.])).indices.tolist()
    [1, 2, 0]
    """
    n = ndim(tensor(input, "sort"))
    return pair(return_types.sort, SORT, input, (one_dim(dim, n), bool(descending), bool(stable)))


@public(op=ARGSORT, differentiable=False, samples=_sort_samples, errors=_dim_error)
def argsort(input: Any, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    """Positions (int64) that sort input along dim; see `sort`.

    >>> flambeau.argsort(flambeau.tensor([3., 1., 2.])).tolist()
    [1, 2, 0]
    """
    return apply1(ARGSORT, tensor(input, "argsort"), (one_dim(dim, ndim(input)), bool(descending), bool(stable)))


@public(samples=lambda t: [call(t(3, 4)), call(t(4)), call(t())])
def msort(input: Any) -> Any:
    """Elements in ascending order along the first dimension.

    >>> flambeau.msort(flambeau.tensor([3., 1., 2.])).tolist()
    [1.0, 2.0, 3.0]
    """
    return sort(tensor(input, "msort"), 0)[0]


@public(op=TOPK, samples=lambda t: [
    call(t(3, 4), 2), call(t(3, 4), 2, 0, False), call(t(3, 4), 3, dim=-1, largest=True, sorted=True), call(t(), 1),
    call(t(5, dtype="int64"), 2)],
    errors=lambda t: [(call(t(3), 4), RuntimeError, "out of range"), (call(t(3), 1, 4), IndexError, "out of range")])
def topk(input: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """The k greatest (or least) elements along dim, in order, and their positions.

    Returns:
        (values, indices), with size k at dim.

    Raises:
        RuntimeError: k is negative or exceeds the size of dim.

    >>> flambeau.topk(flambeau.tensor([3., 1., 2.]), 2).values.tolist()
    [3.0, 2.0]
    """
    n = ndim(tensor(input, "topk"))
    return pair(return_types.topk, TOPK, input, (integer(k, "topk", "k"), one_dim(dim, n), largest, sorted))


@public(op=KTHVALUE, samples=lambda t: [
    call(t(3, 4), 2), call(t(3, 4), 2, 0, True), call(t(3, 4), 1, dim=-2), call(t(), 1)],
    errors=lambda t: [(call(t(3), 4), RuntimeError, "out of range"), (call(t(3), 1, 4), IndexError, "out of range")])
def kthvalue(input: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """The k-th least element along dim, k counted from 1, and its position.

    Returns:
        (values, indices).

    Raises:
        RuntimeError: k is not in [1, size of dim].

    >>> flambeau.kthvalue(flambeau.tensor([3., 1., 2.]), 2).values.item()
    2.0
    """
    n = ndim(tensor(input, "kthvalue"))
    return pair(return_types.kthvalue, KTHVALUE, input, (integer(k, "kthvalue", "k"), one_dim(dim, n), keepdim))
