"""`torch.nn.grad`: the gradients of convolutions in their input and their weight, as functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau

from . import functional as F

__all__ = [f"conv{n}d_{what}" for n in (1, 2, 3) for what in ("input", "weight")]  # noqa: PLE0605
