"""Differences of neighbours, integrals by the trapezoid rule, covariance: composed of other operators."""

from __future__ import annotations

from typing import Any

from flambeau.core.objects import TensorBase, array_of, dtype_of, shape_of
from flambeau.core.origin import warn_user
from flambeau.kernels.services import default_array_type, is_float

from ._args import dim as one_dim
from ._args import ndim, tensor
from ._lazy import is_meta
from ._pointwise import to_dtype
from ._record import REGISTRY, call, ops, public
from .cumulative import cumsum
from .joining import joined
from .reduction import sum


def _part(t: TensorBase, dim: int, start: int, length: int) -> TensorBase:
    return ops.narrow(t, dim, start, length)


@public(samples=lambda t: [call(t(3, 4)), call(t(5), 2), call(t(3, 4), dim=0), call(t(2, 3), 1, -1, t(2, 1), t(2, 2)),
                           call(t(4, dtype="bool")), call(t(2), 3)],
        errors=lambda t: [(call(t()), RuntimeError, "at least one-dimensional"),
                          (call(t(3), -1), RuntimeError, "non-negative")])
def diff(input: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """The n-th differences of neighbours along dim: input[k + 1] - input[k]; exclusive or for bool.

    Args:
        prepend, append: tensors put before and after input along dim first.

    >>> flambeau.diff(flambeau.tensor([1, 4, 9])).tolist()
    [3, 5]
    """
    d = one_dim(dim, ndim(tensor(input, "diff")))
    if ndim(input) == 0:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"diff: order must be non-negative but got {n}")
    if n == 0:
        return ops.clone(input)
    parts = [t for t in (prepend, input, append) if t is not None]
    out = joined(parts, d) if len(parts) > 1 else input
    for _ in range(min(n, shape_of(out)[d])):
        size = shape_of(out)[d] - 1
        later, earlier = _part(out, d, 1, size), _part(out, d, 0, size)
        out = later ^ earlier if dtype_of(out).kind == "b" else later - earlier
    return out


# --------------------------------------------------------------------------------- integrals


def _areas(name: str, y: Any, x: Any, dx: Any, dim: int) -> tuple[TensorBase, int]:
    """Mean height times width of each step along dim."""
    d = one_dim(dim, ndim(tensor(y, name, "y")))
    size = shape_of(y)[d]
    if dtype_of(y).kind == "b":
        raise RuntimeError(f"{name}: received a bool input for `y`, but bool is not supported")
    steps = max(size - 1, 0)
    if not size:
        return y, d
    heights = _part(y, d, 1, steps) + _part(y, d, 0, steps)
    if x is None:
        if isinstance(dx, complex):
            raise RuntimeError(f"{name}: currently, we only support dx as a real number")
        return heights * (dx / 2.0), d
    if dtype_of(tensor(x, name, "x", 2)).kind == "b":
        raise RuntimeError(f"{name}: received a bool input for `x`, but bool is not supported")
    along = d if ndim(x) == ndim(y) else ndim(x) - 1
    if ndim(x) < ndim(y):
        x = ops.reshape(x, (*((1,) * (d - along)), *shape_of(x), *((1,) * (ndim(y) - 1 - d)))) if ndim(x) == 1 else x
        along = d if ndim(x) == ndim(y) else d - (ndim(y) - ndim(x))
    if shape_of(x)[along] != size:
        raise RuntimeError(f"{name}: There must be one `x` value for each sample point, got {shape_of(x)[along]} "
                           f"for {size}")
    width = _part(x, along, 1, steps) - _part(x, along, 0, steps)
    return heights * width / 2.0, d


def _evenly(y: Any, dx: Any, dim: int) -> TensorBase:
    """The integral of heights at one distance: their sum but for half of the outer ones."""
    d = one_dim(dim, ndim(tensor(y, "trapezoid", "y")))
    size = shape_of(y)[d]
    if dtype_of(y).kind == "b":
        raise RuntimeError("trapezoid: received a bool input for `y`, but bool is not supported")
    if not size:
        return sum(y, d)
    outer = ops.select(y, d, 0) + ops.select(y, d, size - 1)
    return (sum(y, d) - outer * 0.5) * dx


def _trapezoid_samples(t: Any) -> list:
    return [call(t(3, 4)), call(t(3, 4), t(4)), call(t(3, 4), dx=0.5, dim=0), call(t(3, 4), t(3, 4)),
            call(t(3, 4), t(3), dim=0)]


def _trapezoid_errors(t: Any) -> list:
    return [(call(t(3), t(4)), RuntimeError, "one `x` value for each sample point"),
            (call(t(3), dim=2), IndexError, "out of range")]


@public(method=False, out=False, aliases=("trapz",), samples=_trapezoid_samples, errors=_trapezoid_errors)
def trapezoid(y: Any, x: Any = None, *, dx: Any = 1, dim: int = -1) -> Any:
    """Integral along dim by the trapezoid rule.

    Args:
        y: heights, at the places x, or at distance dx of each other.

    >>> flambeau.trapezoid(flambeau.tensor([1., 2., 3.])).item()
    4.0
    """
    areas, d = _areas("trapezoid", y, x, dx, dim) if x is not None or isinstance(dx, complex) else (None, 0)
    total = _evenly(y, dx, dim) if areas is None else sum(areas, d)
    return total if is_float(dtype_of(total)) else to_dtype(total, default_array_type())


