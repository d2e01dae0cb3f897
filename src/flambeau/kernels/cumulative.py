"""Running reductions along one axis: cumsum, cumprod, cummax, cummin, logcumsumexp, diff.

PyTorch accumulates cumsum and cumprod of float32 in float64, and of half types in float32, rounding each
element once: the same is done here.
"""

from __future__ import annotations

import numpy as np

from flambeau.kernels.strides import contiguous, normalize_dim

_LARGE = 1 << 13        # elements from which positions of extremes are repeated, not accumulated
_ACCUMULATE_IN = {"f": np.float64, "e": np.float32, "E": np.float32, "F": np.complex128}  # by dtype.char


def _accumulate(ufunc: np.ufunc, a: np.ndarray, dim: int, dtype: np.dtype | None) -> np.ndarray:
    dim = normalize_dim(dim, a.ndim)
    if dtype is None:
        dtype = np.dtype(np.int64) if a.dtype.kind in "iub" else a.dtype
    if a.ndim == 0:
        return a.astype(dtype)
    a = contiguous(a)               # the result is in row-major order, as PyTorch's
    if a.dtype != dtype:
        a = a.astype(dtype)
    wide = _ACCUMULATE_IN.get(a.dtype.char)
    if wide is None:
        return ufunc.accumulate(a, dim)
    work = a.astype(wide)           # at once: the conversion of a few elements at a time costs as much as the sums
    return ufunc.accumulate(work, dim, None, work).astype(dtype)


def cumsum(a: np.ndarray, dim: int, dtype: np.dtype | None = None) -> np.ndarray:
    """Return running sums along dim; integers and bool give int64 unless dtype says otherwise."""
    return _accumulate(np.add, a, dim, dtype)


def cumprod(a: np.ndarray, dim: int, dtype: np.dtype | None = None) -> np.ndarray:
    """Return running products along dim; integers and bool give int64 unless dtype says otherwise."""
    return _accumulate(np.multiply, a, dim, dtype)


def cumsum_backward(g: np.ndarray, dim: int) -> np.ndarray:
    """Return the gradient of `cumsum`: sums running from the end."""
    if g.ndim == 0:
        return g
    key = (slice(None),) * normalize_dim(dim, g.ndim) + (slice(None, None, -1),)
    return np.ascontiguousarray(cumsum(g[key], dim, g.dtype)[key])


def _extreme(ufunc: np.ufunc, name: str, a: np.ndarray, dim: int) -> tuple[np.ndarray, np.ndarray]:
    dim = normalize_dim(dim, a.ndim)
    if a.ndim == 0:
        return a.copy(), np.zeros((), np.int64)
    if a.dtype.kind == "c" and a.size:
        raise NotImplementedError(f"{name} is not implemented for {a.dtype.name}: complex has no order")
    a = contiguous(a)
    values = ufunc.accumulate(a, dim)
    renewed = a == values
    if a.dtype.kind not in "iub":
        renewed |= np.isnan(a)
    n = a.shape[dim]
    if dim == a.ndim - 1 and a.size >= _LARGE:      # each position as often as it stays the latest; the first is new
        at = np.flatnonzero(renewed)
        return values, np.repeat(at % n, np.diff(at, append=a.size)).reshape(a.shape)
    positions = np.arange(n).reshape((n,) + (1,) * (a.ndim - 1 - dim))
    return values, np.maximum.accumulate(np.where(renewed, positions, 0), dim)


def cummax(a: np.ndarray, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Return running maxima along dim and the latest position of each; NaN stays once met."""
    return _extreme(np.maximum, "cummax", a, dim)


def cummin(a: np.ndarray, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Return running minima along dim and the latest position of each; NaN stays once met."""
    return _extreme(np.minimum, "cummin", a, dim)


def logcumsumexp(a: np.ndarray, dim: int) -> np.ndarray:
    """Return log of running sums of exp along dim, without overflow; floating dtypes."""
    dim = normalize_dim(dim, a.ndim)
    if a.dtype.kind in "iub":
        raise NotImplementedError(f"logcumsumexp is not implemented for {a.dtype.name}: use .float()")
    if a.ndim == 0:
        return a.copy()
    if a.dtype.kind == "c":
        return _complex_logcumsumexp(a, dim)
    wide = _ACCUMULATE_IN.get(a.dtype.char)
    return np.logaddexp.accumulate(contiguous(a), dim, wide).astype(a.dtype)


def _complex_logcumsumexp(a: np.ndarray, dim: int) -> np.ndarray:
    """Term by term, the greater real part taken out of each sum of two."""
    wide = np.moveaxis(a.astype(np.complex128), dim, 0)
    out = np.empty_like(wide)
    if len(wide):
        out[0] = running = wide[0]
    for i in range(1, len(wide)):
        less = running.real < wide[i].real
        top, rest = np.where(less, wide[i], running), np.where(less, running, wide[i])
        step = np.where(np.isfinite(top.real), rest - top, -np.inf)
        running = np.log(1 + np.exp(step)) + top    # the imaginary part goes on past pi, as PyTorch's
        running = np.where(np.isneginf(top.real), top, running)
        out[i] = running
    return np.ascontiguousarray(np.moveaxis(out, 0, dim)).astype(a.dtype)


def diff(a: np.ndarray, n: int = 1, dim: int = -1) -> np.ndarray:
    """Return the n-th differences of neighbours along dim; bool uses exclusive or.

    Raises:
        RuntimeError: a is 0-d, or n is negative.
    """
    if a.ndim == 0:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    if n == 0:
        return a.copy()
    dim = normalize_dim(dim, a.ndim)
    lead = (slice(None),) * dim
    for _ in range(min(n, a.shape[dim])):
        later, earlier = a[(*lead, slice(1, None))], a[(*lead, slice(None, -1))]
        a = np.logical_xor(later, earlier) if a.dtype == np.bool_ else later - earlier
    return a


def shift(a: np.ndarray, dim: int, by: int, fill: float = 0) -> np.ndarray:
    """Return a moved by one place along dim: forward for by = 1, back for -1; the place left is filled."""
    out = np.empty(a.shape, a.dtype)
    if a.ndim == 0 or a.shape[dim] == 0:
        out.fill(fill)
        return out
    lead = (slice(None),) * dim
    if by > 0:
        out[(*lead, slice(1, None))] = a[(*lead, slice(None, -1))]
        out[(*lead, 0)] = fill
    else:
        out[(*lead, slice(None, -1))] = a[(*lead, slice(1, None))]
        out[(*lead, -1)] = fill
    return out


def scan(a: np.ndarray, b: np.ndarray, dim: int, reverse: bool) -> np.ndarray:
    """Return the recurrence out[k] = a[k] + b[k] * out[k - 1] along dim (b[0] is not used).

    In reverse out[k] = a[k] + b[k + 1] * out[k + 1]: the adjoint for the conjugate of b.
    """
    if a.ndim == 0:
        return a.copy()
    half = a.dtype.char in "eE"
    out = np.array(np.moveaxis(a, dim, 0), np.float32 if half else a.dtype, order="C")
    factors = np.moveaxis(b, dim, 0)
    if reverse:
        for i in range(len(out) - 2, -1, -1):
            out[i] += factors[i + 1] * out[i + 1]
    else:
        for i in range(1, len(out)):
            out[i] += factors[i] * out[i - 1]
    return np.ascontiguousarray(np.moveaxis(out, 0, dim)).astype(a.dtype, copy=False)
