"""Anomaly mode: keep the whole forward stack of every node, and stop at the first NaN of a backward.

The line of the failing operator is in every error anyway; this mode adds the calls that led to it and looks at
each gradient. It makes everything slower.
"""

from __future__ import annotations

import os
import traceback
import warnings
from typing import Any

import numpy as np

from flambeau.core.errors import AutogradError, node_text
from flambeau.core.objects import Node, TensorBase, array_of, extra_of, is_mapped
from flambeau.core.origin import warn_user
from flambeau.core.state import anomaly_changed, local, state
from flambeau.core.tasks import current_call

from ._modes import Mode

__all__ = ["detect_anomaly", "set_detect_anomaly"]

# the file that runs a script for `flambeau run`
_RUNNER = os.path.join(os.path.dirname(os.path.dirname(__file__)), "cli", "run.py")
_switch = {"on": False, "check_nan": True, "counted": False}


def is_anomaly_enabled() -> bool:
    """Whether anomaly mode is on."""
    return _switch["on"]


def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly mode looks for NaN."""
    return _switch["check_nan"]


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """Switch anomaly mode for the whole process."""
    _set(bool(mode), check_nan)


def _set(on: bool, check_nan: bool) -> None:
    _switch["on"], _switch["check_nan"] = on, check_nan
    if on != _switch["counted"]:
        anomaly_changed(1 if on else -1)
        _switch["counted"] = on


class detect_anomaly(Mode):
    """Inside, a backward that makes NaN raises, and a failing backward shows the stack of its forward.

    Args:
        check_nan: look for NaN in every gradient.
    """

    def __init__(self, check_nan: bool = True) -> None:
        self.check_nan = check_nan
        self.old: tuple[bool, bool] = (False, True)
        warn_user("Anomaly Detection has been enabled. Every step is slower: switch it off once "
                  "the fault is found.")

    def clone(self) -> detect_anomaly:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return detect_anomaly(self.check_nan)

    def __enter__(self) -> None:
        self.old = (_switch["on"], _switch["check_nan"])
        _set(True, self.check_nan)

    def __exit__(self, *error: Any) -> None:
        _set(*self.old)


class set_detect_anomaly(Mode):
    """Set anomaly mode: at once as a function, until the end of the block as a context manager."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.mode, self.check_nan = bool(mode), check_nan
        self.old = (_switch["on"], _switch["check_nan"])
        _set(self.mode, check_nan)

    def clone(self) -> set_detect_anomaly:
        return set_detect_anomaly(self.mode, self.check_nan)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        _set(*self.old)


def trace(node: Node) -> None:
    """Keep the stack of a new node, and the node being differentiated when it is part of a backward."""
    stack = traceback.extract_stack()
    started = [k for k, frame in enumerate(stack) if frame.filename == _RUNNER]      # `flambeau run`, and what called it
    if started:
        del stack[:started[-1] + 1]
    extra_of(node).traceback = (
        traceback.StackSummary.from_list([f for f in stack if f.filename not in state.internal]),
        getattr(local, "evaluating", None) if current_call() is not None else None)


def check_nan(node: Node, k: int, gradient: Any) -> None:
    """Raise when the gradient for input k of node contains NaN."""
    if not _switch["check_nan"]:
        return
    while isinstance(gradient, TensorBase) and is_mapped(gradient):
        gradient = gradient._lazy.inner         # a batch of gradients
    array = array_of(gradient) if isinstance(gradient, TensorBase) else np.asarray(gradient)
    if array.dtype.kind not in "fcV":
        return
    bad = np.isnan(array)
    if not bad.any():
        return
    first = [int(i) for i in np.argwhere(bad)[0]]
    at = f" The first is element {first} of shape {list(array.shape)}." if array.ndim else ""
    raise AutogradError(
        f"Function '{node.op.node_name}' returned nan values in its {k}th output: {int(bad.sum())} of {array.size} "
        "elements of "
        f"the gradient for its input {_input(node, k)} are NaN.{at}\n  forward:  {node_text(node)}")


def _input(node: Node, k: int) -> str:
    names = node.op.input_names
    return f"'{names[k]}'" if k < len(names) else str(k)


def report(node: Node) -> None:
    """Warn with the forward stacks of a node whose backward failed."""
    seen = 0
    current: Any = node
    while current is not None and seen < 10:
        kept = current.extra.traceback if current.extra is not None else None
        if kept is None:
            if seen == 0:
                warn_user(
                    f"Error detected in {current.op.node_name}. It was recorded before anomaly detection was "
                    "switched on (enable it around the forward pass too, for the whole stack), by "
                    f"{node_text(current)}.")
            return
        stack, parent = kept
        lines = "".join(stack.format())
        if seen == 0:
            text = f"Error detected in {current.op.node_name}. Traceback of forward call:\n{lines}"
        else:
            text = (f"\n\nPrevious calculation was induced by {current.op.node_name}. The "
                    f"forward call that it came from:\n{lines}")
        warn_user(text)
        current, seen = parent, seen + 1


state.check_nan, state.trace, state.report = check_nan, trace, report
