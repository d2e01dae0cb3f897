"""`torch.torch_version`: a version that is a str and compares by its numbers."""

from __future__ import annotations

import re
from typing import Any

from ._version import API_VERSION
from ._version import __version__ as own

__all__ = ["TorchVersion"]


def _key(version: Any) -> tuple:
    text = ".".join(map(str, version)) if isinstance(version, (tuple, list)) else str(version)
    release = re.match(r"\d+(\.\d+)*", text)
    numbers = [int(n) for n in release.group().split(".")] if release else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    rest = text[release.end():] if release else text
    before = bool(re.match(r"[.-]?(a|b|rc|alpha|beta|dev|pre)", rest))
    return tuple(numbers), not before, rest if before else ""


class TorchVersion(str):
    """A version; compares with strings and tuples.

    >>> flambeau.torch_version.TorchVersion("1.10.0") > (1, 9)
    True
    """

    def __lt__(self, other: Any) -> bool:
        return _key(self) < _key(other)

    def __le__(self, other: Any) -> bool:
        return _key(self) <= _key(other)

    def __gt__(self, other: Any) -> bool:
        return _key(self) > _key(other)

    def __ge__(self, other: Any) -> bool:
        return _key(self) >= _key(other)

    def __eq__(self, other: Any) -> bool:
        return _key(self) == _key(other)

    def __hash__(self) -> int:
        return str.__hash__(self)


__version__ = TorchVersion(f"{API_VERSION}+flambeau.{own}")
