"""Public functions on batched tensors as a whole (see ops/_mapped.py): on the batch itself, or sample by sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.core.objects import TensorBase, shape_of
from flambeau.ops._mapped import EACH, FIRST, LEADING, LIKE, watcher

from . import _pytree
from ._each import stacked
from ._levels import VmapLevel, innermost, is_batched, is_batched_at, unbatch_at, wrap


def answer(how: str, fn: Callable, args: tuple, kwargs: dict) -> Any:
    """The function's value on batched arguments, or NotImplemented when none is."""
    leaves, spec = _pytree.flatten((args, kwargs))
    level = innermost(leaves)
    if level is None:
        return NotImplemented
    tensors = [t for t in leaves if isinstance(t, TensorBase)]
    if how == LIKE:
        return _like(fn(*args, **kwargs), tensors[0])
    if how == LEADING and any(len(shape_of(t)) > 2 for t in tensors) and len(tensors) > 1:
        how = EACH
    if fn.__name__ == "one_hot" and (kwargs.get("num_classes", args[1] if len(args) > 1 else -1)) == -1:
        how = EACH                  # the number of classes is read from the values
    if how == EACH:
        return _each(fn, leaves, spec, level)
    n = max(len(shape_of(t)) for t in tensors)
    inner = [_inner(how, t, n, level) if isinstance(t, TensorBase) else t for t in leaves]
    new_args, new_kwargs = _pytree.unflatten(inner, spec)
    out = fn(*new_args, **new_kwargs)
    return _pytree.map_leaves(lambda t: wrap(_outer(how, t, level), level) if isinstance(t, TensorBase) else t, out)


def _like(made: TensorBase, source: TensorBase) -> Any:
    """A new tensor with the batches of the one that it is like."""
    found: list[VmapLevel] = []
    while is_batched(source):
        found.append(source._lazy.level)
        source = source._lazy.inner
    for level in reversed(found):
        made = wrap(unbatch_at(made, level).clone(), level)     # type: ignore[attr-defined]
    return made


def _inner(how: str, t: Any, n: int, level: VmapLevel) -> Any:
    whole = unbatch_at(t, level)
    shape = tuple(shape_of(whole))
    if how == LEADING:
        return whole
    if how == FIRST:
        return whole.reshape(shape[0] * shape[1], *shape[2:])
    return whole.reshape(shape[0], *(1,) * (n + 1 - len(shape)), *shape[1:])


def _outer(how: str, t: Any, level: VmapLevel) -> Any:
    shape = tuple(shape_of(t))
    return t.reshape(level.size, shape[0] // level.size, *shape[1:]) if how == FIRST else t


def _each(fn: Callable, leaves: list, spec: Any, level: VmapLevel) -> Any:
    rows: list[list] = []
    structure: Any = None
    for i in range(level.size):
        sample = [_sample(t, i, level) for t in leaves]
        args, kwargs = _pytree.unflatten(sample, spec)
        flat, structure = _pytree.flatten(fn(*args, **kwargs))
        rows.append(flat)
    columns = []
    for column in zip(*rows, strict=True):
        columns.append(wrap(stacked(fn.__name__, list(column)), level))
    return _pytree.unflatten(columns, structure)


def _sample(t: Any, i: int, level: VmapLevel) -> Any:
    return t._lazy.inner.select(0, i) if is_batched_at(t, level) else t


watcher[:] = [answer]
