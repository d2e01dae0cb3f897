"""Names of PyTorch that flambeau does not have: a program may import them, and learns what to do when it uses one."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from typing import Any

# What was registered here, in this order: (module, names, what to do instead). `tools/unsupported_page.py` writes
# docs/unsupported.md from it; the names are "" for all others of a module.
REGISTRY: list[tuple[str, str, str]] = []


def written(module: str) -> str:
    """The name of a module in PyTorch: what a program with `import flambeau as torch` writes."""
    package, dot, rest = module.partition(".")
    return "torch" + dot + rest if package == "flambeau" else module


def no_attribute(module: str, name: str, names: Iterable[str] = (), instead: str = "",
                 planned: bool = False) -> AttributeError:
    """The error of `module.name`, which is not among `names`: what it means, the nearest names, what to do instead.

    planned: PyTorch is known to have the name.
    """
    text = f"module '{module}' has no attribute '{name}'"
    if name.startswith("__"):
        return AttributeError(text)
    import difflib

    text += f": {written(module)}.{name} is not supported by flambeau yet"
    text += "." if planned else ", or PyTorch has no such name either."
    near = nearest(name, [n for n in names if n != name], difflib)
    if near:
        text += f" Did you mean {' or '.join(near)}?"
    return AttributeError(text + (" " + instead if instead else ""))


def nearest(name: str, names: Iterable[str], difflib: Any) -> list[str]:
    """Up to three names that a slip of the keyboard, or of capital letters, turns into `name`."""
    by_lower: dict[str, list[str]] = {}
    for n in dict.fromkeys(names):
        if not n.startswith("_"):
            by_lower.setdefault(n.lower(), []).append(n)
    return [n for low in difflib.get_close_matches(name.lower(), by_lower, 3, 0.75) for n in by_lower[low]][:3]


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
    REGISTRY.append((module, names, instead))
    found: dict[str, Any] = {}
    for name in names.split():
        kind = missing_class if name.lstrip("_")[:1].isupper() else missing_function
        found[name] = kind(module, name, instead)
    return found


def missing_module(module: str, name: str, instead: str) -> types.ModuleType:
    """A module whose every name is an AttributeError that says what to do."""
    found = types.ModuleType(f"{module}.{name}", f"Not supported: {instead}")
    found.__getattr__ = refusal(found.__name__, instead)     # type: ignore[method-assign]
    return found


def refusal(module: str, instead: str) -> Callable[[str], Any]:
    """A `__getattr__` for the module: every further name is an AttributeError that says what to do."""
    REGISTRY.append((module, "", instead))

    def getattribute(name: str) -> Any:
        raise no_attribute(module, name, (), "Instead: " + instead.rstrip(".") + ".")

    return getattribute
