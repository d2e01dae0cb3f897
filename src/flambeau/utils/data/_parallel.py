"""Passes over a loader whose batches are made by worker processes."""

from __future__ import annotations

import itertools
import multiprocessing
import weakref
from typing import TYPE_CHECKING, Any

from . import _workers
from ._pool import Pool, TimeOut
from .sampler import drawn_seed

if TYPE_CHECKING:
    from typing import Self


class Pass:
    """A pass over a DataLoader: what every one of them has, so that programs can tell it from other iterators."""

    _loader: Any

    def __iter__(self) -> Self:
        return self

    def __len__(self) -> int:
        return len(self._loader._index_sampler)


class ParallelBatches(Pass):
    """The batches of one pass, or of several, one after the other, with persistent workers.

    Batch i goes to the workers in turn, whoever is free, so that the order of batches and each worker's random
    numbers depend on nothing but the seed. `prefetch_factor` batches of each worker are under way at any time.
    """

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._num_workers: int = loader.num_workers
        self._indices: Any = iter(loader._index_sampler)
        self._base_seed = drawn_seed(loader.generator)
        context = loader.multiprocessing_context or multiprocessing.get_context()
        plan = _workers.Plan(loader.dataset, loader._dataset_kind == 1, loader._auto_collation, loader.collate_fn,
                             loader.drop_last, loader.worker_init_fn, self._base_seed, self._num_workers)
        self._pool = Pool(context, plan, self._num_workers)
        self._finalizer = weakref.finalize(self, self._pool.close)
        self._pass = 0
        self._begin()

    def _usable(self) -> bool:
        """Whether the workers can serve another pass."""
        return self._failed is None and self._pool.alive()

    def _reset(self, loader: Any) -> None:
        """Begin another pass with the same workers."""
        self._indices = iter(loader._index_sampler)
        self._pass += 1
        for worker in self._pool.workers:
            worker.send((_workers.RESET, self._pass))
        self._begin()

    def _begin(self) -> None:
        self._yielded = 0
        self._n_sent = 0
        self._n_taken = 0
        self._owner: dict[int, int] = {}         # the worker of each batch that was not yielded
        self._waiting: dict[int, Any] = {}       # batches that came before their turn
        self._load = [0] * self._num_workers     # batches under way of each worker
        self._ended = [False] * self._num_workers
        self._turns = itertools.cycle(range(self._num_workers))
        self._failed: RuntimeError | None = None
        for _ in range(self._loader.prefetch_factor * self._num_workers):
            self._ask()

    def _shutdown_workers(self) -> None:
        """End the workers before the pass is over; more than once does nothing."""
        self._finalizer()

    def _ask(self) -> None:
        """Send the next index to a worker, if there is one left of each."""
        loader = self._loader
        n_alive = self._num_workers - sum(self._ended)
        most = loader.prefetch_factor * self._num_workers // n_alive if n_alive else 0
        for _ in range(self._num_workers):
            number = next(self._turns)
            if not self._ended[number] and (loader.in_order or self._load[number] < most):
                break
        else:
            return
        try:
            index = next(self._indices)
        except StopIteration:
            return
        worker = self._pool.workers[number]
        worker.send((_workers.FETCH, self._pass, self._n_sent, index, worker.borrower.take_finished()))
        self._owner[self._n_sent] = number
        self._load[number] += 1
        self._n_sent += 1

    def __next__(self) -> Any:
        if self._failed is not None:
            raise self._failed
        batch = self._next()
        self._yielded += 1
        self._loader._check_length(self._yielded)
        return batch

    next = __next__

    def _next(self) -> Any:
        while True:
            while self._n_taken < self._n_sent:
                number = self._owner.get(self._n_taken)
                if self._n_taken in self._waiting or (number is not None and not self._ended[number]):
                    break
                self._owner.pop(self._n_taken, None)        # its worker's stream has ended
                self._n_taken += 1
            else:
                if not self._loader.persistent_workers:
                    self._finalizer()
                raise StopIteration
            if self._n_taken in self._waiting:
                batch = self._waiting.pop(self._n_taken)
                return self._take(self._n_taken, batch)
            number, i, batch = self._receive()
            if isinstance(batch, _workers.Ended):
                self._ended[number] = True
                if not self._loader.persistent_workers:
                    self._pool.workers[number].end()
                self._ask()
            elif i == self._n_taken or not self._loader.in_order:
                return self._take(i, batch)
            else:
                self._waiting[i] = batch

    def _receive(self) -> tuple[int, int, Any]:
        while True:
            try:
                number, (of_pass, i, batch) = self._pool.receive(self._loader.timeout)
            except TimeOut:
                raise
            except BaseException as error:       # KeyboardInterrupt too: a message may have been read by half
                text = str(error) if isinstance(error, RuntimeError) else f"the pass over this DataLoader failed: {error!r}"
                self._failed = RuntimeError(text)
                self._finalizer()
                raise
            if of_pass == self._pass:
                return number, i, batch

    def _take(self, i: int, batch: Any) -> Any:
        number = self._owner.pop(i)
        if i == self._n_taken:
            self._n_taken += 1
        self._load[number] -= 1
        self._ask()
        if isinstance(batch, _workers.Failure):
            batch.reraise()
        return batch
