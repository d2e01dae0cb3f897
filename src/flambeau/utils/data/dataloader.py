"""DataLoader: batches of a data set."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from ._utils.collate import default_collate, default_convert
from .dataset import IterableDataset, Subset, TensorDataset
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler, drawn_seed

T_co = TypeVar("T_co", covariant=True)


class _DatasetKind:
    Map = 0
    Iterable = 1


class _InfiniteConstantSampler(Sampler):
    """None without end: a stream is asked for its next samples, not for indices."""

    def __iter__(self) -> Iterator:
        while True:
            yield None


_FIXED = frozenset(("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"))


class DataLoader(Generic[T_co]):
    """Batches of a data set, in order or shuffled, made into tensors.

    Args:
        dataset: with `__getitem__` and `__len__`, or an IterableDataset.
        batch_size: samples of a batch; None: samples come one by one, as they are.
        shuffle: draw a new order at each pass.
        sampler: an order of indices; batch_sampler: lists of indices, instead of the four arguments before.
        num_workers: only 0 for now: batches are made in this process.
        collate_fn: makes a batch of a list of samples; `default_collate` by default.
        pin_memory, pin_memory_device: accepted: there is no other device to copy to.
        drop_last: leave out a last batch that is smaller.
        generator: draws the order and the seeds; None for the default one.
        timeout, worker_init_fn, multiprocessing_context, prefetch_factor, persistent_workers, in_order: for
            workers.

    >>> from flambeau.utils.data import TensorDataset
    >>> data = TensorDataset(flambeau.arange(5))
    >>> [batch for (batch,) in DataLoader(data, batch_size=2)]
    [tensor([0, 1]), tensor([2, 3]), tensor([4])]
    """

    dataset: Any
    batch_size: int | None
    sampler: Any
    batch_sampler: Any
    _initialized = False
    __multiprocessing_context: Any = None

    def __init__(self, dataset: Any, batch_size: int | None = 1, shuffle: bool | None = None,
                 sampler: Any = None, batch_sampler: Any = None, num_workers: int = 0,
                 collate_fn: Callable | None = None, pin_memory: bool = False, drop_last: bool = False,
                 timeout: float = 0, worker_init_fn: Callable | None = None,
                 multiprocessing_context: Any = None, generator: Any = None, *,
                 prefetch_factor: int | None = None, persistent_workers: bool = False,
                 pin_memory_device: str = "", in_order: bool = True) -> None:
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers, multiprocessing_context)
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.in_order = in_order
        stream = isinstance(dataset, IterableDataset)
        self._dataset_kind = _DatasetKind.Iterable if stream else _DatasetKind.Map
        if stream:
            for name, value, free in (("shuffle", shuffle, (None, False)), ("sampler", sampler, (None,)),
                                      ("batch_sampler", batch_sampler, (None,))):
                if not any(value is f for f in free):
                    raise ValueError(f"DataLoader with IterableDataset: expected unspecified {name} option, "
                                     f"but got {name}={value}")
        shuffle = bool(shuffle)
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError("batch_sampler option is mutually exclusive with batch_size, shuffle, "
                                 "sampler, and drop_last")
            batch_size = None
            drop_last = False
        elif batch_size is None and drop_last:
            raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with "
                             "drop_last")
        if sampler is None:
            if stream:
                sampler = _InfiniteConstantSampler()
            elif shuffle:
                sampler = RandomSampler(dataset, generator=generator)
            else:
                sampler = SequentialSampler(dataset)
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.generator = generator
        if collate_fn is None:
            collate_fn = default_collate if self._auto_collation else default_convert
        self.collate_fn = collate_fn
        self.persistent_workers = persistent_workers
        self._initialized = True

    def __setattr__(self, name: str, value: Any) -> None:
        if self._initialized and name in _FIXED:
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is "
                             "initialized: build a new one")
        super().__setattr__(name, value)

    @property
    def multiprocessing_context(self) -> Any:
        """How worker processes are started."""
        return self.__multiprocessing_context

    @multiprocessing_context.setter
    def multiprocessing_context(self, value: Any) -> None:
        _check_workers(self.num_workers, 0, None, False, value)
        self.__multiprocessing_context = value

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        return self.batch_sampler if self._auto_collation else self.sampler

    def __iter__(self) -> Iterator[Any]:
        return _Batches(self)

    def __len__(self) -> int:
        """The number of batches."""
        if self._dataset_kind == _DatasetKind.Map:
            return len(self._index_sampler)
        n = len(self.dataset)
        if self.batch_size is None:
            return n
        whole, rest = divmod(n, self.batch_size)
        return whole if self.drop_last or not rest else whole + 1


def _check_workers(num_workers: int, timeout: float, prefetch_factor: Any, persistent: bool,
                   context: Any) -> None:
    if num_workers < 0:
        raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable "
                         "multiprocessing.")
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if num_workers > 0:
        raise NotImplementedError(f"DataLoader(num_workers={num_workers}): worker processes are not "
                                  "supported yet. Use num_workers=0: batches are then made in this process, "
                                  "and are the same.")
    if prefetch_factor is not None:
        raise ValueError("prefetch_factor option could only be specified in multiprocessing: let num_workers "
                         "> 0 to enable multiprocessing, otherwise set prefetch_factor to None.")
    if persistent:
        raise ValueError("persistent_workers option needs num_workers > 0")
    if context is not None:
        raise ValueError("multiprocessing_context can only be used with multi-process loading (num_workers > "
                         f"0), but got num_workers={num_workers}")


class _Batches:
    """One pass over a loader."""

    def __init__(self, loader: DataLoader) -> None:
        self._loader = loader
        self._indices = iter(loader._index_sampler)
        # PyTorch draws a seed for workers at every pass, also without workers: the random stream depends on
        # it
        self._base_seed = drawn_seed(loader.generator)
        self._stream = iter(loader.dataset) if loader._dataset_kind == _DatasetKind.Iterable else None
        self._ended = False
        self._yielded = 0

    def __iter__(self) -> _Batches:
        return self

    def __len__(self) -> int:
        return len(self._loader._index_sampler)

    def __next__(self) -> Any:
        index = next(self._indices)
        batch = self._of_stream(index) if self._stream is not None else self._of_map(index)
        self._yielded += 1
        return batch

    next = __next__

    def _of_map(self, index: Any) -> Any:
        loader = self._loader
        dataset = loader.dataset
        if not loader._auto_collation:
            return loader.collate_fn(dataset[index])
        if loader.collate_fn is default_collate:
            batch = _rows(dataset, index)
            if batch is not None:
                return batch
        at_once = getattr(dataset, "__getitems__", None)
        samples = at_once(index) if at_once else [dataset[i] for i in index]
        return loader.collate_fn(samples)

    def _of_stream(self, index: Any) -> Any:
        loader = self._loader
        if not loader._auto_collation:
            return loader.collate_fn(next(self._stream))  # type: ignore[arg-type]
        if self._ended:
            raise StopIteration
        samples = []
        for _ in index:
            try:
                samples.append(next(self._stream))  # type: ignore[arg-type]
            except StopIteration:
                self._ended = True
                break
        if not samples or (loader.drop_last and len(samples) < len(index)):
            raise StopIteration
        return loader.collate_fn(samples)


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
