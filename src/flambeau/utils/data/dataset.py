"""Data sets."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from flambeau.core.origin import warn_user

T_co = TypeVar("T_co", covariant=True)


class Dataset(Generic[T_co]):
    """Samples by index: subclasses define `__getitem__` and, for most uses, `__len__`.

    A subclass may also define `__getitems__(indices)`, which gives a list of samples at once.
    """

    def __getitem__(self, index: Any) -> T_co:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset) -> ConcatDataset:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co]):
    """Samples in a stream: subclasses define `__iter__`."""

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError("Subclasses of IterableDataset should implement __iter__.")

    def __add__(self, other: Dataset) -> Any:
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple]):
    """Sample i is the tuple of all tensors' row i.

    >>> TensorDataset(flambeau.arange(3), flambeau.arange(3) * 2)[1]
    (tensor(1), tensor(2))
    """

    tensors: tuple

    def __init__(self, *tensors: Any) -> None:
        if any(t.size(0) != tensors[0].size(0) for t in tensors):
            raise AssertionError(f"Size mismatch between tensors: they have {[t.size(0) for t in tensors]} "
                                 "rows")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple:
        return tuple(t[index] for t in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].size(0)


class StackDataset(Dataset):
    """Several data sets side by side: samples are tuples, or dicts when the data sets are given by name."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ValueError("Supported either ``tuple``- (via ``args``) or ``dict``- (via ``kwargs``) like "
                             "input/output, but both types are given.")
        if not args and not kwargs:
            raise ValueError("At least one dataset should be passed")
        members = args or tuple(kwargs.values())
        self._length = len(members[0])
        if any(len(member) != self._length for member in members):
            raise ValueError("Size mismatch between datasets: they have "
                             f"{[len(member) for member in members]} samples")
        self.datasets: Any = kwargs or args

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: member[index] for name, member in self.datasets.items()}
        return tuple(member[index] for member in self.datasets)

    def __getitems__(self, indices: list) -> list:
        named = isinstance(self.datasets, dict)
        columns = []
        for member in self.datasets.values() if named else self.datasets:
            column = many(member, indices)
            if len(column) != len(indices):
                raise ValueError(f"Nested dataset's output size mismatch. Expected {len(indices)}, got "
                                 f"{len(column)}")
            columns.append(column)
        rows = zip(*columns, strict=True)
        return [dict(zip(self.datasets, row, strict=True)) for row in rows] if named else list(rows)

    def __len__(self) -> int:
        return self._length


def many(dataset: Any, indices: list) -> list:
    """The samples at several indices, by the data set's own `__getitems__` if it has one."""
    at_once = getattr(dataset, "__getitems__", None)
    return at_once(indices) if callable(at_once) else [dataset[i] for i in indices]


class ConcatDataset(Dataset[T_co]):
    """Data sets one after the other."""

    datasets: list
    cumulative_sizes: list[int]

    @staticmethod
    def cumsum(sequence: Iterable) -> list[int]:
        """Where each data set ends."""
        return list(itertools.accumulate(len(member) for member in sequence))

    def __init__(self, datasets: Iterable) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(member, IterableDataset) for member in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset: use ChainDataset")
        self.cumulative_sizes = self.cumsum(self.datasets)

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> Any:
        if index < 0:
            if -index > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            index += len(self)
        which = bisect.bisect_right(self.cumulative_sizes, index)
        if which == len(self.datasets):
            raise IndexError(f"list index out of range: {index}, the data sets have {len(self)} samples "
                             "together")
        return self.datasets[which][index - (self.cumulative_sizes[which - 1] if which else 0)]

    @property
    def cummulative_sizes(self) -> list[int]:
        """The old spelling of `cumulative_sizes`."""
        warn_user("cummulative_sizes attribute is renamed to cumulative_sizes", DeprecationWarning)
        return self.cumulative_sizes


class ChainDataset(IterableDataset):
    """Streams one after the other."""

    def __init__(self, datasets: Iterable) -> None:
        super().__init__()
        self.datasets = datasets

    def _members(self) -> Iterator:
        for member in self.datasets:
            if not isinstance(member, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield member

    def __iter__(self) -> Iterator:
        for member in self._members():
            yield from member

    def __len__(self) -> int:
        return sum(len(member) for member in self._members())  # type: ignore[arg-type]


class Subset(Dataset[T_co]):
    """The samples of a data set at given indices."""

    dataset: Dataset
    indices: Sequence[int]

    def __init__(self, dataset: Dataset, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list) -> list:
        return many(self.dataset, [self.indices[i] for i in indices])

    def __len__(self) -> int:
        return len(self.indices)


def random_split(dataset: Dataset, lengths: Sequence[Any], generator: Any = None) -> list[Subset]:
    """Disjoint random subsets.

    Args:
        lengths: sizes that sum to the size of the data set, or fractions that sum to 1 (what rounding leaves
            over goes to the first subsets, one each).
        generator: None for the default one.
    """
    import flambeau

    total = len(dataset)  # type: ignore[arg-type]
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        for i, fraction in enumerate(lengths):
            if fraction < 0 or fraction > 1:
                raise ValueError(f"Fraction at index {i} is not between 0 and 1")
        sizes = [math.floor(total * fraction) for fraction in lengths]
        for i in range(total - sum(sizes)):
            sizes[i % len(sizes)] += 1
        for i, size in enumerate(sizes):
            if size == 0:
                warn_user(f"Length of split at index {i} is 0. This might result in an empty dataset.")
        lengths = sizes
    if sum(lengths) != total:
        raise ValueError("Sum of input lengths does not equal the length of the input dataset! "
                         f"They are {list(lengths)}, and there are {total} samples")
    order = flambeau.randperm(total, generator=generator).tolist()
    ends = list(itertools.accumulate(lengths))
    return [Subset(dataset, order[end - size:end]) for end, size in zip(ends, lengths, strict=True)]
