"""einsum: the equation read, then permutations, one product for each pair of operands, and sums.

Operands are multiplied from left to right, each pair as one (batched) matrix product; an index is summed as soon as no
later operand has it. All of that follows from the equation and the shapes, so it is worked out once for both and kept: a
plan, which is a list of operator calls on numbered tensors.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from flambeau.core.apply import apply1, apply2
from flambeau.core.objects import TensorBase, shape_of
from flambeau.core.op import slot

from ._record import call, ops, public
from .matmul import BMM, MM
from .parts import DIAGONAL
from .shape import reshaped
from .views import EXPAND, PERMUTE

MUL = slot("mul")
ELLIPSIS = "..."
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

# ------------------------------------------------------------------------------------- the equation


def _read_term(text: str, where: int) -> list[str]:
    """The indices of one operand; the ellipsis is one item."""
    items: list[str] = []
    i = 0
    while i < len(text):
        c = text[i]
        if c == " ":
            i += 1
        elif c in LETTERS:
            items.append(c)
            i += 1
        elif text[i : i + 3] == ELLIPSIS:
            if ELLIPSIS in items:
                raise RuntimeError(f"einsum(): found '.' for operand {where} for which an ellipsis was already found")
            items.append(ELLIPSIS)
            i += 3
        elif c == ".":
            raise RuntimeError(f"einsum(): found '.' for operand {where} that is not part of any ellipsis")
        else:
            raise RuntimeError(
                f"einsum(): invalid subscript given at index {i} in the equation string, subscripts must be in "
                f"[a-zA-Z], found {c!r}"
            )
    return items


def read_equation(equation: str) -> tuple[list[list[str]], list[str] | None]:
    """The indices of each operand, and of the output when the equation gives them."""
    left, arrow, right = equation.partition("->")
    terms = [_read_term(term, k) for k, term in enumerate(left.split(","))]
    return terms, _read_term(right, len(terms)) if arrow else None


def _from_sublists(args: Sequence) -> tuple[str, list]:
    """The form einsum(tensor, [0, 1], tensor, [1, 2], ..., [0, 2]), numbers for letters, as an equation."""

    def read(numbers: Sequence) -> str:
        found = []
        for n in numbers:
            if n is Ellipsis:
                found.append(ELLIPSIS)
            elif isinstance(n, int) and 0 <= n < 52:
                found.append(LETTERS[n])
            else:
                raise ValueError(f"einsum(): subscripts must be in the range [0, 52), got {n}")
        return "".join(found)

    operands = list(args[0::2])
    output = "->" + read(operands.pop()) if len(args) % 2 == 1 else ""
    return ",".join([read(numbers) for numbers in args[1::2]]) + output, operands


def _numbered(items: list[str], n_dims: int, where: int) -> list[str]:
    """The ellipsis as indices of its own, numbered from the right: "...0" is the last."""
    if ELLIPSIS not in items:
        if len(items) != n_dims:
            raise RuntimeError(
                f"einsum(): the number of subscripts in the equation ({len(items)}) does not match the number of dimensions "
                f"({n_dims}) for operand {where} and no ellipsis was given"
            )
        return items
    hidden = n_dims - (len(items) - 1)
    if hidden < 0:
        raise RuntimeError(
            f"einsum(): the number of subscripts in the equation ({len(items) - 1}) is more than the number of "
            f"dimensions ({n_dims}) for operand {where}"
        )
    at = items.index(ELLIPSIS)
    return items[:at] + [f"...{k}" for k in range(hidden - 1, -1, -1)] + items[at + 1 :]


def _output(terms: list[list[str]], output: list[str] | None, n_hidden: int) -> list[str]:
    hidden = [f"...{k}" for k in range(n_hidden - 1, -1, -1)]
    flat = [c for term in terms for c in term]
    if output is None:
        once = sorted(c for c in set(flat) if not c.startswith(".") and flat.count(c) == 1)
        return hidden + once
    at = output.index(ELLIPSIS) if ELLIPSIS in output else None
    for c in output:
        if c == ELLIPSIS:
            continue
        if output.count(c) > 1:
            raise RuntimeError(f"einsum(): output subscript {c} appears more than once in the output")
        if c not in flat:
            raise RuntimeError(f"einsum(): output subscript {c} does not appear in the equation for any input operand")
    return output if at is None else output[:at] + hidden + output[at + 1 :]


def _check_sizes(terms: list[list[str]], shapes: Sequence[tuple]) -> None:
    sizes: dict[str, int] = {}
    for where, (items, shape) in enumerate(zip(terms, shapes, strict=True)):
        for k, (c, n) in enumerate(zip(items, shape, strict=True)):
            old = sizes.get(c, 1)
            if c in items[:k] and shape[items.index(c)] != n:
                raise RuntimeError(
                    f"einsum(): subscript {c} is repeated for operand {where} but the sizes don't match, {n} != "
                    f"{shape[items.index(c)]}"
                )
            if old == 1:
                sizes[c] = n
            elif n not in (1, old):
                name = c if not c.startswith(".") else "in the ellipsis"
                raise RuntimeError(
                    f"einsum(): subscript {name} has size {n} for operand {where} which does not broadcast with "
                    f"previously seen size {old}"
                )


# ------------------------------------------------------------------------------------- the plan


class Plan:
    """Operator calls on numbered tensors: the operands are the first, each call makes the next.

    While it is built, `items` holds the index of each dimension of each tensor, and `shapes` the sizes.
    """

    def __init__(self, terms: list[list[str]], shapes: Sequence[tuple]) -> None:
        self.items = [list(t) for t in terms]
        self.shapes = [tuple(s) for s in shapes]
        self.steps: list[tuple] = []

    def add(self, step: tuple, items: list[str], shape: tuple) -> int:
        self.steps.append(step)
        self.items.append(items)
        self.shapes.append(shape)
        return len(self.shapes) - 1

    def sizes(self, t: int) -> dict[str, int]:
        return dict(zip(self.items[t], self.shapes[t], strict=True))

    def diagonal(self, t: int) -> int:
        """Repeated indices of one operand as its diagonal, which is the last dimension."""
        for c in sorted(set(self.items[t])):
            while self.items[t].count(c) > 1:
                items, shape = self.items[t], self.shapes[t]
                i = items.index(c)
                j = items.index(c, i + 1)
                rest = [k for k in range(len(items)) if k not in (i, j)]
                t = self.add(
                    ("diagonal", t, (0, i, j)), [items[k] for k in rest] + [c], (*[shape[k] for k in rest], shape[i])
                )
        return t

    def sum(self, t: int, gone: Sequence[str]) -> int:
        axes = tuple([k for k, c in enumerate(self.items[t]) if c in gone])
        if not axes:
            return t
        rest = [k for k in range(len(self.items[t])) if k not in axes]
        return self.add(("sum", t, axes), [self.items[t][k] for k in rest], tuple([self.shapes[t][k] for k in rest]))

    def permute(self, t: int, order: Sequence[str]) -> int:
        """The dimensions of t in an order that names all of them."""
        perm = tuple([self.items[t].index(c) for c in order])
        if perm == tuple(range(len(perm))):
            return t
        return self.add(("permute", t, (perm,)), list(order), tuple([self.shapes[t][k] for k in perm]))

    def reshape(self, t: int, items: list[str], shape: tuple, always: bool = False) -> int:
        if shape == self.shapes[t] and not always:
            self.items[t] = items
            return t
        return self.add(("reshape", t, shape), items, shape)

    def align(self, t: int, order: Sequence[str]) -> int:
        """t with its indices in the given order, and size 1 where it lacks one."""
        t = self.permute(t, [c for c in order if c in self.items[t]])
        sizes = self.sizes(t)
        return self.reshape(t, list(order), tuple([sizes.get(c, 1) for c in order]))

    def expand(self, t: int, shape: tuple) -> int:
        return t if self.shapes[t] == shape else self.add(("expand", t, (shape,)), self.items[t], shape)

    def pair(self, a: int, b: int, kept: Sequence[str]) -> int:
        """The product of two tensors, summed over indices that are not kept."""
        size_a, size_b = self.sizes(a), self.sizes(b)
        # an index that only one has, or that the other only broadcasts, is summed before the product
        a = self.sum(a, [c for c, n in size_a.items() if c not in kept and n != 1 and size_b.get(c, 1) == 1])
        b = self.sum(b, [c for c, n in size_b.items() if c not in kept and n != 1 and size_a.get(c, 1) == 1])
        size_a, size_b = self.sizes(a), self.sizes(b)
        order = list(dict.fromkeys([*size_a, *size_b]))
        both = [c for c in order if size_a.get(c, 1) != 1 and size_b.get(c, 1) != 1]
        batch, inner = [c for c in both if c in kept], [c for c in both if c not in kept]
        if not inner:  # nothing to sum: an ordinary product that broadcasts
            x, y = self.align(a, order), self.align(b, order)
            shape = tuple([n if m == 1 else m for n, m in zip(self.shapes[x], self.shapes[y], strict=True)])
            return self.sum(self.add(("mul", x, y), order, shape), [c for c in order if c not in kept])
        rows = [c for c in order if c not in both and size_a.get(c, 1) != 1]
        cols = [c for c in order if c not in both and c not in rows and (size_b.get(c, 1) != 1 or c in kept)]
        x, y = self.stack(a, [batch, rows, inner]), self.stack(b, [batch, inner, cols])
        n, m, p = self.shapes[x][:-2], self.shapes[x][-2], self.shapes[y][-1]
        out = self.add(("mm" if not batch else "bmm", x, y), [], (*n, m, p))
        shape = tuple([size_a[c] for c in (*batch, *rows)] + [size_b.get(c, 1) for c in cols])
        return self.reshape(out, [*batch, *rows, *cols], shape, True)

    def stack(self, t: int, groups: list[list[str]]) -> int:
        """t as a stack of matrices, or as a matrix when the first group is empty."""
        wanted = [c for group in groups for c in group]
        sizes = self.sizes(t)
        t = self.align(t, [*wanted, *[c for c in self.items[t] if c not in wanted]])  # the others have size 1
        shape = []
        for group in groups if groups[0] else groups[1:]:
            n = 1
            for c in group:
                n *= sizes.get(c, 1)
            shape.append(n)
        before = self.items[t]
        if tuple(shape) == self.shapes[t]:
            return t
        return self.reshape(t, before, tuple(shape), True)


@functools.lru_cache(maxsize=512)
def plan(equation: str, shapes: tuple) -> tuple:
    """The operator calls for an equation and the operands' shapes."""
    terms, output = read_equation(equation)
    if len(terms) < len(shapes):
        raise RuntimeError("einsum(): more operands were provided than specified in the equation")
    if len(terms) > len(shapes):
        raise RuntimeError("einsum(): fewer operands were provided than specified in the equation")
    n_hidden = 0
    for where, shape in enumerate(shapes):
        if ELLIPSIS in terms[where]:
            n_hidden = max(n_hidden, len(shape) - len(terms[where]) + 1)
        terms[where] = _numbered(terms[where], len(shape), where)
    wanted = _output(terms, output, n_hidden)
    _check_sizes(terms, shapes)
    made = Plan(terms, shapes)
    parts = [made.diagonal(k) for k in range(len(shapes))]
    result = parts[0]
    for k, part in enumerate(parts[1:], 1):
        later = set(wanted).union(*[made.items[p] for p in parts[k + 1 :]])
        kept = [c for c in dict.fromkeys([*made.items[result], *made.items[part]]) if c in later]
        result = made.pair(result, part, kept)
    result = made.sum(result, [c for c in made.items[result] if c not in wanted])
    result = made.align(result, wanted)
    sizes = dict.fromkeys(wanted, 1)
    for term, shape in zip(terms, shapes, strict=True):
        for c, n in zip(term, shape, strict=True):
            if c in sizes and n != 1:
                sizes[c] = n
    made.expand(result, tuple([sizes[c] for c in wanted]))
    return tuple(made.steps)


