"""`torch.distributed.tensor`: tensors spread over processes, which flambeau does not have.

The classes can be named, and `isinstance(t, DTensor)` is False: libraries ask that of every parameter.
"""

from __future__ import annotations

from typing import Any

from flambeau._unavailable import missing, refusal

_OWN = "keep whole tensors in each process, and average gradients with DistributedDataParallel or all_reduce."
globals().update(missing(__name__, "DTensor DeviceMesh Placement Shard Replicate Partial distribute_tensor "
                                   "distribute_module", _OWN))
_unknown = refusal(__name__, _OWN)


def __getattr__(name: str) -> Any:
    return _unknown(name)
