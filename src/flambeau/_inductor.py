"""Names that programs take from PyTorch's code generator: settings are kept, and not used. See `torch.compile`."""

from __future__ import annotations

import types

from ._unavailable import missing

config = types.SimpleNamespace(triton=types.SimpleNamespace(), cpp=types.SimpleNamespace())


def cudagraph_mark_step_begin() -> None:
    """Nothing: there are no CUDA graphs."""


globals().update(missing(__name__, "compile aoti_compile_and_package aoti_load_package",
                         "nothing is compiled yet: call the function as it is."))
