"""Variance and standard deviation, logsumexp, median, mode, quantiles."""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.apply import apply1, apply2, apply_n
from flambeau.core.objects import TensorBase, array_of, dtype_of, make, shape_of
from flambeau.core.op import slot
from flambeau.core.origin import warn_user
from flambeau.kernels import reduce as r
from flambeau.kernels import statistics as k
from flambeau.kernels.services import default_array_type, is_float

from . import extrema  # noqa: F401  it registers share_all
from ._along import PICK_ANY, pair, selection
from ._args import dim as one_dim
from ._args import ndim, tensor, word
from ._meta import Meta
from ._pointwise import fused, to_dtype
from ._record import KERNEL, call, kernels, ops, primitive, public
from ._return_types import return_types
from ._shapes import floating, in_order, real, reduced, same, scalar
from .reduction import along_gradient, as_dim, count, restore
from .sorting import SORT

# --------------------------------------------------------------------------------- variance


def _deviation(xp: Any, a: Any, dim: Any) -> Any:
    return a - xp.mean(a, dim, True)


def _var_grad(xp: Any, g: Any, a: Any, dim: Any, correction: float, keepdim: bool) -> Any:
    dof = count(a.shape, dim) - correction
    g = restore(xp, g, a.shape, dim, keepdim)
    if dof <= 0:        # PyTorch's answer: nan where the deviation is 0, else infinite
        deviation = _deviation(xp, a, dim)
        return g * (deviation * float("inf"))
    return g * (_deviation(xp, a, dim) * (2.0 / dof))


def _std_slope(g: np.ndarray, out: np.ndarray) -> np.ndarray:
    t = np.divide(g, out * 2, np.empty(g.shape, g.dtype))
    np.putmask(t, out == 0, t.dtype.type(0))
    return t


def _var_backward(g: np.ndarray, a: np.ndarray, dim: Any, correction: float, keepdim: bool) -> np.ndarray:
    axes = r.reduced_axes(dim, a.ndim)
    n = r.count_reduced(a, axes)
    dof = n - correction
    if dof <= 0 or a.ndim == 0 or a.dtype.char not in "fd":
        return _var_grad(kernels, g, a, dim, correction, keepdim)
    center = np.add.reduce(a, axes, None, None, True)
    center = np.divide(center, n, center)
    t = np.subtract(a, center)
    t *= 2.0 / dof
    if g.ndim and not keepdim:
        g = r.restore_axes(g, dim, a.ndim)
    t *= g
    return t


def _joint_mean(xp: Any, g: Any, shape: tuple, dim: Any, keepdim: bool) -> Any:
    return xp.spread(g, shape, dim, keepdim) / count(shape, dim)


def _sum_of(parts: list) -> tuple:
    return (parts[0] if len(parts) == 1 else parts[0] + parts[1],)


def _var_mean_grad(xp: Any, g: Any, needs: list, self: Any, dim: Any, correction: float, keepdim: bool) -> tuple:
    parts = [] if g[0] is None else [xp.var_backward(g[0], self, dim, correction, keepdim)]
    return _sum_of(parts if g[1] is None else [*parts, _joint_mean(xp, g[1], self.shape, dim, keepdim)])


def _std_mean_grad(xp: Any, g: Any, needs: list, self: Any, out0: Any, dim: Any, correction: float, keepdim: bool) -> tuple:
    parts = [] if g[0] is None else [xp.var_backward(xp.std_slope(g[0], out0), self, dim, correction, keepdim)]
    return _sum_of(parts if g[1] is None else [*parts, _joint_mean(xp, g[1], self.shape, dim, keepdim)])


# d std = d var / (2 std); 0 where all elements are equal
fused("std_slope", _std_slope, lambda xp, g, out: xp.drop(g / (out * 2), out == 0))
fused("var_backward", _var_backward, _var_grad)
_PARAMS = ("dim", "correction", "keepdim")
_std_tangent = along_gradient(lambda xp, g, self, out, dim, correction, keepdim: xp.var_backward(
    xp.std_slope(g, out), self, dim, correction, keepdim))
VAR = primitive("var", k.var, params=_PARAMS, meta=reduced(real, keepdim=2),
                expr=KERNEL, self=lambda xp, g, self, dim, correction, keepdim:
                xp.var_backward(g, self, dim, correction, keepdim))
STD = primitive("std", k.std, params=_PARAMS, meta=reduced(real, keepdim=2),
                expr=KERNEL, self=lambda xp, g, self, out, dim, correction, keepdim:
                xp.var_backward(xp.std_slope(g, out), self, dim, correction, keepdim), jvp=_std_tangent)
VAR_MEAN = primitive("var_mean", k.var_mean, params=_PARAMS, outputs=(True, True),
                     meta=reduced(keepdim=2, outputs=(real, same)), expr=KERNEL, joint=_var_mean_grad)
