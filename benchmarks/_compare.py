"""Time the same statement under two libraries in one process, interleaved."""

from __future__ import annotations

import platform
import statistics
import timeit
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass
class Statement:
    """Source text and the names that it uses: timed without the cost of calling a function."""

    text: str
    names: dict[str, Any]


Timed = Callable[[], Any] | Statement


def _seconds(timed: Timed, number: int) -> float:
    if isinstance(timed, Statement):
        return timeit.timeit(timed.text, globals=timed.names, number=number)
    return timeit.timeit(timed, number=number)


@dataclass
class Row:
    """Medians and spreads of one comparison, in microseconds for each unit of work."""

    name: str
    ours: float
    theirs: float
    spread_ours: float
    spread_theirs: float

    @property
    def ratio(self) -> float:
        return self.theirs / self.ours


def compare(name: str, ours: Timed, theirs: Timed, units: int = 1, repeats: int = 15,
            target_s: float = 0.02) -> Row:
    """Alternate the two, `repeats` times each, as many calls as fill target_s; medians over the repeats.

    Args:
        units: units of work in one call (operators of a chain).
    """
    for timed in (ours, theirs, ours, theirs):
        _seconds(timed, 1)
    number = max(1, int(target_s / max(_seconds(theirs, 100 if isinstance(theirs, Statement) else 3) / (
        100 if isinstance(theirs, Statement) else 3), 1e-7)))
    a, b = [], []
    for _ in range(repeats):
        a.append(_seconds(ours, number) / number / units * 1e6)
        b.append(_seconds(theirs, number) / number / units * 1e6)
    return Row(name, statistics.median(a), statistics.median(b), _spread(a), _spread(b))


def _spread(values: list[float]) -> float:
    """Half the interquartile range."""
    low, _, high = statistics.quantiles(values, n=4)
    return (high - low) / 2


def show(rows: list[Row], title: str) -> None:
    print(f"{title}  ({platform.processor() or platform.machine()}, Python {platform.python_version()}; "
          "us, median +- half interquartile range)")
    for r in rows:
        print(f"  {r.name:28s} flambeau {r.ours:8.2f} +-{r.spread_ours:5.2f}   PyTorch {r.theirs:8.2f} "
              f"+-{r.spread_theirs:5.2f}   {r.ratio:5.2f}x")
