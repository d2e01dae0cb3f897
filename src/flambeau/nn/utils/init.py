"""Making a layer without drawing its initial values."""

from __future__ import annotations

import inspect
from typing import Any

__all__ = ["skip_init"]


def skip_init(module_cls: Any, *args: Any, **kwargs: Any) -> Any:
    """A layer whose parameters are allocated, but not initialised: their values are arbitrary.

    Args:
        module_cls: a Module class whose constructor takes `device`. args, kwargs: of the constructor.

    Raises:
        RuntimeError: no Module class, or its constructor takes no device.
    """
    import flambeau

    if not isinstance(module_cls, type):
        raise TypeError(f"skip_init() takes a Module class and its arguments, not {type(module_cls).__name__}")
    if not issubclass(module_cls, flambeau.nn.Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError(f"{module_cls.__name__} must support a 'device' arg to skip initialization")
    device = kwargs.pop("device", "cpu")
    return module_cls(*args, device="meta", **kwargs).to_empty(device=device)
