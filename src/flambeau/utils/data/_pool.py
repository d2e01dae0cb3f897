"""The worker processes of a loader, seen from the main process: started, spoken to, watched, ended."""

from __future__ import annotations

import os
import signal
import time
import warnings
from collections import deque
from multiprocessing import connection as _connection
from typing import Any

from . import _shared, _workers
from ._lending import Borrower

_END_S = 5.0            # how long workers may take to end before they are killed
_ONE_BY_ONE_S = 0.02


class TimeOut(RuntimeError):
    """No worker sent a batch within the loader's `timeout`: the next call may wait again."""


class Worker:
    """A process and the connection to it."""

    def __init__(self, context: Any, plan: Any, number: int) -> None:
        self.connection, theirs = context.Pipe(duplex=True)
        self.process = context.Process(target=_workers.run, args=(plan, number, theirs), daemon=True)
        try:
            with warnings.catch_warnings():
                # Python warns of any thread beside a fork; those of the BLAS have handlers for it
                warnings.simplefilter("ignore", DeprecationWarning)
                self.process.start()
        except BaseException:
            self.connection.close()
            raise
        finally:
            theirs.close()
        self.channel = _shared.channel(self.connection)
        self.borrower = Borrower()
        self.open = True                    # it takes commands
        self.reading = True                 # answers may still come

    def send(self, command: Any) -> None:
        """Write a command; nothing if the worker is dead, which `Pool.receive` reports."""
        try:
            self.connection.send(command)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def end(self) -> None:
        """Ask it to end."""
        if self.open:
            self.open = False
            self.send(None)

    def why(self) -> str:
        """How it died."""
        code, pid = self.process.exitcode, self.process.pid
        if code is not None and code < 0:
            name = signal.strsignal(-code) or signal.Signals(-code).name
            text = f"DataLoader worker (pid {pid}) is killed by signal: {name}. It exited unexpectedly"
            if -code == signal.SIGKILL:
                return (f"{text}: often the system ended it because memory ran out. Use fewer workers, a smaller "
                        "prefetch_factor or smaller batches.")
            if -code in (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGILL):
                return (f"{text}: compiled code that the data set calls crashed. Run with num_workers=0 under "
                        "`python -X faulthandler` to see where.")
            return f"{text}."
        return (f"DataLoader worker (pid {pid}) exited unexpectedly with exit code {code}: the data set, collate_fn or "
                "worker_init_fn ended the process. Run with num_workers=0 to see where.")


class Pool:
    """All workers of a loader."""

    def __init__(self, context: Any, plan: Any, n_workers: int) -> None:
        self.owner = os.getpid()
        self.workers: list[Worker] = []
        self.answers: deque = deque()
        try:
            for number in range(n_workers):
                self.workers.append(Worker(context, plan, number))
        except BaseException:
            self.close()
            raise

    def receive(self, timeout_s: float) -> tuple:
        """The next answer: (worker number, answer).

        Raises:
            RuntimeError: none came in timeout_s (0: wait without end); a worker died.
        """
        end = time.monotonic() + timeout_s if timeout_s > 0 else None
        while not self.answers:
            by_handle: dict[Any, int] = {}
            for number, worker in enumerate(self.workers):
                if worker.reading:
                    by_handle[worker.connection] = number
                    by_handle[worker.process.sentinel] = number
            if not by_handle:
                raise RuntimeError("DataLoader: all workers have ended, and batches are still expected of them")
            left = None if end is None else max(0.0, end - time.monotonic())
            ready = _connection.wait(list(by_handle), left)
            if not ready:
                raise TimeOut(f"DataLoader timed out after {timeout_s} seconds: no worker sent a batch. Let timeout be "
                              "longer than the slowest batch takes, or 0 to wait without end.")
            for number in sorted({by_handle[handle] for handle in ready}):
                self._read(number)
        return self.answers.popleft()

    def _read(self, number: int) -> None:
        worker = self.workers[number]
        try:
            if worker.connection.poll():
                self.answers.append((number, _shared.receive(worker.connection, worker.channel, worker.borrower)))
                return
        except (EOFError, ConnectionResetError):
            worker.reading = False
            worker.process.join(_END_S)
        if worker.process.exitcode is not None or not worker.reading:
            worker.reading = False
            if worker.open or worker.process.exitcode != 0:
                raise RuntimeError(worker.why())

    def alive(self) -> bool:
        """Whether no worker has died."""
        return bool(self.workers) and all(worker.process.exitcode is None for worker in self.workers)

    def close(self) -> None:
        """End the workers and wait for them; a worker that does not end is killed."""
        if os.getpid() != self.owner:        # a forked process has copies of this object, but not the workers
            return
        for worker in self.workers:
            worker.end()
        end = time.monotonic() + _END_S
        alive = list(self.workers)
        while alive and time.monotonic() < end:
            self._drop_answers(alive)
            alive = [worker for worker in alive if worker.process.exitcode is None]
        for worker in alive:
            worker.process.kill()
        for worker in self.workers:
            worker.process.join()
            worker.connection.close()
            if worker.channel is not None:
                worker.channel.close()
            worker.process.close()
        self.workers.clear()
        self.answers.clear()

    @staticmethod
    def _drop_answers(alive: list[Worker]) -> None:
        """Read what workers still write, so that none waits for a reader."""
        handles = [w.process.sentinel for w in alive] + [w.connection for w in alive if w.reading]
        ready = _connection.wait(handles, _ONE_BY_ONE_S)
        for worker in alive:
            if worker.connection in ready:
                try:
                    _shared.receive(worker.connection, worker.channel, None)
                except (EOFError, OSError):
                    worker.reading = False
