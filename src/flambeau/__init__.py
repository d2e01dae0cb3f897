"""flambeau: dynamic-autograd deep learning with PyTorch's API and semantics."""

from __future__ import annotations

from . import _pure

_pure.install()  # before any module of the engine is imported

from ._version import __version__  # noqa: E402
from . import _namespace  # noqa: E402

globals().update(_namespace.public_names())

__getattr__ = _namespace.later

__all__ = ["__version__", *_namespace.public_names()]
