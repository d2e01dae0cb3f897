"""`torch.xpu`: Intel's GPU, which flambeau does not use. Questions are answered; what needs the device raises."""

from __future__ import annotations

from typing import Any

from ._unavailable import refusal
from .core.dtype import DeviceError


def is_available() -> bool:
    """False: flambeau computes on the CPU."""
    return False


def device_count() -> int:
    """0: flambeau computes on the CPU."""
    return 0


def is_initialized() -> bool:
    """False: there is nothing to initialise."""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """False: there is no such device."""
    return False


def manual_seed(seed: int) -> None:
    """Nothing: `flambeau.manual_seed` seeds the CPU's stream, the only one."""


def manual_seed_all(seed: int) -> None:
    """Nothing: `flambeau.manual_seed` seeds the CPU's stream, the only one."""


def empty_cache() -> None:
    """Nothing: there is no device memory."""


def _needs_device(name: str) -> Any:
    def function(*args: Any, **kwargs: Any) -> Any:
        raise DeviceError(f"torch.xpu.{name}(): Torch not compiled with XPU enabled: flambeau computes on the CPU. Call it "
                          "only `if torch.xpu.is_available()`.")

    function.__name__ = function.__qualname__ = name
    return function


for _name in ("synchronize", "current_device", "set_device", "get_device_name", "get_device_properties",
              "get_device_capability", "get_rng_state", "set_rng_state", "current_stream", "memory_allocated",
              "max_memory_allocated", "reset_peak_memory_stats", "init", "device", "stream"):
    globals()[_name] = _needs_device(_name)
_unknown = refusal(__name__, "flambeau computes on the CPU.")


def __getattr__(name: str) -> Any:
    return _unknown(name)
