"""Functions behind the layers: `import flambeau.nn.functional as F`. Each is an operator record under
`ops`."""

from __future__ import annotations

from typing import Any

from flambeau._unavailable import no_attribute
from flambeau.ops import _assemble
from flambeau.tensor._functional import FUNCTIONAL

globals().update(_assemble.functions("nn.functional"))
globals().update(FUNCTIONAL)      # the compiled functions win

__all__ = sorted(_assemble.functions("nn.functional"))  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    raise no_attribute(__name__, name, __all__,
                       "Write it from the operators in torch and torch.nn.functional: its gradient follows.")
