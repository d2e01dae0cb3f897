"""`torch.nested`: batches of tensors of different sizes, which flambeau does not have."""

from __future__ import annotations

from typing import Any

from ._unavailable import missing, refusal

_PAD = "pad to one size (nn.functional.pad, or zeros and assignment) and mask, or loop over the tensors."
globals().update(missing(__name__, "nested_tensor as_nested_tensor nested_tensor_from_jagged to_padded_tensor narrow "
                                   "masked_select", _PAD))
_unknown = refusal(__name__, _PAD)


def __getattr__(name: str) -> Any:
    return _unknown(name)
