"""Searching and counting values: searchsorted, bucketize, bincount, histograms, unique."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from flambeau.core.apply import apply_n
from flambeau.core.dtype import dtype_of_array
from flambeau.core.objects import TensorBase, array_of, dtype_of, make
from flambeau.kernels import histogram as h
from flambeau.kernels import search as k
from flambeau.kernels.casting import cast

from ._args import integer, like, ndim, tensor
from ._meta import Meta
from ._pointwise import no_derivative, to_dtype
from ._record import KERNEL, call, primitive, public
from ._return_types import return_type
from ._shapes import INT32, INT64, always, checked, fresh
from .ranges import linspace

# --------------------------------------------------------------------------------- places in sorted sequences

def _positions(rows: Meta, values: Meta, sorter: Any, out_int32: bool, *_: Any) -> Meta:
    return Meta(values.shape, INT32 if out_int32 else INT64)


SEARCHSORTED = primitive("searchsorted", lambda rows, values, sorter, out_int32, right, side:
                         k.searchsorted(rows, values, out_int32, right, side, sorter),
                         inputs=("sorted_sequence", "self", "sorter"), params=("out_int32", "right", "side"), promotes=False,
                         differentiable=False, meta=checked(_positions), expr=KERNEL)


def _values(value: Any, like: TensorBase, name: str, argument: str) -> TensorBase:
    """A tensor of like's dtype; numbers and 0-d tensors are converted."""
    if isinstance(value, TensorBase):
        if ndim(value) == 0 and dtype_of(value) is not dtype_of(like):
            return make(cast(array_of(value), dtype_of(like)))
        return value
    if isinstance(value, (bool, int, float, np.number)):
        fits = dtype_of(like).kind in "fV" or isinstance(value, int)
        return make(np.array(value).astype(dtype_of(like) if fits else np.float64))
    raise TypeError(f"{name}(): argument '{argument}' must be Tensor or a number, not {type(value).__name__}")


def _meet_number(boundaries: TensorBase, value: Any) -> TensorBase:
    """Integer boundaries as floats when a number with a fraction is looked for."""
    if isinstance(value, float) and dtype_of(boundaries).kind in "bui":
        return make(array_of(boundaries).astype(np.float64))
    return boundaries


@public(op=SEARCHSORTED, method=False, differentiable=False, samples=lambda t: [
    call(t(5, low=1, high=1, grad=False), t(2, 3, grad=False)), call(t(2, 1, grad=False), t(2, 3, grad=False), right=True),
    call(t(1, grad=False), 0.5)],
    errors=lambda t: [(call(t(2, 3), t(3, 3)), RuntimeError, "boundaries tensor should be 1 dimension"),
                      (call(t(3), t(3), side="x"), RuntimeError, "side can only be")])
def searchsorted(sorted_sequence: Any, input: Any, *, out_int32: bool = False, right: bool = False, side: str | None = None,
                 sorter: Any = None) -> Any:
    """Where elements would be put in rows sorted along their last dimension.

    Args:
        sorted_sequence: 1-D, or of input's shape but for the last dimension.
        input: tensor, or a number.
        right: after equal elements, not before; side="right" says the same.
        sorter: positions (int64) that sort sorted_sequence.

    Returns:
        Tensor of input's shape, int64 (int32 with out_int32).

    >>> flambeau.searchsorted(flambeau.tensor([1., 3., 5.]), flambeau.tensor([3., 6.])).tolist()
    [1, 3]
    """
    rows = _meet_number(tensor(sorted_sequence, "searchsorted", "sorted_sequence"), input)
    if not isinstance(input, TensorBase) and ndim(rows) != 1:
        raise RuntimeError("searchsorted(): input value can be a scalar only when sorted_sequence has dimension 1, got "
                           f"{ndim(rows)} dimensions")
    values = _values(input, rows, "searchsorted", "input")
    return apply_n(SEARCHSORTED, [rows, values, sorter], (out_int32, right, side))


@public(method=False, differentiable=False, samples=lambda t: [
    call(t(2, 3, grad=False), t(1, grad=False)), call(t(4, grad=False), t(1, grad=False), right=True),
    call(0.5, t(1, grad=False))],
    errors=lambda t: [(call(t(2), t(2, 2)), RuntimeError, "boundaries tensor must be 1 dimension")])
