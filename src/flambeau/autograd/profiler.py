"""A profiler of operators and backward nodes: how often each ran and how long it took.

    with profile() as prof:
        loss(model(x)).backward()
    print(prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=10))

Measuring costs about a microsecond for each operator, which is counted in the times of regions around it.
"""

from __future__ import annotations

import functools
import gzip
import json
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from flambeau.core.interception import PROFILER, limit, register, set_limit, unregister
from flambeau.core.objects import TensorBase, shape_of
from flambeau.core.state import state

from ._rerun import rerun

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "profile", "record_function"]

_active: list[profile] = []


class FunctionEvent:
    """One call of an operator, a backward node or a region. Times in microseconds."""

    count = 1

    def __init__(self, name: str, thread: int, start: float, shapes: list | None) -> None:
        self.name = self.key = name
        self.thread, self.start, self.end = thread, start, start
        self.input_shapes = shapes
        self.children_time = 0.0

    @property
    def cpu_time_total(self) -> float:
        return self.end - self.start

    @property
    def self_cpu_time_total(self) -> float:
        return self.cpu_time_total - self.children_time

    @property
    def cpu_time(self) -> float:
        return self.cpu_time_total

    def __repr__(self) -> str:
        return f"<FunctionEvent {self.name} cpu_time={self.cpu_time_total:.3f}us thread={self.thread}>"


class FunctionEventAvg:
    """All calls under one name."""

    def __init__(self, key: str, input_shapes: list | None = None) -> None:
        self.key, self.input_shapes = key, input_shapes
        self.count = 0
        self.cpu_time_total = self.self_cpu_time_total = 0.0

    def add(self, event: Any) -> None:
        """Count one more call."""
        self.count += event.count
        self.cpu_time_total += event.cpu_time_total
        self.self_cpu_time_total += event.self_cpu_time_total

    @property
    def cpu_time(self) -> float:
        """Average over calls."""
        return self.cpu_time_total / self.count if self.count else 0.0

    def __repr__(self) -> str:
        return f"<FunctionEventAvg key={self.key} count={self.count} self_cpu_time={self.self_cpu_time_total:.3f}us>"


def _time(us: float) -> str:
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if us >= size:
            return f"{us / size:.3f}{unit}"
    return f"{us:.3f}us"


_SORT = {"cpu_time": "cpu_time", "cpu_time_total": "cpu_time_total", "self_cpu_time_total": "self_cpu_time_total",
         "count": "count"}


class EventList(list):
    """Events, or averages of them."""

    def key_averages(self, group_by_input_shapes: bool = False, group_by_stack_n: int = 0) -> EventList:
        """One entry for each name (and input shapes)."""
        found: dict[Any, FunctionEventAvg] = {}
        for e in self:
            key = (e.key, str(e.input_shapes)) if group_by_input_shapes else e.key
            if key not in found:
                found[key] = FunctionEventAvg(e.key, e.input_shapes if group_by_input_shapes else None)
            found[key].add(e)
        return EventList(found.values())

    def total_average(self) -> FunctionEventAvg:
        """Everything as one entry."""
        total = FunctionEventAvg("Total")
        for e in self:
            total.add(e)
        return total

    @property
    def self_cpu_time_total(self) -> float:
        return sum(e.self_cpu_time_total for e in self)

    def table(self, sort_by: str | None = None, row_limit: int = 100, max_src_column_width: int = 75,
              max_name_column_width: int = 55, max_shapes_column_width: int = 80, header: str | None = None,
              top_level_events_only: bool = False) -> str:
        """The events as text.

        Args:
            sort_by: "cpu_time", "cpu_time_total", "self_cpu_time_total" or "count"; as they came by default.
            row_limit: how many rows; -1 for all.
        """
        events = list(self)
        if sort_by is not None:
            if sort_by not in _SORT:
                raise AttributeError(f"cannot sort by '{sort_by}': choose one of {sorted(_SORT)} (there is no other device)")
            events.sort(key=lambda e: getattr(e, _SORT[sort_by]), reverse=True)
        total = self.self_cpu_time_total or 1.0
        shapes = any(e.input_shapes is not None for e in events)
        heads = ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "# of Calls"]
        rows = []
        for e in events if row_limit < 0 else events[:row_limit]:
            name = e.key if len(e.key) <= max_name_column_width else e.key[: max_name_column_width - 3] + "..."
            rows.append([name, f"{100 * e.self_cpu_time_total / total:.2f}%", _time(e.self_cpu_time_total),
                         f"{100 * e.cpu_time_total / total:.2f}%", _time(e.cpu_time_total), _time(e.cpu_time), str(e.count)]
                        + ([str(e.input_shapes or "")[:max_shapes_column_width]] if shapes else []))
        if shapes:
            heads.append("Input Shapes")
        widths = [max(len(r[i]) for r in [heads, *rows]) + 2 for i in range(len(heads))]
        rule = "  ".join("-" * w for w in widths)
        top = "  ".join(h.rjust(w) for h, w in zip(heads, widths, strict=True))
        lines = ([header] if header else []) + [rule, top, rule]
        lines += ["  ".join(c.rjust(w) for c, w in zip(r, widths, strict=True)) for r in rows]
        return "\n".join([*lines, rule, f"Self CPU time total: {_time(self.self_cpu_time_total)}", ""])

    def export_chrome_trace(self, path: str, metadata: dict[str, Any] | None = None) -> None:
        """Write the events for chrome://tracing or Perfetto; compressed if `path` ends in .gz."""
        trace = [{"name": e.name, "ph": "X", "ts": e.start, "dur": e.cpu_time_total, "pid": os.getpid(), "tid": e.thread,
                  "cat": "cpu_op"} for e in self]
        opener: Callable = gzip.open if str(path).endswith(".gz") else open
        with opener(path, "wt", encoding="utf-8") as file:
            json.dump({**(metadata or {}), "traceEvents": trace}, file)

    def __str__(self) -> str:
        return self.table()


