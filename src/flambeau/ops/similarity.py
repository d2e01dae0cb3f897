"""Similarities and distances of pairs of vectors: cosine_similarity, pairwise_distance, pdist."""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.apply import apply1
from flambeau.core.objects import dtype_of, make, shape_of
from flambeau.kernels import cdist as kernel
from flambeau.kernels.services import is_float

from ._args import number, tensor
from ._meta import Meta
from ._pointwise import no_derivative
from ._record import KERNEL, call, primitive, public
from ._shapes import fresh
from .distance import slopes
from .views import broadcast_tensors

_BOTH = ("torch", "nn.functional")


def _pairs(values: np.ndarray, n: int) -> np.ndarray:
    """Values of all pairs as a symmetric matrix (n, n) with a zero diagonal."""
    matrix = np.zeros((n, n), values.dtype)
    first, second = np.triu_indices(n, 1)
    matrix[first, second] = values
    matrix[second, first] = values
    return matrix


def _pdist(a: np.ndarray, p: float) -> np.ndarray:
    return kernel.pdist(a, p)


def _pdist_backward(g: np.ndarray, a: np.ndarray, out: np.ndarray, p: float) -> np.ndarray:
    return kernel.cdist_backward(_pairs(g, len(a)), a, a, p, _pairs(out, len(a)))


def _tangent(xp: Any, tangents: list, inputs: list, outs: list, params: tuple) -> Any:
    first, second = (make(at) for at in np.triu_indices(shape_of(inputs[0])[0], 1))

    def pairs(a: Any) -> Any:
        return xp.index_select(a, first, 0) - xp.index_select(a, second, 0)

    return xp.sum(slopes(xp, pairs(inputs[0]), outs[0], params[0]) * pairs(tangents[0]), -1, False)


_NO_SECOND = no_derivative("_pdist_backward")
PDIST = primitive("pdist", _pdist, params=("p",),
                  meta=lambda self, p: Meta((self.shape[0] * (self.shape[0] - 1) // 2,), self.dtype), expr=KERNEL,
                  self=lambda xp, g, self, out, p: xp.pdist_backward(g, self, out, p), jvp=_tangent)
primitive("pdist_backward", _pdist_backward, inputs=("grad", "self", "pdist"), params=("p",), meta=fresh(input=1),
          expr=KERNEL,
          grad=_NO_SECOND, self=_NO_SECOND, pdist=_NO_SECOND)


@public(namespaces=_BOTH, method=False, out=False, samples=lambda t: [
    call(t(3, 4), t(3, 4)), call(t(3, 4), t(4), -1), call(t(4), t(4), 0), call(t(2, 3, 4), t(1, 3, 4), 1)],
    errors=lambda t: [
    (call(t(3, dtype="int64"), t(3, dtype="int64"), 0), RuntimeError, "to be floating point"),
    (call(t(3, 4), t(3, 5)), RuntimeError, "must match the size")])
def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    """The cosine of the angle between vectors: their inner product divided by their norms.

    Args:
        x1, x2: floating tensors that broadcast to one shape.
        dim: along which the vectors lie.
        eps: the least norm that is divided by.

    >>> x = flambeau.tensor([3., 4.])
    >>> round(flambeau.nn.functional.cosine_similarity(x, x, dim=0).item(), 4)
    1.0
    """
    a: Any = tensor(x1, "cosine_similarity", "x1")
    b: Any = tensor(x2, "cosine_similarity", "x2", 2)
    if not is_float(dtype_of(a)) and not is_float(dtype_of(b)):
        raise RuntimeError("cosine_similarity: expected common dtype to be floating point, and it is "
                           f"{dtype_of(a).name}. Use .float().")
    if shape_of(a) != shape_of(b):
        a, b = broadcast_tensors(a, b)
    return (a / a.norm(2, dim, keepdim=True).clamp_min(eps) * (b / b.norm(2, dim, keepdim=True).clamp_min(eps))).sum(dim)


@public(namespaces=_BOTH, method=False, out=False, samples=lambda t: [
    call(t(3, 4), t(3, 4)), call(t(3, 4), t(4), 1.0), call(t(4), t(4), keepdim=True)])
def pairwise_distance(x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Any:
    """The p-norm of x1 - x2 + eps along the last dimension.

    Args:
        x1, x2: vectors (N, D) or (D,), which broadcast.
        eps: keeps the derivative finite where the vectors are equal.

    >>> flambeau.nn.functional.pairwise_distance(flambeau.tensor([3.]), flambeau.tensor([1.]), eps=0.0).item()
    2.0
    """
    a: Any = tensor(x1, "pairwise_distance", "x1")
    tensor(x2, "pairwise_distance", "x2", 2)
    return (a - x2 + eps).norm(p, -1, keepdim=keepdim)


@public(namespaces=_BOTH, method=False, out=False, samples=lambda t: [call(t(4, 3)), call(t(4, 3), 1.0), call(t(4, 3), 3.0)],
        errors=lambda t: [(call(t(3)), RuntimeError, "only supports 2D tensors"),
                          (call(t(3, 2), -1.0), RuntimeError, "non-negative p values")])
def pdist(input: Any, p: float = 2.0) -> Any:
    """The p-norm distances of all pairs of rows.

    Args:
        input: (N, D).

    Returns:
        Tensor (N (N - 1) / 2,): pairs (0, 1), (0, 2), ..., (N - 2, N - 1).

    >>> flambeau.nn.functional.pdist(flambeau.tensor([[0.], [1.], [3.]])).tolist()
    [1.0, 3.0, 2.0]
    """
    a: Any = tensor(input, "pdist")
    if len(shape_of(a)) != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {len(shape_of(a))}D")
    if dtype_of(a).kind == "c" or not is_float(dtype_of(a)):
        raise RuntimeError(f"pdist only supports floating-point dtypes, got {dtype_of(a).name}")
    if p < 0:
        raise RuntimeError(f"pdist only supports non-negative p values, got {p}")
    return apply1(PDIST, a, (number(p, "pdist", "p"),))
