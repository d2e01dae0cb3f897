"""`torch.backends.cuda`: settings for CUDA devices, of which there are none. They are kept and change nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

__all__ = ["SDPAParams", "allow_fp16_bf16_reduction_math_sdp", "can_use_efficient_attention", "can_use_flash_attention",
           "cudnn_sdp_enabled", "enable_cudnn_sdp", "enable_flash_sdp", "enable_math_sdp", "enable_mem_efficient_sdp",
           "flash_sdp_enabled", "is_built", "is_flash_attention_available", "math_sdp_enabled", "matmul",
           "mem_efficient_sdp_enabled", "preferred_linalg_library", "sdp_kernel"]


def is_built() -> bool:
    """False: flambeau computes on the CPU."""
    return False


class _Matmul:
    """Precision of products on a CUDA device."""

    _NAMES = ("allow_tf32", "allow_fp16_reduced_precision_reduction", "allow_bf16_reduced_precision_reduction",
              "allow_fp16_accumulation", "fp32_precision")

    def __init__(self) -> None:
        self.allow_tf32 = False
        self.allow_fp16_reduced_precision_reduction = True
        self.allow_bf16_reduced_precision_reduction = True
        self.allow_fp16_accumulation = False
        self.fp32_precision = "none"

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._NAMES:
            raise AttributeError(f"Unknown attribute {name}: torch.backends.cuda.matmul has {', '.join(self._NAMES)}")
        object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"Unknown attribute {name}: torch.backends.cuda.matmul has {', '.join(self._NAMES)}")


matmul = _Matmul()
_attention = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True}


def flash_sdp_enabled() -> bool:
    """What enable_flash_sdp set."""
    return _attention["flash"]


def enable_flash_sdp(enabled: bool) -> None:
    """Kept; attention has one way of being computed here."""
    _attention["flash"] = bool(enabled)


def mem_efficient_sdp_enabled() -> bool:
    """What enable_mem_efficient_sdp set."""
    return _attention["mem_efficient"]


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Kept; attention has one way of being computed here."""
    _attention["mem_efficient"] = bool(enabled)


def math_sdp_enabled() -> bool:
    """What enable_math_sdp set."""
    return _attention["math"]


def enable_math_sdp(enabled: bool) -> None:
    """Kept; attention has one way of being computed here."""
    _attention["math"] = bool(enabled)


def cudnn_sdp_enabled() -> bool:
    """What enable_cudnn_sdp set."""
    return _attention["cudnn"]


def enable_cudnn_sdp(enabled: bool) -> None:
    """Kept; attention has one way of being computed here."""
    _attention["cudnn"] = bool(enabled)


@contextlib.contextmanager
def sdp_kernel(enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True,
               enable_cudnn: bool = True) -> Iterator[None]:
    """A block with these settings."""
    old = dict(_attention)
    _attention.update(flash=enable_flash, math=enable_math, mem_efficient=enable_mem_efficient, cudnn=enable_cudnn)
    try:
        yield
    finally:
        _attention.update(old)


def is_flash_attention_available() -> bool:
    """False: there is no CUDA device."""
    return False


def can_use_flash_attention(params: Any = None, debug: bool = False) -> bool:
    """False: there is no CUDA device."""
    return False


def can_use_efficient_attention(params: Any = None, debug: bool = False) -> bool:
    """False: there is no CUDA device."""
    return False


def allow_fp16_bf16_reduction_math_sdp(enabled: bool) -> None:
    """Accepted; sums of float16 and bfloat16 are computed in float32 here."""


def preferred_linalg_library(backend: str | None = None) -> str:
    """ "default": decompositions are LAPACK's."""
    return "default"


class SDPAParams:
    """What an attention call is asked about; kept for programs that name it."""

    def __init__(self, *args: Any) -> None:
        self.args = args
