"""Mixed precision: `autocast` and `GradScaler`.

For a CUDA device, which is never here, both switch themselves off with a warning, as PyTorch does without one: programs
written for a GPU run in float32. On the CPU they compute in bfloat16 or float16 as PyTorch does.
"""

from __future__ import annotations

from .autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available
from .grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
