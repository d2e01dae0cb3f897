"""Padding at the borders: by a constant, by reflection, by repetition, or around."""

from __future__ import annotations

from typing import Any

from flambeau.nn import functional as F

from .module import Module
from .utils import ntuple


class _Pad(Module):
    """Pads the last dimensions: (left, right, top, bottom, ...), or one number for all sides."""

    __constants__ = ["padding"]
    mode = "constant"
    n_dims = 1
    # (unbatched, batched) numbers of dimensions that the mode accepts; None: F.pad decides
    checked = False

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding = ntuple(2 * self.n_dims, "sides")(padding)

    def forward(self, input: Any) -> Any:
        if self.checked and input.dim() not in (self.n_dims + 1, self.n_dims + 2):
            raise ValueError(f"expected {self.n_dims + 1}D or {self.n_dims + 2}D input (got {input.dim()}D "
                             "input)")
        return F.pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPad(_Pad):
    __constants__ = ["padding", "value"]

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Any) -> Any:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPad):
    """Pads the last dimension with a constant."""


class ConstantPad2d(_ConstantPad):
    """Pads the last two dimensions with a constant."""

    n_dims = 2


class ConstantPad3d(_ConstantPad):
    """Pads the last three dimensions with a constant."""

    n_dims = 3


class ZeroPad1d(ConstantPad1d):
    """Pads the last dimension with zeros."""

    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    extra_repr = _Pad.extra_repr


class ZeroPad2d(ConstantPad2d):
    """Pads the last two dimensions with zeros."""

    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    extra_repr = _Pad.extra_repr


class ZeroPad3d(ConstantPad3d):
    """Pads the last three dimensions with zeros."""

    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    extra_repr = _Pad.extra_repr


class ReflectionPad1d(_Pad):
    """Pads the last dimension by reflection; the border itself is not repeated."""

    mode = "reflect"


class ReflectionPad2d(_Pad):
    """Pads the last two dimensions by reflection."""

    mode = "reflect"
    n_dims = 2


class ReflectionPad3d(_Pad):
    """Pads the last three dimensions by reflection."""

    mode = "reflect"
    n_dims = 3


class ReplicationPad1d(_Pad):
    """Pads the last dimension with its border values."""

    mode = "replicate"


class ReplicationPad2d(_Pad):
    """Pads the last two dimensions with their border values."""

    mode = "replicate"
    n_dims = 2


class ReplicationPad3d(_Pad):
    """Pads the last three dimensions with their border values."""

    mode = "replicate"
    n_dims = 3


class CircularPad1d(_Pad):
    """Pads the last dimension with the values of its other end."""

    mode = "circular"
    checked = True


class CircularPad2d(_Pad):
    """Pads the last two dimensions with the values of the other end."""

    mode = "circular"
    n_dims = 2
    checked = True


class CircularPad3d(_Pad):
    """Pads the last three dimensions with the values of the other end."""

    mode = "circular"
    n_dims = 3
    checked = True