def bucketize(input: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    """The number of the bucket, between sorted boundaries, of each element.

    Args:
        input: tensor, or a number.
        boundaries: 1-D, sorted.
        right: a bucket holds its lower boundary, not its upper one.

    >>> flambeau.bucketize(flambeau.tensor([0., 2.]), flambeau.tensor([1., 3.])).tolist()
    [0, 1]
    """
    if ndim(tensor(boundaries, "bucketize", "boundaries", 2)) != 1:
        raise RuntimeError(f"bucketize(): boundaries tensor must be 1 dimension, but got dim({ndim(boundaries)})")
    edges = _meet_number(boundaries, input)
    return apply_n(SEARCHSORTED, [edges, _values(input, edges, "bucketize", "input"), None], (out_int32, right, None))


# --------------------------------------------------------------------------------- counts

BINCOUNT = primitive("bincount", k.bincount, inputs=("self", "weights"), params=("minlength",), promotes=False,
                     dynamic_shape=True, check_float=True, node="NotImplemented", expr=KERNEL,
                     weights=no_derivative("bincount"))
HISTC = primitive("histc", h.histc, params=("bins", "min", "max"), node="HistcBackward0",
                  meta=checked(lambda self, bins, *_: Meta((bins,), self.dtype)), expr=KERNEL, may_raise=True,
                  self=no_derivative("histc"))


@public(op=BINCOUNT, out=False, differentiable=False, samples=lambda t: [
    call(t(5, low=0, high=4, dtype="int64")), call(t(5, low=0, high=4, dtype="int64"), t(5, grad=False)),
    call(t(0, dtype="int64"), minlength=3)],
    errors=lambda t: [(call(t(3)), RuntimeError, "only support"),
                      (call(t(2, 2, dtype="int64")), RuntimeError, "1-d non-negative")])
def bincount(input: Any, weights: Any = None, minlength: int = 0) -> Any:
    """How often each integer from 0 occurs in a vector; with weights, their sums.

    >>> flambeau.bincount(flambeau.tensor([0, 2, 2])).tolist()
    [1, 0, 2]
    """
    return apply_n(BINCOUNT, [tensor(input, "bincount"), weights], (integer(minlength, "bincount", "minlength"),))


def _number(value: Any) -> Any:
    return array_of(value).item() if isinstance(value, TensorBase) else value


@public(op=HISTC, differentiable=False, samples=lambda t: [
    call(t(10, grad=False), 4), call(t(3, 4, grad=False), 5, -1, 1), call(t(0, grad=False), 3)],
        errors=lambda t: [(call(t(3), 0), RuntimeError, "bins must be > 0"),
                          (call(t(3), 3, 2, 1), RuntimeError, "max must be larger than min")])
def histc(input: Any, bins: int = 100, min: Any = 0, max: Any = 0) -> Any:
    """Number of elements in each of `bins` equal intervals of [min, max]; of input's range when both are equal.

    Returns:
        Tensor of shape (bins,), dtype of input.

    >>> flambeau.histc(flambeau.tensor([1., 2., 1.]), bins=2).tolist()
    [2.0, 1.0]
    """
    return apply_n(HISTC, [tensor(input, "histc")], (integer(bins, "histc", "bins"), _number(min), _number(max)))


def _edges(a: np.ndarray, bins: Any, low_high: Any, name: str) -> np.ndarray:
    """Edges of the bins of one dimension."""
    if isinstance(bins, TensorBase):
        if ndim(bins) != 1:
            raise RuntimeError(f"torch.{name}: bins tensor should have one dimension, got {ndim(bins)}")
        if dtype_of(bins) is not a.dtype:
            raise RuntimeError(f"torch.{name}: input tensor and bins tensors should have the same dtype, got {a.dtype.name} "
                               f"and {dtype_of(bins).name}")
        return array_of(bins)
    low, high = h.outer_edges(a, integer(bins, name, "bins"), low_high, name)
    return array_of(linspace(low, high, int(bins) + 1, dtype=dtype_of_array(a.dtype)))


def _histogram(name: str, a: np.ndarray, edges: list, weight: Any, density: bool) -> np.ndarray:
    w = None if weight is None else array_of(weight)
    if w is not None and w.dtype is not a.dtype:
        raise RuntimeError(f"torch.{name}: if weight tensor is provided, input tensor and weight tensor should have the "
                           f"same dtype, got {a.dtype.name} and {w.dtype.name}")
    return h.histogramdd(a, edges, w, density)


@public(differentiable=False, samples=lambda t: [
    call(t(10, grad=False), 4), call(t(3, 4, grad=False), 5, range=(-1., 1.), density=True)],
        errors=lambda t: [(call(t(3, dtype="int64"), 3), NotImplementedError, "not implemented")])
def histogram(input: Any, bins: Any, *, range: Sequence[float] | None = None, weight: Any = None,
              density: bool = False) -> Any:
    """Number of elements in each bin.

    Args:
        bins: number of equal bins of range (of input's range by default), or a tensor of edges.
        weight: what each element counts. density: give densities instead of counts.

    Returns:
        (hist, bin_edges).

    >>> flambeau.histogram(flambeau.tensor([1., 2., 1.]), 2).hist.tolist()
    [2.0, 1.0]
    """
    a = array_of(tensor(input, "histogram"))
    h.check_floating("histogramdd", a)
    edges = _edges(a.reshape(-1), bins, range, "histogramdd")
    w = None if weight is None else make(array_of(weight).reshape(-1))
    hist = _histogram("histogramdd", a.reshape(-1, 1), [edges], w, density)
    return return_type("histogram", "hist", "bin_edges")((make(hist), bins if isinstance(bins, TensorBase) else make(edges)))


@public(method=False, out=False, differentiable=False, samples=lambda t: [call(t(10, 2, grad=False), [2, 3])],
        errors=lambda t: [(call(t(3, 2), [2]), RuntimeError, "bins")])
def histogramdd(input: Any, bins: Any, range: Sequence[float] | None = None, weight: Any = None,
                density: bool = False) -> Any:
    """Number of points (rows of the last dimension, D coordinates each) in each cell of a grid.

    Args:
        bins: number of bins of every coordinate, one number for each, or one tensor of edges for each.
        range: low and high of each coordinate, 2 D numbers.

    Returns:
        (hist, bin_edges), the second a tuple of D tensors.

    >>> flambeau.histogramdd(flambeau.tensor([[0., 1.], [1., 0.]]), [2, 2]).hist.tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    a = array_of(tensor(input, "histogramdd"))
    h.check_floating("histogramdd", a)
    if a.ndim < 2:
        raise RuntimeError(f"torch.histogramdd: input tensor should have at least 2 dimensions, but got {a.ndim}")
    n = a.shape[-1]
    each = [bins] * n if isinstance(bins, int) else list(bins)
    if len(each) != n:
        raise RuntimeError(f"torch.histogramdd: bins should have one entry for each of {n} dimensions, got {len(each)}")
    if range is not None and len(range) != 2 * n:
        raise RuntimeError(f"torch.histogramdd: for a {n}-dimensional histogram range should have {2 * n} elements, "
                           f"but got {len(range)}")
    points = a.reshape(-1, n)
    edges = [_edges(points[:, i], b, None if range is None else range[2 * i:2 * i + 2], "histogramdd")
             for i, b in enumerate(each)]
    w = None if weight is None else make(array_of(weight).reshape(-1))
    hist = _histogram("histogramdd", points, edges, w, density)
    return return_type("histogramdd", "hist", "bin_edges")((make(hist), tuple(make(e) for e in edges)))


# --------------------------------------------------------------------------------- distinct values

UNIQUE = primitive("unique", k.unique, params=("sorted", "return_inverse", "return_counts"), outputs=(True, False, False),
                   dynamic_shape=True, node="Unique2Backward0", expr=KERNEL, self=no_derivative("_unique2"))
UNIQUE_DIM = primitive("unique_dim", k.unique_dim, params=("dim", "return_inverse", "return_counts"),
                       outputs=(True, False, False), dynamic_shape=True, expr=KERNEL, self=no_derivative("unique_dim"))
UNIQUE_CONSECUTIVE = primitive("unique_consecutive", k.unique_consecutive, params=("return_inverse", "return_counts", "dim"),
                               outputs=(True, False, False), dynamic_shape=True, expr=KERNEL,
                               self=no_derivative("unique_consecutive"))


def _asked(found: list, return_inverse: bool, return_counts: bool) -> Any:
    if return_inverse:
        return tuple(found) if return_counts else tuple(found[:2])
    return (found[0], found[2]) if return_counts else found[0]


def _unique_samples(t: Any) -> list:
    return [call(t(6, dtype="int64")), call(t(2, 3, dtype="int64"), return_inverse=True, return_counts=True),
            call(t(3, 2, dtype="int64"), dim=0), call(t(4, grad=False), return_counts=True)]


@public(op=UNIQUE, out=False, differentiable=False, samples=_unique_samples,
        errors=lambda t: [(call(t(3), dim=2), IndexError, "out of range")])
def unique(input: Any, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False,
           dim: int | None = None) -> Any:
    """The distinct elements (slices along dim) in ascending order.

    Args:
        sorted: kept for PyTorch's sake: the result is sorted in any case.
        return_inverse: also the place of each element in the result.
        return_counts: also how often each occurs.

    Returns:
        The values, or a tuple of what was asked for.

    >>> flambeau.unique(flambeau.tensor([3, 1, 3])).tolist()
    [1, 3]
    """
    tensor(input, "unique")
    if dim is None:
        found = apply_n(UNIQUE, [input], (sorted, return_inverse, return_counts))
    else:
        found = apply_n(UNIQUE_DIM, [input], (dim, return_inverse, return_counts))
    return _asked(found, return_inverse, return_counts)


@public(op=UNIQUE_CONSECUTIVE, out=False, differentiable=False, samples=_unique_samples,
        errors=lambda t: [(call(t(3), dim=2), IndexError, "out of range")])
def unique_consecutive(input: Any, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None) -> Any:
    """Elements (slices along dim) that differ from the one before.

    Returns:
        The values, or a tuple of what was asked for: values, the place of each element in them, counts.

    >>> flambeau.unique_consecutive(flambeau.tensor([3, 3, 1, 3])).tolist()
    [3, 1, 3]
    """
    found = apply_n(UNIQUE_CONSECUTIVE, [tensor(input, "unique_consecutive")], (return_inverse, return_counts, dim))
    return _asked(found, return_inverse, return_counts)


# --------------------------------------------------------------------------------- membership and positions


def _isin(elements: np.ndarray, test_elements: np.ndarray, invert: bool) -> np.ndarray:
    if elements.dtype.kind == "V" or elements.dtype.name == "bfloat16":
        elements, test_elements = elements.astype(np.float32), test_elements.astype(np.float32)
    if 0 < elements.size * test_elements.size <= 1024:
        found = np.logical_or.reduce(elements[..., None] == test_elements.reshape(-1), -1)
        return np.asarray(~found if invert else found)
    return np.asarray(np.isin(elements, test_elements, invert=invert))


ISIN = primitive("isin", _isin, inputs=("elements", "test_elements"), params=("invert",), differentiable=False,
                 meta=fresh(always("?")), expr=KERNEL)


@public(op=ISIN, method=False, differentiable=False,
        samples=lambda t: [call(t(3, 4, dtype="int64"), t(2, dtype="int64")), call(t(4, dtype="int32"), 1),
                           call(2, t(3, dtype="int64")), call(t(5, dtype="int64"), t(2), invert=True),
                           call(t(3), t(0)), call(t(), t(2, 2))],
        errors=lambda t: [(call(1, 2), TypeError, "Tensor"),
                          (call(t(2, dtype="bool"), t(2, dtype="bool")), RuntimeError, "isin"),
                          (call(t(2, dtype="complex64"), t(2, dtype="complex64")), RuntimeError, "Unsupported input type")])
def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Any:
    """Whether each of elements is among test_elements; bool of the shape of elements.

    Args:
        elements, test_elements: tensors, or a number one of them; nan is in nothing.
        assume_unique: a promise that neither has an element twice; not needed here.
        invert: whether it is not.

    >>> flambeau.isin(flambeau.tensor([1, 2, 3]), flambeau.tensor([2, 5])).tolist()
    [False, True, False]
    """
    known = [x for x in (elements, test_elements) if isinstance(x, TensorBase)]
    if not known:
        raise TypeError("isin(): elements or test_elements must be a Tensor, not two numbers")
    for x in known:
        if dtype_of(x).kind in "bc":
            raise RuntimeError(f"Unsupported input type encountered for isin(): {dtype_of(x).name}")
    pair = [x if isinstance(x, TensorBase) else like(x, known[0]) for x in (elements, test_elements)]
    return apply_n(ISIN, pair, (bool(invert),))


@public(method=False, out=False, differentiable=False,
        samples=lambda t: [call(t(3, low=0, high=5, dtype="int64"), (2, 3)),
                           call(t(2, 2, low=0, high=5, dtype="int32"), [6]),
                           call(t(low=0, high=3, dtype="int64"), 4), call(t(values=[3, -1, 9], dtype="int64"), (2, 3))],
        errors=lambda t: [(call(t(2), (2, 3)), TypeError, "integer dtype"),
                          (call(t(1, dtype="int64"), (-2, 3)), ValueError, "negative values"),
                          (call(t(1, dtype="int64"), t(2)), TypeError, "int or sequence of ints")])
def unravel_index(indices: Any, shape: Any) -> tuple:
    """The positions in each dimension of elements counted in the order of rows; one tensor for each dimension of shape.

    >>> [i.tolist() for i in flambeau.unravel_index(flambeau.tensor([4, 5]), (2, 3))]
    [[1, 1], [1, 2]]
    """
    if dtype_of(tensor(indices, "unravel_index", "indices")).kind not in "ui":
        raise TypeError(f"expected 'indices' to be integer dtype, but got {dtype_of_array(dtype_of(indices))}")
    sizes = (shape,) if isinstance(shape, int) else shape
    if not isinstance(sizes, (tuple, list)) or not all(isinstance(n, int) for n in sizes):
        raise TypeError(f"expected 'shape' to be int or sequence of ints, but got {type(shape)}")
    if any(n < 0 for n in sizes):
        raise ValueError(f"'shape' cannot have negative values, but got {tuple(sizes)}")
    found: list[Any] = []
    left: Any = to_dtype(indices, INT64)
    for n in reversed(sizes):
        found.append(left % n)
        left = left // n
    return tuple(reversed(found))
