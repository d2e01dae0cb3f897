"""`torch.cpu`: the CPU as a device like any other, for programs that choose `torch.cuda` or `torch.cpu` by name."""

from __future__ import annotations

import importlib
from typing import Any


def is_available() -> bool:
    """True."""
    return True


def is_initialized() -> bool:
    """True."""
    return True


def device_count() -> int:
    """1."""
    return 1


def current_device() -> str:
    """ "cpu"."""
    return "cpu"


def set_device(device: Any) -> None:
    """Nothing: there is one CPU."""


def synchronize(device: Any = None) -> None:
    """Nothing: operators have finished when they return."""


class Stream:
    """Work in order: what the CPU does anyway."""

    def __init__(self, priority: int = -1) -> None:
        self.priority = priority

    def wait_stream(self, stream: Any) -> None:
        """Nothing: there is nothing to wait for."""

    def record_event(self) -> None:
        """Nothing: there is nothing to wait for."""

    def wait_event(self, event: Any) -> None:
        """Nothing: there is nothing to wait for."""


class Event:
    """A mark in a stream: reached as soon as it is set."""

    def query(self) -> bool:
        """True."""
        return True

    def record(self, stream: Any = None) -> None:
        """Nothing: there is nothing to wait for."""

    def synchronize(self) -> None:
        """Nothing: there is nothing to wait for."""

    def wait(self, stream: Any = None) -> None:
        """Nothing: there is nothing to wait for."""


_stream = Stream()


def current_stream(device: Any = None) -> Stream:
    """The only stream."""
    return _stream


class StreamContext:
    """A block in a stream."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        pass


def stream(stream: Any) -> StreamContext:
    """A block in a stream: nothing changes."""
    return StreamContext(stream)


def __getattr__(name: str) -> Any:
    if name == "amp":
        return importlib.import_module(f"{__name__}.amp")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
