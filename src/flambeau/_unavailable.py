"""Names of PyTorch that flambeau does not have: a program may import them, and learns what to do when it uses one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Missing(type):
    """The class of classes of which no object can be made; `isinstance` answers False for everything."""

    instead: str

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{cls.__module__}.{cls.__qualname__} is not supported by flambeau: {cls.instead}")


def missing_class(module: str, name: str, instead: str) -> type:
    """A class to name in annotations, `isinstance` and base lists; making an object of it raises."""
    return Missing(name, (), {"__module__": module, "__doc__": f"Not supported: {instead}", "instead": instead})


def missing_function(module: str, name: str, instead: str) -> Callable:
    """A function that raises NotImplementedError when it is called."""

    def function(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{module}.{name}() is not supported by flambeau: {instead}")

    function.__name__ = function.__qualname__ = name
    function.__module__ = module
    function.__doc__ = f"Not supported: {instead}"
    return function


def missing(module: str, names: str, instead: str) -> dict[str, Any]:
    """Functions, and classes where the name begins with a capital letter, for names separated by spaces."""
    found: dict[str, Any] = {}
    for name in names.split():
        kind = missing_class if name.lstrip("_")[:1].isupper() else missing_function
        found[name] = kind(module, name, instead)
    return found


def refusal(module: str, instead: str) -> Callable[[str], Any]:
    """A `__getattr__` for the module: every further name is an AttributeError that says what to do."""

    def getattribute(name: str) -> Any:
        raise AttributeError(f"module '{module}' has no attribute '{name}'" + ("" if name.startswith("__") else f": {instead}"))

    return getattribute
