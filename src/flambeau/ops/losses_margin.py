"""Losses that ask for a margin between scores or distances. All are composed of other operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from flambeau.core.objects import array_of, dtype_of, make, shape_of

from ._args import tensor
from ._lazy import is_meta, standing_for
from ._meta import Meta
from ._record import call
from .losses import functional, reduced, reduction_of, size_text
from .losses_classes import _labels, _name
from .similarity import pairwise_distance


def _signs(t: Any, *shape: int) -> Any:
    n = int(np.prod(shape))
    return t(values=np.where(np.arange(n) % 3 == 0, -1, 1).reshape(shape), grad=False)


def _per_sample(t: Any) -> list:
    return [call(t(3, 4), t(3, 4), _signs(t, 3)), call(t(3, 4), t(3, 4), _signs(t, 3), 0.3, reduction="none"),
            call(t(4), t(4), _signs(t), reduction="sum")]


@functional(_per_sample, errors=lambda t: [
    (call(t(3, 4), t(3, 4), t(3, 1)), RuntimeError, "multi-target not supported"),
    (call(t(4), t(4), t(3)), RuntimeError, "1D target tensor expects 2D input")])
def cosine_embedding_loss(input1: Any, input2: Any, target: Any, margin: float = 0, size_average: bool | None = None,
                          reduce: bool | None = None, reduction: str = "mean") -> Any:
    """1 - cos(input1, input2) where target is 1, max(0, cos - margin) where it is -1, averaged.

    Args:
        input1, input2: vectors (N, D) or (D,). target: 1 or -1, (N,) or ().

    >>> x = flambeau.tensor([1., 0.])
    >>> flambeau.nn.functional.cosine_embedding_loss(x, x, flambeau.tensor(-1.), 0.25).item()
    0.75
    """
    reduction = reduction_of(size_average, reduce, reduction)
    a: Any = tensor(input1, "cosine_embedding_loss", "input1")
    b: Any = tensor(input2, "cosine_embedding_loss", "input2", 2)
    n = len(shape_of(tensor(target, "cosine_embedding_loss", "target", 3)))
    if n > 1:
        raise RuntimeError("cosine_embedding_loss: 0D or 1D target tensor expected, multi-target not supported: got "
                           f"shape {list(shape_of(target))}")
    if len(shape_of(a)) != n + 1 or len(shape_of(b)) != n + 1:
        raise RuntimeError(f"cosine_embedding_loss: {n}D target tensor expects {n + 1}D input tensors, but found "
                           f"inputs with sizes {list(shape_of(a))} and {list(shape_of(b))}.")
    # 1e-12 below the root keeps the gradient of zero vectors finite
    cosine = (a * b).sum(n) / (((a * a).sum(n) + 1e-12) * ((b * b).sum(n) + 1e-12)).sqrt()
    zero = cosine.new_zeros(())
    values = (1 - cosine).where(target == 1, zero) + (cosine - margin).clamp_min(0).where(target == -1, zero)
    return reduced(values, reduction)


@functional(lambda t: [call(t(3), t(3), _signs(t, 3)), call(t(3, 4), t(3, 4), _signs(t, 3, 4), 0.5, reduction="sum")],
            errors=lambda t: [(call(t(3, 4), t(3, 4), t(3)), RuntimeError, "should have same dimension")])
def margin_ranking_loss(input1: Any, input2: Any, target: Any, margin: float = 0, size_average: bool | None = None,
                        reduce: bool | None = None, reduction: str = "mean") -> Any:
    """max(0, -target * (input1 - input2) + margin), averaged: input1 ranks above input2 where target is 1.

    Args:
        input1, input2, target: as many dimensions each. target is 1 or -1.

    >>> a, b = flambeau.tensor([1.]), flambeau.tensor([3.])
    >>> flambeau.nn.functional.margin_ranking_loss(a, b, flambeau.tensor([1.])).item()
    2.0
    """
    reduction = reduction_of(size_average, reduce, reduction)
    for i, (value, name) in enumerate(((input1, "input1"), (input2, "input2"), (target, "target"))):
        tensor(value, "margin_ranking_loss", name, i + 1)
    if not len(shape_of(input1)) == len(shape_of(input2)) == len(shape_of(target)):
        raise RuntimeError(f"margin_ranking_loss: All input tensors should have same dimension but got sizes: input1: "
                           f"{size_text(input1)}, input2: {size_text(input2)}, target: {size_text(target)}")
    return reduced((-target * (input1 - input2) + margin).clamp_min(0), reduction)


@functional(lambda t: [call(t(3, 4), _signs(t, 3, 4)), call(t(3, 4), _signs(t, 3, 4), 0.5, reduction="none")])
def hinge_embedding_loss(input: Any, target: Any, margin: float = 1.0, size_average: bool | None = None,
                         reduce: bool | None = None, reduction: str = "mean") -> Any:
    """input where target is 1, max(0, margin - input) where it is -1, averaged; for distances.

    Args:
        input, target: of one shape (*); they broadcast.

    >>> flambeau.nn.functional.hinge_embedding_loss(flambeau.tensor([0.25]), flambeau.tensor([-1.])).item()
    0.75
    """
    reduction = reduction_of(size_average, reduce, reduction)
    a: Any = tensor(input, "hinge_embedding_loss")
    tensor(target, "hinge_embedding_loss", "target", 2)
    zero = a.new_zeros(())
    values = (margin - a).clamp_min(0).where(target != 1, zero) + a.where(target != -1, zero)
    return reduced(values, reduction)


def _triplet(positive: Any, negative: Any, across: Any, margin: float, reduction: str) -> Any:
    """across: the distance of positive and negative, when it may count as the negative distance too; or None."""
    if across is not None:
        negative = negative.minimum(across)
    return reduced((margin + positive - negative).clamp_min(0), reduction)


def _check_margin(margin: float) -> None:
    if margin <= 0:
        raise ValueError(f"triplet loss: margin must be greater than 0, got {margin}")


@functional(lambda t: [call(t(3, 4), t(3, 4), t(3, 4)), call(t(3, 4), t(3, 4), t(3, 4), 0.5, 3.0, swap=True,
    reduction="none"),
                       call(t(4), t(4), t(4), reduction="sum")],
            errors=lambda t: [(call(t(3, 4), t(3, 4), t(4)), RuntimeError, "same number of dimensions"),
                              (call(t(3, 4), t(3, 4), t(3, 4), margin=-1.0), ValueError, "margin must be greater than "
                                  "0")])
def triplet_margin_loss(anchor: Any, positive: Any, negative: Any, margin: float = 1.0, p: float = 2, eps: float = 1e-6,
                        swap: bool = False, size_average: bool | None = None, reduce: bool | None = None,
                        reduction: str = "mean") -> Any:
    """max(0, |anchor - positive| - |anchor - negative| + margin), averaged.

    Args:
        anchor, positive, negative: vectors (N, D) or (D,).
        p, eps: of the distance, see `pairwise_distance`.
        swap: the distance of positive and negative counts where it is the smaller one.

    Raises:
        ValueError: margin is not positive. RuntimeError: numbers of dimensions differ.

    Source: Balntas et al., "Learning local feature descriptors with triplets", BMVC 2016.

    >>> a = flambeau.tensor([0.])
    >>> flambeau.nn.functional.triplet_margin_loss(a, a, a, margin=2.0).item()
    2.0
    """
    reduction = reduction_of(size_average, reduce, reduction)
    _check_margin(margin)
    for i, (value, name) in enumerate(((anchor, "anchor"), (positive, "positive"), (negative, "negative"))):
        tensor(value, "triplet_margin_loss", name, i + 1)
    n = [len(shape_of(v)) for v in (anchor, positive, negative)]
    if len(set(n)) != 1:
        raise RuntimeError("triplet_margin_loss: anchor, positive and negative need the same number of dimensions, "
                           f"and they have {n[0]}, {n[1]} and {n[2]}. Use unsqueeze(0) where the batch dimension is "
                           "missing.")
    across = pairwise_distance(positive, negative, p, eps) if swap else None
    return _triplet(pairwise_distance(anchor, positive, p, eps), pairwise_distance(anchor, negative, p, eps), across, margin,
                    reduction)


@functional(lambda t: [call(t(3, 4), t(3, 4), t(3, 4)), call(t(3, 4), t(3, 4), t(3, 4), margin=0.5, swap=True,
    reduction="sum")])
def triplet_margin_with_distance_loss(anchor: Any, positive: Any, negative: Any, *,
                                      distance_function: Callable[[Any, Any], Any] | None = None, margin: float = 1.0,
                                      swap: bool = False, reduction: str = "mean") -> Any:
    """`triplet_margin_loss` with a distance of your own.

    Args:
        distance_function: of two tensors; `pairwise_distance` by default.

    >>> a = flambeau.tensor([0.])
    >>> flambeau.nn.functional.triplet_margin_with_distance_loss(a, a, a, margin=2.0).item()
    2.0
    """
    reduction = reduction_of(None, None, reduction)
    _check_margin(margin)
    distance = pairwise_distance if distance_function is None else distance_function
    across = distance(positive, negative) if swap else None
    return _triplet(distance(anchor, positive), distance(anchor, negative), across, margin, reduction)


# --------------------------------------------------------------------------------- classes


def _check_matrix(function: str, input: Any, target: Any) -> tuple[Any, bool]:
    """(input as (N, C), whether it was a vector)."""
    a: Any = tensor(input, function)
    shape = shape_of(a)
    if len(shape) > 2 or (shape and shape[-1] == 0):
        raise RuntimeError(f"{function}: expected a non-empty vector, or a matrix whose rows are the samples (the "
                           f"batch size may be 0); the input has shape {list(shape)}.")
    d = dtype_of(tensor(target, function, "target", 2))
    if d.name != "int64":
        raise RuntimeError(f"{function}: expected scalar type Long but found {_name(d)}: target holds class indices. Use "
                           "target.long().")
    return (a, False) if len(shape) == 2 else (a.reshape(1, -1), True)


@functional(lambda t: [call(t(3, 4), _labels(t, 3, high=4)),
                       call(t(3, 4), _labels(t, 3, high=4), 2, 0.5, t(4, low=0.5, high=2.0,
                                                                                                          grad=False)),
                       call(t(4), _labels(t, high=4), reduction="none")],
            errors=lambda t: [(call(t(3, 4), _labels(t, 3, high=4), 3), ValueError, "only p == 1 and p == 2 supported"),
                              (call(t(3, 4), _labels(t, 3, high=4) + 4), RuntimeError, "target out of range"),
                              (call(t(3, 4), _labels(t, 2, high=4)), RuntimeError, r"Expected target size \[3\]"),
                              (call(t(3, 4), t(3)), RuntimeError, "expected scalar type Long but found Float")])
def multi_margin_loss(input: Any, target: Any, p: int = 1, margin: float = 1.0, weight: Any = None,
                      size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> Any:
    """Mean over classes j of max(0, margin - input[target] + input[j])^p, j not being the target; averaged.

    Args:
        input: scores (N, C) or (C,). target: class indices (N,) or (), int64.
        p: 1 or 2. weight: of the target's class, (C,).

    Raises:
        RuntimeError: a target that is no class, shapes or dtypes that do not fit. ValueError: another p.

    >>> flambeau.nn.functional.multi_margin_loss(flambeau.tensor([0., 0.]), flambeau.tensor(1)).item()
    0.5
    """
    reduction = reduction_of(size_average, reduce, reduction)
    if p not in (1, 2):
        raise ValueError(f"multi_margin_loss: only p == 1 and p == 2 supported, got {p}")
    if weight is not None and len(shape_of(weight)) != 1:
        raise ValueError("multi_margin_loss: weight must be one-dimensional")
    scores, single = _check_matrix("multi_margin_loss", input, target)
    n, c = shape_of(scores)
    labels = target.reshape(-1)
    if shape_of(labels)[0] != n or len(shape_of(target)) > 1:
        raise RuntimeError("multi_margin_loss: target tensor should be 1-D, one class per row of the input. "
                           f"Expected target size [{n}], but got {list(shape_of(target))}. Input has shape "
                           f"{list(shape_of(input))}.")
    if weight is not None and shape_of(weight) != (c,):
        raise RuntimeError(f"multi_margin_loss: inconsistent weight size, expected {c} but got {list(shape_of(weight))}")
    if is_meta(scores):
        made = Meta(shape_of(target) if reduction == "none" else (), dtype_of(scores))
        return standing_for([scores, labels], made, "multi_margin_loss")
    values = array_of(labels)
    if ((values < 0) | (values >= c)).any():
        raise RuntimeError(f"multi_margin_loss: target out of range: {int(values[(values < 0) | (values >= c)][0])}, "
                           f"but classes go from 0 to {c - 1}")
    at = labels.unsqueeze(1)
    excess = (margin - scores.gather(1, at) + scores).relu()
    excess = excess * excess if p == 2 else excess
    if weight is not None:
        excess = excess * weight.index_select(0, labels).unsqueeze(1)
    others = make(np.arange(c) == values[:, None])
    losses = excess.masked_fill(others, 0).sum(1) / c
    if reduction != "none":
        return reduced(losses, reduction)
    return losses.squeeze(0) if single and not shape_of(target) else losses


def _target_sets(t: Any) -> Any:
    return t(values=[[1, 3, -1, 2], [0, -1, 1, 1], [-1, 0, 0, 0]], dtype="int64", grad=False)


@functional(lambda t: [call(t(3, 4), _target_sets(t)), call(t(3, 4), _target_sets(t), reduction="none")],
            errors=lambda t: [(call(t(3, 4), t(3, 4)), RuntimeError, "expected scalar type Long but found Float"),
                              (call(t(3, 4), _target_sets(t) + 4), RuntimeError, "out of range"),
                              (call(t(2, 4), _target_sets(t)), RuntimeError, "inconsistent target size")])
def multilabel_margin_loss(input: Any, target: Any, size_average: bool | None = None, reduce: bool | None = None,
                           reduction: str = "mean") -> Any:
    """Sum over target classes k and other classes j of max(0, 1 - (input[k] - input[j])), divided by C; averaged.

    Args:
        input: scores (N, C) or (C,). target: like input, int64: class indices, ended by the first -1.

    Raises:
        RuntimeError: a target that is no class, shapes or dtypes that do not fit.

    >>> flambeau.nn.functional.multilabel_margin_loss(flambeau.tensor([0., 0.]), flambeau.tensor([1, -1])).item()
    0.5
    """
    reduction = reduction_of(size_average, reduce, reduction)
    scores, single = _check_matrix("multilabel_margin_loss", input, target)
    if shape_of(input) != shape_of(target):
        raise RuntimeError(f"multilabel_margin_loss: inconsistent target size: {list(shape_of(target))} for input of "
                           f"size: {list(shape_of(input))}")
    n, c = shape_of(scores)
    if is_meta(scores):
        made = Meta(shape_of(target)[:-1] if reduction == "none" else (), dtype_of(scores))
        return standing_for([scores, target], made, "multilabel_margin_loss")
    labels = array_of(target).reshape(n, c)
    if ((labels < -1) | (labels >= c)).any():
        raise RuntimeError("multilabel_margin_loss: argument #2 'target' is out of range: classes go from 0 to "
                           f"{c - 1}, and -1 ends them")
    listed = np.cumprod(labels >= 0, axis=1).astype(bool)
    inside = np.where(listed, labels, 0)
    chosen = np.zeros((n, c), bool)
    chosen[listed.nonzero()[0], labels[listed]] = True
    most = int(listed.sum(1).max(initial=1))        # of the columns, those with a label in some row
    pairs = listed[:, :most, None] & ~chosen[:, None, :]
    excess = (1 - scores.gather(1, make(np.ascontiguousarray(inside[:, :most]))).unsqueeze(2) + scores.unsqueeze(1)).relu()
    losses = excess.masked_fill(make(~pairs), 0).sum((1, 2)) / c
    if reduction != "none":
        return reduced(losses, reduction)
    return losses.squeeze(0) if single else losses
