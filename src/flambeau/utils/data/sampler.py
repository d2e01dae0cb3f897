"""Samplers: in which order the indices of a data set come, and in which batches."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

import flambeau

T_co = TypeVar("T_co", covariant=True)


def drawn_seed(generator: Any = None) -> int:
    """A seed drawn from the (default) generator."""
    return int(flambeau.empty((), dtype=flambeau.int64).random_(generator=generator).item())


class Sampler(Generic[T_co]):
    """An iterable of indices (or lists of indices); subclasses define `__iter__` and, if known, `__len__`."""

    def __init__(self, data_source: Any = None) -> None:
        pass

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(f"{type(self).__name__} does not define __iter__")


class SequentialSampler(Sampler[int]):
    """0, 1, 2, ..."""

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """Indices in random order, or drawn with replacement.

    Args:
        num_samples: how many are drawn, by default as many as there are samples; without replacement the
            order is drawn anew when all have come.
        generator: None for a new one, seeded from the default generator at each pass.
    """

    def __init__(self, data_source: Sized, replacement: bool = False, num_samples: int | None = None,
                 generator: Any = None) -> None:
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement should be a boolean value, but got replacement={replacement}")
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            raise ValueError("num_samples must be a positive integer value, not "
                             f"{self.num_samples}"
                             + (": the data set is empty" if num_samples is None else ""))

    @property
    def num_samples(self) -> int:
        """How many indices come in one pass: the data set may grow between passes."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        n, wanted = len(self.data_source), self.num_samples
        generator = self.generator
        if generator is None:
            generator = flambeau.Generator()
            generator.manual_seed(drawn_seed())
        if self.replacement:
            for size in itertools.chain(itertools.repeat(32, wanted // 32), (wanted % 32,)):    # programs ask for 1e10
                yield from flambeau.randint(high=n, size=(size,), dtype=flambeau.int64,
                                            generator=generator).tolist()
            return
        for size in itertools.chain(itertools.repeat(n, wanted // n), (wanted % n,)):
            yield from flambeau.randperm(n, generator=generator).tolist()[:size]

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """Given indices in random order."""

    def __init__(self, indices: Sequence[int], generator: Any = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for i in flambeau.randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices drawn with given weights, which need not sum to 1."""

    def __init__(self, weights: Sequence[float], num_samples: int, replacement: bool = True,
                 generator: Any = None) -> None:
        if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples <= 0:
            raise ValueError("num_samples must be a positive integer value, not "
                             f"{num_samples}")
        if not isinstance(replacement, bool):
            raise ValueError(f"replacement should be a boolean value, but got replacement={replacement}")
        self.weights = flambeau.as_tensor(weights, dtype=flambeau.double)
        if self.weights.dim() != 1:
            raise ValueError("weights must be a 1d sequence, these have shape "
                             f"{tuple(self.weights.shape)}")
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        drawn = flambeau.multinomial(self.weights, self.num_samples, self.replacement,
                                     generator=self.generator)
        yield from iter(drawn.tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list]):
    """Lists of batch_size indices of another sampler.

    Args:
        drop_last: leave out a last batch that is smaller.

    >>> list(BatchSampler(range(5), batch_size=2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool) -> None:
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError("batch_size must be a positive integer value, not "
                             f"{batch_size}")
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list]:
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        whole, rest = divmod(len(self.sampler), self.batch_size)  # type: ignore[arg-type]
        return whole if self.drop_last or not rest else whole + 1