def contract(equation: str, operands: list) -> Any:
    """Run the plan of an equation on its operands."""
    values = list(operands)
    for kind, i, arg in plan(equation, tuple([tuple(shape_of(t)) for t in operands])):
        x = values[i]
        if kind == "permute":
            values.append(apply1(PERMUTE, x, arg))
        elif kind == "reshape":
            values.append(reshaped(x, arg))
        elif kind == "mm":
            values.append(apply2(MM, x, values[arg]))
        elif kind == "bmm":
            values.append(apply2(BMM, x, values[arg]))
        elif kind == "mul":
            values.append(apply2(MUL, x, values[arg]))
        elif kind == "sum":
            values.append(ops.sum(x, arg, False))
        elif kind == "expand":
            values.append(apply1(EXPAND, x, arg))
        else:
            values.append(apply1(DIAGONAL, x, arg))
    return ops.alias(values[-1]) if len(values) == len(operands) else values[-1]


@public(
    method=False,
    out=False,
    samples=lambda t: [
        call("ij,jk->ik", t(2, 3), t(3, 4)),
        call("ij,jk", t(2, 3), t(3, 4)),
        call("bij,bjk->bik", t(2, 3, 4), t(2, 4, 2)),
        call("ii", t(3, 3)),
        call("ii->i", t(3, 3)),
        call("ij->ji", t(2, 3)),
        call("i,j->ij", t(2), t(3)),
        call("...ij,...jk->...ik", t(2, 3, 4), t(4, 2)),
        call("i,i,i->", t(3), t(3), t(3)),
        call("ij->", t(2, 3)),
        call("bn,anm,bm->ba", t(2, 3), t(4, 3, 2), t(2, 2)),
        call(t(2, 3), [0, 1], t(3, 4), [1, 2], [0, 2]),
    ],
    errors=lambda t: [
        (call("ij,jk", t(2, 3), t(2, 3)), RuntimeError, "does not broadcast with previously seen size"),
        (call("ij", t(2)), RuntimeError, "does not match the number of dimensions"),
        (call("ij->ii", t(2, 2)), RuntimeError, "appears more than once in the output"),
        (call("ij->k", t(2, 2)), RuntimeError, "does not appear in the equation"),
        (call("i,j", t(2)), RuntimeError, "fewer operands were provided"),
    ],
)
def einsum(*args: Any) -> Any:
    """Sums of products of tensors, described by an equation of indices.

    Args:
        equation: letters for the dimensions of each operand, separated by commas, then optionally "->" and those of the
            result; "..." stands for further dimensions, which broadcast. A letter that the result lacks is summed; a
            letter repeated in one operand takes the diagonal. Without "->", the result has the letters that occur once,
            in alphabetical order.
        operands: tensors, one by one or as a list. Or operands and lists of numbers in turn: `einsum(a, [0, 1], b, [1])`.

    Returns:
        Tensor whose dimensions are the result's indices.

    Raises:
        RuntimeError: the equation is malformed or does not fit the operands.

    >>> flambeau.einsum("ij,jk->ik", flambeau.tensor([[1, 2]]), flambeau.tensor([[3], [4]])).tolist()
    [[11]]
    """
    if len(args) < 2:
        raise ValueError(
            "einsum(): nothing to compute on. Write einsum(equation, *operands) with at least one operand, or "
            "einsum(operand, subscripts, ...) with a list of ints after each of them."
        )
    if isinstance(args[0], TensorBase):
        equation, operands = _from_sublists(args)
    else:
        operands = list(args[1:])
        if len(operands) == 1 and isinstance(operands[0], (tuple, list)):
            operands = list(operands[0])
        equation = args[0]
    for i, x in enumerate(operands):
        if not isinstance(x, TensorBase):
            raise TypeError(f"einsum(): operand {i} must be a Tensor, not {type(x).__name__}")
    return contract(equation, operands)
