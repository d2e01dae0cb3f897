"""The `_copy` form of each view operator: the same result with memory of its own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from flambeau.core.objects import make
from flambeau.core.state import state

from ._record import REGISTRY, call, ops, public
from .layout import cloned

_FUNCTIONS = (
    "as_strided",
    "diagonal",
    "narrow",
    "permute",
    "select",
    "squeeze",
    "t",
    "transpose",
    "unsqueeze",
    "expand",
    "unfold",
    "view",
    "view_as_real",
    "view_as_complex",
    "unbind",
    "split",
    "split_with_sizes",
)


def _copies(name: str, fn: Callable) -> Callable:
    @functools.wraps(fn)
    def copied(*args: Any, **kwargs: Any) -> Any:
        if name == "narrow" and args and type(getattr(args[0], "_lazy", None)) is state.sparse:
            return _narrowed(*args, **kwargs)
        out = fn(*args, **kwargs)
        return tuple(cloned(x, "contiguous") for x in out) if isinstance(out, tuple) else cloned(out, "contiguous")

    copied.__name__ = copied.__qualname__ = name + "_copy"
    copied.__doc__ = (
        f"As `{name}`, with a copy instead of a view.\n\nReturns:\n    Contiguous tensors with memory of their own."
    )
    return copied


def _narrowed(input: Any, dim: int, start: int, length: int) -> Any:
    """narrow_copy of a sparse tensor."""
    size = input.shape[dim]
    if length < 0 or not -size <= start <= size:
        raise RuntimeError(f"narrow_copy(): start {start} and length {length} do not fit a dimension of size {size}")
    start %= size + (start == size)
    if start + length > size:
        raise RuntimeError(f"narrow_copy(): start ({start}) + length ({length}) exceeds dimension size ({size}).")
    return input.index_select(dim, make(np.arange(start, start + length)))


def _alias(input: Any) -> Any:
    return ops.alias(input)


# Where PyTorch's copy takes less than the view does
_SAMPLES: dict[str, Callable] = {
    "split": lambda t: [call(t(5, 2), 2), call(t(5, 2), 1, -1), call(t(4), 9)],
    "narrow": lambda t: [call(t(5, 3), 0, 1, 2), call(t(5, 3), 1, 1, 2)],
}

for _name in _FUNCTIONS:
    _record = REGISTRY[_name]
    public(
        name=_name + "_copy",
        method=_name == "narrow",
        samples=_SAMPLES.get(_name, _record.samples),
        differentiable=_record.differentiable and _name != "view_as_complex",
    )(_copies(_name, _record.fn))
public(name="alias_copy", method=False, samples=REGISTRY["positive"].samples)(_copies("alias", _alias))
