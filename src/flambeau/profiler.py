"""`torch.profiler`: the names that programs import. Operators are timed by `torch.autograd.profiler.profile`."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

from ._unavailable import missing, missing_class, refusal
from .autograd.profiler import record_function

__all__ = ["ProfilerAction", "ProfilerActivity", "kineto_available", "profile", "record_function", "schedule",
           "supported_activities"]

_INSTEAD = ("use `with torch.autograd.profiler.profile() as p:` around some steps, and print(p.key_averages().table()); "
            "p.export_chrome_trace(path) writes a trace.")


class ProfilerActivity(enum.Enum):
    """What is timed: the CPU, the only device here."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3


class ProfilerAction(enum.Enum):
    """What a schedule asks of the profiler for a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def schedule(*, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0,
             skip_first_wait: int = 0) -> Callable:
    """step number -> action: skip_first steps of nothing, then cycles of wait, warmup and active steps.

    >>> plan = flambeau.profiler.schedule(wait=1, warmup=1, active=1)
    >>> [plan(i).name for i in range(3)]
    ['NONE', 'WARMUP', 'RECORD_AND_SAVE']
    """

    def action(step: int) -> ProfilerAction:
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait:
            step += wait
        cycle = wait + warmup + active
        if 0 < repeat <= step // cycle:
            return ProfilerAction.NONE
        place = step % cycle
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD_AND_SAVE if place == cycle - 1 else ProfilerAction.RECORD

    if wait < 0 or warmup < 0 or active <= 0 or repeat < 0 or skip_first < 0:
        raise AssertionError("Invalid profiler schedule arguments: active must be positive, the others not negative")
    return action


def supported_activities() -> set:
    """{ProfilerActivity.CPU}"""
    return {ProfilerActivity.CPU}


def kineto_available() -> bool:
    """False: PyTorch's tracing library is not used."""
    return False


globals().update(missing(__name__, "tensorboard_trace_handler ExecutionTraceObserver", _INSTEAD))
profile = missing_class(__name__, "profile", _INSTEAD)
_unknown = refusal(__name__, _INSTEAD)


def __getattr__(name: str) -> Any:
    return _unknown(name)
