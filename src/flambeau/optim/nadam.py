"""NAdam."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from flambeau.core.objects import array_of

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


class NAdam(Elementwise):
    """Adam with Nesterov momentum.

    Args:
        params: tensors, named tensors or groups.
        lr: learning rate.
        betas: decay rates of the mean and the mean of squares, in [0, 1).
        eps: added to the root.
        weight_decay: L2 penalty, added to the gradient.
        momentum_decay: how slowly the momentum reaches its final value.
        decoupled_weight_decay: shrink the weights directly instead.
        foreach, capturable: accepted for PyTorch's sake; there is one implementation.
        maximize: climb instead of descending.

    Source: Dozat, 2016, Incorporating Nesterov momentum into Adam.
    """

    def __init__(self, params: Any, lr: Any = 2e-3, betas: tuple = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0, momentum_decay: float = 4e-3, decoupled_weight_decay: bool = False,
                 *, foreach: bool | None = None, maximize: bool = False, capturable: bool = False,
                 differentiable: bool = False) -> None:
        check_lr(lr)
        check(0.0 <= eps, "epsilon value", eps)
        for i in (0, 1):
            check(0.0 <= betas[i] < 1.0, f"beta parameter at index {i}", betas[i])
        check(0.0 <= weight_decay, "weight_decay value", weight_decay)
        check(0.0 <= momentum_decay, "momentum_decay value", momentum_decay)
        refuse_modes("NAdam", foreach, None, differentiable)
        super().__init__(params, dict(
            lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, momentum_decay=momentum_decay,
            decoupled_weight_decay=decoupled_weight_decay, maximize=maximize, foreach=foreach,
            capturable=capturable, differentiable=differentiable))

    def names(self, group: dict) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq")

    def start(self, p: Any, group: dict, state: dict) -> None:
        state["step"] = step_count()
        state["mu_product"] = step_count()
        array_of(state["mu_product"]).fill(1)
        for name in self.names(group):
            state[name] = zeros_like(p)

    @staticmethod
    def _momentum(group: dict, step: float) -> float:
        return group["betas"][0] * (1.0 - 0.5 * 0.96 ** (step * group["momentum_decay"]))

    def advance(self, state: dict, group: dict) -> Any:
        step = super().advance(state, group)
        product = array_of(state["mu_product"])
        product *= product.dtype.type(self._momentum(group, step))
        return (step, product.item())

    def numbers(self, group: dict, count: Any) -> tuple[float, ...]:
        step, product = count
        lr, (beta1, beta2) = number(group["lr"]), group["betas"]
        now, after = self._momentum(group, step), self._momentum(group, step + 1)
        decay = group["weight_decay"]
        return (1 - beta1, beta2, 1 - beta2, math.sqrt(1 - beta2**step), group["eps"],
                -lr * (1 - now) / (1 - product), -lr * after / (1 - product * after),
                1 - lr * decay if group["decoupled_weight_decay"] else decay)

    def record(self, p: Any, g: Any, state: dict, group: dict) -> None:
        lr, (beta1, beta2) = group["lr"], group["betas"]
        state["step"].add_(1)
        count = state["step"].item()
        now, after = self._momentum(group, count), self._momentum(group, count + 1)
        state["mu_product"].mul_(now)
        product = state["mu_product"].clone()
        g = decayed(p, g, group)
        mean = mixed(state["exp_avg"], g, 1 - beta1)
        square = mixed_square(state["exp_avg_sq"], g, beta2)
        root = (square / (1 - beta2**count)).sqrt() + group["eps"]
        p.sub_(g * (lr * (1 - now) / (1 - product)) / root)
        p.sub_(mean * (lr * after / (1 - product * after)) / root)

    def update(self, segment: Segment, group: dict, numbers: list) -> None:
        new1, beta2, new2, correction2, eps, of_gradient, of_mean, decay = numbers
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
        np.sqrt(square, a)
        np.divide(a, correction2, a)
        np.add(a, eps, a)
        np.multiply(g, of_gradient, b)
        np.divide(b, a, b)
        segment.add(2)
        np.multiply(mean, of_mean, b)
        np.divide(b, a, b)
        segment.add(2)
