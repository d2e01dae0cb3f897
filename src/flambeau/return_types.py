"""Results with named fields, such as `torch.return_types.max`."""

from __future__ import annotations

from typing import Any

from .ops._return_types import return_types as _made


def __getattr__(name: str) -> Any:
    return getattr(_made, name)


def __dir__() -> list[str]:
    return dir(_made)
