"""RAdam."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ._elementwise import (
    Elementwise,
    check,
    check_lr,
    decayed,
    mixed,
    mixed_square,
    number,
    refuse_modes,
    step_count,
    zeros_like,
)
from ._segments import Segment


class RAdam(Elementwise):
    """Adam that does without the root until its variance is known well enough.

    Args:
        params: tensors, named tensors or groups.
        lr: learning rate.
        betas: decay rates of the mean and the mean of squares, in [0, 1).
        eps: added to the root.
        weight_decay: L2 penalty, added to the gradient.
        decoupled_weight_decay: shrink the weights directly instead.
        foreach, capturable: accepted for PyTorch's sake; there is one implementation.
        maximize: climb instead of descending.

    Source: Liu et al., 2019, arXiv:1908.03265.
    """

    def __init__(self, params: Any, lr: Any = 1e-3, betas: tuple = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0, decoupled_weight_decay: bool = False, *,
                 foreach: bool | None = None, maximize: bool = False, capturable: bool = False,
                 differentiable: bool = False) -> None:
        check_lr(lr)
        check(0.0 <= eps, "epsilon value", eps)
        for i in (0, 1):
            check(0.0 <= betas[i] < 1.0, f"beta parameter at index {i}", betas[i])
        check(0.0 <= weight_decay, "weight_decay value", weight_decay)
        refuse_modes("RAdam", foreach, None, differentiable)
        super().__init__(params, dict(
            lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, maximize=maximize, foreach=foreach,
            capturable=capturable, decoupled_weight_decay=decoupled_weight_decay,
            differentiable=differentiable))

    def names(self, group: dict) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq")

    def start(self, p: Any, group: dict, state: dict) -> None:
        state["step"] = step_count()
        for name in self.names(group):
            state[name] = zeros_like(p)

    @staticmethod
    def _rectified(beta2: float, count: float) -> float:
        """The factor that corrects the root's variance; 0 while that is not known."""
        longest = 2 / (1 - beta2) - 1
        length = longest - 2 * count * beta2**count / (1 - beta2**count)      # of the moving average
        if length <= 5.0:
            return 0.0
        known, final = (length - 4) * (length - 2), (longest - 4) * (longest - 2)
        return math.sqrt(known * longest / (final * length))

    def numbers(self, group: dict, count: Any) -> tuple[float, ...]:
        lr, (beta1, beta2) = number(group["lr"]), group["betas"]
        decay = group["weight_decay"]
        return (1 - beta1, beta2, 1 - beta2, group["eps"], -lr / (1 - beta1**count),
                math.sqrt(1 - beta2**count) * self._rectified(beta2, count),
                1 - lr * decay if group["decoupled_weight_decay"] else decay)

    def record(self, p: Any, g: Any, state: dict, group: dict) -> None:
        lr, (beta1, beta2) = group["lr"], group["betas"]
        state["step"].add_(1)
        count = state["step"].item()
        g = decayed(p, g, group)
        mean = mixed(state["exp_avg"], g, 1 - beta1)
        square = mixed_square(state["exp_avg_sq"], g, beta2)
        step = mean * (lr / (1 - beta1**count))
        rectified = self._rectified(beta2, count)
        if rectified != 0:
            step = step * (math.sqrt(1 - beta2**count) * rectified / (square.sqrt() + group["eps"]))
        p.sub_(step)

    def update(self, segment: Segment, group: dict, numbers: list) -> None:
        new1, beta2, new2, eps, minus_step, rectified, decay = numbers
        mean, square = segment.states
        decays, decoupled = group["weight_decay"] != 0, group["decoupled_weight_decay"]
        if decays and decoupled:
            segment.scale(decay)
        g = segment.regularised(decay if decays and not decoupled else None, group["maximize"])
        a, b = segment.scratch[1], segment.scratch[2]
        np.subtract(g, mean, a)
        np.multiply(a, new1, a)
        np.add(mean, a, mean)
        np.multiply(square, beta2, square)
        np.multiply(g, new2, a)
        np.multiply(a, g, a)
        np.add(square, a, square)
        np.multiply(mean, minus_step, b)
        if rectified != 0:
            np.sqrt(square, a)
            np.add(a, eps, a)
            np.divide(rectified, a, a)
            np.multiply(b, a, b)
        segment.add(2)
