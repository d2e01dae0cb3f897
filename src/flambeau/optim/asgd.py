"""ASGD."""

from __future__ import annotations

from typing import Any

import numpy as np

import flambeau
from flambeau.core.objects import array_of

from ._elementwise import Elementwise, check, check_lr, decayed, mixed, number, refuse_modes, step_count, zeros_like
from ._segments import Segment


class ASGD(Elementwise):
    """Gradient descent that also keeps the mean of the parameters, in `state[p]["ax"]`.

    Args:
        params: tensors, named tensors or groups.
        lr: first learning rate.
        lambd: how fast it falls, and how much weights shrink in a step.
        alpha: power of the fall.
        t0: step at which averaging starts.
        weight_decay: L2 penalty, added to the gradient.
        foreach, capturable: accepted for PyTorch's sake; there is one implementation.
        maximize: climb instead of descending.

    Source: Polyak and Juditsky, 1992.
    """

    def __init__(self, params: Any, lr: Any = 1e-2, lambd: float = 1e-4, alpha: float = 0.75, t0: float = 1e6,
                 weight_decay: float = 0, foreach: bool | None = None, maximize: bool = False,
                 differentiable: bool = False, capturable: bool = False) -> None:
        check_lr(lr)
        check(0.0 <= weight_decay, "weight_decay value", weight_decay)
        refuse_modes("ASGD", foreach, None, differentiable)
        super().__init__(params, dict(lr=lr, lambd=lambd, alpha=alpha, t0=t0, weight_decay=weight_decay,
                                      foreach=foreach, maximize=maximize, differentiable=differentiable,
                                      capturable=capturable))

    def names(self, group: dict) -> tuple[str, ...]:
        return ("ax",)

    def start(self, p: Any, group: dict, state: dict) -> None:
        state["step"], state["eta"], state["mu"] = step_count(), step_count(), step_count()
        array_of(state["eta"]).fill(number(group["lr"]))
        array_of(state["mu"]).fill(1)
        state["ax"] = zeros_like(p)

    def advance(self, state: dict, group: dict) -> Any:
        step = super().advance(state, group)
        eta, mu = array_of(state["eta"]), array_of(state["mu"])
        present = (eta.item(), mu.item())
        lr = number(group["lr"])
        eta.fill(lr / (1 + group["lambd"] * lr * step) ** group["alpha"])      # those of the next step
        mu.fill(1 / max(1, step - group["t0"]))
        return present

    def numbers(self, group: dict, count: Any) -> tuple[float, ...]:
        eta, mu = count
        return (-eta, 1 - group["lambd"] * eta, mu, group["weight_decay"])

    def record(self, p: Any, g: Any, state: dict, group: dict) -> None:
        lr = group["lr"]
        if state["step"].item() == 0:
            state["eta"].copy_(flambeau.as_tensor(lr))
        state["step"].add_(1)
        count = state["step"].item()
        eta, mu = state["eta"].clone(), state["mu"].item()
        state["eta"].copy_(flambeau.as_tensor(lr / (1 + group["lambd"] * lr * count) ** group["alpha"]))
        state["mu"].fill_(1 / max(1, count - group["t0"]))
        g = decayed(p, g, group)
        p.mul_(1 - group["lambd"] * eta)
        p.sub_(g * eta)
        mixed(state["ax"], p, mu)

    def update(self, segment: Segment, group: dict, numbers: list) -> None:
        minus_eta, shrink, mu, decay = numbers
        mean = segment.states[0]
        g = segment.regularised(decay if group["weight_decay"] != 0 else None, group["maximize"])
        segment.scale(shrink)
        np.multiply(g, minus_eta, segment.scratch[2])
        segment.add(2)
        present = segment.load(1)
        if mu == 1:
            np.copyto(mean, present)
        else:
            np.subtract(present, mean, present)
            np.multiply(present, mu, present)
            np.add(mean, present, mean)
