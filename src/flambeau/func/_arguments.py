"""Arguments of transforms: which are differentiated, and what functions may return."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.autograd._modes import Recording
from flambeau.core.objects import TensorBase

from . import _pytree


def chosen(argnums: Any, args: tuple) -> Any:
    """The arguments that argnums names: one, or a tuple."""
    if isinstance(argnums, int) and not isinstance(argnums, bool):
        return args[_number(argnums, args)]
    if not isinstance(argnums, tuple) or not all(isinstance(i, int) for i in argnums):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    if not argnums:
        raise RuntimeError("argnums must be non-empty")
    numbers = tuple([_number(i, args) for i in argnums])
    if len(set(numbers)) != len(numbers):
        raise RuntimeError(f"argnums elements must be unique, got {argnums}")
    return tuple([args[i] for i in numbers])


def _number(i: int, args: tuple) -> int:
    if not -len(args) <= i < len(args):
        raise RuntimeError(f"Got argnum={i}, but only {len(args)} positional inputs")
    return i % len(args)


def replaced(argnums: Any, args: tuple, values: Any) -> tuple:
    """args with those that argnums names replaced."""
    found = list(args)
    if isinstance(argnums, int):
        found[argnums] = values
    else:
        for i, v in zip(argnums, values, strict=True):
            found[i] = v
    return tuple(found)


def tensors(tree: Any, what: str) -> tuple[list, Any]:
    """Leaves, all tensors, and their structure."""
    leaves, spec = _pytree.flatten(tree)
    for t in leaves:
        if not isinstance(t, TensorBase):
            raise RuntimeError(f"{what}, got unsupported type {type(t)}")
    return leaves, spec


def inputs(tree: Any, name: str) -> tuple[list, Any]:
    """Tensors to differentiate."""
    leaves, spec = _pytree.flatten(tree)
    for t in leaves:
        if not isinstance(t, TensorBase):
            raise ValueError(f"{name}: Thing passed to transform API must be Tensor, got {type(t)}: leave other arguments "
                             "out of argnums, or bind them with functools.partial.")
    return leaves, spec


def called(func: Callable, args: tuple, kwargs: dict, has_aux: bool, name: str) -> tuple[Any, Any]:
    """(output, aux) of func, recorded."""
    with Recording():
        out = func(*args, **kwargs)
    if not has_aux:
        return out, None
    if not (isinstance(out, tuple) and len(out) == 2):
        raise RuntimeError(f"{name}: output of function f should be a tuple: (output, aux) if has_aux is True")
    return out


def aux_of(aux: Any, name: str) -> Any:
    """aux holds tensors only."""
    tensors(aux, f"{name}: Expected tensors in aux")
    return aux
