"""A product added to a tensor: addmm and its relatives, linear and bilinear layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.core.apply import apply1, apply2, apply_n
from flambeau.core.objects import TensorBase, dtype_of, shape_of
from flambeau.core.op import Op, slot
from flambeau.kernels import matmul as kernel

from ._args import tensor
from ._meta import Meta
from ._pointwise import is_number
from ._record import KERNEL, call, composite, primitive, public
from ._shapes import broadcast
from .matmul import BMM, MM, product
from .shape import reshaped
from .views import PERMUTE, T

ADD = slot("add")


def _times(g: Any, factor: Any) -> Any:
    return g if factor == 1 else g * factor.conjugate()


def _added(name: str, how: str) -> Callable:
    """The shape rule of beta * self + alpha * product."""

    def rule(self: Meta, a: Meta, b: Meta, beta: Any, alpha: Any) -> Meta:
        if how == "outer":
            shape: tuple = (a.size, b.size)
            dtype = kernel.common_dtype([self, a, b])
        else:
            kernel.check_dtypes(name, a, b)
            kernel.check_self(name, self, a)
            shape = kernel.product_shape("bmm" if how == "sum" else how, a.shape, b.shape)
            shape, dtype = shape[1:] if how == "sum" else shape, self.dtype
        kernel.check_added(name, self.shape, shape)
        return Meta(shape, dtype)

    return rule


def _linear_shape(x: Meta, weight: Meta) -> Meta:
    kernel.check_dtypes("linear", x, weight)
    return Meta(kernel.product_shape("linear", x.shape, weight.shape), x.dtype)


def _linear_bias_shape(bias: Meta, x: Meta, weight: Meta) -> Meta:
    m = _linear_shape(x, weight)
    kernel.check_dtypes("linear", x, bias)
    return Meta(broadcast([m.shape, bias.shape], "linear"), m.dtype)


def _family(name: str, inputs: tuple[str, str, str], fn: Callable, first: Callable, second: Callable,
            how: str) -> Op:
    """beta * self + alpha * product: first and second give the product's gradients before alpha."""
    fs: dict[str, Any] = {"self": lambda xp, g, beta: _times(g, beta), inputs[1]: first, inputs[2]: second}
    return primitive(name, fn, inputs=inputs, params=("beta", "alpha"), scalars=("beta", "alpha"),
                     meta=_added(name, how), expr=KERNEL, **fs)


ADDMM = _family(
    "addmm",
    ("self", "mat1", "mat2"),
    kernel.fused("addmm", kernel.mm),
    lambda xp, g, mat2, alpha: _times(xp.mm(g, xp.t(xp.conj(mat2))), alpha),
    lambda xp, g, mat1, alpha: _times(xp.mm(xp.t(xp.conj(mat1)), g), alpha),
    "mm",
)
ADDMV = _family(
    "addmv",
    ("self", "mat", "vec"),
    kernel.fused("addmv", kernel.mv),
    lambda xp, g, vec, alpha: _times(xp.outer(g, xp.conj(vec)), alpha),
    lambda xp, g, mat, alpha: _times(xp.mv(xp.t(xp.conj(mat)), g), alpha),
    "mv",
)
ADDR = _family(
    "addr",
    ("self", "vec1", "vec2"),
    kernel.add_outer,
    lambda xp, g, vec2, alpha: _times(xp.mv(g, xp.conj(vec2)), alpha),
    lambda xp, g, vec1, alpha: _times(xp.mv(xp.t(g), xp.conj(vec1)), alpha),
    "outer",
)
BADDBMM = _family(
    "baddbmm",
    ("self", "batch1", "batch2"),
    kernel.fused("baddbmm", kernel.bmm),
    lambda xp, g, batch2, alpha: _times(xp.bmm(g, xp.transpose(xp.conj(batch2), 1, 2)), alpha),
    lambda xp, g, batch1, alpha: _times(xp.bmm(xp.transpose(xp.conj(batch1), 1, 2), g), alpha),
    "bmm",
)


