"""Ready parametrizations: orthogonal, weight norm, spectral norm."""

from __future__ import annotations

from typing import Any

import numpy as np

import flambeau
from flambeau.nn import functional as F
from flambeau.nn.modules.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from flambeau.nn.modules.module import Module

from . import parametrize
from .weight_norm import norm_except_dim

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]

_MAPS = ("matrix_exp", "cayley", "householder")


def _is_orthogonal(q: Any) -> bool:
    n, k = q.shape[-2:]
    eye = flambeau.eye(k, dtype=q.dtype, device=q.device)
    eps = 10.0 * n * flambeau.finfo(q.dtype).eps
    return bool(flambeau.allclose(q.mH @ q, eye.expand(*q.shape[:-2], k, k), atol=eps))


def _make_orthogonal(a: Any) -> Any:
    """The orthogonal factor of a, with the signs that make the triangular one's diagonal positive."""
    q, r = flambeau.linalg.qr(a)
    return q * r.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


def _reflections(below: Any, tau: Any) -> Any:
    """The first columns of the product of I - tau_j v_j v_j^T; v_j is column j of below, and 1 at place j."""
    n, k = below.shape[-2:]
    q = flambeau.eye(n, k, dtype=below.dtype, device=below.device).expand(below.shape)
    v = below + flambeau.eye(n, k, dtype=below.dtype, device=below.device)
    for j in reversed(range(k)):
        column = v[..., j:j + 1]
        q = q - tau[..., j, None, None] * column * (column.mT @ q)
    return q


def _packed_reflections(q: Any, transposed: bool) -> Any:
    """The matrix that the householder map takes to q: reflections below the diagonal, signs on it."""
    raw, tau = np.linalg.qr(q.detach().numpy(), mode="raw")
    a = np.swapaxes(raw, -2, -1).copy()
    i = np.arange(tau.shape[-1])
    a[..., i, i] = np.sign(a[..., i, i]) * np.where(tau == 0, -1, 1)
    return flambeau.from_numpy(np.swapaxes(a, -2, -1) if transposed else a)


class _Orthogonal(Module):
    base: Any

    def __init__(self, weight: Any, orthogonal_map: str, *, use_trivialization: bool = True) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise ValueError("householder works on real tensors, not complex ones.")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Any) -> Any:
        transposed = X.size(-2) < X.size(-1)
        if transposed:
            X = X.mT
        n, k = X.size(-2), X.size(-1)
        if self.orthogonal_map == "householder":
            below = X.tril(diagonal=-1)
            tau = 2.0 / (1.0 + (below * below).sum(dim=-2))
            q = _reflections(below, tau)
            q = q * X.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)
        else:
            X = X.tril()
            if n != k:
                X = flambeau.cat([X, X.new_zeros(*X.shape[:-1], n - k)], dim=-1)
            skew = X - X.mH
            if self.orthogonal_map == "matrix_exp":
                q = flambeau.matrix_exp(skew)
            else:
                eye = flambeau.eye(n, dtype=X.dtype, device=X.device)
                q = flambeau.linalg.solve(eye - 0.5 * skew, eye + 0.5 * skew)
            if n != k:
                q = q[..., :k]
        if getattr(self, "base", None) is not None:
            q = self.base @ q
        return q.mT if transposed else q

    def right_inverse(self, Q: Any) -> Any:
        if Q.shape != self.shape:
            raise ValueError(f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape "
                             f"{Q.shape}.")
        given, transposed = Q, Q.size(-2) < Q.size(-1)
        if transposed:
            Q = Q.mT
        n, k = Q.size(-2), Q.size(-1)
        if not hasattr(self, "base"):
            if self.orthogonal_map != "householder":
                raise NotImplementedError("An orthogonal weight made by the matrix exponential or the Cayley map "
                                          "can only be assigned to with use_trivialization=True.")
            return _packed_reflections(Q, transposed)
        if n == k:
            Q = Q.clone() if _is_orthogonal(Q) else _make_orthogonal(Q)
        else:
            more = flambeau.randn(*(Q.size()[:-2] + (n, n - k)), dtype=Q.dtype, device=Q.device)
            Q = _make_orthogonal(flambeau.cat([Q, more], dim=-1))
        self.base = Q
        # minus the identity is mapped to the identity by all three maps
        neg = flambeau.zeros_like(given)
        neg.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
        return neg


