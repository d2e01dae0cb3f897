"""Products of matrices and vectors: mm, mv, dot, bmm, matmul and their relatives."""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.apply import apply1, apply2
from flambeau.core.objects import TensorBase, requires, shape_of
from flambeau.core.op import slot
from flambeau.kernels import layout
from flambeau.kernels import matmul as kernel
from flambeau.kernels.strides import broadcast_shapes

from ._args import tensor
from ._meta import Meta
from ._pointwise import fused
from ._record import KERNEL, call, composite, kernels, ops, primitive, public
from ._shapes import accumulated, scalar
from .layout import cloned
from .shape import SQUEEZE_OWN, UNSAFE_VIEW, UNSQUEEZE, reshaped
from .views import EXPAND, T, matrix_transpose

MUL = slot("mul")

# ------------------------------------------------------------------------------------- primitives

# Products with a transpose, in the derivatives of products: one kernel call each
fused("mm_nt", kernel.mm_nt, lambda xp, a, b: xp.mm(a, xp.t(b)))
fused("mm_tn", kernel.mm_tn, lambda xp, a, b: xp.mm(xp.t(a), b))
fused("mm_tn_swapped", kernel.mm_tn_swapped, lambda xp, a, b: xp.mm(xp.t(b), a))

def multiplied(name: str) -> Any:
    """The shape rule of the product `name` of two inputs."""

    def rule(a: Meta, b: Meta) -> Meta:
        kernel.check_dtypes(name, a, b)
        return Meta(kernel.product_shape(name, a.shape, b.shape), a.dtype)

    return rule


MM = primitive(
    "mm",
    kernel.mm,
    inputs=("self", "mat2"),
    promotes=False,
    meta=multiplied("mm"),
    expr=KERNEL,
    self=lambda xp, g, mat2: xp.mm_nt(g, xp.conj(mat2)),
    mat2=lambda xp, g, self: xp.mm_tn_swapped(g, xp.conj(self)),
)
MV = primitive(
    "mv",
    kernel.mv,
    inputs=("self", "vec"),
    promotes=False,
    meta=multiplied("mv"),
    expr=KERNEL,
    self=lambda xp, g, vec: xp.outer(g, xp.conj(vec)),
    vec=lambda xp, g, self: xp.mv(xp.t(xp.conj(self)), g),
)
DOT = primitive(
    "dot",
    kernel.dot,
    inputs=("self", "tensor"),
    promotes=False,
    meta=multiplied("dot"),
    expr=KERNEL,
    self=lambda xp, g, tensor: g * xp.conj(tensor),
    tensor=lambda xp, g, self: g * xp.conj(self),
)
VDOT = primitive(
    "vdot",
    kernel.vdot,
    inputs=("self", "other"),
    promotes=False,
    meta=multiplied("vdot"),
    expr=KERNEL,
    self=lambda xp, g, other: xp.conj(g) * other,
    other=lambda xp, g, self: g * self,
)
BMM = primitive(
    "bmm",
    kernel.bmm,
    inputs=("self", "mat2"),
    promotes=False,
    meta=multiplied("bmm"),
    expr=KERNEL,
    self=lambda xp, g, mat2: xp.bmm(g, xp.transpose(xp.conj(mat2), 1, 2)),
    mat2=lambda xp, g, self: xp.bmm(xp.transpose(xp.conj(self), 1, 2), g),
)


@composite("outer")
def _outer(xp: Any, a: Any, b: Any) -> Any:
    return xp.unsqueeze(a, 1) * xp.unsqueeze(b, 0)


kernels.outer = kernel.outer


def _dims(*tensors: TensorBase) -> tuple:
    return tuple([len(shape_of(t)) for t in tensors])