STD_MEAN = primitive("std_mean", k.std_mean, params=_PARAMS, outputs=(True, True),
                     meta=reduced(keepdim=2, outputs=(real, same)), expr=KERNEL, joint=_std_mean_grad,
                     jvp=lambda xp, tangents, inputs, outs, params: (
                         _std_tangent(xp, tangents, inputs, outs, params), xp.mean(tangents[0], params[0], params[-1])))


def _variance_params(name: str, input: Any, dim: Any, unbiased: Any, keepdim: bool, correction: Any) -> tuple:
    """(dim, correction, keepdim) of the forms var(unbiased), var(dim, unbiased, keepdim), var(dim, correction=)."""
    tensor(input, name)
    if isinstance(dim, bool):
        if unbiased is not None:
            raise TypeError(f"{name}() received an invalid combination of arguments: dim must be int, not bool")
        dim, unbiased = None, dim
    if unbiased is not None and correction is not None:
        raise TypeError(f"{name}() received an invalid combination of arguments: give unbiased or correction, not both")
    if unbiased is not None:
        correction = 1 if unbiased else 0
    elif correction is None:
        correction = 1
    if isinstance(correction, TensorBase):
        correction = array_of(correction).item()
    shape = shape_of(input)
    dim = as_dim(dim)
    if count(shape, dim) <= correction and is_float(dtype_of(input)):
        warn_user(f"{name}(): degrees of freedom is <= 0: the correction is at least the number of elements that "
                  "each output is computed from, and the result is inf or NaN. Lower the correction "
                  "(unbiased=False means 0), or give more elements.")
    return dim, correction, keepdim


def _variance_samples(t: Any) -> list:
    return [call(t(3, 4)), call(t(3, 4), 1), call(t(3, 4), dim=-2, keepdim=True), call(t(3, 4), 0, False),
            call(t(2, 3, 4), (0, 2), correction=2), call(t(3, 4), unbiased=False), call(t(4, 3, transposed=True), 0)]


def _variance_errors(t: Any) -> list:
    return [(call(t(3, dtype="int64")), RuntimeError, "only support floating point and complex dtypes"),
            (call(t(3), 4), IndexError, "out of range")]


@public(op=VAR, samples=_variance_samples, errors=_variance_errors)
def var(input: Any, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: Any = None) -> Any:
    """Variance of the elements, of all or along dimensions.

    Args:
        input: floating or complex tensor of shape (*).
        dim: a dimension or several, all by default.
        correction: the sum of squared deviations is divided by the count minus this; 1 by default.
        unbiased: True and False say correction 1 and 0.

    Returns:
        Real tensor.

    >>> flambeau.var(flambeau.tensor([1., 3.])).item()
    2.0
    """
    return apply1(VAR, input, _variance_params("var", input, dim, unbiased, keepdim, correction))


@public(op=STD, samples=_variance_samples, errors=_variance_errors)
def std(input: Any, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: Any = None) -> Any:
    """Standard deviation of the elements, of all or along dimensions: the root of `var`.

    >>> flambeau.std(flambeau.tensor([1., 3.]), correction=0).item()
    1.0
    """
    return apply1(STD, input, _variance_params("std", input, dim, unbiased, keepdim, correction))


@public(op=VAR_MEAN, method=False, samples=_variance_samples, errors=_variance_errors)
def var_mean(input: Any, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *,
             correction: Any = None) -> tuple:
    """Variance and mean of the elements, of all or along dimensions; see `var`.

    >>> [t.item() for t in flambeau.var_mean(flambeau.tensor([1., 3.]))]
    [2.0, 2.0]
    """
    params = _variance_params("var_mean", input, dim, unbiased, keepdim, correction)
    return tuple(apply_n(VAR_MEAN, [input], params))


@public(op=STD_MEAN, method=False, samples=_variance_samples, errors=_variance_errors)
def std_mean(input: Any, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *,
             correction: Any = None) -> tuple:
    """Standard deviation and mean of the elements, of all or along dimensions; see `var`.

    >>> [t.item() for t in flambeau.std_mean(flambeau.tensor([1., 3.]), correction=0)]
    [1.0, 2.0]
    """
    params = _variance_params("std_mean", input, dim, unbiased, keepdim, correction)
    return tuple(apply_n(STD_MEAN, [input], params))


# --------------------------------------------------------------------------------- logsumexp


def _logsumexp_grad(xp: Any, g: Any, self: Any, out: Any, dim: Any, keepdim: bool) -> Any:
    shape = self.shape
    return restore(xp, g, shape, dim, keepdim) * xp.conj(xp.exp(self - restore(xp, out, shape, dim, keepdim)))


