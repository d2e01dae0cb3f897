"""Losses of numbers against numbers: mse, l1, smooth_l1, huber; and what all losses share.

mse, smooth_l1 and huber are one primitive each, reduction included: a training step calls one kernel forward and one
backward. Their derivatives are fused kernels on arrays and compositions when a backward is itself recorded.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from flambeau.core.apply import apply_n
from flambeau.core.dtype import dtype_of_array
from flambeau.core.objects import TensorBase, dtype_of, shape_of
from flambeau.core.origin import warn_user
from flambeau.core.state import state
from flambeau.kernels import loss as kernel
from flambeau.kernels import reduce as k
from flambeau.kernels.services import is_float

from ._args import tensor
from ._pointwise import common, fused
from ._record import KERNEL, call, primitive, public
from ._shapes import loss

_REDUCTIONS = ("none", "mean", "sum")

# --------------------------------------------------------------------------------- shared by all losses


def functional(samples: Any, **options: Any) -> Any:
    """A record under `nn.functional` alone."""
    return public(namespaces=("nn.functional",), method=False, out=False, samples=samples, **options)


def reduction_of(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """The reduction, by its name or by PyTorch's two old flags; ValueError for another name."""
    if size_average is not None or reduce is not None:
        reduction = "none" if reduce is False else "sum" if size_average is False else "mean"
        warn_user(f"size_average and reduce args are deprecated: write reduction='{reduction}', which means the "
                  "same.")
    if reduction not in _REDUCTIONS:
        raise ValueError(f"{reduction} is not a valid value for reduction: give 'none', 'mean' or 'sum'")
    return reduction


def reduced(values: Any, reduction: str) -> Any:
    """Values of a loss (Tensor), averaged, added or as they are."""
    return values.mean() if reduction == "mean" else values.sum() if reduction == "sum" else values


def reduced_array(values: np.ndarray, reduction: str) -> np.ndarray:
    """The same on arrays."""
    return k.mean(values) if reduction == "mean" else k.sum_all(values) if reduction == "sum" else values


def share(g: Any, shape: tuple, reduction: str) -> Any:
    """The gradient of one of the values that were reduced: a scalar that broadcasts to them."""
    return g * (1.0 / (prod(shape) or 1)) if reduction == "mean" else g


def size_text(t: TensorBase) -> str:
    return f"torch.Size({list(shape_of(t))})"


def warn_sizes(input: TensorBase, target: TensorBase) -> None:
    """Different sizes are broadcast, which is rarely meant."""
    warn_user(
        f"Using a target size ({size_text(target)}) that is different to the input size ({size_text(input)}). This "
        "will likely lead to incorrect results due to broadcasting: every element of one meets several of the other. "
        "Please ensure they have the same size, for example with target.view_as(input) or "
        "input.squeeze(1).")


def refuse_dtype(name: str, d: np.dtype) -> NotImplementedError:
    public_name = str(dtype_of_array(d)).removeprefix("torch.")
    return NotImplementedError(f'"{name}" not implemented for {public_name!r}: convert input and target to a floating '
                               'dtype, '
                               "for example with .float().")


def real_floats(name: str, input: Any, target: Any) -> tuple[Any, Any]:
    """Input and target as real floating tensors of one dtype, with the warning when their sizes differ."""
    if not isinstance(input, TensorBase) or not isinstance(target, TensorBase):
        tensor(input, name)
        tensor(target, name, "target", 2)
    d = dtype_of(input)
    if dtype_of(target) is not d:
        input, target = common(input, target)
        d = dtype_of(input)
    if d is not state.f32 and d is not state.f64 and (d.kind == "c" or not is_float(d)):
        raise refuse_dtype(name, d)
    if shape_of(input) != shape_of(target):
        warn_sizes(input, target)
    return input, target


def both(gradient: Any, needs: list) -> tuple:
    """Gradients of input and target where the loss depends on their difference."""
    return gradient if needs[0] else None, -gradient if needs[1] else None


def _broadcast(a: Any, b: Any) -> tuple:
    return a.shape if a.shape == b.shape else np.broadcast_shapes(a.shape, b.shape)


# --------------------------------------------------------------------------------- squares


