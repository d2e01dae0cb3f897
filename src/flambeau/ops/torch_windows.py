"""The windows under their older names in `torch`: hann_window and others, periodic by default."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from flambeau.core.dtype import DType, dtype_of_array
from flambeau.core.objects import make
from flambeau.kernels.services import default_array_type, is_float

from . import special_functions  # noqa: F401  it registers i0
from ._args import integer, np_dtype
from ._factory import finish, to_device
from ._record import REGISTRY, call, public


def _values(name: str, n: int, periodic: bool, dtype: DType | None, formula: Callable[[np.ndarray, int], np.ndarray],
            requires_grad: bool, device: Any) -> Any:
    """formula(places 0, 1, ..., number of the last place of a symmetric window), computed in the window's dtype."""
    d = default_array_type() if dtype is None else np_dtype(dtype)
    if not is_float(d):
        raise RuntimeError(f"{name} expects floating point dtypes, got: {dtype_of_array(d)}")
    if n < 0:
        raise RuntimeError(f"{name} requires non-negative window_length, got window_length={n}")
    if d.kind == "c":
        raise NotImplementedError(f'"{name}" not implemented for {d.name!r}: windows are real')
    if n < 2:
        values = np.ones(n, d)
    else:
        wide = np.dtype("f4") if d.itemsize == 2 else d
        places = np.arange(n, dtype=wide)
        values = formula(places, n if periodic else n - 1).astype(d, copy=False)
    return finish(np.asarray(values), requires_grad) if device is None else to_device(finish(values, requires_grad), device)


def _samples(t: Any) -> list:
    return [call(7), call(6, False), call(1), call(0), call(5, dtype=t.library.float64)]


def _errors(t: Any) -> list:
    return [(call(-1), RuntimeError, "non-negative window_length"), (call(4.5), TypeError, "window_length"),
            (call(3, dtype=t.library.int64), RuntimeError, "expects floating point dtypes")]


def _window(name: str, doc: str, formula: Callable, extra: tuple = ()) -> None:
    """Register torch.<name>(window_length, periodic=True, <extra parameters>, *, dtype=None, ...)."""

    def build(n: Any, periodic: Any, values: tuple, dtype: Any, layout: Any, device: Any, requires_grad: bool) -> Any:
        n = integer(n, name, "window_length")
        if layout is not None and str(layout) != "torch.strided":
            raise RuntimeError(f"{name} is not implemented for the layout {layout}: windows are strided")
        return _values(name, n, bool(periodic), dtype, lambda places, last: formula(places, last, *values), requires_grad,
                       device)

    if not extra:
        def window(window_length: int, periodic: bool = True, *, dtype: DType | None = None, layout: Any = None,
                   device: Any = None, pin_memory: bool = False, requires_grad: bool = False) -> Any:
            return build(window_length, periodic, (), dtype, layout, device, requires_grad)
    elif name == "hamming_window":
        def window(window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, *,  # type: ignore[misc]
                   dtype: DType | None = None, layout: Any = None, device: Any = None, pin_memory: bool = False,
                   requires_grad: bool = False) -> Any:
            return build(window_length, periodic, (alpha, beta), dtype, layout, device, requires_grad)
    else:
        def window(window_length: int, periodic: bool = True, beta: float = 12.0, *,  # type: ignore[misc]
                   dtype: DType | None = None, layout: Any = None, device: Any = None, pin_memory: bool = False,
                   requires_grad: bool = False) -> Any:
            return build(window_length, periodic, (beta,), dtype, layout, device, requires_grad)

    window.__name__ = window.__qualname__ = name
    window.__doc__ = (f"{doc} With periodic=False it is symmetric.\n\nArgs:\n    window_length: number of places.\n\n"
                      f"Returns:\n    Tensor (window_length,).\n\n>>> flambeau.{name}(1).tolist()\n[1.0]\n")
    more = [call(7, True, *extra)] if extra else []
    public(method=False, out=False, differentiable=False, samples=lambda t: [*_samples(t), *more], errors=_errors)(window)


def _turn(places: np.ndarray, last: int, times: int = 1) -> np.ndarray:
    return np.cos(places * places.dtype.type(2 * times * math.pi / last))


def _kaiser(places: np.ndarray, last: int, beta: float) -> np.ndarray:
    half = places.dtype.type(last / 2)
    inside = np.maximum(1 - ((places - half) / half) ** 2, 0)
    i0 = REGISTRY["i0"].fn
    return i0(make(places.dtype.type(beta) * np.sqrt(inside))).numpy() / i0(make(np.asarray(beta, places.dtype))).numpy()


_window("hann_window", "The Hann window, 0.5 - 0.5 cos(x).", lambda k, n: 0.5 - 0.5 * _turn(k, n))
_window("hamming_window", "The Hamming window, alpha - beta cos(x).",
        lambda k, n, alpha, beta: k.dtype.type(alpha) - k.dtype.type(beta) * _turn(k, n), (0.5, 0.4))
_window("blackman_window", "The Blackman window, 0.42 - 0.5 cos(x) + 0.08 cos(2 x).",
        lambda k, n: 0.08 * _turn(k, n, 2) - 0.5 * _turn(k, n) + 0.42)
_window("bartlett_window", "The Bartlett window, a triangle.", lambda k, n: 1 - np.abs(k * k.dtype.type(2 / n) - 1))
_window("kaiser_window", "The Kaiser window: I0(beta * sqrt(1 - x ** 2)) / I0(beta), x from -1 to 1.", _kaiser, (3.0,))
