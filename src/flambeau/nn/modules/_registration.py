"""Hooks that see every parameter, buffer and child module as it is registered, and may put another in its place."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from flambeau.utils.hooks import RemovableHandle

parameters: OrderedDict = OrderedDict()
buffers: OrderedDict = OrderedDict()
modules: OrderedDict = OrderedDict()


def _add(registry: OrderedDict, hook: Callable) -> RemovableHandle:
    handle = RemovableHandle(registry)
    registry[handle.id] = hook
    return handle


def register_module_parameter_registration_hook(hook: Callable) -> RemovableHandle:
    """hook(module, name, parameter) when any module gets a parameter; it may return the one to register instead.

    Returns:
        A handle whose remove() takes the hook away. The hook is not asked when a name is reserved by None.

    >>> seen = []
    >>> handle = register_module_parameter_registration_hook(lambda module, name, p: seen.append(name))
    >>> _ = flambeau.nn.Linear(1, 1)
    >>> handle.remove()
    >>> seen
    ['weight', 'bias']
    """
    return _add(parameters, hook)


def register_module_buffer_registration_hook(hook: Callable) -> RemovableHandle:
    """hook(module, name, tensor) when any module gets a buffer, or a new value of one (None too); see above.

    Returns:
        A handle whose remove() takes the hook away.
    """
    return _add(buffers, hook)


def register_module_module_registration_hook(hook: Callable) -> RemovableHandle:
    """hook(module, name, child) when any module gets a child (None too); it may return the one to register instead.

    Returns:
        A handle whose remove() takes the hook away.
    """
    return _add(modules, hook)


def replaced(registry: OrderedDict, module: Any, name: str, value: Any) -> Any:
    """What the hooks of a registry, one after the other, make of a value that is about to be registered."""
    for hook in list(registry.values()):
        answer = hook(module, name, value)
        if answer is not None:
            value = answer
    return value
