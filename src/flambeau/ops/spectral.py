"""Spectra of a moving window: the short-time Fourier transform and its inverse by overlap and add.

Source: Allen and Rabiner, Proceedings of the IEEE 65(11), 1977; Griffin and Lim, IEEE Transactions on ASSP 32(2), 1984.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from flambeau.core.apply import apply1
from flambeau.core.objects import TensorBase, array_of, dtype_of, shape_of
from flambeau.core.origin import warn_user
from flambeau.kernels.services import is_float

from ._args import integer, optional_integer, tensor
from ._from_data import warn_once
from ._lazy import is_meta
from ._lazy import placed as constant_beside
from ._pointwise import to_dtype
from ._record import call, ops, public
from .fft import C2C, C2R, R2C
from .padding import pad


def _window(name: str, a: TensorBase, window: Any, length: int, n_fft: int, dtype: np.dtype) -> TensorBase:
    """The window, with zeros on both sides up to n_fft places; ones when there is none."""
    if window is None:
        window = constant_beside(a, (length,), dtype, lambda: np.ones(length, dtype))
    shape = shape_of(tensor(window, name, "window", 5))
    if tuple(shape) != (length,):
        raise RuntimeError(f"{name}: expected a 1D window tensor of size equal to win_length={length}, got window with size "
                           f"{list(shape)} (Invalid window shape)")
    if length < n_fft:
        left = (n_fft - length) // 2
        window = ops.constant_pad_nd(window, (left, n_fft - length - left), 0)
    return window


def _complex_of(t: TensorBase) -> TensorBase:
    d = dtype_of(t)
    return t if d.kind == "c" else to_dtype(t, np.dtype("c8") if d.itemsize <= 4 else np.dtype("c16"))


def _is_complex(t: Any) -> bool:
    return t is not None and dtype_of(t).kind == "c"


def _sizes(name: str, n_fft: Any, hop_length: Any, win_length: Any) -> tuple[int, int, int]:
    """n_fft, hop_length and win_length with their defaults."""
    n = integer(n_fft, name, "n_fft")
    hop = optional_integer(hop_length, name, "hop_length")
    width = optional_integer(win_length, name, "win_length")
    return n, n // 4 if hop is None else hop, n if width is None else width


def _stft_samples(t: Any) -> list:
    window = {"low": 0.5, "high": 1.5}
    return [call(t(20), 4, return_complex=True), call(t(2, 20), 6, 3, 5, t(5, **window), return_complex=True),
            call(t(20), 8, 2, 4, center=False, normalized=True, onesided=False, return_complex=True),
            call(t(20, dtype="complex64"), 4), call(t(20), 8, 2, 4, center=False, return_complex=True, align_to_window=True),
            call(t(20), 5, pad_mode="constant", return_complex=True)]


@public(out=False, samples=_stft_samples, errors=lambda t: [
    (call(t(20), 4), RuntimeError, "requires the return_complex parameter"),
    (call(t(20), 0, return_complex=True), RuntimeError, "expected 0 < n_fft"),
    (call(t(20), 4, 0, return_complex=True), RuntimeError, "expected hop_length > 0"),
    (call(t(20), 4, win_length=5, return_complex=True), RuntimeError, "expected 0 < win_length <= n_fft"),
    (call(t(20), 4, window=t(3), return_complex=True), RuntimeError, "expected a 1D window tensor"),
    (call(t(20, dtype="complex64"), 4, onesided=True), RuntimeError, "Cannot have onesided output"),
    (call(t(20), 4.5, return_complex=True), TypeError, "n_fft"),
    (call(t(20, dtype="int64"), 4, return_complex=True), RuntimeError, "floating point or complex")])
def stft(input: Any, n_fft: int, hop_length: int | None = None, win_length: int | None = None, window: Any = None,
         center: bool = True, pad_mode: str = "reflect", normalized: bool = False, onesided: bool | None = None,
         return_complex: bool | None = None, align_to_window: bool | None = None) -> Any:
    """The short-time Fourier transform: the spectrum of each place of a window that moves along a signal.

    Args:
        input: (L,) or (N, L), floating or complex.
        n_fft: number of samples of each transform.
        hop_length: samples from one place to the next; default n_fft // 4.
        win_length: samples in the window; default n_fft. A shorter one has zeros on both sides.
        window: (win_length,), floating or complex; default ones.
        center: pad the signal by n_fft // 2 on both sides (`pad_mode` of nn.functional.pad), so that frame t is centred on
            sample t * hop_length.
        normalized: divide by the root of n_fft.
        onesided: give only the n_fft // 2 + 1 frequencies that determine the rest; default for real input and window.
        return_complex: must be given for real input. False gives real and imaginary part in a last dimension
            (deprecated).
        align_to_window: with center=False, frames begin where the window does.

    Returns:
        (N, frequencies, frames), complex; without N for a single signal.

    Raises:
        RuntimeError: sizes that do not fit; a onesided spectrum of complex values.

    >>> flambeau.stft(flambeau.ones(4), 2, 2, center=False, return_complex=True).real.tolist()
    [[2.0, 2.0], [0.0, 0.0]]
    """
    a: Any = tensor(input, "stft")
    n, hop, width = _sizes("stft", n_fft, hop_length, win_length)
    if window is None:
        warn_once("stft", "A window was not provided: stft takes a rectangular one, whose edges smear the spectrum. Pass "
                  "torch.hann_window(n_fft), or window=torch.ones(n_fft) to say that none is meant.")
    if center:
        if align_to_window is not None:
            raise RuntimeError("stft: align_to_window should only be set when center=False: a centred frame has its "
                               "window in the middle")
        shape = shape_of(a)
        wide = ops.reshape(a, (*[1] * (3 - len(shape)), *shape))
        a = ops.reshape(pad(wide, (n // 2, n // 2), pad_mode), (*shape[:-1], shape[-1] + n // 2 * 2)) if shape else a
    if return_complex is None:
        if not (_is_complex(a) or _is_complex(window)):
            raise RuntimeError("stft requires the return_complex parameter be given for real inputs: pass "
                               "return_complex=True, and torch.view_as_real for two real numbers")
        return_complex = True
    elif not return_complex:
        warn_user("stft with return_complex=False is deprecated: pass return_complex=True and call "
                  "torch.view_as_real(...) on the result, which gives the same numbers.")
    if not is_float(dtype_of(a)):
        raise RuntimeError(f"stft: expected a tensor of floating point or complex values, got {dtype_of(a).name}")
    shape = shape_of(a)
    if len(shape) not in (1, 2):
        raise RuntimeError(f"stft: expected a 1D or 2D tensor, (L,) or (N, L), got shape {list(shape)}")
    if align_to_window and width < n:
        left = (n - width) // 2
        a = ops.constant_pad_nd(a, (left, left), 0)
    length = shape_of(a)[-1]
    if not 0 < n <= length:
        raise RuntimeError(f"stft: expected 0 < n_fft <= {length}, the length of the signal, but got n_fft={n}")
    if hop <= 0:
        raise RuntimeError(f"stft: expected hop_length > 0, but got hop_length={hop}")
    if not 0 < width <= n:
        raise RuntimeError(f"stft: expected 0 < win_length <= n_fft, but got win_length={width} and n_fft={n}")
    two_sided = _is_complex(a) or _is_complex(window)
    if onesided is None:
        onesided = not two_sided
    elif onesided and two_sided:
        raise RuntimeError("Cannot have onesided output if window or input is complex: pass onesided=False")
    if window is not None or width < n:
        frames = ops.unfold_dim(a, len(shape) - 1, n, hop) * _window("stft", a, window, width, n, dtype_of(a))
    else:
        frames = ops.unfold_dim(a, len(shape) - 1, n, hop)
    scale = 1 / math.sqrt(n) if normalized else 1.0
    if onesided:
        out = apply1(R2C, frames, ((len(shape),), scale))
    else:
        out = apply1(C2C, _complex_of(frames), ((len(shape),), scale, True))
    out = ops.transpose(out, -2, -1)
    return out if return_complex else ops.view_as_real(out)


def _overlap_add(frames: TensorBase, length: int, hop: int) -> TensorBase:
    """Frames (*, T, n) added up where they stand in the signal (*, length)."""
    shape = shape_of(frames)
    return ops.unfold_backward(frames, (*shape[:-2], length), len(shape) - 2, shape[-1], hop)


def _istft_samples(t: Any) -> list:
    window = {"low": 0.5, "high": 1.5}
    return [call(t(3, 8, dtype="complex64"), 4, window=t(4, **window)),
            call(t(2, 4, 6, dtype="complex64"), 6, 2, 5, t(5, **window), normalized=True, length=9),
            call(t(4, 6, dtype="complex64"), 4, window=t(4, **window), center=False, return_complex=True),
            call(t(4, 6, dtype="complex64"), 4, window=t(4, **window), onesided=False)]


@public(out=False, samples=_istft_samples, errors=lambda t: [
    (call(t(3, 8), 4), RuntimeError, "requires a complex-valued input"),
    (call(t(3, 8, dtype="complex64"), 8), RuntimeError, "to match n_fft / 2"),
    (call(t(3, 8, dtype="complex64"), 4, 5), RuntimeError, "expected 0 < hop_length <= win_length"),
    (call(t(3, 8, dtype="complex64"), 4, win_length=5), RuntimeError, "expected 0 < win_length <= n_fft"),
    (call(t(3, 8, dtype="complex64"), 4, window=t(3)), RuntimeError, "Invalid window shape"),
    (call(t(3, 8, dtype="complex64"), 4, return_complex=True), RuntimeError, "Cannot have onesided output"),
    (call(t(3, 8, dtype="complex64"), 4, window=t(4, low=0, high=0)), RuntimeError, "window overlap add min"),
    (call(t(3, 0, dtype="complex64"), 4), RuntimeError, "cannot be empty")])
def istft(input: Any, n_fft: int, hop_length: int | None = None, win_length: int | None = None, window: Any = None,
          center: bool = True, normalized: bool = False, onesided: bool | None = None, length: int | None = None,
          return_complex: bool = False) -> Any:
    """The signal of which `stft` with the same arguments gives input, or comes nearest to it in the mean square.

    Args:
        input: (frequencies, frames) or (N, frequencies, frames), complex.
        n_fft, hop_length, win_length, window, center, normalized, onesided: as given to `stft`.
        length: of the signal; cut, or filled with zeros. By default what the frames cover.
        return_complex: give the complex signal of a two-sided spectrum.

    Returns:
        (L,) or (N, L).

    Raises:
        RuntimeError: sizes that do not fit; windows that leave a sample out.

    >>> x = flambeau.tensor([1., 2., 3., 4.])
    >>> w = flambeau.ones(2)
    >>> flambeau.istft(flambeau.stft(x, 2, 1, window=w, return_complex=True), 2, 1, window=w).tolist()
    [1.0, 2.0, 3.0, 4.0]
    """
    a: Any = tensor(input, "istft")
    n, hop, width = _sizes("istft", n_fft, hop_length, win_length)
    if window is None:
        warn_once("istft", "A window was not provided: istft takes a rectangular one. Pass the window that stft was given, "
                  "or window=torch.ones(n_fft) to say that it had none.")
    if not _is_complex(a):
        raise RuntimeError("istft requires a complex-valued input tensor, as stft gives it with return_complex=True: "
                           f"input is {dtype_of(a).name}. Two real numbers become one with torch.view_as_complex")
    shape = shape_of(a)
    if 0 in shape:
        raise RuntimeError(f"istft: input tensor cannot be empty, and its shape is {list(shape)}")
    if len(shape) not in (2, 3):
        if len(shape) < 2:
            raise IndexError(f"istft: Dimension out of range: input needs (frequencies, frames), its shape is {list(shape)}")
        raise RuntimeError("istft: expected (frequencies, frames) or (N, frequencies, frames), a tensor with 3 or 4 "
                           f"dimensions counting real and imaginary parts, but got shape {list(shape)}")
    bins, frames = shape[-2:]
    if onesided is None:
        onesided = bins != n
    if onesided and bins != n // 2 + 1:
        raise RuntimeError("istft: expected the frequency dimension (3rd to the last) of the input tensor to match "
                           f"n_fft / 2 + 1 = {n // 2 + 1} when onesided=True, but got {bins}")
    if not onesided and bins != n:
        raise RuntimeError("istft: expected the frequency dimension (3rd to the last) of the input tensor to match "
                           f"n_fft = {n} when onesided=False, but got {bins}")
    if not 0 < hop <= width:
        raise RuntimeError(f"istft: expected 0 < hop_length <= win_length, got {hop} and {width}")
    if not 0 < width <= n:
        raise RuntimeError(f"istft: expected 0 < win_length <= n_fft, got {width} and {n}")
    if window is not None and tuple(shape_of(tensor(window, "istft", "window", 5))) != (width,):
        raise RuntimeError(f"istft: Invalid window shape {list(shape_of(window))}: the window has to be 1D, of length "
                           f"win_length={width}")
    if return_complex and onesided:
        raise RuntimeError("Cannot have onesided output if window or input is complex: pass onesided=False with "
                           "return_complex=True")
    if not return_complex and _is_complex(window):
        raise RuntimeError("Complex windows are incompatible with return_complex=False: the signal is complex")
    real = np.dtype("f4") if dtype_of(a).itemsize == 8 else np.dtype("f8")
    placed = _window("istft", a, window, width, n, real)
    return _inverse(a, placed, n, hop, center, normalized, onesided, length, return_complex)


def _inverse(a: TensorBase, window: Any, n: int, hop: int, center: bool, normalized: bool, onesided: bool,
             length: int | None, return_complex: bool) -> Any:
    last = len(shape_of(a)) - 1
    a = ops.transpose(a, -2, -1)
    frames = shape_of(a)[-2]
    scale = 1 / math.sqrt(n) if normalized else 1 / n
    if return_complex:
        parts: Any = apply1(C2C, a, ((last,), scale, False))
    else:
        parts = apply1(C2R, a if onesided else ops.narrow(a, last, 0, n // 2 + 1), ((last,), scale, n))
    total = n + hop * (frames - 1)
    signal = _overlap_add(parts * window, total, hop)
    weights = _overlap_add(ops.expand(window * window, (frames, n)), total, hop)
    start = n // 2 if center else 0
    end = start + length if length is not None else total - n // 2 if center else total
    stop = min(end, total)
    signal, weights = ops.narrow(signal, last - 1, start, stop - start), ops.narrow(weights, 0, start, stop - start)
    least = None if is_meta(weights) else np.abs(array_of(weights))
    if least is not None and not (least > 1e-11).all():
        raise RuntimeError(f"istft: window overlap add min is {least.min()}: some samples are in no window that is not zero "
                           "there, so that they cannot be known. Use a smaller hop_length, or center=True.")
    out = signal / weights
    if end > total:
        warn_user("The length of signal is shorter than the length parameter: the frames cover "
                  f"{total - start} samples, and the rest is filled with zeros. Check center and hop_length.")
        out = ops.constant_pad_nd(out, (0, end - total), 0)
    return out
