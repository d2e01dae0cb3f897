"""The version, and the devices that this build was made for: none but the CPU."""

from __future__ import annotations

from ._version import __version__ as flambeau
from .torch_version import __version__ as _api_version

__version__ = str(_api_version)

__all__ = ["__version__", "cuda", "debug", "flambeau", "git_version", "hip", "xpu"]

debug = False
cuda: str | None = None
hip: str | None = None
xpu: str | None = None
rocm: str | None = None
git_version = "Unknown"
