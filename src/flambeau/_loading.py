"""`import flambeau` costs next to nothing: the engine and the operators load when they are first needed.

The first attribute of the package, or the import of any of its submodules, loads the base (`_namespace`).
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

_PACKAGE = __package__ or "flambeau"
_BASE = _PACKAGE + "._namespace"
_BEFORE = (_PACKAGE + "._version", _PACKAGE + "._pure", _PACKAGE + "._loading", _BASE)


class _BaseFirst:
    """Loads the base before the first submodule, then steps out of the way."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:
        if name.startswith(_PACKAGE + ".") and name not in _BEFORE:
            load()


def install() -> None:
    """Wait for the first use."""
    sys.meta_path.insert(0, _BaseFirst)  # type: ignore[arg-type]


def load() -> None:
    """Load the base and put its names into the package; once."""
    if _BaseFirst in sys.meta_path:
        sys.meta_path.remove(_BaseFirst)  # type: ignore[arg-type]
        names = importlib.import_module(_BASE).public_names()
        package = sys.modules[_PACKAGE]
        package.__dict__.update(names)           # `tensor` is the function, not the subpackage
        package.__dict__["torch"] = package      # as torch.torch is torch


def attribute(name: str) -> Any:
    """`flambeau.name`, when it is not there yet."""
    if name.startswith("__") and name not in ("__all__", "__config__"):
        raise AttributeError(f"module '{_PACKAGE}' has no attribute '{name}'")
    load()
    base = sys.modules[_BASE]
    if name == "__all__":
        return ["__version__", *base.public_names()]
    found = sys.modules[_PACKAGE].__dict__
    return found[name] if name in found else base.later(name)


def names() -> list[str]:
    """What `dir(flambeau)` shows."""
    load()
    base = sys.modules[_BASE]
    return sorted({*sys.modules[_PACKAGE].__dict__, *base.public_names(), *base.SUBMODULES, *base.LATER})
