"""Copies in another arrangement: repeat, tile, flip, roll, rot90."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.core.apply import apply1
from flambeau.core.objects import shape_of
from flambeau.kernels import rearrange, strides

from ._args import dim as one_dim
from ._args import dims as many_dims
from ._args import integer, tensor
from ._args import sizes as as_sizes
from ._meta import Meta, preserved
from ._record import KERNEL, call, primitive, public
from ._shapes import checked, like


def _repeat_grad(xp: Any, g: Any, self_shape: Sequence[int], sizes: tuple) -> Any:
    """Each axis of g is (repeats, size): the sum over repeats."""
    shape = (1,) * (len(sizes) - len(self_shape)) + tuple(self_shape)
    pairs: list[int] = []
    kept: list[int] = []
    for n, size in zip(sizes, shape, strict=True):
        pairs += [n, size]
        kept += [1, size]
    return xp.reshape(xp.sum_to(xp.reshape(g, tuple(pairs)), tuple(kept)), tuple(self_shape))


def _repeated(self: Meta, sizes: tuple) -> Meta:
    if len(sizes) < self.ndim:
        raise RuntimeError("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor: "
                           f"{len(sizes)} < {self.ndim}")
    shape = (1,) * (len(sizes) - self.ndim) + self.shape
    return Meta([n * k for n, k in zip(shape, sizes, strict=True)], self.dtype)


def _rotated(self: Meta, k: int, dims: tuple) -> Meta:
    order = list(range(self.ndim))
    if k % 2:
        a, b = [one_dim(d, self.ndim) for d in dims]
        order[a], order[b] = order[b], order[a]
    moved = Meta([self.shape[i] for i in order], self.dtype, [self.strides[i] for i in order])
    return Meta(moved.shape, self.dtype, preserved(moved))


REPEAT = primitive("repeat", rearrange.repeat, params=("sizes",),
                   meta=_repeated, expr=KERNEL, self=_repeat_grad)
FLIP = primitive("flip", strides.flip, params=("dims",), meta=like(), expr=KERNEL, self=lambda xp, g, dims: xp.flip(g, dims))
ROLL = primitive(
    "roll",
    rearrange.roll,
    params=("shifts", "dims"),
    meta=checked(like()),
    expr=KERNEL,
    self=lambda xp, g, shifts, dims: xp.roll(g, tuple([-s for s in shifts]), dims),
)
ROT90 = primitive(
    "rot90",
    rearrange.rot90,
    params=("k", "dims"),
    meta=checked(_rotated),
    expr=KERNEL,
    node="Rot90Backward0",
    self=lambda xp, g, k, dims: xp.rot90(g, -k, dims),
)


@public(
    namespaces=(),
    out=False,
    samples=lambda t: [call(t(2, 3), (2, 2)), call(t(3), (2, 3)), call(t(), (2,)), call(t(2, 1), (0, 2)), call(t(2), (2,))],
    errors=lambda t: [(call(t(2, 3), (2,)), RuntimeError, "can not be smaller than number of dimensions")],
)
def repeat(input: Any, *sizes: Any, repeats: Any = None) -> Any:
    """input copied sizes[k] times along each dimension; new dimensions stand in front.

    >>> flambeau.tensor([1, 2]).repeat(2, 2).tolist()
    [[1, 2, 1, 2], [1, 2, 1, 2]]
    """
    return apply1(REPEAT, input, (as_sizes(sizes if repeats is None else (repeats,)),))


@public(out=False, samples=lambda t: [call(t(2, 3), (2,)), call(t(3), (2, 2)), call(t(), (3,)), call(t(2, 3), ())])
def tile(input: Any, *reps: Any, dims: Any = None) -> Any:
    """As `Tensor.repeat`, but missing leading counts are 1.

    >>> flambeau.tile(flambeau.tensor([[1, 2]]), (2,)).tolist()
    [[1, 2, 1, 2]]
    """
    sizes = as_sizes(reps if dims is None else (dims,))
    return apply1(REPEAT, input, ((1,) * (len(shape_of(tensor(input, "tile"))) - len(sizes)) + sizes,))


@public(
    out=False,
    samples=lambda t: [
        call(t(2, 3), (0,)),
        call(t(2, 3), (0, -1)),
        call(t(3, 2, transposed=True), [1]),
        call(t(2, 3), ()),
        call(t(0, 2), (0,)),
    ],
    errors=lambda t: [
        (call(t(2), (0, 0)), RuntimeError, "appears multiple times in the list of dims"),
        (call(t(2), (1,)), IndexError, "out of range"),
    ],
)
def flip(input: Any, *order: Any, dims: Any = None) -> Any:
    """A copy with the order reversed along some dimensions.

    >>> flambeau.flip(flambeau.tensor([[1, 2], [3, 4]]), (0,)).tolist()
    [[3, 4], [1, 2]]
    """
    n = len(shape_of(tensor(input, "flip")))
    return apply1(FLIP, input, (many_dims(as_sizes(order if dims is None else (dims,)), n),))


@public(out=False, samples=lambda t: [call(t(2, 3))], errors=lambda t: [(call(t(3)), RuntimeError, "must be >= 2-d")])
def fliplr(input: Any) -> Any:
    """A copy with the columns (dimension 1) in reversed order.

    >>> flambeau.fliplr(flambeau.tensor([[1, 2], [3, 4]])).tolist()
    [[2, 1], [4, 3]]
    """
    if len(shape_of(tensor(input, "fliplr"))) < 2:
        raise RuntimeError(f"Input must be >= 2-d for fliplr(), got {len(shape_of(input))}-d")
    return apply1(FLIP, input, ((1,),))


@public(
    out=False, samples=lambda t: [call(t(2, 3)), call(t(2))], errors=lambda t: [(call(t()), RuntimeError, "must be >= 1-d")]
)
def flipud(input: Any) -> Any:
    """A copy with the rows (dimension 0) in reversed order.

    >>> flambeau.flipud(flambeau.tensor([[1, 2], [3, 4]])).tolist()
    [[3, 4], [1, 2]]
    """
    if len(shape_of(tensor(input, "flipud"))) < 1:
        raise RuntimeError("Input must be >= 1-d for flipud(), got 0-d")
    return apply1(FLIP, input, ((0,),))


@public(
    out=False,
    samples=lambda t: [
        call(t(2, 3), 1),
        call(t(2, 3), 1, 0),
        call(t(2, 3), (1, -2), (0, 1)),
        call(t(0, 2), 1, 0),
        call(t(2, 3), shifts=-5),
    ],
    errors=lambda t: [(call(t(2), (1, 2), 0), RuntimeError, "shifts and dimensions must align")],
)
def roll(input: Any, shifts: Any, dims: Any = ()) -> Any:
    """A copy shifted along dimensions, what leaves at one end entering at the other.

    Args:
        shifts: by how many indices, one number for each of dims.
        dims: dimensions; by default the tensor is rolled as if flattened.

    >>> flambeau.roll(flambeau.tensor([1, 2, 3]), 1).tolist()
    [3, 1, 2]
    """
    tensor(input, "roll")
    by = tuple(integer(s, "roll", "shifts") for s in (shifts if isinstance(shifts, (tuple, list)) else (shifts,)))
    where = () if dims is None else tuple(
        integer(d, "roll", "dims") for d in (dims if isinstance(dims, (tuple, list)) else (dims,)))
    return apply1(ROLL, input, (by, where))


@public(
    out=False,
    samples=lambda t: [call(t(2, 3)), call(t(2, 3), -1), call(t(2, 3, 2), 2, (1, 2)), call(t(2, 3), k=3, dims=[1, 0])],
    errors=lambda t: [(call(t(2, 3), 1, (0, 0)), RuntimeError, "expected rotation dims to be different")],
)
def rot90(input: Any, k: int = 1, dims: Any = (0, 1)) -> Any:
    """A copy turned k quarter turns in the plane of two dimensions, from the first towards the second.

    >>> flambeau.rot90(flambeau.tensor([[1, 2], [3, 4]])).tolist()
    [[2, 4], [1, 3]]
    """
    return apply1(ROT90, tensor(input, "rot90"), (integer(k, "rot90", "k"), tuple(dims)))
