"""Averages of a model's weights over training steps: SWA (equal weights) and EMA (exponential weights)."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import flambeau
from flambeau.autograd import no_grad
from flambeau.nn import Module
from flambeau.nn.modules.batchnorm import _BatchNorm

from ._schedule import LRScheduler, for_each_group, set_option
from .optimizer import Optimizer

__all__ = ["AveragedModel", "update_bn", "SWALR", "get_ema_multi_avg_fn", "get_swa_multi_avg_fn", "get_ema_avg_fn",
           "get_swa_avg_fn"]


def _check_decay(decay: float) -> None:
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"Invalid decay value {decay}: it is the share of the average that is kept, from 0 to 1.")


def _continuous(p: Any) -> bool:
    return p.is_floating_point() or p.is_complex()


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable:
    """For AveragedModel(multi_avg_fn=): average = decay * average + (1 - decay) * new, for lists of tensors."""
    _check_decay(decay)

    @no_grad()
    def ema_update(ema_param_list: list, current_param_list: list, _: Any) -> None:
        for average, new in zip(ema_param_list, current_param_list, strict=True):
            if _continuous(average):
                average.lerp_(new, 1 - decay)
            else:
                average.copy_(average * decay + new * (1 - decay))

    return ema_update


def get_swa_multi_avg_fn() -> Callable:
    """For AveragedModel(multi_avg_fn=): the mean of all, for lists of tensors."""

    @no_grad()
    def swa_update(averaged_param_list: list, current_param_list: list, num_averaged: Any) -> None:
        share = 1 / (int(num_averaged) + 1)
        for average, new in zip(averaged_param_list, current_param_list, strict=True):
            if _continuous(average):
                average.lerp_(new, share)
            else:
                average.copy_(new if share == 1 else average + (new - average) * share)

    return swa_update


def get_ema_avg_fn(decay: float = 0.999) -> Callable:
    """For AveragedModel(avg_fn=): decay * average + (1 - decay) * new, for one tensor."""
    _check_decay(decay)

    @no_grad()
    def ema_update(ema_param: Any, current_param: Any, num_averaged: Any) -> Any:
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn() -> Callable:
    """For AveragedModel(avg_fn=): the mean of all, for one tensor."""

    @no_grad()
    def swa_update(averaged_param: Any, current_param: Any, num_averaged: Any) -> Any:
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


class AveragedModel(Module):
    """A copy of a model, `module`, whose parameters are averages of the model's.

    Args:
        model: copied now; the first `update_parameters` takes its parameters as they are then.
        device: where the averages are kept.
        avg_fn: (average, new, number averaged) -> average, for one tensor.
        multi_avg_fn: (averages, new ones, number averaged), writes into the averages; the mean of all by default.
        use_buffers: average buffers too; otherwise they are copied from the model.

    Raises:
        AssertionError: both functions are given.

    Source: Izmailov et al., 2018, arXiv:1803.05407.

    >>> model = flambeau.nn.Linear(1, 1)
    >>> average = AveragedModel(model)
    >>> average.update_parameters(model)
    >>> average.n_averaged
    tensor(1)
    """

    n_averaged: Any

    def __init__(self, model: Module, device: Any = None, avg_fn: Callable | None = None,
                 multi_avg_fn: Callable | None = None, use_buffers: bool = False) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", flambeau.tensor(0, dtype=flambeau.long, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What `module` gives."""
        return self.module(*args, **kwargs)

    def _averaged(self, model: Module) -> Iterator:
        return itertools.chain(model.parameters(), model.buffers()) if self.use_buffers else model.parameters()

    def update_parameters(self, model: Module) -> None:
        """Take the model's parameters into the average."""
        averages = [p.detach() for p in self._averaged(self.module)]
        news = [p.detach().to(a.device) for p, a in zip(self._averaged(model), averages, strict=True)]
        if self.n_averaged == 0:
            for average, new in zip(averages, news, strict=True):
                average.copy_(new)
        elif self.avg_fn is not None:
            for average, new in zip(averages, news, strict=True):
                average.copy_(self.avg_fn(average, new, self.n_averaged))
        else:
            (self.multi_avg_fn or get_swa_multi_avg_fn())(averages, news, self.n_averaged)
        if not self.use_buffers:
            for mine, theirs in zip(self.module.buffers(), model.buffers(), strict=True):
                mine.detach().copy_(theirs.detach().to(mine.device))
        self.n_averaged += 1


@no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Set the running statistics of a model's batch normalisations to the mean over all of loader's batches.

    Args:
        loader: batches; of lists and tuples the first entry is the model's input.
        device: where batches are moved to.
    """
    layers = [m for m in model.modules() if isinstance(m, _BatchNorm)]
    if not layers:
        return
    mode, momenta = model.training, [layer.momentum for layer in layers]
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None                    # the mean of all batches
    model.train()
    for batch in loader:
        inputs = batch[0] if isinstance(batch, (list, tuple)) else batch
        model(inputs if device is None else inputs.to(device))
    for layer, momentum in zip(layers, momenta, strict=True):
        layer.momentum = momentum
    model.train(mode)


def _cosine(t: float) -> float:
    return (1 - math.cos(math.pi * t)) / 2


class SWALR(LRScheduler):
    """From the present rates to constant ones, in anneal_epochs steps.

    Args:
        swa_lr: the last rate, or one for each group.
        anneal_epochs: number of steps, 0 or more.
        anneal_strategy: "cos" or "linear".

    Raises:
        ValueError: another strategy, negative anneal_epochs.
    """

    def __init__(self, optimizer: Optimizer, swa_lr: Any, anneal_epochs: int = 10, anneal_strategy: str = "cos",
                 last_epoch: int = -1) -> None:
        for rate, group in zip(for_each_group(swa_lr, "swa_lr", optimizer), optimizer.param_groups, strict=True):
            set_option(group, "swa_lr", rate)
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', and is {anneal_strategy!r}.")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self._set_anneal_func(anneal_strategy)
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _set_anneal_func(self, anneal_strategy: str) -> None:
        self._anneal_strategy = anneal_strategy

    def _share(self, step: int) -> float:
        """How much of the way is gone at a step."""
        t = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return _cosine(t) if self._anneal_strategy == "cos" else t

    def get_lr(self) -> list:
        self._warn_outside_step()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._share(step - 1), self._share(step)
        rates = []
        for group, present in zip(self.optimizer.param_groups, self._present(), strict=True):
            last = group["swa_lr"]
            first = last if before == 1 else (present - before * last) / (1 - before)
            rates.append(last * now + first * (1 - now))
        return rates
