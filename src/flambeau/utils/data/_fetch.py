"""How the samples of one batch are had from a data set: in the main process and in workers alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ._utils.collate import default_collate
from .dataset import Subset, TensorDataset


class MapFetcher:
    """Samples by index."""

    def __init__(self, dataset: Any, batched: bool, collate_fn: Callable, drop_last: bool) -> None:
        self.dataset, self.batched, self.collate_fn = dataset, batched, collate_fn

    def fetch(self, index: Any) -> Any:
        """The batch of a list of indices, or the sample at one."""
        dataset = self.dataset
        if not self.batched:
            return self.collate_fn(dataset[index])
        if self.collate_fn is default_collate:
            batch = _rows(dataset, index)
            if batch is not None:
                return batch
        at_once = getattr(dataset, "__getitems__", None)
        samples = at_once(index) if at_once else [dataset[i] for i in index]
        return self.collate_fn(samples)


class StreamFetcher:
    """The next samples of a stream; StopIteration at its end."""

    def __init__(self, dataset: Any, batched: bool, collate_fn: Callable, drop_last: bool) -> None:
        self.batched, self.collate_fn, self.drop_last = batched, collate_fn, drop_last
        self.stream = iter(dataset)
        self.ended = False

    def fetch(self, index: Any) -> Any:
        """A batch of as many samples as index has entries, or one sample."""
        if not self.batched:
            return self.collate_fn(next(self.stream))
        if self.ended:
            raise StopIteration
        samples = []
        for _ in index:
            try:
                samples.append(next(self.stream))
            except StopIteration:
                self.ended = True
                break
        if not samples or (self.drop_last and len(samples) < len(index)):
            raise StopIteration
        return self.collate_fn(samples)


def _rows(dataset: Any, index: Iterable) -> list | None:
    """A batch of a TensorDataset (or a subset of one) by one indexing of each tensor, instead of one for each
    sample.

    None when that would not be the same: another data set, or tensors that are differentiated.
    """
    index = list(index)
    while type(dataset) is Subset:
        index = [dataset.indices[i] for i in index]
        dataset = dataset.dataset
    if type(dataset) is not TensorDataset or not index or not all(type(i) is int for i in index):
        return None
    if any(t.requires_grad or t.dim() == 0 for t in dataset.tensors):
        return None
    return [t[index] for t in dataset.tensors]
