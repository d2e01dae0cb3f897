"""Python's multiprocessing, and `spawn`. Tensors sent to another process are copied there."""

from __future__ import annotations

import sys
from multiprocessing import *  # noqa: F403
from multiprocessing import __all__ as _python
from typing import Any

from . import spawn as _spawn
from .spawn import ProcessContext, ProcessExitedException, ProcessRaisedException, SpawnContext, start_processes

spawn = _spawn.spawn  # the function, as in PyTorch, over the module of the same name
__all__ = [*_python, "ProcessContext", "ProcessExitedException", "ProcessRaisedException", "SpawnContext",
           "get_all_sharing_strategies", "get_sharing_strategy", "set_sharing_strategy", "spawn", "start_processes"]

_STRATEGIES = {"file_system"} if sys.platform in ("darwin", "win32") else {"file_descriptor", "file_system"}
_strategy = ["file_system" if sys.platform in ("darwin", "win32") else "file_descriptor"]


def get_all_sharing_strategies() -> set[str]:
    """PyTorch's ways of sharing memory on this system; here tensors are copied."""
    return set(_STRATEGIES)


def get_sharing_strategy() -> str:
    """What set_sharing_strategy set."""
    return _strategy[0]


def set_sharing_strategy(new_strategy: str) -> None:
    """Kept; tensors sent to another process are copied.

    Raises:
        AssertionError: not one of get_all_sharing_strategies().
    """
    if new_strategy not in _STRATEGIES:
        raise AssertionError(f"{new_strategy!r} is no sharing strategy here: {sorted(_STRATEGIES)}")
    _strategy[0] = new_strategy


def __getattr__(name: str) -> Any:
    import multiprocessing

    return getattr(multiprocessing, name)
