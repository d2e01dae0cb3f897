"""Makes `import torch` give flambeau: one finder, placed before Python's own.

`torch.nn` is then not a copy of `flambeau.nn` but the same module object under a second name, so that
classes, `isinstance` and module state agree however a script imports them. To libraries that look, the package
answers as `torch` does: by its `__name__`, and by its version in `importlib.metadata`.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterable, Sequence
from importlib import metadata
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from flambeau import _loading

ALIASES = {"torch": "flambeau", "torchviz": "flambeau.interop.torchviz"}
MODULES = {"safetensors.torch": "flambeau.serialization.safetensors"}     # single modules of other packages


def real_name(name: str) -> str | None:
    """The flambeau module that `name` stands for, None if `name` is not an aliased one."""
    if name in MODULES:
        return MODULES[name]
    top, dot, rest = name.partition(".")
    return ALIASES[top] + dot + rest if top in ALIASES else None


class _ExistingModule:
    """Loader that gives an already imported module a second name."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def create_module(self, spec: ModuleSpec) -> None:
        """An ordinary empty module, dropped again below: the existing one must keep its own `__spec__`."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        name = module.__spec__.name
        if name == "torch":
            self._module.__name__ = name       # libraries tell array packages apart by it
        sys.modules[name] = self._module  # the import system hands out what lies here


class _Metadata(metadata.Distribution):
    """What `importlib.metadata` says of torch: the version that `torch.__version__` gives, also if PyTorch is installed."""

    def read_text(self, filename: str) -> str | None:
        if filename == "METADATA":
            return f"Metadata-Version: 2.1\nName: torch\nVersion: {importlib.import_module('flambeau').__version__}\n"
        return "torch\n" if filename == "top_level.txt" else None

    def locate_file(self, path: Any) -> Path:
        """Where a file of the distribution lies, if it has one: beside the package."""
        return Path(__file__).parents[2] / path


class TorchFinder:
    """Meta-path finder for the names in ALIASES and everything below them, and for those in MODULES."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        real = real_name(name)
        if real is None:
            return None
        if not _exists(real):
            if name.startswith("torch."):
                _loading.explain(real, sys._getframe(1))
            # importlib.util.find_spec() asks whether a module exists and must hear None; an import must fail
            # with a message of ours. Only the frame that asks tells them apart.
            if sys._getframe(2).f_code.co_name == "find_spec":
                return None
            raise ModuleNotFoundError(
                f"No module named {name!r}: this script runs on flambeau, which has no module {real!r}.",
                name=name,
            )
        module = importlib.import_module(real)
        return ModuleSpec(name, _ExistingModule(module), is_package=hasattr(module, "__path__"))  # type: ignore[arg-type]

    @staticmethod
    def find_distributions(context: Any = None) -> Iterable[metadata.Distribution]:
        """For `importlib.metadata`: torch, when it or everything is asked for."""
        name = None if context is None else context.name
        return [_Metadata()] if name is None or name.lower() == "torch" else []


def _exists(name: str) -> bool:
    """Whether a module can be imported, without importing it; its parents are imported."""
    if name in sys.modules:
        return True
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            return False
        raise


class _InstallOnArrival:
    """Travels to a child process with its start-up data; unpickling it installs the alias there."""

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        return install, ()


def install() -> None:
    """Alias `torch` in this process and in those that multiprocessing starts from it.

    Raises:
        RuntimeError: PyTorch itself has been imported already.
    """
    if TorchFinder in sys.meta_path:
        return
    if "torch" in sys.modules:
        raise RuntimeError("PyTorch is imported already: in this process `torch` cannot stand for flambeau.")
    sys.meta_path.insert(0, TorchFinder)  # type: ignore[arg-type]
    _reach_children()


def _reach_children() -> None:
    """Children that do not fork import the main script afresh: they must have the alias before they do."""
    from multiprocessing import spawn

    original = spawn.get_preparation_data

    def get_preparation_data(name: str) -> dict[str, Any]:
        data: dict[str, Any] = original(name)
        if name == "ignore":
            # multiprocessing's fork server, which would import the main script ahead of its children, is
            # started from a command line: no object can be sent to it. Without these keys it leaves the
            # import to them.
            data.pop("main_path", None)
            data.pop("init_main_from_path", None)
        else:
            # unpickled before anything of the script is imported
            data = {"flambeau_alias": _InstallOnArrival(), **data}
        return data

    spawn.get_preparation_data = get_preparation_data
