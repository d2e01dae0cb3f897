"""What a file names, without reading it."""

from __future__ import annotations

import pickletools
from typing import Any

from ._allowed import Allowed, Budget
from ._errors import CheckpointError, UnsafeGlobalError
from ._files import kind_of, opened
from ._names import modern
from ._zip import Archive


def get_unsafe_globals_in_checkpoint(f: Any) -> list[str]:
    """The functions and classes that a file names and weights_only=True does not permit. Nothing is executed.

    Args:
        f: a path, or a file open in binary mode.

    Raises:
        CheckpointError: the file is not of the zip format, or damaged.

    >>> import io
    >>> file = io.BytesIO()
    >>> flambeau.save({"steps": range(3), "w": flambeau.ones(1)}, file)
    >>> _ = file.seek(0)
    >>> flambeau.serialization.get_unsafe_globals_in_checkpoint(file)
    ['builtins.range']
    """
    with opened(f) as source:
        if kind_of(source) != "zip":
            raise CheckpointError(f"{source.what} is not of the zip format: "
                                  "get_unsafe_globals_in_checkpoint() reads that only")
        data = Archive(source.read, source.size, source.what).read("data.pkl")
        what = source.what
    allowed = Allowed(Budget(0))
    found: dict[str, None] = {}
    for module, name in _named(data, what):
        try:
            allowed.find(module, name)
        except NotImplementedError:
            pass
        except UnsafeGlobalError:
            found[".".join(modern(module, name))] = None
    return list(found)


def _named(data: bytes, what: str) -> list[tuple[str, str]]:
    """The names in a pickle. Protocol 4 takes them from the stack: the last two texts, new or seen before."""
    names: list[tuple[str, str]] = []
    texts: list[str] = []
    memo: dict[int, Any] = {}
    last: Any = None
    try:
        for opcode, given, _ in pickletools.genops(data):
            argument: Any = given
            if opcode.name in ("GLOBAL", "INST"):
                module, _, name = argument.partition(" ")
                names.append((module, name))
            elif opcode.name == "STACK_GLOBAL" and len(texts) >= 2:
                names.append((texts[-2], texts[-1]))
            if opcode.name in ("SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "UNICODE"):
                texts.append(argument)
                last = argument
            elif opcode.name == "MEMOIZE":
                memo[len(memo)] = last
            elif opcode.name in ("BINPUT", "LONG_BINPUT", "PUT"):
                memo[argument] = last
            elif opcode.name in ("BINGET", "LONG_BINGET", "GET"):
                if isinstance(memo.get(argument), str):
                    texts.append(memo[argument])
            else:
                last = None
    except (ValueError, IndexError, UnicodeError) as error:
        raise CheckpointError(f"data.pkl of {what} is damaged: {error}") from None
    return names