@public(
    samples=lambda t: [
        call(t(2, 3), t(3, 4)),
        call(t(2, 3, transposed=True), t(3, 4)),
        call(t(2, 0), t(0, 3)),
        call(t(0, 3), t(3, 2)),
        call(t(2, 3, dtype="complex64"), t(3, 2, dtype="complex64")),
    ],
    errors=lambda t: [
        (call(t(2, 3), t(4, 5)), RuntimeError, "mat1 and mat2 shapes cannot be multiplied .2x3 and 4x5."),
        (call(t(2, 3), t(3)), RuntimeError, "mat2 must be a matrix"),
        (call(t(2, 3), t(3, 2, dtype="float64")), RuntimeError, "to have the same dtype"),
    ],
)
def mm(input: Any, mat2: Any) -> Any:
    """The product of two matrices.

    Args:
        input: (m, k). mat2: (k, n), of the same dtype.

    Returns:
        Tensor of shape (m, n). float16 and bfloat16 are summed in float32 and rounded once.

    Raises:
        RuntimeError: not matrices, inner sizes or dtypes that differ.

    >>> flambeau.mm(flambeau.tensor([[1, 2]]), flambeau.tensor([[3], [4]])).tolist()
    [[11]]
    """
    if len(shape_of(tensor(input, "mm"))) != 2:
        raise RuntimeError(f"self must be a matrix: mm() got shape {list(shape_of(input))}. Use matmul for other shapes.")
    if len(shape_of(tensor(mat2, "mm", "mat2", 2))) != 2:
        raise RuntimeError(f"mat2 must be a matrix: mm() got shape {list(shape_of(mat2))}. Use matmul for other shapes.")
    return apply2(MM, input, mat2)


@public(
    samples=lambda t: [call(t(2, 3), t(3)), call(t(2, 3, transposed=True), t(3)), call(t(2, 0), t(0))],
    errors=lambda t: [(call(t(2, 3), t(2)), RuntimeError, "size mismatch"), (call(t(2), t(2)), RuntimeError, "expected")],
)
def mv(input: Any, vec: Any) -> Any:
    """The product of a matrix (m, n) and a vector (n).

    >>> flambeau.mv(flambeau.tensor([[1, 2]]), flambeau.tensor([3, 4])).tolist()
    [11]
    """
    if _dims(tensor(input, "mv"), tensor(vec, "mv", "vec", 2)) != (2, 1):
        raise RuntimeError("vector + matrix @ vector expected, got 1, {}, {}".format(*_dims(input, vec)))
    return apply2(MV, input, vec)


def _two_vectors(name: str, a: Any, b: Any) -> None:
    x, y = _dims(tensor(a, name), tensor(b, name, "tensor", 2))
    if (x, y) != (1, 1):
        raise RuntimeError(f"1D tensors expected, but got {x}D and {y}D tensors: {name}() is of two vectors. Use matmul.")


@public(
    samples=lambda t: [call(t(3), t(3)), call(t(0), t(0)), call(t(2, dtype="complex64"), t(2, dtype="complex64"))],
    errors=lambda t: [
        (call(t(3), t(2)), RuntimeError, "inconsistent tensor size"),
        (call(t(2, 2), t(2)), RuntimeError, "1D tensors expected"),
    ],
)
def dot(input: Any, tensor: Any) -> Any:
    """The sum of the products of two vectors' elements.

    >>> flambeau.dot(flambeau.tensor([1, 2]), flambeau.tensor([3, 4])).item()
    11
    """
    _two_vectors("dot", input, tensor)
    return apply2(DOT, input, tensor)


@public(
    samples=lambda t: [call(t(3), t(3)), call(t(2, dtype="complex64"), t(2, dtype="complex64"))],
    errors=lambda t: [(call(t(3), t(2)), RuntimeError, "inconsistent tensor size")],
)
def vdot(input: Any, other: Any) -> Any:
    """`dot` with the first vector conjugated.

    >>> flambeau.vdot(flambeau.tensor([1j]), flambeau.tensor([2j])).item()
    (2+0j)
    """
    _two_vectors("vdot", input, other)
    return apply2(VDOT, input, other)


