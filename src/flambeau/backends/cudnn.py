"""`torch.backends.cudnn`: settings of NVIDIA's library, which is not used here. They are kept and change nothing."""

from __future__ import annotations

import sys
from typing import Any

from . import _flags

enabled = True
benchmark = False
benchmark_limit: int | None = None
deterministic = False
allow_tf32 = True
fp32_precision = "none"


def is_available() -> bool:
    """False: there is no CUDA device."""
    return False


def version() -> int | None:
    """None: the library is not there."""
    return None


def is_acceptable(tensor: Any) -> bool:
    """False: tensors are on the CPU."""
    return False


def set_flags(_enabled: bool | None = None, _benchmark: bool | None = None, _benchmark_limit: int | None = None,
              _deterministic: bool | None = None, _allow_tf32: bool | None = None, _fp32_precision: str = "none") -> tuple:
    """Set several at once; returns the old values."""
    return _flags.set_flags(sys.modules[__name__], {
        "enabled": _enabled, "benchmark": _benchmark, "benchmark_limit": _benchmark_limit, "deterministic": _deterministic,
        "allow_tf32": _allow_tf32, "fp32_precision": _fp32_precision})


def flags(enabled: bool = False, benchmark: bool = False, benchmark_limit: int = 10, deterministic: bool = False,
          allow_tf32: bool = True, fp32_precision: str = "none") -> Any:
    """A block with these settings."""
    return _flags.flags(sys.modules[__name__], {
        "enabled": enabled, "benchmark": benchmark, "benchmark_limit": benchmark_limit, "deterministic": deterministic,
        "allow_tf32": allow_tf32, "fp32_precision": fp32_precision})