def orthogonal(module: Module, name: str = "weight", orthogonal_map: str | None = None, *,
               use_trivialization: bool = True) -> Module:
    """Keep a matrix orthogonal: its rows or columns, whichever are fewer, of length one and at right angles.

    Args:
        module: whose matrix it is. name: of the matrix, or batch of matrices.
        orthogonal_map: "matrix_exp" or "cayley", of a skew-symmetric matrix, or "householder", a product of
            reflections; by default the first for square and complex matrices, else the last.
        use_trivialization: the map is centred at the present value.

    Raises:
        ValueError: another word, or a tensor that is no matrix.

    Source: Lezcano-Casado, arXiv:1909.09501 (trivializations).
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, flambeau.Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    if orthogonal_map is None:
        orthogonal_map = "matrix_exp" if weight.size(-2) == weight.size(-1) or weight.is_complex() else "householder"
    if orthogonal_map not in _MAPS:
        raise ValueError('orthogonal_map is "matrix_exp", "cayley" or "householder". Got: '
                         f"{orthogonal_map}")
    made = _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization)
    return parametrize.register_parametrization(module, name, made, unsafe=True)


class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Any, weight_v: Any) -> Any:
        return weight_v * (weight_g / norm_except_dim(weight_v, self.dim))

    def right_inverse(self, weight: Any) -> tuple:
        return norm_except_dim(weight, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """A tensor as a magnitude (original0) times a direction (original1), each trained for itself.

    Args:
        dim: one magnitude for each index of this dimension; None: one for the whole tensor.

    Source: Salimans and Kingma, 2016, arXiv:1602.07868.

    >>> layer = weight_norm(flambeau.nn.Linear(3, 2))
    >>> layer.parametrizations.weight.original0.shape
    torch.Size([2, 1])
    """
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def from_old_names(state_dict: Any, prefix: str, *rest: Any) -> None:
        old = [f"{prefix}{name}_g", f"{prefix}{name}_v"]
        if all(key in state_dict for key in old):
            for i, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{name}.original{i}"] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(from_old_names)
    return module


class _SpectralNorm(Module):
    _u: Any
    _v: Any

    def __init__(self, weight: Any, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        ndim = weight.ndim
        if dim >= ndim or dim < -ndim:
            raise IndexError(f"Dimension out of range (expected to be in range of [-{ndim}, {ndim - 1}] but got {dim})")
        if n_power_iterations <= 0:
            raise ValueError(f"n_power_iterations must be positive, not {n_power_iterations}")
        self.dim = dim if dim >= 0 else dim + ndim
        self.eps = eps
        if ndim > 1:
            self.n_power_iterations = n_power_iterations
            matrix = self._matrix(weight.detach())
            h, w = matrix.size()
            u = matrix.new_empty(h).normal_(0, 1)
            v = matrix.new_empty(w).normal_(0, 1)
            self.register_buffer("_u", F.normalize(u, dim=0, eps=eps))
            self.register_buffer("_v", F.normalize(v, dim=0, eps=eps))
            self._power_method(matrix, 15)

    def _matrix(self, weight: Any) -> Any:
        if self.dim != 0:
            weight = weight.permute(self.dim, *(d for d in range(weight.dim()) if d != self.dim))
        return weight.flatten(1)

    def _power_method(self, matrix: Any, n_power_iterations: int) -> None:
        with flambeau.no_grad():
            for _ in range(n_power_iterations):
                self._u.copy_(F.normalize(flambeau.mv(matrix, self._v), dim=0, eps=self.eps))
                self._v.copy_(F.normalize(flambeau.mv(matrix.mH, self._u), dim=0, eps=self.eps))

    def forward(self, weight: Any) -> Any:
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._matrix(weight)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        sigma = flambeau.vdot(self._u.clone(), flambeau.mv(matrix, self._v.clone()))
        return weight / sigma

    def right_inverse(self, value: Any) -> Any:
        return value


def spectral_norm(module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12,
                  dim: int | None = None) -> Module:
    """Divide a tensor, as a matrix, by its largest singular value, estimated by power iteration.

    Args:
        n_power_iterations: steps at each reading in training; none in evaluation.
        eps: smallest norm that vectors are divided by.
        dim: rows of the matrix; 1 for transposed convolutions, else 0, by default.

    Raises:
        ValueError: no such tensor, or no iterations.

    Source: Miyato et al., 2018, arXiv:1802.05957.
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, flambeau.Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if dim is None:
        dim = 1 if isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)) else 0
    parametrize.register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))
    return module