@public(
    samples=lambda t: [
        call(t(2, 3, 4), t(2, 4, 5)),
        call(t(2, 3, 0), t(2, 0, 2)),
        call(t(1, 2, 3), t(1, 3, 2)),
        call(t(0, 2, 3), t(0, 3, 2)),
    ],
    errors=lambda t: [
        (call(t(2, 3, 4), t(2, 3, 4)), RuntimeError, "Expected size for first two dimensions of batch2 tensor"),
        (call(t(3, 4), t(2, 3, 4)), RuntimeError, "batch1 must be a 3D tensor"),
    ],
)
def bmm(input: Any, mat2: Any) -> Any:
    """The products of two stacks of matrices, (b, m, k) and (b, k, n), pair by pair.

    >>> flambeau.bmm(flambeau.ones(2, 1, 3), flambeau.ones(2, 3, 1)).tolist()
    [[[3.0]], [[3.0]]]
    """
    if len(shape_of(tensor(input, "bmm"))) != 3:
        raise RuntimeError(f"batch1 must be a 3D tensor: bmm() got shape {list(shape_of(input))}. Use matmul to broadcast.")
    if len(shape_of(tensor(mat2, "bmm", "mat2", 2))) != 3:
        raise RuntimeError(f"batch2 must be a 3D tensor: bmm() got shape {list(shape_of(mat2))}. Use matmul to broadcast.")
    return apply2(BMM, input, mat2)


@public(
    aliases=("ger",),
    samples=lambda t: [call(t(2), t(3)), call(t(0), t(3))],
    errors=lambda t: [(call(t(2, 2), t(2)), RuntimeError, "Expected 1-D argument self")],
)
def outer(input: Any, vec2: Any) -> Any:
    """The matrix of the products of every element of one vector with every element of another.

    >>> flambeau.outer(flambeau.tensor([1, 2]), flambeau.tensor([3, 4])).tolist()
    [[3, 4], [6, 8]]
    """
    for name, x in (("self", input), ("vec2", vec2)):
        if len(shape_of(tensor(x, "outer"))) != 1:
            raise RuntimeError(f"outer: Expected 1-D argument {name}, but got {len(shape_of(x))}-D")
    return apply2(MUL, reshaped(input, (shape_of(input)[0], 1)), vec2)


# ------------------------------------------------------------------------------------- matmul


def _foldable(t: TensorBase, other: TensorBase) -> bool:
    """Whether the stack t (3-D or more) times a matrix or vector is one product of two matrices."""
    if requires(other):
        return True
    shape = shape_of(t)
    if 0 in shape or t._array is None:
        return True
    steps = layout.torch_strides(t._array)
    return all(steps[i] == steps[i + 1] * shape[i + 1] for i in range(len(shape) - 2))


def _fold(a: TensorBase, b: TensorBase) -> Any:
    """a of 3 dimensions or more, b of 1 or 2: the stack as one tall matrix."""
    shape = shape_of(a)
    rows = 1
    for n in shape[:-1]:
        rows *= n
    tall = reshaped(a, (rows, shape[-1]))
    if len(shape_of(b)) == 1:
        return apply1(UNSAFE_VIEW, apply2(MV, tall, b), (tuple(shape[:-1]),))
    return apply1(UNSAFE_VIEW, apply2(MM, tall, b), ((*shape[:-1], shape_of(b)[1]),))


def _batched(a: TensorBase, b: TensorBase) -> Any:
    na, nb = _dims(a, b)
    left = apply1(UNSQUEEZE, a, (0,)) if na == 1 else a
    right = apply1(UNSQUEEZE, b, (1,)) if nb == 1 else b
    sa, sb = shape_of(left), shape_of(right)
    batch = broadcast_shapes(tuple(sa[:-2]), tuple(sb[:-2])) if sa[:-2] != sb[:-2] else tuple(sa[:-2])
    n = 1
    for size in batch:
        n *= size
    m, p = sa[-2], sb[-1]

    def stack(t: Any, s: Any) -> Any:
        if tuple(s[:-2]) != batch:
            t = apply1(EXPAND, t, ((*batch, *s[-2:]),))
        return t if len(batch) == 1 else reshaped(t, (n, *s[-2:]))

    out = apply2(BMM, stack(left, sa), stack(right, sb))
    shape = (*batch, *(() if na == 1 else (m,)), *(() if nb == 1 else (p,)))
    return apply1(UNSAFE_VIEW, out, (shape,))


