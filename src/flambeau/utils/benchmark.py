"""`torch.utils.benchmark`: how long a statement takes, with enough repetitions to say so, and tables to compare.

    timer = Timer("x @ x", globals={"x": torch.rand(100, 100)}, label="product")
    print(timer.blocked_autorange())
"""

from __future__ import annotations

import math
import statistics
import timeit
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import flambeau
from flambeau._unavailable import missing

__all__ = ["Compare", "Language", "Measurement", "TaskSpec", "Timer", "select_unit", "timer", "trim_sigfig",
           "unit_to_english"]

timer = timeit.default_timer
_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
_ENGLISH = {"ns": "nanosecond", "us": "microsecond", "ms": "millisecond", "s": "second"}
_LONG_SETUP = 60

globals().update(missing(__name__, "CallgrindStats FunctionCounts Fuzzer FuzzedParameter FuzzedTensor ParameterAlias "
                                   "FuzzedSparseTensor CopyIfCallgrind",
                         "Valgrind's counts and random inputs are not there. Time with Timer, profile with "
                         "torch.autograd.profiler."))


class Language:
    """The languages of statements; Python is the one."""

    PYTHON = 0
    CPP = 1


def select_unit(seconds: float) -> tuple[str, float]:
    """(unit, its length in seconds) in which a time is shown."""
    unit = "ns"
    for name, size in _UNITS.items():
        if seconds >= size:
            unit = name
    return unit, _UNITS[unit]


def unit_to_english(unit: str) -> str:
    """"us" as "microsecond"."""
    return _ENGLISH[unit]


def trim_sigfig(x: float, n: int) -> float:
    """x rounded to n significant figures."""
    if x == 0:
        return x
    scale = 10 ** (math.floor(math.log10(abs(x))) + 1 - n)
    return float(round(x / scale) * scale)


