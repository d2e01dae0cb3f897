"""Pieces of loss functions that need a kernel, elementwise ones before reduction, and their gradients.

`reduction` is "none", "mean" or "sum". Gradient kernels take the incoming gradient g of the elementwise values,
so reductions stay with their own operators, except in nll_loss, whose mean divides by the sum of weights.
nll_loss is linear in its input: `nll_loss_backward` is its adjoint, and is differentiated in g by `nll_loss`.
float16 and bfloat16 are computed in float32.
"""

from __future__ import annotations

import math
from functools import lru_cache
from math import prod

import numpy as np

from .pointwise import ONES, elementwise, limit, select
from .sums import row_starts

__all__ = [
    "bce",
    "bce_backward",
    "bce_with_logits",
    "bce_with_logits_backward",
    "huber",
    "huber_backward",
    "kl_div",
    "kl_div_backward",
    "nll_loss",
    "nll_loss_backward",
    "smooth_l1",
    "smooth_l1_backward",
]

Optional = np.ndarray | None
_LONG, _UNSIGNED = np.dtype(np.int64).char, np.dtype(np.uint64)


def _wide(x: np.ndarray) -> np.ndarray:
    """float32 for the two-byte floats, else x itself."""
    if x.dtype.itemsize == 2 and x.dtype.kind not in "iu":
        return x.astype(np.float32)
    return x


# Negative log likelihood


def _classes(x_shape: tuple[int, ...]) -> tuple[int, int, int]:
    """(N, C, L) of an input of shape (C,), (N, C) or (N, C, *)."""
    if len(x_shape) == 1:
        return 1, x_shape[0], 1
    return x_shape[0], x_shape[1], prod(x_shape[2:])


def check_target(x_shape: tuple[int, ...], target: np.ndarray, weight: Optional) -> None:
    """Raise when the shapes of target and weight do not fit an input of shape x_shape; they may be Metas."""
    expected = x_shape[:1] + x_shape[2:] if len(x_shape) > 1 else ()
    if target.shape != expected:
        if len(x_shape) > 1 and target.ndim and target.shape[0] != x_shape[0]:
            raise ValueError(
                f"nll_loss: Expected input batch_size ({x_shape[0]}) to match target batch_size ({target.shape[0]})."
            )
        raise RuntimeError(
            f"nll_loss: Expected target size {list(expected)}, got {list(target.shape)}, for an input of "
            f"shape {list(x_shape)} (classes are its dimension {min(len(x_shape) - 1, 1)})"
        )
    if weight is not None and weight.shape != (_classes(x_shape)[1],):
        raise RuntimeError(
            f"nll_loss: weight tensor should be defined either for all {_classes(x_shape)[1]} classes or no "
            f"classes but got weight tensor of shape: {list(weight.shape)}"
        )