def _each(xp: Any, g: Any, like: Any) -> Any:
    """The gradient of a sum over the stack, for each of its matrices."""
    return xp.expand(xp.unsqueeze(g, 0), (like.shape[0], *g.shape))


ADDBMM = _family(
    "addbmm",
    ("self", "batch1", "batch2"),
    kernel.fused("addbmm", kernel.sum_of_products),
    lambda xp, g, batch2, alpha: _times(xp.bmm(_each(xp, g, batch2), xp.transpose(xp.conj(batch2), 1, 2)), alpha),
    lambda xp, g, batch1, alpha: _times(xp.bmm(xp.transpose(xp.conj(batch1), 1, 2), _each(xp, g, batch1)), alpha),
    "sum",
)


def _call(op: Op, tensors: tuple, n_dims: tuple[int, int], beta: Any, alpha: Any) -> Any:
    a, x, y = tensors
    if not (type(beta) is type(alpha) is int and isinstance(a, TensorBase)
            and isinstance(x, TensorBase) and len(shape_of(x)) == n_dims[0]
            and isinstance(y, TensorBase) and len(shape_of(y)) == n_dims[1]):
        _check(op, tensors, n_dims, beta, alpha)
    return apply_n(op, [a, x, y], (beta, alpha))


def _check(op: Op, tensors: tuple, n_dims: tuple[int, int], beta: Any, alpha: Any) -> None:
    for position, (name, x) in enumerate(zip(("input", *op.input_names[1:]), tensors, strict=True), 1):
        tensor(x, op.name, name, position)
    for name, x, n in zip(op.input_names[1:], tensors[1:], n_dims, strict=True):
        if len(shape_of(x)) != n:
            word = {1: "a vector", 2: "a matrix", 3: "a 3D tensor"}[n]
            raise RuntimeError(
                f"{name} must be {word}, got {len(shape_of(x))}-D tensor: {op.name}() got shape {list(shape_of(x))}"
            )
    if op is ADDR and dtype_of(tensors[0]).kind in "iub":  # the others truncate the factor, as PyTorch does
        for name, x in (("beta", beta), ("alpha", alpha)):
            if isinstance(x, (float, complex)):
                raise RuntimeError(f"For integral input tensors, argument {name} must not be a floating point number.")
    for name, x in (("beta", beta), ("alpha", alpha)):
        if type(x) is not int and type(x) is not float and not isinstance(x, TensorBase) and not is_number(x):
            raise TypeError(f"{op.name}(): argument '{name}' must be Number, not {type(x).__name__}")


def _samples(*shapes: tuple) -> Callable:
    def samples(t: Any) -> list:
        return [
            call(*[t(*s) for s in shapes]),
            call(*[t(*s) for s in shapes], beta=0.5, alpha=2.0),
            call(t(), *[t(*s) for s in shapes[1:]], beta=0),
        ]

    return samples


@public(
    inplace=True,
    samples=_samples((2, 4), (2, 3), (3, 4)),
    errors=lambda t: [
        (call(t(2, 4), t(2, 3), t(4, 5)), RuntimeError, "cannot be multiplied .2x3 and 4x5."),
        (call(t(3), t(2, 3), t(3, 4)), RuntimeError, "The expanded size of the tensor"),
    ],
)
def addmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta * input + alpha * (mat1 @ mat2); input broadcasts. With beta 0 nan and inf in input are ignored.

    >>> flambeau.addmm(flambeau.tensor([1]), flambeau.tensor([[2]]), flambeau.tensor([[3]]), alpha=2).tolist()
    [[13]]
    """
    return _call(ADDMM, (input, mat1, mat2), (2, 2), beta, alpha)


@public(inplace=True, samples=_samples((2,), (2, 3), (3,)))
def addmv(input: Any, mat: Any, vec: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta * input + alpha * (mat @ vec); input broadcasts.

    >>> flambeau.addmv(flambeau.tensor([1]), flambeau.tensor([[2, 1]]), flambeau.tensor([3, 4])).tolist()
    [11]
    """
    return _call(ADDMV, (input, mat, vec), (2, 1), beta, alpha)


