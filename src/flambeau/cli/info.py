"""`flambeau info`: what runs here, in one table that can be pasted into a bug report."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys

import numpy as np
from rich.console import Console
from rich.markup import escape

import flambeau
from flambeau import _pure

DEPENDENCIES = ("numpy", "scipy", "ml_dtypes", "safetensors", "rich")
OPTIONAL = ("llvmlite", "torch", "tensorboard", "onnx", "mpi4py", "matplotlib")


def version_of(package: str) -> str | None:
    """Installed version of a package, None if it is absent; the package is not imported."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def engine() -> str:
    """Whether the engine is compiled, and why not if it is known."""
    if not _pure.is_compiled():
        return "interpreted (FLAMBEAU_PURE is set)" if _pure.pure_requested() else "interpreted"
    stale = _pure.stale_modules()
    if stale:
        return f"compiled, but older than the source of {', '.join(stale)}: build it again with ./dev build"
    return "compiled"


def blas() -> str:
    """Name and version of the BLAS library that NumPy multiplies matrices with."""
    library = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    return f"{library.get('name', 'unknown')} {library.get('version', '')}".strip()


def cache_folder() -> str:
    """Where generated kernels are kept: FLAMBEAU_CACHE_DIR, or a folder in the user's cache."""
    chosen = os.environ.get("FLAMBEAU_CACHE_DIR")
    if chosen:
        return os.path.abspath(os.path.expanduser(chosen))
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA", os.path.expanduser(r"~\AppData\Local"))
    elif sys.platform == "darwin":
        base = os.path.expanduser("~/Library/Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(base, "flambeau")


def facts() -> list[tuple[str, str]]:
    """The rows of the table, name and value."""
    packages = [(name, version_of(name)) for name in OPTIONAL]
    return [
        ("flambeau", flambeau.version.flambeau),
        ("installed in", os.path.dirname(os.path.abspath(flambeau.__file__))),
        ("Python", f"{platform.python_version()} ({sys.executable})"),
        ("system", f"{platform.system()} {platform.release()}, {platform.machine()}"),
        *((name, version_of(name) or "missing") for name in DEPENDENCIES),
        ("optional", ", ".join(f"{name} {version}" for name, version in packages if version) or "none"),
        ("engine", engine()),
        ("kernels", f"NumPy reference, BLAS {blas()}"),
        ("threads", f"{flambeau.get_num_threads()} of {os.cpu_count()}"),
        ("cache folder", cache_folder()),
        ("default dtype", str(flambeau.get_default_dtype())),
    ]


def show(console: Console | None = None) -> None:
    """Print the table.

    Args:
        console: where to; None for standard output.
    """
    console = console or Console()
    rows = facts()
    width = max(len(name) for name, _ in rows)
    for name, value in rows:        # no table: its cells are padded, and wrapped where the terminal ends
        console.print(f"[bold]{name.ljust(width)}[/]  {escape(value)}", soft_wrap=True, highlight=False)
