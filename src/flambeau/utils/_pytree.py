"""Nested containers as flat lists of leaves: `tree_flatten`, `tree_map` and what belongs to them.

Containers are tuples, named tuples, lists, dicts, OrderedDicts, defaultdicts, deques, and classes that
`register_pytree_node` adds; everything else, None too, is a leaf.
"""

from __future__ import annotations

import functools
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

PyTree = Any
Context = Any
KeyPath = tuple
IsLeaf = Callable[[Any], bool] | None


# ------------------------------------------------------------------------------------- ways to a leaf


@dataclass(frozen=True)
class SequenceKey:
    """An index."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        """The part there."""
        return sequence[self.idx]


@dataclass(frozen=True)
class MappingKey:
    """A key of a dict."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        """The part there."""
        return mapping[self.key]


@dataclass(frozen=True)
class GetAttrKey:
    """An attribute."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        """The part there."""
        return getattr(obj, self.name)


def keystr(path: Iterable) -> str:
    """A way to a leaf as Python writes it: "['a'][0]"."""
    return "".join(map(str, path))


def key_get(obj: Any, path: Iterable) -> Any:
    """The part of a container at the end of a way."""
    for key in path:
        obj = key.get(obj)
    return obj


# ------------------------------------------------------------------------------------- kinds of containers


class NodeDef(NamedTuple):
    """How a container is taken apart, (parts, context), and made again."""

    type: Any
    flatten_fn: Callable[[Any], tuple[list, Any]]
    unflatten_fn: Callable[[Iterable, Any], Any]
    keys_fn: Callable[[Any, int], list]


def _indices(context: Any, n: int) -> list:
    return [SequenceKey(i) for i in range(n)]


def _default_dict(parts: Iterable, context: Any) -> defaultdict:
    factory, keys = context
    return defaultdict(factory, zip(keys, parts, strict=True))


SUPPORTED_NODES: dict[Any, NodeDef] = {}


def _register(cls: Any, flatten: Callable, unflatten: Callable, keys: Callable = _indices) -> None:
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten, unflatten, keys)


_register(tuple, lambda t: (list(t), None), lambda parts, _: tuple(parts))
_register(list, lambda t: (list(t), None), lambda parts, _: list(parts))
_register(deque, lambda t: (list(t), t.maxlen), lambda parts, context: deque(parts, context))


# Libraries that register dicts of their own use these three.
def _dict_flatten(d: dict) -> tuple[list, Context]:
    return list(d.values()), list(d)


def _dict_flatten_with_keys(d: dict) -> tuple[list, Context]:
    return [(MappingKey(k), v) for k, v in d.items()], list(d)


def _dict_unflatten(values: Iterable, context: Context) -> dict:
    return dict(zip(context, values, strict=True))


_register(dict, _dict_flatten, _dict_unflatten, lambda keys, n: [MappingKey(k) for k in keys])
_register(OrderedDict, lambda d: (list(d.values()), list(d)), lambda parts, keys: OrderedDict(zip(keys, parts, strict=True)),
          lambda keys, n: [MappingKey(k) for k in keys])
_register(defaultdict, lambda d: (list(d.values()), [d.default_factory, list(d)]), _default_dict,
          lambda context, n: [MappingKey(k) for k in context[1]])
# One entry for all named tuples; the class itself is the context.
_register(namedtuple, lambda t: (list(t), type(t)), lambda parts, cls: cls(*parts),  # noqa: PYI024
          lambda cls, n: [GetAttrKey(name) for name in cls._fields])


def register_pytree_node(cls: type, flatten_fn: Callable, unflatten_fn: Callable, *,
                         flatten_with_keys_fn: Callable | None = None, **accepted: Any) -> None:
    """Make a class a container: flatten_fn(object) -> (parts, context); unflatten_fn(parts, context) -> object.

    Raises:
        ValueError: it is one already.
    """
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node")

    def keys(context: Any, n: int) -> list:
        return _indices(context, n)

    _register(cls, flatten_fn, unflatten_fn, keys)


_register_pytree_node = register_pytree_node


def register_dataclass(cls: type, **accepted: Any) -> type:
    """Make a dataclass a container of its fields."""
    import dataclasses

    names = [f.name for f in dataclasses.fields(cls)]  # type: ignore[arg-type]
    _register(cls, lambda obj: ([getattr(obj, n) for n in names], None),
              lambda parts, _: cls(**dict(zip(names, parts, strict=True))), lambda _, n: [GetAttrKey(k) for k in names])
    return cls


def _get_node_type(tree: Any) -> Any:
    """The key of SUPPORTED_NODES under which a container lies: its class, `namedtuple` for those; of a leaf its class."""
    kind = type(tree)
    named = kind not in SUPPORTED_NODES and isinstance(tree, tuple) and isinstance(getattr(kind, "_fields", None), tuple)
    return namedtuple if named else kind


def _node(tree: Any) -> NodeDef | None:
    return SUPPORTED_NODES.get(_get_node_type(tree))


# ------------------------------------------------------------------------------------- structures


class TreeSpec:
    """The structure of nested containers, without the leaves."""

    def __init__(self, type: Any, context: Any, children_specs: list[TreeSpec], node: NodeDef | None = None) -> None:
        self.type, self.context, self.children_specs = type, context, children_specs
        if node is None and type is not None:        # made by a library that takes containers apart itself
            node = SUPPORTED_NODES[type]
        self._node = node
        self.num_children = len(children_specs)
        self.num_leaves = 1 if node is None else sum(c.num_leaves for c in children_specs)
        self.num_nodes = 1 + sum(c.num_nodes for c in children_specs)

    def is_leaf(self) -> bool:
        """Whether it is a leaf."""
        return self._node is None

    def children(self) -> list[TreeSpec]:
        """The structures of the parts."""
        return list(self.children_specs)

    def child(self, index: int) -> TreeSpec:
        """The structure of one part."""
        return self.children_specs[index]

    def unflatten(self, leaves: Iterable) -> Any:
        """The containers with these leaves.

        Raises:
            ValueError: there are more or fewer than the structure has.
        """
        found = list(leaves)
        if len(found) != self.num_leaves:
            raise ValueError(f"treespec.unflatten(leaves): `leaves` has length {len(found)} but the spec refers to a pytree "
                             f"that holds {self.num_leaves} items ({self}).")
        return self._made(iter(found))

    def _made(self, leaves: Iterator) -> Any:
        if self._node is None:
            return next(leaves)
        return self._node.unflatten_fn([child._made(leaves) for child in self.children_specs], self.context)

    def flatten_up_to(self, tree: Any) -> list:
        """The parts of a tree that stand where this structure has leaves.

        Raises:
            ValueError: the tree has another structure above them.
        """
        if self._node is None:
            return [tree]
        node = _node(tree)
        parts, context = ([], None) if node is None else node.flatten_fn(tree)
        if node is None or node.type is not self._node.type or context != self.context or len(parts) != self.num_children:
            raise ValueError(f"Node type mismatch; expected {self.type}, but got {type(tree)} with other keys or length")
        return [leaf for child, part in zip(self.children_specs, parts, strict=True) for leaf in child.flatten_up_to(part)]

    def _paths(self, before: tuple) -> Iterator[tuple]:
        if self._node is None:
            yield before
            return
        for key, child in zip(self._node.keys_fn(self.context, self.num_children), self.children_specs, strict=True):
            yield from child._paths((*before, key))

    def __eq__(self, other: Any) -> bool:
        return (isinstance(other, TreeSpec) and self.type == other.type and self.context == other.context
                and self.children_specs == other.children_specs)

    def __hash__(self) -> int:
        return hash((self.type, self.num_leaves, self.num_nodes))

    def __repr__(self) -> str:
        if self._node is None:
            return "*"
        parts = ",\n  ".join(repr(c).replace("\n", "\n  ") for c in self.children_specs)
        return f"TreeSpec({self.type.__name__}, {self.context}, [{parts}])"


class LeafSpec(TreeSpec):
    """The structure of a leaf."""

    def __init__(self) -> None:
        super().__init__(None, None, [])


def _flatten(tree: Any, leaves: list, is_leaf: IsLeaf) -> TreeSpec:
    node = None if is_leaf is not None and is_leaf(tree) else _node(tree)
    if node is None:
        leaves.append(tree)
        return LeafSpec()
    parts, context = node.flatten_fn(tree)
    return TreeSpec(node.type, context, [_flatten(p, leaves, is_leaf) for p in parts], node)


# ------------------------------------------------------------------------------------- functions


def tree_flatten(tree: PyTree, is_leaf: IsLeaf = None) -> tuple[list, TreeSpec]:
    """(leaves, structure).

    >>> leaves, spec = tree_flatten({"a": 1, "b": [2, (3,)]})
    >>> leaves, tree_unflatten([10, 20, 30], spec)
    ([1, 2, 3], {'a': 10, 'b': [20, (30,)]})
    """
    leaves: list = []
    spec = _flatten(tree, leaves, is_leaf)
    return leaves, spec


def tree_unflatten(leaves: Iterable, treespec: TreeSpec) -> PyTree:
    """The containers of a structure with these leaves."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError("tree_unflatten(leaves, treespec): Expected `treespec` to be instance of TreeSpec but got item of "
                        f"type {type(treespec)}.")
    return treespec.unflatten(leaves)


