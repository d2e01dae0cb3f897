"""AdamW."""

from __future__ import annotations

from typing import Any

from ._functional import adamw  # type: ignore[attr-defined]  # noqa: F401
from .adam import Adam


class AdamW(Adam):
    """Adam with weight decay applied to the weights themselves, not through the gradient.

    Arguments as Adam's; weight_decay is 0.01 by default. Source: Loshchilov and Hutter, 2017,
    arXiv:1711.05101.
    """

    def __init__(self, params: Any, lr: Any = 1e-3, betas: tuple = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 1e-2, amsgrad: bool = False, *, maximize: bool = False,
                 foreach: bool | None = None, capturable: bool = False, differentiable: bool = False,
                 fused: bool | None = None) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize,
                         capturable=capturable, differentiable=differentiable, fused=fused,
                         decoupled_weight_decay=True)

    def __setstate__(self, state: dict) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True
