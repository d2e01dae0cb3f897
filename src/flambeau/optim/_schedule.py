"""What all learning-rate schedules share, and schedules made of schedules."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Any

from flambeau.autograd import no_grad
from flambeau.core.objects import TensorBase
from flambeau.core.origin import warn_user

from .optimizer import Optimizer

_EPOCH = ("The epoch parameter in `scheduler.step()` is deprecated: the scheduler counts the epochs itself. Call "
          "step() without it; each learning rate then follows from the one before.")


def check_optimizer(optimizer: Any) -> None:
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


def set_option(group: dict, name: str, value: Any) -> None:
    """A new value of an option; one that is a tensor is written in place."""
    if isinstance(group.get(name), TensorBase):
        with no_grad():
            group[name].fill_(float(value))
    else:
        group[name] = value


def copied(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, TensorBase) else value


def for_each_group(value: Any, name: str, optimizer: Any) -> list:
    """One value for each parameter group."""
    if isinstance(value, (list, tuple)):
        if len(value) != len(optimizer.param_groups):
            raise ValueError(f"{name} must have the same length as optimizer.param_groups. {name} has "
                             f"{len(value)} values, param_groups has {len(optimizer.param_groups)}.")
        return list(value)
    return [value] * len(optimizer.param_groups)


class LRScheduler:
    """Sets the learning rates of an optimizer's groups at every `step`.

    Args:
        optimizer: whose groups are changed.
        last_epoch: number of the last step done, -1 at the start; to resume, the groups must have
            "initial_lr".

    Subclasses define `get_lr`, which computes the new rates from `last_epoch`, `base_lrs` and the groups'
    present "lr".
    """

    _get_lr_called_within_step = False
    _is_initial = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", copied(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(f"param 'initial_lr' is not specified in param_groups[{i}] when resuming an "
                               f"optimizer with last_epoch={last_epoch}. Load the optimizer's state_dict "
                               "first, or set it.")
        self.base_lrs = [copied(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take back what `state_dict` gave; load the optimizer's own state too."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list:
        """The rates set by the last step, one for each group."""
        return self._last_lr

    def get_lr(self) -> list:
        """The new rates; called by `step`."""
        raise NotImplementedError(f"{type(self).__name__} does not define get_lr()")

    def _warn_outside_step(self) -> None:
        if not self._get_lr_called_within_step:
            warn_user("get_lr() computes the next learning rate and is meant for step() alone. For the rate in use "
                      "now, call `get_last_lr()`.")

    def _present(self) -> list:
        """The groups' rates as they are."""
        return [copied(group["lr"]) for group in self.optimizer.param_groups]

    def step(self, epoch: Any = None) -> None:
        """Go on by one step (or, deprecated, to `epoch`) and set the rates."""
        if self._step_count == 1 and not getattr(self.optimizer, "_opt_called", False):
            warn_user("`lr_scheduler.step()` before `optimizer.step()`: the schedule moved on before the optimizer "
                      "took its first step, so its first learning rate is skipped. Call `optimizer.step()` first, "
                      "then `lr_scheduler.step()`.")
        self._step_count += 1
        if epoch is not None:
            warn_user(_EPOCH)
        self._update_lr(epoch)

    def _update_lr(self, epoch: Any = None) -> None:
        self._get_lr_called_within_step = True
        try:
            if epoch is None:
                self.last_epoch += 1
                rates = self.get_lr()
            else:
                self.last_epoch = epoch
                closed = getattr(self, "_get_closed_form_lr", None)
                rates = closed() if closed is not None else self.get_lr()
        finally:
            self._get_lr_called_within_step = False
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            set_option(group, "lr", rate)
        self._last_lr: list = self._present()


def _one_optimizer(schedulers: Sequence[Any], optimizer: Any, what: str) -> Any:
    """The optimizer that all schedulers have in common."""
    if len(schedulers) < 1:
        raise ValueError(f"{what} expects at least one scheduler, but got no scheduler.")
    own = schedulers[0].optimizer if optimizer is None else optimizer
    for i, scheduler in enumerate(schedulers):
        if not hasattr(scheduler, "optimizer"):
            raise TypeError(f"{what} at index {i} should have `optimizer` as its attribute.")
        if scheduler.optimizer is not own:
            raise ValueError(f"{what} needs schedulers of the same optimizer; the one at index {i}, a "
                             f"{type(scheduler).__name__}, was made for another. Build each of them from one "
                             "optimizer.")
    return own


def _nested_state(self: Any, name: str) -> dict[str, Any]:
    state = {key: value for key, value in self.__dict__.items() if key not in ("optimizer", name)}
    state[name] = [s.state_dict() for s in self.__dict__[name]]
    return state


def _load_nested(self: Any, name: str, state: dict[str, Any]) -> None:
    state = dict(state)
    parts = state.pop(name)
    self.__dict__.update(state)
    for scheduler, part in zip(self.__dict__[name], parts, strict=True):
        scheduler.load_state_dict(part)


class SequentialLR(LRScheduler):
    """One schedule after the other: the next begins at each of `milestones`, with a count of its own."""

    def __init__(self, optimizer: Optimizer, schedulers: list, milestones: list[int],
                 last_epoch: int = -1) -> None:
        _one_optimizer(schedulers, optimizer, type(self).__name__)
        for i, scheduler in enumerate(schedulers):
            if not isinstance(scheduler, LRScheduler):
                raise TypeError(f"{type(self).__name__} does not support `{type(scheduler).__name__}` (index {i}), "
                                "whose step() takes arguments that nobody would pass here. Step that one on its "
                                "own.")
        if len(milestones) != len(schedulers) - 1:
            raise ValueError("SequentialLR changes from one scheduler to the next at each of the milestones, so it "
                             f"needs one more scheduler than milestones; it was given {len(schedulers)} schedulers "
                             f"and {len(milestones)} milestones.")
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        # undo the first steps of all, then repeat that of the first
        for group in optimizer.param_groups:
            set_option(group, "lr", group["initial_lr"])
        for scheduler in schedulers:
            scheduler.last_epoch -= 1
        schedulers[0]._initial_step()
        self._last_lr = schedulers[0].get_last_lr()

    def step(self) -> None:  # type: ignore[override]
        """Go on by one step."""
        self.last_epoch += 1
        i = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[i]
        if i > 0 and self._milestones[i - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()

    def state_dict(self) -> dict[str, Any]:
        return _nested_state(self, "_schedulers")

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        _load_nested(self, "_schedulers", state_dict)


class ChainedScheduler(LRScheduler):
    """Several schedules at once: each changes the rates that the one before has left."""

    def __init__(self, schedulers: Iterable[Any], optimizer: Optimizer | None = None) -> None:
        schedulers = list(schedulers)
        self.optimizer = _one_optimizer(schedulers, optimizer, type(self).__name__)
        self._schedulers = schedulers
        self._last_lr = [group["lr"] for group in self.optimizer.param_groups]

    def step(self) -> None:  # type: ignore[override]
        """Go on by one step in all."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = self._present()

    def state_dict(self) -> dict[str, Any]:
        return _nested_state(self, "_schedulers")

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        _load_nested(self, "_schedulers", state_dict)