def tree_leaves(tree: PyTree, is_leaf: IsLeaf = None) -> list:
    """The leaves."""
    return tree_flatten(tree, is_leaf)[0]


def tree_iter(tree: PyTree, is_leaf: IsLeaf = None) -> Iterator:
    """The leaves, one by one."""
    return iter(tree_leaves(tree, is_leaf))


def tree_structure(tree: PyTree, is_leaf: IsLeaf = None) -> TreeSpec:
    """The structure."""
    return tree_flatten(tree, is_leaf)[1]


def tree_is_leaf(tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether it is a leaf."""
    return (is_leaf is not None and is_leaf(tree)) or _node(tree) is None


def tree_map(func: Callable, tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """The same containers with func(leaf, leaf of each of rests) in place of each leaf."""
    leaves, spec = tree_flatten(tree, is_leaf)
    columns = [leaves, *(spec.flatten_up_to(rest) for rest in rests)]
    return spec.unflatten(func(*row) for row in zip(*columns, strict=True))


def tree_map_(func: Callable, tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """Call func for each leaf; returns the tree."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def _only(kind: Any) -> Callable[[Any], bool]:
    if isinstance(kind, type) or isinstance(kind, tuple) or hasattr(kind, "__args__"):
        return lambda x: isinstance(x, kind)
    if callable(kind):
        return kind
    raise TypeError("Argument must be a type, a tuple of types, or a callable.")


def map_only(type_or_types_or_pred: Any, /) -> Callable:
    """Decorator: the function for values of some types; others are left as they are."""
    fits = _only(type_or_types_or_pred)

    def wrapper(func: Callable) -> Callable:
        @functools.wraps(func)
        def inner(x: Any) -> Any:
            return func(x) if fits(x) else x

        return inner

    return wrapper


def tree_map_only(type_or_types_or_pred: Any, /, func: Callable, tree: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """tree_map of the leaves of some types; others are left as they are."""
    return tree_map(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_only_(type_or_types_or_pred: Any, /, func: Callable, tree: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """Call func for the leaves of some types; returns the tree."""
    return tree_map_(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_all(pred: Callable, tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether pred holds for all leaves."""
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred: Callable, tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether pred holds for any leaf."""
    return any(map(pred, tree_leaves(tree, is_leaf)))


def tree_all_only(type_or_types: Any, /, pred: Callable, tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether pred holds for all leaves of some types."""
    return all(pred(x) for x in tree_leaves(tree, is_leaf) if isinstance(x, type_or_types))


def tree_any_only(type_or_types: Any, /, pred: Callable, tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether pred holds for any leaf of some types."""
    return any(pred(x) for x in tree_leaves(tree, is_leaf) if isinstance(x, type_or_types))


def tree_flatten_with_path(tree: PyTree, is_leaf: IsLeaf = None) -> tuple[list, TreeSpec]:
    """([(way, leaf), ...], structure)."""
    leaves, spec = tree_flatten(tree, is_leaf)
    return list(zip(spec._paths(()), leaves, strict=True)), spec


def tree_leaves_with_path(tree: PyTree, is_leaf: IsLeaf = None) -> list:
    """[(way, leaf), ...]."""
    return tree_flatten_with_path(tree, is_leaf)[0]


def tree_map_with_path(func: Callable, tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """tree_map of a function that gets the way to the leaf first."""
    leaves, spec = tree_flatten(tree, is_leaf)
    columns = [list(spec._paths(())), leaves, *(spec.flatten_up_to(rest) for rest in rests)]
    return spec.unflatten(func(*row) for row in zip(*columns, strict=True))


def _broadcast_to_and_flatten(tree: PyTree, treespec: TreeSpec, is_leaf: IsLeaf = None) -> list | None:
    """The leaves of tree, each repeated for all leaves that the structure has in its place; None if they do not fit."""
    node = None if is_leaf is not None and is_leaf(tree) else _node(tree)
    if node is None:
        return [tree] * treespec.num_leaves
    if treespec.is_leaf():
        return None
    parts, context = node.flatten_fn(tree)
    if treespec._node is None or node.type is not treespec._node.type or len(parts) != treespec.num_children or (
            context != treespec.context):
        return None
    found: list = []
    for part, child in zip(parts, treespec.children_specs, strict=True):
        leaves = _broadcast_to_and_flatten(part, child, is_leaf)
        if leaves is None:
            return None
        found += leaves
    return found
