"""Dropout: `dropout`, of whole channels, and the forms that keep the mean and variance of SELU networks.

All are a product with noise that is drawn once: its derivative needs nothing of its own.
Source: Hinton et al., 2012, arXiv:1207.0580; Tompson et al., 2015, arXiv:1411.4280 (channels); Klambauer et al., 2017,
arXiv:1706.02515 (alpha).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from flambeau.core.apply import apply1, apply2
from flambeau.core.inplace import apply_inplace2
from flambeau.core.objects import TensorBase, dtype_of, make, shape_of
from flambeau.core.op import slot
from flambeau.core.origin import warn_user
from flambeau.kernels import random

from ._args import tensor
from ._generator import default_generator
from ._meta import Meta, preserved
from ._record import KERNEL, call, primitive, public

_MUL, _ADD = slot("mul"), slot("add")
_SELU_FLOOR = 1.7580993408473766     # SELU's lower limit, scale * alpha, without its sign


def _noise(a: np.ndarray, keep: float, scaled: bool, channels: int, generator: Any) -> np.ndarray:
    """1 with probability keep (divided by keep, when scaled), else 0.

    In the shape and memory order of a; or with `channels` leading dimensions of a, the others being 1.
    """
    with generator.lock:
        if channels == 0:
            out = random.like(random.bernoulli, random.bernoulli_, generator.engine, a, keep)
        else:
            out = random.bernoulli(generator.engine, a.shape[:channels] + (1,) * (a.ndim - channels), keep, a.dtype)
    if scaled:
        out *= _inverse(keep, a.dtype)
    return out


@lru_cache(maxsize=256)
def _inverse(keep: float, d: np.dtype) -> np.ndarray:
    """1 / keep in dtype d; the halves divide in float32."""
    wide = np.float32 if d.itemsize == 2 else d.type
    return np.asarray(wide(1) / wide(keep)).astype(d)


def _noise_shape(self: Meta, keep: float, scaled: bool, channels: int, generator: Any) -> Meta:
    if channels == 0:
        return Meta(self.shape, self.dtype, preserved(self))
    return Meta(self.shape[:channels] + (1,) * (self.ndim - channels), self.dtype)


NOISE = primitive("dropout_noise", _noise, params=("keep", "scaled", "channels", "generator"), scalars=("keep",),
                  differentiable=False, random=True, meta=_noise_shape, expr=KERNEL)


def _product(input: TensorBase, noise: TensorBase, inplace: bool) -> Any:
    return apply_inplace2(_MUL, input, noise) if inplace else apply2(_MUL, input, noise)


def _drop(input: Any, p: Any, training: bool, inplace: bool, channels: int = 0, alpha: bool = False,
          function: str = "dropout", error: type = RuntimeError) -> Any:
    t = tensor(input, function)
    if not 0.0 <= p <= 1.0:
        raise error(f"dropout probability has to be between 0 and 1, but got {p}")
    if p == 0 or not training or 0 in shape_of(t):
        return t
    d = dtype_of(t)
    if p == 1:
        return _product(t, make(np.zeros((), d)), inplace)
    if channels and len(shape_of(t)) < channels:
        raise RuntimeError(f"{function}: Feature dropout requires at least {channels} dimensions in the input, got shape "
                           f"{list(shape_of(t))}")
    if d.kind in "biu":
        raise RuntimeError(f"{function}: result type Float can't be cast to the desired output type {d.name}: drop out of a "
                           "floating tensor")
    if d.kind == "c":
        raise NotImplementedError(f'"{function}" not implemented for dtype {d.name}: drop out of a real tensor')
    keep = 1.0 - p
    noise = apply1(NOISE, t, (keep, not alpha, channels, default_generator))
    if not alpha:
        return _product(t, noise, inplace)
    scale = 1.0 / math.sqrt((_SELU_FLOOR * _SELU_FLOOR * p + 1.0) * keep)
    shift = noise.add(-1).mul_(_SELU_FLOOR * scale).add_(_SELU_FLOOR * scale * p)
    return apply_inplace2(_ADD, _product(t, noise.mul_(scale), inplace), shift)


# -------------------------------------------------------------------------------------------- nn.functional


def _samples(t: Any) -> list:
    return [call(t(3, 4), 0.5), call(t(3, 4, transposed=True), 0.3), call(t(3, 4), 0.3, False), call(t(3, 4), 1.0)]


def _channel_samples(t: Any) -> list:
    return [call(t(3, 4, 2), 0.5), call(t(3, 4, 2), 0.3, False)]


_REFUSED = {"errors": lambda t: [(call(t(3, 4, 2), 1.5), ValueError, "between 0 and 1")]}


@public(namespaces=("nn.functional",), method=False, random=True, samples=_samples, **_REFUSED)
def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Zeroes each element with probability p, and divides the others by 1 - p.

    Args:
        p: in [0, 1].
        training: without it the result is input itself.
        inplace: write the result into input.

    Raises:
        ValueError: p outside [0, 1].

    >>> _ = flambeau.manual_seed(0)
    >>> flambeau.nn.functional.dropout(flambeau.ones(4), 0.5).tolist()
    [0.0, 0.0, 2.0, 0.0]
    """
    return _drop(input, p, training, inplace, error=ValueError)


