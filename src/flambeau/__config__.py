"""What flambeau computes with on this machine."""

from __future__ import annotations


def show() -> str:
    """Versions of flambeau and of the libraries it computes with, one a line.

    >>> flambeau.__config__.show().splitlines()[0].startswith("flambeau")
    True
    """
    import platform

    import numpy as np

    import flambeau

    from .backends.cpu import get_cpu_capability

    return "\n".join((
        f"flambeau {flambeau.version.flambeau}",
        f"  - Python {platform.python_version()}, NumPy {np.__version__}",
        f"  - CPU capability usage: {get_cpu_capability()}",
        "  - CUDA: not used",
    ))


def parallel_info() -> str:
    """How many threads kernels may use."""
    from ._switches import get_num_interop_threads, get_num_threads

    return f"get_num_threads() : {get_num_threads()}\nget_num_interop_threads() : {get_num_interop_threads()}\n"


def _cxx_flags() -> str:
    return ""
