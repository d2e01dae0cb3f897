"""`torch.Size`: a tuple that knows it is a shape."""
from __future__ import annotations

from typing import Any

from mypy_extensions import mypyc_attr


@mypyc_attr(native_class=False)
class Size(tuple):  # type: ignore[type-arg]
    """The sizes of a tensor's dimensions.

    >>> Size((2, 3)).numel()
    6
    """

    __slots__ = ()

    def numel(self) -> int:
        n = 1
        for s in self:
            n *= s
        return n

    def __repr__(self) -> str:
        return "torch.Size([" + ", ".join([str(s) for s in self]) + "])"

    def __str__(self) -> str:
        return "torch.Size([" + ", ".join([str(s) for s in self]) + "])"

    def __getitem__(self, key: Any) -> Any:
        r = tuple.__getitem__(self, key)
        return Size(r) if isinstance(key, slice) else r

    def __add__(self, other: Any) -> Any:
        return Size(tuple.__add__(self, tuple(other)))

    def __radd__(self, other: Any) -> Any:
        return Size(tuple(other) + tuple(self))

    def __mul__(self, n: Any) -> Any:
        return Size(tuple.__mul__(self, n))

    def __rmul__(self, n: Any) -> Any:
        return Size(tuple.__mul__(self, n))

    def __reduce__(self) -> Any:
        return (Size, (tuple(self),))
