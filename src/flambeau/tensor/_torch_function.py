"""`__torch_function__`: classes that see, or replace, every public function called on them.

Nothing is paid for it until the first such class, or mode, appears: then each public function and each method of
Tensor is replaced by an `Overridable`, which looks at its arguments first.
"""

from __future__ import annotations

import functools
import importlib
import sys
import threading
from collections.abc import Callable, Iterable
from types import MethodType, ModuleType
from typing import Any

from flambeau.core.objects import TensorBase
from flambeau.core.state import state

from . import _functions

_local = threading.local()
_installed = [False]
_NAMESPACES = ("", ".nn.functional", ".special", ".linalg", ".fft")
# Never overridable: construction, identity, and what the protocol itself is made of
_LEFT_ALONE = frozenset((
    "__new__", "__init__", "__init_subclass__", "__class__", "__class_getitem__", "__getattribute__", "__setattr__",
    "__delattr__", "__hash__", "__dir__", "__torch_function__", "__subclasshook__", "__sizeof__", "__reduce__",
    "__reduce_ex__", "__deepcopy__", "__copy__", "__getstate__", "__setstate__", "as_subclass", "__array_wrap__", "__dict__",
    "__weakref__", "__doc__", "__module__", "__annotations__",
))
_PROPERTIES = ("T", "mT", "H", "mH", "data", "real", "imag", "shape", "dtype", "device", "ndim", "grad", "requires_grad",
               "is_leaf", "grad_fn", "layout", "itemsize", "nbytes")
_OPERATORS = {"__add__": "add", "__radd__": "add", "__sub__": "sub", "__mul__": "mul", "__rmul__": "mul",
              "__truediv__": "div", "__ne__": "ne", "__lt__": "lt", "__le__": "le", "__gt__": "gt", "__ge__": "ge",
              "__neg__": "neg", "__abs__": "abs", "__matmul__": "matmul", "__pow__": "pow", "__mod__": "remainder",
              "__iadd__": "add_", "__isub__": "sub_", "__imul__": "mul_", "__itruediv__": "div_", "__ipow__": "pow_",
              "__ifloordiv__": "floor_divide_", "__pos__": "positive"}


