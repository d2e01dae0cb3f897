"""`torch.mps`: Apple's GPU, which flambeau does not use. Questions are answered; what needs the device raises."""

from __future__ import annotations

from typing import Any

from ._unavailable import refusal


def is_available() -> bool:
    """False: flambeau computes on the CPU."""
    return False


def device_count() -> int:
    """0: flambeau computes on the CPU."""
    return 0


def manual_seed(seed: int) -> None:
    """Nothing: `flambeau.manual_seed` seeds the CPU's stream, the only one."""


def seed() -> None:
    """Nothing, as there is no device."""


def _needs_device(name: str) -> Any:
    def function(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"Cannot execute {name}() without MPS backend: flambeau computes on the CPU. Call "
                           f"torch.mps.{name} only `if torch.backends.mps.is_available()`.")

    function.__name__ = function.__qualname__ = name
    return function


for _name in ("synchronize", "empty_cache", "current_allocated_memory", "driver_allocated_memory", "recommended_max_memory",
              "set_per_process_memory_fraction", "get_rng_state", "set_rng_state"):
    globals()[_name] = _needs_device(_name)
_unknown = refusal(__name__, "flambeau computes on the CPU.")


def __getattr__(name: str) -> Any:
    return _unknown(name)
