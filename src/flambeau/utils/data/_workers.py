"""What runs in a worker process of the loader: it gets indices and sends batches.

Commands come as (RESET, pass number), (FETCH, pass number, batch number, index) and None, the end. A thread
reads them as they come, so that the main process never waits to write one while this process waits to write a
batch. Answers are (pass number, batch number, batch | Failure | Ended).
"""

from __future__ import annotations

import os
import pickle
import queue
import random
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import connection as _connection
from multiprocessing.process import parent_process
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np

import flambeau

from . import _shared
from ._fetch import MapFetcher, StreamFetcher
from ._lending import Lender
from ._utils import worker as _info

RESET, FETCH = "reset", "fetch"
_LOOK_AFTER_PARENT_S = 5.0


@dataclass
class Plan:
    """What a worker is told once."""

    dataset: Any
    is_stream: bool
    batched: bool
    collate_fn: Callable
    drop_last: bool
    worker_init_fn: Callable | None
    base_seed: int
    num_workers: int

    def fetcher(self) -> Any:
        """A new pass over the data set."""
        kind = StreamFetcher if self.is_stream else MapFetcher
        return kind(self.dataset, self.batched, self.collate_fn, self.drop_last)


class Ended:
    """The worker's stream has no more samples."""


class Failure:
    """An exception of a worker: its class and the text of its traceback."""

    def __init__(self, error: BaseException, where: str) -> None:
        self.kind = type(error)
        self.text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        self.where = where

    def sendable(self) -> Failure:
        """Itself, or one with the nearest base class of the exception that another process knows."""
        for kind in self.kind.__mro__:
            try:
                if pickle.loads(ForkingPickler.dumps(kind)) is kind:
                    self.kind = kind
                    return self
            except Exception:
                continue
        self.kind = RuntimeError
        return self

    def reraise(self) -> None:
        """Raise an exception of the same class, whose message holds the worker's traceback."""
        text = f"Caught {self.kind.__name__} {self.where}.\nOriginal {self.text}"
        if issubclass(self.kind, KeyError):
            raise self.kind(_Lines(text))
        try:
            error = self.kind(text)
        except Exception:                # its constructor wants something else
            raise RuntimeError(text) from None
        raise error


class _Lines(str):
    """A text whose repr, which KeyError shows, keeps its lines."""

    def __repr__(self) -> str:
        return str(self)


def numpy_seed(base_seed: int, worker_id: int) -> np.ndarray:
    """The seed of NumPy's old generator in a worker, as PyTorch derives it: NumPy's own SeedSequence of the
    worker's number and the two halves of base_seed.

    >>> numpy_seed(123, 0).tolist()
    [4253025450, 2184329087, 1599386872, 2820677907]
    """
    words = [worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32 & 0xFFFFFFFF, 0]
    return np.random.SeedSequence(words).generate_state(4)


def run(plan: Plan, worker_id: int, connection: Any) -> None:
    """The main function of a worker process."""
    try:
        commands = _listen(connection)
        sender = _shared.channel(connection)
        _work(plan, worker_id, commands, lambda answer: _send(answer, worker_id, connection, sender))
    except (KeyboardInterrupt, BrokenPipeError, ConnectionResetError):
        pass            # the main process is interrupted too, or has gone


class _Commands:
    """What the main process wrote; once it wants no more, what was asked before is not done either."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue = queue.SimpleQueue()
        self._over = False

    def put(self, command: Any) -> None:
        self._over = self._over or command is None
        self._queue.put(command)

    def get(self) -> Any:
        """The next command; None: end."""
        command = self._queue.get()
        return None if self._over else command


def _listen(connection: Any) -> _Commands:
    commands = _Commands()
    parent = parent_process()
    watched = [connection] + ([parent.sentinel] if parent is not None else [])
    first = os.getppid()

    def listen() -> None:
        while True:
            ready = _connection.wait(watched, _LOOK_AFTER_PARENT_S)
            if connection in ready:
                try:
                    command = connection.recv()
                except (EOFError, OSError):
                    command = None
            elif ready or os.getppid() != first:
                command = None                    # the main process has died
            else:
                continue
            commands.put(command)
            if command is None:
                return

    threading.Thread(target=listen, daemon=True, name="flambeau-loader-commands").start()
    return commands


def _work(plan: Plan, worker_id: int, commands: _Commands, send: Callable) -> None:
    where = f"in DataLoader worker process {worker_id}"
    lender = Lender()
    _shared.lend_from(lender)
    flambeau.set_num_threads(1)
    seed = plan.base_seed + worker_id
    random.seed(seed)
    flambeau.manual_seed(seed)
    np.random.seed(numpy_seed(plan.base_seed, worker_id))
    _info._worker_info = _info.WorkerInfo(worker_id, plan.num_workers, seed, plan.dataset)
    fetcher: Any = None
    failure: Failure | None = None
    try:
        if plan.worker_init_fn is not None:
            plan.worker_init_fn(worker_id)
        fetcher = plan.fetcher()
    except Exception as error:
        failure = Failure(error, where)
    ended = False
    while (command := commands.get()) is not None:
        if command[0] == RESET:
            if failure is None:
                try:
                    fetcher = plan.fetcher()
                except Exception as error:
                    failure = Failure(error, where)
            ended = False
            continue
        _, pass_number, batch_number, index, finished = command
        lender.give_back(finished)
        if ended:
            continue
        answer: Any
        if failure is not None:
            answer, failure = failure, None
        else:
            try:
                if fetcher is None:
                    raise RuntimeError(f"worker {worker_id} failed at its start, see the first error")
                answer = fetcher.fetch(index)
            except Exception as error:
                if plan.is_stream and isinstance(error, StopIteration):
                    answer, ended = Ended(), True
                else:
                    answer = Failure(error, where)
        send((pass_number, batch_number, answer))
        del answer, command, index               # a batch's memory is not kept while the next one is made


def _send(answer: tuple, worker_id: int, connection: Any, sender: Any) -> None:
    try:
        batch = answer[2]
        message = _shared.Message((*answer[:2], batch.sendable() if isinstance(batch, Failure) else batch))
    except Exception as error:                   # a batch that cannot be pickled
        failure = Failure(error, f"in DataLoader worker process {worker_id}, sending a batch").sendable()
        message = _shared.Message((*answer[:2], failure))
    message.send(connection, sender)
