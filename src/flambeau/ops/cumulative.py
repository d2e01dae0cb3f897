"""Running sums, products, extrema and log-sum-exps along one dimension.

The gradients of cumprod and logcumsumexp are linear recurrences: no division, so zeros in the input do no harm
and derivatives of any order are right.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from flambeau.core.apply import apply1
from flambeau.core.dtype import DType
from flambeau.core.objects import dtype_of
from flambeau.kernels import cumulative as k
from flambeau.kernels.services import is_float

from . import rearranging, shape, views  # noqa: F401  they register flip, reshape and narrow
from ._along import pair
from ._args import dim as one_dim
from ._args import ndim, np_dtype, tensor
from ._meta import Meta, preserved
from ._pointwise import fused
from ._record import KERNEL, call, kernels, ops, primitive, public
from ._return_types import return_types
from ._shapes import accumulated, always, elementwise, fresh, like, several

SHIFT = primitive("shift", k.shift, params=("dim", "by", "fill"), meta=like(), expr=KERNEL, node="ConstantPadNdBackward0",
                  self=lambda xp, g, dim, by: xp.shift(g, dim, -by, 0))


def _scan_other(xp: Any, g: Any, self: Any, other: Any, out: Any, dim: int, reverse: bool) -> Any:
    adjoint = xp.scan(g, xp.conj(other), dim, not reverse)
    if reverse:
        return xp.shift(adjoint, dim, 1, 0) * xp.conj(out)
    return adjoint * xp.conj(xp.shift(out, dim, 1, 0))


# out[k] = self[k] + other[k] * out[k - 1], or in reverse out[k] = self[k] + other[k + 1] * out[k + 1]: each is the
# adjoint of the other.
SCAN = primitive("scan", k.scan, inputs=("self", "other"), params=("dim", "reverse"), meta=elementwise(2),
                 expr=KERNEL, node="ScanBackward0",
                 self=lambda xp, g, other, dim, reverse: xp.scan(g, xp.conj(other), dim, not reverse),
                 other=_scan_other)

def _running(self: Meta, dim: int, dtype: Any) -> Meta:
    return Meta(self.shape, accumulated(self.dtype) if dtype is None else dtype, preserved(self))


# --------------------------------------------------------------------------------- sums and products

CUMSUM = primitive("cumsum", k.cumsum, params=("dim", "dtype"), check_float=True, meta=_running, expr=KERNEL,
                   self=lambda xp, g, dim: xp.cumsum_backward(g, dim))
primitive("cumsum_backward", k.cumsum_backward, params=("dim",), meta=like(), expr=KERNEL, node="CumsumBackward0",
          self=lambda xp, g, dim: xp.cumsum(g, dim, None))


def _cumprod_exact(xp: Any, g: Any, a: Any, out: Any, dim: int) -> Any:
    # d out[i] / d a[k], i >= k, is (product before k) * (product from k + 1 to i): the first factor is out shifted,
    # the second, weighted by g and summed over i, a recurrence from the end
    return xp.conj(xp.shift(out, dim, 1, 1)) * xp.scan(g, xp.conj(a), dim, True)


def _cumprod_backward(g: np.ndarray, a: np.ndarray, out: np.ndarray, dim: int) -> np.ndarray:
    if a.all():
        return k.cumsum_backward(g * kernels.conj(out), dim) / kernels.conj(a)
    return _cumprod_exact(kernels, g, a, out, dim)


fused("cumprod_backward", _cumprod_backward, _cumprod_exact)


def _cumprod_formula(xp: Any, g: Any, self: Any, out: Any, dim: int, dtype: Any) -> Any:
    if len(self.shape) == 0:
        return g
    return xp.cumprod_backward(g, self if dtype is None else xp.cast(self, dtype), out, dim)


CUMPROD = primitive("cumprod", k.cumprod, params=("dim", "dtype"), check_float=True, meta=_running,
expr=KERNEL, self=_cumprod_formula)
ops.cumprod = lambda t, dim, dtype=None: apply1(CUMPROD, t, (dim, dtype))


def _running_samples(t: Any) -> list:
    kw = {"low": 0.5, "high": 2.0}
    return [call(t(3, 4, **kw), 1), call(t(3, 4, **kw), dim=-2), call(t(**kw), 0), call(t(0, 2, grad=False), 0),
            call(t(4, 3, transposed=True, **kw), 0), call(t(3, dtype="int64"), 0)]


def _dim_error(t: Any) -> list:
    return [(call(t(3), 4), IndexError, "out of range")]


@public(op=CUMSUM, inplace=True, samples=_running_samples, errors=_dim_error)
def cumsum(input: Any, dim: int, *, dtype: DType | None = None) -> Any:
    """Running sums along dim: element k is the sum of elements 0 to k.

    Args:
        dtype: of the result and of the addition; by default input's, int64 for integers and bool.

    >>> flambeau.cumsum(flambeau.tensor([1., 2., 3.]), 0).tolist()
    [1.0, 3.0, 6.0]
    """
    return apply1(CUMSUM, tensor(input, "cumsum"), (one_dim(dim, ndim(input)), np_dtype(dtype)))


@public(op=CUMPROD, inplace=True, samples=_running_samples, errors=_dim_error)
def cumprod(input: Any, dim: int, *, dtype: DType | None = None) -> Any:
    """Running products along dim; the gradient is right where elements are zero.

    Args:
        dtype: of the result and of the multiplication; by default input's, int64 for integers and bool.

    >>> flambeau.cumprod(flambeau.tensor([1., 2., 3.]), 0).tolist()
    [1.0, 2.0, 6.0]
    """
    return apply1(CUMPROD, tensor(input, "cumprod"), (one_dim(dim, ndim(input)), np_dtype(dtype)))


# --------------------------------------------------------------------------------- log-sum-exp


def _logcumsumexp_formula(xp: Any, g: Any, self: Any, out: Any, dim: int) -> Any:
    if len(self.shape) == 0:
        return g
    # the weight of element k in out[i], exp(self[k] - out[i]), as a product of ratios of neighbours that are <= 1
    ratios = xp.exp(xp.shift(out, dim, 1, 0) - out)
    if not xp.is_complex(out):
        ratios = xp.drop(ratios, xp.abs(out) == math.inf)       # of equal infinities
    return xp.conj(xp.exp(self - out)) * xp.scan(g, xp.conj(ratios), dim, True)


LOGCUMSUMEXP = primitive("logcumsumexp", k.logcumsumexp, params=("dim",), meta=fresh(),
expr=KERNEL, self=_logcumsumexp_formula)


@public(op=LOGCUMSUMEXP, samples=lambda t: [call(t(3, 4), 1), call(t(3, 4), dim=-2), call(t(), 0),
                                        call(t(0, 2, grad=False), 0)],
        errors=_dim_error)
def logcumsumexp(input: Any, dim: int) -> Any:
    """log of the running sums of exp(input) along dim, without overflow.

    Args:
        input: floating or complex tensor.

    >>> round(flambeau.logcumsumexp(flambeau.tensor([0., 0.]), 0)[1].item(), 4)
    0.6931
    """
    if not is_float(dtype_of(tensor(input, "logcumsumexp"))):
        raise NotImplementedError(f'"logcumsumexp_out_cpu" not implemented for {dtype_of(input).name}: use .float()')
    return apply1(LOGCUMSUMEXP, input, (one_dim(dim, ndim(input)),))


# --------------------------------------------------------------------------------- extrema


def _extreme(name: str, kernel: Any) -> Any:
    return primitive(name, kernel, params=("dim",), outputs=(True, False), meta=several(like(), like(always("i8"))),
                     expr=KERNEL,
                     self=lambda xp, g, out1, self_shape, dim: xp.place_sum(g, out1, self_shape, dim))


CUMMAX, CUMMIN = _extreme("cummax", k.cummax), _extreme("cummin", k.cummin)


def _extreme_samples(t: Any) -> list:
    return [call(t(3, 4), 1), call(t(3, 4), dim=-2), call(t(), 0), call(t(0, 2, grad=False), 0),
            call(t(3, dtype="int64"), 0)]


@public(op=CUMMAX, samples=_extreme_samples, errors=_dim_error)
def cummax(input: Any, dim: int) -> Any:
    """Running maxima along dim, and the latest position of each; nan stays once met.

    Returns:
        (values, indices), both of input's shape; indices int64.

    >>> flambeau.cummax(flambeau.tensor([1., 3., 2.]), 0).values.tolist()
    [1.0, 3.0, 3.0]
    """
    return pair(return_types.cummax, CUMMAX, tensor(input, "cummax"), (one_dim(dim, ndim(input)),))


@public(op=CUMMIN, samples=_extreme_samples, errors=_dim_error)
def cummin(input: Any, dim: int) -> Any:
    """Running minima along dim, and the latest position of each; nan stays once met.

    Returns:
        (values, indices), both of input's shape; indices int64.

    >>> flambeau.cummin(flambeau.tensor([2., 1., 3.]), 0).values.tolist()
    [2.0, 1.0, 1.0]
    """
    return pair(return_types.cummin, CUMMIN, tensor(input, "cummin"), (one_dim(dim, ndim(input)),))
