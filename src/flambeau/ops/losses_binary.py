"""Losses of probabilities and of yes-or-no answers: binary cross entropy, soft margins, Kullback-Leibler divergence.

Binary cross entropy and soft margin are one primitive each, reduction included, with derivatives in both arguments.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.apply import apply_n
from flambeau.core.objects import dtype_of, shape_of
from flambeau.core.origin import warn_user
from flambeau.kernels import loss as kernel
from flambeau.kernels.activations import log_sigmoid
from flambeau.kernels.services import is_float

from ._args import tensor
from ._pointwise import common, fused
from ._record import KERNEL, call, primitive
from ._shapes import loss
from .activations import logsigmoid
from .losses import _broadcast, functional, reduced, reduced_array, reduction_of, refuse_dtype, share, size_text
from .losses_classes import _name

# --------------------------------------------------------------------------------- primitives


def _bce(x: np.ndarray, target: np.ndarray, reduction: str) -> np.ndarray:
    values = kernel.bce(x, target)      # checks x
    if target.size and not (np.minimum.reduce(target, None) >= 0 and np.maximum.reduce(target, None) <= 1):
        raise RuntimeError("binary_cross_entropy: all elements of target should be between 0 and 1, got values from "
                           f"{np.min(target)} to {np.max(target)}.")
    return reduced_array(values, reduction)


def _bce_formula(xp: Any, g: Any, needs: list, self: Any, target: Any, reduction: str) -> tuple:
    g = share(g, _broadcast(self, target), reduction)
    return (xp.bce_backward(g, self, target) if needs[0] else None,
            g * (xp.log1p(-self) - xp.log(self)) if needs[1] else None)


fused("bce_backward", kernel.bce_backward, lambda xp, g, a, target:
      g * (a - target) / xp.clamp_min((1 - a) * a, 1e-12))
BCE = primitive("binary_cross_entropy", _bce, inputs=("self", "target"), params=("reduction",), may_raise=True, meta=loss(2),
                batch="loss", expr=KERNEL,
                joint=_bce_formula)


def _logits_composed(xp: Any, g: Any, a: Any, target: Any, pos_weight: Any) -> Any:
    if pos_weight is None:
        return g * (xp.sigmoid(a) - target)
    weighted = pos_weight * target
    return g * ((weighted + 1 - target) * xp.sigmoid(a) - weighted)


def _logits_formula(xp: Any, g: Any, needs: list, self: Any, target: Any, pos_weight: Any, reduction: str) -> tuple:
    g = share(g, _broadcast(self, target), reduction)
    by_target = by_weight = None
    if needs[1]:
        by_target = -(g * self) if pos_weight is None else -(g * (self + (pos_weight - 1) * xp.log_sigmoid(self)))
    if needs[2]:
        by_weight = -(g * target * xp.log_sigmoid(self))
    return xp.bce_with_logits_backward(g, self, target, pos_weight) if needs[0] else None, by_target, by_weight


fused("bce_with_logits_backward", kernel.bce_with_logits_backward, _logits_composed)
BCE_LOGITS = primitive(
    "binary_cross_entropy_with_logits",
    lambda x, target, pos_weight, reduction: reduced_array(kernel.bce_with_logits(x, target, pos_weight), reduction),
    inputs=("self", "target", "pos_weight"), params=("reduction",), meta=loss(3),
    batch="loss", expr=KERNEL, joint=_logits_formula)


def _soft_margin_formula(xp: Any, g: Any, needs: list, self: Any, target: Any, reduction: str) -> tuple:
    slope = -share(g, _broadcast(self, target), reduction) * xp.sigmoid(-(self * target))
    return slope * target if needs[0] else None, slope * self if needs[1] else None


SOFT_MARGIN = primitive(
    "soft_margin_loss", lambda x, target, reduction: reduced_array(-log_sigmoid(x * target), reduction),
    inputs=("self", "target"), params=("reduction",), meta=loss(2), batch="loss", expr=KERNEL, joint=_soft_margin_formula)


# --------------------------------------------------------------------------------- functions


def _pair(t: Any, low: float = -2.0, high: float = 2.0) -> list:
    kw = {"low": low, "high": high}
    return [(t(3, 4, **kw), t(3, 4, low=0.1, high=0.9, grad=False)),
            (t(3, 4, transposed=True, **kw), t(3, 4, low=0.1, high=0.9)),
            (t(**kw), t(low=0.1, high=0.9))]


def _samples(low: float, high: float) -> Any:
    def samples(t: Any) -> list:
        pairs = _pair(t, low, high)
        return [call(*pairs[0]), call(*pairs[1], reduction="none"), call(*pairs[2], reduction="sum"),
                call(t(2, 3, low=low, high=high), t(2, 3, low=0.1, high=0.9), t(3, low=0.5, high=1.5, grad=False))]

    return samples


@functional(_samples(0.1, 0.9), op=BCE, errors=lambda t: [
    (call(t(3), t(3, 1)), ValueError, "Using a target size"),
    (call(t(3, low=2.0, high=3.0), t(3)), RuntimeError, "all elements of input should be between 0 and 1"),
    (call(t(3, low=0.1, high=0.9), t(3, dtype="int64")), RuntimeError, "Found dtype Long but expected Float")])
def binary_cross_entropy(input: Any, target: Any, weight: Any = None, size_average: bool | None = None,
                         reduce: bool | None = None, reduction: str = "mean") -> Any:
    """-(target log(input) + (1 - target) log(1 - input)), averaged, for probabilities.

    Args:
        input: probabilities from 0 to 1, (*). Logarithms are at least -100.
        target: from 0 to 1, of input's shape and dtype.
        weight: factors that broadcast to (*).
        reduction: "mean", "sum" or "none". size_average, reduce: PyTorch's old names of it.

    Raises:
        ValueError: other sizes. RuntimeError: values outside [0, 1], or another dtype of target.

    >>> p = flambeau.tensor([0.5, 0.5])
    >>> round(flambeau.nn.functional.binary_cross_entropy(p, flambeau.tensor([0., 1.])).item(), 4)
    0.6931
    """
    reduction = reduction_of(size_average, reduce, reduction)
    tensor(input, "binary_cross_entropy")
    tensor(target, "binary_cross_entropy", "target", 2)
    if shape_of(input) != shape_of(target):
        raise ValueError(f"Using a target size ({size_text(target)}) that is different to the input size "
                         f"({size_text(input)}) is deprecated. Please ensure they have the same size, for example with "
                         "target.view_as(input).")
    d, e = dtype_of(input), dtype_of(target)
    if d.kind == "c" or not is_float(d):
        raise refuse_dtype("binary_cross_entropy", d)
    if d is not e:
        raise RuntimeError(f"binary_cross_entropy: Found dtype {_name(e)} but expected {_name(d)}: target must have "
                           "input's dtype. Use target.to(input.dtype).")
    if weight is None:
        return apply_n(BCE, [input, target], (reduction,))
    return reduced(apply_n(BCE, [input, target], ("none",)) * weight.expand(shape_of(input)), reduction)


@functional(lambda t: [*_samples(-2.0, 2.0)(t), call(t(3, 4), t(3, 4, low=0.1, high=0.9), pos_weight=t(4, low=0.5, high=2.0,
                                                                                                     grad=False))],
            op=BCE_LOGITS, errors=lambda t: [
    (call(t(3), t(3, 1)), ValueError, "must be the same as input size"),
    (call(t(3), t(3, dtype="int64")), RuntimeError, "result type Float can't be cast"),
    (call(t(3, dtype="int64"), t(3, dtype="int64")), NotImplementedError, "not implemented for")])
def binary_cross_entropy_with_logits(input: Any, target: Any, weight: Any = None, size_average: bool | None = None,
                                     reduce: bool | None = None, reduction: str = "mean", pos_weight: Any = None) -> Any:
    """Binary cross entropy of sigmoid(input), averaged, stable for scores of any size.

    Args:
        input: scores before the sigmoid, (*).
        target: from 0 to 1, of shape (*).
        weight: factors that broadcast to (*). pos_weight: factors of the positive part, which broadcast to (*).
        reduction: "mean", "sum" or "none". size_average, reduce: PyTorch's old names of it.

    Raises:
        ValueError: other sizes. RuntimeError: an integer target.

    >>> score = flambeau.tensor([0., 0.])
    >>> round(flambeau.nn.functional.binary_cross_entropy_with_logits(score, flambeau.tensor([0., 1.])).item(), 4)
    0.6931
    """
    reduction = reduction_of(size_average, reduce, reduction)
    tensor(input, "binary_cross_entropy_with_logits")
    tensor(target, "binary_cross_entropy_with_logits", "target", 2)
    if shape_of(input) != shape_of(target):
        raise ValueError(f"Target size ({size_text(target)}) must be the same as input size ({size_text(input)}): use "
                         "target.view_as(input), or input.squeeze(1) for scores of one column.")
    d, e = dtype_of(input), dtype_of(target)
    if d.kind == "c" or not is_float(d):
        raise refuse_dtype("log_sigmoid_cpu", d)
    if not is_float(e):
        raise RuntimeError(f"binary_cross_entropy_with_logits: result type {_name(d)} can't be cast to the desired "
                           f"output type {_name(e)}: target must be floating. Use target.to(input.dtype).")
    if d is not e or (pos_weight is not None and dtype_of(pos_weight) is not d):
        input, target, pos_weight = common(input, target, pos_weight)
    if pos_weight is not None:
        pos_weight = pos_weight.expand(shape_of(input))
    if weight is None:
        return apply_n(BCE_LOGITS, [input, target, pos_weight], (reduction,))
    return reduced(apply_n(BCE_LOGITS, [input, target, pos_weight], ("none",)) * weight, reduction)


@functional(lambda t: [call(t(3, 4), t(3, 4, grad=False)), call(t(3, 4), t(3, 4, grad=False), reduction="none"),
                       call(t(), t(grad=False))],
            op=SOFT_MARGIN)
def soft_margin_loss(input: Any, target: Any, size_average: bool | None = None, reduce: bool | None = None,
                     reduction: str = "mean") -> Any:
    """log(1 + exp(-target * input)), averaged, for targets 1 and -1.

    Args:
        input, target: of one shape (*); they broadcast.

    >>> loss = flambeau.nn.functional.soft_margin_loss(flambeau.tensor([0.]), flambeau.tensor([1.]))
    >>> round(loss.item(), 4)
    0.6931
    """
    reduction = reduction_of(size_average, reduce, reduction)
    input, target = common(tensor(input, "soft_margin_loss"), tensor(target, "soft_margin_loss", "target", 2))
    if dtype_of(input).kind == "c" or not is_float(dtype_of(input)):
        raise refuse_dtype("soft_margin_loss", dtype_of(input))
    return apply_n(SOFT_MARGIN, [input, target], (reduction,))


@functional(lambda t: [call(t(3, 4), t(3, 4, low=0.1, high=0.9)), call(t(4), t(4, low=0.1, high=0.9), reduction="none"),
                       call(t(3, 4), t(3, 4, low=0.1, high=0.9), t(4, low=0.5, high=2.0), reduction="sum")])
def multilabel_soft_margin_loss(input: Any, target: Any, weight: Any = None, size_average: bool | None = None,
                                reduce: bool | None = None, reduction: str = "mean") -> Any:
    """Binary cross entropy of each class's score, averaged over classes, then over the batch.

    Args:
        input: scores (N, C) or (C,). target: 0 or 1, like input. weight: of each class, (C,).

    >>> loss = flambeau.nn.functional.multilabel_soft_margin_loss(flambeau.tensor([0.]), flambeau.tensor([1.]))
    >>> round(loss.item(), 4)
    0.6931
    """
    reduction = reduction_of(size_average, reduce, reduction)
    a: Any = tensor(input, "multilabel_soft_margin_loss")
    values = -(target * logsigmoid(a) + (1 - target) * logsigmoid(-a))
    if weight is not None:
        values = values * weight
    return reduced(values.sum(-1) / shape_of(a)[-1], reduction)


@functional(lambda t: [call(t(3, 4), t(3, 4, low=0.1, high=0.9)),
                       call(t(3, 4), t(3, 4), reduction="batchmean", log_target=True),
                       call(t(3, 4), t(3, 4, low=0.1, high=0.9, grad=False), reduction="none"),
                       call(t(), t(), reduction="sum",
                                                                                                 log_target=True)],
            errors=lambda t: [(call(t(3, dtype="int64"), t(3, dtype="int64")), RuntimeError, "Integral inputs not "
                "supported"),
                              (call(t(3), t(3), reduction="some"), ValueError, "not a valid value")])
def kl_div(input: Any, target: Any, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
           log_target: bool = False) -> Any:
    """target * (log(target) - input): the Kullback-Leibler divergence of log-probabilities input from target.

    Args:
        input: log-probabilities, (*). target: probabilities, or logarithms of them with log_target.
        reduction: "batchmean" (the sum divided by the batch's size: the definition), "mean", "sum" or "none".

    Raises:
        RuntimeError: integers. ValueError: another reduction.

    >>> p = flambeau.tensor([0.5, 0.5])
    >>> flambeau.nn.functional.kl_div(p.log(), p, reduction="sum").item()
    0.0
    """
    a: Any = tensor(input, "kl_div")
    tensor(target, "kl_div", "target", 2)
    by_batch = reduction == "batchmean" and size_average is None and reduce is None
    reduction = "sum" if by_batch else reduction_of(size_average, reduce, reduction)
    if reduction == "mean":
        warn_user("kl_div with reduction='mean' averages over all elements, which is not the Kullback-Leibler "
                  "divergence: that is summed over the support and averaged over the batch, as "
                  "reduction='batchmean' does. Use it for the divergence.")
    if not is_float(dtype_of(a)) or not is_float(dtype_of(target)):
        raise RuntimeError("kl_div: Integral inputs not supported: convert input and target to a floating dtype.")
    out = reduced(divergences(a, target, log_target), reduction)
    return out / shape_of(a)[0] if by_batch and shape_of(a) else out


def divergences(a: Any, target: Any, log_target: bool) -> Any:
    """The terms of `kl_div`, before they are reduced."""
    return target.exp() * (target - a) if log_target else target.xlogy(target) - target * a
