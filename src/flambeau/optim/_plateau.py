"""Learning rates that fall when a measure stops improving."""

from __future__ import annotations

import math
from typing import Any

from flambeau.core.origin import warn_user

from ._schedule import LRScheduler, check_optimizer, set_option
from .optimizer import Optimizer


class ReduceLROnPlateau(LRScheduler):
    """Times factor when `metrics` has not improved for more than `patience` steps.

    Args:
        mode: "min" or "max": which way is better.
        factor: below 1.
        threshold, threshold_mode: how much better counts: relative ("rel") or absolute ("abs").
        cooldown: steps after a reduction in which none are counted.
        min_lr: lower bound, one number or one for each group.
        eps: smaller changes are not made.
    """

    def __init__(self, optimizer: Optimizer, mode: str = "min", factor: float = 0.1, patience: int = 10,
                 threshold: float = 1e-4, threshold_mode: str = "rel", cooldown: int = 0, min_lr: Any = 0,
                 eps: float = 1e-8) -> None:
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        check_optimizer(optimizer)
        if mode not in ("min", "max"):
            raise ValueError("mode " + mode + " is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError("threshold mode " + threshold_mode + " is unknown!")
        self.factor = factor
        self.optimizer = optimizer
        n_groups = len(optimizer.param_groups)
        several = isinstance(min_lr, (list, tuple))
        if several and len(min_lr) != n_groups:
            raise ValueError(f"min_lr has {len(min_lr)} values, but the optimizer has {n_groups} parameter groups")
        self.min_lrs = list(min_lr) if several else [min_lr] * n_groups
        self.default_min_lr = None if several else min_lr
        self.patience = patience
        self.cooldown = cooldown
        self.eps = eps
        self.last_epoch = 0
        self._last_lr = self._present()
        self.mode = mode
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        self._reset()

    def _reset(self) -> None:
        self.mode_worse = math.inf if self.mode == "min" else -math.inf
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    def step(self, metrics: Any, epoch: Any = None) -> None:  # type: ignore[override]
        """Take in a new value of the measure."""
        current = float(metrics)
        if epoch is None:
            epoch = self.last_epoch + 1
        else:
            warn_user("The epoch parameter in `scheduler.step()` is deprecated: the scheduler counts the epochs "
                      "itself. Call step(metrics) alone.")
        self.last_epoch = epoch
        improved = self.is_better(current, self.best)
        self.best = current if improved else self.best
        waiting = self.in_cooldown
        self.num_bad_epochs = 0 if improved or waiting else self.num_bad_epochs + 1
        self.cooldown_counter -= int(waiting)
        if self.num_bad_epochs > self.patience:
            self._reduce_lr(epoch)
            self.num_bad_epochs, self.cooldown_counter = 0, self.cooldown
        self._last_lr = self._present()

    def _reduce_lr(self, epoch: Any) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise RuntimeError(
                    f"the optimizer has {len(groups)} parameter groups now, but had {len(self.min_lrs)} when this scheduler "
                    "was made with a list of min_lr: extend its `min_lrs` too.")
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, low in zip(groups, self.min_lrs, strict=True):
            old = float(group["lr"])
            new = max(old * self.factor, low)
            if old - new > self.eps:
                set_option(group, "lr", new)

    @property
    def in_cooldown(self) -> bool:
        """Whether bad steps are not counted now."""
        return self.cooldown_counter > 0

    def is_better(self, a: float, best: float) -> bool:
        """Whether a improves on best by more than the threshold."""
        sign = 1.0 if self.mode == "max" else -1.0
        if self.threshold_mode == "rel":
            bound = best * (1.0 + sign * self.threshold)
        else:
            bound = best + sign * self.threshold
        return a > bound if self.mode == "max" else a < bound
