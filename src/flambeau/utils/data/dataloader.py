"""DataLoader: batches of a data set."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator
from multiprocessing.context import BaseContext
from typing import Any, Generic, TypeVar

from flambeau.core.origin import warn_user

from ._fetch import MapFetcher, StreamFetcher
from ._parallel import ParallelBatches, Pass
from ._utils.collate import default_collate, default_convert
from .dataset import IterableDataset
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
        num_workers: processes that make batches ahead; 0: they are made in this process, when asked for.
        collate_fn: makes a batch of a list of samples; `default_collate` by default.
        pin_memory, pin_memory_device: accepted: there is no other device to copy to.
        drop_last: leave out a last batch that is smaller.
        generator: draws the order and the seeds; None for the default one.
        timeout: seconds to wait for a batch of a worker; 0: without end.
        worker_init_fn: called in each worker with its number, after the seeds are set.
        multiprocessing_context: "fork", "spawn" or "forkserver", or a context of `multiprocessing`; None: Python's
            default. But for fork, the data set, collate_fn and worker_init_fn must be picklable, and the program's
            main part under `if __name__ == "__main__"`.
        prefetch_factor: batches made ahead by each worker, 2 by default.
        persistent_workers: keep the workers, and their copies of the data set, for the next pass.
        in_order: False yields batches as they come, when some take much longer than others.

    Worker i seeds `random` and flambeau with base_seed + i, and NumPy from both numbers; base_seed is drawn from the
    generator. Batches' arrays cross through shared memory.

    Raises:
        RuntimeError: a worker died, or sent nothing for `timeout` seconds. An exception in a worker is raised again
            in this process, with the traceback there and the worker's number in its message.

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
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        if num_workers > 0 and prefetch_factor is None:
            prefetch_factor = 2
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.in_order = in_order
        self.multiprocessing_context = multiprocessing_context
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
                raise ValueError("batch_sampler option is mutually exclusive with batch_size, shuffle, sampler and "
                                 "drop_last: it decides all of them itself.")
            batch_size = None
            drop_last = False
        elif batch_size is None and drop_last:
            raise ValueError("batch_size=None makes no batches, so drop_last has nothing to drop. Leave it out.")
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
        self._iterator: Any = None
        self._length_read: int | None = None
        self.check_worker_number_rationality()

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
        self.__multiprocessing_context = _context(value, self.num_workers)

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        return self.batch_sampler if self._auto_collation else self.sampler

    def __iter__(self) -> Iterator[Any]:
        if not (self.persistent_workers and self.num_workers > 0):
            return self._get_iterator()
        if self._iterator is not None and self._iterator._usable():
            self._iterator._reset(self)
        else:
            self._iterator = self._get_iterator()
        return self._iterator

    def _get_iterator(self) -> Any:
        return ParallelBatches(self) if self.num_workers > 0 else _Batches(self)

    def __len__(self) -> int:
        """The number of batches; of a stream, what its own `__len__` says."""
        if self._dataset_kind == _DatasetKind.Map:
            return len(self._index_sampler)
        n = self._length_read = len(self.dataset)
        if self.batch_size is None:
            return n
        whole, rest = divmod(n, self.batch_size)
        return whole if self.drop_last or not rest else whole + 1

    def _check_length(self, n_yielded: int) -> None:
        """Warn that a stream gives more than its `__len__` said, if that was asked."""
        if self._length_read is None or n_yielded <= self._length_read:
            return
        text = (f"Length of IterableDataset {self.dataset} was reported to be {self._length_read} (when accessing "
                f"len(dataloader)), but {n_yielded} samples have been fetched. ")
        if self.num_workers > 0:
            text += ("Each worker goes through its whole copy of the data set: let __iter__ or worker_init_fn choose a "
                     "part of it by get_worker_info().")
        warn_user(text)

    def check_worker_number_rationality(self) -> None:
        """Warn of more workers than this process may use CPUs."""
        n_cpus = _usable_cpus()
        if self.num_workers > 0 and n_cpus is not None and self.num_workers > n_cpus:
            warn_user(f"This DataLoader will create {self.num_workers} worker processes in total. Our suggested max number "
                      f"of worker in current system is {n_cpus}, the CPUs that this process may use: more are seldom "
                      "faster. Lower num_workers.")


def _check_workers(num_workers: int, timeout: float, prefetch_factor: Any, persistent: bool) -> None:
    if num_workers < 0:
        raise ValueError("num_workers must be non-negative; 0 loads in this process.")
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError("prefetch_factor belongs to worker processes (multiprocessing): set num_workers > 0, or "
                         "leave it at None.")
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    if persistent and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")


def _context(value: Any, num_workers: int) -> Any:
    """How to start processes, by its name or as a context of multiprocessing; None: Python's default."""
    if value is None:
        return None
    if num_workers == 0:
        raise ValueError(f"multiprocessing_context belongs to multi-process loading, and num_workers={num_workers}. "
                         "Set num_workers > 0, or leave it out.")
    if isinstance(value, str):
        methods = multiprocessing.get_all_start_methods()
        if value not in methods:
            raise ValueError("multiprocessing_context must name a start method among "
                             f"{methods}, but got multiprocessing_context={value!r}")
        value = multiprocessing.get_context(value)
    if not isinstance(value, BaseContext):
        raise TypeError("multiprocessing_context option should be a context object or the name of a start method, "
                        f"and is multiprocessing_context={value}")
    return value


def _usable_cpus() -> int | None:
    if hasattr(os, "sched_getaffinity"):
        try:
            return len(os.sched_getaffinity(0))
        except OSError:
            pass
    return os.cpu_count()


class _Batches(Pass):
    """One pass over a loader whose batches are made in this process."""

    def __init__(self, loader: DataLoader) -> None:
        self._loader = loader
        self._indices = iter(loader._index_sampler)
        # PyTorch draws a seed for workers at every pass, also without workers: the random stream depends on
        # it
        self._base_seed = drawn_seed(loader.generator)
        kind = StreamFetcher if loader._dataset_kind == _DatasetKind.Iterable else MapFetcher
        self._fetcher = kind(loader.dataset, loader._auto_collation, loader.collate_fn, loader.drop_last)
        self._yielded = 0

    def __next__(self) -> Any:
        batch = self._fetcher.fetch(next(self._indices))
        self._yielded += 1
        self._loader._check_length(self._yielded)
        return batch

    next = __next__


_BaseDataLoaderIter = Pass                              # the names that programs test the type with
_SingleProcessDataLoaderIter = _Batches
_MultiProcessingDataLoaderIter = ParallelBatches
