"""Tools for `__torch_function__`: `has_torch_function`, `handle_torch_function`, modes.

A class with a class method `__torch_function__(cls, func, types, args=(), kwargs=None)` is asked whenever a public
function is called with an instance of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .core.objects import TensorBase
from .tensor import _torch_function as _protocol
from .tensor._torch_function import Overridable, name_of

__all__ = ["BaseTorchFunctionMode", "TorchFunctionMode", "get_ignored_functions", "get_overridable_functions",
           "handle_torch_function", "has_torch_function", "has_torch_function_unary", "has_torch_function_variadic",
           "is_tensor_like", "is_tensor_method_or_property", "resolve_name", "wrap_torch_function"]


def has_torch_function(relevant_args: Iterable) -> bool:
    """Whether an argument has a `__torch_function__` of its own, and it is not disabled here."""
    return not getattr(_protocol._local, "off", 0) and bool(
        _protocol.overloaded(tuple(relevant_args)) or getattr(_protocol._local, "modes", None))


def has_torch_function_unary(arg: Any) -> bool:
    """has_torch_function of one argument."""
    return has_torch_function((arg,))


def has_torch_function_variadic(*args: Any) -> bool:
    """has_torch_function of several arguments."""
    return has_torch_function(args)


def handle_torch_function(public_api: Any, relevant_args: Iterable, *args: Any, **kwargs: Any) -> Any:
    """Call the first `__torch_function__` of the arguments that does not answer NotImplemented.

    Raises:
        TypeError: all of them do.
    """
    return _protocol.handle(public_api, _protocol.overloaded(tuple(relevant_args)), args, kwargs)


def wrap_torch_function(dispatcher: Any) -> Any:
    """Decorator: make a function overridable; dispatcher(*args) gives the arguments to ask."""
    def wrap(func: Any) -> Any:
        def inner(*args: Any, **kwargs: Any) -> Any:
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(inner, relevant, *args, **kwargs)
            return func(*args, **kwargs)

        inner.__name__, inner.__doc__ = func.__name__, func.__doc__
        return inner

    return wrap


def is_tensor_like(inp: Any) -> bool:
    """A tensor, or an object of a class with `__torch_function__`."""
    return isinstance(inp, TensorBase) or hasattr(inp, "__torch_function__")


def get_overridable_functions() -> dict[Any, list]:
    """The functions that can be overridden, by the module or class in which they are found."""
    import flambeau

    found: dict[Any, list] = {}
    for space in (flambeau, flambeau.nn.functional, flambeau.Tensor):
        found[space] = [v for k, v in vars(space).items()
                        if callable(v) and not k.startswith("_") and not isinstance(v, type)]
    return found


def get_ignored_functions() -> set:
    """Public functions that never ask: they make tensors, or set modes."""
    import flambeau

    names = ("tensor", "as_tensor", "from_numpy", "zeros", "ones", "empty", "full", "arange", "linspace", "eye", "is_tensor",
             "is_grad_enabled", "set_grad_enabled", "manual_seed", "get_default_dtype", "set_default_dtype")
    return {getattr(flambeau, n) for n in names if hasattr(flambeau, n)}


def is_tensor_method_or_property(func: Any) -> bool:
    """Whether func is found on Tensor."""
    import flambeau

    return func in [v for v in vars(flambeau.Tensor).values() if isinstance(v, Overridable)] or name_of(func) == "__get__"


def resolve_name(f: Any) -> str:
    """A function's name with its module or class."""
    import flambeau

    spaces = ((flambeau.Tensor, "torch.Tensor"), (flambeau, "torch"), (flambeau.nn.functional, "torch.nn.functional"))
    for space, label in spaces:
        if any(v is f for v in vars(space).values()):
            return f"{label}.{name_of(f)}"
    return name_of(f)


class TorchFunctionMode:
    """Inside a `with` block, `__torch_function__(self, func, types, args, kwargs)` sees every public function call."""

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no __torch_function__: define it")

    def __enter__(self) -> Any:
        _protocol.install()
        _protocol._local.modes = [*getattr(_protocol._local, "modes", []), self]
        return self

    def __exit__(self, *error: Any) -> None:
        _protocol._local.modes = _protocol._local.modes[:-1]


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that changes nothing."""

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        return func(*args, **(kwargs or {}))
