"""The errors of reading a saved file."""

from __future__ import annotations

import pickle
import reprlib
from typing import Any


class CheckpointError(RuntimeError, pickle.UnpicklingError):
    """A file is no checkpoint, or is damaged. The message says what was found, where, and what to do.

    Typical causes: a download or a copy that was cut short, a program killed while it wrote in place, a file of
    another format under a checkpoint's name.
    """


class EmptyFileError(CheckpointError, EOFError):
    """A file, or what is left of it behind the current position, has no bytes at all."""


class UnsafeGlobalError(CheckpointError):
    """A file asks for a function or class that is not on the list of those that weights_only=True permits.

    Nothing of it has been called. If you trust whoever made the file, permit the name with
    `torch.serialization.add_safe_globals`, or read the file with weights_only=False.
    """


# Modules through which a pickle reaches the operating system
BLOCKED_MODULES = frozenset(("sys", "os", "posix", "nt"))


def refused(name: str) -> UnsafeGlobalError:
    """The error for a global that is not on the list."""
    module = name.rpartition(".")[0]
    if module.partition(".")[0] in BLOCKED_MODULES:
        return UnsafeGlobalError(
            f"Weights only load failed: the file asks for {name} (Trying to load unsupported GLOBAL {name} "
            f"whose module {module} is blocked). It would run commands on this machine. Nothing was "
            "executed. Do not load this file unless you know why it does so: only weights_only=False would "
            "run it.")
    return UnsafeGlobalError(
        f"Weights only load failed: Unsupported global: GLOBAL {name} was not an allowed global by default. "
        "Nothing was executed. A file of weights needs tensors and plain containers only. If you trust "
        f"this class or function, permit it: torch.serialization.add_safe_globals([{name}]), or the context "
        f"manager torch.serialization.safe_globals([{name}]). If you trust the whole file, torch.load(..., "
        "weights_only=False) reads it, and runs whatever code it contains.")


def short(value: Any) -> str:
    """A value of a file in a few words, whatever it is: a file can make values whose `repr` never ends."""
    if isinstance(value, (str, bytes, int, float, tuple, list, dict)) or value is None:
        return _short.repr(value)
    name = getattr(value, "__name__", None)
    return name if isinstance(name, str) else f"a {type(value).__name__}"


class _Short(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxtuple, self.maxlist, self.maxdict = 2, 6, 6, 4

    def repr_instance(self, x: Any, level: int) -> str:
        return f"<{type(x).__name__}>"


_short = _Short()
