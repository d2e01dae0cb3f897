"""`GradScaler`: the loss scaled up before backward, gradients scaled down before the step; inf or nan skip the step."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any

import numpy as np

from flambeau.autograd import no_grad
from flambeau.core.objects import TensorBase, array_of, make
from flambeau.core.origin import warn_user


class OptState(Enum):
    """What the scaler has done with an optimizer in this iteration."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


_READY, _UNSCALED, _STEPPED = OptState


class GradScaler:
    """Scales losses so that small float16 gradients do not become 0, and skips steps whose gradients are not finite.

    Args:
        device: "cpu"; for "cuda", which is never here, the scaler switches itself off with a warning and only passes
            calls on.
        init_scale: the first scale.
        growth_factor: the scale is multiplied by it after growth_interval steps in a row that were not skipped.
        backoff_factor: the scale is multiplied by it after a skipped step.
        enabled: False makes `scale` return the loss itself and `step` call optimizer.step().

    Source: Micikevicius et al., 2017, arXiv:1710.03740, section 3.2.

    >>> scaler = flambeau.amp.GradScaler("cpu", init_scale=4.0)
    >>> scaler.scale(flambeau.tensor(2.0)).item()
    8.0
    """

    def __init__(self, device: str = "cuda", init_scale: float = 65536.0, growth_factor: float = 2.0,
                 backoff_factor: float = 0.5, growth_interval: int = 2000, enabled: bool = True) -> None:
        self._device = device
        self._enabled = enabled
        if enabled and device != "cpu":
            warn_user(f"torch.{device}.amp.GradScaler is enabled, but {device.upper()} is not available. Disabling: "
                      "losses and gradients are not scaled.")
            self._enabled = False
        if self._enabled:
            if growth_factor <= 1.0:
                raise AssertionError("The growth factor must be > 1.0.")
            if backoff_factor >= 1.0:
                raise AssertionError("The backoff factor must be < 1.0.")
        self._init_scale, self._growth_factor, self._backoff_factor = init_scale, growth_factor, backoff_factor
        self._growth_interval = growth_interval
        self._value: float = init_scale
        self._growth_tracker = 0
        self._used = False                       # a loss has been scaled
        self._stages: dict[int, int] = {}        # of optimizers, since the last update
        self._found: dict[int, bool] = {}        # their gradients held inf or nan

    def scale(self, outputs: Any) -> Any:
        """A tensor, or nested lists and tuples of tensors, times the scale."""
        if not self._enabled:
            return outputs
        self._used = True
        if isinstance(outputs, TensorBase):
            return outputs * make(np.array(self._value, np.float32))
        if isinstance(outputs, (list, tuple)):
            parts = [self.scale(o) for o in outputs]
            return type(outputs)(*parts) if hasattr(outputs, "_fields") else type(outputs)(parts)
        if isinstance(outputs, Iterable):
            return map(self.scale, outputs)
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of an optimizer's parameters by the scale, in place: for clipping before the step.

        Raises:
            RuntimeError: called twice, or after step(), since the last update().
            ValueError: a gradient is float16: keep parameters in float32.
        """
        if not self._enabled:
            return
        self._check_used("unscale_")
        stage = self._stages.get(id(optimizer), _READY)
        if stage == _UNSCALED:
            raise RuntimeError("unscale_() has already been called for this optimizer: once per update().")
        if stage == _STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        found = False
        inverse = 1.0 / self._value
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                g = array_of(p.grad._values() if p.grad.is_sparse else p.grad)
                if g.dtype == np.float16:
                    raise ValueError("Attempting to unscale FP16 gradients. Keep the parameters in float32.")
                found = found or not bool(np.isfinite(g).all())
                with no_grad():
                    p.grad.mul_(inverse)
        self._found[id(optimizer)] = found
        self._stages[id(optimizer)] = _UNSCALED

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """optimizer.step(), unless a gradient is inf or nan; unscales the gradients first if that was not done.

        Raises:
            RuntimeError: a closure is given, step() was called since the last update(), or no loss was scaled.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("An enabled GradScaler does not support a closure.")
        self._check_used("step")
        stage = self._stages.get(id(optimizer), _READY)
        if stage == _STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if stage == _READY:
            self.unscale_(optimizer)
        if not any(p.grad is not None for group in optimizer.param_groups for p in group["params"]):
            raise AssertionError("No inf checks were recorded for this optimizer: none of its parameters has a gradient.")
        self._stages[id(optimizer)] = _STEPPED
        return None if self._found[id(optimizer)] else optimizer.step(*args, **kwargs)

    def update(self, new_scale: Any = None) -> None:
        """The next scale: smaller after a skipped step, greater after growth_interval good ones; or new_scale."""
        if not self._enabled:
            return
        self._check_used("update")
        if new_scale is not None:
            self._value = float(new_scale)
        else:
            if not self._found:
                raise AssertionError("No inf checks were recorded prior to update: call step() first.")
            if any(self._found.values()):
                self._value *= self._backoff_factor
                self._growth_tracker = 0
            else:
                self._growth_tracker += 1
                if self._growth_tracker == self._growth_interval:
                    grown = self._value * self._growth_factor
                    self._value = grown if np.isfinite(np.float32(grown)) else self._value
                    self._growth_tracker = 0
        self._stages.clear()
        self._found.clear()

    def _check_used(self, name: str) -> None:
        if not self._used:
            raise AssertionError(f"Attempted {name} but _scale is None: no loss has been scaled yet. Call "
                                 "scaler.scale(loss).backward() earlier in the iteration.")

    def get_scale(self) -> float:
        """The scale; 1.0 when switched off."""
        return self._value if self._enabled else 1.0

    def get_growth_factor(self) -> float:
        """See the class."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """See the class."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """See the class."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """See the class."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """See the class."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """See the class."""
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        """Whether it scales."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """The scale and its rules; {} when switched off."""
        if not self._enabled:
            return {}
        return {"scale": self.get_scale(), "growth_factor": self._growth_factor, "backoff_factor": self._backoff_factor,
                "growth_interval": self._growth_interval, "_growth_tracker": self._growth_tracker}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from what state_dict() gave.

        Raises:
            RuntimeError: it is empty: saved from a scaler that was switched off.
        """
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError("The source state dict is empty, as that of a disabled GradScaler is. Save it from "
                               "an enabled one, or skip load_state_dict.")
        self._init_scale = self._value = float(state_dict["scale"])
        self._growth_factor, self._backoff_factor = state_dict["growth_factor"], state_dict["backoff_factor"]
        self._growth_interval, self._growth_tracker = state_dict["growth_interval"], state_dict["_growth_tracker"]