def _disabled_torch_function_impl(func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
    """A `__torch_function__` that does nothing: results are plain tensors."""
    with DisableTorchFunctionSubclass():
        return func(*args, **(kwargs or {}))


_OFF = (_disabled_torch_function_impl,)


class DisableTorchFunctionSubclass:
    """Inside the block, in this thread, no class's `__torch_function__` is called (modes are)."""

    def __enter__(self) -> DisableTorchFunctionSubclass:
        _local.off = getattr(_local, "off", 0) + 1
        return self

    def __exit__(self, *error: Any) -> None:
        _local.off -= 1


class DisableTorchFunction:
    """Inside the block, in this thread, neither classes nor modes are called."""

    def __enter__(self) -> DisableTorchFunction:
        _local.off = getattr(_local, "off", 0) + 1
        self.modes = getattr(_local, "modes", [])
        _local.modes = []
        return self

    def __exit__(self, *error: Any) -> None:
        _local.off -= 1
        _local.modes = self.modes


def implementation(x: Any) -> Any:
    """The `__torch_function__` that x brings along, or None."""
    cls = type(x)
    if cls.__module__ == "builtins":
        return None
    f = getattr(cls, "__torch_function__", None)
    if f is None or f in _OFF:
        return None
    if isinstance(x, TensorBase) and cls is _tensor_class():
        return None
    return f


@functools.cache
def _tensor_class() -> Any:
    return state.new


def overloaded(args: Iterable) -> list:
    """The arguments with a `__torch_function__`, one of each class, subclasses before their bases."""
    found: list = []
    for x in args:
        for y in x if type(x) in (list, tuple) else (x,):
            if implementation(y) is None or any(type(z) is type(y) for z in found):
                continue
            place = next((i for i, z in enumerate(found) if issubclass(type(y), type(z))), len(found))
            found.insert(place, y)
    return found


def name_of(func: Any) -> str:
    """The public name of a function."""
    return getattr(func, "__name__", str(func))


def handle(func: Any, relevant: list, args: tuple, kwargs: dict) -> Any:
    """Ask the modes, then the classes; TypeError when none takes it."""
    types = tuple(type(x) for x in relevant)
    modes = getattr(_local, "modes", None)
    if modes:
        mode, rest = modes[-1], modes[:-1]
        _local.modes = rest
        try:
            result = mode.__torch_function__(func, types, args, kwargs)
        finally:
            _local.modes = modes
        if result is not NotImplemented:
            return result
    for x in relevant:
        result = type(x).__torch_function__(func, types, args, kwargs)
        if result is not NotImplemented:
            return result
    raise TypeError(
        f"Multiple dispatch failed for 'torch.{name_of(func)}'; all __torch_function__ handlers returned NotImplemented: "
        + ", ".join(t.__name__ for t in types))


class Overridable:
    """A public function that first asks its arguments' classes, and the modes. Equal to the function that it wraps."""

    def __init__(self, fn: Callable, name: str, module: str, owner: str = "") -> None:
        functools.update_wrapper(self, fn)
        self.__name__ = name
        self.__module__, self.__qualname__ = module, owner + name       # where pickle finds it
        self.fn = fn
        self.shown: Any = self      # what __torch_function__ is told

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        modes = getattr(_local, "modes", None)
        if modes or not getattr(_local, "off", 0):
            relevant = overloaded((*args, *kwargs.values())) if not getattr(_local, "off", 0) else []
            if relevant or modes:
                return handle(self.shown, relevant, args, kwargs)
        return self.fn(*args, **kwargs)

    def __get__(self, obj: Any, cls: Any = None) -> Any:
        return self if obj is None else MethodType(self, obj)

    def __eq__(self, other: object) -> bool:
        return other is self or other is self.fn or (isinstance(other, Overridable) and other.fn is self.fn)

    def __hash__(self) -> int:
        return hash(self.fn)

    def __repr__(self) -> str:
        return f"<function {self.__name__}>"

    def __reduce__(self) -> Any:
        return self.__qualname__


class OverridableProperty:
    """A property of Tensor that first asks the tensor's class; functions are told of `Tensor.shape.__get__`."""

    def __init__(self, name: str, original: Any) -> None:
        self.name, self.original = name, original
        self.__doc__ = getattr(original, "__doc__", None)

    def __get__(self, obj: Any, cls: Any = None) -> Any:
        if obj is None:
            return self
        if (not getattr(_local, "off", 0) and implementation(obj) is not None) or getattr(_local, "modes", None):
            relevant = [obj] if not getattr(_local, "off", 0) and implementation(obj) is not None else []
            return handle(self.__get__, relevant, (obj,), {})
        return self.original.__get__(obj, cls)

    def __set__(self, obj: Any, value: Any) -> None:
        self.original.__set__(obj, value)

    def __delete__(self, obj: Any) -> None:
        self.original.__delete__(obj)


def convert(result: Any, cls: Any) -> Any:
    """Tensors in a result as instances of cls."""
    if isinstance(result, TensorBase):
        return result if isinstance(result, cls) else result.as_subclass(cls)        # type: ignore[attr-defined]
    if isinstance(result, (tuple, list)):
        values = [convert(x, cls) for x in result]
        return type(result)(*values) if hasattr(result, "_fields") else type(result)(values)
    return result


_PLAIN_RESULTS = frozenset(("grad", "_base", "_grad"))


def default(cls: Any, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
    """Tensor's own `__torch_function__`: run the function, and give its results the subclass."""
    if not all(issubclass(cls, t) for t in types):
        return NotImplemented
    with DisableTorchFunctionSubclass():
        result = func(*args, **(kwargs or {}))
        owner = getattr(func, "__self__", None)
        if cls is _tensor_class() or isinstance(owner, OverridableProperty) and owner.name in _PLAIN_RESULTS:
            return result
        return convert(result, cls)


def install() -> None:
    """Make public functions and methods overridable; once."""
    if _installed[0]:
        return
    _installed[0] = True
    package = __name__.partition(".")[0]
    importlib.import_module(package + ".nn.functional")     # what is loaded later would not be covered
    for suffix in _NAMESPACES:
        module = sys.modules.get(package + suffix)
        if module is not None:
            _wrap_module(module)
    _wrap_class(_tensor_class())


def _wrap_module(module: ModuleType) -> None:
    from flambeau.ops import REGISTRY

    known = {n for r in REGISTRY.values() for n in (r.name, *r.aliases, r.name + "_", *(a + "_" for a in r.aliases))}
    functional = module.__name__.endswith("functional")
    for name, value in list(vars(module).items()):
        if name.startswith("_") or isinstance(value, (type, ModuleType, Overridable)) or not callable(value):
            continue
        if name in known or functional:
            setattr(module, name, Overridable(value, name, module.__name__))


def _wrap_class(cls: Any) -> None:
    seen: dict[str, Any] = {}
    for c in cls.__mro__:
        if c is object:
            continue
        for name, value in vars(c).items():
            seen.setdefault(name, value)
    wrapped: dict[str, Overridable] = {}
    for name, value in seen.items():
        if name in _LEFT_ALONE or (name.startswith("_") and not name.startswith("__")):
            continue
        if name in _PROPERTIES:
            setattr(cls, name, OverridableProperty(name, value))
        elif callable(value) and not isinstance(value, (type, staticmethod, classmethod, Overridable)):
            wrapped[name] = Overridable(value, name, cls.__module__, cls.__name__ + ".")
    for name, w in wrapped.items():
        w.shown = wrapped.get(_OPERATORS.get(name, name), w)
        setattr(cls, name, w)


def fallback(function: Any, args: tuple, kwargs: dict) -> Any:
    """After a function refused its arguments: the answer of one that is no tensor but has `__torch_function__`."""
    relevant = overloaded((*args, *kwargs.values()))
    public = _functions.TORCH.get(function.__name__)
    if public is not None and function is state.function(function.__name__):
        function = public
    return handle(function, relevant, args, kwargs) if relevant else NotImplemented
