"""Rprop."""

from __future__ import annotations

from typing import Any

import numpy as np

import flambeau

from ._elementwise import Elementwise, check, check_lr, full_like, number, refuse_modes, step_count, zeros_like
from ._segments import Segment


class Rprop(Elementwise):
    """Steps by the gradient's sign, longer while it keeps, shorter when it changes. For full batches.

    Args:
        params: tensors, named tensors or groups.
        lr: first step.
        etas: factors of the step when the sign has changed, and when not.
        step_sizes: shortest and longest step.
        foreach, capturable: accepted for PyTorch's sake; there is one implementation.
        maximize: climb instead of descending.

    Source: Riedmiller and Braun, 1993.
    """

    def __init__(self, params: Any, lr: Any = 1e-2, etas: tuple = (0.5, 1.2), step_sizes: tuple = (1e-6, 50),
                 *, capturable: bool = False, foreach: bool | None = None, maximize: bool = False,
                 differentiable: bool = False) -> None:
        check_lr(lr)
        check(0.0 < etas[0] < 1.0 < etas[1], "eta values", f"{etas[0]}, {etas[1]}")
        refuse_modes("Rprop", foreach, None, differentiable)
        super().__init__(params, dict(lr=lr, etas=etas, step_sizes=step_sizes, foreach=foreach,
                                      maximize=maximize, differentiable=differentiable,
                                      capturable=capturable))

    def names(self, group: dict) -> tuple[str, ...]:
        return ("prev", "step_size")

    def start(self, p: Any, group: dict, state: dict) -> None:
        state["step"] = step_count()
        state["prev"] = zeros_like(p)
        state["step_size"] = full_like(p, number(group["lr"]))

    def numbers(self, group: dict, count: Any) -> tuple[float, ...]:
        return (*group["etas"], *group["step_sizes"])

    def record(self, p: Any, g: Any, state: dict, group: dict) -> None:
        shrink, grow = group["etas"]
        state["step"].add_(1)
        agrees = g * state["prev"]
        changed = agrees < 0
        factor = flambeau.where(changed, shrink, flambeau.where(agrees > 0, grow, 1.0)).to(p.dtype)
        size = (state["step_size"] * factor).clamp(*group["step_sizes"])
        state["step_size"].copy_(size)
        g = g.masked_fill(changed, 0)
        p.sub_(g.sign() * size)
        state["prev"].copy_(g)

    def update(self, segment: Segment, group: dict, numbers: list) -> None:
        shrink, grow, shortest, longest = numbers
        before, size = segment.states
        g = segment.regularised(None, group["maximize"])
        a, b = segment.scratch[1], segment.scratch[2]
        np.multiply(g, before, a)
        changed = a < 0
        np.copyto(b, 1)
        np.copyto(b, grow, where=a > 0)
        np.copyto(b, shrink, where=changed)
        np.multiply(size, b, size)
        np.clip(size, shortest, longest, size)
        np.copyto(before, g)
        np.copyto(before, 0, where=changed)
        np.sign(before, b)
        np.multiply(b, size, b)
        np.negative(b, b)
        segment.add(2)