@dataclass(frozen=True)
class TaskSpec:
    """What is measured."""

    stmt: str
    setup: str = ""
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label with the sub-label, or the statement."""
        if self.label is not None:
            return self.label + (f": {self.sub_label}" if self.sub_label else "")
        return self.stmt if "\n" not in self.stmt else f"stmt:\n{self.stmt}"


@dataclass
class Measurement:
    """Times, in seconds, of runs of number_per_run repetitions each."""

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[str, Any] | None = field(default=None)

    def __getattr__(self, name: str) -> Any:
        if name != "task_spec" and name in TaskSpec.__dataclass_fields__ or name == "title":
            return getattr(self.task_spec, name)
        raise AttributeError(f"'Measurement' object has no attribute '{name}'")

    @property
    def times(self) -> list[float]:
        """The time of one repetition, of each run."""
        return [t / self.number_per_run for t in self.raw_times]

    @property
    def mean(self) -> float:
        """Their mean."""
        return statistics.mean(self.times)

    @property
    def median(self) -> float:
        """Their median, which is what to compare."""
        return statistics.median(self.times)

    def _quartiles(self) -> tuple[float, float]:
        times = sorted(self.times)

        def at(q: float) -> float:
            place = q * (len(times) - 1)
            low = math.floor(place)
            high = min(low + 1, len(times) - 1)
            return times[low] + (times[high] - times[low]) * (place - low)

        return at(0.25), at(0.75)

    @property
    def iqr(self) -> float:
        """From the first quartile to the third: how much they vary."""
        low, high = self._quartiles()
        return high - low

    @property
    def significant_figures(self) -> int:
        """How many digits of the median the variation leaves."""
        spread = self.iqr / 1.35 / math.sqrt(len(self.times)) * 1.645
        if spread <= 0 or self.median <= 0:
            return 5 if len(self.times) > 1 else 1
        return max(1, min(5, math.floor(-math.log10(spread / self.median)) + 1))

    @property
    def has_warnings(self) -> bool:
        """Whether the times vary so much that they say little."""
        return self.median > 0 and self.iqr / self.median > 0.1

    @property
    def as_row_name(self) -> str:
        """Its row in a table of Compare."""
        return self.task_spec.sub_label or self.task_spec.stmt or "[Unknown]"

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """Those of the same task as one."""
        groups: dict[TaskSpec, list[Measurement]] = {}
        for m in measurements:
            groups.setdefault(m.task_spec, []).append(m)
        return [Measurement(1, [t for m in group for t in m.times], spec) for spec, group in groups.items()]

    def __repr__(self) -> str:
        unit, size = select_unit(self.median)
        low, high = self._quartiles()
        n, threads = len(self.raw_times), self.task_spec.num_threads
        lines = [super().__repr__(), self.task_spec.title]
        if self.task_spec.setup and len(self.task_spec.setup) < _LONG_SETUP:
            lines.append(f"setup: {self.task_spec.setup}")
        if n > 1:
            lines += [f"  Median: {self.median / size:.2f} {unit}",
                      f"  IQR:    {(high - low) / size:.2f} {unit} ({low / size:.2f} to {high / size:.2f})"]
        else:
            lines.append(f"  {self.median / size:.2f} {unit}")
        lines.append(f"  {n} measurement{'s' * (n > 1)}, {self.number_per_run} runs {'per measurement, ' if n > 1 else ', '}"
                     f"{threads} thread{'s' * (threads > 1)}")
        if self.has_warnings:
            lines.append(f"  WARNING: the interquartile range is {self.iqr / self.median:.1%} of the median: the machine "
                         "was busy, or the statement varies.")
        return "\n".join(lines)

    __str__ = __repr__

MOST = 10**6        # repetitions of a statement in one block


class Timer:
    """Measures a statement, in Python.

    Args:
        stmt, setup: what runs in each repetition, and what runs before, as `timeit` takes them.
        global_setup: accepted; it belongs to C++.
        timer: the clock.
        globals: the names that both see (`torch` is there unless given).
        label, sub_label, description, env: where Compare shows the result: table, row, column, and row group.
        num_threads: of flambeau, while it measures.

    Raises:
        NotImplementedError: language is not Python.
    """

    def __init__(self, stmt: str = "pass", setup: str = "pass", global_setup: str = "", timer: Callable[[], float] = timer,
                 globals: dict[str, Any] | None = None, label: str | None = None, sub_label: str | None = None,
                 description: str | None = None, env: str | None = None, num_threads: int = 1,
                 language: Any = Language.PYTHON) -> None:
        if not isinstance(stmt, str):
            raise ValueError("Currently only a `str` stmt is supported.")
        if language not in (Language.PYTHON, "py", "python"):
            raise NotImplementedError("Timer: statements are in Python; there is no C++ to compile")
        names = dict(globals or {})
        names.setdefault("torch", flambeau)
        names.setdefault("flambeau", flambeau)
        self._timer = timeit.Timer(stmt, setup, timer, names)
        self._task_spec = TaskSpec(stmt, "" if setup == "pass" else setup, global_setup, label, sub_label, description, env,
                                   num_threads)

    def _time(self, number: int) -> float:
        return max(self._timer.timeit(number), 1e-9)

    def _with_threads(self, measure: Callable[[], Any]) -> Any:
        before = flambeau.get_num_threads()
        flambeau.set_num_threads(self._task_spec.num_threads)
        try:
            return measure()
        finally:
            flambeau.set_num_threads(before)

    def timeit(self, number: int = 1000000) -> Measurement:
        """One run of `number` repetitions, after a warm-up."""
        def measure() -> Measurement:
            self._time(max(number // 100, 2))
            return Measurement(number, [self._time(number)], self._task_spec)

        found: Measurement = self._with_threads(measure)
        return found

    def _number(self, min_run_time: float) -> int:
        """So many repetitions that the clock's own time does not matter; at most MOST, for a clock that stands still."""
        overhead = statistics.median(timeit.timeit("pass", number=1) for _ in range(5))
        number = 1
        while True:
            taken = self._time(number)
            if overhead / taken < 1e-4 and taken >= min_run_time / 1000 or taken > min_run_time or number >= MOST:
                return number
            number *= 10

    def blocked_autorange(self, callback: Callable | None = None, min_run_time: float = 0.2) -> Measurement:
        """Runs until min_run_time seconds have been measured; `callback(number, time)` sees each."""
        def measure() -> Measurement:
            number = self._number(min_run_time)
            times: list[float] = []
            while sum(times) < min_run_time:
                times.append(self._time(number))
                if callback is not None:
                    callback(number, times[-1])
            return Measurement(number, times, self._task_spec)

        found: Measurement = self._with_threads(measure)
        return found

    def adaptive_autorange(self, threshold: float = 0.1, *, min_run_time: float = 0.01, max_run_time: float = 10.0,
                           callback: Callable | None = None) -> Measurement:
        """Runs until the interquartile range is below threshold * median, or max_run_time seconds are over."""
        def measure() -> Measurement:
            number = self._number(0.05)
            times: list[float] = []
            while True:
                times.append(self._time(number))
                if callback is not None:
                    callback(number, times[-1])
                so_far = Measurement(number, times, self._task_spec)
                steady = len(times) > 3 and so_far.iqr < threshold * so_far.median
                if sum(times) > max_run_time or (sum(times) >= min_run_time and steady):
                    return so_far

        found: Measurement = self._with_threads(measure)
        return found

    def collect_callgrind(self, *args: Any, **kwargs: Any) -> Any:
        """Raises: there is no counter of instructions."""
        raise NotImplementedError("Timer.collect_callgrind(): instructions are not counted. Use blocked_autorange().")


