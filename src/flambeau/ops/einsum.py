"""einsum: the equation read, then permutations, one batched product for each pair of operands, and sums.

Every index is one dimension of a common order: batch and output indices first, summed ones last. Operands are
permuted to that order with size 1 where they lack an index, and multiplied from left to right; an index is summed as
soon as no later operand has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.core.apply import apply1, apply2, apply_n
from flambeau.core.objects import TensorBase, shape_of
from flambeau.core.op import slot

from ._record import call, ops, public
from .matmul import BMM
from .parts import DIAGONAL
from .shape import UNSQUEEZE, reshaped
from .views import EXPAND, PERMUTE

MUL = slot("mul")
ELLIPSIS = "..."
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


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


def _from_sublists(args: Sequence) -> tuple[list[list[str]], list[str] | None, list]:
    """The form einsum(tensor, [0, 1], tensor, [1, 2], ..., [0, 2]): numbers for letters."""

    def read(numbers: Sequence) -> list[str]:
        found = []
        for n in numbers:
            if n is Ellipsis:
                found.append(ELLIPSIS)
            elif isinstance(n, int) and 0 <= n < 52:
                found.append(LETTERS[n])
            else:
                raise ValueError(f"einsum(): subscripts must be in the range [0, 52), got {n}")
        return found

    operands = list(args[0::2])
    output = None
    if len(args) % 2 == 1:
        output = read(operands.pop())
    return [read(numbers) for numbers in args[1::2]], output, operands


def _unrepeated(t: TensorBase, items: list[str], where: int) -> tuple[Any, list[str]]:
    """Repeated indices of one operand as its diagonal."""
    items = list(items)
    for c in sorted(set(items)):
        while items.count(c) > 1:
            i = items.index(c)
            j = items.index(c, i + 1)
            shape = shape_of(t)
            if shape[i] != shape[j]:
                raise RuntimeError(
                    f"einsum(): subscript {c} is repeated for operand {where} but the sizes don't match, "
                    f"{shape[j]} != {shape[i]}"
                )
            t = apply1(DIAGONAL, t, (0, i, j))  # the diagonal is the last dimension
            items = [x for k, x in enumerate(items) if k not in (i, j)] + [c]
    return t, items


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


def _check_sizes(terms: list[list[str]], operands: list) -> None:
    sizes: dict[str, int] = {}
    for where, (items, t) in enumerate(zip(terms, operands, strict=True)):
        for c, n in zip(items, shape_of(t), strict=True):
            old = sizes.get(c, 1)
            if old == 1:
                sizes[c] = n
            elif n not in (1, old):
                name = c if not c.startswith(".") else "in the ellipsis"
                raise RuntimeError(
                    f"einsum(): subscript {name} has size {n} for operand {where} which does not broadcast with "
                    f"previously seen size {old}"
                )


def _summed(t: Any, axes: Sequence[int]) -> Any:
    return ops.sum(t, tuple(axes), False) if axes else t


def _aligned(t: Any, items: list[str], order: list[str]) -> Any:
    """t with its indices in the given order, and size 1 where it lacks one."""
    present = [c for c in order if c in items]
    perm = tuple(items.index(c) for c in present)
    if perm != tuple(range(len(perm))):
        t = apply1(PERMUTE, t, (perm,))
    for k, c in enumerate(order):
        if c not in items:
            t = apply1(UNSQUEEZE, t, (k,))
    return t


def _pair(a: Any, a_items: list[str], b: Any, b_items: list[str], kept: list[str]) -> tuple[Any, list[str]]:
    """The product of two operands, summed over indices that are not kept: as one bmm."""
    sa, sb = shape_of(a), shape_of(b)
    size_a, size_b = dict(zip(a_items, sa, strict=True)), dict(zip(b_items, sb, strict=True))
    # an index that only one operand has, or that the other only broadcasts, is summed before the product
    for items, sizes, other in ((a_items, size_a, size_b), (b_items, size_b, size_a)):
        gone = [k for k, c in enumerate(items) if c not in kept and (c not in other or other[c] == 1) and sizes[c] != 1]
        if gone:
            if items is a_items:
                a = _summed(a, gone)
                a_items = [c for k, c in enumerate(a_items) if k not in gone]
                items = a_items
            else:
                b = _summed(b, gone)
                b_items = [c for k, c in enumerate(b_items) if k not in gone]
    size_a = dict(zip(a_items, shape_of(a), strict=True))
    size_b = dict(zip(b_items, shape_of(b), strict=True))
    order = [c for c in dict.fromkeys([*a_items, *b_items])]
    both = [c for c in order if size_a.get(c, 1) != 1 and size_b.get(c, 1) != 1]
    batch = [c for c in both if c in kept]
    inner = [c for c in both if c not in kept]
    if not inner:  # nothing to sum: an ordinary product that broadcasts
        out = apply2(MUL, _aligned(a, a_items, order), _aligned(b, b_items, order))
        gone = [k for k, c in enumerate(order) if c not in kept]
        return _summed(out, gone), [c for c in order if c in kept]
    rows = [c for c in order if c not in both and size_a.get(c, 1) != 1]
    cols = [c for c in order if c not in both and c not in rows and (size_b.get(c, 1) != 1 or c in kept)]

    def flat(t: Any, items: list[str], groups: list[list[str]], sizes: dict[str, int]) -> Any:
        wanted = [c for group in groups for c in group]
        spare = [c for c in items if c not in wanted]  # of size 1
        t = _aligned(t, items, [*wanted, *spare])
        shape = []
        for group in groups:
            n = 1
            for c in group:
                n *= sizes.get(c, 1)
            shape.append(n)
        return reshaped(t, tuple(shape))

    out = apply_n(BMM, [flat(a, a_items, [batch, rows, inner], size_a), flat(b, b_items, [batch, inner, cols], size_b)])
    shape = [size_a[c] for c in batch] + [size_a[c] for c in rows] + [size_b.get(c, 1) for c in cols]
    return reshaped(out, tuple(shape)), [*batch, *rows, *cols]


def contract(terms: list[list[str]], output: list[str] | None, operands: list) -> Any:
    """The sum of products that the indices describe."""
    if len(terms) < len(operands):
        raise RuntimeError("einsum(): more operands were provided than specified in the equation")
    if len(terms) > len(operands):
        raise RuntimeError("einsum(): fewer operands were provided than specified in the equation")
    n_hidden = 0
    for where, t in enumerate(operands):
        named = [c for c in terms[where] if c != ELLIPSIS]
        if ELLIPSIS in terms[where]:
            n_hidden = max(n_hidden, len(shape_of(t)) - len(named))
        terms[where] = _numbered(terms[where], len(shape_of(t)), where)
    wanted = _output(terms, output, n_hidden)
    for where, t in enumerate(operands):
        operands[where], terms[where] = _unrepeated(t, terms[where], where)
    _check_sizes(terms, operands)
    result, items = operands[0], terms[0]
    for k in range(1, len(operands)):
        later = set(wanted).union(*terms[k + 1 :])
        kept = [c for c in dict.fromkeys([*items, *terms[k]]) if c in later]
        result, items = _pair(result, items, operands[k], terms[k], kept)
    gone = [k for k, c in enumerate(items) if c not in wanted]
    if len(operands) == 1:
        order = [c for c in wanted if c in items] + [items[k] for k in gone]
        result = _aligned(result, items, order)
        result = _summed(result, range(len(order) - len(gone), len(order)))
        items = order[: len(order) - len(gone)]
        return _broadcast(result, items, wanted, operands, terms)
    result = _summed(result, gone)
    items = [c for c in items if c in wanted]
    return _broadcast(_aligned(result, items, wanted), wanted, wanted, operands, terms)


def _broadcast(t: Any, items: list[str], wanted: list[str], operands: list, terms: list[list[str]]) -> Any:
    """Sizes of 1 stretched to what another operand of the same index has."""
    sizes = {c: 1 for c in wanted}
    for term, x in zip(terms, operands, strict=True):
        for c, n in zip(term, shape_of(x), strict=True):
            if c in sizes and n != 1:
                sizes[c] = n
    shape = tuple(sizes[c] for c in items)
    return t if tuple(shape_of(t)) == shape else apply1(EXPAND, t, (shape,))


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
            "einsum(): must specify the equation string and at least one operand, or at least one operand and its "
            "subscripts list"
        )
    if isinstance(args[0], TensorBase):
        terms, output, operands = _from_sublists(args)
    else:
        operands = list(args[1:])
        if len(operands) == 1 and isinstance(operands[0], (tuple, list)):
            operands = list(operands[0])
        terms, output = read_equation(args[0])
    for i, x in enumerate(operands):
        if not isinstance(x, TensorBase):
            raise TypeError(f"einsum(): operand {i} must be a Tensor, not {type(x).__name__}")
    return contract(terms, output, operands)
