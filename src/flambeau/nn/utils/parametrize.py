"""Parametrizations: a parameter computed from others, each time that it is read.

`register_parametrization(layer, "weight", module)` moves the parameter to `layer.parametrizations.weight.original` and
makes `layer.weight` what `module` computes from it. The layer's class becomes a subclass with a property of that name.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import flambeau
from flambeau.nn.modules.container import ModuleDict, ModuleList
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter
from flambeau.tensor import Tensor

__all__ = ["ParametrizationList", "cached", "is_parametrized", "register_parametrization", "remove_parametrizations",
           "transfer_parametrizations_and_params", "type_before_parametrizations"]

_cache_depth = 0
_cache: dict[tuple[int, str], Any] = {}


@contextmanager
def cached() -> Iterator[None]:
    """Inside the block each parametrized tensor is computed once and then remembered.

    >>> import flambeau.nn.utils.parametrize as parametrize
    >>> with parametrize.cached():
    ...     pass
    """
    global _cache_depth
    _cache_depth += 1
    try:
        yield
    finally:
        _cache_depth -= 1
        if not _cache_depth:
            _cache.clear()


def _register(module: Module, name: str, tensor: Any) -> None:
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _take(original: Any, value: Any, what: str) -> None:
    """Put a value into an original tensor, which stays the same object for optimizers."""
    if not isinstance(value, Tensor):
        raise ValueError(f"{what}: `right_inverse` must return a Tensor, got {type(value).__name__}")
    if value.dtype != original.dtype:
        raise ValueError(f"{what}: `right_inverse` may not change the dtype: it gave {value.dtype} for {original.dtype}")
    original.data = value.detach()


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, applied in order to `original`, or to `original0`, `original1`, ...

    Args:
        modules: the first one may have a right_inverse that gives several tensors: its forward then takes as many.
        original: the parameter or buffer.
        unsafe: the result may have another shape or dtype.
    """

    is_tensor: bool

    def __init__(self, modules: Sequence[Module], original: Any, unsafe: bool = False) -> None:
        if len(modules) == 0:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        with flambeau.no_grad():
            new = original
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    try:
                        new = module.right_inverse(new)
                    except NotImplementedError:
                        pass
        if not isinstance(new, (Tensor, Sequence)):
            raise ValueError("right_inverse must return a Tensor or a list or tuple of tensors. Got "
                             f"{type(new).__name__}")
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if self.is_tensor else len(new)
        if self.is_tensor:
            if new is not original:
                _take(original, new, "register_parametrization")
            _register(self, "original", original)
        else:
            for i, value in enumerate(new):
                if not isinstance(value, Tensor):
                    raise ValueError("right_inverse must return a Tensor or a list or tuple of tensors. "
                                     f"Got element {i} of the sequence with type {type(value).__name__}.")
                if isinstance(original, Parameter):
                    value = Parameter(value.detach(), original.requires_grad)
                else:
                    value.requires_grad_(original.requires_grad)
                _register(self, f"original{i}", value)
        if not unsafe:
            _check_result(self(), dtype, shape)

    def right_inverse(self, value: Any) -> None:
        """Set the originals so that the result is `value`; every parametrization must have a right_inverse."""
        with flambeau.no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse. "
                                       "Define it to assign to the tensor, or assign to the original.")
                value = module.right_inverse(value)
            if self.is_tensor:
                _take(self.original, value, "right_inverse")
                return
            if not isinstance(value, Sequence):
                raise ValueError(f"'right_inverse' must return a sequence of tensors. Got {type(value).__name__}.")
            if len(value) != self.ntensors:
                raise ValueError("right_inverse must return as many tensors as before, "
                                 f"{self.ntensors}. Got {len(value)}.")
            for i, v in enumerate(value):
                _take(getattr(self, f"original{i}"), v, f"right_inverse, tensor {i}")

    def forward(self) -> Any:
        modules = list(self)
        if self.is_tensor:
            x = modules[0](self.original)
        else:
            x = modules[0](*(getattr(self, f"original{i}") for i in range(self.ntensors)))
        for module in modules[1:]:
            x = module(x)
        return x


def _check_result(result: Any, dtype: Any, shape: Any) -> None:
    if not isinstance(result, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(result).__name__}.")
    for what, old, new in (("dtype", dtype, result.dtype), ("shape", shape, result.shape)):
        if old != new:
            raise ValueError(f"Registering a parametrization may not change the {what} of the tensor, unless `unsafe` "
                             f"flag is enabled.\nunparametrized {what}: {old}\nparametrized {what}: {new}")


def _refuse_pickle(self: Any) -> None:
    raise RuntimeError("Serialization of parametrized modules is only supported through state_dict(): their class is "
                       "made when a parametrization is registered.")


def _deepcopy(self: Any, memo: dict) -> Any:
    if id(self) in memo:
        return memo[id(self)]
    replica = self.__new__(self.__class__)
    memo[id(self)] = replica
    replica.__dict__ = copy.deepcopy(self.__dict__, memo)
    # a class of its own: what is registered or removed later on the copy is not on the original
    cls = type(self)
    replica.__class__ = type(cls.__name__, cls.__bases__, dict(cls.__dict__))
    return replica


