"""Calling a module with other tensors in the place of its parameters and buffers."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

from flambeau.tensor import Tensor

__all__ = ["functional_call"]


def _owner(module: Any, name: str) -> tuple[Any, str]:
    """The submodule that a dotted name speaks of, and the last part."""
    path, _, last = name.rpartition(".")
    for part in path.split(".") if path else ():
        if part not in module._modules:
            raise AttributeError(f"{type(module).__name__} has no attribute `{part}`, named by '{name}'")
        module = module._modules[part]
    return module, last


def _tied(module: Any, given: dict[str, Any]) -> dict[str, Any]:
    """The same values under all names of each tensor."""
    names: dict[int, list[str]] = {}
    for walk in (module.named_parameters, module.named_buffers):
        for name, t in walk(remove_duplicate=False):
            names.setdefault(id(t), []).append(name)
    result = dict(given)
    for group in names.values():
        named = [n for n in group if n in given]
        if len(group) < 2 or not named:
            continue
        if any(given[n] is not given[named[0]] for n in named):
            raise ValueError(f"functional_call got multiple values for keys {named}, which are tied. Consider using "
                             "tie_weights=False")
        result.update(dict.fromkeys(group, given[named[0]]))
    return result


def _check_names(module: Any, given: dict[str, Any]) -> None:
    known = [n for walk in (module.named_parameters, module.named_buffers) for n, _ in walk(remove_duplicate=False)]
    missing = [n for n in known if n not in given]
    unexpected = [n for n in given if n not in known]
    if missing or unexpected:
        lines = [f"{what} key(s): {', '.join(repr(n) for n in found)}."
                 for what, found in (("Unexpected", unexpected), ("Missing", missing)) if found]
        raise RuntimeError(f"Error(s) in reparametrizing for {type(module).__name__}:\n\t" + "\n\t".join(lines))


@contextlib.contextmanager
def _reparametrize_module(module: Any, parameters_and_buffers: dict[str, Any], tie_weights: bool = False,
                          strict: bool = False) -> Iterator[None]:
    """Inside the block the module has the given tensors."""
    given = parameters_and_buffers
    for value in given.values():
        if not isinstance(value, Tensor):
            raise TypeError(f"{value!r} is not an instance of torch.Tensor")
    if tie_weights:
        given = _tied(module, given)
    if strict:
        _check_names(module, given)
    swapped: list[tuple[dict, str, Any]] = []
    try:
        for name, value in given.items():
            owner, last = _owner(module, name)
            where = next((r for r in (owner._parameters, owner._buffers) if last in r), None)
            if where is not None:
                swapped.append((where, last, where[last]))
                where[last] = value
        yield
        # a buffer that forward assigned anew is the caller's, as one that it wrote into
        for name in given:
            owner, last = _owner(module, name)
            now = owner._buffers.get(last)
            if now is not None and name in parameters_and_buffers:
                parameters_and_buffers[name] = now
    finally:
        for where, last, old in reversed(swapped):
            where[last] = old


def _functional_call(module: Any, parameters_and_buffers: dict[str, Any], args: Any = None, kwargs: Any = None, *,
                     tie_weights: bool = True, strict: bool = False) -> Any:
    if args is None:
        args = ()
    elif not isinstance(args, tuple):
        args = (args,)
    with _reparametrize_module(module, parameters_and_buffers, tie_weights, strict):
        return module(*args, **(kwargs or {}))


def functional_call(module: Any, parameters_and_buffers: dict[str, Any], args: Any = None, kwargs: Any = None, *,
                    tie_weights: bool = True, strict: bool = False) -> Any:
    """Deprecated: `flambeau.func.functional_call`, which takes the same arguments."""
    warnings.warn("`torch.nn.utils.stateless.functional_call` is deprecated in favor of `torch.func.functional_call`.",
                  FutureWarning, stacklevel=2)
    return _functional_call(module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)
