"""Muon."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import flambeau
from flambeau.autograd import no_grad

from ._elementwise import check_lr, number
from ._sparse import gradient, refuse
from .optimizer import Optimizer, run_closure

_MOST_STEPS = 100


def orthogonalized(g: Any, coefficients: tuple[float, float, float], n_steps: int, eps: float) -> Any:
    """About the nearest orthogonal matrix, in bfloat16, by n_steps of a quintic Newton-Schulz iteration.

    The iteration x -> a x + (b x x^T + c (x x^T)^2) x drives all singular values towards 1.
    """
    if n_steps >= _MOST_STEPS:
        raise ValueError(f"Number of steps must be less than {_MOST_STEPS} for computational efficiency, not {n_steps}")
    if len(coefficients) != 3:
        raise ValueError(f"Coefficients must be a tuple of exactly 3 values, not {len(coefficients)}")
    a, b, c = coefficients
    x = g.bfloat16()
    tall = g.size(0) > g.size(1)
    if tall:
        x = x.T
    x.div_(x.norm().clamp(min=eps))
    for _ in range(n_steps):
        gram = x @ x.T
        x = flambeau.addmm(x, flambeau.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if tall else x


def _adjusted(lr: Any, how: str | None, shape: Any) -> Any:
    rows, columns = shape[:2]
    if how == "match_rms_adamw":
        return lr * 0.2 * math.sqrt(max(rows, columns))
    return lr * math.sqrt(max(1, rows / columns))


class Muon(Optimizer):
    """Momentum whose matrix is made orthogonal before each step: for the weight matrices of hidden layers.

    Other parameters (biases, embeddings, the last layer) are left to another optimizer, such as AdamW.

    Args:
        params: tensors of two dimensions, named tensors or groups.
        lr: learning rate.
        weight_decay: share of the parameters subtracted, times lr.
        momentum: of the moving average of gradients.
        nesterov: look ahead by one step.
        ns_coefficients, ns_steps: of the Newton-Schulz iteration.
        eps: least norm that is divided by.
        adjust_lr_fn: None or "original": lr * sqrt(max(1, rows / columns)); "match_rms_adamw": lr * 0.2 *
            sqrt(max(rows, columns)), so that AdamW's lr and weight_decay can be kept.

    Raises:
        ValueError: a parameter is not a matrix.

    Source: Jordan et al., 2024, https://kellerjordan.github.io/posts/muon/; Liu et al., 2025, arXiv:2502.16982.
    """

    def __init__(self, params: Any, lr: float = 1e-3, weight_decay: float = 0.1, momentum: float = 0.95,
                 nesterov: bool = True, ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
                 eps: float = 1e-7, ns_steps: int = 5, adjust_lr_fn: str | None = None) -> None:
        check_lr(lr)
        for name, value in (("learning rate", number(lr)), ("momentum", momentum), ("weight decay", weight_decay)):
            if not value >= 0.0:
                raise ValueError(f"{name} should be >= 0 but is: {value}")
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported: it is None, 'original' or "
                             "'match_rms_adamw'")
        super().__init__(params, dict(lr=lr, weight_decay=weight_decay, momentum=momentum, nesterov=nesterov,
                                      ns_coefficients=ns_coefficients, eps=eps, ns_steps=ns_steps,
                                      adjust_lr_fn=adjust_lr_fn))
        for group in self.param_groups:
            for p in group["params"]:
                if p.ndim != 2:
                    raise ValueError(f"Muon only supports 2D parameters, and one of those given has size {p.shape}. "
                                     "Give it to another optimizer, such as AdamW.")

    @no_grad()
    def step(self, closure: Callable | None = None) -> Any:
        """Update every parameter that has a gradient."""
        loss = run_closure(closure)
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    if gradient(p) is not None:
                        refuse("Muon")
                    self._update(p, p.grad, self.state[p], group)
        return loss

    @staticmethod
    def _update(p: Any, g: Any, state: dict, group: dict) -> None:
        if p.is_complex():
            raise ValueError("Complex parameters are not supported by Muon")
        lr, momentum = group["lr"], group["momentum"]      # a tensor computes in its own dtype, as in PyTorch
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = flambeau.zeros_like(g)
        average = state["momentum_buffer"]
        average.lerp_(g, 1 - momentum)
        update = g.lerp(average, momentum) if group["nesterov"] else average
        update = orthogonalized(update, group["ns_coefficients"], group["ns_steps"], group["eps"])
        p.mul_(number(1 - lr * group["weight_decay"]))
        p.add_(update, alpha=-number(_adjusted(lr, group["adjust_lr_fn"], p.shape)))
