"""Transforms of vectors and matrices: onto simplices, triangular factors and correlation matrices."""

from __future__ import annotations

import math
from typing import Any

import flambeau
from flambeau.nn.functional import logsigmoid, pad, softplus

from . import constraints
from ._transform_base import Transform, at_least
from ._transform_scalars import LOG_2, _Parameterless, clipped_sigmoid
from .utils import tril_matrix_to_vec, vec_to_tril_matrix


def _remaining(y: Any) -> Any:
    """1 minus the sum of the entries up to each, along the last dimension."""
    return 1 - y.cumsum(-1)


class SoftmaxTransform(_Parameterless):
    """y = softmax(x) along the last dimension; not bijective: x + c has the same image for every c.

    >>> SoftmaxTransform()(flambeau.zeros(2))
    tensor([0.5000, 0.5000])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x: Any) -> Any:
        weights = (x - x.max(-1, True)[0]).exp()
        return weights / weights.sum(-1, True)

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def forward_shape(self, shape: Any) -> Any:
        at_least(shape, 1)
        return shape

    inverse_shape = forward_shape


class StickBreakingTransform(_Parameterless):
    """From K - 1 reals to a simplex of K: each breaks its share, a sigmoid, off what is left of a stick of length 1.

    Offsets are such that x = 0 gives equal parts. Coordinates are not treated alike: where that matters and a
    bijection does not, take `SoftmaxTransform`.

    Source: Stan Reference Manual, "Unit simplex inverse transform".

    >>> StickBreakingTransform()(flambeau.zeros(3))
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    @staticmethod
    def _log_offset(x: Any) -> Any:
        """log of the number of parts still to come after each break: K - 1, ..., 1."""
        n = x.shape[-1]
        return flambeau.arange(n, 0, -1, dtype=x.dtype, device=x.device).log()

    def _call(self, x: Any) -> Any:
        share = clipped_sigmoid(x - self._log_offset(x))
        left = (1 - share).cumprod(-1)
        return pad(share, [0, 1], value=1) * pad(left, [1, 0], value=1)

    def _inverse(self, y: Any) -> Any:
        broken = y[..., :-1]
        left = _remaining(broken).clamp(min=flambeau.finfo(y.dtype).tiny)
        return broken.log() - left.log() + self._log_offset(broken)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        x = x - self._log_offset(x)
        return (-x + logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        at_least(shape, 1)
        return shape[:-1] + (shape[-1] + 1,)

    def inverse_shape(self, shape: Any) -> Any:
        at_least(shape, 1)
        return shape[:-1] + (shape[-1] - 1,)


class LowerCholeskyTransform(_Parameterless):
    """From square matrices to triangular ones of positive diagonal: the part above is dropped, the diagonal exp'ed.

    >>> LowerCholeskyTransform()(flambeau.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Any) -> Any:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Any) -> Any:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(_Parameterless):
    """From square matrices to positive definite ones: L L^T, L the image under `LowerCholeskyTransform`.

    >>> PositiveDefiniteTransform()(flambeau.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Any) -> Any:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Any) -> Any:
        return LowerCholeskyTransform().inv(flambeau.linalg.cholesky(y))


class CorrCholeskyTransform(Transform):
    """From D (D - 1) / 2 reals to the Cholesky factor, D x D, of a correlation matrix.

    The reals, through tanh, are partial correlations z, row by row below the diagonal. Entry (i, j) of the factor is
    z_ij times the length that the entries before it leave of a row of length 1.

    Source: Lewandowski, Kurowicka and Joe, Journal of Multivariate Analysis 100, 2009; Stan Reference Manual,
    "Cholesky factors of correlation matrices".

    >>> CorrCholeskyTransform()(flambeau.zeros(1))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Any) -> Any:
        eps = flambeau.finfo(x.dtype).eps
        partial = vec_to_tril_matrix(x.tanh().clamp(min=-1 + eps, max=1 - eps), diag=-1)
        left = (1 - partial.square()).sqrt().cumprod(-1)
        diagonal = flambeau.eye(partial.shape[-1], dtype=x.dtype, device=x.device)
        return (partial + diagonal) * pad(left[..., :-1], [1, 0], value=1)

    def _inverse(self, y: Any) -> Any:
        left = pad(_remaining(y * y)[..., :-1], [1, 0], value=1)
        partial = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(left, diag=-1).sqrt()
        return (partial.log1p() - (-partial).log1p()) / 2

    def log_abs_det_jacobian(self, x: Any, y: Any, intermediates: Any = None) -> Any:
        # dy_ij/dz_ij is the length left before (i, j); it depends on the entries before, so the Jacobian is triangular.
        # The first entry of a row has length 1 left: what counts lies below the first subdiagonal, one to the left.
        left = tril_matrix_to_vec(_remaining(y * y), diag=-2)
        of_rows = 0.5 * left.log().sum(-1)
        of_tanh = -2 * (x + softplus(-2 * x) - LOG_2).sum(-1)
        return of_rows + of_tanh

    def forward_shape(self, shape: Any) -> Any:
        at_least(shape, 1)
        n = shape[-1]
        d = round(0.5 + math.sqrt(0.25 + 2 * n))
        if d * (d - 1) // 2 != n:
            raise ValueError(f"Input is not a flattened lower-diagonal number: {n} is no D (D - 1) / 2.")
        return shape[:-1] + (d, d)

    def inverse_shape(self, shape: Any) -> Any:
        at_least(shape, 2)
        if shape[-2] != shape[-1]:
            raise ValueError(f"Input is not square: its shape is {tuple(shape)}.")
        return shape[:-2] + (shape[-1] * (shape[-1] - 1) // 2,)
