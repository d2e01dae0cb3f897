"""The public Tensor: its methods come from the operator records."""

from __future__ import annotations

from ._tensor import Tensor

__all__ = ["Tensor"]
