"""Discrete Fourier transforms: `torch.fft`. All are made of three linear operators and their adjoints."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from flambeau.core.apply import apply1
from flambeau.core.dtype import DType
from flambeau.core.objects import TensorBase, dtype_of, make, shape_of
from flambeau.kernels.services import default_array_type, is_float

from . import complex, padding, rearranging  # noqa: F401  they register names used here
from ._args import dim as one_dim
from ._args import integer, np_dtype, tensor
from ._meta import Meta
from ._pointwise import to_dtype
from ._record import KERNEL, call, ops, primitive, public
from ._shapes import real

FFT = ("fft",)

# --------------------------------------------------------------------------------- operators


def _by_stride(strides: Sequence[int], dims: Sequence[int]) -> list[int]:
    """Dimensions from the outermost in memory to the innermost."""
    return sorted(dims, key=lambda d: -abs(strides[d]))


def _laid_out(x: np.ndarray, order: Sequence[int], scale: float) -> np.ndarray:
    """x, scaled, with its dimensions in this order in memory."""
    if scale != 1:
        x = x * x.dtype.type(scale)
    turned = x.transpose(order)
    return x if turned.flags.c_contiguous else np.ascontiguousarray(turned).transpose(np.argsort(order))


def _order(a: np.ndarray, last: Sequence[int]) -> list[int]:
    """PyTorch's memory order of a transform of a: the other dimensions as in a, then those transformed."""
    return [*_by_stride(a.strides, [d for d in range(a.ndim) if d not in last]), *last]


def _c2c(a: np.ndarray, dims: tuple, scale: float, forward: bool) -> np.ndarray:
    x = np.fft.fftn(a, axes=dims, norm="backward") if forward else np.fft.ifftn(a, axes=dims, norm="forward")
    return _laid_out(x, _order(a, _by_stride(a.strides, dims)), scale)


def _r2c(a: np.ndarray, dims: tuple, scale: float) -> np.ndarray:
    x = np.fft.rfftn(a, axes=dims, norm="backward")
    return _laid_out(x, _order(a, [*_by_stride(a.strides, dims[:-1]), dims[-1]]), scale)


def _c2r(a: np.ndarray, dims: tuple, scale: float, size: int) -> np.ndarray:
    order = _order(a, _by_stride(a.strides, dims[:-1]))
    if len(dims) > 1:
        a = np.fft.ifftn(a, axes=dims[:-1], norm="forward")
    x = np.fft.irfft(a, n=size, axis=dims[-1], norm="forward")
    return _laid_out(x, [*[d for d in order if d != dims[-1]], dims[-1]], scale)


def _r2c_backward(xp: Any, g: Any, shape: tuple, dims: tuple, scale: float) -> Any:
    """The other half of the spectrum is not there: its gradient is 0."""
    last = dims[-1]
    missing = shape[last] - g.shape[last]
    pad = [0, 0] * len(shape)
    pad[2 * (len(shape) - 1 - last) + 1] = missing
    return xp.real(xp.fft_c2c(xp.constant_pad_nd(g, tuple(pad), 0) if missing else g, dims, scale, False))


def _c2r_backward(xp: Any, g: Any, shape: tuple, dims: tuple, scale: float, size: int) -> Any:
    """Every element but the first, and the last of an even size, stands for two."""
    last = dims[-1]
    x = xp.fft_r2c(g, dims, scale)
    n, twice = x.shape[last], size - x.shape[last]
    parts = [xp.narrow(x, last, 0, 1), xp.narrow(x, last, 1, twice) * 2, xp.narrow(x, last, 1 + twice, n - 1 - twice)]
    return xp.cat([p for p in parts if p.shape[last]], last)


def _spectrum(self: Meta, dims: tuple, scale: float, forward: bool) -> Meta:
    return Meta(self.shape, self.dtype)


def _half_spectrum(self: Meta, dims: tuple, scale: float) -> Meta:
    shape = list(self.shape)
    shape[dims[-1]] = shape[dims[-1]] // 2 + 1
    return Meta(shape, np.result_type(self.dtype, np.complex64))


def _signal(self: Meta, dims: tuple, scale: float, size: int) -> Meta:
    shape = list(self.shape)
    shape[dims[-1]] = size
    return Meta(shape, real(self.dtype))


C2C = primitive("fft_c2c", _c2c, params=("dims", "scale", "forward"), node="FftC2CBackward0", meta=_spectrum, expr=KERNEL,
                self=lambda xp, g, dims, scale, forward: xp.fft_c2c(g, dims, scale, not forward))
R2C = primitive("fft_r2c", _r2c, params=("dims", "scale"), node="FftR2CBackward0", meta=_half_spectrum, expr=KERNEL,
                self=lambda xp, g, self_shape, dims, scale: _r2c_backward(xp, g, tuple(self_shape), dims, scale))
C2R = primitive("fft_c2r", _c2r, params=("dims", "scale", "size"), node="FftC2RBackward0", meta=_signal, expr=KERNEL,
                self=lambda xp, g, self_shape, dims, scale, size: _c2r_backward(xp, g, tuple(self_shape), dims, scale, size))

