"""What a bug report should say about the machine: `python -m flambeau.utils.collect_env`."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from typing import NamedTuple

_PACKAGES = ("numpy", "scipy", "llvmlite", "ml_dtypes", "mypy_extensions", "rich", "safetensors")


class SystemEnv(NamedTuple):
    """Facts of the system."""

    torch_version: str
    python_version: str
    os: str
    cpu_info: str
    engine: str
    pip_packages: str


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def get_env_info() -> SystemEnv:
    """The facts."""
    import flambeau
    from flambeau.core import state

    compiled = not str(getattr(state, "__file__", "")).endswith(".py")
    return SystemEnv(f"flambeau {flambeau.__version__}", sys.version.replace("\n", " "), platform.platform(),
                     f"{platform.processor() or platform.machine()}, {os.cpu_count()} CPUs",
                     "compiled" if compiled else "interpreted",
                     "\n".join(f"{p}=={_version(p)}" for p in _PACKAGES))


def pretty_str(envinfo: SystemEnv) -> str:
    """The facts as text."""
    return "\n".join(f"{name.replace('_', ' ')}: {value}" for name, value in envinfo._asdict().items())


def get_pretty_env_info() -> str:
    """The facts of this system as text."""
    return pretty_str(get_env_info())


def main() -> None:
    """Print them."""
    print("Collecting environment information...")
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
