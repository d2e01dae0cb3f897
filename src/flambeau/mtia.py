"""`torch.mtia`: an accelerator that is not there."""

from __future__ import annotations

from typing import Any

from ._unavailable import refusal


def is_available() -> bool:
    """False."""
    return False


def device_count() -> int:
    """0."""
    return 0


def is_initialized() -> bool:
    """False."""
    return False


def synchronize(device: Any = None) -> None:
    """Nothing: work is done when a call returns."""


_unknown = refusal(__name__, "flambeau computes on the CPU.")


def __getattr__(name: str) -> Any:
    return _unknown(name)
