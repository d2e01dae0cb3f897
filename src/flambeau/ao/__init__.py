"""`torch.ao`: quantisation and pruning. `torch.ao.quantization` is `torch.quantization`."""

from __future__ import annotations

import sys
from typing import Any

from flambeau import quantization
from flambeau._unavailable import refusal

sys.modules[__name__ + ".quantization"] = quantization
_unknown = refusal(__name__, "flambeau computes with floating-point numbers: keep the model as it is.")


def __getattr__(name: str) -> Any:
    return _unknown(name)
