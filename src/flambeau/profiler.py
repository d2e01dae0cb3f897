"""`torch.profiler`: the operators of chosen steps of a program, timed by `torch.autograd.profiler.profile`."""

from __future__ import annotations

import enum
import json
import os
import socket
import time
from collections.abc import Callable, Iterable
from typing import Any

from ._unavailable import missing, refusal
from .autograd import profiler as _operators
from .autograd.profiler import record_function
from .core.origin import warn_user

__all__ = ["ProfilerAction", "ProfilerActivity", "kineto_available", "profile", "record_function", "schedule",
           "supported_activities", "tensorboard_trace_handler"]

_INSTEAD = ("use `with torch.profiler.profile() as p:` around some steps, and print(p.key_averages().table()); "
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


def tensorboard_trace_handler(dir_name: str, worker_name: str | None = None, use_gzip: bool = False) -> Callable:
    """A function for `on_trace_ready` that writes each trace to a file of its own in `dir_name`.

    Args:
        worker_name: the first part of the file's name; the host and the process by default.
        use_gzip: compress the files.
    """

    def handler(prof: profile) -> None:
        os.makedirs(dir_name, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        name = f"{worker}.{time.time_ns()}.pt.trace.json" + (".gz" if use_gzip else "")
        prof.export_chrome_trace(os.path.join(dir_name, name))

    return handler


class profile:
    """Measure the operators of a block, or of the steps that a schedule chooses.

    Args:
        activities: what is timed; it must hold `ProfilerActivity.CPU`, the only device here.
        schedule: step number -> `ProfilerAction` (see `schedule`); without it everything in the block is recorded.
        on_trace_ready: called with the profile at the end of each cycle of recorded steps, and at the end of the block.
        record_shapes: keep the shapes of inputs.
        acc_events: keep the events of all cycles; otherwise each cycle begins afresh.
        Others are accepted for programs written for a GPU; memory, stacks and operation counts are not measured
        (`torch.utils.flop_counter` counts operations).

    >>> from flambeau.profiler import profile, schedule
    >>> with profile(schedule=schedule(wait=1, warmup=1, active=2)) as prof:
    ...     for step in range(4):
    ...         y = flambeau.ones(2).exp()
    ...         prof.step()
    >>> sum(e.name == "aten::exp" for e in prof.events())
    2
    """

    def __init__(self, *, activities: Iterable | None = None, schedule: Callable[[int], ProfilerAction] | None = None,
                 on_trace_ready: Callable[[profile], Any] | None = None, record_shapes: bool = False,
                 profile_memory: bool = False, with_stack: bool = False, with_flops: bool = False,
                 with_modules: bool = False, experimental_config: Any = None, execution_trace_observer: Any = None,
                 acc_events: bool = False, use_cuda: bool | None = None, **accepted: Any) -> None:
        self.activities = supported_activities() if activities is None else set(activities)
        if ProfilerActivity.CPU not in self.activities:
            raise AssertionError("No valid profiler activities found: the CPU is what is there, so activities must hold "
                                 f"ProfilerActivity.CPU; got {sorted(map(str, self.activities))}.")
        absent = sorted(a.name for a in self.activities - supported_activities())
        if absent:
            warn_user(f"{', '.join(absent)} is not available, disabling its profiling: the CPU is timed.")
        self.schedule, self.on_trace_ready = schedule, on_trace_ready
        self.record_shapes, self.acc_events = record_shapes, acc_events
        self.step_num = 0
        self.current_action = self._planned()
        self.profiler: Any = None               # of the cycle that is recorded, or was last
        self._started = self._running = False
        self._step_region: record_function | None = None
        self._earlier = _operators.EventList()
        self._metadata: dict[str, Any] = {}

    def _planned(self) -> ProfilerAction:
        return ProfilerAction.RECORD if self.schedule is None else self.schedule(self.step_num)

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self.stop()

    def start(self) -> None:
        """Begin with the first step."""
        self._started = True
        self._record()

    def stop(self) -> None:
        """End; what was being recorded is handed to `on_trace_ready`."""
        self._started = False
        if self._running:
            self._end(ready=True)

    def step(self) -> None:
        """The next step of the program begins."""
        before = self.current_action
        self._leave_region()
        self.step_num += 1
        self.current_action = self._planned()
        if self._running and (before is ProfilerAction.RECORD_AND_SAVE or not _records(self.current_action)):
            if before is not ProfilerAction.RECORD_AND_SAVE:
                warn_user("Incorrect schedule: RECORD followed by NONE or WARMUP. The last step of a cycle is "
                          "RECORD_AND_SAVE; what was recorded is not handed to on_trace_ready.")
            self._end(ready=before is ProfilerAction.RECORD_AND_SAVE)
        self._record()

    def _record(self) -> None:
        """Watch the operators if the step is to be recorded."""
        if not (self._started and _records(self.current_action)):
            return
        if not self._running:
            if self.acc_events and self.profiler is not None:
                self._earlier.extend(self.profiler.function_events)
            self.profiler = _operators.profile(record_shapes=self.record_shapes)
            self.profiler.__enter__()
            self._running = True
        if self.schedule is not None:
            self._step_region = record_function(f"ProfilerStep#{self.step_num}")
            self._step_region.__enter__()

    def _leave_region(self) -> None:
        if self._step_region is not None:
            self._step_region.__exit__(None, None, None)
            self._step_region = None

    def _end(self, ready: bool) -> None:
        self._leave_region()
        self.profiler.__exit__(None, None, None)
        self._running = False
        if ready and self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def events(self) -> Any:
        """Every call of an operator, a backward node or a region, by its beginning."""
        if self.profiler is None:
            raise AssertionError("Profiler must be initialized before getting events or averages: nothing was recorded. "
                                 "Use it as a context manager, or call start(); a schedule may have left all steps out.")
        return _operators.EventList([*self._earlier, *self.profiler.function_events])

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> Any:
        """One entry for each name (and input shapes); `.table(sort_by="cpu_time_total", row_limit=10)` shows them."""
        return self.events().key_averages(group_by_input_shape)

    def export_chrome_trace(self, path: str) -> None:
        """Write the events for chrome://tracing or Perfetto; compressed if `path` ends in .gz."""
        self.events().export_chrome_trace(path, self._metadata)

    def add_metadata(self, key: str, value: str) -> None:
        """A text that is written into the trace."""
        self._metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """A JSON value that is written into the trace."""
        self._metadata[key] = json.loads(value)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Not there: stacks are not recorded."""
        raise NotImplementedError("profiler.export_stacks() is not supported by flambeau: stacks are not recorded. "
                                  "Name parts of the program with record_function, or run python -m cProfile.")

    def export_memory_timeline(self, path: str, device: str | None = None) -> None:
        """Not there: memory is not measured."""
        raise NotImplementedError("profiler.export_memory_timeline() is not supported by flambeau: memory is not "
                                  "measured. Use tracemalloc, which sees NumPy's arrays.")


def _records(action: ProfilerAction) -> bool:
    return action is ProfilerAction.RECORD or action is ProfilerAction.RECORD_AND_SAVE


globals().update(missing(__name__, "ExecutionTraceObserver", _INSTEAD))
_unknown = refusal(__name__, _INSTEAD)


def __getattr__(name: str) -> Any:
    return _unknown(name)