@public(method=False, out=False, samples=_trapezoid_samples, errors=_trapezoid_errors)
def cumulative_trapezoid(y: Any, x: Any = None, *, dx: Any = 1, dim: int = -1) -> Any:
    """Running integrals along dim by the trapezoid rule, one less than heights; see `trapezoid`.

    >>> flambeau.cumulative_trapezoid(flambeau.tensor([1., 2., 3.])).tolist()
    [1.5, 4.0]
    """
    areas, d = _areas("cumulative_trapezoid", y, x, dx, dim)
    return cumsum(areas, d)


# --------------------------------------------------------------------------------- covariance


def _check_weights(name: str, w: Any, kinds: str, what: str, n: int) -> None:
    if ndim(tensor(w, "cov", name)) > 1:
        raise RuntimeError(f"cov(): expected {name} to have one or fewer dimensions but got {name} with {ndim(w)}")
    if dtype_of(w).kind not in kinds:
        raise RuntimeError(f"cov(): expected {name} to have {what} dtype but got {name} with {dtype_of(w).name} dtype")
    if w.numel() != n:
        raise RuntimeError(f"cov(): {name} needs one entry for each of the {n} observations (the columns of the "
                           f"input), and has {w.numel()}.")
    if not is_meta(w) and array_of(w).size and array_of(w).min() < 0:
        raise RuntimeError(f"cov(): {name} cannot be negative")


@public(out=False, samples=lambda t: [call(t(3, 5)), call(t(5)), call(t(3, 5), correction=0)],
        errors=lambda t: [(call(t(2, 2, 2)), RuntimeError, "two or fewer dimensions"),
                          (call(t(3, dtype="bool")), RuntimeError, "bool dtype is not supported")])
def cov(input: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Any:
    """Covariance matrix of variables (rows) over observations (columns); of one variable its variance.

    Args:
        correction: taken from the number of observations (or the weights' sum) in the divisor.
        fweights: how often each observation counts, integers. aweights: how much, numbers.

    >>> flambeau.cov(flambeau.tensor([[1., 3.], [1., 5.]])).tolist()
    [[2.0, 4.0], [4.0, 8.0]]
    """
    if ndim(tensor(input, "cov")) > 2:
        raise RuntimeError("cov(): expected input to have two or fewer dimensions, variables by observations, and "
                           f"it has {ndim(input)}. Call it for one matrix at a time, or under torch.vmap.")
    if dtype_of(input).kind == "b":
        raise RuntimeError("cov(): bool dtype is not supported for input")
    rows = input if ndim(input) == 2 else ops.reshape(input, (1, -1))
    n = shape_of(rows)[1]
    w: Any = None
    if fweights is not None:
        _check_weights("fweights", fweights, "ui", "an integral", n)
        w = fweights
    if aweights is not None:
        _check_weights("aweights", aweights, "fV", "a floating point", n)
        w = aweights if w is None else w * aweights
    if w is not None:
        w = ops.reshape(w, (-1,))
    total: Any = n if w is None else sum(w)
    known = not is_meta(total)
    if w is not None and n and known and array_of(total) == 0:
        raise RuntimeError("cov(): weights sum to zero, can't be normalized")
    center = sum(rows if w is None else rows * w, 1) / total
    divisor = total - correction
    if aweights is not None and correction != 0:
        divisor = total - correction * sum(w * ops.reshape(aweights, (-1,))) / total
    if known and (array_of(divisor) if isinstance(divisor, TensorBase) else divisor) <= 0:
        warn_user("cov(): degrees of freedom is <= 0: there are no more observations than the correction "
                  "subtracts, and the result is inf or NaN. Pass correction=0, or give more observations.")
        divisor = 0
    deviation = rows - ops.unsqueeze(center, 1)
    weighted = deviation if w is None else deviation * w
    out = deviation @ ops.conj(ops.t(weighted)) / divisor
    return ops.squeeze(out)


@public(out=False, samples=lambda t: [call(t(3, 5)), call(t(2, 4))],
        errors=lambda t: [(call(t(2, 2, 2)), RuntimeError, "two or fewer dimensions")])
def corrcoef(input: Any) -> Any:
    """Correlation matrix of variables (rows) over observations (columns): `cov` scaled to a diagonal of ones.

    >>> flambeau.corrcoef(flambeau.tensor([[1., 2., 3.], [3., 2., 1.]])).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    if ndim(tensor(input, "corrcoef")) > 2:
        raise RuntimeError("corrcoef(): expected input to have two or fewer dimensions, variables by observations, "
                           f"and it has {ndim(input)}. Call it for one matrix at a time, or under torch.vmap.")
    c = cov(input)
    if ndim(c) == 0:
        return c / c
    d = ops.diagonal(c, 0, 0, 1)
    is_complex = dtype_of(c).kind == "c"
    scale = (ops.real(d) if is_complex else d) ** 0.5
    c = c / ops.unsqueeze(scale, 1) / ops.unsqueeze(scale, 0)
    clip = REGISTRY["clamp"].fn
    return ops.complex(clip(ops.real(c), -1, 1), clip(ops.imag(c), -1, 1)) if is_complex else clip(c, -1, 1)
