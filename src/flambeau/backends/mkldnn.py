"""`torch.backends.mkldnn`: the library oneDNN, which flambeau does not use. Settings are kept and change nothing."""

from __future__ import annotations

import sys
from typing import Any

from . import _flags

VERBOSE_OFF, VERBOSE_ON, VERBOSE_ON_CREATION = 0, 1, 2
enabled = True
deterministic = False
allow_tf32 = True
fp32_precision = "none"


def is_available() -> bool:
    """False: the library is not used."""
    return False


def is_acl_available() -> bool:
    """False: the library is not used."""
    return False


def set_flags(_enabled: bool | None = None, _deterministic: bool | None = None, _allow_tf32: bool | None = None,
              _fp32_precision: str = "none") -> tuple:
    """Set several at once; returns the old values."""
    return _flags.set_flags(sys.modules[__name__], {"enabled": _enabled, "deterministic": _deterministic,
                                                    "allow_tf32": _allow_tf32, "fp32_precision": _fp32_precision})


def flags(enabled: bool = False, deterministic: bool = False, allow_tf32: bool = True, fp32_precision: str = "none") -> Any:
    """A block with these settings."""
    return _flags.flags(sys.modules[__name__], {"enabled": enabled, "deterministic": deterministic, "allow_tf32": allow_tf32,
                                                "fp32_precision": fp32_precision})


class verbose:
    """A block that prints the library's calls: there are none."""

    def __init__(self, level: int) -> None:
        self.level = level

    def __enter__(self) -> verbose:
        return self

    def __exit__(self, *error: Any) -> None:
        pass
