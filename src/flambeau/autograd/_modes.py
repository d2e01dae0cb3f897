"""Grad modes as context managers and decorators, per thread."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from flambeau.core import state as _state
from flambeau.core.origin import warn_user
from flambeau.core.state import local


def is_grad_enabled() -> bool:
    """Whether operators of this thread are recorded now."""
    return _state.grad_enabled()


def is_inference_mode_enabled() -> bool:
    """Whether this thread is in inference mode."""
    return _state.inference_enabled()


class Recording:
    """What torch.func does is recorded, whatever the modes around it; tensors made in inference mode count as constants."""

    __slots__ = ("grad", "inference")

    def __enter__(self) -> None:
        self.grad, self.inference = _state.set_grad_enabled(True), _state.set_inference(False)
        local.n_recording = getattr(local, "n_recording", 0) + 1

    def __exit__(self, *error: Any) -> None:
        local.n_recording -= 1
        _state.set_inference(self.inference)
        _state.set_grad_enabled(self.grad)


class Mode:
    """A context manager that is a decorator too; on a generator function it covers the body, not the caller."""

    def clone(self) -> Mode:
        return type(self)()

    def __enter__(self) -> None:
        raise NotImplementedError

    def __exit__(self, *error: Any) -> None:
        raise NotImplementedError

    def __call__(self, fn: Callable) -> Callable:
        if inspect.isclass(fn):
            warn_user(
                "Decorating a class with it is deprecated: decorate its methods. You should only decorate "
                "functions or "
                f"methods: write the decorator on {fn.__name__}.__init__, which is what it covers "
                "now.", FutureWarning)
        if inspect.isgeneratorfunction(fn):
            return self._generator(fn)

        @functools.wraps(fn)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return fn(*args, **kwargs)

        return wrapped

    def _generator(self, fn: Callable) -> Callable:
        @functools.wraps(fn)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            generator = fn(*args, **kwargs)
            try:
                with self.clone():
                    value = generator.send(None)
                while True:
                    try:
                        request = yield value
                    except GeneratorExit:
                        with self.clone():
                            generator.close()
                        raise
                    except BaseException as error:
                        with self.clone():
                            value = generator.throw(error)
                    else:
                        with self.clone():
                            value = generator.send(request)
            except StopIteration as stop:
                return stop.value

        return wrapped


class no_grad(Mode):
    """Operators inside are not recorded: results do not require grad.

    >>> x = flambeau.ones(2, requires_grad=True)
    >>> with flambeau.no_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    def __new__(cls, fn: Callable | None = None) -> Any:
        mode = super().__new__(cls)
        return mode if fn is None else mode(fn)

    def __enter__(self) -> None:
        self.old = _state.set_grad_enabled(False)

    def __exit__(self, *error: Any) -> None:
        _state.set_grad_enabled(self.old)


class enable_grad(Mode):
    """Operators inside are recorded, also within `no_grad`."""

    def __new__(cls, fn: Callable | None = None) -> Any:
        mode = super().__new__(cls)
        return mode if fn is None else mode(fn)

    def __enter__(self) -> None:
        self.old = _state.set_grad_enabled(True)

    def __exit__(self, *error: Any) -> None:
        _state.set_grad_enabled(self.old)


class set_grad_enabled(Mode):
    """Set the grad mode: at once as a function, until the end of the block as a context manager."""

    def __init__(self, mode: bool) -> None:
        self.mode = bool(mode)
        self.old = _state.set_grad_enabled(self.mode)

    def clone(self) -> set_grad_enabled:
        return set_grad_enabled(self.mode)

    def __call__(self, fn: Callable) -> Callable:
        _state.set_grad_enabled(self.old)
        return super().__call__(fn)

    def __enter__(self) -> None:
        _state.set_grad_enabled(self.mode)

    def __exit__(self, *error: Any) -> None:
        _state.set_grad_enabled(self.old)


class inference_mode(Mode):
    """Like `no_grad`, without version counts and view tracking: tensors made inside never enter a graph."""

    def __new__(cls, mode: Any = True) -> Any:
        if callable(mode) and not isinstance(mode, bool):
            return super().__new__(cls)._with(True)(mode)
        return super().__new__(cls)

    def __init__(self, mode: Any = True) -> None:
        self.mode = bool(mode)

    def _with(self, mode: bool) -> inference_mode:
        self.mode = mode
        return self

    def clone(self) -> inference_mode:
        return inference_mode(self.mode)

    def __enter__(self) -> None:
        self.old = (_state.set_inference(self.mode), _state.set_grad_enabled(not self.mode))

    def __exit__(self, *error: Any) -> None:
        _state.set_inference(self.old[0])
        _state.set_grad_enabled(self.old[1])


_multithreading = [True]


def is_multithreading_enabled() -> bool:
    """What set_multithreading_enabled was last given."""
    return _multithreading[0]


class set_multithreading_enabled(Mode):
    """Accepted for PyTorch's programs: a backward always runs in the thread that calls it."""

    def __init__(self, mode: bool) -> None:
        self.old, self.mode = _multithreading[0], bool(mode)
        _multithreading[0] = self.mode

    def clone(self) -> set_multithreading_enabled:
        return set_multithreading_enabled(self.mode)

    def __enter__(self) -> None:
        _multithreading[0] = self.mode

    def __exit__(self, *error: Any) -> None:
        _multithreading[0] = self.old