LOGSUMEXP = primitive("logsumexp", k.logsumexp, params=("dim", "keepdim"), meta=reduced(floating),
expr=KERNEL, self=_logsumexp_grad)


@public(op=LOGSUMEXP, namespaces=("torch", "special"), samples=lambda t: [
    call(t(3, 4), 1), call(t(3, 4), -2, True), call(t(2, 3, 4), (0, 2)), call(t(), 0), call(t(3, dtype="int64"), 0)],
    errors=lambda t: [(call(t(3), 4), IndexError, "out of range")])
def logsumexp(input: Any, dim: Any, keepdim: bool = False) -> Any:
    """log of the sum of exp(input) along dimensions, without overflow; -inf where there is nothing.

    >>> round(flambeau.logsumexp(flambeau.tensor([0., 0.]), 0).item(), 4)
    0.6931
    """
    if not is_float(dtype_of(tensor(input, "logsumexp"))):
        input = to_dtype(input, default_array_type())
    return apply1(LOGSUMEXP, input, (as_dim(dim), keepdim))


# --------------------------------------------------------------------------------- median and mode


def _median_all(name: str, kernel: Any) -> Any:
    return primitive(f"{name}_all", kernel, node=f"{name.capitalize()}Backward0", meta=scalar(), expr=KERNEL,
                     self=lambda xp, g, self, out: xp.share_all(g, self, out))


MEDIAN_ALL, NANMEDIAN_ALL = _median_all("median", k.median), _median_all("nanmedian", k.nanmedian)
MEDIAN = selection("median", k.median_dim, ("dim", "keepdim"), "MedianBackward1")
NANMEDIAN = selection("nanmedian", k.nanmedian_dim, ("dim", "keepdim"), "NanmedianBackward1")
MODE = selection("mode", k.mode, ("dim", "keepdim"))


def _median_samples(t: Any) -> list:
    return [call(t(3, 5)), call(t(3, 5), 1), call(t(3, 5), dim=-2, keepdim=True), call(t()), call(t(), 0),
            call(t(5, dtype="int64"))]


def _dim_error(t: Any) -> list:
    return [(call(t(3), 4), IndexError, "out of range"), (call(t(0, 2), 0), IndexError, "non-zero size")]


