"""RMSprop."""

from __future__ import annotations

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


class RMSprop(Elementwise):
    """Divides the gradient by the root of the mean of its squares.

    Args:
        params: tensors, named tensors or groups.
        lr: learning rate.
        alpha: decay rate of the mean.
        eps: added to the root.
        weight_decay: L2 penalty, added to the gradient.
        momentum: of the steps.
        centered: divide by the standard deviation instead.
        capturable, foreach: accepted for PyTorch's sake; there is one implementation.
        maximize: climb instead of descending.

    Source: Tieleman and Hinton, 2012, lecture 6.5; centered: Graves, 2013, arXiv:1308.0850.
    """

    def __init__(self, params: Any, lr: Any = 1e-2, alpha: float = 0.99, eps: float = 1e-8,
                 weight_decay: float = 0, momentum: float = 0, centered: bool = False,
                 capturable: bool = False, foreach: bool | None = None, maximize: bool = False,
                 differentiable: bool = False) -> None:
        check_lr(lr)
        check(0.0 <= eps, "epsilon value", eps)
        check(0.0 <= momentum, "momentum value", momentum)
        check(0.0 <= weight_decay, "weight_decay value", weight_decay)
        check(0.0 <= alpha, "alpha value", alpha)
        refuse_modes("RMSprop", foreach, None, differentiable)
        super().__init__(params, dict(
            lr=lr, momentum=momentum, alpha=alpha, eps=eps, centered=centered, weight_decay=weight_decay,
            capturable=capturable, foreach=foreach, maximize=maximize, differentiable=differentiable))

    def __setstate__(self, state: dict) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for name, default in (("momentum", 0), ("centered", False), ("foreach", None),
                                  ("maximize", False), ("differentiable", False), ("capturable", False)):
                group.setdefault(name, default)

    def names(self, group: dict) -> tuple[str, ...]:
        return ("square_avg", *(("momentum_buffer",) if group["momentum"] > 0 else ()),
                *(("grad_avg",) if group["centered"] else ()))

    def start(self, p: Any, group: dict, state: dict) -> None:
        state["step"] = step_count()
        for name in self.names(group):
            state[name] = zeros_like(p)

    def numbers(self, group: dict, count: Any) -> tuple[float, ...]:
        return (group["alpha"], 1 - group["alpha"], group["eps"], group["momentum"], -number(group["lr"]),
                group["weight_decay"])

    def record(self, p: Any, g: Any, state: dict, group: dict) -> None:
        alpha = group["alpha"]
        state["step"].add_(1)
        g = decayed(p, g, group)
        square = mixed_square(state["square_avg"], g, alpha)
        if group["centered"]:
            mean = mixed(state["grad_avg"], g, 1 - alpha)
            square = square - mean * mean
        step = g / (square.sqrt() + group["eps"])
        if group["momentum"] > 0:
            step = state["momentum_buffer"] * group["momentum"] + step
            state["momentum_buffer"].copy_(step)
        p.sub_(step * group["lr"])

    def update(self, segment: Segment, group: dict, numbers: list) -> None:
        alpha, new, eps, momentum, minus_lr, decay = numbers
        states = dict(zip(self.names(group), segment.states, strict=True))
        g = segment.regularised(decay if group["weight_decay"] != 0 else None, group["maximize"])
        a, b = segment.scratch[1], segment.scratch[2]
        square = states["square_avg"]
        np.multiply(square, alpha, square)
        np.multiply(g, new, a)
        np.multiply(a, g, a)
        np.add(square, a, square)
        if group["centered"]:
            mean = states["grad_avg"]
            np.subtract(g, mean, a)
            np.multiply(a, new, a)
            np.add(mean, a, mean)
            np.multiply(mean, mean, a)
            np.subtract(square, a, a)
            np.sqrt(a, a)
        else:
            np.sqrt(square, a)
        np.add(a, eps, a)
        if group["momentum"] > 0:
            kept = states["momentum_buffer"]
            np.multiply(kept, momentum, kept)
            np.divide(g, a, a)
            np.add(kept, a, kept)
            np.multiply(kept, minus_lr, b)
        else:
            np.multiply(g, minus_lr, b)
            np.divide(b, a, b)
        segment.add(2)
