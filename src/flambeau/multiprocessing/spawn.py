"""Processes that run one function, each with its number, and fail together."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import signal
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

from flambeau.core.origin import warn_user


class ProcessException(Exception):
    """A process failed."""

    def __init__(self, msg: str, error_index: int, pid: int) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.pid = msg, error_index, pid

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.pid)


class ProcessRaisedException(ProcessException):
    """The function raised in a process; the message holds the traceback there."""


class ProcessExitedException(ProcessException):
    """A process ended by a signal or by sys.exit."""

    def __init__(self, msg: str, error_index: int, error_pid: int, exit_code: int, signal_name: str | None = None) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.pid, self.exit_code, self.signal_name)


def _run(fn: Callable, i: int, args: tuple, sender: Any) -> None:
    try:
        fn(i, *args)
    except KeyboardInterrupt:
        pass
    except Exception:
        sender.send(traceback.format_exc())
        sys.exit(1)


class ProcessContext:
    """Running processes: `join` waits for them."""

    def __init__(self, processes: list, receivers: list) -> None:
        self.processes, self.receivers = processes, receivers
        self.sentinels = {p.sentinel: i for i, p in enumerate(processes)}

    def pids(self) -> list[int]:
        """The processes' numbers in the operating system."""
        return [int(p.pid) for p in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait; True when all have ended well, False at the timeout.

        Raises:
            ProcessRaisedException: fn raised in one; the others are ended.
            ProcessExitedException: one ended by a signal or with another code than 0.
        """
        if not self.sentinels:
            return True
        ready: list = multiprocessing.connection.wait(list(self.sentinels), timeout)
        failed = None
        for sentinel in ready:
            i = self.sentinels.pop(sentinel)
            self.processes[i].join()
            if self.processes[i].exitcode != 0:
                failed = i
                break
        if failed is None:
            return not self.sentinels
        self._end(grace_period)
        process = self.processes[failed]
        if self.receivers[failed].poll():
            told = f"\n\n-- Process {failed} terminated with the following error:\n{self.receivers[failed].recv()}"
            raise ProcessRaisedException(told, failed, int(process.pid))
        code = process.exitcode
        if code < 0:
            name = signal.Signals(-code).name
            raise ProcessExitedException(f"process {failed} terminated with signal {name}", failed, int(process.pid), code,
                                         name)
        raise ProcessExitedException(f"process {failed} terminated with exit code {code}", failed, int(process.pid), code)

    def _end(self, grace_period: float | None) -> None:
        end = time.monotonic() + (30 if grace_period is None else grace_period)
        for p in self.processes:
            if p.is_alive():
                p.terminate()
        for p in self.processes:
            p.join(max(0.0, end - time.monotonic()))
            if p.is_alive():
                p.kill()
                p.join()


SpawnContext = ProcessContext


def start_processes(fn: Callable, args: tuple = (), nprocs: int = 1, join: bool = True, daemon: bool = False,
                    start_method: str = "spawn") -> ProcessContext | None:
    """Run fn(i, *args) for i in range(nprocs), each in a process of its own; wait for them if `join`."""
    context: Any = multiprocessing.get_context(start_method)
    processes, receivers = [], []
    for i in range(nprocs):
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_run, args=(fn, i, args, sender), daemon=daemon)
        process.start()
        sender.close()
        processes.append(process)
        receivers.append(receiver)
    running = ProcessContext(processes, receivers)
    if not join:
        return running
    while not running.join():
        pass
    return None


def spawn(fn: Callable, args: tuple = (), nprocs: int = 1, join: bool = True, daemon: bool = False,
          start_method: str = "spawn") -> ProcessContext | None:
    """Run fn(i, *args) for i in range(nprocs), each in a process of its own.

    Args:
        fn: a function at the top level of a module.
        join: wait for all; else return a context whose join() does.
        daemon: the processes end when this one ends.

    Raises:
        ProcessRaisedException: fn raised in one process; the others are ended.
        ProcessExitedException: a process ended by a signal or sys.exit.
    """
    if start_method != "spawn":
        warn_user(f"This method only supports start_method=spawn (got: {start_method}). To use a different start_method "
                  "use torch.multiprocessing.start_processes(...).", FutureWarning)
    return start_processes(fn, args, nprocs, join, daemon, "spawn")