def _inject_class(module: Any) -> None:
    cls = type(module)
    own = {"__getstate__": _refuse_pickle}
    if not hasattr(cls, "__deepcopy__"):
        own["__deepcopy__"] = _deepcopy
    module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), own)


def _inject_property(module: Any, name: str) -> None:
    def compute(self: Any) -> Any:
        try:
            return self.parametrizations[name]()
        except AttributeError as error:     # from a property it would read as: no such attribute
            raise RuntimeError(f"the parametrization of '{name}' failed: {error}") from error

    def get(self: Any) -> Any:
        if not _cache_depth:
            return compute(self)
        key = (id(self), name)
        if key not in _cache:
            _cache[key] = compute(self)
        return _cache[key]

    def set(self: Any, value: Any) -> None:
        self.parametrizations[name].right_inverse(value)

    setattr(type(module), name, property(get, set))


def register_parametrization(module: Module, tensor_name: str, parametrization: Module, *,
                             unsafe: bool = False) -> Module:
    """Make a parameter or buffer the result of a module.

    Args:
        module: whose tensor it is. tensor_name: its name.
        parametrization: called with the original each time that the tensor is read. A method right_inverse, if there
            is one, says what the original must be for a given value.
        unsafe: the result may have another shape or dtype.

    Returns:
        module, now of a subclass of its class.

    Raises:
        ValueError: no such tensor, or a result that does not fit it.

    >>> class Symmetric(flambeau.nn.Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).T
    >>> layer = register_parametrization(flambeau.nn.Linear(2, 2), "weight", Symmetric())
    >>> bool((layer.weight == layer.weight.T).all())
    True
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            before = getattr(module, tensor_name)
            after = parametrization(before)
            _check_result(after, before.dtype, before.shape)
            if hasattr(parametrization, "right_inverse"):
                back = parametrization.right_inverse(after)
                if not isinstance(back, Tensor):
                    raise ValueError(f"parametrization.right_inverse must return a tensor. Got: {type(back).__name__}")
                for what in ("dtype", "shape"):
                    if getattr(back, what) != getattr(before, what):
                        raise ValueError(f"parametrization.right_inverse must return a tensor of the same {what} "
                                         f"as {tensor_name}, unless `unsafe` flag is enabled: got {getattr(back, what)} "
                                         f"for {getattr(before, what)}")
        module.parametrizations[tensor_name].append(parametrization)
        module.parametrizations[tensor_name].unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        original = getattr(module, tensor_name)
        made = ParametrizationList([parametrization], original, unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _inject_class(module)
            module.parametrizations = ModuleDict()
        _inject_property(module, tensor_name)
        module.parametrizations[tensor_name] = made
    else:
        raise ValueError(f"Module '{module}' has no parameter, buffer or parametrized tensor named "
                         f"'{tensor_name}'")
    return module


def is_parametrized(module: Any, tensor_name: str | None = None) -> bool:
    """Whether a module has a parametrized tensor, or one of that name."""
    found = getattr(module, "parametrizations", None)
    if not isinstance(found, ModuleDict):
        return False
    return len(found) > 0 if tensor_name is None else tensor_name in found


def remove_parametrizations(module: Any, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make a parametrized tensor an ordinary one.

    Args:
        leave_parametrized: keep the computed value; else the original's. Only the former is possible when the tensor
            is computed from several.

    Raises:
        ValueError: the tensor is not parametrized, or has several originals and leave_parametrized is False.
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    made = module.parametrizations[tensor_name]
    if made.is_tensor:
        original = made.original
        if leave_parametrized:
            with flambeau.no_grad():
                original.data = getattr(module, tensor_name).detach()
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        original = Parameter(value.detach()) if value.requires_grad else value
    else:
        raise ValueError("leave_parametrized=False needs a tensor that was parametrized from a single one; this "
                         "one comes from a sequence. Pass leave_parametrized=True to keep its value.")
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register(module, tensor_name, original)
    if not is_parametrized(module):
        del module.parametrizations
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Any) -> type:
    """The class of a module without its parametrizations."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(from_module: Any, to_module: Any, tensor_name: str | None = None) -> Any:
    """Give a module copies of another's parametrizations, and of their tensors' values."""
    if not is_parametrized(from_module):
        return to_module
    for name in from_module.parametrizations if tensor_name is None else [tensor_name]:
        source = from_module.parametrizations[name]
        if not hasattr(to_module, name):
            setattr(to_module, name, copy.deepcopy(source.original if source.is_tensor else source.original0))
        for parametrization in source:
            register_parametrization(to_module, name, copy.deepcopy(parametrization), unsafe=source.unsafe)
        target = to_module.parametrizations[name]
        for original in ("original",) if source.is_tensor else tuple(f"original{i}" for i in range(source.ntensors)):
            setattr(target, original, copy.deepcopy(getattr(source, original)))
    return to_module
