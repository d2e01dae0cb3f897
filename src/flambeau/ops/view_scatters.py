"""A copy of a tensor in which one view is replaced: select_scatter, slice_scatter, diagonal_scatter, as_strided_scatter.

Each writes through the view of a clone, so the gradient of the rest goes to input, and that of the view to src.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.core.inplace import apply_inplace2
from flambeau.core.objects import TensorBase, shape_of
from flambeau.core.op import slot

from ._args import dim as one_dim
from ._args import ndim, sizes, tensor
from ._record import REGISTRY, call, ops, public
from .reduction import sum as total
from .shape import reshaped

_COPY = slot("copy")


def _replaced(name: str, input: Any, src: Any, view_of: Callable[[TensorBase], TensorBase]) -> TensorBase:
    """A clone of input whose view is src."""
    out = ops.clone(tensor(input, name))
    if src is not None and getattr(src, "_array", ...) is None and hasattr(src._lazy, "beside"):
        out = src._lazy.beside(out)         # in vmap, a copy for each sample
    view = view_of(out)
    if tuple(shape_of(tensor(src, name, "src", 2))) != tuple(shape_of(view)):
        raise RuntimeError(f"{name}: expected src to have a size equal to the slice of self. src size = "
                           f"{list(shape_of(src))}, slice size = {list(shape_of(view))}")
    apply_inplace2(_COPY, view, src)
    return out


@public(samples=lambda t: [call(t(2, 3), t(3), 0, 1), call(t(2, 3), t(2), -1, -2),
                           call(t(3, 2, transposed=True), t(2), 0, 2)],
        errors=lambda t: [(call(t(2, 3), t(2), 0, 1), RuntimeError, "expected src to have a size equal"),
                          (call(t(2), t(), 0, 5), IndexError, "out of range")])
def select_scatter(input: Any, src: Any, dim: int, index: int) -> Any:
    """A copy of input in which src stands at one index of dim; src has input's shape without dim.

    >>> flambeau.select_scatter(flambeau.zeros(2, 2), flambeau.ones(2), 0, 1).tolist()
    [[0.0, 0.0], [1.0, 1.0]]
    """
    return _replaced("select_scatter", input, src, lambda t: REGISTRY["select"].fn(t, dim, index))


@public(samples=lambda t: [call(t(4, 3), t(2, 3), 0, 1, 3), call(t(3, 5), t(3, 2), 1, 1, None, 2), call(t(3), t(3)),
                           call(t(4, 3), t(2, 3), 0, -2)],
        errors=lambda t: [(call(t(2, 3), t(2), 0, 1), RuntimeError, "expected src to have a size equal"),
                          (call(t(2, 3), t(2, 3), step=0), RuntimeError, "slice step must be positive")])
def slice_scatter(input: Any, src: Any, dim: int = 0, start: int | None = None, end: int | None = None,
                  step: int = 1) -> Any:
    """A copy of input in which src stands at start, start + step, ... before end of dim.

    >>> flambeau.slice_scatter(flambeau.zeros(4), flambeau.ones(2), start=1, end=3).tolist()
    [0.0, 1.0, 1.0, 0.0]
    """
    if step <= 0:
        raise RuntimeError(f"slice_scatter: slice step must be positive, got {step}")
    d = one_dim(dim, ndim(tensor(input, "slice_scatter")))
    at = (slice(None),) * d + (slice(start, end, step),)
    return _replaced("slice_scatter", input, src, lambda t: t[at])      # type: ignore[index]


@public(samples=lambda t: [call(t(3, 3), t(3)), call(t(2, 3), t(2), 1), call(t(2, 3, 4), t(3, 1), -1, 0, 2)],
        errors=lambda t: [(call(t(2, 3), t(3)), RuntimeError, "expected src to have a size equal")])
def diagonal_scatter(input: Any, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """A copy of input in which src stands on a diagonal of the dimensions dim1 and dim2: see `diagonal`.

    >>> flambeau.diagonal_scatter(flambeau.zeros(2, 2), flambeau.ones(2)).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return _replaced("diagonal_scatter", input, src, lambda t: REGISTRY["diagonal"].fn(t, offset, dim1, dim2))


@public(samples=lambda t: [call(t(6), t(2, 2), (2, 2), (1, 2)), call(t(2, 3), t(3), (3,), (1,), 2)],
        errors=lambda t: [(call(t(2, 3), t(3), (2, 2), (1, 2)), RuntimeError, "expected src to have a size equal")])
def as_strided_scatter(input: Any, src: Any, size: Any, stride: Any, storage_offset: int | None = None) -> Any:
    """A copy of input in which src stands where `as_strided(size, stride, storage_offset)` reads.

    >>> flambeau.as_strided_scatter(flambeau.zeros(3), flambeau.ones(2), (2,), (2,)).tolist()
    [1.0, 0.0, 1.0]
    """
    return _replaced("as_strided_scatter", input, src,
                     lambda t: REGISTRY["as_strided"].fn(t, size, stride, storage_offset))


@public(namespaces=(), out=False,
        samples=lambda t: [call(t(2, 3), 3), call(t(2, 3), (1, 3)), call(t(2, 3), 2, 1), call(t(2, 3), 1), call(t(3), 3),
                           call(t(2, 3, dtype="bool"), 1)],
        errors=lambda t: [(call(t(3), 2), RuntimeError, "not expandable"),
                          (call(t(3), 1, 2, 3), RuntimeError, "not expandable")])
def sum_to_size(input: Any, *size: Any) -> Any:
    """The sum over the dimensions in which input is greater than size: the adjoint of expanding.

    >>> flambeau.ones(2, 3).sum_to_size(1, 3).tolist()
    [[2.0, 2.0, 2.0]]
    """
    wanted, shape = sizes(size), tuple(shape_of(tensor(input, "sum_to_size")))
    extra = len(shape) - len(wanted)
    padded = (1,) * extra + wanted
    if extra < 0 or any(b not in (a, 1) for a, b in zip(shape, padded, strict=True)):
        raise RuntimeError(f"sum_to_size: size {list(wanted)} is not expandable to size {list(shape)}.")
    if not wanted:
        return total(input)
    if wanted == shape:
        return input
    over = tuple(i for i, (a, b) in enumerate(zip(shape, padded, strict=True)) if i < extra or a != b)
    return reshaped(total(input, over, True), wanted)
