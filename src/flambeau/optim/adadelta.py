"""Adadelta."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._elementwise import Elementwise, check, check_lr, decayed, mixed_square, number, refuse_modes, step_count, zeros_like
from ._segments import Segment


class Adadelta(Elementwise):
    """Scales the gradient by the root of mean squared steps over the root of mean squared gradients.

    Args:
        params: tensors, named tensors or groups.
        lr: a factor of the step.
        rho: decay rate of the means, in [0, 1].
        eps: added under both roots.
        weight_decay: L2 penalty, added to the gradient.
        foreach, capturable: accepted for PyTorch's sake; there is one implementation.
        maximize: climb instead of descending.

    Source: Zeiler, 2012, arXiv:1212.5701.
    """

    def __init__(self, params: Any, lr: Any = 1.0, rho: float = 0.9, eps: float = 1e-6,
                 weight_decay: float = 0, foreach: bool | None = None, *, capturable: bool = False,
                 maximize: bool = False, differentiable: bool = False) -> None:
        check_lr(lr)
        check(0.0 <= rho <= 1.0, "rho value", rho)
        check(0.0 <= eps, "epsilon value", eps)
        check(0.0 <= weight_decay, "weight_decay value", weight_decay)
        refuse_modes("Adadelta", foreach, None, differentiable)
        super().__init__(params, dict(lr=lr, rho=rho, eps=eps, weight_decay=weight_decay, maximize=maximize,
                                      capturable=capturable, foreach=foreach, differentiable=differentiable))

    def names(self, group: dict) -> tuple[str, ...]:
        return ("square_avg", "acc_delta")

    def start(self, p: Any, group: dict, state: dict) -> None:
        state["step"] = step_count()
        for name in self.names(group):
            state[name] = zeros_like(p)

    def numbers(self, group: dict, count: Any) -> tuple[float, ...]:
        return (group["rho"], 1 - group["rho"], group["eps"], -number(group["lr"]), group["weight_decay"])

    def record(self, p: Any, g: Any, state: dict, group: dict) -> None:
        rho, eps = group["rho"], group["eps"]
        state["step"].add_(1)
        g = decayed(p, g, group)
        square = mixed_square(state["square_avg"], g, rho)
        steps = state["acc_delta"].clone()
        step = (steps + eps).sqrt() / (square + eps).sqrt() * g
        mixed_square(state["acc_delta"], step, rho)
        p.sub_(step * group["lr"])

    def update(self, segment: Segment, group: dict, numbers: list) -> None:
        rho, new, eps, minus_lr, decay = numbers
        square, steps = segment.states
        g = segment.regularised(decay if group["weight_decay"] != 0 else None, group["maximize"])
        a, b = segment.scratch[1], segment.scratch[2]
        np.multiply(square, rho, square)
        np.multiply(g, new, a)
        np.multiply(a, g, a)
        np.add(square, a, square)
        np.add(square, eps, a)
        np.sqrt(a, a)
        np.add(steps, eps, b)
        np.sqrt(b, b)
        np.divide(b, a, b)
        np.multiply(b, g, b)
        np.multiply(steps, rho, steps)
        np.multiply(b, new, a)
        np.multiply(a, b, a)
        np.add(steps, a, steps)
        np.multiply(b, minus_lr, b)
        segment.add(2)
