"""Learning rates that fall and rise: cosines, triangles, one cycle."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ._schedule import LRScheduler, check_optimizer, for_each_group, set_option
from .optimizer import Optimizer


class CosineAnnealingLR(LRScheduler):
    """From the initial rate to eta_min along half a cosine of T_max steps, and back.

    Source: Loshchilov and Hutter, 2016, arXiv:1608.03983.
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list:
        self._warn_outside_step()
        step, low = self.last_epoch, self.eta_min
        if step == 0 or self._is_initial:
            return self._present()
        if self._step_count == 1 and step > 0:
            return self._get_closed_form_lr()
        # the rate before was eta_min: it has no ratio
        if (step - 1 - self.T_max) % (2 * self.T_max) == 0:
            rise = (1 - math.cos(math.pi / self.T_max)) / 2
            return [rate + (base - low) * rise for base, rate in zip(self.base_lrs, self._present(),
                                                                     strict=True)]
        now = 1 + math.cos(math.pi * step / self.T_max)
        before = 1 + math.cos(math.pi * (step - 1) / self.T_max)
        return [now / before * (rate - low) + low for rate in self._present()]

    def _get_closed_form_lr(self) -> list:
        part = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (base - self.eta_min) * part for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half cosines of T_0, T_0 T_mult, T_0 T_mult^2, ... steps, each starting at the initial rate.

    Source: Loshchilov and Hutter, 2016, arXiv:1608.03983.
    """

    def __init__(self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0,
                 last_epoch: int = -1) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}")
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: Any = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list:
        self._warn_outside_step()
        part = 1 + math.cos(math.pi * self.T_cur / self.T_i)
        return [self.eta_min + (base - self.eta_min) * part / 2 for base in self.base_lrs]

    def step(self, epoch: Any = None) -> None:
        """Go on by one step, or to the (fractional) epoch."""
        if epoch is not None or self.last_epoch < 0:
            self.last_epoch = self._go_to(epoch or 0)
        else:
            self.last_epoch += 1
            restarts, self.T_cur = divmod(self.T_cur + 1, self.T_i)
            self.T_i *= self.T_mult if restarts >= 1 else 1
        self._get_lr_called_within_step = True
        try:
            rates = self.get_lr()
        finally:
            self._get_lr_called_within_step = False
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            set_option(group, "lr", rate)
        self._last_lr = self._present()

    def _go_to(self, epoch: float) -> int:
        """Set the cycle's length and the place in it; cycles grow as a geometric series."""
        if epoch < 0:
            raise ValueError(f"an epoch cannot be negative: got {epoch}")
        n = 0
        if self.T_mult > 1:
            n = int(math.log(max(1.0, epoch / self.T_0 * (self.T_mult - 1) + 1), self.T_mult))
            began = self.T_0 * (self.T_mult**n - 1) / (self.T_mult - 1)
        else:
            began = epoch // self.T_0 * self.T_0
        self.T_i, self.T_cur = self.T_0 * self.T_mult**n, epoch - began
        return math.floor(epoch)


def _uses_beta1(optimizer: Optimizer) -> bool:
    """Whether the momentum to cycle is the first of the betas."""
    if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
        raise ValueError("`cycle_momentum` needs an optimizer with a momentum or with betas, and "
                         f"{type(optimizer).__name__} has neither. Pass cycle_momentum=False.")
    return "betas" in optimizer.defaults


def _momentum_of(group: dict) -> float:
    return group["betas"][0] if "betas" in group else group["momentum"]


def _set_momentum(group: dict, value: float) -> None:
    if "betas" in group:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value


