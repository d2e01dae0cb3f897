"""Layers, containers, losses and what they need: `import flambeau.nn as nn`."""

from __future__ import annotations

import importlib
from typing import Any

from flambeau._unavailable import missing, missing_module, no_attribute

from . import functional, init, modules, parameter, utils
from .modules import *  # noqa: F403
from .modules import __all__ as _layers
from .parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

_QUANTISED = {name: missing_module(__name__, name, "there are no quantised layers: keep the floating-point ones.")
              for name in ("intrinsic", "qat", "quantizable", "quantized")}
globals().update(missing(__name__, "Container", "use ModuleList, ModuleDict or a Module of your own."))

__all__ = ["Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter", "factory_kwargs", "functional", "init",
           "modules", "parameter", "utils", *_layers]


def factory_kwargs(kwargs: dict[str, Any] | None) -> dict[str, Any]:
    """The `device`, `dtype` and `memory_format` among a layer's keyword arguments, ready for a factory function.

    Raises:
        TypeError: other arguments, or one given twice.
    """
    found = dict((kwargs or {}).get("factory_kwargs", {}))
    for name, value in (kwargs or {}).items():
        if name == "factory_kwargs":
            continue
        if name not in ("device", "dtype", "memory_format"):
            raise TypeError(f"unexpected kwargs {{{name!r}}}")
        if name in found:
            raise TypeError(f"{name} specified twice, in **kwargs and in factory_kwargs")
        found[name] = value
    return found


def __getattr__(name: str) -> Any:
    if name in _QUANTISED:
        return _QUANTISED[name]
    if name.startswith("_") and hasattr(modules, name):
        return getattr(modules, name)
    if name == "DataParallel":
        return importlib.import_module(f"{__name__}.parallel").DataParallel
    if not name.startswith("_"):
        try:
            return importlib.import_module(f"{__name__}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{__name__}.{name}":
                raise
    raise no_attribute(__name__, name, __all__, "Otherwise derive a Module with the operators that you need.")
