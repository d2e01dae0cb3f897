"""Adam."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from flambeau.core.objects import TensorBase

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
from ._functional import adam  # type: ignore[attr-defined]  # noqa: F401
from ._segments import Segment
from ._sparse import refuse


class Adam(Elementwise):
    """Adam: steps along the mean of gradients, divided by the root of the mean of their squares.

    Args:
        params: tensors, named tensors or groups.
        lr: learning rate.
        betas: decay rates of the two means, in [0, 1).
        eps: added to the root.
        weight_decay: L2 penalty, added to the gradient.
        amsgrad: divide by the largest mean of squares so far.
        foreach, capturable, fused: accepted for PyTorch's sake; there is one implementation.
        maximize: climb instead of descending.
        decoupled_weight_decay: shrink the weights directly instead (AdamW).

    Source: Kingma and Ba, 2014, arXiv:1412.6980; amsgrad: Reddi et al., 2018.
    """

    def __init__(self, params: Any, lr: Any = 1e-3, betas: tuple = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0, amsgrad: bool = False, *, foreach: bool | None = None,
                 maximize: bool = False, capturable: bool = False, differentiable: bool = False,
                 fused: bool | None = None, decoupled_weight_decay: bool = False) -> None:
        check_lr(lr)
        if isinstance(betas[0], TensorBase) != isinstance(betas[1], TensorBase):
            raise ValueError("betas must be either both floats or both Tensors")
        for what, value in (("lr", lr), ("betas[0]", betas[0]), ("betas[1]", betas[1])):
            if isinstance(value, TensorBase) and foreach and not capturable:
                raise ValueError(f"{what} as a Tensor is not supported for capturable=False and foreach=True. Leave "
                                 "foreach out: it changes nothing here.")
            if isinstance(value, TensorBase) and value.numel() != 1:  # type: ignore[attr-defined]
                raise ValueError(f"Tensor {what} must be 1-element")
        check(0.0 <= eps, "epsilon value", eps)
        for i in (0, 1):
            check(0.0 <= number(betas[i]) < 1.0, f"beta parameter at index {i}", number(betas[i]))
        check(0.0 <= weight_decay, "weight_decay value", weight_decay)
        refuse_modes(type(self).__name__, foreach, fused, differentiable)
        super().__init__(params, dict(
            lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad, maximize=maximize,
            foreach=foreach, capturable=capturable, differentiable=differentiable, fused=fused,
            decoupled_weight_decay=decoupled_weight_decay))

    def __setstate__(self, state: dict) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for name, default in (("amsgrad", False), ("maximize", False), ("foreach", None),
                                  ("capturable", False), ("differentiable", False), ("fused", None),
                                  ("decoupled_weight_decay", False)):
                group.setdefault(name, default)

    def names(self, group: dict) -> tuple[str, ...]:
        if group["amsgrad"]:
            return ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")
        return ("exp_avg", "exp_avg_sq")

    def start(self, p: Any, group: dict, state: dict) -> None:
        state["step"] = step_count()
        for name in self.names(group):
            state[name] = zeros_like(p)

    def numbers(self, group: dict, count: Any) -> tuple[float, ...]:
        lr = number(group["lr"])
        beta1, beta2 = (number(b) for b in group["betas"])
        decay = group["weight_decay"]
        return (1 - beta1, beta2, 1 - beta2, math.sqrt(1 - beta2**count), group["eps"],
                -lr / (1 - beta1**count), 1 - lr * decay if group["decoupled_weight_decay"] else decay)

    def sparse_update(self, p: Any, g: Any, group: dict) -> None:
        refuse("Adam", ", please consider SparseAdam instead")

    def record(self, p: Any, g: Any, state: dict, group: dict) -> None:
        (beta1, beta2), lr = group["betas"], group["lr"]
        step = state["step"]
        if step.requires_grad:
            raise RuntimeError("`requires_grad` is not supported for `step` in differentiable mode: it counts")
        step.add_(1)
        count = step.item()
        g = decayed(p, g, group)
        mean = mixed(state["exp_avg"], g, 1 - beta1)
        square = mixed_square(state["exp_avg_sq"], g, beta2)
        if group["amsgrad"]:
            largest = state["max_exp_avg_sq"].clone()
            square = largest.maximum(square)
            state["max_exp_avg_sq"].copy_(square)
        root = square.sqrt() / (1 - beta2**count) ** 0.5
        p.sub_(mean * (lr / (1 - beta1**count)) / (root + group["eps"]))

    def update(self, segment: Segment, group: dict, numbers: list) -> None:
        new1, beta2, new2, correction2, eps, minus_step, decay = numbers
        mean, square = segment.states[0], segment.states[1]
        decoupled = group["decoupled_weight_decay"]
        decays = group["weight_decay"] != 0
        if decays and decoupled:
            segment.scale(decay)
        g = segment.g
        if group["maximize"] or (decays and not decoupled):
            g = segment.regularised(decay if decays and not decoupled else None, group["maximize"])
        a, b = segment.scratch[1], segment.scratch[2]
        multiply, add = np.multiply, np.add
        np.subtract(g, mean, a)                 # mean += (1 - beta1) * (g - mean)
        multiply(a, new1, a)
        add(mean, a, mean)
        multiply(square, beta2, square)         # square = beta2 * square + (1 - beta2) * g * g
        multiply(g, new2, a)
        multiply(a, g, a)
        add(square, a, square)
        if group["amsgrad"]:
            square = np.maximum(segment.states[2], square, out=segment.states[2])
        # parameters -= step * mean / (sqrt(square) / correction + eps)
        np.sqrt(square, a)
        np.divide(a, correction2, a)
        add(a, eps, a)
        multiply(mean, minus_step, b)
        np.divide(b, a, b)
        segment.add(2)
