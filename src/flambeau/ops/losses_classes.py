"""Losses of classes: negative log likelihood and cross entropy.

nll_loss is linear in its input: it and its adjoint `nll_loss_backward` are each other's derivatives. Its kernels find
"mean"'s divisor, the total weight, again in the backward, which reads the labels anyway: nothing is kept for it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from flambeau.core.apply import apply1, apply_n
from flambeau.core.objects import TensorBase, dtype_of, shape_of
from flambeau.core.origin import warn_user
from flambeau.core.state import state
from flambeau.kernels import loss as kernel
from flambeau.kernels.services import is_float

from ._args import tensor
from ._meta import Meta
from ._record import KERNEL, call, primitive
from ._shapes import shaped
from .losses import _REDUCTIONS, functional, reduction_of, refuse_dtype
from .softmax import LOG_SOFTMAX

_LONG, _BYTE = np.dtype("int64"), np.dtype("uint8")


def _nll_formula(xp: Any, g: Any, self: Any, target: Any, weight: Any, reduction: str, ignore_index: int) -> Any:
    g = xp.nll_loss_backward(g, target, weight, self.shape, reduction, ignore_index)
    # linked: a second derivative in the input is zero, not an error, as in PyTorch
    return g if xp.is_kernels else xp.linked(g, self)


def _nll(x: np.ndarray, target: np.ndarray, weight: Any, reduction: str, ignore_index: int) -> np.ndarray:
    return kernel.nll_loss(x, target, weight, reduction, ignore_index)[0]


def _nll_shape(self: Meta, target: Meta, weight: Any, reduction: str, ignore_index: int) -> Meta:
    kernel.check_target(self.shape, target, weight)
    return Meta(target.shape if reduction == "none" else (), self.dtype)


NLL = primitive("nll_loss", _nll, inputs=("self", "target", "weight"), params=("reduction", "ignore_index"), promotes=False,
                may_raise=True, meta=_nll_shape, expr=KERNEL, self=_nll_formula)
NLL_2D = primitive("nll_loss2d", _nll, inputs=("self", "target", "weight"), params=("reduction", "ignore_index"),
                   promotes=False, may_raise=True, node="NllLoss2DBackward0", meta=_nll_shape,
                   expr=KERNEL, self=_nll_formula)
primitive("nll_loss_backward",
          lambda g, target, weight, shape, reduction, ignore_index: kernel.nll_loss_backward(
              g, shape, target, weight, reduction, ignore_index, None),
          inputs=("grad", "target", "weight"), params=("shape", "reduction", "ignore_index"), promotes=False, meta=shaped(3),
          expr=KERNEL,
          grad=lambda xp, g, target, weight, reduction, ignore_index: xp.nll_loss(g, target, weight, reduction,
              ignore_index))


def _name(d: np.dtype) -> str:
    return {"int64": "Long", "int32": "Int", "int16": "Short", "int8": "Char", "uint8": "Byte", "bool": "Bool",
            "float16": "Half", "bfloat16": "BFloat16", "float32": "Float", "float64": "Double", "complex64": "ComplexFloat",
            "complex128": "ComplexDouble"}[d.name]


def _nll_checked(name: str, input: Any, target: Any, weight: Any, reduction: str, ignore_index: int) -> Any:
    """nll_loss of log-probabilities, after the checks of shapes and dtypes."""
    shape, labels = shape_of(input), shape_of(target)
    n = len(shape)
    if n == 0:
        raise ValueError(f"{name}: Expected 1 or more dimensions (got 0): input is (N, C, ...) or (C,).")
    if n > 1 and (not labels or labels[0] != shape[0]):
        got = labels[0] if labels else f"target shape {list(labels)}"
        raise ValueError(f"{name}: Expected input batch_size ({shape[0]}) to match target batch_size ({got}).")
    if n == 2 and len(labels) != 1:
        hint = " Use target.squeeze(1)." if labels == (shape[0], 1) else ""
        raise RuntimeError(f"{name}: 0D or 1D target tensor expected, multi-target not supported: for input of shape "
                           f"{list(shape)} target is {shape[0]} class indices, got shape {list(labels)}.{hint}")
    if n == 1 and labels:
        if labels != (1,):
            raise ValueError(f"{name}: a 1D input is one sample, so its target has one element, and this target has "
                             f"{labels[0]}. Give the input a batch dimension, or target[i].")
        target = target.reshape(())
    d = dtype_of(target)
    if d is not _LONG and d is not _BYTE:
        raise RuntimeError(
            f"{name}: expected target dtype to be Long or Byte, but got {_name(d)} (expected scalar type Long but found "
            f"{_name(d)}): target holds class indices. Use target.long()"
            + (", or for class probabilities give target input's shape." if is_float(d)
               and name == "cross_entropy" else "."))
    own = dtype_of(input)
    if own.kind == "c" or not is_float(own):
        raise refuse_dtype(name, own)
    if weight is not None and dtype_of(tensor(weight, name, "weight", 3)) is not own:
        raise RuntimeError(f"{name}: expected scalar type {_name(own)} but found {_name(dtype_of(weight))}: weight and "
                           "input have the same dtype. Convert weight with weight.to(input.dtype).")
    out = apply_n(NLL if n < 3 else NLL_2D, [input, target, weight], (reduction, ignore_index))
    if reduction == "mean":
        value = out._array
        if value is not None and math.isnan(value.item()):
            _warn_ignored(name, target, ignore_index)
    return out


def _warn_ignored(name: str, target: Any, ignore_index: int) -> None:
    """A mean that is nan because nothing takes part in it."""
    labels = target._array
    if labels.size and (labels == ignore_index).all():
        warn_user(f"{name}: all targets equal ignore_index={ignore_index}, so that the mean is over nothing: the "
                  "loss is nan and its gradient zero. Skip such a batch, or use "
                  "reduction='sum'.")


def _labels(t: Any, *shape: int, high: int) -> Any:
    return t(*shape, dtype="int64", grad=False, low=0, high=high - 1)


def _samples(t: Any) -> list:
    return [call(t(3, 4), _labels(t, 3, high=4)), call(t(3, 4), _labels(t, 3, high=4), t(4, low=0.5, high=2.0, grad=False)),
            call(t(3, 4, transposed=True), _labels(t, 3, high=4), reduction="none"),
            call(t(2, 3, 4), _labels(t, 2, 4, high=3), ignore_index=1),
            call(t(2, 3, 2, 2), _labels(t, 2, 2, 2, high=3), reduction="sum"), call(t(5), _labels(t, high=5)),
            call(t(0, 3), _labels(t, 0, high=3), reduction="sum")]


def _errors(t: Any) -> list:
    return [(call(t(3, 4), t(3)), RuntimeError, "expected scalar type Long but found Float"),
            (call(t(3, 4), _labels(t, 2, high=4)), ValueError, r"batch_size \(3\) to match target batch_size \(2\)"),
            (call(t(3, 4), _labels(t, 3, 1, high=4)), RuntimeError, r"multi-target not supported.*squeeze\(1\)"),
            (call(t(3, 4), _labels(t, 3, high=4) + 4), IndexError, "is out of bounds: classes go from 0 to 3"),
            (call(t(2, 3, 4), _labels(t, 2, 5, high=3)), RuntimeError, r"Expected target size \[2, 4\], got \[2, 5\]"),
            (call(t(3, 4), _labels(t, 3, high=4), t(3)), RuntimeError, "weight tensor should be defined"),
            (call(t(3, 4), _labels(t, 3, high=4), reduction="some"), ValueError, "not a valid value")]


@functional(_samples, op=NLL, errors=_errors)
def nll_loss(input: Any, target: Any, weight: Any = None, size_average: bool | None = None, ignore_index: int = -100,
             reduce: bool | None = None, reduction: str = "mean") -> Any:
    """-input[n, target[n]], averaged: the negative log likelihood of the right classes.

    Args:
        input: log-probabilities, (N, C), (N, C, *) or (C,).
        target: class indices from 0 to C - 1, (N,), (N, *) or (); int64 or uint8.
        weight: of each class, (C,); "mean" divides by the sum of the targets' weights.
        ignore_index: a target that takes no part, and whose gradient is zero.
        reduction: "mean", "sum" or "none". size_average, reduce: PyTorch's old names of it.

    Raises:
        IndexError: a target that is no class and not ignore_index.
        RuntimeError, ValueError: shapes or dtypes that do not fit.

    >>> logp = flambeau.tensor([[-1., -2.]])
    >>> flambeau.nn.functional.nll_loss(logp, flambeau.tensor([1])).item()
    2.0
    """
    if size_average is not None or reduce is not None or reduction not in _REDUCTIONS:
        reduction = reduction_of(size_average, reduce, reduction)
    if not isinstance(input, TensorBase) or not isinstance(target, TensorBase):
        tensor(input, "nll_loss")
        tensor(target, "nll_loss", "target", 2)
    return _nll_checked("nll_loss", input, target, weight, reduction, ignore_index)


def _cross_samples(t: Any) -> list:
    return [*_samples(t), call(t(3, 4), t(3, 4, low=0.0, high=1.0, grad=False)),
            call(t(3, 4), t(3, 4), t(4, low=0.5, high=2.0, grad=False), reduction="none"),
            call(t(2, 3, 4), t(2, 3, 4), label_smoothing=0.2), call(t(5), t(5), reduction="sum"),
            call(t(3, 4), _labels(t, 3, high=4), label_smoothing=0.1),
            call(t(3, 4), _labels(t, 3, high=4), t(4, low=0.5, high=2.0, grad=False), label_smoothing=0.1, ignore_index=2),
            call(t(2, 3, 4), _labels(t, 2, 4, high=3), label_smoothing=0.3, reduction="none")]


@functional(_cross_samples, errors=lambda t: [
    *_errors(t), (call(t(3, 4), _labels(t, 3, 4, high=4)), RuntimeError, "Expected floating point type"),
    (call(t(3, 4), t(3, 4), ignore_index=1), RuntimeError, "ignore_index is not supported for floating point target"),
    (call(t(3, 4), _labels(t, 3, high=4), label_smoothing=2.0), RuntimeError, "label_smoothing must be between")])
def cross_entropy(input: Any, target: Any, weight: Any = None, size_average: bool | None = None, ignore_index: int = -100,
                  reduce: bool | None = None, reduction: str = "mean", label_smoothing: float = 0.0) -> Any:
    """The cross entropy of classes, whose scores (logits) are input, and target, averaged.

    Args:
        input: scores before softmax, (N, C), (N, C, *) or (C,).
        target: class indices, as in `nll_loss`; or probabilities of the classes, in input's shape and a floating dtype.
        weight: of each class, (C,); with class indices "mean" divides by the sum of the targets' weights.
        ignore_index: a target index that takes no part; not for probabilities.
        reduction: "mean", "sum" or "none". size_average, reduce: PyTorch's old names of it.
        label_smoothing: share of the target, from 0 to 1, that is spread evenly over the classes.

    Raises:
        IndexError: a target that is no class and not ignore_index.
        RuntimeError, ValueError: shapes or dtypes that do not fit.

    Numerics: stable for scores of any size. All targets equal to ignore_index give nan, with a warning.

    Source: label smoothing: Szegedy et al., arXiv:1512.00567.

    >>> scores = flambeau.tensor([[0., 0.], [0., 0.]])
    >>> round(flambeau.nn.functional.cross_entropy(scores, flambeau.tensor([0, 1])).item(), 4)
    0.6931
    """
    if size_average is not None or reduce is not None or reduction not in _REDUCTIONS:
        reduction = reduction_of(size_average, reduce, reduction)
    if not isinstance(input, TensorBase) or not isinstance(target, TensorBase):
        tensor(input, "cross_entropy")
        tensor(target, "cross_entropy", "target", 2)
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(f"cross_entropy: label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    d, shape = dtype_of(input), shape_of(input)
    if shape == shape_of(target):
        return _of_probabilities(input, target, weight, ignore_index, reduction, label_smoothing)
    if d is not state.f32 and d is not state.f64 and (d.kind == "c" or not is_float(d)):
        raise refuse_dtype("log_softmax_lastdim_kernel_impl", d)
    if not shape:
        raise ValueError("cross_entropy: Expected 1 or more dimensions (got 0): input is (N, C, ...) or (C,).")
    dim = 1 if len(shape) > 1 else 0
    logp = apply1(LOG_SOFTMAX, input, (dim,))
    loss = _nll_checked("cross_entropy", logp, target, weight, reduction, ignore_index)
    if label_smoothing == 0.0:
        return loss
    smooth = -(logp if weight is None else logp * weight.reshape(-1, *([1] * (len(shape) - 1 - dim)))).sum(dim)
    ignored = (target == ignore_index).reshape(shape_of(smooth))
    smooth = smooth.masked_fill(ignored, 0)
    if reduction == "sum":
        smooth = smooth.sum()
    elif reduction == "mean":
        if weight is None:
            n = (~ignored).sum()
        else:
            n = weight.gather(0, target.long().masked_fill(target == ignore_index, 0).flatten()).masked_fill(
                ignored.flatten(), 0).sum()
        smooth = smooth.sum() / n
    return loss * (1 - label_smoothing) + smooth * (label_smoothing / shape[dim])


def _of_probabilities(input: Any, target: Any, weight: Any, ignore_index: int, reduction: str, smoothing: float) -> Any:
    d, shape = dtype_of(target), shape_of(input)
    if not is_float(d):
        raise RuntimeError("cross_entropy: Expected floating point type for target with class probabilities, but "
                           f"it is {_name(d)}: target has input's shape {list(shape)}, so that it is read as "
                           "probabilities. Class indices have no class dimension; use target.float() if these are "
                           "probabilities.")
    if ignore_index >= 0:
        raise RuntimeError("cross_entropy: ignore_index is not supported for floating point target (class "
                           "probabilities): give the ignored positions probability 0 for all classes.")
    if not shape:
        raise ValueError("cross_entropy: Expected 1 or more dimensions (got 0): input is (N, C, ...) or (C,).")
    dim = 1 if len(shape) > 1 else 0
    n_classes = shape[dim]
    if weight is not None and shape_of(weight) != (n_classes,):
        raise RuntimeError(f"cross_entropy: weight tensor should be defined either for all {n_classes} classes or no "
                           f"classes but got weight tensor of shape: {list(shape_of(weight))}")
    if smoothing > 0:
        target = target * (1 - smoothing) + smoothing / n_classes
    products = input.log_softmax(dim) * target
    if weight is not None:
        products = products * weight.reshape(-1, *([1] * (len(shape) - 1 - dim)))
    if reduction == "none":
        return -products.sum(dim)
    if reduction == "sum":
        return -products.sum()
    n = 1
    for i, s in enumerate(shape):
        n *= 1 if i == dim else s
    return -products.sum() / n
