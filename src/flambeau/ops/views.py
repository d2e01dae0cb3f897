"""Views that reorder or repeat axes: transpose, permute, movedim, expand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.core.apply import apply1
from flambeau.core.objects import TensorBase, dtype_of, shape_of
from flambeau.core.origin import warn_user
from flambeau.kernels import strides

from ._args import dim as one_dim
from ._args import sizes as as_sizes
from ._args import tensor
from ._record import KERNEL, call, ops, primitive, public
from .engine_ops import expand as EXPAND

# ------------------------------------------------------------------------------------- order of axes

TRANSPOSE = primitive(
    "transpose",
    lambda a, dim0, dim1: a.swapaxes(dim0, dim1) if a.ndim else a.view(),
    params=("dim0", "dim1"),
    view=True,
    expr=KERNEL,
    self=lambda xp, g, dim0, dim1: xp.transpose(g, dim0, dim1),
)
T = primitive("t", lambda a: a.T, view=True, expr=KERNEL, node="TBackward0", self=lambda xp, g: xp.t(g))


def _inverse(dims: Sequence[int]) -> tuple[int, ...]:
    n = len(dims)
    order = [0] * n
    for i, d in enumerate(dims):
        order[d % n] = i
    return tuple(order)


PERMUTE = primitive(
    "permute",
    lambda a, dims: a.transpose(dims),
    params=("dims",),
    view=True,
    expr=KERNEL,
    self=lambda xp, g, dims: xp.permute(g, _inverse(dims)),
)


@public(
    out=False,
    aliases=("swapaxes", "swapdims"),
    samples=lambda t: [
        call(t(2, 3), 0, 1),
        call(t(2, 3, 4), -1, 0),
        call(t(2, 3, transposed=True), 0, 1),
        call(t(), 0, -1),
        call(t(0, 2), 0, 1),
    ],
    errors=lambda t: [(call(t(2, 3), 0, 2), IndexError, "out of range")],
)
def transpose(input: Any, dim0: int, dim1: int) -> Any:
    """A view with two dimensions exchanged.

    >>> flambeau.transpose(flambeau.tensor([[1, 2], [3, 4]]), 0, 1).tolist()
    [[1, 3], [2, 4]]
    """
    n = len(shape_of(tensor(input, "transpose")))
    return apply1(TRANSPOSE, input, (one_dim(dim0, n), one_dim(dim1, n)))


@public(
    out=False,
    samples=lambda t: [call(t(2, 3)), call(t(3)), call(t()), call(t(0, 3))],
    errors=lambda t: [(call(t(2, 3, 4)), RuntimeError, "expects a tensor with <= 2 dimensions")],
)
def t(input: Any) -> Any:
    """The transpose of a matrix, a view; tensors of fewer dimensions as they are.

    Raises:
        RuntimeError: input has three dimensions or more: use `.mT` or `transpose`.

    >>> flambeau.t(flambeau.tensor([[1, 2], [3, 4]])).tolist()
    [[1, 3], [2, 4]]
    """
    n = len(shape_of(tensor(input, "t")))
    if n > 2:
        raise RuntimeError(
            f"t() expects a tensor with <= 2 dimensions, but self is {n}D: use .mT for the last two "
            "dimensions, or transpose(dim0, dim1)"
        )
    return apply1(T, input)


@public(
    out=False,
    samples=lambda t: [call(t(2, 3, 4), (2, 0, 1)), call(t(2, 3), (-1, 0)), call(t(), ()), call(t(0, 3), (1, 0))],
    errors=lambda t: [
        (call(t(2, 3), (0,)), RuntimeError, "does not match the length of the desired ordering"),
        (call(t(2, 3), (0, 0)), RuntimeError, "duplicate dims are not allowed"),
    ],
)
def permute(input: Any, *order: Any, dims: Any = None) -> Any:
    """A view with its dimensions in another order.

    Args:
        dims: for each dimension of the result, which of input's it is.

    >>> flambeau.permute(flambeau.tensor([[1, 2], [3, 4]]), (1, 0)).tolist()
    [[1, 3], [2, 4]]
    """
    n = len(shape_of(tensor(input, "permute")))
    if not order and dims is None:
        raise TypeError("permute() missing 1 required positional argument: 'dims'")
    wanted = as_sizes(order if dims is None else (dims,))
    if len(wanted) != n:
        raise RuntimeError(
            f"permute(): number of dimensions in the tensor input ({n}) does not match the length of the "
            f"desired ordering of dimensions {list(wanted)}"
        )
    found = tuple([one_dim(d, n) for d in wanted])
    if len(set(found)) != n:
        raise RuntimeError(f"permute(): duplicate dims are not allowed, got {list(wanted)}")
    return apply1(PERMUTE, input, (found,))


@public(
    out=False,
    aliases=("moveaxis",),
    samples=lambda t: [call(t(2, 3, 4), 0, 2), call(t(2, 3, 4), (0, 1), (-1, 0)), call(t(), 0, 0)],
    errors=lambda t: [(call(t(2, 3), (0, 1), (0,)), RuntimeError, "Invalid source or destination dims")],
)
def movedim(input: Any, source: Any, destination: Any) -> Any:
    """A view with dimensions moved to other positions; the rest keep their order.

    >>> flambeau.movedim(flambeau.tensor([[[1, 2]]]), 0, 2).shape
    torch.Size([1, 2, 1])
    """
    n = len(shape_of(tensor(input, "movedim")))
    sources = (source,) if isinstance(source, int) else tuple(source)
    targets = (destination,) if isinstance(destination, int) else tuple(destination)
    if len(sources) != len(targets):
        raise RuntimeError(
            "movedim: Invalid source or destination dims: each source dimension needs a destination, and there are "
            f"{list(sources)} sources and {list(targets)} destinations"
        )
    sources = tuple(one_dim(d, n) for d in sources)
    targets = tuple(one_dim(d, n) for d in targets)
    for name, found in (("source", sources), ("destination", targets)):
        if len(set(found)) != len(found):
            raise RuntimeError(f"movedim: repeated dim in `{name}` ({list(found)})")
    if n == 0:
        return ops.alias(input)
    order = [d for d in range(n) if d not in sources]
    for target, origin in sorted(zip(targets, sources, strict=True)):
        order.insert(target, origin)
    return apply1(PERMUTE, input, (tuple(order),))


def matrix_transpose(input: TensorBase) -> Any:
    """The last two dimensions exchanged."""
    n = len(shape_of(input))
    if n == 0:
        return _of_scalar(input, "mT")
    if n < 2:
        raise RuntimeError(f"tensor.mT is only supported on matrices or batches of matrices. Got {n}-D tensor.")
    return apply1(TRANSPOSE, input, (n - 2, n - 1))


@public(
    out=False,
    samples=lambda t: [call(t(2, 3)), call(t(2, 3, 4)), call(t(2, 3, dtype="complex64"))],
    errors=lambda t: [(call(t(3)), RuntimeError, "only supported on matrices")],
)
def adjoint(input: Any) -> Any:
    """The last two dimensions exchanged, and conjugated: the conjugate transpose.

    >>> flambeau.adjoint(flambeau.tensor([[1, 2j]])).tolist()
    [[(1-0j)], [-2j]]
    """
    n = len(shape_of(tensor(input, "adjoint")))
    if n < 2:
        raise RuntimeError(f"tensor.adjoint() is only supported on matrices or batches of matrices. Got {n}-D tensor.")
    out = apply1(TRANSPOSE, input, (n - 2, n - 1))
    return ops.conj(out) if dtype_of(out).kind == "c" else out


def _of_scalar(input: TensorBase, name: str) -> Any:
    warn_user(f"Tensor.{name} is deprecated on 0-D tensors. This function is the identity in these cases.")
    return input


def _reversed_axes(input: TensorBase) -> Any:
    """All dimensions in reversed order; of a matrix, its transpose."""
    n = len(shape_of(input))
    if n not in (0, 2):
        warn_user(
            "The use of `x.T` on tensors of dimension other than 2, which reverses all dimensions, is deprecated. "
            "Write x.mT to transpose the matrices of a batch; to reverse the dimensions, x.permute(*range(x.ndim - "
            "1, -1, -1)).")
    return apply1(PERMUTE, input, (tuple(range(n - 1, -1, -1)),))


def _matrix_adjoint(input: TensorBase) -> Any:
    """The conjugate transpose of a matrix."""
    n = len(shape_of(input))
    if n not in (0, 2):
        raise RuntimeError(f"tensor.H is only supported on matrices (2-D tensors). Got {n}-D tensor. Use .mH for batches.")
    return adjoint(input) if n else ops.conj(ops.alias(input))


def _matrix_adjoints(input: TensorBase) -> Any:
    """The last two dimensions exchanged and conjugated."""
    if len(shape_of(input)) == 0:
        out = _of_scalar(input, "mH")
        return ops.conj(out) if dtype_of(out).kind == "c" else out
    return adjoint(input)


PROPERTIES = {
    "T": property(_reversed_axes),
    "mT": property(matrix_transpose),
    "H": property(_matrix_adjoint),
    "mH": property(_matrix_adjoints),
}

# ------------------------------------------------------------------------------------- repeated axes


@public(
    namespaces=(),
    out=False,
    samples=lambda t: [call(t(3, 1), (3, 4)), call(t(3, 1), (2, 3, -1)), call(t(), (2, 2)), call(t(1, 3), (0, 3))],
    errors=lambda t: [
        (call(t(3), (2, 4)), RuntimeError, "must match the existing size"),
        (call(t(2, 3), (3,)), RuntimeError, "must be greater or equal to the number of dimensions"),
    ],
)
def expand(input: Any, *sizes: Any, size: Any = None, implicit: bool = False) -> Any:
    """A view in which dimensions of size 1 are repeated without a copy, and new ones may stand in front.

    Args:
        sizes: the sizes wanted; -1 keeps a size.

    Raises:
        RuntimeError: a size differs from that of a dimension that is not 1.

    >>> flambeau.tensor([[1], [2]]).expand(2, 3).tolist()
    [[1, 1, 1], [2, 2, 2]]
    """
    return apply1(EXPAND, input, (as_sizes(sizes if size is None else (size,)),))


@public(namespaces=(), out=False, samples=lambda t: [call(t(3, 1), t(3, 4)), call(t(), t(2))])
def expand_as(input: Any, other: Any) -> Any:
    """input expanded to the shape of other.

    >>> flambeau.tensor([1]).expand_as(flambeau.tensor([0, 0])).tolist()
    [1, 1]
    """
    return apply1(EXPAND, input, (tuple(shape_of(other)),))


@public(out=False, samples=lambda t: [call(t(3, 1), (2, 3, 4)), call(t(), (2,))])
def broadcast_to(input: Any, size: Any) -> Any:
    """input expanded to a shape: the function form of `Tensor.expand`.

    >>> flambeau.broadcast_to(flambeau.tensor([1]), (3,)).tolist()
    [1, 1, 1]
    """
    return apply1(EXPAND, tensor(input, "broadcast_to"), (as_sizes((size,)),))


@public(
    out=False,
    method=False,
    samples=lambda t: [call(t(3, 1), t(1, 4)), call(t(2), t())],
    errors=lambda t: [(call(t(3), t(4)), RuntimeError, "must match")],
)
def broadcast_tensors(*tensors: Any) -> Any:
    """The tensors expanded to their common shape; views.

    >>> [x.shape for x in flambeau.broadcast_tensors(flambeau.zeros(3, 1), flambeau.zeros(4))]
    [torch.Size([3, 4]), torch.Size([3, 4])]
    """
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        tensors = tuple(tensors[0])
    shape = strides.broadcast_shapes(*[tuple(shape_of(tensor(x, "broadcast_tensors"))) for x in tensors])
    return tuple(apply1(EXPAND, x, (shape,)) for x in tensors)
