"""Adagrad."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._elementwise import Elementwise, check, check_lr, decayed, full_like, number, refuse_modes, step_count
from ._segments import Segment
from ._sparse import adagrad


class Adagrad(Elementwise):
    """Divides the gradient by the root of the sum of all its squares.

    Args:
        params: tensors, named tensors or groups.
        lr: learning rate.
        lr_decay: the rate in step t is lr / (1 + (t - 1) * lr_decay).
        weight_decay: L2 penalty, added to the gradient.
        initial_accumulator_value: where the sum starts.
        eps: added to the root.
        foreach, fused: accepted for PyTorch's sake; there is one implementation.
        maximize: climb instead of descending.

    Source: Duchi et al., 2011, Adaptive subgradient methods.
    """

    def __init__(self, params: Any, lr: Any = 1e-2, lr_decay: float = 0, weight_decay: float = 0,
                 initial_accumulator_value: float = 0, eps: float = 1e-10, foreach: bool | None = None, *,
                 maximize: bool = False, differentiable: bool = False, fused: bool | None = None) -> None:
        check_lr(lr)
        check(0.0 <= lr_decay, "lr_decay value", lr_decay)
        check(0.0 <= weight_decay, "weight_decay value", weight_decay)
        check(0.0 <= initial_accumulator_value, "initial_accumulator_value value", initial_accumulator_value)
        check(0.0 <= eps, "epsilon value", eps)
        refuse_modes("Adagrad", foreach, fused, differentiable)
        super().__init__(params, dict(
            lr=lr, lr_decay=lr_decay, eps=eps, weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value, foreach=foreach, maximize=maximize,
            differentiable=differentiable, fused=fused))
        for group in self.param_groups:
            for p in group["params"]:
                self.start(p, group, self.state[p])

    def __setstate__(self, state: dict) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for name, default in (("foreach", None), ("maximize", False), ("differentiable", False),
                                  ("fused", None)):
                group.setdefault(name, default)

    def share_memory(self) -> None:
        """Move the state to shared memory."""
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["sum"].share_memory_()

    def names(self, group: dict) -> tuple[str, ...]:
        return ("sum",)

    def start(self, p: Any, group: dict, state: dict) -> None:
        first = group["initial_accumulator_value"]
        state["step"] = step_count()
        state["sum"] = full_like(p, first)

    def numbers(self, group: dict, count: Any) -> tuple[float, ...]:
        return (-number(group["lr"]) / (1 + (count - 1) * group["lr_decay"]), group["eps"],
                group["weight_decay"])

    def sparse_update(self, p: Any, g: Any, group: dict) -> None:
        state = self.state[p]
        if not state:
            self.start(p, group, state)
        count = self.advance(state, group)
        adagrad(p, g, group, state, number(group["lr"]) / (1 + (count - 1) * group["lr_decay"]))

    def record(self, p: Any, g: Any, state: dict, group: dict) -> None:
        state["step"].add_(1)
        g = decayed(p, g, group)
        total = state["sum"] + g * g
        state["sum"].copy_(total)
        rate = group["lr"] / (1 + (state["step"].item() - 1) * group["lr_decay"])
        p.sub_(g * rate / (total.sqrt() + group["eps"]))

    def update(self, segment: Segment, group: dict, numbers: list) -> None:
        minus_lr, eps, decay = numbers
        total = segment.states[0]
        g = segment.regularised(decay if group["weight_decay"] != 0 else None, group["maximize"])
        a, b = segment.scratch[1], segment.scratch[2]
        np.multiply(g, g, a)
        np.add(total, a, total)
        np.sqrt(total, a)
        np.add(a, eps, a)
        np.multiply(g, minus_lr, b)
        np.divide(b, a, b)
        segment.add(2)
