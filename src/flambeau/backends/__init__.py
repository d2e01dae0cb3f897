"""`torch.backends`: settings of libraries that PyTorch computes with.

They may be set and read, so that programs written for PyTorch run. flambeau's kernels are deterministic and compute float32
in float32 whatever they say.
"""

from __future__ import annotations

import importlib
from typing import Any

from flambeau._unavailable import refusal

_SUBMODULES = ("cpu", "cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp", "opt_einsum", "quantized")
fp32_precision = "none"
_unknown = refusal(__name__, f"flambeau has {', '.join(_SUBMODULES)} there. Leave the setting out.")


def __getattr__(name: str) -> Any:
    return importlib.import_module(f"{__name__}.{name}") if name in _SUBMODULES else _unknown(name)
