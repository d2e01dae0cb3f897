"""`rearrange`: transpose, split and join dimensions by naming them."""

from __future__ import annotations

import math
import re
from typing import Any

from flambeau.core.objects import TensorBase, shape_of
from flambeau.core.state import state

_TOKEN = re.compile(r"\.\.\.|[A-Za-z0-9_]+|[()]|\S")
Axis = list[str]       # the names that one dimension is made of; "1" is left out


class Group(Axis):
    """The names within parentheses."""


def _parse(side: str) -> list[Axis]:
    """The dimensions of one side of a pattern."""
    found: list[Axis] = []
    group: Axis | None = None
    for token in _TOKEN.findall(side):
        if token == "(":
            if group is not None:
                raise ValueError(f"rearrange: parentheses within parentheses in {side!r}: one level groups dimensions")
            group = Group()
        elif token == ")":
            if group is None:
                raise ValueError(f"Imbalanced parentheses in expression: {side!r}")
            found.append(group)
            group = None
        elif token == "..." or token == "1" or token.isidentifier():
            if token.startswith("_") or token.endswith("_"):
                raise ValueError(f"Invalid axis identifier: {token}: names neither begin nor end with an underscore")
            own = [] if token == "1" else [token]
            if group is None:
                found.append(own)
            else:
                group.extend(own)
        elif token.isdigit():
            raise ValueError(f"rearrange only supports unnamed axes of size 1, not {token}: give the size a name, and its "
                             "value as a keyword")
        else:
            raise ValueError(f"rearrange: unknown character {token!r} in {side!r}")
    if group is not None:
        raise ValueError(f"Imbalanced parentheses in expression: {side!r}")
    names = [n for axis in found for n in axis]
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        raise ValueError(f"Indexing expression {side!r} contains duplicate dimension {twice[0]!r}")
    return found


def _expanded(axes: list[Axis], names: list[str]) -> list[Axis]:
    """The ellipsis as so many dimensions: each by itself, or within the parentheses that it stands in."""
    found: list[Axis] = []
    for axis in axes:
        if axis == ["..."] and not isinstance(axis, Group):
            found.extend([n] for n in names)
        else:
            found.append([m for n in axis for m in (names if n == "..." else [n])])
    return found


def _sizes(axes: list[Axis], shape: tuple, lengths: dict[str, int]) -> dict[str, int]:
    """The length of each name on the left."""
    known = dict(lengths)
    for axis, size in zip(axes, shape, strict=True):
        unknown = [n for n in axis if n not in known]
        product = math.prod([known.get(n, 1) for n in axis])
        if len(unknown) > 1:
            raise ValueError(f"rearrange: cannot infer the sizes of two dimensions at once, {' and '.join(unknown)}: give "
                             "one as a keyword")
        if unknown and product and size % product == 0:
            known[unknown[0]] = size // product
        elif unknown or product != size:
            raise ValueError(f"rearrange: a dimension of size {size} does not fit ({' '.join(axis)}), with the sizes "
                             f"{ {n: known[n] for n in axis if n in known} }: sizes do not match")
    return known


def rearrange(tensor: Any, pattern: str, **axes_lengths: int) -> Any:
    """A tensor with its dimensions reordered, split and joined as a pattern says.

    Args:
        tensor: a tensor; or several of one shape, stacked along a new first dimension.
        pattern: "left -> right": names of the dimensions, `...` for any others, `1` for one of size 1. Parentheses join
            names to one dimension on the right, or split one on the left.
        axes_lengths: sizes of names that the tensor does not tell.

    Raises:
        ValueError: the pattern cannot be read, or does not fit the tensor.

    Source: Rogozhnikov, 2022, "Einops: Clear and reliable tensor manipulations with Einstein-like notation".

    >>> rearrange(flambeau.zeros(2, 3, 4), "n c (h w) -> n (h c) w", h=2).shape
    torch.Size([2, 6, 2])
    """
    t: Any = tensor if isinstance(tensor, TensorBase) else state.public("stack")(tensor)
    sides = pattern.split("->")
    if len(sides) != 2:
        raise ValueError(f"Pattern must contain a single '->' separator: {pattern!r}")
    left, right = _parse(sides[0]), _parse(sides[1])
    a, b = ({n for axis in side for n in axis} for side in (left, right))
    if "..." in b and "..." not in a:
        raise ValueError(f"Ellipsis found in right side, but not left side of a pattern {pattern!r}")
    if a != b:
        raise ValueError(f"Identifiers only on one side of rearrange expression (should be on both): {sorted(a ^ b)}")
    if any("..." in axis and isinstance(axis, Group) for axis in left):
        raise ValueError(f"Ellipsis in parentheses on the left side is not allowed: {pattern!r}")
    unused = sorted(set(axes_lengths) - a)
    if unused:
        raise ValueError(f"Identifiers not found in rearrange expression: {unused}")
    shape = tuple(shape_of(t))
    rest = len(shape) - len([axis for axis in left if axis != ["..."]])
    if rest < 0 or (rest and "..." not in a):
        raise ValueError(f"Number of dimensions in pattern ({len(left)}) must be equal to the number of dimensions in the "
                         f"tensor ({len(shape)}): the tensor has shape {list(shape)}")
    others = [f"...{i}" for i in range(rest)]
    left, right = _expanded(left, others), _expanded(right, others)
    known = _sizes(left, shape, axes_lengths)
    order = [n for axis in left for n in axis]
    split = t.reshape([known[n] for n in order])
    turned = split.permute([order.index(n) for axis in right for n in axis])
    return turned.reshape([math.prod([known[n] for n in axis]) for axis in right])
