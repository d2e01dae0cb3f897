"""Sums, means and products over dimensions, and what is true of all or any element.

A reduction of everything is a primitive without parameters, which costs little more than NumPy's own call; one
over dimensions is another (PyTorch shows them as SumBackward0 and SumBackward1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from flambeau.core.apply import apply1
from flambeau.core.dtype import DType
from flambeau.core.objects import TensorBase, dtype_of, shape_of
from flambeau.kernels import reduce as k
from flambeau.kernels.layout import as_int
from flambeau.kernels.services import is_float

from ._args import integer, ndim, np_dtype, tensor
from ._pointwise import fused
from ._record import KERNEL, PRIMITIVES, call, kernels, ops, primitive, public
from ._shapes import accumulated, always, reduced, scalar, truth

Dim = int | Sequence[int] | None


# --------------------------------------------------------------------------------- gradients: spread out again


def _spread_all(g: np.ndarray, shape: tuple) -> np.ndarray:
    return np.ndarray(shape, g.dtype, g, 0, (0,) * len(shape)) if shape else g


def _spread(g: np.ndarray, shape: tuple, dim: Dim, keepdim: bool) -> np.ndarray:
    if g.ndim == 0:
        return _spread_all(g, shape)
    if not keepdim:
        g = k.restore_axes(g, dim, len(shape))
    return kernels.expand(g, shape)


def restore(xp: Any, g: Any, shape: tuple, dim: Dim, keepdim: bool) -> Any:
    """g, the result of a reduction (or its gradient), with the reduced axes of size 1."""
    return g if keepdim else xp.reshape(g, k.reduced_shape(shape, dim, True))


# The gradient of a result seen by every element that went into it: a view, no copy.
fused("spread_all", _spread_all, lambda xp, g, shape: xp.expand(g, shape))
fused("spread", _spread, lambda xp, g, shape, dim, keepdim: xp.expand(restore(xp, g, shape, dim, keepdim), shape))


def along_gradient(formula: Callable, dim: int = 0) -> Callable:
    """The `jvp` of a reduction to real numbers: the inner product of each result's gradient and the tangent.

    Where the gradient is masked this is 0, and not the product of that mask with an infinite slope.

    Args:
        formula: (xp, g, self, out, params...) of the gradient.
        dim: which of the parameters says what is reduced; keepdim is the last.
    """

    def jvp(xp: Any, tangents: list, inputs: list, outs: list, params: tuple) -> Any:
        slope = formula(xp, xp.ones_like(outs[0]), inputs[0], outs[0], *params)
        product = xp.conj(slope) * tangents[0]
        return xp.sum(xp.real(product) if xp.is_complex(product) else product, params[dim], params[-1])

    return jvp


def count(shape: tuple, dim: Dim) -> int:
    """How many elements go into one result."""
    axes = k.reduced_axes(dim, len(shape))
    n = 1
    for axis in range(len(shape)) if axes is None else axes:
        n *= shape[axis]
    return n


# --------------------------------------------------------------------------------- sum and mean

SUM_ALL = primitive("sum_all", k.sum_all, params=("dtype",), check_float=True,
                    node="SumBackward0", meta=scalar(accumulated),
                    expr=KERNEL, self=lambda xp, g, self_shape: xp.spread_all(g, self_shape))
SUM = primitive("sum", k.sum, params=("dim", "keepdim", "dtype"), check_float=True, node="SumBackward1",
                meta=reduced(accumulated), expr=KERNEL,
                self=lambda xp, g, self_shape, dim, keepdim: xp.spread(g, self_shape, dim, keepdim))
ops.sum = lambda t, dim=None, keepdim=False, dtype=None: apply1(SUM, t, (dim, keepdim, dtype))


def _mean_all_backward(g: np.ndarray, shape: tuple) -> np.ndarray:
    n = 1
    for s in shape:
        n *= s
    return _spread_all(np.divide(g, n, np.empty((), g.dtype)), shape)


fused("mean_all_backward", _mean_all_backward,
      lambda xp, g, shape: xp.spread_all(g, shape) / count(shape, None))
MEAN_ALL = primitive("mean_all", lambda a, dtype=None: k.mean(a, None, False, dtype), params=("dtype",),
                     node="MeanBackward0", meta=scalar(), expr=KERNEL,
                     self=lambda xp, g, self_shape: xp.mean_all_backward(g, self_shape))
MEAN = primitive("mean", k.mean, params=("dim", "keepdim", "dtype"), node="MeanBackward1", meta=reduced(), expr=KERNEL,
                 self=lambda xp, g, self_shape, dim, keepdim:
                 xp.spread(g, self_shape, dim, keepdim) / count(self_shape, dim))
ops.mean = lambda t, dim=None, keepdim=False, dtype=None: apply1(MEAN, t, (dim, keepdim, dtype))


def reduction_samples(low: float = -2.0, high: float = 2.0) -> Any:
    """Samples of a reduction that takes dim and keepdim."""

    def samples(t: Any) -> list:
        kw = {"low": low, "high": high}
        return [call(t(3, 4, **kw)), call(t(3, 4, **kw), 1), call(t(3, 4, **kw), dim=-2, keepdim=True),
                call(t(2, 3, 4, **kw), (0, 2)), call(t(4, 3, transposed=True, **kw), 0), call(t(**kw)), call(t(**kw), 0)]

    return samples


def _sum_samples(t: Any) -> list:
    return [*reduction_samples()(t), call(t(0, 2), 0), call(t(0)), call(t(2, 3), ()), call(t(3, dtype="int64")),
            call(t(3, dtype="bool"))]


def _dim_errors(t: Any) -> list:
    return [(call(t(3), dim=4), IndexError, "out of range"),
            (call(t(3, 2), (0, 0)), RuntimeError, "appears multiple times")]


def as_dim(dim: Any) -> Any:
    """A dim argument as an int, a tuple or None."""
    if dim is None or type(dim) is int:
        return dim
    if isinstance(dim, (tuple, list)):
        return tuple(as_int(d) for d in dim)
    return as_int(dim)


@public(op=SUM, samples=_sum_samples, errors=_dim_errors)
def sum(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: DType | None = None) -> Any:
    """Sum of the elements, of all or along dimensions.

    Args:
        input: tensor of shape (*).
        dim: a dimension or several, all of them by default and for ().
        keepdim: leave the summed dimensions in place with size 1.
        dtype: of the result and of the addition; by default input's, int64 for integers and bool.

    Raises:
        IndexError: dim is out of range.
        RuntimeError: a dimension is named twice.

    >>> flambeau.sum(flambeau.tensor([1., 2.])).item()
    3.0
    """
    if dim is None and not keepdim:
        if dtype is None and isinstance(input, TensorBase):
            return apply1(SUM_ALL, input)
        return apply1(SUM_ALL, tensor(input, "sum"), (np_dtype(dtype),))
    return apply1(SUM, tensor(input, "sum"), (as_dim(dim), keepdim, np_dtype(dtype)))


def _mean_samples(t: Any) -> list:
    return [*reduction_samples()(t), call(t(0, 2), 0), call(t(0)), call(t(2, 3), ())]


@public(op=MEAN, samples=_mean_samples, errors=lambda t: [
    (call(t(3), dim=4), IndexError, "out of range"),
    (call(t(3, dtype="int64")), RuntimeError, "either a floating point or complex dtype")])
def mean(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: DType | None = None) -> Any:
    """Mean of the elements, of all or along dimensions; NaN where there is none.

    Args:
        input: floating or complex tensor of shape (*).
        dim: a dimension or several, all of them by default and for ().
        keepdim: leave the averaged dimensions in place with size 1.
        dtype: of the result and of the addition; lets integers be averaged.

    Raises:
        RuntimeError: input is of integers or bool and no dtype is given.
        IndexError: dim is out of range.

    >>> flambeau.mean(flambeau.tensor([1., 2.])).item()
    1.5
    """
    if dim is None and not keepdim:
        if dtype is None and isinstance(input, TensorBase):
            return apply1(MEAN_ALL, input)
        return apply1(MEAN_ALL, tensor(input, "mean"), (np_dtype(dtype),))
    return apply1(MEAN, tensor(input, "mean"), (as_dim(dim), keepdim, np_dtype(dtype)))


# --------------------------------------------------------------------------------- products


def _without(xp: Any, a: Any, dim: int) -> Any:
    # For each element the product of the others along dim: what stands before it times what stands after it. No
    # division, so that zeros do no harm, and derivatives of any order are right.
    before = xp.shift(xp.cumprod(a, dim), dim, 1, 1)
    after = xp.flip(xp.shift(xp.cumprod(xp.flip(a, (dim,)), dim), dim, 1, 1), (dim,))
    return before * after


def _prod_safe(xp: Any, g: Any, a: Any, out: Any, dim: Dim, keepdim: bool) -> Any:
    shape = a.shape
    if dim is None:
        flat = xp.reshape(a, (-1,))
        return xp.reshape(g * xp.conj(_without(xp, flat, 0)), shape)
    return xp.spread(g, shape, dim, keepdim) * xp.conj(_without(xp, a, dim % max(1, len(shape))))


def _prod_backward(g: np.ndarray, a: np.ndarray, out: np.ndarray, dim: Dim, keepdim: bool) -> np.ndarray:
    if a.size == 0 or a.all():
        return _spread(g * kernels.conj(out), a.shape, dim, keepdim) / kernels.conj(a)
    return _prod_safe(kernels, g, a, out, dim, keepdim)


fused("prod_backward", _prod_backward, _prod_safe)


def _prod_formula(xp: Any, g: Any, self: Any, out: Any, dim: Dim, keepdim: bool, dtype: Any) -> Any:
    if len(self.shape) == 0:
        return g
    return xp.prod_backward(g, self if dtype is None else xp.cast(self, dtype), out, dim, keepdim)


def _prod_all_formula(xp: Any, g: Any, self: Any, out: Any, dtype: Any) -> Any:
    return _prod_formula(xp, g, self, out, None, False, dtype)


PROD_ALL = primitive("prod_all", lambda a, dtype: k.prod(a, None, False, dtype), params=("dtype",), check_float=True,
                     node="ProdBackward0", meta=scalar(accumulated), expr=KERNEL, self=_prod_all_formula)
PROD = primitive("prod", k.prod, params=("dim", "keepdim", "dtype"), check_float=True, node="ProdBackward1",
                 meta=reduced(accumulated), expr=KERNEL,
                 self=_prod_formula)


def _prod_samples(t: Any) -> list:
    kw = {"low": 0.5, "high": 2.0}
    return [call(t(3, 4, **kw)), call(t(3, 4, **kw), 1), call(t(3, 4, **kw), -2, True), call(t(**kw)), call(t(**kw), 0),
            call(t(0, 2, grad=False), 0), call(t(0, grad=False)), call(t(3, dtype="int64")),
            call(t(4, 3, transposed=True, **kw), 0)]


@public(op=PROD, samples=_prod_samples, errors=lambda t: [(call(t(3), 4), IndexError, "out of range")])
def prod(input: Any, dim: int | None = None, keepdim: bool = False, *, dtype: DType | None = None) -> Any:
    """Product of the elements, of all or along one dimension; the gradient is right where elements are zero.

    Args:
        dtype: of the result and of the multiplication; by default input's, int64 for integers and bool.

    >>> flambeau.prod(flambeau.tensor([2., 3.])).item()
    6.0
    """
    tensor(input, "prod")
    if dim is None:
        out = apply1(PROD_ALL, input, (np_dtype(dtype),))
        return ops.reshape(out, (1,) * ndim(input)) if keepdim else out
    if not isinstance(dim, (int, np.integer)):
        raise TypeError(f"prod(): argument 'dim' must be int, not {type(dim).__name__}")
    return apply1(PROD, input, (integer(dim, "prod", "dim"), keepdim, np_dtype(dtype)))


# --------------------------------------------------------------------------------- without nan

NANSUM = primitive("nansum", k.nansum, params=("dim", "keepdim", "dtype"), check_float=True, meta=reduced(accumulated),
                   expr=KERNEL,
                   self=lambda xp, g, self, dim, keepdim: xp.drop(xp.spread(g, self.shape, dim, keepdim), xp.isnan(self)))


@public(op=NANSUM, samples=reduction_samples(), errors=_dim_errors)
def nansum(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: DType | None = None) -> Any:
    """Sum with nan counted as zero; see `sum`.

    >>> flambeau.nansum(flambeau.tensor([1., float("nan")])).item()
    1.0
    """
    return apply1(NANSUM, tensor(input, "nansum"), (as_dim(dim), keepdim, np_dtype(dtype)))


@public(samples=reduction_samples(), errors=lambda t: [
    (call(t(3, dtype="int64")), RuntimeError, "floating point or complex dtype")])
def nanmean(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: DType | None = None) -> Any:
    """Mean of what is not nan; nan where nothing is. See `mean`.

    >>> flambeau.nanmean(flambeau.tensor([1., float("nan"), 3.])).item()
    2.0
    """
    if not is_float(dtype_of(tensor(input, "nanmean"))):
        raise RuntimeError(
            f"nanmean(): expected input to have floating point or complex dtype, and it has {dtype_of(input).name}. "
            "Use .float(), or mean(dtype=torch.float32): integers have no NaN.")
    there = apply1(PRIMITIVES["isnan"], input.detach())
    total = nansum(input, dim, keepdim, dtype=dtype)
    return total / ops.cast(count(shape_of(input), as_dim(dim)) - sum(there, dim, keepdim), dtype_of(total))


# --------------------------------------------------------------------------------- truth and counting

ALL = primitive("all", k.all, params=("dim", "keepdim"), differentiable=False, meta=reduced(truth), expr=KERNEL)
ANY = primitive("any", k.any, params=("dim", "keepdim"), differentiable=False, meta=reduced(truth), expr=KERNEL)
COUNT_NONZERO = primitive("count_nonzero", k.count_nonzero, params=("dim",), differentiable=False,
                          meta=reduced(always("i8"), keepdim=None), expr=KERNEL)


def _truth_samples(t: Any) -> list:
    return [call(t(3, 4, dtype="bool")), call(t(3, 4, dtype="bool"), 1), call(t(3, 4, grad=False), (0, 1), True),
            call(t(0, 2, grad=False), 0), call(t(grad=False)), call(t(3, 4, dtype="int64"), dim=-1, keepdim=True)]


@public(op=ALL, differentiable=False, samples=_truth_samples, errors=lambda t: _dim_errors(t)[:1])
def all(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Whether every element is nonzero, of all or along dimensions; true where there is none.

    Returns:
        bool tensor (uint8 for uint8).

    >>> flambeau.all(flambeau.tensor([True, False])).item()
    False
    """
    return apply1(ALL, tensor(input, "all"), (as_dim(dim), keepdim))


@public(op=ANY, differentiable=False, samples=_truth_samples, errors=lambda t: _dim_errors(t)[:1])
def any(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Whether some element is nonzero, of all or along dimensions; false where there is none.

    Returns:
        bool tensor (uint8 for uint8).

    >>> flambeau.any(flambeau.tensor([True, False])).item()
    True
    """
    return apply1(ANY, tensor(input, "any"), (as_dim(dim), keepdim))


@public(op=COUNT_NONZERO, differentiable=False, out=False, errors=lambda t: _dim_errors(t)[:1], samples=lambda t: [
    call(t(3, 4, grad=False)), call(t(3, 4, dtype="int64"), 1), call(t(3, 4, dtype="bool"), (0, 1)), call(t(0))])
def count_nonzero(input: Any, dim: Any = None) -> Any:
    """Number of nonzero elements (int64), of all or along dimensions.

    >>> flambeau.count_nonzero(flambeau.tensor([0, 3, 2])).item()
    2
    """
    return apply1(COUNT_NONZERO, tensor(input, "count_nonzero"), (as_dim(dim),))
