"""Choice between the compiled and the interpreted engine.

A build with a C compiler leaves an extension module beside each source file of `flambeau.core` and beside
`_functional.py`, `_functions.py`, `_hot.py` and `_methods.py` under `flambeau/tensor`; Python imports the extension. With
FLAMBEAU_PURE=1 in the environment when flambeau is first imported, a finder placed before Python's own loads the
.py files instead, so that a debugger can step in.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Sequence
from types import ModuleType

_CORE = __package__ + ".core"
_FRONTS = tuple(f"{__package__}.tensor.{name}" for name in ("_functional", "_functions", "_hot", "_methods"))


def _is_engine(name: str) -> bool:
    """Whether `name` is a module that the build compiles."""
    return name.startswith(_CORE + ".") or name in _FRONTS


class _SourceFinder:
    """Finds the engine's modules as .py files, whether or not an extension module lies beside them."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if path is None or not _is_engine(name):
            return None
        for folder in path:
            file = os.path.join(folder, name.rpartition(".")[2] + ".py")
            if os.path.exists(file):
                return importlib.util.spec_from_file_location(name, file)
        return None


def pure_requested() -> bool:
    """Whether the environment asks for the interpreted engine (FLAMBEAU_PURE set, and not to 0)."""
    return os.environ.get("FLAMBEAU_PURE", "0") not in ("", "0")


def install() -> None:
    """Put the finder in place if FLAMBEAU_PURE asks for it; call before any engine module is imported."""
    if pure_requested() and _SourceFinder not in sys.meta_path:
        sys.meta_path.insert(0, _SourceFinder)


def is_compiled() -> bool:
    """Whether the engine that is loaded consists of compiled extension modules.

    Returns:
        True if the modules of `flambeau.core` came from extension modules, False if from .py files.
    """
    suffixes = tuple(importlib.machinery.EXTENSION_SUFFIXES)
    specs = [getattr(module, "__spec__", None) for name, module in sys.modules.items() if _is_engine(name)]
    return any(spec is not None and (spec.origin or "").endswith(suffixes) for spec in specs)


def _is_installed() -> bool:
    """Whether the package was unpacked from a wheel, whose description then lies beside it; a checkout's does not."""
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return any(n.startswith(f"{__package__}-") and n.endswith(".dist-info") for n in os.listdir(folder))


def stale_modules() -> list[str]:
    """Names of compiled engine modules whose .py file has changed since: what runs is not what one reads."""
    suffixes = tuple(importlib.machinery.EXTENSION_SUFFIXES)
    # the modules beside the sources only point into one library, which alone is linked again when a source has changed
    library = getattr(sys.modules.get(__package__ + "__mypyc"), "__file__", None)
    linked = os.path.getmtime(library) if library is not None else 0.0
    slack = 60.0 if _is_installed() else 0.0        # an installer dates files by the moment when it unpacks each
    stale = []
    for name, module in sorted(sys.modules.items()):
        origin = getattr(getattr(module, "__spec__", None), "origin", None) or ""
        if not (_is_engine(name) and origin.endswith(suffixes)):
            continue
        source = os.path.join(os.path.dirname(origin), name.rpartition(".")[2] + ".py")
        if os.path.exists(source) and os.path.getmtime(source) > max(os.path.getmtime(origin), linked) + slack:
            stale.append(name)
    return stale