class profile:
    """Measure the operators of a block, forward and backward.

    Args:
        enabled: False makes it do nothing.
        record_shapes: keep the shapes of inputs.
        Others are accepted for programs written for a GPU; memory, stacks and operation counts are not measured.
    """

    def __init__(self, enabled: bool = True, *, use_cuda: bool = False, use_device: str | None = None,
                 record_shapes: bool = False, with_flops: bool = False, profile_memory: bool = False,
                 with_stack: bool = False, with_modules: bool = False, use_kineto: bool = False, use_cpu: bool = True,
                 **accepted: Any) -> None:
        self.enabled, self.record_shapes = enabled, record_shapes
        self.function_events = EventList()
        self.local = threading.local()
        self.lock = threading.Lock()
        self.outer: Any = None          # who watched the backward pass before: it goes on

    def __enter__(self) -> profile:
        if self.enabled:
            if _active:
                raise RuntimeError("Profiler is already enabled on this thread: profilers do not nest")
            _active.append(self)
            register(PROFILER, self._operator)
            self.outer, state.watch = state.watch, self._node
        return self

    def __exit__(self, *error: Any) -> None:
        if self.enabled:
            _active.remove(self)
            unregister(PROFILER, self._operator)
            state.watch = self.outer
            self.function_events.sort(key=lambda e: e.start)

    def begin(self, name: str, shapes: list | None = None) -> FunctionEvent:
        """Start an event of this thread."""
        stack = self.local.__dict__.setdefault("stack", [])
        event = FunctionEvent(name, threading.get_ident(), time.perf_counter_ns() / 1000, shapes)
        stack.append(event)
        return event

    def end(self, event: FunctionEvent) -> None:
        """End it, and whatever an exception left open inside it."""
        now = time.perf_counter_ns() / 1000
        stack = self.local.__dict__.get("stack", [])
        while stack:
            top = stack.pop()
            top.end = now
            if stack:
                stack[-1].children_time += top.cpu_time_total
            with self.lock:
                self.function_events.append(top)
            if top is event:
                return

    def _operator(self, op: Any, inputs: tuple, params: Any, kind: int) -> Any:
        old = limit()
        shapes = None
        if self.record_shapes:
            shapes = [list(shape_of(t)) if isinstance(t, TensorBase) else [] for t in inputs]
        event = self.begin("aten::" + op.name + ("_" if kind == 1 else ""), shapes)
        set_limit(PROFILER)
        try:
            return rerun(op, inputs, params, kind)
        finally:
            set_limit(old)
            self.end(event)

    def _node(self, node: Any, begins: bool) -> None:
        if self.outer is not None:
            self.outer(node, begins)
        if begins:
            self.begin(node.op.node_name)
        else:
            stack = self.local.__dict__.get("stack", [])
            event = next((e for e in reversed(stack) if e.name == node.op.node_name), None)
            if event is not None:
                self.end(event)

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> EventList:
        """One entry for each name."""
        return self.function_events.key_averages(group_by_input_shape)

    def total_average(self) -> FunctionEventAvg:
        return self.function_events.total_average()

    def table(self, *args: Any, **kwargs: Any) -> str:
        return self.function_events.table(*args, **kwargs)

    def export_chrome_trace(self, path: str) -> None:
        self.function_events.export_chrome_trace(path)

    @property
    def self_cpu_time_total(self) -> float:
        return self.function_events.self_cpu_time_total

    def __str__(self) -> str:
        return self.table() if self.function_events else "<unfinished torch.autograd.profile>"


class record_function:
    """A named region of the profile: a context manager and a decorator. Without a profiler it does nothing."""

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name, self.args = name, args
        self.open: tuple | None = None

    def __enter__(self) -> record_function:
        if _active:
            self.open = (_active[-1], _active[-1].begin(self.name))
        return self

    def __exit__(self, *error: Any) -> None:
        if self.open is not None:
            found, self.open = self.open, None
            found[0].end(found[1])

    def __call__(self, fn: Callable) -> Callable:
        @functools.wraps(fn)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name, self.args):
                return fn(*args, **kwargs)

        return wrapped


class emit_nvtx:
    """NVTX ranges need a GPU: use `profile`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError("emit_nvtx() marks ranges for NVIDIA's tools, and there is no CUDA device: use "
                           "autograd.profiler.profile()")