class CyclicLR(LRScheduler):
    """Between base_lr and max_lr and back, in triangles, with momentum the other way round.

    Args:
        base_lr, max_lr: lowest and highest rate, one number or one for each group.
        step_size_up, step_size_down: steps of the two halves of a cycle; None: as many down as up.
        mode: "triangular", "triangular2" (the height halves each cycle) or "exp_range" (times gamma each
            step).
        scale_fn: a function of the user's for the height; scale_mode: whether it is given the "cycle" or the
            "iterations".
        cycle_momentum, base_momentum, max_momentum: momentum falls while the rate rises.

    Source: Smith, 2015, arXiv:1506.01186.
    """

    def __init__(self, optimizer: Optimizer, base_lr: Any, max_lr: Any, step_size_up: int = 2000,
                 step_size_down: int | None = None, mode: str = "triangular", gamma: float = 1.0,
                 scale_fn: Callable[[float], float] | None = None, scale_mode: str = "cycle",
                 cycle_momentum: bool = True, base_momentum: Any = 0.8, max_momentum: Any = 0.9,
                 last_epoch: int = -1) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        lows = for_each_group(base_lr, "base_lr", optimizer)
        if last_epoch == -1:
            for low, group in zip(lows, optimizer.param_groups, strict=True):
                set_option(group, "lr", low)
        self.max_lrs = for_each_group(max_lr, "max_lr", optimizer)
        up = float(step_size_up)
        self.total_size = up + (float(step_size_down) if step_size_down is not None else up)
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        own = "iterations" if mode == "exp_range" else "cycle"
        self.scale_mode = scale_mode if scale_fn is not None else own
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = _uses_beta1(optimizer)
            self.base_momentums = for_each_group(base_momentum, "base_momentum", optimizer)
            self.max_momentums = for_each_group(max_momentum, "max_momentum", optimizer)
            if last_epoch == -1:
                for low, high, group in zip(self.base_momentums, self.max_momentums, optimizer.param_groups,
                                            strict=True):
                    _set_momentum(group, high)
                    group["max_momentum"] = high
                    group["base_momentum"] = low
        super().__init__(optimizer, last_epoch)
        self.base_lrs = lows

    def scale_fn(self, x: float) -> float:
        """The height of the triangle in cycle (or at step) x."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular":
            return 1.0
        return 1 / (2.0 ** (x - 1)) if self.mode == "triangular2" else self.gamma**x

    def get_lr(self) -> list:
        self._warn_outside_step()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for low, high, group in zip(self.base_momentums, self.max_momentums, self.optimizer.param_groups,
                                        strict=True):
                _set_momentum(group, high - (high - low) * height * scale)
        return [low + (high - low) * height * scale for low,
                high in zip(self.base_lrs, self.max_lrs, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        fn = state["_scale_fn_custom"]
        state["_scale_fn_custom"] = None if fn is None or hasattr(fn, "__code__") else dict(vars(fn))
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        state = dict(state_dict)
        attributes = state.pop("_scale_fn_custom", None)
        super().load_state_dict(state)
        if attributes is not None and self._scale_fn_custom is not None:
            vars(self._scale_fn_custom).update(attributes)


class OneCycleLR(LRScheduler):
    """Up from max_lr / div_factor to max_lr, then down to 1 / final_div_factor of the start; momentum the
    other way.

    Args:
        max_lr: highest rate, one number or one for each group.
        total_steps: of the whole cycle, or epochs and steps_per_epoch.
        pct_start: part of the cycle that goes up.
        anneal_strategy: "cos" or "linear".
        cycle_momentum, base_momentum, max_momentum: momentum falls while the rate rises.
        three_phase: go down as long as up, then further down.

    Source: Smith and Topin, 2017, arXiv:1708.07120.
    """

    def __init__(self, optimizer: Optimizer, max_lr: Any, total_steps: int | None = None,
                 epochs: int | None = None, steps_per_epoch: int | None = None, pct_start: float = 0.3,
                 anneal_strategy: str = "cos", cycle_momentum: bool = True, base_momentum: Any = 0.85,
                 max_momentum: Any = 0.95, div_factor: float = 25.0, final_div_factor: float = 1e4,
                 three_phase: bool = False, last_epoch: int = -1) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        if total_steps is not None:
            if total_steps <= 0 or not isinstance(total_steps, int):
                raise ValueError(f"Expected positive integer total_steps, but got {total_steps}")
            self.total_steps = total_steps
        elif epochs is not None and steps_per_epoch is not None:
            for name, value in (("epochs", epochs), ("steps_per_epoch", steps_per_epoch)):
                if not isinstance(value, int) or value <= 0:
                    raise ValueError(f"Expected positive integer {name}, but got {value}")
            self.total_steps = epochs * steps_per_epoch
        else:
            raise ValueError("The length of the cycle is unknown: pass either total_steps, or both epochs and "
                             "steps_per_epoch.")
        if pct_start < 0 or pct_start > 1 or not isinstance(pct_start, float):
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', and is {anneal_strategy!r}.")
        up = float(pct_start * self.total_steps) - 1
        if three_phase:
            phases = [(up, "initial_lr", "max_lr", "max_momentum", "base_momentum"),
                      (float(2 * pct_start * self.total_steps) - 2, "max_lr", "initial_lr", "base_momentum",
                       "max_momentum"),
                      (self.total_steps - 1, "initial_lr", "min_lr", "max_momentum", "max_momentum")]
        else:
            phases = [(up, "initial_lr", "max_lr", "max_momentum", "base_momentum"),
                      (self.total_steps - 1, "max_lr", "min_lr", "base_momentum", "max_momentum")]
        names = ("end_step", "start_lr", "end_lr", "start_momentum", "end_momentum")
        self._schedule_phases = [dict(zip(names, phase, strict=True)) for phase in phases]
        self._anneal_func_type = anneal_strategy
        if last_epoch == -1:
            for group, high in zip(optimizer.param_groups, for_each_group(max_lr, "max_lr", optimizer),
                                   strict=True):
                group["initial_lr"] = high / div_factor
                group["max_lr"] = high
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = _uses_beta1(optimizer)
            if last_epoch == -1:
                for high, low, group in zip(for_each_group(max_momentum, "max_momentum", optimizer),
                                            for_each_group(base_momentum, "base_momentum", optimizer),
                                            optimizer.param_groups, strict=True):
                    _set_momentum(group, high)
                    group["max_momentum"] = high
                    group["base_momentum"] = low
        super().__init__(optimizer, last_epoch)

    def _anneal(self, start: Any, end: Any, part: float) -> Any:
        if self._anneal_func_type == "cos":
            return end + (start - end) / 2.0 * (math.cos(math.pi * part) + 1)
        return (end - start) * part + start

    def get_lr(self) -> list:
        self._warn_outside_step()
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(f"Tried to step {step} times. The total number of steps is {self.total_steps}")
        start = 0.0
        for i, phase in enumerate(self._schedule_phases):
            end = phase["end_step"]
            if step <= end or i == len(self._schedule_phases) - 1:
                part = (step - start) / (end - start)
                break
            start = end
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(self._anneal(group[phase["start_lr"]], group[phase["end_lr"]], part))
            if self.cycle_momentum:
                _set_momentum(group, self._anneal(group[phase["start_momentum"]],
                                                  group[phase["end_momentum"]], part))
        return rates


