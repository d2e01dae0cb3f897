"""Results with named fields: `values, indices = t.max(0)`, or `t.max(0).values`. Found as `torch.return_types`.

Each is a tuple whose class is made from its operator's name and fields, once. As PyTorch's, it is built from one
sequence and prints one field a line.
"""

from __future__ import annotations

import operator
import sys
import types
from collections.abc import Iterable
from typing import Any

return_types = types.ModuleType("torch.return_types", "Results with named fields.")


class NamedResult(tuple):
    """A tuple of one operator's outputs, with names."""

    __slots__ = ()
    __match_args__: tuple[str, ...] = ()
    n_fields = n_sequence_fields = n_unnamed_fields = 0

    def __new__(cls, values: Iterable[Any], dict: Any = None) -> Any:     # files of PyTorch pass an empty dict too
        self = super().__new__(cls, values)
        if len(self) != cls.n_fields:
            raise TypeError(f"{cls.__module__}.{cls.__name__}() takes a {cls.n_fields}-sequence "
                            f"({len(self)}-sequence given)")
        return self

    def __repr__(self) -> str:
        fields = ",\n".join([f"{name}={value!r}" for name, value in zip(self.__match_args__, self, strict=True)])
        return f"torch.return_types.{type(self).__name__}(\n{fields})"

    def __reduce__(self) -> tuple:
        return rebuild, (type(self).__name__, tuple(self))


def rebuild(name: str, values: tuple) -> Any:
    """A result from its class's name: how it is unpickled and copied."""
    return getattr(return_types, name)(values)


def return_type(name: str, *fields: str) -> type:
    """The class of an operator's results, made at the first call."""
    found = getattr(return_types, name, None)
    if found is None:
        body: dict[str, Any] = {f: property(operator.itemgetter(i)) for i, f in enumerate(fields)}
        body.update(__slots__=(), __match_args__=fields, n_fields=len(fields), n_sequence_fields=len(fields),
                    n_unnamed_fields=0, __module__="torch.return_types", __doc__=f"{name}({', '.join(fields)})")
        found = type(name, (NamedResult,), body)
        setattr(return_types, name, found)
    return found


for _name in ("max", "min", "median", "nanmedian", "mode", "kthvalue", "sort", "topk", "cummax", "cummin"):
    return_type(_name, "values", "indices")

sys.modules.setdefault("flambeau.return_types", return_types)
