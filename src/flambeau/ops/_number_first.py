"""The old order of arguments, `t.add_(alpha, other)`, in which many published optimizers are written."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from flambeau.core.origin import warn_user


def number_first(scalar: str, n_tensors: int) -> Callable[[Callable], Callable]:
    """Let an operator take its factor before its tensors as well; PyTorch deprecates that, and so it warns.

    Args:
        scalar: the keyword of the factor.
        n_tensors: how many operands follow the first.
    """
    def decorate(fn: Callable) -> Callable:
        name = fn.__name__

        @functools.wraps(fn)
        def function(input: Any, *args: Any, **kwargs: Any) -> Any:
            if len(args) == n_tensors + 1 and scalar not in kwargs and isinstance(args[0], (int, float, complex)):
                warn_user(f"This order of {name}'s arguments is deprecated: the factor before the tensors. Write "
                          f"{name}(..., {scalar}={args[0]!r}).")
                kwargs[scalar] = args[0]
                args = args[1:]
            return fn(input, *args, **kwargs)

        return function

    return decorate
