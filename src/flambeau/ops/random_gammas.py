"""Gamma and Dirichlet draws that are differentiable in their parameters; the library of distributions draws by them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from flambeau.core.apply import apply1, apply_n
from flambeau.core.objects import TensorBase, dtype_of
from flambeau.kernels import random_gradients, random_samplers

from ._args import tensor
from ._generator import Generator, generator_of
from ._pointwise import no_derivative
from ._record import KERNEL, call, primitive, public
from ._shapes import like


def _drawing(kernel: Callable) -> Callable:
    """The kernel, drawing under the lock of its last argument, a Generator."""

    def locked(alpha: np.ndarray, generator: Generator) -> np.ndarray:
        with generator.lock:
            return kernel(generator.engine, alpha)

    return locked


def _dirichlet_backward(xp: Any, g: Any, out: Any, self: Any) -> Any:
    """A concentration moves its own component, and the others in proportion: draw += own_i * (e_i - draw)."""
    own = xp.dirichlet_grad(out, self, xp.sum(self, (-1,), True))
    return own * (g - xp.sum(out * g, (-1,), True))


_GAMMA_GRAD = primitive("standard_gamma_grad", random_gradients.standard_gamma_grad, inputs=("self", "output"),
                        pointwise=True, same_dtype=True, expr=KERNEL,
                        self=no_derivative("_standard_gamma_grad"), output=no_derivative("_standard_gamma_grad"))
_DIRICHLET_GRAD = primitive("dirichlet_grad", random_gradients.dirichlet_grad, inputs=("x", "alpha", "total"),
                            pointwise=True, same_dtype=True, expr=KERNEL, x=no_derivative("_dirichlet_grad"),
                            alpha=no_derivative("_dirichlet_grad"), total=no_derivative("_dirichlet_grad"))
_GAMMA = primitive("standard_gamma", _drawing(random_samplers.standard_gamma), params=("generator",), random=True,
                   meta=like(), expr=KERNEL, self=lambda xp, g, self, out: g * xp.standard_gamma_grad(self, out))
_DIRICHLET = primitive("sample_dirichlet", _drawing(random_samplers.dirichlet), params=("generator",), random=True,
                       meta=like(), expr=KERNEL, self=_dirichlet_backward)


def _checked(function: str, kernel: str, *values: Any) -> list[TensorBase]:
    """The arguments as tensors of one dtype, float32 or float64."""
    found = [tensor(value, function, name, place)
             for place, (name, value) in enumerate(zip(("input", "output", "total"), values, strict=False), 1)]
    first = dtype_of(found[0])
    if first.name not in ("float32", "float64"):
        raise NotImplementedError(f'"{kernel}" not implemented for dtype {first.name}: use float32 or float64')
    for t in found[1:]:
        if dtype_of(t) is not first:
            raise RuntimeError(f"{function}(): Found dtype {dtype_of(t).name} but expected {first.name}, that of the first "
                               "argument. Convert one of them.")
    return found


@public(method=False, out=False, differentiable=False, random=True, samples=lambda t: [call(t(3, 4, low=0.1, high=5.0))],
        errors=lambda t: [(call(t(2, dtype="int64")), NotImplementedError, "gamma_cpu")])
def _standard_gamma(input: Any, generator: Generator | None = None) -> Any:
    """Gamma draws of the shape parameters in input and scale 1, differentiable in them (once).

    Args:
        input: shape parameters, positive, float32 or float64, of any shape (*).
        generator: the stream to draw from; by default the one that `torch.manual_seed` seeds.

    Returns:
        Tensor of shape (*), dtype of input. Its gradient is that of the draw's quantile held fixed.

    Raises:
        NotImplementedError: another dtype; a second derivative.

    Sources: Marsaglia and Tsang, 2000, ACM TOMS 26(3). Figurnov et al., 2018, arXiv:1805.08498.

    >>> _ = flambeau.manual_seed(1)
    >>> flambeau._standard_gamma(flambeau.tensor([0.5, 5.0])).shape
    torch.Size([2])
    """
    return apply1(_GAMMA, _checked("_standard_gamma", "gamma_cpu", input)[0], (generator_of(generator, "_standard_gamma"),))


@public(method=False, out=False, differentiable=False, random=True, samples=lambda t: [call(t(3, 4, low=0.1, high=5.0))],
        errors=lambda t: [(call(t(2, dtype="int64")), NotImplementedError, "dirichlet")])
def _sample_dirichlet(input: Any, generator: Generator | None = None) -> Any:
    """Dirichlet draws along the last dimension, of the concentrations in input, differentiable in them (once).

    Args:
        input: concentrations, positive, float32 or float64, of shape (*, K).
        generator: the stream to draw from; by default the one that `torch.manual_seed` seeds.

    Returns:
        Tensor of shape (*, K), dtype of input; sums to 1 along the last dimension.

    Raises:
        NotImplementedError: another dtype; a second derivative.

    >>> _ = flambeau.manual_seed(1)
    >>> flambeau._sample_dirichlet(flambeau.ones(2, 3)).sum(-1)
    tensor([1., 1.])
    """
    t = _checked("_sample_dirichlet", "dirichlet", input)[0]
    return apply1(_DIRICHLET, t, (generator_of(generator, "_sample_dirichlet"),))


@public(method=False, out=False, differentiable=False,
        samples=lambda t: [call(t(3, 4, low=0.1, high=20.0), t(3, 4, low=0.1, high=20.0))],
        errors=lambda t: [(call(t(2), t(2, dtype="float64")), RuntimeError, "Found dtype")])
def _standard_gamma_grad(self: Any, output: Any) -> Any:
    """The derivative of gamma draws by their shape parameters, the draw's quantile held fixed, elementwise.

    Args:
        self: the shape parameters. output: the draws. float32 or float64, one dtype; they broadcast together.

    Raises:
        NotImplementedError: another dtype.
        RuntimeError: different dtypes.

    >>> flambeau._standard_gamma_grad(flambeau.tensor([1.0]), flambeau.tensor([1.0])).shape
    torch.Size([1])
    """
    return apply_n(_GAMMA_GRAD, _checked("_standard_gamma_grad", "_standard_gamma_grad_cpu", self, output))


@public(method=False, out=False, differentiable=False,
        samples=lambda t: [call(t(3, 4, low=0.1, high=0.9), t(3, 4, low=0.5, high=3.0), t(3, 1, low=4.0, high=9.0))],
        errors=lambda t: [(call(t(2), t(2, dtype="float64"), t(2)), RuntimeError, "Found dtype")])
def _dirichlet_grad(x: Any, alpha: Any, total: Any) -> Any:
    """The derivative of components of Dirichlet draws by their own concentrations, over 1 - x, the quantile held fixed.

    Args:
        x: the components. alpha: their concentrations. total: the sum of concentrations. float32 or float64, one
            dtype; they broadcast together.

    Raises:
        NotImplementedError: another dtype.
        RuntimeError: different dtypes.

    >>> flambeau._dirichlet_grad(flambeau.tensor([0.5]), flambeau.tensor([1.0]), flambeau.tensor([2.0])).shape
    torch.Size([1])
    """
    return apply_n(_DIRICHLET_GRAD, _checked("_dirichlet_grad", "_dirichlet_grad_cpu", x, alpha, total))
