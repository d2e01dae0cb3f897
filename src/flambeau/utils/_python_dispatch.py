"""`torch.utils._python_dispatch`: programs below autograd."""

from __future__ import annotations

from flambeau._unavailable import missing

globals().update(missing(
    __name__, "TorchDispatchMode BaseTorchDispatchMode transform_subclass return_and_correct_aliasing",
    "operators cannot be replaced below autograd. torch.overrides.TorchFunctionMode sees functions; "
    "flambeau.core.interception sees operators."))
