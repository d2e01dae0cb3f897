"""Functions behind the layers: `import flambeau.nn.functional as F`. Each is an operator record under
`ops`."""

from __future__ import annotations

import importlib
from typing import Any

from flambeau._unavailable import missing, no_attribute
from flambeau.ops import _assemble
from flambeau.overrides import (
    handle_torch_function,
    has_torch_function,
    has_torch_function_unary,
    has_torch_function_variadic,
)
from flambeau.tensor import Tensor
from flambeau.tensor._functional import FUNCTIONAL

globals().update(_assemble.functions("nn.functional"))
globals().update(FUNCTIONAL)      # the compiled functions win

globals().update(missing(__name__, "grouped_mm scaled_mm scaled_grouped_mm ScalingType SwizzleType",
                         "it multiplies 8-bit floating or grouped matrices on accelerators. Use torch.bmm, or @ in a loop."))

GRID_SAMPLE_INTERPOLATION_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
GRID_SAMPLE_PADDING_MODES = {"zeros": 0, "border": 1, "reflection": 2}
_PROTOCOL = (Tensor, handle_torch_function, has_torch_function, has_torch_function_unary, has_torch_function_variadic)

__all__ = sorted(_assemble.functions("nn.functional"))  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name == "grad":
        return importlib.import_module("flambeau.nn.grad")
    raise no_attribute(__name__, name, __all__,
                       "Write it from the operators in torch and torch.nn.functional: its gradient follows.")
