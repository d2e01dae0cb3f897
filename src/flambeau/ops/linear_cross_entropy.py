"""The cross entropy of a linear layer's scores."""

from __future__ import annotations

from math import prod
from typing import Any

from flambeau.core.objects import shape_of

from ._args import tensor
from ._record import call, public
from .addmm import linear
from .losses_classes import cross_entropy
from .shape import reshaped


@public(namespaces=("nn.functional",), method=False, out=False,
        samples=lambda t: [call(t(4, 3), t(5, 3), t(4, dtype="int64", low=0, high=4, grad=False)),
                           call(t(4, 3), t(5, 3), t(4, 5), linear_bias=t(5), reduction="sum"),
                           call(t(4, 3), t(5, 2, 3), t(4, 2, dtype="int64", low=0, high=4, grad=False))])
def linear_cross_entropy(input: Any, linear_weight: Any, target: Any, *, linear_bias: Any = None, weight: Any = None,
                         reduction: str = "mean", ignore_index: int | None = None, label_smoothing: float = 0.0,
                         options: Any = None) -> Any:
    """`cross_entropy` of the scores `linear(input, linear_weight, linear_bias)`.

    Args:
        input: (N, D) or (D,).
        linear_weight: (C, D), or (C, d1, ..., D) for scores (N, C, d1, ...).
        target: classes or probabilities, as in `cross_entropy`.
        linear_bias: (C,) or (C, d1, ...).
        ignore_index: a target class that counts nothing; -100 by default.
        options: how PyTorch splits the work to save memory; accepted, and without effect here.

    >>> F = flambeau.nn.functional
    >>> F.linear_cross_entropy(flambeau.ones(1, 2), flambeau.zeros(4, 2), flambeau.tensor([1])).item()
    1.3862943649291992
    """
    classes = tuple(shape_of(tensor(linear_weight, "linear_cross_entropy", "linear_weight", 2)))
    if len(classes) > 2:
        rows = (prod(classes[:-1]),)
        scores = linear(input, reshaped(linear_weight, (*rows, classes[-1])),
                        None if linear_bias is None else reshaped(linear_bias, rows))
        scores = reshaped(scores, (*shape_of(input)[:-1], *classes[:-1]))
    else:
        scores = linear(input, linear_weight, linear_bias)
    return cross_entropy(scores, target, weight, ignore_index=-100 if ignore_index is None else ignore_index,
                         reduction=reduction, label_smoothing=label_smoothing)
