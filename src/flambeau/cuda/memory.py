"""`torch.cuda.memory`: the memory functions of `torch.cuda`."""

from __future__ import annotations

from typing import Any

from flambeau import cuda as _cuda
from flambeau._unavailable import refusal

_NAMES = tuple(n for n in dir(_cuda) if "memory" in n or n in ("empty_cache", "mem_get_info"))
globals().update({n: getattr(_cuda, n) for n in _NAMES if n != "memory"})
_unknown = refusal(__name__, "there is no device memory here. To measure the CPU's, use tracemalloc or resource.getrusage.")


def __getattr__(name: str) -> Any:
    return _unknown(name)
