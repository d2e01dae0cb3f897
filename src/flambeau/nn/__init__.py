"""Layers, containers, losses and what they need: `import flambeau.nn as nn`."""

from __future__ import annotations

import importlib
from typing import Any

from flambeau._unavailable import no_attribute

from . import functional, init, modules, parameter, utils
from .modules import *  # noqa: F403
from .modules import __all__ as _layers
from .parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

_INSTEAD = {
    "quantized": "quantisation is not supported: keep the floating-point layers.",
    "SyncBatchNorm": "there is one process: use BatchNorm1d, 2d or 3d.",
}

__all__ = ["Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter", "functional", "init", "modules",
           "parameter", "utils", *_layers]


def __getattr__(name: str) -> Any:
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
    instead = _INSTEAD.get(name)
    if instead is not None:
        raise no_attribute(__name__, name, (), "Instead: " + instead, planned=True)
    raise no_attribute(__name__, name, __all__, "Otherwise derive a Module with the operators that you need.")
