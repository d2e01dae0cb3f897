"""`torch.cuda.amp`: the older names of `torch.amp` for CUDA devices. Without one both classes switch themselves off."""

from __future__ import annotations

from typing import Any

from flambeau import amp as _amp
from flambeau.core.origin import warn_user

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


def _renamed(name: str) -> None:
    warn_user(f"`torch.cuda.amp.{name}(args...)` is deprecated. Please use `torch.amp.{name}('cuda', args...)` instead.",
              FutureWarning)


class autocast(_amp.autocast):
    """`torch.amp.autocast("cuda")`: off, with a warning, since there is no CUDA device."""

    def __init__(self, enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> None:
        _renamed("autocast")
        super().__init__("cuda", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(_amp.GradScaler):
    """`torch.amp.GradScaler("cuda")`: off, with a warning, since there is no CUDA device."""

    def __init__(self, init_scale: float = 65536.0, growth_factor: float = 2.0, backoff_factor: float = 0.5,
                 growth_interval: int = 2000, enabled: bool = True) -> None:
        _renamed("GradScaler")
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)


def custom_fwd(fwd: Any = None, *, cast_inputs: Any = None) -> Any:
    """`torch.amp.custom_fwd` for CUDA devices."""
    return _amp.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd: Any) -> Any:
    """`torch.amp.custom_bwd` for CUDA devices."""
    return _amp.custom_bwd(bwd, device_type="cuda")
