"""`import flambeau` costs next to nothing: the engine and the operators load when they are first needed.

The first attribute of the package, or the import of any of its submodules, loads the base (`_namespace`).
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from types import FrameType, ModuleType
from typing import Any

_PACKAGE = __package__ or "flambeau"
_BASE = _PACKAGE + "._namespace"
_BEFORE = (_PACKAGE + "._version", _PACKAGE + ".torch_version", _PACKAGE + "._pure", _PACKAGE + "._loading", _BASE)


class _BaseFirst:
    """Loads the base before the first submodule, then steps out of the way."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:
        if name.startswith(_PACKAGE + ".") and name not in _BEFORE:
            load()


class _Explained:
    """The last finder: `from flambeau import nope` says what the AttributeError of `flambeau.nope` says.

    The import statement drops that error and raises its own, which names the package's file and no more.
    """

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:
        if name.partition(".")[0] == _PACKAGE:
            explain(name, sys._getframe(1))


def explain(name: str, importing: FrameType) -> None:
    """Raise ImportError for a name that a `from` import asks a module of the package for and that is not there."""
    module, _, last = name.rpartition(".")
    if module not in sys.modules or not _in_from_import(importing):
        return
    try:
        getattr(sys.modules[module], last)
    except AttributeError as error:
        raise ImportError(f"cannot import name '{last}' from '{module}': {error}", name=module) from None


def _in_from_import(frame: FrameType | None) -> bool:
    """Whether the import system looks for a name in the list of a `from` import."""
    while frame is not None and "importlib" in frame.f_code.co_filename:
        if frame.f_code.co_name == "_handle_fromlist":
            return True
        frame = frame.f_back
    return False


def install() -> None:
    """Wait for the first use."""
    sys.meta_path.insert(0, _BaseFirst)  # type: ignore[arg-type]
    sys.meta_path.append(_Explained)  # type: ignore[arg-type]


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
