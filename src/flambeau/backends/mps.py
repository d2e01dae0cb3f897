"""`torch.backends.mps`: Apple's GPU, which flambeau does not use."""

from __future__ import annotations


def is_built() -> bool:
    """False: flambeau computes on the CPU."""
    return False


def is_available() -> bool:
    """False: flambeau computes on the CPU."""
    return False


def is_macos13_or_newer(minor: int = 0) -> bool:
    """False: there is no such device."""
    return False


def is_macos_or_newer(major: int, minor: int) -> bool:
    """False: there is no such device."""
    return False
