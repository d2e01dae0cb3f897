"""The outputs of a custom Function become the node's: aliases, in-place inputs, views, constants."""

from __future__ import annotations

from typing import Any

from flambeau.core.apply import apply1
from flambeau.core.errors import leaf_inplace_error
from flambeau.core.inplace import rebase
from flambeau.core.objects import Node, TensorBase, cell_of, dtype_of, extra_of, requires, shape_of
from flambeau.core.origin import warn_user
from flambeau.core.saved import ALIAS
from flambeau.core.state import set_grad_enabled, state
from flambeau.core.views import is_leaf, move_retain


def _same(t: Any, tensors: Any) -> bool:
    return any(t is x for x in tensors)


def finish_outputs(cls: Any, node: Node | None, args: tuple, outputs: list, dirty: tuple, constants: tuple) -> list:
    """Give each output tensor its history; returns what the caller of apply() gets."""
    metas: list[Any] = []
    absent: dict[int, tuple] = {}
    results: list[Any] = []
    marked = [node is not None and isinstance(o, TensorBase) and not _same(o, constants) and state.is_float(dtype_of(o))
              for o in outputs]
    if node is not None:
        for i, o in enumerate(outputs):
            meta = (tuple(shape_of(o)), dtype_of(o)) if isinstance(o, TensorBase) else None
            metas.append(meta if marked[i] else None)
            if meta is not None and not marked[i]:
                absent[i] = meta
        _describe(node, metas, absent)
    for i, o in enumerate(outputs):
        if not isinstance(o, TensorBase):
            results.append(o)
            continue
        is_input = _same(o, args)
        is_dirty = _same(o, dirty)
        if not marked[i]:
            results.append(_constant(o, is_input, is_dirty))
        elif is_dirty:
            results.append(_rewritten(cls, node, o, i, is_input, len(outputs)))
        else:
            if is_input:
                o = _view_of(o)
            o._node, o._nr, o._rg = node, i, True
            results.append(o)
        t = results[-1]
        if t._view is not None and not (is_input and is_dirty):
            t._view.version = cell_of(t).stamp
            if marked[i]:
                t._view.creation = "multi" if sum(marked) > 1 else "custom"
            elif is_input:
                t._view.creation = "custom"
    return results


def _describe(node: Node, metas: list, absent: dict) -> None:
    if len(metas) == 1 and metas[0] is not None:
        node.shape, node.dtype = metas[0]
    else:
        extra_of(node).metas = metas
    if absent:
        node.params["_custom"].constants = absent


def _view_of(t: TensorBase) -> TensorBase:
    """An input returned as it is: a view, so that the input keeps its own history."""
    old = set_grad_enabled(False)
    try:
        return apply1(ALIAS[0], t)
    finally:
        set_grad_enabled(old)


def _constant(t: TensorBase, is_input: bool, is_dirty: bool) -> TensorBase:
    """An output without gradient."""
    if is_dirty:
        cell_of(t).stamp += 1
        if not requires(t):
            return t
    if is_input:
        return t.detach() if requires(t) else _view_of(t)
    if t._rg:
        if t._view is not None:
            return t.detach()
        t._node, t._nr, t._rg = None, 0, False
    return t


def _rewritten(cls: Any, node: Any, t: TensorBase, i: int, is_input: bool, n_outputs: int) -> TensorBase:
    """An input that forward changed in place: the same object, with the node as its history."""
    cell_of(t).stamp += 1
    if requires(t) and is_leaf(t):
        raise leaf_inplace_error(t, False, cls.__name__ + ".apply")
    if t._view is not None and requires(t) and is_leaf(t._view.base):
        raise leaf_inplace_error(t, True, cls.__name__ + ".apply")
    if not is_input:
        warn_user(
            f"{cls.__name__}: ctx.mark_dirty() is for the inputs that forward changes; this tensor is no input, "
            "leave it out.")
    if t._view is not None:
        if n_outputs > 1:
            raise RuntimeError(
                f"{cls.__name__} modifies in place an input that is a view of another Tensor; then it cannot return "
                "more than one "
                "Tensor. Return only the modified input, or change a clone() of it.")
        node.shape, node.dtype = tuple(shape_of(t)), dtype_of(t)
        rebase(t, node)
        return t
    if t._retains:
        move_retain(t, t._node, node, i)
    t._node, t._nr, t._rg = node, i, True
    return t
