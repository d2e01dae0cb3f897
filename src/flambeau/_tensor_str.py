"""`torch._tensor_str`: the printed form of a tensor's values, and the options of printing."""

from __future__ import annotations

from typing import Any

from .core.objects import array_of
from .tensor import Tensor, _printing

__all__ = ["PRINT_OPTS", "_tensor_str"]


class _PrintOptionsNow:
    """The options now in force, as attributes; they are set by `set_printoptions`."""

    def __getattr__(self, name: str) -> Any:
        try:
            return _printing.get_printoptions()[name]
        except KeyError:
            known = ", ".join(_printing.get_printoptions())
            raise AttributeError(f"print options have no {name!r}; there are {known}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        getattr(self, name)      # an unknown one is an AttributeError here too
        # every call of set_printoptions that leaves sci_mode out sets it back
        _printing.set_printoptions(**{"sci_mode": self.sci_mode, name: value})


PRINT_OPTS = _PrintOptionsNow()


def _tensor_str(self: Tensor, indent: int) -> str:
    """The values of a tensor as `print` shows them, without the facts; later lines are indented.

    >>> from flambeau._tensor_str import _tensor_str
    >>> _tensor_str(flambeau.tensor([[1, 2], [3, 40]]), indent=0)
    '[[ 1,  2],\\n [ 3, 40]]'
    """
    return _printing.values_text(array_of(self), indent)
