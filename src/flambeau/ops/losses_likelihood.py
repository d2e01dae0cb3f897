"""Negative log likelihoods of Poisson and Gaussian targets, and of label sequences without alignment (CTC)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from flambeau.core.apply import apply_n
from flambeau.core.objects import TensorBase, array_of, dtype_of, make, shape_of
from flambeau.core.state import set_grad_enabled
from flambeau.kernels import ctc as kernel
from flambeau.kernels.services import is_float

from ._args import integer, tensor
from ._lazy import placed
from ._meta import Meta
from ._pointwise import no_derivative
from ._record import KERNEL, call, primitive
from ._shapes import fresh
from .losses import functional, reduced, reduction_of, refuse_dtype


@functional(lambda t: [call(t(3, 4), t(3, 4, low=0.5, high=4.0, grad=False)),
                       call(t(3, 4), t(3, 4, low=0.5, high=4.0, grad=False), full=True, reduction="sum"),
                       call(t(3, 4, low=0.5), t(3, 4, low=0.5, high=4.0), False, reduction="none")],
            errors=lambda t: [(call(t(3), t(3), reduction="some"), ValueError, "not a valid value")])
def poisson_nll_loss(input: Any, target: Any, log_input: bool = True, full: bool = False, size_average: bool | None = None,
                     eps: float = 1e-8, reduce: bool | None = None, reduction: str = "mean") -> Any:
    """exp(input) - target * input, averaged: the negative log likelihood of Poisson counts.

    Args:
        input: logarithms of the expected counts, (*); the counts themselves with log_input=False.
        target: counts, (*).
        full: adds Stirling's approximation of log(target!) where target exceeds 1.
        eps: added to the expected counts before their logarithm.

    >>> flambeau.nn.functional.poisson_nll_loss(flambeau.tensor([0.]), flambeau.tensor([2.])).item()
    1.0
    """
    reduction = reduction_of(size_average, reduce, reduction)
    a: Any = tensor(input, "poisson_nll_loss")
    t: Any = tensor(target, "poisson_nll_loss", "target", 2)
    values = a.exp() - t * a if log_input else a - t * (a + eps).log()
    if full:
        stirling = t * t.log() - t + 0.5 * (2 * math.pi * t).log()
        values = values + stirling.masked_fill(t <= 1, 0)
    return reduced(values, reduction)


def _variance(input: Any, var: Any, eps: float) -> Any:
    if not isinstance(var, TensorBase):
        if var < 0:
            raise ValueError(f"gaussian_nll_loss: var has negative entry/entries: {var}")
        return make(np.asarray(max(var, eps), dtype_of(input))).expand(shape_of(input))
    size, full = shape_of(var), shape_of(input)
    v: Any = var
    if size != full:
        if full[:-1] == size:
            v = v.unsqueeze(-1)
        elif len(size) != len(full) or any(s not in (1, f) for s, f in zip(size, full, strict=True)):
            raise ValueError(f"gaussian_nll_loss: var is of incorrect size: {list(size)}, for input of size "
                             f"{list(full)}. Give one variance for each element, or for each row.")
    if v._array is not None and (v._array < 0).any():
        raise ValueError("gaussian_nll_loss: var has negative entry/entries: variances are squares. Apply exp or "
                         "softplus to the network's output first.")
    v = v.clone()
    old = set_grad_enabled(False)       # the floor is no part of the derivative, as in PyTorch
    try:
        v.clamp_(min=eps)
    finally:
        set_grad_enabled(old)
    return v


@functional(lambda t: [call(t(3, 4), t(3, 4), t(3, 4, low=0.5, high=2.0)),
                       call(t(3, 4), t(3, 4), t(3, 1, low=0.5, high=2.0), True, reduction="none"),
                       call(t(3, 4), t(3, 4), t(3, low=0.5, high=2.0), reduction="sum")],
            errors=lambda t: [(call(t(3, 4), t(3, 4), t(3, 2)), ValueError, "var is of incorrect size"),
                              (call(t(3), t(3), t(3, low=-2.0, high=-1.0)), ValueError, "negative entry")])
def gaussian_nll_loss(input: Any, target: Any, var: Any, full: bool = False, eps: float = 1e-6,
                      reduction: str = "mean") -> Any:
    """(log(var) + (input - target)^2 / var) / 2, averaged: the negative log likelihood of Gaussian targets.

    Args:
        input: expected values, (*). target: like input.
        var: variances, at least eps is used: like input, or of size 1 in some dimensions, or without the last one; or a
            number.
        full: adds log(2 pi) / 2.

    Raises:
        ValueError: negative variances, or of another size.

    Source: Nix and Weigend, "Estimating the mean and variance of the target probability distribution", 1994.

    >>> one = flambeau.tensor([1.])
    >>> flambeau.nn.functional.gaussian_nll_loss(one, one, one).item()
    0.0
    """
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"gaussian_nll_loss: {reduction} is not valid: give 'none', 'mean' or 'sum'")
    a: Any = tensor(input, "gaussian_nll_loss")
    tensor(target, "gaussian_nll_loss", "target", 2)
    v = _variance(a, var, eps)
    d = a - target
    values = 0.5 * (v.log() + d * d / v)
    if full:
        values = values + 0.5 * math.log(2 * math.pi)
    return reduced(values, reduction)


# --------------------------------------------------------------------------------- connectionist temporal classification

_LENGTHS = ("input_lengths", "target_lengths", "blank", "zero_infinity")


def _ctc_backward(g: np.ndarray, log_probs: np.ndarray, targets: np.ndarray, losses: np.ndarray, log_alpha: np.ndarray,
                  input_lengths: tuple, target_lengths: tuple, blank: int, zero_infinity: bool) -> np.ndarray:
    return kernel.ctc_loss_backward(g, log_probs, targets, input_lengths, target_lengths, losses, log_alpha, blank,
                                    zero_infinity)


def _ctc_shape(log_probs: Meta, targets: Meta, input_lengths: tuple, target_lengths: tuple, *_: Any) -> list:
    steps, n = log_probs.shape[:2]
    return [Meta((n,), log_probs.dtype), Meta((n, steps, 2 * max(target_lengths, default=0) + 1), log_probs.dtype)]


CTC = primitive(
    "ctc_loss", kernel.ctc_loss, inputs=("log_probs", "targets"), params=_LENGTHS, outputs=(True, False), promotes=False,
    may_raise=True, meta=_ctc_shape, expr=KERNEL,
    log_probs=lambda xp, g, log_probs, targets, out0, out1, input_lengths, target_lengths, blank, zero_infinity:
    xp.ctc_loss_backward(g, log_probs, targets, out0, out1, input_lengths, target_lengths, blank, zero_infinity))
primitive("ctc_loss_backward", _ctc_backward, inputs=("grad", "log_probs", "targets", "losses", "log_alpha"),
          params=_LENGTHS,
          promotes=False, meta=fresh(input=1), expr=KERNEL,
          # linear in grad, each sequence by itself (forward mode needs this); PyTorch has no derivative at all
          grad=lambda xp, g, log_probs, targets, losses, log_alpha, input_lengths, target_lengths, blank, zero_infinity:
          xp.sum(g * xp.ctc_loss_backward(xp.ones_like(losses), log_probs, targets, losses, log_alpha, input_lengths,
                                          target_lengths, blank, zero_infinity), (0, 2), False),
          log_probs=no_derivative("_ctc_loss_backward"))


def _lengths(value: Any, name: str) -> tuple[int, ...]:
    if isinstance(value, TensorBase):
        if is_float(dtype_of(value)):
            raise RuntimeError(f"ctc_loss: {name} must be integral, got {dtype_of(value).name}")
        return tuple(array_of(value).reshape(-1).tolist())
    return tuple(integer(v, "ctc_loss", name) for v in ((value,) if isinstance(value, int) else value))


def _ctc_samples(t: Any) -> list:
    # as scores that log_softmax made log-probabilities: the derivative that PyTorch gives holds for those alone
    def logp(*shape: int) -> Any:
        return t(*shape).log_softmax(-1)

    targets = t(values=[[1, 2], [3, 3]], dtype="int64", grad=False)
    return [call(logp(6, 2, 4), targets, (6, 5), (2, 1)), call(logp(6, 2, 4), targets, (6, 6), (2, 2), reduction="none"),
            call(logp(6, 4), t(values=[1, 2], dtype="int64", grad=False), (5,), (2,), reduction="sum")]


def _ctc_numbers(t: Any) -> list:
    """The samples, with reduction as a number."""
    numbers = {"none": 0, "mean": 1, "sum": 2}
    return [call(*s.args, **{k: numbers.get(v, v) for k, v in s.kwargs.items()}) for s in _ctc_samples(t)]


@functional(_ctc_samples, errors=lambda t: [
    (call(t(6, 2, 4), t(2, 2, dtype="int64", low=1, high=3), (7, 6), (2, 2)), RuntimeError, "Expected input_lengths"),
    (call(t(6, 2, 4), t(2, 2, dtype="int64", low=1, high=3), (6, 6), (2, 2), 9), RuntimeError, "blank must be in label "
        "range")])
def ctc_loss(log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int = 0, reduction: str = "mean",
             zero_infinity: bool = False) -> Any:
    """The negative log likelihood of label sequences, summed over all their alignments with the input.

    Args:
        log_probs: log-probabilities, (T, N, C) or (T, C): the output of log_softmax (its derivative is given for that).
        targets: labels, (N, S), or those of all sequences one after another.
        input_lengths, target_lengths: N lengths, a tensor or a tuple.
        blank: the label that means none.
        reduction: "mean" (of losses divided by target lengths), "sum" or "none".
        zero_infinity: sequences without an alignment count as zero.

    Raises:
        RuntimeError: lengths, labels or blank that do not fit.

    Source: Graves et al., "Connectionist temporal classification", ICML 2006.

    >>> logp = flambeau.zeros(1, 1, 2).log_softmax(2)
    >>> loss = flambeau.nn.functional.ctc_loss(logp, flambeau.tensor([[1]]), (1,), (1,))
    >>> round(loss.item(), 4)
    0.6931
    """
    reduction = reduction_of(None, None, reduction)
    lp: Any = tensor(log_probs, "ctc_loss", "log_probs")
    labels: Any = tensor(targets, "ctc_loss", "targets", 2)
    d = dtype_of(lp)
    if d.name not in ("float32", "float64"):
        raise refuse_dtype("ctc_loss", d) if not is_float(d) or d.kind == "c" else RuntimeError(
            f"ctc_loss: expected float32 or float64 log_probs, got {d.name}: use log_probs.float()")
    if is_float(dtype_of(labels)):
        raise RuntimeError(f"ctc_loss: targets must be integral, got {dtype_of(labels).name}")
    single = len(shape_of(lp)) == 2
    if len(shape_of(lp)) not in (2, 3):
        raise RuntimeError(f"ctc_loss: log_probs must be (T, N, C) or (T, C), got {list(shape_of(lp))}")
    if single:
        lp = lp.unsqueeze(1)
        labels = labels.reshape(1, -1) if len(shape_of(labels)) == 1 else labels
    in_lengths, out_lengths = _lengths(input_lengths, "input_lengths"), _lengths(target_lengths, "target_lengths")
    params = (in_lengths, out_lengths, integer(blank, "ctc_loss", "blank"), bool(zero_infinity))
    losses = apply_n(CTC, [lp, labels], params)[0]
    if reduction == "mean":
        counts = placed(losses, shape_of(losses), d, lambda: np.maximum(np.array(out_lengths), 1).astype(d))
        return (losses / counts).mean()
    if reduction == "sum":
        return losses.sum()
    return losses.squeeze(0) if single else losses
