"""The LKJ distribution of Cholesky factors of correlation matrices."""

from __future__ import annotations

import math
from typing import Any

import flambeau

from . import constraints
from .beta import Beta
from .distribution import Distribution
from .utils import broadcast_all

__all__ = ["LKJCholesky"]


class LKJCholesky(Distribution):
    """Lower Cholesky factors L of random correlation matrices M = L L^T of density proportional to det(M)**(eta - 1).

    Density of L: proportional to prod_k L_kk**(dim - k + 2 (eta - 1)), k = 2, ..., dim.

    Args:
        dim: rows of the matrix, at least 2.
        concentration: eta, a positive number or floating tensor, whose shape is the batch's. 1 makes M uniform; larger
            values favour the identity.

    Rows are drawn one by one: a direction on the sphere, and the squared length below the diagonal from a beta (the
    onion method).

    Raises:
        ValueError: dim is below 2.

    Source: Lewandowski, Kurowicka and Joe, 2009, J. Multivariate Analysis 100(9), section 3.2.

    >>> factor = flambeau.distributions.LKJCholesky(3, 1.0).sample()
    >>> (factor @ factor.mT).diagonal().round(decimals=4)
    tensor([1., 1., 1.])
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        eta = self.concentration
        marginal = eta + 0.5 * (dim - 2)
        below = flambeau.arange(dim - 1, dtype=eta.dtype, device=eta.device)     # entries left of the diagonal, less 1
        below = flambeau.cat([below.new_zeros(1), below])
        self._beta = Beta(below + 0.5, marginal.unsqueeze(-1) - 0.5 * below)
        super().__init__(eta.size(), flambeau.Size((dim, dim)), validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._expanded(LKJCholesky, batch_shape, _instance, concentration=0)
        new.dim = self.dim
        new._beta = self._beta.expand((*batch_shape, self.dim))
        return new

    def sample(self, sample_shape: Any = ()) -> Any:
        with flambeau.no_grad():
            squared_length = self._beta.sample(sample_shape).unsqueeze(-1)
            normal = flambeau.randn(self._extended_shape(sample_shape), dtype=squared_length.dtype,
                                    device=squared_length.device).tril(-1)
            direction = normal / normal.norm(dim=-1, keepdim=True)
            direction[..., 0, :] = 0.0       # the first row has nothing left of the diagonal
            factor = squared_length.sqrt() * direction
            rest = (1 - factor.square().sum(-1)).clamp(min=flambeau.finfo(factor.dtype).tiny)
            return factor + rest.sqrt().diag_embed()

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        dim, eta = self.dim, self.concentration
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        row = flambeau.arange(2, dim + 1, device=eta.device)
        power = 2 * (eta - 1).unsqueeze(-1) + dim - row
        # The normaliser: page 1999 of the source.
        alpha = eta + 0.5 * (dim - 1)
        normalizer = (0.5 * (dim - 1) * math.log(math.pi) + flambeau.mvlgamma(alpha - 0.5, dim - 1)
                      - alpha.lgamma() * (dim - 1))
        return (power * diagonal.log()).sum(-1) - normalizer
