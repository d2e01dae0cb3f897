"""Windows of signals: `torch.signal.windows`. Each is a function of M places, evenly spaced.

A symmetric window is for filters; with sym=False it is periodic, M of the M + 1 places of a symmetric one, for spectra.

Source: Harris, 1978, Proceedings of the IEEE 66(1); Nuttall, 1981, IEEE Transactions on ASSP 29(1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from flambeau.core.dtype import DType, dtype_of_array
from flambeau.core.objects import dtype_of, make
from flambeau.kernels.services import default_array_type

from . import special_functions  # noqa: F401  it registers i0
from ._record import REGISTRY, call, ops, public
from .ranges import linspace

WINDOWS = ("signal.windows",)


def _window(samples: Callable, errors: Callable | None = None) -> Callable:
    return public(namespaces=WINDOWS, method=False, out=False, samples=samples, errors=errors, differentiable=False)


def _checked(name: str, M: int, dtype: DType | None, layout: Any) -> DType:
    """The window's dtype."""
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    if layout is not None and str(layout) != "torch.strided":
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
    d = dtype_of_array(default_array_type()) if dtype is None else dtype
    if not isinstance(d, DType) or d.array_type.name not in ("float32", "float64"):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {d}")
    return d


def _places(name: str, M: int, span: Callable[[], tuple[float, float]], shape: Callable, dtype: DType | None, layout: Any,
            device: Any, requires_grad: bool) -> Any:
    """shape(M places from the first to the last of span()); 1 for the window of one place."""
    d = _checked(name, M, dtype, layout)
    options = {"dtype": d, "device": device, "requires_grad": requires_grad}
    if M == 0:
        return REGISTRY["empty"].fn((0,), **options)
    if M == 1:
        return REGISTRY["ones"].fn((1,), **options)
    start, end = span()
    return shape(linspace(start, end, M, **options))


def _samples(t: Any) -> list:
    return [call(7), call(6, sym=False), call(1), call(0), call(5, dtype=t.library.float64)]


def _errors(t: Any) -> list:
    return [(call(-1), ValueError, "non-negative window length"),
            (call(3, dtype=t.library.int64), ValueError, "expects float32 or float64")]


