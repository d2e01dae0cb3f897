"""Which implementation `scaled_dot_product_attention` may use. There is one here: choices are kept and change nothing."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from enum import IntEnum
from typing import Any

__all__ = ["SDPBackend", "WARN_FOR_UNFUSED_KERNELS", "sdpa_kernel"]

WARN_FOR_UNFUSED_KERNELS = False


class SDPBackend(IntEnum):
    """The implementations that PyTorch has; flambeau's is MATH."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextlib.contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[None]:
    """Inside the block attention may use these implementations only; results are the same with all of them.

    >>> with sdpa_kernel(SDPBackend.MATH):
    ...     pass
    """
    chosen = [backends] if isinstance(backends, SDPBackend) else backends
    if not isinstance(chosen, list) or not all(isinstance(b, SDPBackend) for b in chosen):
        raise AssertionError(f"Backend must be an instance of SDPBackend or a list of them, and is {backends!r}")
    yield


def __getattr__(name: str) -> Any:
    text = f"module '{__name__}' has no attribute '{name}'"
    if name in ("bias", "flex_attention"):
        return importlib.import_module(f"{__name__}.{name}")
    if name in ("varlen", "experimental"):
        text += ": flambeau has no such attention. Use nn.functional.scaled_dot_product_attention with attn_mask."
    raise AttributeError(text)