def _mse(x: np.ndarray, target: np.ndarray, reduction: str) -> Any:
    d = np.subtract(x, target)
    if reduction == "none":
        return d * d
    flat = d.reshape(-1)
    if d.dtype.itemsize == 2:
        flat = flat.astype(np.float32)
    total = flat.dot(flat)
    if reduction == "mean":
        total = total / total.dtype.type(flat.size)
    return total if total.dtype is d.dtype else total.astype(d.dtype)


def _mse_backward(g: np.ndarray, x: np.ndarray, target: np.ndarray, reduction: str) -> Any:
    d = np.subtract(x, target)
    if reduction == "none":
        return g * d * 2
    return np.multiply(d, g * (2.0 / (d.size or 1) if reduction == "mean" else 2.0))


fused("mse_loss_backward", _mse_backward, lambda xp, g, a, target, reduction: (
    (a - target) * (share(g, _broadcast(a, target), reduction) * 2)))
MSE = primitive("mse_loss", _mse, inputs=("self", "target"), params=("reduction",), meta=loss(2), batch="loss", expr=KERNEL,
                joint=lambda xp, g, needs, self, target, reduction:
                both(xp.mse_loss_backward(g, self, target, reduction), needs))


def _samples(t: Any) -> list:
    return [call(t(3, 4), t(3, 4, grad=False)), call(t(3, 4), t(3, 4), reduction="sum"),
            call(t(3, 4, transposed=True), t(3, 4), reduction="none"), call(t(), t()), call(t(3, 1), t(3)),
            call(t(0, 2), t(0, 2), reduction="sum")]


_ERRORS = (lambda t: [(call(t(3), t(3), reduction="some"), ValueError, "not a valid value for reduction"),  # noqa: E731
                      (call(t(3), t(4)), RuntimeError, "must match the size"),
                      (call(t(3, dtype="complex64"), t(3, dtype="complex64")), NotImplementedError, "not implemented "
                          "for")])


def _weighted(values: Any, weight: Any, input: Any, reduction: str, by_weight: bool) -> Any:
    if shape_of(tensor(weight, "loss", "weight")) != shape_of(input):
        raise ValueError(f"Weights and input must have the same size: got {size_text(weight)} and {size_text(input)}.")
    values = values * weight
    if reduction == "mean" and by_weight:
        return values.sum() / weight.sum()
    return reduced(values, reduction)


@functional(_samples, op=MSE, errors=_ERRORS)
def mse_loss(input: Any, target: Any, size_average: bool | None = None, reduce: bool | None = None,
             reduction: str = "mean", weight: Any = None) -> Any:
    """(input - target)^2, averaged.

    Args:
        input, target: floating tensors of the same shape (*); other shapes broadcast, with a warning.
        reduction: "mean", "sum" or "none". size_average, reduce: PyTorch's old names of it.
        weight: of each element, shape (*); "mean" then divides by the sum of weights.

    Raises:
        ValueError: another reduction, or weight of another shape.
        NotImplementedError: integers or complex numbers.

    >>> flambeau.nn.functional.mse_loss(flambeau.tensor([1., 2.]), flambeau.tensor([1., 4.])).item()
    2.0
    """
    if size_average is not None or reduce is not None or reduction not in _REDUCTIONS:
        reduction = reduction_of(size_average, reduce, reduction)
    input, target = real_floats("mse_loss", input, target)
    if weight is not None:
        return _weighted(apply_n(MSE, [input, target], ("none",)), weight, input, reduction, True)
    return apply_n(MSE, [input, target], (reduction,))


# --------------------------------------------------------------------------------- absolute differences


@functional(_samples, errors=lambda t: _ERRORS(t)[:2])
def l1_loss(input: Any, target: Any, size_average: bool | None = None, reduce: bool | None = None,
            reduction: str = "mean", weight: Any = None) -> Any:
    """|input - target|, averaged; see `mse_loss`.

    >>> flambeau.nn.functional.l1_loss(flambeau.tensor([1., 2.]), flambeau.tensor([1., 4.])).item()
    1.0
    """
    reduction = reduction_of(size_average, reduce, reduction)
    tensor(input, "l1_loss")
    tensor(target, "l1_loss", "target", 2)
    if shape_of(input) != shape_of(target):
        warn_sizes(input, target)
    values = (input - target).abs()
    return reduced(values, reduction) if weight is None else _weighted(values, weight, input, reduction, True)