@_window(_samples, _errors)
def bartlett(M: int, *, sym: bool = True, dtype: DType | None = None, layout: Any = None, device: Any = None,
             requires_grad: bool = False) -> Any:
    """The Bartlett window, a triangle that begins and ends at 0.

    >>> flambeau.signal.windows.bartlett(5).tolist()
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    return _places("bartlett", M, lambda: (-1.0, -1 + (M - 1) * 2 / (M - 1 if sym else M)), lambda k: 1 - ops.abs(k),
                   dtype, layout, device, requires_grad)


@_window(_samples, _errors)
def cosine(M: int, *, sym: bool = True, dtype: DType | None = None, layout: Any = None, device: Any = None,
           requires_grad: bool = False) -> Any:
    """The cosine window, half a period of the sine.

    >>> flambeau.signal.windows.cosine(1).tolist()
    [1.0]
    """
    step = math.pi / (M if sym else M + 1) if M > 0 else 0.0
    return _places("cosine", M, lambda: (0.5 * step, (0.5 + M - 1) * step), lambda k: ops.sin(k), dtype, layout, device,
                   requires_grad)


@_window(lambda t: [call(7), call(6, sym=False, center=2.0, tau=0.7), call(1), call(0)],
         lambda t: [(call(4, tau=0), ValueError, "Tau must be positive"),
                    (call(4, center=1.0), ValueError, "Center must be None for symmetric windows"), *_errors(t)])
def exponential(M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, dtype: DType | None = None,
                layout: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """The exponential, or Poisson, window: exp(-|n - center| / tau).

    Args:
        center: of a periodic window only; default the middle.

    >>> flambeau.signal.windows.exponential(1).tolist()
    [1.0]
    """
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    middle = (M if not sym and M > 1 else M - 1) / 2 if center is None else center
    return _places("exponential", M, lambda: (-middle / tau, (-middle + M - 1) / tau), lambda k: ops.exp(-ops.abs(k)), dtype,
                   layout, device, requires_grad)


@_window(lambda t: [call(7), call(6, sym=False, std=0.7), call(1), call(0)],
         lambda t: [(call(4, std=-1), ValueError, "Standard deviation must be positive"), *_errors(t)])
def gaussian(M: int, *, std: float = 1.0, sym: bool = True, dtype: DType | None = None, layout: Any = None,
             device: Any = None, requires_grad: bool = False) -> Any:
    """The Gaussian window, of standard deviation std places.

    >>> flambeau.signal.windows.gaussian(1).tolist()
    [1.0]
    """
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    start, scale = -(M if not sym and M > 1 else M - 1) / 2, 1 / (std * math.sqrt(2))
    return _places("gaussian", M, lambda: (start * scale, (start + M - 1) * scale), lambda k: ops.exp(-(k * k)), dtype,
                   layout, device, requires_grad)


@_window(lambda t: [call(7), call(6, sym=False, beta=3.0), call(1), call(0)],
         lambda t: [(call(4, beta=-1.0), ValueError, "beta must be non-negative"), *_errors(t)])
def kaiser(M: int, *, beta: float = 12.0, sym: bool = True, dtype: DType | None = None, layout: Any = None,
           device: Any = None, requires_grad: bool = False) -> Any:
    """The Kaiser window: I0(beta * sqrt(1 - x ** 2)) / I0(beta), x from -1 to 1.

    >>> flambeau.signal.windows.kaiser(1).tolist()
    [1.0]
    """
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")

    def shape(k: Any) -> Any:
        return ops.i0(ops.sqrt(beta * beta - k * k)) / ops.i0(make(np.asarray(beta, dtype_of(k))))

    # rounding must not take the last place beyond beta, where the root is nan
    return _places("kaiser", M, lambda: (-beta, min(beta, -beta + (M - 1) * 2 * beta / (M - 1 if sym else M))), shape, dtype,
                   layout, device, requires_grad)


def _cosines(name: str, M: int, a: list, sym: bool, *options: Any) -> Any:
    if not a:
        raise ValueError("Coefficients cannot be empty")

    def shape(k: Any) -> Any:
        terms = [ops.cos(k * i) * (weight if i % 2 == 0 else -weight) for i, weight in enumerate(a)]
        out = terms[0]
        for term in terms[1:]:
            out = out + term
        return out

    return _places(name, M, lambda: (0.0, (M - 1) * 2 * math.pi / (M - 1 if sym else M)), shape, *options)


@_window(lambda t: [call(7, a=[0.4, 0.3, 0.2]), call(6, a=(0.5, 0.5), sym=False), call(1, a=[1]), call(0, a=[1])],
         lambda t: [(call(4, a=[]), ValueError, "Coefficients cannot be empty"),
                    (call(4, a=3), TypeError, "must be a list")])
def general_cosine(M: int, *, a: Iterable, sym: bool = True, dtype: DType | None = None, layout: Any = None,
                   device: Any = None, requires_grad: bool = False) -> Any:
    """A sum of cosines with alternating signs: a[0] - a[1] cos(x) + a[2] cos(2 x) - ..., x from 0 to 2 pi.

    >>> flambeau.signal.windows.general_cosine(3, a=[0.5, 0.5]).round(decimals=3).tolist()
    [0.0, 1.0, 0.0]
    """
    if not isinstance(a, Iterable):
        raise TypeError("Coefficients must be a list/tuple")
    return _cosines("general_cosine", M, list(a), sym, dtype, layout, device, requires_grad)


@_window(lambda t: [call(7), call(6, alpha=0.7, sym=False), call(1), call(0)], _errors)
def general_hamming(M: int, *, alpha: float = 0.54, sym: bool = True, dtype: DType | None = None, layout: Any = None,
                    device: Any = None, requires_grad: bool = False) -> Any:
    """alpha - (1 - alpha) cos(x), x from 0 to 2 pi.

    >>> flambeau.signal.windows.general_hamming(1).tolist()
    [1.0]
    """
    return _cosines("general_hamming", M, [alpha, 1.0 - alpha], sym, dtype, layout, device, requires_grad)


_WEIGHTS = {
    "hann": ([0.5, 0.5], "The Hann window: 0.5 - 0.5 cos(x)."),
    "hamming": ([0.54, 0.46], "The Hamming window: 0.54 - 0.46 cos(x)."),
    "blackman": ([0.42, 0.5, 0.08], "The Blackman window: 0.42 - 0.5 cos(x) + 0.08 cos(2 x)."),
    "nuttall": ([0.3635819, 0.4891775, 0.1365995, 0.0106411],
                "The minimum four-term window of Blackman-Harris, by Nuttall."),
}


def _of_weights(name: str, weights: list, doc: str) -> None:
    def window(M: int, *, sym: bool = True, dtype: DType | None = None, layout: Any = None, device: Any = None,
               requires_grad: bool = False) -> Any:
        return _cosines(name, M, list(weights), sym, dtype, layout, device, requires_grad)

    window.__name__ = window.__qualname__ = name
    window.__doc__ = doc + f"\n\n>>> flambeau.signal.windows.{name}(1).tolist()\n[1.0]\n"
    _window(_samples, _errors)(window)


for _name, (_weights, _doc) in _WEIGHTS.items():
    _of_weights(_name, _weights, _doc)
