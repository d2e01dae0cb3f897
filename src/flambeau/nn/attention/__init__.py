"""Which implementation `scaled_dot_product_attention` may use. There is one here: choices are kept and change nothing."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from enum import IntEnum
from typing import Any

from flambeau._unavailable import missing

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


class SDPAParams:
    """The arguments of attention, as PyTorch's questions about its implementations take them."""

    def __init__(self, query: Any, key: Any, value: Any, attn_mask: Any, dropout: float, is_causal: bool,
                 enable_gqa: bool) -> None:
        self.query, self.key, self.value, self.attn_mask = query, key, value, attn_mask
        self.dropout, self.is_causal, self.enable_gqa = dropout, is_causal, enable_gqa


def can_use_flash_attention(params: Any, debug: bool = False) -> bool:
    """False: there is one implementation, MATH."""
    return False


can_use_efficient_attention = can_use_flash_attention


def list_flash_attention_impls() -> list[str]:
    """[]: none but the one there is."""
    return []


def current_flash_attention_impl() -> str | None:
    """None."""
    return None


globals().update(missing(__name__, "register_flash_attention_impl activate_flash_attention_impl "
                                   "restore_flash_attention_impl",
                         "attention has one implementation. Leave it out: results are the same."))


def __getattr__(name: str) -> Any:
    text = f"module '{__name__}' has no attribute '{name}'"
    if name in ("bias", "flex_attention"):
        return importlib.import_module(f"{__name__}.{name}")
    if name in ("varlen", "experimental"):
        text += ": flambeau has no such attention. Use nn.functional.scaled_dot_product_attention with attn_mask."
    raise AttributeError(text)