def _flat_labels(
    x_shape: tuple[int, ...], target: np.ndarray, ignore_index: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """(labels (M,), their flat positions in the input, mask of those kept or None if all are).

    Raises:
        IndexError: a label outside the classes that is not ignore_index.
    """
    n, c, length = _classes(x_shape)
    labels = target.reshape(-1)
    if labels.dtype != np.int64:
        labels = labels.astype(np.int64)
    kept = None
    # Unsigned, a negative label is a huge one: one comparison finds both kinds.
    if labels.size and np.maximum.reduce(labels.view(np.uint64)) >= c:
        kept = labels != ignore_index
        labels = np.where(kept, labels, 0)
        wrong = labels.view(np.uint64) >= c
        if wrong.any():
            position = int(np.flatnonzero(wrong)[0])
            place = list(map(int, np.unravel_index(position, target.shape))) if target.ndim else []
            raise IndexError(
                f"nll_loss: Target {int(labels[position])} is out of bounds: classes go from 0 to {c - 1}. "
                f"It is target{place or ''}, for an input of shape {list(x_shape)}; labels to skip must "
                f"equal ignore_index={ignore_index}."
            )
    elif 0 <= ignore_index < c:
        kept = labels != ignore_index
    if length == 1:
        positions = np.arange(0, n * c, c or 1) + labels
    else:
        start = np.arange(n)[:, None] * (c * length) + np.arange(length)
        positions = start.reshape(-1) + labels * length
    return labels, positions, kept


_MOST_FACTORS = 1 << 14     # the 64 arrays that are kept stay under 8 MiB


def _average(n: int, char: str, mean: bool) -> np.ndarray:
    """What n losses are multiplied by when they are added: -1, or -1 / n."""
    return (_kept_average if n <= _MOST_FACTORS else _find_average)(n, char, mean)


def _find_average(n: int, char: str, mean: bool) -> np.ndarray:
    factors = np.full(n, -1 / n if mean else -1, char)
    factors.flags.writeable = False
    return factors


_kept_average = lru_cache(maxsize=64)(_find_average)


def _plain(x_shape: tuple[int, ...], char: str, target: np.ndarray, weight: Optional, reduction: str,
           ignore_index: int) -> np.ndarray | None:
    """Flat positions of the labels in the commonest case: a batch of rows, no weights, nothing ignored. Else None."""
    if (weight is not None or len(x_shape) != 2 or reduction == "none" or target.dtype.char != _LONG or target.ndim != 1
            or char not in "fd" or not 0 < len(target) == x_shape[0] or 0 <= ignore_index < x_shape[1]):
        return None
    if len(target) <= 32:
        labels = target.tolist()        # a few numbers are compared fastest in Python
        if min(labels) < 0 or max(labels) >= x_shape[1]:        # ignored, or wrong
            return None
    elif np.maximum.reduce(target.view(_UNSIGNED)) >= x_shape[1]:
        return None
    return row_starts(*x_shape) + target


def _label_weights(labels: np.ndarray, kept: Optional, weight: Optional, dtype: np.dtype) -> Optional:
    """Weight of each label, 0 where ignored; None if all are one."""
    if weight is not None:
        weights = weight.astype(dtype, copy=False).take(labels)
        return weights if kept is None else np.where(kept, weights, dtype.type(0))
    return None if kept is None else kept.astype(dtype)


def nll_loss(
    x: np.ndarray, target: np.ndarray, weight: Optional, reduction: str, ignore_index: int
) -> tuple[np.ndarray, np.ndarray]:
    """-weight[target] * x[target], for log-probabilities x (N, C, *) or (C,) and labels target (N, *) or ().

    Returns:
        (loss: like target for "none", else a scalar; total weight: what "mean" divides by, 0 for "none").
        The mean of nothing is NaN.

    Raises:
        IndexError: a label outside 0 .. C - 1 other than ignore_index.
        RuntimeError, ValueError: shapes that do not fit.
    """
    char = x.dtype.char
    plain = _plain(x.shape, char, target, weight, reduction, ignore_index)
    if plain is not None:
        n = len(target)
        loss = x.reshape(-1).take(plain).dot(_average(n, char, reduction == "mean"))
        return np.asarray(loss), np.asarray(n, x.dtype)
    check_target(x.shape, target, weight)
    values = _wide(x)
    if x.size == 0:
        labels, positions, kept = np.zeros(0, np.int64), np.zeros(0, np.int64), None
    else:
        labels, positions, kept = _flat_labels(x.shape, target, ignore_index)
    picked = values.reshape(-1).take(positions)
    weights = _label_weights(labels, kept, weight, values.dtype)
    if weights is not None:
        picked = picked * weights
    if kept is not None:  # 0 * inf is not 0
        picked[~kept] = 0
    losses = np.negative(picked, out=picked)
    if reduction == "none":
        return losses.reshape(target.shape).astype(x.dtype, copy=False), np.zeros((), x.dtype)
    total_weight = values.dtype.type(len(labels)) if weights is None else np.add.reduce(weights)
    loss = np.add.reduce(losses)
    if reduction == "mean":
        loss = loss / total_weight
    return np.asarray(loss, x.dtype), np.asarray(total_weight, x.dtype)


def nll_loss_backward(
    g: np.ndarray,
    x_shape: tuple[int, ...],
    target: np.ndarray,
    weight: Optional,
    reduction: str,
    ignore_index: int,
    total_weight: Optional,
) -> np.ndarray:
    """Adjoint of `nll_loss`: g (like its loss) to the input's shape, in g's dtype.

    total_weight is that of `nll_loss`, or None: then it is found again.
    """
    plain = _plain(x_shape, g.dtype.char, target, weight, reduction, ignore_index)
    if plain is not None:
        result = np.zeros(x_shape, g.dtype)
        result.reshape(-1)[plain] = -(g / len(target)) if reduction == "mean" else -g
        return result
    grads = _wide(g)
    x_shape = tuple(x_shape)
    result = np.zeros(prod(x_shape), grads.dtype)
    if result.size:
        labels, positions, kept = _flat_labels(x_shape, target, ignore_index)
        factor = -grads.reshape(-1)
        weights = _label_weights(labels, kept, weight, grads.dtype)
        if reduction == "mean":
            if total_weight is None:
                factor = factor / (grads.dtype.type(len(labels)) if weights is None else np.add.reduce(weights))
            else:
                factor = factor / _wide(np.asarray(total_weight)).astype(grads.dtype, copy=False)
        if weights is not None:
            factor = factor * weights
        if kept is not None:
            positions, factor = positions[kept], np.broadcast_to(factor, kept.shape)[kept]
        result[positions] = factor
    return result.reshape(x_shape).astype(g.dtype, copy=False)


# Elementwise losses


def _sigmoid(x: np.ndarray) -> np.ndarray:
    # exp of minus the magnitude never overflows: 1 / (1 + e) or e / (1 + e)
    e = np.asarray(np.exp(-np.abs(x)))
    return select(np.asarray(x >= 0), ONES[x.dtype], e) / (1 + e)


@elementwise
def bce_with_logits(x: np.ndarray, target: np.ndarray, pos_weight: Optional) -> np.ndarray:
    """Binary cross entropy of sigmoid(x), elementwise: (1 - t) x + (1 + (p - 1) t) softplus(-x)."""
    dtype = x.dtype
    x, target = _wide(x), _wide(target)
    # softplus(-x) without overflow
    soft = np.log1p(np.exp(-np.abs(x))) + limit(-x, 0, math.inf)
    if pos_weight is not None:
        soft = soft * ((_wide(pos_weight) - 1) * target + 1)
    return ((1 - target) * x + soft).astype(dtype, copy=False)


@elementwise
def bce_with_logits_backward(g: np.ndarray, x: np.ndarray, target: np.ndarray, pos_weight: Optional) -> np.ndarray:
    """Gradient in x: g (sigmoid(x) - t), with pos_weight p: g ((1 + (p - 1) t) sigmoid(x) - p t)."""
    dtype = x.dtype
    g, x, target = _wide(g), _wide(x), _wide(target)
    if pos_weight is None:
        return (g * (_sigmoid(x) - target)).astype(dtype, copy=False)
    weighted = _wide(pos_weight) * target
    return (g * ((weighted + 1 - target) * _sigmoid(x) - weighted)).astype(dtype, copy=False)


def bce(x: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Binary cross entropy of probabilities x, elementwise; logarithms are at least -100, as in PyTorch.

    Raises:
        RuntimeError: an element of x outside [0, 1], or NaN.
    """
    dtype = x.dtype
    x, target = _wide(x), _wide(target)
    inside = (x >= 0) & (x <= 1)
    if not inside.all():
        raise RuntimeError(
            f"binary_cross_entropy: all elements of input should be between 0 and 1, got {x[~inside].flat[0]}. "
            "Apply sigmoid first, or use binary_cross_entropy_with_logits."
        )
    floor = x.dtype.type(-100)
    log_x, log_rest = np.maximum(np.log(x), floor), np.maximum(np.log1p(-x), floor)
    return ((target - 1) * log_rest - target * log_x).astype(dtype, copy=False)


def bce_backward(g: np.ndarray, x: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Gradient in x: g (x - t) / max(x (1 - x), 1e-12)."""
    dtype = x.dtype
    g, x, target = _wide(g), _wide(x), _wide(target)
    return (g * (x - target) / np.maximum((1 - x) * x, x.dtype.type(1e-12))).astype(dtype, copy=False)


@elementwise
def smooth_l1(x: np.ndarray, target: np.ndarray, beta: float) -> np.ndarray:
    """d^2 / (2 beta) where |d| < beta, else |d| - beta / 2, for d = x - target, elementwise."""
    d = np.abs(_wide(x) - _wide(target))
    if beta == 0:
        return d.astype(x.dtype, copy=False)
    beta = d.dtype.type(beta)
    if beta == 1:
        return huber(x, target, 1.0)
    near = d * d * (d.dtype.type(0.5) / beta)
    return select(np.asarray(d < beta), near, np.asarray(d - beta / 2)).astype(x.dtype, copy=False)


@elementwise
def smooth_l1_backward(g: np.ndarray, x: np.ndarray, target: np.ndarray, beta: float) -> np.ndarray:
    """Gradient in x: g d / beta where |d| < beta, else g sign(d). The target's is its negative."""
    d = _wide(x) - _wide(target)
    if beta == 0:
        slope = np.sign(d)
    else:
        slope = np.clip(d / d.dtype.type(beta), d.dtype.type(-1), d.dtype.type(1))
    return (_wide(g) * slope).astype(x.dtype, copy=False)


@elementwise
def huber(x: np.ndarray, target: np.ndarray, delta: float) -> np.ndarray:
    """d^2 / 2 where |d| < delta, else delta (|d| - delta / 2), for d = x - target, elementwise."""
    d = np.asarray(np.subtract(_wide(x), _wide(target)))
    np.absolute(d, d)
    delta = d.dtype.type(delta)
    half = d.dtype.type(0.5)
    # c (d - c / 2) for c = min(d, delta) is the same without a choice: d - d / 2 and the product by 1/2 are exact
    c = np.asarray(np.minimum(d, delta)) if delta < 0 else np.asarray(limit(d, 0, float(delta)))
    np.subtract(d, np.multiply(c, half), d)
    return np.multiply(d, c, d).astype(x.dtype, copy=False)


@elementwise
def huber_backward(g: np.ndarray, x: np.ndarray, target: np.ndarray, delta: float) -> np.ndarray:
    """Gradient in x: g clip(d, -delta, delta). The target's is its negative."""
    d = _wide(x) - _wide(target)
    delta = d.dtype.type(delta)
    return (_wide(g) * np.clip(d, -delta, delta)).astype(x.dtype, copy=False)


def kl_div(x: np.ndarray, target: np.ndarray, log_target: bool) -> np.ndarray:
    """t (log t - x), with 0 log 0 = 0, or exp(t) (t - x) for a target given as logarithms; elementwise."""
    wide, t = _wide(x), _wide(target)
    if log_target:
        return (np.exp(t) * (t - wide)).astype(x.dtype, copy=False)
    entropy = np.where(t == 0, t.dtype.type(0), t * np.log(t))
    return (entropy - t * wide).astype(x.dtype, copy=False)


def kl_div_backward(g: np.ndarray, target: np.ndarray, log_target: bool) -> np.ndarray:
    """Gradient of kl_div in x: -g t, or -g exp(t)."""
    t = _wide(target)
    return (-_wide(g) * (np.exp(t) if log_target else t)).astype(g.dtype, copy=False)
