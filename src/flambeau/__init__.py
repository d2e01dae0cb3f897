"""flambeau: dynamic-autograd deep learning with PyTorch's API and semantics."""

from __future__ import annotations

from . import _loading, _pure
from .torch_version import __version__ as __version__

_pure.install()  # before any module of the engine is imported
_loading.install()

__getattr__ = _loading.attribute
__dir__ = _loading.names
