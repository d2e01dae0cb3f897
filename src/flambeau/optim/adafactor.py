"""Adafactor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau
from flambeau.autograd import no_grad
from flambeau.tensor import Tensor

from ._elementwise import number, step_count
from ._sparse import gradient, refuse
from .optimizer import Optimizer, run_closure


def _check(good: bool, text: str) -> None:
    if not good:
        raise ValueError(text)


class Adafactor(Optimizer):
    """Adam's second moment kept by its row and column means only: little memory for large matrices.

    Args:
        params: tensors, named tensors or groups.
        lr: upper bound of the relative step, which falls as 1 / sqrt(step).
        beta2_decay: exponent d <= 0: the moving average forgets a share of step ** d.
        eps: added for stability: (of the second moment, None for the dtype's own; least scale of a parameter).
        d: the root mean square of an update is at most this.
        weight_decay: share of the parameters subtracted, times lr.
        foreach: accepted for PyTorch's sake; there is one implementation.
        maximize: climb instead of descending.

    Raises:
        RuntimeError: a parameter is complex.

    Source: Shazeer and Stern, 2018, arXiv:1804.04235, algorithms 4 to 6.
    """

    def __init__(self, params: Any, lr: Any = 1e-2, beta2_decay: float = -0.8,
                 eps: tuple[float | None, float] = (None, 1e-3), d: float = 1.0, weight_decay: float = 0.0, *,
                 foreach: bool | None = None, maximize: bool = False) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        _check(number(lr) >= 0.0, f"Learning rate should be >= 0 but is: {lr}")
        _check(beta2_decay <= 0.0, f"beta2_decay should be <= 0 but is: {beta2_decay}")
        _check(eps[0] is None or eps[0] >= 0.0, f"epsilon1 should be >= 0 but is: {eps[0]}")
        _check(eps[1] >= 0.0, f"epsilon2 should be >= 0 but is: {eps[1]}")
        _check(d >= 1.0, f"Clipping threshold d should be >= 1 but is: {d}")
        _check(weight_decay >= 0.0, f"weight_decay should be >= 0 but is: {weight_decay}")
        super().__init__(params, dict(lr=lr, beta2_decay=beta2_decay, eps=eps, d=d, weight_decay=weight_decay,
                                      foreach=foreach, maximize=maximize))

    @no_grad()
    def step(self, closure: Callable | None = None) -> Any:
        """Update every parameter that has a gradient."""
        loss = run_closure(closure)
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                if gradient(p) is not None:
                    refuse("Adafactor")
                if p.is_complex():
                    raise RuntimeError("Adafactor does not support complex parameters: optimize their real and imaginary "
                                       "parts, torch.view_as_real(p)")
                self._update(p, -p.grad if group["maximize"] else p.grad, self.state[p], group)
        return loss

    @staticmethod
    def _update(p: Any, g: Any, state: dict, group: dict) -> None:
        matrix = g.dim() > 1
        if not state:
            state["step"] = step_count()
            if matrix:
                state["row_var"] = g.new_zeros((*g.shape[:-1], 1))
                state["col_var"] = g.new_zeros((*g.shape[:-2], 1, g.shape[-1]))
            else:
                state["variance"] = flambeau.zeros_like(g)
        lr, (eps1, eps2) = number(group["lr"]), group["eps"]
        if eps1 is None:
            eps1 = flambeau.finfo(p.dtype).eps
        state["step"] += 1
        count = state["step"].item()
        new = count ** group["beta2_decay"]
        scale = max(eps2, p.norm(2).item() / p.numel() ** 0.5) * min(lr, 1 / count ** 0.5)
        if group["weight_decay"] != 0:
            p.mul_(1 - lr * group["weight_decay"])
        if matrix:
            row, column = state["row_var"], state["col_var"]
            row.lerp_(flambeau.norm(g, dim=-1, keepdim=True).square_().div_(g.size(-1)), new)
            column.lerp_(flambeau.norm(g, dim=-2, keepdim=True).square_().div_(g.size(-2)), new)
            moment = (row @ column).div_(row.mean(dim=-2, keepdim=True).clamp_(min=eps1))
        else:
            moment = state["variance"].lerp_(g * g, new).clone()
        update = moment.clamp_(min=eps1 * eps1).rsqrt_().mul_(g)
        excess = max(1.0, update.norm(2).item() / (update.numel() ** 0.5 * group["d"]))
        p.add_(update, alpha=-scale / excess)
