"""Who intercepts operators: forward mode, tensor subclasses, profiler, capture. Several at once, in a fixed order.

While something is registered, `apply` asks `intercept` before it runs a kernel. Interceptors are called from the
outermost (the highest order) inwards until one answers. An interceptor that calls operators itself decides who
sees those: inside `below(order)` only interceptors of a lower order do, in this thread.
"""
from __future__ import annotations

import threading
from typing import Any, Final

from .state import intercepting, local, state

FORWARD_MODE: Final = 10       # orders, from the innermost
CAPTURE: Final = 20
PROFILER: Final = 30
MODES: Final = 40
SUBCLASS: Final = 50

_registered: list[tuple[int, Any]] = []
_lock: Final = threading.RLock()        # threads enter and leave transforms at once; a finalizer may, in this very thread


def register(order: int, fn: Any) -> None:
    """Ask fn(op, inputs, params, kind) for every operator: it answers with a value, or NotImplemented to pass."""
    with _lock:
        found: list[tuple[int, Any]] = list(_registered)
        found.append((order, fn))
        found.sort(key=order_of, reverse=True)
        _registered[:] = found
        intercepting(1)


def order_of(entry: tuple[int, Any]) -> int:
    return entry[0]


def unregister(order: int, fn: Any) -> None:
    """Undo one `register`."""
    with _lock:
        found: list[tuple[int, Any]] = list(_registered)
        i = 0
        while i < len(found):
            entry = found[i]
            if entry[0] == order and entry[1] == fn:
                del found[i]
                _registered[:] = found
                intercepting(-1)
                return
            i += 1


def limit() -> int:
    """Only interceptors below this order act in this thread now."""
    n: int = getattr(local, "intercept_limit", 1000000)
    return n


def set_limit(order: int) -> int:
    """Let only interceptors below `order` act in this thread; returns the old limit."""
    old = limit()
    local.intercept_limit = order
    return old


def intercept(op: Any, inputs: Any, params: Any, kind: Any) -> Any:
    """The answer of the outermost interceptor that gives one, or NotImplemented."""
    n = limit()
    for entry in list(_registered):
        if entry[0] < n:
            r: Any = entry[1](op, inputs, params, kind)
            if r is not NotImplemented:
                return r
    return NotImplemented


# Whole steps: a backward call, an optimizer's step. Seldom enough for a list walked each time.

_step_watchers: list[Any] = []
BACKWARD: Final = "backward"                  # payload: (roots, seeds, retain, create, inputs, accumulate)
OPTIMIZER_STEP: Final = "optimizer_step"      # payload: (optimizer, closure)


def register_step(fn: Any) -> None:
    """Ask fn(kind, payload) for every backward and optimizer step: a value in its place, or NotImplemented to pass."""
    _step_watchers.append(fn)
    state.n_step_watchers += 1


def unregister_step(fn: Any) -> None:
    """Undo one `register_step`."""
    if fn in _step_watchers:
        _step_watchers.remove(fn)
        state.n_step_watchers -= 1


def intercept_step(kind: str, payload: Any) -> Any:
    """The answer of the last registered that gives one, or NotImplemented."""
    i = len(_step_watchers) - 1
    while i >= 0:
        r: Any = _step_watchers[i](kind, payload)
        if r is not NotImplemented:
            return r
        i -= 1
    return NotImplemented


state.intercept = intercept
state.intercept_step = intercept_step
