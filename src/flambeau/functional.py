"""`torch.functional`: functions of several operators, which are all in `torch`."""

from __future__ import annotations

from typing import Any

from flambeau._unavailable import no_attribute

_NAMES = ("align_tensors", "atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "broadcast_shapes", "broadcast_tensors",
          "cartesian_prod", "cdist", "chain_matmul", "einsum", "istft", "lu", "meshgrid", "norm", "split", "stft",
          "tensordot", "unique", "unique_consecutive", "unravel_index")


def __getattr__(name: str) -> Any:
    import flambeau

    if name not in _NAMES:
        raise no_attribute(__name__, name, _NAMES, "Look in torch and torch.nn.functional too.")
    return getattr(flambeau, name)
