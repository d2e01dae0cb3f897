"""Shape rules: what the records of operators give as `meta=`.

A rule takes the inputs' Metas (None where an input is absent) and the parameters, as the kernel takes arrays, and returns
the Meta of the result, or a list of them. It computes with sizes only, so that a tensor of any size costs nothing. Most
rules are made here from few words (`reduced()`, `like()`); a rule that only one operator has stands beside its record.
Strides follow PyTorch's: those of the input's memory order where PyTorch keeps it, else row-major.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from flambeau.kernels import reduce as _reduce
from flambeau.kernels.layout import CHANNELS_LAST_ORDER, contiguous_strides
from flambeau.kernels.promotion import promote_types
from flambeau.kernels.services import broadcast_error, default_array_type, is_float

from ._meta import Meta, preserved

BOOL, INT64, INT32 = np.dtype("?"), np.dtype("i8"), np.dtype("i4")
Rule = Callable[..., Any]


def checked(rule: Rule, empty: bool = True) -> Rule:
    """The rule of an operator whose kernel also runs on single elements, for the errors that dtypes, dimensions and numbers
    of dimensions raise; `empty=False`: on the input itself if that is empty, which the kernel refuses."""

    def with_check(*args: Any, **kwargs: Any) -> Any:
        return rule(*args, **kwargs)

    with_check.__dict__["check"] = "elements" if empty else "refuses empty"
    return with_check


def needs_values(name: str) -> NotImplementedError:
    """The error of an operator whose result's size depends on values."""
    return NotImplementedError(
        f"{name}() on Meta tensors: the size of its result depends on the values, and a meta tensor has none. Call it on a "
        "real tensor.")


# ------------------------------------------------------------------------------------------------- dtypes


def same(d: np.dtype) -> np.dtype:
    return d


def real(d: np.dtype) -> np.dtype:
    """The dtype of a complex number's parts."""
    return {"c8": np.dtype("f4"), "c16": np.dtype("f8")}.get(d.str[1:], d)


def complex_of(d: np.dtype) -> np.dtype:
    """The complex dtype whose parts are of this dtype."""
    return np.result_type(d, np.complex64)


def accumulated(d: np.dtype) -> np.dtype:
    """Integers are added up in int64."""
    return INT64 if d.kind in "bui" else d


def floating(d: np.dtype) -> np.dtype:
    """Integers become the default float dtype."""
    return d if is_float(d) else default_array_type()


def truth(d: np.dtype) -> np.dtype:
    """What `all` and `any` give: bool, and uint8 for itself."""
    return d if d == np.uint8 else BOOL


def always(name: str) -> Callable[[np.dtype], np.dtype]:
    """The dtype of that name, whatever the input's."""
    d = np.dtype(name)
    return lambda _: d


def promoted(metas: Sequence[Meta | None]) -> np.dtype:
    """The dtype in which operands meet: those with dimensions before those without, unless of a higher kind."""
    given = [m for m in metas if m is not None]
    best: np.dtype | None = None
    for group in ([m for m in given if m.ndim], [m for m in given if not m.ndim]):
        for d in (m.dtype for m in group):
            if best is None:
                best = d
            elif group[0].ndim or best.kind != d.kind and _RANK[d.kind] > _RANK[best.kind]:
                best = promote_types(best, d)
    assert best is not None
    return best


_RANK = {"b": 0, "u": 1, "i": 1, "f": 2, "V": 2, "c": 3}


# ------------------------------------------------------------------------------------------------- strides


def broadcast_strides(shape: tuple, metas: Sequence[Meta], number: bool = False) -> tuple[int, ...]:
    """The strides of an elementwise result: the memory order of the operands, the first that says anything first.

    `number`: a Python number takes part, too, which is an operand without dimensions.
    """
    if shape and not number and all(m.shape == shape for m in metas):
        if all(m.is_contiguous() for m in metas):
            return contiguous_strides(shape)
        for form, order in CHANNELS_LAST_ORDER.items():
            if all(m.is_contiguous(form) for m in metas):
                return in_order(shape, order)
        if metas[0].is_dense() and all(m.strides == metas[0].strides for m in metas):
            return metas[0].strides
    n = len(shape)
    steps = []
    for m in metas:
        off = n - m.ndim
        steps.append([0] * off + [0 if size == 1 and shape[off + i] != 1 else step
                                  for i, (size, step) in enumerate(zip(m.shape, m.strides, strict=True))])
    perm = list(range(n - 1, -1, -1))           # innermost first

    def outside(a: int, b: int) -> int:
        """1 if axis a belongs outside of b, -1 if inside, 0 if nothing is known."""
        for s in steps:
            if s[a] == 0 or s[b] == 0:
                continue
            if s[a] != s[b]:
                return 1 if s[a] > s[b] else -1
            if shape[a] > shape[b]:
                return 1
        return 0

    for i in range(1, n):
        moving = i
        for j in range(i - 1, -1, -1):
            known = outside(perm[j], perm[moving])
            if known > 0:
                perm[j], perm[moving] = perm[moving], perm[j]
                moving = j
            elif known < 0:
                break
    return in_order(shape, perm[::-1])