# --------------------------------------------------------------------------------- arguments


def _input(value: Any, name: str, real: bool = False) -> TensorBase:
    t = tensor(value, f"fft_{name}")
    d = dtype_of(t)
    if d.itemsize == 2 and is_float(d):
        raise RuntimeError(f"fft.{name}: Unsupported dtype {d.name}: convert with .float()")
    if real and d.kind == "c":
        raise RuntimeError(f"{name} expects a real input tensor, but got {d.name}: use "
                           f"fft.{name.replace('ih', 'i').lstrip('r')}")
    return t if is_float(d) else to_dtype(t, default_array_type())


def _complex(t: TensorBase) -> TensorBase:
    d = dtype_of(t)
    return t if d.kind == "c" else to_dtype(t, np.dtype("c8") if d.itemsize <= 4 else np.dtype("c16"))


def _scale(norm: str | None, n: int, forward: bool) -> float:
    if norm is not None and not isinstance(norm, str):
        raise TypeError(f"fft: argument 'norm' must be str, not {type(norm).__name__}")
    if norm not in (None, "backward", "ortho", "forward"):
        raise RuntimeError(f"Invalid normalization mode: \"{norm}\". The modes are 'backward', 'ortho' and 'forward'.")
    if norm == "ortho":
        return 1 / math.sqrt(n)
    return 1 / n if (norm == "forward") == forward else 1.0


def _resize(t: TensorBase, dims: Sequence[int], sizes: Sequence[int]) -> TensorBase:
    """t cut, or filled with zeros at the end, to sizes along dims."""
    shape = shape_of(t)
    pad = [0, 0] * len(shape)
    for d, n in zip(dims, sizes, strict=True):
        if n > shape[d]:
            pad[2 * (len(shape) - 1 - d) + 1] = n - shape[d]
        elif n < shape[d]:
            t = ops.narrow(t, d, 0, n)
    return ops.constant_pad_nd(t, tuple(pad), 0) if any(pad) else t


def _dims(t: TensorBase, s: Any, dim: Any) -> tuple[list[int], list[int]]:
    """The dimensions and their sizes, -1 and None meaning the tensor's own."""
    n = len(shape_of(t))
    s = [s] if isinstance(s, int) else s
    if dim is not None:
        dims = [one_dim(d, n) for d in ([dim] if isinstance(dim, int) else dim)]
        if len(set(dims)) != len(dims):
            raise RuntimeError("FFT dims must be unique")
    elif s is not None:
        if len(s) > n:
            raise RuntimeError(f"Got shape with {len(s)} values but input tensor only has {n} dimensions.")
        dims = list(range(n - len(s), n))
    else:
        dims = list(range(n))
    if s is not None and len(s) != len(dims):
        raise RuntimeError("fft: dim and shape arguments must have the same length when both are given, one size "
                           "for each dimension.")
    sizes = [shape_of(t)[d] if s is None or s[i] == -1 else integer(s[i], "fft", "s") for i, d in enumerate(dims)]
    return dims, sizes


def _checked(sizes: Sequence[int]) -> None:
    for n in sizes:
        if n < 1:
            raise RuntimeError(f"Invalid number of data points ({n}) specified")


def _c2c_call(value: Any, name: str, s: Any, dim: Any, norm: str | None, forward: bool) -> Any:
    t = _input(value, name)
    dims, sizes = _dims(t, s, dim)
    _checked(sizes)
    t = _complex(t)
    if not dims:
        return ops.clone(t)
    return apply1(C2C, _resize(t, dims, sizes), (tuple(dims), _scale(norm, math.prod(sizes), forward), forward))


def _r2c_call(value: Any, name: str, s: Any, dim: Any, norm: str | None, forward: bool) -> Any:
    t = _input(value, name, real=True)
    dims, sizes = _dims(t, s, dim)
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")
    _checked(sizes)
    out = apply1(R2C, _resize(t, dims, sizes), (tuple(dims), _scale(norm, math.prod(sizes), forward)))
    return out if forward else ops.conj(out)