def _smooth_composed(xp: Any, g: Any, a: Any, target: Any, beta: float) -> Any:
    d = a - target
    if beta == 0:
        return g * xp.sign(d)
    outside = xp.abs(d) >= beta
    return xp.drop(g * (d / beta), outside) + xp.keep(g * xp.sign(d), outside)


def _huber_composed(xp: Any, g: Any, a: Any, target: Any, delta: float) -> Any:
    d = a - target
    outside = xp.abs(d) >= delta        # at the knee the second derivative is that outside, 0
    return xp.drop(g * d, outside) + xp.keep(g * xp.sign(d) * delta, outside)


fused("smooth_l1_loss_backward", kernel.smooth_l1_backward, _smooth_composed)
fused("huber_loss_backward", kernel.huber_backward, _huber_composed)
SMOOTH_L1 = primitive(
    "smooth_l1_loss", lambda x, target, beta, reduction: reduced_array(kernel.smooth_l1(x, target, beta), reduction),
    inputs=("self", "target"), params=("beta", "reduction"), scalars=("beta",), node="SmoothL1LossBackward0", meta=loss(2),
    batch="loss", expr=KERNEL,
    joint=lambda xp, g, needs, self, target, beta, reduction: both(
        xp.smooth_l1_loss_backward(share(g, _broadcast(self, target), reduction), self, target, beta), needs))
HUBER = primitive(
    "huber_loss", lambda x, target, delta, reduction: reduced_array(kernel.huber(x, target, delta), reduction),
    inputs=("self", "target"), params=("delta", "reduction"), scalars=("delta",), meta=loss(2), batch="loss", expr=KERNEL,
    joint=lambda xp, g, needs, self, target, delta, reduction: both(
        xp.huber_loss_backward(share(g, _broadcast(self, target), reduction), self, target, delta), needs))


@functional(lambda t: [*_samples(t), call(t(3, 4), t(3, 4), beta=0.3)], op=SMOOTH_L1, errors=lambda t: [
    *_ERRORS(t), (call(t(3), t(3), beta=-1.0), RuntimeError, "does not support negative values for beta")])
def smooth_l1_loss(input: Any, target: Any, size_average: bool | None = None, reduce: bool | None = None,
                   reduction: str = "mean", beta: float = 1.0) -> Any:
    """d^2 / (2 beta) where |d| < beta, else |d| - beta / 2, for d = input - target, averaged; see `mse_loss`.

    Raises:
        RuntimeError: beta is negative.

    Source: Girshick, arXiv:1504.08083.

    >>> flambeau.nn.functional.smooth_l1_loss(flambeau.tensor([1., 2.]), flambeau.tensor([1., 4.])).item()
    0.75
    """
    reduction = reduction_of(size_average, reduce, reduction)
    if beta < 0:
        raise RuntimeError(f"smooth_l1_loss does not support negative values for beta, got {beta}.")
    if beta == 0:
        return l1_loss(input, target, reduction=reduction)
    input, target = real_floats("smooth_l1_loss", input, target)
    return apply_n(SMOOTH_L1, [input, target], (beta, reduction))


@functional(lambda t: [*_samples(t), call(t(3, 4), t(3, 4), delta=0.3)], op=HUBER, errors=lambda t: [
    *_ERRORS(t)[:2], (call(t(3), t(3), delta=0.0), RuntimeError, "does not support non-positive values for delta")])
def huber_loss(input: Any, target: Any, reduction: str = "mean", delta: float = 1.0, weight: Any = None) -> Any:
    """d^2 / 2 where |d| <= delta, else delta (|d| - delta / 2), for d = input - target, averaged; see `mse_loss`.

    Args:
        weight: of each element; the mean is over their number.

    Raises:
        RuntimeError: delta is not positive.

    Source: Huber, Annals of Mathematical Statistics 35, 1964.

    >>> flambeau.nn.functional.huber_loss(flambeau.tensor([1., 2.]), flambeau.tensor([1., 4.])).item()
    0.75
    """
    reduction = reduction_of(None, None, reduction)
    if delta <= 0:
        raise RuntimeError(f"huber_loss does not support non-positive values for delta, got {delta}.")
    input, target = real_floats("huber_loss", input, target)
    if weight is not None:
        return _weighted(apply_n(HUBER, [input, target], (delta, "none")), weight, input, reduction, False)
    return apply_n(HUBER, [input, target], (delta, reduction))
