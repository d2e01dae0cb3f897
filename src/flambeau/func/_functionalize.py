"""`functionalize`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def functionalize(func: Callable, *, remove: str = "mutations") -> Callable:
    """A function that returns what `func` returns, and leaves its arguments as `func` does.

    In PyTorch it replaces in-place operators on the way, for tracers and compilers that cannot take them; seen from
    outside the function is the same. Nothing here needs the replacement: vmap and the derivatives follow in-place operators.

    Args:
        remove: "mutations" or "mutations_and_views".

    Raises:
        RuntimeError: remove is neither word.

    >>> functionalize(lambda x: x.clone().add_(1))(flambeau.tensor([1.0])).tolist()
    [2.0]
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError("functionalize(f, remove='mutations'): Valid options for argument 'remove' are: 'mutations' and "
                           f"'mutations_and_views', not {remove!r}")

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    return wrapped
