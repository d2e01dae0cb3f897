"""What belongs to no layer: data loading, hook handles. Submodules are imported when first used."""

from __future__ import annotations

import importlib
from typing import Any

from flambeau._unavailable import no_attribute

_SUBMODULES = ("checkpoint", "data", "dlpack", "flop_counter", "hooks", "tensorboard")
_LATER = {
    "cpp_extension": "there is no C++ extension interface: write operators in Python, see "
                     "docs/adding-an-operator.md",
}

__all__ = ["data", "hooks"]


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        try:
            return importlib.import_module(f"{__name__}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{__name__}.{name}":
                raise
    why = _LATER.get(name)
    raise no_attribute(__name__, name, [*_SUBMODULES, *__all__], f"Instead: {why}." if why else "", planned=why is not None)
