"""`torch.accelerator`: the machine's accelerator, which flambeau does not use. Questions are answered; the rest raises."""

from __future__ import annotations

from typing import Any

from ._unavailable import refusal


class AcceleratorError(RuntimeError):
    """An error of an accelerator; never raised here."""


class FatalError(RuntimeError):
    """An error after which an accelerator is lost; never raised here."""


def get_device_module(device: Any = None) -> Any:
    """`torch.cpu`; of another device's name, its module."""
    import importlib

    name = "cpu" if device is None else str(device).partition(":")[0]
    package = __name__.rpartition(".")[0]
    if name not in ("cpu", "cuda", "mps", "mtia", "xpu"):
        raise RuntimeError(f"Invalid value of device: {device!r} does not have a corresponding module registered as "
                           f"'torch.{name}'")
    return importlib.import_module(f"{package}.{name}")


def is_available() -> bool:
    """False: flambeau computes on the CPU."""
    return False


def current_accelerator(check_available: bool = False) -> None:
    """None: flambeau computes on the CPU."""


def device_count() -> int:
    """0: flambeau computes on the CPU."""
    return 0


def _needs_device(name: str) -> Any:
    def function(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"torch.accelerator.{name}(): Cannot access accelerator device when none is available: flambeau "
                           "computes on the CPU. Call it only `if torch.accelerator.is_available()`.")

    function.__name__ = function.__qualname__ = name
    return function


for _name in ("synchronize", "current_device_index", "current_device_idx", "set_device_index", "set_device_idx",
              "current_stream", "set_stream", "empty_cache", "memory_allocated", "max_memory_allocated", "memory_reserved",
              "max_memory_reserved", "memory_stats", "reset_peak_memory_stats", "reset_accumulated_memory_stats",
              "get_memory_info", "get_device_capability"):
    globals()[_name] = _needs_device(_name)


class device_index:
    """A block on the accelerator of a number; entering it with a number raises, as there is none."""

    def __init__(self, device: int | None) -> None:
        self.idx = device

    def __enter__(self) -> None:
        if self.idx is not None:
            _needs_device("device_index")()

    def __exit__(self, *error: Any) -> None:
        pass


_unknown = refusal(__name__, "flambeau computes on the CPU.")


def __getattr__(name: str) -> Any:
    return _unknown(name)