class Compare:
    """Tables of measurements: one for each label, with descriptions as columns and sub-labels as rows.

    >>> task = TaskSpec("f(x)", label="f", sub_label="small", description="mine")
    >>> print(Compare([Measurement(1, [2e-6, 2e-6], task)]))
    [------ f -------]
               |  mine
    1 thread: --------
      small    |   2.0
    <BLANKLINE>
    Times are in microseconds (us).
    """

    def __init__(self, results: list[Measurement]) -> None:
        self._results: list[Measurement] = []
        self.extend_results(results)
        self._trim = False

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Add measurements."""
        for r in results:
            if not isinstance(r, Measurement):
                raise ValueError(f"Expected an instance of `Measurement`, got {type(r)} instead.")
            self._results.append(r)

    def trim_significant_figures(self) -> None:
        """Show as many digits as the variation leaves."""
        self._trim = True

    def colorize(self, rowwise: bool = False) -> None:
        """Nothing: tables have no colors."""

    def highlight_warnings(self) -> None:
        """Nothing: a varying measurement says so itself."""

    def print(self) -> None:
        """Print the tables."""
        print(self)

    def __str__(self) -> str:
        merged = Measurement.merge(self._results)
        labels = list(dict.fromkeys(m.task_spec.label for m in merged))
        return "\n".join(self._table(label, [m for m in merged if m.task_spec.label == label]) for label in labels)

    def _table(self, label: str | None, results: list[Measurement]) -> str:
        unit, size = select_unit(min(m.median for m in results))
        columns = list(dict.fromkeys(m.task_spec.description for m in results))
        rows = list(dict.fromkeys((m.task_spec.num_threads, m.task_spec.env or "", m.as_row_name) for m in results))
        names = [(f"({env})  " if env else "") + name for _, env, name in rows]
        cells = []
        for threads, env, name in rows:
            cells.append([])
            for column in columns:
                found = [m for m in results if (m.task_spec.num_threads, m.task_spec.env or "", m.as_row_name,
                                                m.task_spec.description) == (threads, env, name, column)]
                value = found[0].median / size if found else None
                if value is not None and self._trim:
                    value = trim_sigfig(value, found[0].significant_figures)
                cells[-1].append("" if value is None else f"{value:.1f}")
        heads = ["" if c is None else c for c in columns]
        first = max(len("1 thread:") - 2, *(len(n) for n in names))
        widths = [max(len(h), *(len(row[i]) for row in cells)) for i, h in enumerate(heads)]
        body = [" " * (first + 2) + "  |  " + "  |  ".join(h.center(w) for h, w in zip(heads, widths, strict=True))]
        total = len(body[0])
        last = None
        for (threads, _, _), name, row in zip(rows, names, cells, strict=True):
            if threads != last:
                last = threads
                body.append(f"{threads} thread{'s' * (threads > 1)}: ".ljust(total, "-"))
            body.append("  " + name.ljust(first) + "  |  " + "  |  ".join(
                c.rjust(w) for c, w in zip(row, widths, strict=True)))
        title = f" {label or ''} ".center(max(total - 2, 0), "-")
        return "\n".join([f"[{title}]", *body, "", f"Times are in {unit_to_english(unit)}s ({unit})."])
