"""`torch.masked`: tensors with a mask of valid elements, which flambeau does not have."""

from __future__ import annotations

from typing import Any

from ._unavailable import missing, refusal

_WHERE = "keep the mask beside the tensor, and use torch.where(mask, x, 0) before sums, -inf before a softmax or a maximum."
globals().update(missing(__name__, "masked_tensor as_masked_tensor is_masked_tensor sum mean prod amax amin softmax "
                                   "log_softmax softmin normalize norm var std logsumexp MaskedTensor", _WHERE))
_unknown = refusal(__name__, _WHERE)


def __getattr__(name: str) -> Any:
    return _unknown(name)
