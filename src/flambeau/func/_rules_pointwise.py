"""Pointwise operators on batches: the samples are aligned from the right, the batch stays in front."""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.apply import apply1
from flambeau.core.objects import TensorBase, dtype_of
from flambeau.core.op import slot
from flambeau.core.state import state

from ._call import Call, rank

CAST = slot("cast")


def broadcast(call: Call) -> Any:
    """Align the samples' dimensions; the operator broadcasts."""
    n = max([rank(t) for t in call.inputs if isinstance(t, TensorBase)])
    return call.run(aligned(call, n), call.params)


def aligned(call: Call, n: int) -> list[Any]:
    """The inputs, ready to broadcast with a batch in front of n dimensions, in dtypes that meet as samples' do."""
    values = [call.aligned_to(t, n) for t in call.inputs]
    if call.op.promotes:
        for i, d in _met(call):
            values[i] = apply1(CAST, values[i], (d,))
    return values


def _met(call: Call) -> list[tuple[int, Any]]:
    """(number of the input, dtype) for the tensors that must be cast before they meet.

    A batched input may be a number to type promotion as a sample, and is no longer one with its batch.
    """
    tensors = [(i, t) for i, t in enumerate(call.inputs) if isinstance(t, TensorBase)]
    if len(tensors) != 2:
        return []
    (i, a), (j, b) = tensors
    if dtype_of(a) == dtype_of(b) or not any(rank(t) == 0 and call.is_batched(t) for t in (a, b)):
        return []
    ones = [np.ones((1,) * rank(t), dtype_of(t)) for t in (a, b)]
    x, y = state.promote(call.op, *ones, False, False)
    return [(k, d) for k, t, d in ((i, a, x.dtype), (j, b, y.dtype)) if dtype_of(t) != d]