def in_order(shape: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    """Dense strides with the axes in an order, outermost first."""
    out, step = [0] * len(shape), 1
    for axis in reversed(order):
        out[axis] = step
        step *= max(shape[axis], 1)
    return tuple(out)


def formatted(m: Meta, memory_format: str) -> tuple[int, ...]:
    """The strides of a copy in a memory format: "preserve", "contiguous", "channels_last", "channels_last_3d"."""
    if memory_format == "preserve":
        return preserved(m)
    if memory_format == "contiguous":
        return contiguous_strides(m.shape)
    order = CHANNELS_LAST_ORDER[memory_format]
    if m.ndim != len(order):
        raise RuntimeError(f"required rank {len(order)} tensor to use {memory_format} format, got shape {list(m.shape)}")
    return in_order(m.shape, order)


def columns(shape: Sequence[int], dtype: np.dtype) -> Meta:
    """Matrices stored by columns, as LAPACK gives them."""
    n = len(shape)
    return Meta(shape, dtype, in_order(shape, [*range(n - 2), n - 1, n - 2]))


# ------------------------------------------------------------------------------------------------- rules


def like(dtype: Callable[[np.dtype], np.dtype] = same, input: int = 0) -> Rule:
    """As large as an input, and in its memory order."""

    def rule(*args: Any) -> Meta:
        m = args[input]
        return Meta(m.shape, dtype(m.dtype), preserved(m))

    return rule


def fresh(dtype: Callable[[np.dtype], np.dtype] = same, input: int = 0) -> Rule:
    """As large as an input, in row-major order."""

    def rule(*args: Any) -> Meta:
        return Meta(args[input].shape, dtype(args[input].dtype))

    return rule


def shaped(parameter: int = 1, dtype: Callable[[np.dtype], np.dtype] = same) -> Rule:
    """Of the size that an argument names, in the dtype of the first input."""

    def rule(*args: Any) -> Meta:
        return Meta(tuple(args[parameter]), dtype(args[0].dtype))

    return rule


def several(*rules: Rule) -> Rule:
    """Several results."""
    return lambda *args: [rule(*args) for rule in rules]


def elementwise(n: int, dtype: Callable[[np.dtype], np.dtype] = same, first: bool = False) -> Rule:
    """The broadcast of the first n inputs, in their common dtype (`first`: in that of the first)."""

    def rule(*args: Any, **_: Any) -> Meta:
        metas = [m for m in args[:n] if m is not None]
        shape = broadcast([m.shape for m in metas])
        return Meta(shape, dtype(metas[0].dtype if first else promoted(metas)), broadcast_strides(shape, metas))

    return rule


def broadcast(shapes: Sequence[tuple], name: str = "broadcast") -> tuple[int, ...]:
    """The common shape; RuntimeError when there is none."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise broadcast_error(name, list(shapes)) from None


def scalar(dtype: Callable[[np.dtype], np.dtype] = same, empty: bool = True) -> Rule:
    """No dimensions: of everything, which must not be nothing with `empty=False`. A dtype parameter counts."""

    def rule(self: Meta, *params: Any) -> Meta:
        named = [p for p in params if isinstance(p, np.dtype)]
        return Meta((), named[0] if named else dtype(self.dtype))

    return checked(rule, empty)


def reduced(dtype: Callable[[np.dtype], np.dtype] = same, dim: int = 0, keepdim: int | None = 1, index: bool = False,
            outputs: Sequence[Callable] | None = None, empty: bool = True) -> Rule:
    """Without some dimensions. `dim` and `keepdim` are the positions of these parameters.

    index: a second result, of positions in int64. outputs: dtypes of several results. empty: an empty dimension may be
    reduced. A dtype among the parameters is the result's.
    """

    def rule(self: Meta, *params: Any) -> Any:
        over = params[dim] if dim < len(params) else None
        keep = bool(params[keepdim]) if keepdim is not None and keepdim < len(params) else False
        shape = _reduce.reduced_shape(self.shape, over, keep)
        named = [p for p in params if isinstance(p, np.dtype)]
        first = Meta(shape, named[0] if named else dtype(self.dtype))
        if outputs is not None:
            return [Meta(shape, d(self.dtype)) for d in outputs]
        return [first, Meta(shape, INT64)] if index else first

    return checked(rule, empty)


def loss(n: int, reduction: int = -1) -> Rule:
    """An elementwise loss of n inputs, reduced as the word among the parameters says."""
    each = elementwise(n)

    def rule(*args: Any) -> Meta:
        m = each(*args)
        return m if args[reduction] == "none" else Meta((), m.dtype)

    return rule


def resized(m: Meta, dim: int, size: int) -> Meta:
    """m with another size of one dimension, in row-major order."""
    shape = list(m.shape)
    if shape:
        shape[dim] = size
    return Meta(shape, m.dtype)


def spatial(m: Meta, size: tuple) -> Meta:
    """m with other spatial sizes; channels-last stays so."""
    shape = (*m.shape[:m.ndim - len(size)], *size)
    for form, order in CHANNELS_LAST_ORDER.items():
        if m.ndim == len(order) and m.is_contiguous(form) and not m.is_contiguous():
            return Meta(shape, m.dtype, in_order(shape, order))
    return Meta(shape, m.dtype)


def with_positions(rule: Callable) -> Callable:
    """The rule's result, and positions in int64 of its shape."""

    def both(*args: Any) -> list:
        m = rule(*args)
        return [m, Meta(m.shape, INT64, m.strides)]

    return both
