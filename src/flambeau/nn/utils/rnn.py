"""Sequences of different lengths."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau.tensor import Tensor

_SIDES = ("right", "left")


def pad_sequence(sequences: Any, batch_first: bool = False, padding_value: float = 0.0,
                 padding_side: str = "right") -> Any:
    """Sequences (L_i, *), padded to the longest and stacked: (L, N, *), or (N, L, *) with batch_first.

    Args:
        padding_value: what stands where a sequence has ended.
        padding_side: "right" or "left": after the sequence or before it.

    >>> pad_sequence([flambeau.ones(2), flambeau.ones(1)], batch_first=True).tolist()
    [[1.0, 1.0], [1.0, 0.0]]
    """
    if padding_side not in _SIDES:
        raise RuntimeError(f"padding_side should be one of {_SIDES}, but got {padding_side!r}")
    if isinstance(sequences, Tensor):
        sequences = sequences.unbind(0)
    sequences = list(sequences)
    if not sequences:
        raise RuntimeError("pad_sequence: received an empty list of sequences")
    longest = max(s.size(0) for s in sequences)
    padded = []
    for s in sequences:
        lacking = longest - s.size(0)
        if lacking:
            filler = flambeau.full((lacking, *tuple(s.shape)[1:]), padding_value, dtype=s.dtype, device=s.device)
            s = flambeau.cat([s, filler] if padding_side == "right" else [filler, s])
        padded.append(s)
    return flambeau.stack(padded, 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Any, lengths: Any, batch_first: bool = False) -> list:
    """The sequences of given lengths in a padded tensor: the inverse of `pad_sequence`."""
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    return [s[:int(n)] for s, n in zip(padded_sequences, lengths, strict=True)]


def __getattr__(name: str) -> Any:
    text = f"module '{__name__}' has no attribute '{name}'"
    if "pack" in name.lower():
        raise AttributeError(f"{text}: packed sequences are not supported yet. Use pad_sequence, and mask what is padding.")
    raise AttributeError(text)