@public(namespaces=("nn.functional",), method=False, random=True, samples=lambda t: [call(t(3, 4), 0.5, True)], **_REFUSED)
def alpha_dropout(input: Any, p: float = 0.5, training: bool = False, inplace: bool = False) -> Any:
    """Sets each element to SELU's lower limit with probability p, then restores mean and variance by a linear map."""
    return _drop(input, p, training, inplace, alpha=True, function="alpha_dropout", error=ValueError)


@public(namespaces=("nn.functional",), method=False, random=True, samples=_channel_samples, **_REFUSED)
def dropout1d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Zeroes whole channels of (N, C, L) or (C, L) with probability p, and divides the others by 1 - p.

    Raises:
        ValueError: p outside [0, 1].
        RuntimeError: input has neither two nor three dimensions.
    """
    n_dims = len(shape_of(tensor(input, "dropout1d")))
    if n_dims not in (2, 3):
        raise RuntimeError(f"dropout1d: Expected 2D or 3D input, but received a {n_dims}D input: it zeroes channels of "
                           "(N, C, L) or (C, L). Use dropout for single elements.")
    return _drop(input, p, training, inplace, channels=n_dims - 1, function="dropout1d", error=ValueError)


@public(namespaces=("nn.functional",), method=False, random=True,
        samples=lambda t: [call(t(3, 4, 2, 2), 0.5), call(t(3, 4, 2, 2), 0.3, False)], **_REFUSED)
def dropout2d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Zeroes whole channels of (N, C, H, W) with probability p, and divides the others by 1 - p.

    Three dimensions are taken for (N, C, L), as PyTorch takes them (with a warning), not for (C, H, W).
    """
    n_dims = len(shape_of(tensor(input, "dropout2d")))
    if n_dims != 4:
        warn_user(
            f"dropout2d: received a {n_dims}-D input, taken for (N, C, ...): what shares the first two indices is dropped "
            "out together. Give (N, C, H, W), or use dropout1d for (N, C, L) and dropout for single elements.")
    return _drop(input, p, training, inplace, channels=2, function="dropout2d", error=ValueError)


@public(namespaces=("nn.functional",), method=False, random=True,
        samples=lambda t: [call(t(2, 3, 4, 2, 2), 0.5), call(t(3, 4, 2, 2), 0.3)], **_REFUSED)
def dropout3d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Zeroes whole channels of (N, C, D, H, W) or (C, D, H, W) with probability p, and divides the others by 1 - p."""
    n_dims = len(shape_of(tensor(input, "dropout3d")))
    if n_dims not in (4, 5):
        warn_user(
            f"dropout3d: received a {n_dims}-D input, whose first dimension is taken for channels. Give (N, C, D, H, W) or "
            "(C, D, H, W), or use dropout for single elements.")
    return _drop(input, p, training, inplace, channels=2 if n_dims == 5 else 1, function="dropout3d", error=ValueError)


@public(namespaces=("nn.functional",), method=False, random=True,
        samples=lambda t: [call(t(3, 4, 2), 0.5, True)], **_REFUSED)
def feature_alpha_dropout(input: Any, p: float = 0.5, training: bool = False, inplace: bool = False) -> Any:
    """As alpha_dropout, of whole channels of (N, C, ...)."""
    return _drop(input, p, training, inplace, channels=2, alpha=True, function="feature_alpha_dropout", error=ValueError)


# ---------------------------------------------------------------------------------------------------- torch


def _register(name: str, channels: int, alpha: bool) -> None:
    """torch.name(input, p, train) and torch.name_, which differ from nn.functional's in signature and error type."""

    def drop(input: Any, p: float, train: bool) -> Any:
        return _drop(input, p, train, False, channels, alpha, name)

    def drop_(input: Any, p: float, train: bool) -> Any:
        return _drop(input, p, train, True, channels, alpha, name + "_")

    for fn, public_name in ((drop, name), (drop_, name + "_")):
        fn.__name__ = fn.__qualname__ = public_name
        fn.__doc__ = f"`nn.functional.{name if channels == 0 or alpha else 'dropout2d'}` with no defaults" + (
            ", in place." if fn is drop_ else ".")
        public(name=public_name, method=False, out=False, random=True,
               samples=lambda t: [call(t(3, 4, 2), 0.5, True), call(t(3, 4, 2), 0.5, False)],
               errors=lambda t: [(call(t(3, 4), 1.5, True), RuntimeError, "between 0 and 1")])(fn)


for _name, _channels, _alpha in (("dropout", 0, False), ("alpha_dropout", 0, True), ("feature_dropout", 2, False),
                                 ("feature_alpha_dropout", 2, True)):
    _register(_name, _channels, _alpha)
