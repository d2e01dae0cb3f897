"""The Wishart distribution."""

from __future__ import annotations

import math
from typing import Any

import flambeau
from flambeau.core.origin import warn_user
from flambeau.core.size import Size

from . import constraints
from ._covariance import Covariance, one_matrix, to_scale_tril
from ._linear_algebra import half_log_det
from .chi2 import Chi2
from .exp_family import ExponentialFamily

__all__ = ["Wishart"]

_TRIES = 10


def _multi_digamma(x: Any, p: int) -> Any:
    """Derivative of mvlgamma(x, p)."""
    return (x.unsqueeze(-1) - flambeau.arange(p, dtype=x.dtype, device=x.device) / 2).digamma().sum(-1)


class Wishart(Covariance, ExponentialFamily):
    """The Wishart distribution of positive definite matrices: the sum of x x^T over `df` normal vectors x ~ N(0, V).

    Density p(X) = |X|**((n - p - 1)/2) * exp(-tr(V^-1 X) / 2) / (2**(n p/2) |V|**(n/2) Gamma_p(n/2)), X positive definite
    (p, p), n = df.

    Args:
        df: degrees of freedom, greater than p - 1; a number or a tensor that broadcasts with the batch of matrices.
        covariance_matrix: V, positive definite, floating (*, p, p).
        precision_matrix: V^-1, in its place.
        scale_tril: the lower Cholesky factor of V, in its place; the cheapest.

    Draws are made by Bartlett's decomposition and are differentiable in all parameters. As in PyTorch, whose numbers
    they are, each is made twice, and the second is returned; a warning comes where a result is singular.

    Raises:
        AssertionError: not exactly one of the matrices is given.
        ValueError: a matrix of fewer than two dimensions; df out of range.

    Source: Smith and Hocking, 1972, Applied Statistics 21(3), algorithm AS 53: drawing.

    >>> d = flambeau.distributions.Wishart(4.0, flambeau.eye(2))
    >>> d.mean
    tensor([[4., 0.],
            [0., 4.]])
    """

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, df: Any, covariance_matrix: Any = None, precision_matrix: Any = None, scale_tril: Any = None,
                 validate_args: bool | None = None) -> None:
        name, matrix = one_matrix(AssertionError, covariance_matrix=covariance_matrix,
                                  precision_matrix=precision_matrix, scale_tril=scale_tril)
        if isinstance(df, flambeau.Tensor):
            batch_shape = flambeau.broadcast_shapes(matrix.shape[:-2], df.shape)
            self.df = df.expand(batch_shape)
        else:
            batch_shape = Size(matrix.shape[:-2])
            self.df = flambeau.tensor(df, dtype=matrix.dtype, device=matrix.device)
        event_shape = matrix.shape[-2:]
        p = event_shape[-1]
        if (self.df <= p - 1).any():
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {p - 1}.")
        if (self.df < p).any():
            warn_user("Low df values detected. Singular samples are highly likely to occur for ndim - 1 < df < ndim: "
                      f"df={df}, ndim={p}.")
        setattr(self, name, matrix.expand(batch_shape + (-1, -1)))
        super().__init__(batch_shape, event_shape, validate_args=validate_args)
        self._unbroadcasted_scale_tril = to_scale_tril(name, matrix)
        below = flambeau.arange(p, dtype=self.df.dtype, device=self.df.device)
        self._dist_chi2 = Chi2((self.df.unsqueeze(-1) - below).expand(batch_shape + (p,)))

    @property
    def arg_constraints(self) -> dict:
        return {"covariance_matrix": constraints.positive_definite, "precision_matrix": constraints.positive_definite,
                "scale_tril": constraints.lower_cholesky, "df": constraints.greater_than(self._event_shape[-1] - 1)}

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._expanded(Wishart, batch_shape, _instance, df=0, covariance_matrix=2, precision_matrix=2, scale_tril=2,
                             _unbroadcasted_scale_tril=2)
        new._dist_chi2 = self._dist_chi2.expand((*batch_shape, self._event_shape[-1]))
        return new

    @property
    def _df_of_matrices(self) -> Any:
        return self.df.view(*self._batch_shape, 1, 1)

    @property
    def mean(self) -> Any:
        return self._df_of_matrices * self.covariance_matrix

    @property
    def mode(self) -> Any:
        """(df - p - 1) V; nan for df <= p + 1."""
        factor = self._df_of_matrices - self._event_shape[-1] - 1
        return flambeau.where(factor > 0, factor, math.nan) * self.covariance_matrix

    @property
    def variance(self) -> Any:
        v = self.covariance_matrix
        diagonal = v.diagonal(dim1=-2, dim2=-1)
        return self._df_of_matrices * (v.pow(2) + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2))

    def _bartlett(self, sample_shape: Any) -> Any:
        """L A A^T L^T: the rows of A have chi variables on the diagonal and standard normals below."""
        p = self._event_shape[-1]
        noise = self._dist_chi2.rsample(sample_shape).sqrt().diag_embed()
        row, column = flambeau.tril_indices(p, p, offset=-1)
        noise[..., row, column] = flambeau.randn((*sample_shape, *self._batch_shape, p * (p - 1) // 2),
                                                 dtype=noise.dtype, device=noise.device)
        factor = self._unbroadcasted_scale_tril @ noise
        return factor @ factor.mT

    def _in_batch(self, flags: Any) -> Any:
        """Whether any member of the batch has its flag set, for each draw of the batch."""
        n = len(self._batch_shape)
        return flags.flatten(flags.ndim - n).any(-1) if n else flags

    def rsample(self, sample_shape: Any = ()) -> Any:
        sample_shape = Size(sample_shape)
        sample = self._bartlett(sample_shape)
        again = self._in_batch(self.support.check(sample))      # all, but for singular matrices
        for _ in range(_TRIES):
            if not again.any():
                break
            drawn = self._bartlett(Size([int(again.sum())]))
            sample[again] = drawn
            index = again.clone()
            again[index] = self._in_batch(~self.support.check(drawn))
        if not self.support.check(sample).all():
            warn_user("Singular sample detected: a draw is not positive definite within rounding. Raise df, or draw in "
                      "float64.")
        return sample

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        n, p = self.df, self._event_shape[-1]
        return (-n * self._half_log_det_2v() - flambeau.mvlgamma(n / 2, p)
                + (n - p - 1) / 2 * flambeau.linalg.slogdet(value).logabsdet
                - flambeau.cholesky_solve(value, self._unbroadcasted_scale_tril).diagonal(dim1=-2, dim2=-1).sum(-1) / 2)

    def _half_log_det_2v(self) -> Any:
        """log |2 V| / 2."""
        return self._event_shape[-1] * math.log(2) / 2 + half_log_det(self._unbroadcasted_scale_tril)

    def entropy(self) -> Any:
        n, p = self.df, self._event_shape[-1]
        return ((p + 1) * self._half_log_det_2v() + flambeau.mvlgamma(n / 2, p)
                - (n - p - 1) / 2 * _multi_digamma(n / 2, p) + n * p / 2)

    @property
    def _natural_params(self) -> tuple:
        n, p = self.df, self._event_shape[-1]
        return -self.precision_matrix / 2, (n - p - 1) / 2

    def _log_normalizer(self, *natural_params: Any) -> Any:
        x, y = natural_params
        p = self._event_shape[-1]
        half = y + (p + 1) / 2
        return half * (-flambeau.linalg.slogdet(-2 * x).logabsdet + math.log(2) * p) + flambeau.mvlgamma(half, p)
