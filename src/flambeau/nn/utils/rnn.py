"""Sequences of different lengths: padded to one length, or packed without padding."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import flambeau
from flambeau.core.objects import make
from flambeau.tensor import Tensor

__all__ = ["PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence", "pad_packed_sequence",
           "pad_sequence", "unpack_sequence", "unpad_sequence"]

_SIDES = ("right", "left")


class PackedSequence_(NamedTuple):
    """The fields of `PackedSequence`."""

    data: Any
    batch_sizes: Any
    sorted_indices: Any
    unsorted_indices: Any


class PackedSequence(PackedSequence_):
    """Sequences without padding, step by step: recurrent layers take and give it.

    Args:
        data: (sum of lengths, *): the first elements of all sequences, the second ones, and so on, longest sequence
            first.
        batch_sizes: int64, how many sequences have a first, second, ... element.
        sorted_indices: which sequence stands at each place; None when they are in order.
        unsorted_indices: where each sequence stands.

    Made by `pack_padded_sequence` and `pack_sequence`, undone by `pad_packed_sequence` and `unpack_sequence`.
    """

    def __new__(cls, data: Any, batch_sizes: Any = None, sorted_indices: Any = None,
                unsorted_indices: Any = None) -> PackedSequence:
        if batch_sizes is None:
            if not isinstance(data, (list, tuple)) or len(data) != 2:
                raise AssertionError("PackedSequence needs batch_sizes. Make one with pack_padded_sequence or "
                                     "pack_sequence.")
            data, batch_sizes = data
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes.device.type != "cpu":
            raise ValueError("batch_sizes should always be on CPU, this tensor is on "
                             f"{batch_sizes.device}. Have pack_sequence or pack_padded_sequence make the PackedSequence.")
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def __reduce__(self) -> Any:
        return (PackedSequence, tuple(self))

    def _with(self, data: Any) -> PackedSequence:
        return self if data is self.data else PackedSequence(data, self.batch_sizes, self.sorted_indices,
                                                             self.unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The same with data converted; this one when nothing changes."""
        return self._with(self.data.to(*args, **kwargs))

    def pin_memory(self) -> PackedSequence:
        """The same with data in pinned memory."""
        return self._with(self.data.pin_memory())

    def cpu(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The same on the CPU."""
        return self._with(self.data.cpu(*args, **kwargs))

    def cuda(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Raises: flambeau computes on the CPU."""
        return self._with(self.data.cuda(*args, **kwargs))

    @property
    def is_cuda(self) -> bool:
        """False on the CPU."""
        return self.data.is_cuda

    def is_pinned(self) -> bool:
        """Whether data lies in pinned memory."""
        return self.data.is_pinned()

    def double(self) -> PackedSequence:
        """data as float64."""
        return self.to(dtype=flambeau.float64)

    def float(self) -> PackedSequence:
        """data as float32."""
        return self.to(dtype=flambeau.float32)

    def half(self) -> PackedSequence:
        """data as float16."""
        return self.to(dtype=flambeau.float16)

    def long(self) -> PackedSequence:
        """data as int64."""
        return self.to(dtype=flambeau.int64)

    def int(self) -> PackedSequence:
        """data as int32."""
        return self.to(dtype=flambeau.int32)

    def short(self) -> PackedSequence:
        """data as int16."""
        return self.to(dtype=flambeau.int16)

    def char(self) -> PackedSequence:
        """data as int8."""
        return self.to(dtype=flambeau.int8)

    def byte(self) -> PackedSequence:
        """data as uint8."""
        return self.to(dtype=flambeau.uint8)


def invert_permutation(permutation: Any) -> Any:
    """The permutation that undoes another, a tensor of indices; None for None."""
    if permutation is None:
        return None
    order = permutation.numpy()
    inverse = np.empty_like(order)
    inverse[order] = np.arange(len(order))
    return make(inverse)


def _lengths(lengths: Any, n: int, longest: int) -> np.ndarray:
    """The lengths of n sequences, checked."""
    found = np.asarray(lengths.tolist() if isinstance(lengths, Tensor) else [int(v) for v in lengths], dtype=np.int64)
    if found.ndim != 1:
        raise RuntimeError(f"lengths must be one-dimensional, got shape {list(found.shape)}")
    if len(found) != n:
        raise RuntimeError(f"Expected `len(lengths)` to be equal to batch_size, but got {len(found)} (batch_size={n}). "
                           "Is the batch the first dimension of input? Then pass batch_first=True.")
    if found.min() <= 0:
        raise RuntimeError("Length of all samples has to be greater than 0, but found an element in 'lengths' that is "
                           f"<= 0: {int(found.min())} of sequence {int(found.argmin())}")
    if found.max() > longest:
        raise RuntimeError(f"lengths: sequence {int(found.argmax())} is said to have {int(found.max())} elements, but "
                           f"input has only {longest}. Is the batch the first dimension of input? Then pass "
                           "batch_first=True.")
    return found


def _places(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For decreasing lengths: how many sequences have each step; then of each packed row its step and sequence."""
    sizes = (lengths[None] > np.arange(lengths[0])[:, None]).sum(1)
    step = np.repeat(np.arange(len(sizes)), sizes)
    sequence = np.arange(len(step)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return sizes, step, sequence


def pack_padded_sequence(input: Any, lengths: Any, batch_first: bool = False,
                         enforce_sorted: bool = True) -> PackedSequence:
    """A padded batch without its padding.

    Args:
        input: (L, N, *), or (N, L, *) with batch_first.
        lengths: of each sequence, from 1 to L: a list or an int64 tensor.
        enforce_sorted: lengths decrease already; False sorts the sequences (outputs come back in the given order).

    Returns:
        PackedSequence; its gradient at padding is zero.

    Raises:
        RuntimeError: lengths that do not decrease, with enforce_sorted; that are not N, not positive or beyond L.

    >>> batch = flambeau.tensor([[1., 2.], [3., 0.]])
    >>> pack_padded_sequence(batch, [2, 1], batch_first=True).data.tolist()
    [1.0, 3.0, 2.0]
    """
    if batch_first:
        input = input.transpose(0, 1)
    elif input.dim() < 2:
        raise IndexError(f"Dimension out of range: input must have at least 2 dimensions, got {input.dim()}")
    if input.numel() == 0:
        raise RuntimeError("Cannot pack empty tensors.")
    found = _lengths(lengths, input.size(1), input.size(0))
    order = None
    if not enforce_sorted:
        order = np.argsort(-found, kind="stable")
        found = found[order]
    elif np.any(found[1:] > found[:-1]):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True, got "
            f"{found.tolist()}. Pass enforce_sorted=False to pack_padded_sequence or pack_sequence: the sequences are "
            "then sorted inside, and outputs come back in your order.")
    sizes, step, sequence = _places(found)
    data = input[make(step), make(sequence if order is None else order[sequence])]
    return PackedSequence(data, make(sizes), None if order is None else make(order))


def pad_packed_sequence(sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0,
                        total_length: int | None = None) -> tuple[Any, Any]:
    """The inverse of `pack_padded_sequence`.

    Args:
        padding_value: what stands where a sequence has ended.
        total_length: L of the result, at least the longest length; default: just that.

    Returns:
        The padded batch (L, N, *), or (N, L, *), and the lengths, in the order from before packing.

    Raises:
        ValueError: total_length is shorter than the longest sequence.
    """
    sizes = np.asarray(sequence.batch_sizes.tolist(), dtype=np.int64)
    longest, n = len(sizes), int(sizes[0])
    if total_length is not None:
        if total_length < longest:
            raise ValueError(f"Expected total_length to be at least the longest sequence's length, {longest}, and "
                             f"it is total_length={total_length}")
        longest = total_length
    lengths = (sizes[:, None] > np.arange(n)).sum(0)
    _, step, place = _places(lengths)
    data = sequence.data
    padded = flambeau.full((longest, n, *tuple(data.shape)[1:]), padding_value, dtype=data.dtype)
    padded = padded.index_put((make(step), make(place)), data)
    if sequence.unsorted_indices is not None:
        padded = padded.index_select(1, sequence.unsorted_indices)
        lengths = lengths[sequence.unsorted_indices.numpy()]
    return padded.transpose(0, 1) if batch_first else padded, make(lengths)


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


def pack_sequence(sequences: Any, enforce_sorted: bool = True) -> PackedSequence:
    """Sequences (L_i, *), of decreasing length unless enforce_sorted is False, packed."""
    lengths = [s.size(0) for s in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list:
    """The sequences of a packed batch: the inverse of `pack_sequence`.

    >>> packed = pack_sequence([flambeau.tensor([1., 2.]), flambeau.tensor([3.])])
    >>> [s.tolist() for s in unpack_sequence(packed)]
    [[1.0, 2.0], [3.0]]
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