def product(a: TensorBase, b: TensorBase) -> Any:
    """a @ b for every combination of dimensions."""
    na, nb = len(shape_of(a)), len(shape_of(b))
    if na == 2 and nb == 2:
        return apply2(MM, a, b)
    if na == 0 or nb == 0:
        raise RuntimeError(
            f"both arguments to matmul need to be at least 1D; these are {na}D and {nb}D. Use * for a scalar."
        )
    if nb == 1 and na == 1:
        return apply2(DOT, a, b)
    if nb == 1 and na == 2:
        return apply2(MV, a, b)
    if na == 1 and nb == 2:
        return apply1(SQUEEZE_OWN, apply2(MM, apply1(UNSQUEEZE, a, (0,)), b), (0,))
    if nb <= 2 and _foldable(a, b):
        return _fold(a, b)
    if na <= 2 and requires(a):  # the transposed product folds
        right = matrix_transpose(b)
        if na == 1:
            return _fold(right, a)
        return cloned(matrix_transpose(_fold(right, apply1(T, a))), "contiguous")
    return _batched(a, b)


ops.matmul = product


def _matmul_samples(t: Any) -> list:
    return [
        call(t(3), t(3)),
        call(t(2, 3), t(3)),
        call(t(3), t(3, 2)),
        call(t(2, 3), t(3, 4)),
        call(t(2, 3, 4), t(4, 2)),
        call(t(2, 3, 4), t(4)),
        call(t(4), t(2, 4, 3)),
        call(t(3, 4), t(2, 4, 3)),
        call(t(2, 1, 3, 4), t(5, 4, 2)),
        call(t(2, 3, 0), t(2, 0, 4)),
        call(t(0, 3, 4), t(4, 2)),
    ]


@public(
    samples=_matmul_samples,
    errors=lambda t: [
        (call(t(2, 3), t(4, 5)), RuntimeError, "mat1 and mat2 shapes cannot be multiplied .2x3 and 4x5."),
        (call(t(2, 3), t()), RuntimeError, "at least 1D"),
        (call(t(2, 3, 4), t(2, 3, 4)), RuntimeError, "Expected size for first two"),
    ],
)
def matmul(input: Any, other: Any) -> Any:
    """input @ other: of vectors the dot product, of matrices the product, of stacks of matrices the product pair by pair.

    Args:
        input: (k), or (*, m, k). other: (k), or (*, k, n), of the same dtype; leading dimensions broadcast.

    Returns:
        Tensor of shape (*, m, n), without the dimension of a vector.

    Raises:
        RuntimeError: a scalar, inner sizes or dtypes that differ.

    >>> flambeau.matmul(flambeau.tensor([[1, 2]]), flambeau.tensor([3, 4])).tolist()
    [11]
    """
    return product(tensor(input, "matmul"), tensor(other, "matmul", "other", 2))


@public(name="matmul", namespaces=("linalg",), method=False, samples=_matmul_samples)
def linalg_matmul(input: Any, other: Any) -> Any:
    """As `torch.matmul`.

    >>> flambeau.linalg.matmul(flambeau.tensor([1, 2]), flambeau.tensor([3, 4])).item()
    11
    """
    return product(tensor(input, "linalg.matmul"), tensor(other, "linalg.matmul", "other", 2))


TRACE = primitive(
    "trace",
    lambda a: np.asarray(np.trace(a, dtype=np.int64 if a.dtype.kind in "bui" else None)).astype(
        np.int64 if a.dtype.kind in "bui" else a.dtype
    ),
    meta=scalar(accumulated),
    expr=KERNEL,
    self=lambda xp, g, self_shape: xp.diagonal_backward(xp.expand(g, (min(self_shape),)), tuple(self_shape), 0, 0, 1),
)


@public(
    out=False,
    samples=lambda t: [call(t(3, 3)), call(t(2, 3)), call(t(0, 3))],
    errors=lambda t: [(call(t(3)), RuntimeError, "trace: expected a matrix")],
)
def trace(input: Any) -> Any:
    """The sum of the main diagonal of a matrix; of integers in int64.

    >>> flambeau.trace(flambeau.tensor([[1, 2], [3, 4]])).item()
    5
    """
    if len(shape_of(tensor(input, "trace"))) != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {len(shape_of(input))}")
    return apply1(TRACE, input)


def _operator(self: Any, other: Any) -> Any:
    return product(self, other) if isinstance(other, TensorBase) else NotImplemented


def _reflected(self: Any, other: Any) -> Any:
    return product(other, self) if isinstance(other, TensorBase) else NotImplemented


OPERATORS = {"__matmul__": _operator, "__rmatmul__": _reflected}