@public(op=MEDIAN, samples=_median_samples, errors=_dim_error)
def median(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """Median of all elements; or along one dimension, with positions. Of two middle elements the lower one.

    Returns:
        A 0-d tensor; or (values, indices). nan if there is one.

    >>> flambeau.median(flambeau.tensor([4., 1., 3., 2.])).item()
    2.0
    """
    tensor(input, "median")
    if dim is None:
        return apply1(MEDIAN_ALL, input)
    return pair(return_types.median, MEDIAN, input, (one_dim(dim, ndim(input)), keepdim))


@public(op=NANMEDIAN, samples=_median_samples, errors=_dim_error)
def nanmedian(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """Median of what is not nan; see `median`.

    >>> flambeau.nanmedian(flambeau.tensor([float("nan"), 1., 3.])).item()
    1.0
    """
    tensor(input, "nanmedian")
    if dim is None:
        return apply1(NANMEDIAN_ALL, input)
    return pair(return_types.nanmedian, NANMEDIAN, input, (one_dim(dim, ndim(input)), keepdim))


@public(op=MODE, samples=lambda t: [call(t(3, 5)), call(t(3, 5), 0), call(t(3, 5), dim=-1, keepdim=True), call(t())],
        errors=_dim_error)
def mode(input: Any, dim: int = -1, keepdim: bool = False) -> Any:
    """Most frequent element along dim, the least of equally frequent ones, and its last position.

    >>> flambeau.mode(flambeau.tensor([1., 2., 2.])).values.item()
    2.0
    """
    return pair(return_types.mode, MODE, tensor(input, "mode"), (one_dim(dim, ndim(input)), keepdim))


# --------------------------------------------------------------------------------- quantiles


def _quantile(name: str, input: Any, q: Any, dim: Any, keepdim: bool, interpolation: str, skip_nan: bool) -> Any:
    """Composed of a sort, two picks and a weighted sum, so that input and q are differentiable to any order."""
    a = array_of(tensor(input, name))
    word(interpolation, name, "interpolation")
    k.check_quantile(name, a, array_of(q) if isinstance(q, TensorBase) else q, interpolation)
    levels = q if isinstance(q, TensorBase) else make(np.array(q, a.dtype))
    n_dims = a.ndim
    if dim is None:
        line, axis = ops.reshape(input, (-1,)), 0
    else:
        axis = one_dim(dim, n_dims)
        order = (*[d for d in range(n_dims) if d != axis], axis)
        line = ops.reshape(input, (1,)) if n_dims == 0 else ops.permute(input, order)
    ordered = apply_n(SORT, [line], (ndim(line) - 1, False, True))[0]
    last = k.last_ranks(array_of(ordered), skip_nan)                    # (..., 1)
    ranks = ops.reshape(levels, (-1,)) * make(last.astype(a.dtype))
    ranks, below, above, weight = _ranks(ranks, array_of(ordered), interpolation, skip_nan)
    d = ndim(ordered) - 1
    found = apply_n(PICK_ANY, [ordered, make(below)], (d,))
    if interpolation in ("linear", "midpoint"):
        end = apply_n(PICK_ANY, [ordered, make(above)], (d,))
        found = ops.lerp(found, end, weight) if isinstance(weight, TensorBase) else ops.lerp_scalar(found, end, weight)
    shape = shape_of(found)
    n_levels = shape[-1]
    if dim is None:
        found = ops.reshape(found, (n_levels, *((1,) * n_dims if keepdim else ())))
    else:
        rest = ops.reshape(found, (n_levels,)) if n_dims == 0 else _front(ops.contiguous(found), axis, n_dims)
        found = rest if keepdim and n_dims else rest if n_dims == 0 else ops.squeeze_dim(rest, axis + 1)
    return found if ndim(levels) else ops.reshape(found, tuple(shape_of(found)[1:]))


def _front(found: TensorBase, axis: int, n_dims: int) -> TensorBase:
    """(..., q) without the reduced axis, as (q, ..., 1 at axis, ...)."""
    wide = ops.unsqueeze(found, n_dims)                                 # (..., q, 1)
    order = list(range(n_dims - 1))
    order.insert(axis, n_dims)
    return ops.permute(wide, (n_dims - 1, *order))


def _ranks(ranks: TensorBase, ordered: np.ndarray, interpolation: str, skip_nan: bool) -> tuple:
    a = k.whole_ranks(array_of(ranks), ordered, interpolation, skip_nan)
    below, above = np.floor(a).astype(np.int64), np.ceil(a).astype(np.int64)
    weight: Any = 0.5 if interpolation == "midpoint" else ranks - make(below.astype(a.dtype))
    if interpolation == "linear" and not skip_nan:
        nan = np.broadcast_to(np.isnan(ordered).any(-1)[..., None], a.shape)
        weight = apply2(slot("drop"), weight, make(np.array(nan)))
    return ranks, below, above, weight


def _quantile_samples(t: Any) -> list:
    return [call(t(3, 5), 0.3), call(t(3, 5), 0.5, dim=1), call(t(3, 5), 0.2, -2, True),
            call(t(5), 0.3, interpolation="lower"), call(t(5), 0.3, interpolation="midpoint")]


def _quantile_errors(t: Any) -> list:
    return [(call(t(3), 1.5), RuntimeError, "must be in the range"),
            (call(t(0), 0.5), RuntimeError, "must be non-empty"),
            (call(t(3, dtype="int64"), 0.5), RuntimeError, "either float or double"),
            (call(t(3), 0.5, interpolation="x"), RuntimeError, "interpolation must be")]


def _quantile_shape(input: Meta, q: Any, dim: int | None = None, keepdim: bool = False, *,
                    interpolation: str = "linear") -> Meta:
    levels = q.shape if isinstance(q, Meta) else np.shape(q)
    k.check_quantile("quantile", input, np.zeros((1,) * len(levels), q.dtype) if isinstance(q, Meta) else q,
                     interpolation)
    shape = (*levels, *r.reduced_shape(input.shape, dim, keepdim))
    return Meta(shape, input.dtype, in_order(shape, [*range(len(levels), len(shape)), *range(len(levels))]))


@public(samples=_quantile_samples, errors=_quantile_errors, meta=_quantile_shape)
def quantile(input: Any, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear") -> Any:
    """Quantiles of the elements, of all or along one dimension; nan if there is a nan.

    Args:
        input: float32 or float64 tensor.
        q: number or 0-d or 1-D tensor of levels in [0, 1], of input's dtype.
        interpolation: between the two nearest elements: "linear", "lower", "higher", "midpoint" or "nearest".

    Returns:
        As for a reduction; with q 1-D, its dimension comes first.

    >>> flambeau.quantile(flambeau.tensor([1., 2., 3.]), 0.25).item()
    1.5
    """
    return _quantile("quantile", input, q, dim, keepdim, interpolation, False)


@public(meta=_quantile_shape, samples=_quantile_samples, errors=_quantile_errors)
def nanquantile(input: Any, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear") -> Any:
    """Quantiles of what is not nan; see `quantile`.

    >>> flambeau.nanquantile(flambeau.tensor([1., float("nan"), 3.]), 0.5).item()
    2.0
    """
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation, True)
