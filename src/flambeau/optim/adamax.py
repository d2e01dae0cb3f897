"""Adamax."""

from __future__ import annotations

from typing import Any

import numpy as np

import flambeau

from ._elementwise import Elementwise, check, check_lr, decayed, mixed, number, refuse_modes, step_count, zeros_like
from ._segments import Segment


class Adamax(Elementwise):
    """Adam with the decayed maximum of gradients in place of the mean of squares.

    Args:
        params: tensors, named tensors or groups.
        lr: learning rate.
        betas: decay rates of mean and maximum, in [0, 1).
        eps: added to the gradient's size.
        weight_decay: L2 penalty, added to the gradient.
        foreach, capturable: accepted for PyTorch's sake; there is one implementation.
        maximize: climb instead of descending.

    Source: Kingma and Ba, 2014, arXiv:1412.6980, section 7.
    """

    def __init__(self, params: Any, lr: Any = 2e-3, betas: tuple = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0, foreach: bool | None = None, *, maximize: bool = False,
                 differentiable: bool = False, capturable: bool = False) -> None:
        check_lr(lr)
        check(0.0 <= eps, "epsilon value", eps)
        for i in (0, 1):
            check(0.0 <= betas[i] < 1.0, f"beta parameter at index {i}", betas[i])
        check(0.0 <= weight_decay, "weight_decay value", weight_decay)
        refuse_modes("Adamax", foreach, None, differentiable)
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, foreach=foreach,
                                      maximize=maximize, differentiable=differentiable,
                                      capturable=capturable))

    def names(self, group: dict) -> tuple[str, ...]:
        return ("exp_avg", "exp_inf")

    def start(self, p: Any, group: dict, state: dict) -> None:
        state["step"] = step_count()
        for name in self.names(group):
            state[name] = zeros_like(p)

    def numbers(self, group: dict, count: Any) -> tuple[float, ...]:
        beta1, beta2 = group["betas"]
        return (1 - beta1, beta2, group["eps"], -number(group["lr"]) / (1 - beta1**count),
                group["weight_decay"])

    def record(self, p: Any, g: Any, state: dict, group: dict) -> None:
        beta1, beta2 = group["betas"]
        state["step"].add_(1)
        g = decayed(p, g, group)
        mean = mixed(state["exp_avg"], g, 1 - beta1)
        # amax shares the gradient among equal elements, as PyTorch's does
        largest = flambeau.stack([state["exp_inf"] * beta2, g.abs() + group["eps"]]).amax(0)
        state["exp_inf"].copy_(largest)
        p.sub_(mean * group["lr"] / (largest * (1 - beta1 ** state["step"].item())))

    def update(self, segment: Segment, group: dict, numbers: list) -> None:
        new, beta2, eps, minus_step, decay = numbers
        mean, largest = segment.states
        g = segment.regularised(decay if group["weight_decay"] != 0 else None, group["maximize"])
        a, b = segment.scratch[1], segment.scratch[2]
        np.subtract(g, mean, a)
        np.multiply(a, new, a)
        np.add(mean, a, mean)
        np.multiply(largest, beta2, largest)
        np.abs(g, a)
        np.add(a, eps, a)
        np.maximum(largest, a, out=largest)
        np.multiply(mean, minus_step, b)
        np.divide(b, largest, b)
        segment.add(2)
