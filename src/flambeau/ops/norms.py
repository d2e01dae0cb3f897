"""Vector norms over dimensions, the distance of two tensors, and slices scaled down to a greatest norm."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from flambeau.core.apply import apply1
from flambeau.core.dtype import DType
from flambeau.core.objects import TensorBase, dtype_of
from flambeau.kernels import statistics as k
from flambeau.kernels.services import is_float

from . import extrema  # noqa: F401  it registers count_as
from ._args import dim as one_dim
from ._args import ndim, np_dtype, number, tensor
from ._pointwise import fused, to_dtype
from ._record import KERNEL, REGISTRY, call, kernels, ops, primitive, public
from ._shapes import real, reduced
from .arithmetic import sub
from .reduction import along_gradient, as_dim, restore

# --------------------------------------------------------------------------------- the gradient


def _norm_grad(xp: Any, g: Any, a: Any, out: Any, ord: float, dim: Any, keepdim: bool) -> Any:
    """0, a subgradient, where the norm is not differentiable: at 0, and for order 0."""
    shape = a.shape
    g, norm = restore(xp, g, shape, dim, keepdim), restore(xp, out, shape, dim, keepdim)
    if ord == 0:
        return xp.zeros_like(a)
    if ord == 1:
        return xp.sgn(a) * g
    if ord == 2:
        return g * xp.quotient(a, norm)         # in this order, the second derivative at 0 is nan, as it is in PyTorch
    if math.isinf(ord):
        largest = xp.abs(a) == norm                     # equal ones share the gradient
        return xp.sgn(a) * xp.keep(xp.spread(g / xp.count_as(largest, g, dim, True), shape, dim, True), largest)
    if ord < 1:
        slope = xp.drop(xp.abs(a) ** (ord - 1), a == 0)
        return xp.sgn(a) * slope * (g * norm ** (1 - ord))
    if ord < 2:
        return xp.sgn(a) * xp.abs(a) ** (ord - 1) * xp.quotient(g, norm ** (ord - 1))
    return a * xp.abs(a) ** (ord - 2) * xp.quotient(g, norm ** (ord - 1))


def _quotient(g: np.ndarray, norm: np.ndarray) -> np.ndarray:
    t = np.divide(g, norm)
    return np.where(norm == 0, t.dtype.type(0), t)


def _norm_backward(g: np.ndarray, a: np.ndarray, out: np.ndarray, ord: float, dim: Any, keepdim: bool) -> np.ndarray:
    if ord == 2 and out.ndim == 0 and a.dtype.char in "fd":
        scale = np.divide(g, out, np.empty((), a.dtype))
        return np.multiply(a, scale) if out != 0 else np.zeros_like(a)
    return _norm_grad(kernels, g, a, out, ord, dim, keepdim)


# g / norm, 0 where the norm is 0
fused("quotient", _quotient, lambda xp, g, norm: xp.drop(g / norm, norm == 0))
fused("vector_norm_backward", _norm_backward, _norm_grad)


def _vector_norm(a: np.ndarray, ord: float = 2, dim: Any = None, keepdim: bool = False) -> np.ndarray:
    if ord == 2 and dim is None and not keepdim and a.dtype.char in "fd" and a.flags.c_contiguous:
        flat = a.reshape(-1)
        out = np.empty((), a.dtype)
        np.dot(flat, flat, out)
        if 0 < out < math.inf or a.size == 0:       # else perhaps over- or underflow, which a wider sum may avoid
            return np.sqrt(out, out)
    out = k.norm(a, ord, dim, keepdim)
    if ord != 0 and out.size == a.size and a.size and a.dtype.kind == "f":     # one each: no square overflows
        return np.abs(a).reshape(out.shape)
    return out


VECTOR_NORM = primitive("vector_norm", _vector_norm, params=("ord", "dim", "keepdim"), node="LinalgVectorNormBackward0",
                        meta=reduced(real, dim=1, keepdim=2), expr=KERNEL, self=lambda xp, g, self, out, ord, dim, keepdim:
                        xp.vector_norm_backward(g, self, out, ord, dim, keepdim), jvp=along_gradient(_norm_grad, 1))


# --------------------------------------------------------------------------------- norms


def _norm_samples(t: Any) -> list:
    found = [call(t(3, 4), p) for p in (2, 1, 3, 0.5, 1.5, math.inf, -math.inf)]
    return [*found, call(t(3, 4, grad=False), 0), call(t(3, 4), 2, 1), call(t(3, 4), 1, (0, 1), True),
            call(t(2, 3, 4), math.inf, (0, -1)), call(t(), 2)]


def _of_order(input: TensorBase, ord: Any, dim: Any, keepdim: bool, dtype: DType | None) -> Any:
    d = np_dtype(dtype)
    if not is_float(dtype_of(input)):
        raise RuntimeError("linalg.vector_norm: Expected a floating point or complex tensor as input. Got "
                           f"{dtype_of(input).name}: convert with .float()")
    if d is not None:
        if (dtype_of(input).kind == "c") != (d.kind == "c") or not is_float(d):
            raise RuntimeError("linalg.vector_norm: dtype should be floating and as real or complex as the input, got "
                               + d.name)
        input = to_dtype(input, d)
    return apply1(VECTOR_NORM, input, (number(ord, "linalg_vector_norm", "ord"), as_dim(dim), keepdim))


@public(op=VECTOR_NORM, namespaces=("linalg",), method=False, samples=_norm_samples,
        errors=lambda t: [(call(t(3), 2, 4), IndexError, "out of range"),
                          (call(t(3, dtype="int64")), RuntimeError, "Expected a floating point or complex")])
def vector_norm(x: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: DType | None = None) -> Any:
    """Norm of all elements, or along dimensions, taken as a vector.

    Args:
        x: floating or complex tensor of shape (*).
        ord: order: 2; inf and -inf for the greatest and least absolute value; 0 for the number of nonzero elements;
            else sum(|x| ** ord) ** (1 / ord).
        dim: a dimension or several, all by default.
        dtype: x is converted to it first.

    Returns:
        Real tensor. Its gradient at 0 is 0.

    >>> flambeau.linalg.vector_norm(flambeau.tensor([3., 4.])).item()
    5.0
    """
    return _of_order(tensor(x, "linalg_vector_norm", "self"), ord, dim, keepdim, dtype)


@public(samples=lambda t: [call(t(3, 4)), *_norm_samples(t), call(t(3, 4), "fro", (0, 1)),
                           call(t(3, 4), "fro", keepdim=True)],
        errors=lambda t: [(call(t(3), "x"), RuntimeError, "not supported"),
                          (call(t(3), 2, 4), IndexError, "out of range")])
def norm(input: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: DType | None = None) -> Any:
    """Norm of all elements, or along dimensions: `linalg.vector_norm`, and the nuclear norm of matrices.

    Args:
        p: order, see `linalg.vector_norm`; "fro" is 2; "nuc" the sum of a matrix's singular values.

    >>> flambeau.norm(flambeau.tensor([3., 4.])).item()
    5.0
    """
    tensor(input, "norm")
    if p == "fro" or p is None:
        return _of_order(input, 2, dim, keepdim, dtype)
    if p == "nuc":
        matrix_norm = REGISTRY.get("linalg.matrix_norm")
        if matrix_norm is None:
            raise NotImplementedError("norm(p='nuc') needs linalg.matrix_norm, which is not there")
        if dim is None and ndim(input) != 2:
            raise RuntimeError(f"norm(p='nuc'): input must have 2 dimensions, got {ndim(input)}; name two with dim=")
        return matrix_norm.fn(input, "nuc", (0, 1) if dim is None else dim, keepdim, dtype=dtype)
    if isinstance(p, str):
        raise RuntimeError(f"norm(): Order {p} not supported: the words are 'fro' and 'nuc'")
    return _of_order(input, p, dim, keepdim, dtype)


@public(samples=lambda t: [call(t(3, 4), t(3, 4)), call(t(3, 4), t(4), 1), call(t(3), t(3), p=math.inf)])
def dist(input: Any, other: Any, p: Any = 2) -> Any:
    """Norm of order p of input - other, as one vector.

    >>> flambeau.dist(flambeau.tensor([3., 4.]), flambeau.tensor([0., 0.])).item()
    5.0
    """
    return _of_order(sub(tensor(input, "dist"), tensor(other, "dist", "other", 2)), p, None, False, None)


@public(inplace=True, samples=lambda t: [call(t(3, 4), 2, 0, 0.5), call(t(3, 4), 1, -1, 2.0), call(t(2, 3, 4), 2.5, 1, 1.0)],
        errors=lambda t: [(call(t(3, 4), 0, 0, 1.0), RuntimeError, "non-positive-norm"),
                          (call(t(3), 2, 0, 1.0), RuntimeError, "at least 2 dimensions")])
def renorm(input: Any, p: Any, dim: int, maxnorm: Any) -> Any:
    """Each slice input[..., i, ...] along dim scaled down to the norm maxnorm, where its norm of order p is greater.

    >>> flambeau.renorm(flambeau.tensor([[3., 4.], [0., 1.]]), 2, 0, 1.)[1].tolist()
    [0.0, 1.0]
    """
    n = ndim(tensor(input, "renorm"))
    if n < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {n} dimensions")
    if p <= 0:
        raise RuntimeError(f"renorm: non-positive-norm not supported, got p = {p}")
    if maxnorm < 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    d = one_dim(dim, n)
    norms = _of_order(input, p, tuple([i for i in range(n) if i != d]), True, None)
    above = norms > maxnorm
    others = ops.cast(above.logical_not(), dtype_of(norms))
    scale = ops.keep(maxnorm / (ops.keep(norms, above) + others + 1e-7), above) + others
    return ops.contiguous(input * scale)
