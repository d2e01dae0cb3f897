"""How long a step along a direction should be: the strong Wolfe conditions.

The loss must fall by at least DECREASE of what the slope promises, and the slope must shrink to FLATTER of what it
was. Numbers may be 0-d tensors: they keep the parameters' precision, as in PyTorch.

Source: Nocedal and Wright, Numerical Optimization, 2006, algorithms 3.5 and 3.6.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

DECREASE = 1e-4
FLATTER = 0.9
_LEAST_MOVE = 1e-9


class Point(NamedTuple):
    """A place on the line: how far, the loss, its gradient and its slope there."""

    at: Any
    loss: Any
    g: Any
    slope: Any


def cubic_minimum(a: Point, b: Point, bounds: tuple | None = None) -> Any:
    """Where the cubic with a's and b's losses and slopes is least, within bounds (by default between them)."""
    if bounds is None:
        bounds = (a.at, b.at) if a.at <= b.at else (b.at, a.at)
    mixed = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.at - b.at)
    square = mixed ** 2 - a.slope * b.slope
    if not square >= 0:                       # no minimum, or nan
        return (bounds[0] + bounds[1]) / 2.0
    root = square ** 0.5 if isinstance(square, float) else square.sqrt()
    if a.at <= b.at:
        place = b.at - (b.at - a.at) * ((b.slope + root - mixed) / (b.slope - a.slope + 2 * root))
    else:
        place = a.at - (a.at - b.at) * ((a.slope + root - mixed) / (a.slope - b.slope + 2 * root))
    return min(max(place, bounds[0]), bounds[1])


def strong_wolfe(evaluate: Callable, length: Any, direction: Any, loss: Any, g: Any, slope: Any,
                 most_trials: int) -> tuple:
    """Search along a direction.

    Args:
        evaluate: (length) -> loss, gradient there.
        length: the first to try.
        loss, g, slope: at the start.
        most_trials: lengths tried after the first; then the better end of the bracket is taken.

    Returns:
        (loss, gradient, length, number of evaluations) at the place found.
    """

    def try_at(place: Any) -> Point:
        value, gradient = evaluate(place)
        return Point(place, value, gradient, gradient.dot(direction))

    start = Point(0, loss, g.clone(), slope)
    widest = abs(direction).max()

    def falls_too_little(point: Point) -> bool:
        return bool(point.loss > start.loss + DECREASE * point.at * slope)

    def is_flat(point: Point) -> bool:
        return bool(abs(point.slope) <= -FLATTER * slope)

    before, point = start, try_at(length)
    n_evaluations, n_trials = 1, 0
    found = False
    while True:                               # go out until a minimum lies between two points
        if n_trials == most_trials:
            low, high = start, point
            break
        if falls_too_little(point) or (n_trials > 1 and point.loss >= before.loss):
            low, high = before, point
            break
        if is_flat(point):
            low, high, found = point, point, True
            break
        if point.slope >= 0:
            low, high = before, point
            break
        least = point.at + 0.01 * (point.at - before.at)
        place = cubic_minimum(before, point, (least, point.at * 10))
        before, point = point, try_at(place)
        n_evaluations += 1
        n_trials += 1
    first, second = low, high                 # the bracket in the order in which PyTorch keeps it
    low_is_first = first.loss <= second.loss
    crept = False
    while not found and n_trials < most_trials and not abs(second.at - first.at) * widest < _LEAST_MOVE:
        place = cubic_minimum(first, second)
        smallest, largest = min(first.at, second.at), max(first.at, second.at)
        margin = 0.1 * (largest - smallest)
        if min(largest - place, place - smallest) < margin:      # too near an end, twice: go inside
            if crept or place >= largest or place <= smallest:
                place = largest - margin if abs(place - largest) < abs(place - smallest) else smallest + margin
                crept = False
            else:
                crept = True
        else:
            crept = False
        point = try_at(place)
        n_evaluations += 1
        n_trials += 1
        low, high = (first, second) if low_is_first else (second, first)
        if falls_too_little(point) or point.loss >= low.loss:
            high = point
            first, second = (low, high) if low_is_first else (high, low)
            low_is_first = first.loss <= second.loss
        else:
            if is_flat(point):
                found = True
            elif point.slope * (high.at - low.at) >= 0:
                high = low
            low = point
            first, second = (low, high) if low_is_first else (high, low)
    low = first if low_is_first else second
    return low.loss, low.g, low.at, n_evaluations