@public(inplace=True, samples=_samples((2, 3), (2,), (3,)))
def addr(input: Any, vec1: Any, vec2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta * input + alpha * outer(vec1, vec2); input broadcasts.

    >>> flambeau.addr(flambeau.tensor([[1]]), flambeau.tensor([2]), flambeau.tensor([3])).tolist()
    [[7]]
    """
    return _call(ADDR, (input, vec1, vec2), (1, 1), beta, alpha)


@public(inplace=True, samples=_samples((2, 3, 5), (2, 3, 4), (2, 4, 5)))
def baddbmm(input: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta * input + alpha * bmm(batch1, batch2); input broadcasts.

    >>> flambeau.baddbmm(flambeau.tensor([1.]), flambeau.ones(2, 1, 3), flambeau.ones(2, 3, 1)).tolist()
    [[[4.0]], [[4.0]]]
    """
    return _call(BADDBMM, (input, batch1, batch2), (3, 3), beta, alpha)


@public(inplace=True, samples=_samples((3, 5), (2, 3, 4), (2, 4, 5)))
def addbmm(input: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta * input + alpha * the sum over the stack of bmm(batch1, batch2); input broadcasts.

    >>> flambeau.addbmm(flambeau.tensor([1.]), flambeau.ones(2, 1, 3), flambeau.ones(2, 3, 1)).tolist()
    [[7.0]]
    """
    return _call(ADDBMM, (input, batch1, batch2), (3, 3), beta, alpha)


# ------------------------------------------------------------------------------------- linear
#
# One node for product and bias. The names of nodes are those that PyTorch shows for the same call.


@composite("as_rows")
def as_rows(xp: Any, a: Any) -> Any:
    """All dimensions but the last as one."""
    n = 1
    for size in a.shape[:-1]:
        n *= size
    return xp.reshape(a, (n, a.shape[-1]))


def _input_grad(xp: Any, g: Any, weight: Any) -> Any:
    return xp.mm(g, xp.conj(weight))


def _weight_grad(xp: Any, g: Any, input: Any) -> Any:
    return xp.mm_tn(g, xp.conj(input))


def _nd_input_grad(xp: Any, g: Any, weight: Any) -> Any:
    return xp.linear_nd(g, xp.t(xp.conj(weight)))


def _nd_weight_grad(xp: Any, g: Any, input: Any) -> Any:
    return xp.mm(xp.t(xp.as_rows(g)), xp.conj(xp.as_rows(input)))


LINEAR = primitive(
    "linear_bias",
    kernel.linear_bias,
    inputs=("bias", "input", "weight"),
    meta=_linear_bias_shape,
    expr=KERNEL,
    node="AddmmBackward0",
    bias=lambda xp, g: g,
    input=_input_grad,
    weight=_weight_grad,
)
LINEAR_NO_BIAS = primitive(
    "linear",
    kernel.linear,
    inputs=("input", "weight"),
    promotes=False,
    meta=_linear_shape,
    expr=KERNEL,
    node="MmBackward0",
    input=_input_grad,
    weight=_weight_grad,
)
LINEAR_ND = primitive(
    "linear_nd_bias",
    kernel.linear_bias,
    inputs=("bias", "input", "weight"),
    meta=_linear_bias_shape,
    expr=KERNEL,
    node="ViewBackward0",
    bias=lambda xp, g: g,
    input=_nd_input_grad,
    weight=_nd_weight_grad,
)
LINEAR_ND_NO_BIAS = primitive(
    "linear_nd",
    kernel.linear,
    inputs=("input", "weight"),
    promotes=False,
    meta=_linear_shape,
    expr=KERNEL,
    node="UnsafeViewBackward0",
    input=_nd_input_grad,
    weight=_nd_weight_grad,
)


@public(
    namespaces=("nn.functional",),
    method=False,
    out=False,
    samples=lambda t: [
        call(t(4, 3), t(2, 3), t(2)),
        call(t(4, 3), t(2, 3)),
        call(t(2, 4, 3), t(2, 3), t(2)),
        call(t(2, 4, 3), t(2, 3)),
        call(t(3), t(2, 3), t(2)),
        call(t(3), t(2, 3)),
        call(t(4, 3), t(3)),
        call(t(0, 3), t(2, 3), t(2)),
        call(t(2, 0), t(3, 0), t(3)),
    ],
    errors=lambda t: [
        (call(t(4, 3), t(2, 5)), RuntimeError, "mat1 and mat2 shapes cannot be multiplied .4x3 and 5x2."),
        (call(t(4, 3, dtype="float64"), t(2, 3)), RuntimeError, "same dtype"),
        (call(t(4, 3), t(2, 3), t(5)), RuntimeError, "bias does not fit"),
    ],
)
def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    """input @ weight.T + bias.

    Args:
        input: (*, in_features).
        weight: (out_features, in_features), or (in_features) for a single output.
        bias: (out_features), or None.

    Returns:
        Tensor of shape (*, out_features).

    Raises:
        RuntimeError: the last dimension of input is not in_features, or dtypes differ.

    >>> flambeau.nn.functional.linear(flambeau.tensor([1., 2.]), flambeau.tensor([[3., 4.]])).tolist()
    [11.0]
    """
    n = len(shape_of(tensor(input, "linear")))
    n_weight = len(shape_of(tensor(weight, "linear", "weight", 2)))
    if n == 2 and n_weight == 2:
        return apply2(LINEAR_NO_BIAS, input, weight) if bias is None else apply_n(LINEAR, [bias, input, weight])
    if n_weight == 1 or n == 0 or (n == 1 and bias is None):
        out = product(input, apply1(T, weight) if n_weight == 2 else weight)
        return out if bias is None else apply2(ADD, out, bias)
    if n_weight != 2:
        raise RuntimeError(
            f"linear(): weight must be a matrix (out_features, in_features), got shape {list(shape_of(weight))}"
        )
    return apply2(LINEAR_ND_NO_BIAS, input, weight) if bias is None else apply_n(LINEAR_ND, [bias, input, weight])


@public(
    namespaces=("torch", "nn.functional"),
    method=False,
    out=False,
    samples=lambda t: [
        call(t(4, 3), t(4, 2), t(5, 3, 2), t(5)),
        call(t(2, 4, 3), t(2, 4, 2), t(5, 3, 2)),
        call(t(3), t(2), t(5, 3, 2)),
    ],
    errors=lambda t: [(call(t(4, 3), t(5, 2), t(5, 3, 2)), RuntimeError, "must match")],
)
def bilinear(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Any:
    """input1 @ weight[o] @ input2 for each output o, plus bias.

    Args:
        input1: (*, in1). input2: (*, in2). weight: (out, in1, in2). bias: (out), or None.

    Returns:
        Tensor of shape (*, out).

    >>> F = flambeau.nn.functional
    >>> F.bilinear(flambeau.tensor([2.]), flambeau.tensor([3.]), flambeau.tensor([[[4.]]])).tolist()
    [24.0]
    """
    s1, s2, sw = tuple(shape_of(input1)), tuple(shape_of(input2)), tuple(shape_of(weight))
    if s1[:-1] != s2[:-1]:
        raise RuntimeError(
            f"bilinear(): all dimensions of the inputs but the last must match, got {list(s1)} and {list(s2)}"
        )
    if len(sw) != 3 or s1[-1] != sw[1] or s2[-1] != sw[2]:
        raise RuntimeError(
            f"bilinear(): input1 size ({s1[-1]}) and input2 size ({s2[-1]}) do not match weight size {list(sw)}: "
            "weight is (out_features, in1_features, in2_features)"
        )
    n_out, n1, n2 = sw
    rows = 1
    for size in s1[:-1]:
        rows *= size
    by_first = reshaped(apply1(PERMUTE, weight, ((1, 0, 2),)), (n1, n_out * n2))
    half = reshaped(apply2(MM, reshaped(input1, (rows, n1)), by_first), (rows, n_out, n2))
    out = reshaped(apply2(BMM, half, reshaped(input2, (rows, n2, 1))), (*s1[:-1], n_out))
    return out if bias is None else apply2(ADD, out, bias)