def _c2r_call(value: Any, name: str, s: Any, dim: Any, norm: str | None, forward: bool) -> Any:
    t = _complex(_input(value, name))
    dims, sizes = _dims(t, s, dim)
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")
    last = s if s is None or isinstance(s, int) else s[-1]
    size = 2 * (shape_of(t)[dims[-1]] - 1) if last is None or last == -1 else integer(last, "fft", "s")
    sizes[-1] = size
    _checked(sizes)
    t = _resize(t, dims, [*sizes[:-1], size // 2 + 1])
    return apply1(C2R, ops.conj(t) if forward else t, (tuple(dims), _scale(norm, math.prod(sizes), forward), size))


# --------------------------------------------------------------------------------- functions

_NORM = """norm: "backward" (default) divides the inverse by the number of elements, "forward" the forward transform,
            "ortho" both by its root."""


def _register(name: str, compute: Callable, forward: bool, text: str, inner: bool) -> None:
    """name of one dimension, name2 of two, namen of any number."""

    def one(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
        t = tensor(input, f"fft_{name}")
        return compute(t, name, None if n is None else [n], [dim], norm, forward)

    def two(input: Any, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Any:
        return compute(input, name + "2", s, dim, norm, forward)

    def many(input: Any, s: Any = None, dim: Any = None, norm: str | None = None) -> Any:
        return compute(input, name + "n", s, dim, norm, forward)

    size = f"its size in the {'output' if inner else 'input'}, which is cut or filled with zeros"
    for fn, public_name, where in ((one, name, f"along one dimension; n: {size}"),
                                   (two, name + "2", f"along two dimensions; s: for each {size}"),
                                   (many, name + "n", f"along several dimensions; s: for each {size}")):
        fn.__name__ = fn.__qualname__ = public_name
        fn.__doc__ = f"{text} {where}.\n\n    Args:\n        {_NORM}\n    "
        real = compute is _r2c_call
        shapes = [(8,), (2, 7)] if fn is one else [(4, 5), (2, 3, 4)]
        public(namespaces=FFT, method=False, samples=lambda t, shapes=shapes, real=real: [
            *[call(t(*s)) for s in shapes], *[call(t(*s), norm="ortho") for s in shapes],
            *([] if real else [call(t(*s, dtype="complex64")) for s in shapes])])(fn)


_register("fft", _c2c_call, True, "The discrete Fourier transform", False)
_register("ifft", _c2c_call, False, "The inverse discrete Fourier transform", False)
_register("rfft", _r2c_call, True, "The Fourier transform of real input, without the half that follows by symmetry,", False)
_register("irfft", _c2r_call, False, "The inverse of rfft: real output; n is 2 * (input - 1) by default", True)
_register("hfft", _c2r_call, True, "The real Fourier transform of a Hermitian-symmetric signal, given by one half", True)
_register("ihfft", _r2c_call, False, "The inverse of hfft: one half of a Hermitian-symmetric signal", False)


def _frequencies(values: np.ndarray, n: int, d: float, dtype: DType | None) -> Any:
    return make((values / (n * d)).astype(np_dtype(dtype) or default_array_type()))


@public(namespaces=FFT, method=False, differentiable=False, samples=lambda t: [call(5), call(4, 0.5)])
def fftfreq(n: int, d: float = 1.0, *, dtype: DType | None = None, layout: Any = None, device: Any = None,
            requires_grad: bool = False) -> Any:
    """The frequencies of the elements of fft's output, of n samples at a distance d.

    >>> flambeau.fft.fftfreq(4).tolist()
    [0.0, 0.25, -0.5, -0.25]
    """
    k = np.arange(n)
    out = _frequencies(np.where(k < (n + 1) // 2, k, k - n), n, d, dtype)
    return out.requires_grad_() if requires_grad else out


@public(namespaces=FFT, method=False, differentiable=False, samples=lambda t: [call(5), call(4, 0.5)])
def rfftfreq(n: int, d: float = 1.0, *, dtype: DType | None = None, layout: Any = None, device: Any = None,
             requires_grad: bool = False) -> Any:
    """The frequencies of the elements of rfft's output, of n samples at a distance d.

    >>> flambeau.fft.rfftfreq(4).tolist()
    [0.0, 0.25, 0.5]
    """
    out = _frequencies(np.arange(n // 2 + 1), n, d, dtype)
    return out.requires_grad_() if requires_grad else out


def _shift(input: Any, name: str, dim: Any, back: bool) -> Any:
    t = tensor(input, f"fft_{name}")
    n = len(shape_of(t))
    dims = list(range(n)) if dim is None else [one_dim(d, n) for d in ([dim] if isinstance(dim, int) else dim)]
    steps = tuple([(shape_of(t)[d] + 1) // 2 if back else shape_of(t)[d] // 2 for d in dims])
    return ops.roll(t, steps, tuple(dims))


@public(namespaces=FFT, method=False, out=False, samples=lambda t: [call(t(5)), call(t(4, 5)), call(t(4, 5), 1)])
def fftshift(input: Any, dim: Any = None) -> Any:
    """fft's output with frequency 0 in the middle, along dimensions, by default all.

    >>> flambeau.fft.fftshift(flambeau.fft.fftfreq(4)).tolist()
    [-0.5, -0.25, 0.0, 0.25]
    """
    return _shift(input, "fftshift", dim, False)


@public(namespaces=FFT, method=False, out=False, samples=lambda t: [call(t(5)), call(t(4, 5)), call(t(4, 5), 1)])
def ifftshift(input: Any, dim: Any = None) -> Any:
    """The inverse of fftshift.

    >>> flambeau.fft.ifftshift(flambeau.tensor([-1, 0, 1])).tolist()
    [0, 1, -1]
    """
    return _shift(input, "ifftshift", dim, True)
