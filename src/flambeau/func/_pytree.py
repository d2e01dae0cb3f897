"""Nested containers and their leaves: tuples, lists, dictionaries, named tuples. Everything else is a leaf."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

LEAF = ("leaf",)


def is_namedtuple(x: Any) -> bool:
    return isinstance(x, tuple) and (hasattr(x, "_fields") or hasattr(x, "n_sequence_fields"))


def flatten(tree: Any) -> tuple[list, Any]:
    """(leaves, structure)

    >>> flatten({"a": (1, 2)})[0]
    [1, 2]
    """
    leaves: list = []
    return leaves, _flatten(tree, leaves)


def _flatten(tree: Any, leaves: list) -> Any:
    kind = type(tree)
    if kind in (tuple, list, deque) or is_namedtuple(tree):
        return (kind, None, tuple([_flatten(x, leaves) for x in tree]))
    if kind in (dict, OrderedDict, defaultdict):
        keys = tuple(tree)
        context = (keys, tree.default_factory) if kind is defaultdict else (keys, None)
        return (kind, context, tuple([_flatten(tree[k], leaves) for k in keys]))
    leaves.append(tree)
    return LEAF


def unflatten(leaves: Any, spec: Any) -> Any:
    """The tree of a structure with these leaves."""
    return _unflatten(iter(leaves), spec)


def _unflatten(leaves: Any, spec: Any) -> Any:
    if spec is LEAF:
        return next(leaves)
    kind, context, children = spec
    values = [_unflatten(leaves, c) for c in children]
    if context is not None:
        keys, factory = context
        items = zip(keys, values, strict=True)
        return defaultdict(factory, items) if kind is defaultdict else kind(items)
    return kind(*values) if hasattr(kind, "_fields") else kind(values)


def map_leaves(fn: Callable, tree: Any) -> Any:
    leaves, spec = flatten(tree)
    return unflatten([fn(x) for x in leaves], spec)


def count(spec: Any) -> int:
    """How many leaves a structure has."""
    return 1 if spec is LEAF else sum(count(c) for c in spec[2])


def broadcast_to(tree: Any, spec: Any) -> list | None:
    """For each leaf of a structure what tree gives it, a leaf of tree for all below; None if the two differ."""
    found: list = []
    return found if _broadcast(tree, spec, found) else None


def _broadcast(tree: Any, spec: Any, found: list) -> bool:
    if spec is LEAF:
        inner: list = []
        if _flatten(tree, inner) is not LEAF:
            return False
        found.append(tree)
        return True
    inner = []
    own = _flatten(tree, inner)
    if own is LEAF:
        found.extend([tree] * count(spec))
        return True
    kind, context, children = spec
    if own[0] is not kind or len(own[2]) != len(children) or (context is not None and set(own[1][0]) != set(context[0])):
        return False
    parts = [tree[k] for k in context[0]] if context is not None else list(tree)
    return all(_broadcast(p, c, found) for p, c in zip(parts, children, strict=True))
