"""Windows of signals: `torch.signal.windows`. Each function is an operator record under `ops`."""

from __future__ import annotations

from typing import Any

from flambeau._unavailable import no_attribute
from flambeau.ops import _assemble

globals().update(_assemble.functions("signal.windows"))

__all__ = sorted(_assemble.functions("signal.windows"))  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    raise no_attribute(__name__, name, __all__)
