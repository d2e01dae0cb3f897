"""Stochastic gradient descent."""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.objects import array_of, make

from ._elementwise import Batch, Elementwise, check, check_lr, decayed, number, refuse_modes
from ._functional import sgd  # type: ignore[attr-defined]  # noqa: F401
from ._segments import PIECE, Segment
from ._sparse import gradient
from ._sparse import sgd as sgd_step


class SGD(Elementwise):
    """Gradient descent, with momentum if asked.

    Args:
        params: tensors, named tensors or groups.
        lr: learning rate.
        momentum: how much of the last step's direction is kept.
        dampening: how much less of the gradient enters the momentum.
        weight_decay: L2 penalty, added to the gradient.
        nesterov: look ahead along the momentum.
        maximize: climb instead of descending.
        foreach, fused: accepted for PyTorch's sake; there is one implementation.

    Source: momentum: Sutskever et al., 2013, in the form in which the learning rate scales the whole step.
    """

    def __init__(self, params: Any, lr: Any = 1e-3, momentum: float = 0, dampening: float = 0,
                 weight_decay: Any = 0, nesterov: bool = False, *, maximize: bool = False,
                 foreach: bool | None = None, differentiable: bool = False,
                 fused: bool | None = None) -> None:
        check_lr(lr)
        check(momentum >= 0.0, "momentum value", momentum)
        check(number(weight_decay) >= 0.0, "weight_decay value", number(weight_decay))
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        refuse_modes("SGD", foreach, fused, differentiable)
        super().__init__(params, dict(
            lr=lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay, nesterov=nesterov,
            maximize=maximize, foreach=foreach, differentiable=differentiable, fused=fused))

    def __setstate__(self, state: dict) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for name, default in (("nesterov", False), ("maximize", False), ("foreach", None),
                                  ("differentiable", False), ("fused", None)):
                group.setdefault(name, default)

    def names(self, group: dict) -> tuple[str, ...]:
        return ("momentum_buffer",) if group["momentum"] != 0 else ()

    def _batches(self) -> list[Batch]:
        found = []
        for i, group in enumerate(self.param_groups):
            if group["momentum"] == 0:                    # there is no state, and no count
                batch = Batch(i, group, True, 0)
                batch.params = [p for p in group["params"] if p._grad is not None]
                if batch.params:
                    found.append(batch)
                continue
            fresh, going = Batch(i, group, False, 1), Batch(i, group, True, 1)
            for p in group["params"]:
                if p._grad is not None:
                    if gradient(p) is not None:
                        self._sparse_step(p, group)
                        continue
                    state = self.state[p]
                    kept = state.get("momentum_buffer")
                    batch = going
                    if kept is None:
                        batch = fresh
                        kept = state["momentum_buffer"] = make(np.empty_like(array_of(p)))
                    batch.params.append(p)
                    batch.states[0].append(kept)
            found.extend(b for b in (fresh, going) if b.params)
        return found

    def numbers(self, group: dict, count: Any) -> tuple[float, ...]:
        return (-number(group["lr"]), number(group["weight_decay"]), group["momentum"],
                1 - group["dampening"] if count else 1.0, group["momentum"] if count else 0.0)

    def _run_batch(self, batch: Batch, values: tuple) -> None:
        group = batch.group
        if group["momentum"] != 0:
            if not batch.count:
                for kept in batch.states[0]:
                    kept._array.fill(0)
            super()._run_batch(batch, values)
            return
        if values[1] != 0:
            for p in batch.params:
                if gradient(p) is not None:
                    self._sparse_step(p, group)         # raises
            super()._run_batch(batch, values)
            return
        rate = -values[0] if group["maximize"] else values[0]
        rates: dict[Any, Any] = {}
        multiply, add = np.multiply, np.add
        for p in batch.params:
            a, g = p._array, p._grad._array
            if a is None or g is None:
                if gradient(p) is not None:
                    self._sparse_step(p, group)
                    continue
                a, g = array_of(p), array_of(p._grad)
            dtype = a.dtype
            step = rates.get(dtype)
            if step is None:
                step = rates[dtype] = np.array(rate, dtype)
            if a.size > PIECE and a.flags.c_contiguous and g.flags.c_contiguous:
                flat, flat_g, scratch = a.reshape(-1), g.reshape(-1), np.empty(PIECE, dtype)
                for i in range(0, flat.size, PIECE):
                    part = flat[i:i + PIECE]
                    add(part, multiply(flat_g[i:i + PIECE], step, scratch[:part.size]), part)
            else:
                add(a, multiply(g, step), a)

    def sparse_update(self, p: Any, g: Any, group: dict) -> None:
        state = self.state[p] if group["momentum"] != 0 else {}
        sgd_step(p, g, group, state, number(group["lr"]), number(group["weight_decay"]))

    def start(self, p: Any, group: dict, state: dict) -> None:
        """Nothing: the first gradient becomes the momentum."""

    def record(self, p: Any, g: Any, state: dict, group: dict) -> None:
        g = decayed(p, g, group)
        if group["momentum"] != 0:
            kept = state.get("momentum_buffer")
            if kept is None:
                kept = state["momentum_buffer"] = g.clone()
            else:
                kept.copy_(kept * group["momentum"] + g * (1 - group["dampening"]))
            g = g + kept * group["momentum"] if group["nesterov"] else kept.clone()
        p.sub_(g * group["lr"])

    def update(self, segment: Segment, group: dict, numbers: list) -> None:
        minus_lr, decay, momentum, new, kept = numbers
        g = segment.g
        if group["maximize"] or group["weight_decay"] != 0:
            g = segment.regularised(decay if group["weight_decay"] != 0 else None, group["maximize"])
        b = segment.scratch[2]
        if group["momentum"] == 0:
            np.multiply(g, minus_lr, b)
        else:
            buffer = segment.states[0]
            np.multiply(buffer, kept, buffer)
            if group["dampening"] != 0:
                np.multiply(g, new, b)
                np.add(buffer, b, buffer)
            else:
                np.add(buffer, g, buffer)
            if group["nesterov"]:
                np.multiply(buffer, momentum, b)
                np.add(b, g, b)
                np.multiply(b, minus_lr, b)
            else:
                np.multiply(buffer, minus_lr, b)
        segment.add(2)
