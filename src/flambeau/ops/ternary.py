"""Operators of three tensors: selection, interpolation, fused products; and masked_fill."""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.apply import apply_n, constant
from flambeau.core.objects import TensorBase, dtype_of, make, memory_of, shape_of
from flambeau.kernels.casting import cast
from flambeau.kernels.pointwise import BOOL, INT64, refuse, scalar, select
from flambeau.kernels.pointwise import elementwise as elementwise_kernel
from flambeau.kernels.promotion import check_fits

from ._args import tensor
from ._number_first import number_first
from ._pointwise import common, is_number, to_dtype
from ._record import KERNEL, REGISTRY, call, primitive, public
from ._shapes import elementwise

# --------------------------------------------------------------------------------- where

_where = getattr(np.where, "_implementation", np.where)       # without the look at __array_function__
_MANY = 1 << 12         # elements above which `select` is faster


def _chosen(condition: np.ndarray, self: np.ndarray, other: np.ndarray) -> np.ndarray:
    return _where(condition, self, other) if condition.size <= _MANY else select(condition, self, other)


WHERE = primitive("where", _chosen, inputs=("condition", "self", "other"), pointwise=True, expr="condition ? self : other",
                  self=lambda xp, g, condition: xp.keep(g, condition),
                  other=lambda xp, g, condition: xp.drop(g, condition))


def _where_samples(t: Any) -> list:
    return [call(t(3, 4, dtype="bool"), t(3, 4), t(3, 4)), call(t(3, 1, dtype="bool"), t(4), t()),
            call(t(3, 4, dtype="bool"), t(3, 4), 1.5), call(t(3, 4, dtype="bool"), 1.5, t(3, 4))]


def where(condition: Any, input: Any = None, other: Any = None) -> Any:
    """input where condition, elsewhere other; elementwise, with broadcasting.

    Args:
        condition: bool tensor.
        input, other: tensors or numbers. Without both, the indices of the true elements as `nonzero(as_tuple=True)`.

    Returns:
        Tensor of the broadcast shape, of the dtype that input and other promote to.

    Raises:
        RuntimeError: condition is not of dtype bool.

    >>> flambeau.where(flambeau.tensor([True, False]), 1.0, flambeau.tensor([5., 6.])).tolist()
    [1.0, 6.0]
    """
    d = dtype_of(tensor(condition, "where", "condition"))
    if input is None and other is None:
        return REGISTRY["nonzero"].fn(condition, as_tuple=True)
    if d is not BOOL:
        if d.name != "uint8":
            raise RuntimeError(f"where expected condition to be a boolean tensor, and its dtype is {d}. Compare it, "
                               "for example with != 0.")
        condition = make(cast(condition._array, BOOL))
    if isinstance(input, TensorBase) and isinstance(other, TensorBase) and dtype_of(input) is dtype_of(other):
        return apply_n(WHERE, [condition, input, other])
    if isinstance(input, TensorBase) or isinstance(other, TensorBase):
        for position, value in ((2, input), (3, other)):
            if not isinstance(value, TensorBase) and not is_number(value):
                raise TypeError(f"where(): argument {position} must be Tensor or a number, not {type(value).__name__}")
        a, b = common(input, other)
        if not (isinstance(input, TensorBase) and isinstance(other, TensorBase)):
            check_fits(other if isinstance(input, TensorBase) else input, dtype_of(a))
        return apply_n(WHERE, [condition, a, b])
    if not (is_number(input) and is_number(other)):
        raise TypeError("where() takes a condition and two tensors or numbers")
    a, b = (make(_own(v)) for v in (input, other))
    return apply_n(WHERE, [condition, *common(a, b)])


def _own(value: Any) -> np.ndarray:
    """A number in the dtype that it has without a tensor."""
    d = INT64 if isinstance(value, int) and not isinstance(value, bool) else BOOL
    return cast(constant(value, d), constant(value, d).dtype)


def _where_method(self: Any, condition: Any, other: Any) -> Any:
    """self where condition, elsewhere other: see `flambeau.where`."""
    return where(condition, self, other)


where.as_method = _where_method                                               # type: ignore[attr-defined]
public(op=WHERE, samples=_where_samples)(where)


# --------------------------------------------------------------------------------- interpolation


@elementwise_kernel
def _lerp(a: np.ndarray, b: np.ndarray, weight: np.ndarray) -> np.ndarray:
    # from the nearer end, so that weight 0 gives a and weight 1 gives b exactly
    near = np.less(np.abs(weight), scalar(0.5, np.dtype(weight.real.dtype)))
    difference = b - a
    first, second = np.asarray(a + weight * difference), np.asarray(b - difference * (1 - weight))
    return select(np.asarray(near), first, second).astype(a.dtype, copy=False)


@elementwise_kernel
def _lerp_number(a: np.ndarray, b: np.ndarray, weight: Any) -> np.ndarray:
    difference = np.asarray(b - a)
    if abs(weight) < 0.5:
        difference *= scalar(weight, a.dtype)
        return np.add(a, difference, difference if difference.ndim else None)
    difference *= scalar(1 - weight, a.dtype)
    return np.subtract(b, difference, difference if difference.ndim else None)


LERP = primitive("lerp", _lerp, inputs=("self", "end", "weight"), pointwise=True, expr=KERNEL, node="LerpBackward1",
                 self=lambda xp, g, weight: g * xp.conj(1 - weight), end=lambda xp, g, weight: g * xp.conj(weight),
                 weight=lambda xp, g, self, end: g * xp.conj(end - self))
LERP_SCALAR = primitive("lerp_scalar", _lerp_number, inputs=("self", "end"), params=("weight",), scalars=("weight",),
                        meta=elementwise(2), batch="pointwise", expr=KERNEL, node="LerpBackward0",
                        self=lambda xp, g, weight: g * _conj(1 - weight), end=lambda xp, g, weight: g * _conj(weight))


def _conj(number: Any) -> Any:
    return number.conjugate()


@public(op=LERP, inplace=True, samples=lambda t: [call(t(3, 4), t(3, 4), 0.3), call(t(3, 4), t(4), t(3, 1)),
                                                  call(t(), t(), 0.7)])
def lerp(input: Any, end: Any, weight: Any) -> Any:
    """input + weight * (end - input), elementwise, with broadcasting.

    Args:
        input, end: floating or complex tensors of one dtype.
        weight: tensor of that dtype, or a number.

    Raises:
        RuntimeError: the dtypes differ.

    >>> flambeau.lerp(flambeau.tensor([0.]), flambeau.tensor([10.]), 0.5).tolist()
    [5.0]
    """
    tensor(input, "lerp")
    if not isinstance(end, TensorBase):
        raise TypeError(f"lerp() received an invalid combination of arguments: end must be a Tensor, not "
                        f"{type(end).__name__}")
    if isinstance(weight, TensorBase) and not shape_of(weight) and dtype_of(weight) != dtype_of(input):
        weight = to_dtype(weight, dtype_of(input))
    for t, what in ((end, "end"), (weight, "weight")):
        if isinstance(t, TensorBase) and dtype_of(t) != dtype_of(input):
            raise RuntimeError(f"expected dtype {dtype_of(input)} for `{what}` but got dtype {dtype_of(t)}")
    refuse("lerp_kernel", memory_of(input), "bui")
    if isinstance(weight, TensorBase):
        return apply_n(LERP, [input, end, weight])
    return apply_n(LERP_SCALAR, [input, end], (weight,))


# --------------------------------------------------------------------------------- fused products


def _scaled(b: np.ndarray, value: Any, like: np.ndarray) -> np.ndarray:
    """value * b: first, as PyTorch does, for the same rounding."""
    return b if value == 1 else b * scalar(value, like.dtype)


def _plus(a: np.ndarray, t: np.ndarray) -> np.ndarray:
    """a + t, in t's memory where it has the shape."""
    if t.ndim and t.dtype is a.dtype and (a.shape == t.shape or t.ndim >= a.ndim and np.broadcast_shapes(
            a.shape, t.shape) == t.shape):
        return np.add(a, t, t)
    return a + t


@elementwise_kernel
def _addcmul(a: np.ndarray, b: np.ndarray, c: np.ndarray, value: Any) -> np.ndarray:
    return _plus(a, np.asarray(_scaled(b, value, a) * c))


@elementwise_kernel
def _addcdiv(a: np.ndarray, b: np.ndarray, c: np.ndarray, value: Any) -> np.ndarray:
    return _plus(a, np.asarray(_scaled(b, value, a) / c))


def _times(xp: Any, g: Any, value: Any) -> Any:
    return g if value == 1 else g * _conj(value)


ADDCMUL = primitive("addcmul", _addcmul, inputs=("self", "tensor1", "tensor2"), params=("value",), scalars=("value",),
                    pointwise=True, expr="self + value * tensor1 * tensor2",
                    self=lambda xp, g: g,
                    tensor1=lambda xp, g, tensor2, value: _times(xp, g * xp.conj(tensor2), value),
                    tensor2=lambda xp, g, tensor1, value: _times(xp, g * xp.conj(tensor1), value))
ADDCDIV = primitive("addcdiv", _addcdiv, inputs=("self", "tensor1", "tensor2"), params=("value",), scalars=("value",),
                    pointwise=True, expr="self + value * tensor1 / tensor2",
                    self=lambda xp, g: g,
                    tensor1=lambda xp, g, tensor2, value: _times(xp, g / xp.conj(tensor2), value),
                    tensor2=lambda xp, g, tensor1, tensor2, value: _times(
                        xp, -g * xp.conj(tensor1 / (tensor2 * tensor2)), value))


@public(op=ADDCMUL, inplace=True, samples=lambda t: [call(t(3, 4), t(3, 4), t(4)), call(t(3, 4), t(3, 1), t(4), value=2.5)])
@number_first("value", 2)
def addcmul(input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
    """input + value * tensor1 * tensor2, elementwise, with broadcasting.

    >>> flambeau.addcmul(flambeau.tensor([1.]), flambeau.tensor([2.]), flambeau.tensor([3.])).tolist()
    [7.0]
    """
    inputs = _operands("addcmul", input, tensor1, tensor2)
    return apply_n(ADDCMUL, inputs, (_checked(value, inputs[0], "addcmul"),))


@public(op=ADDCDIV, inplace=True, samples=lambda t: [call(t(3, 4), t(3, 4), t(4, low=0.5, high=2.0)),
                                                     call(t(3, 4), t(3, 1), t(4, low=0.5, high=2.0), value=2.5)])
@number_first("value", 2)
def addcdiv(input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
    """input + value * tensor1 / tensor2, elementwise, with broadcasting.

    Raises:
        RuntimeError: integer tensors: use true_divide or a rounding division.

    >>> flambeau.addcdiv(flambeau.tensor([1.]), flambeau.tensor([6.]), flambeau.tensor([3.])).tolist()
    [3.0]
    """
    inputs = _operands("addcdiv", input, tensor1, tensor2)
    if dtype_of(inputs[1]).kind in "bui" and dtype_of(tensor1).kind in "bui" and dtype_of(tensor2).kind in "bui":
        raise RuntimeError("Integer division with addcdiv is not supported: tensor1 and tensor2 both hold "
                           "integers. Convert them with .float(), or divide first, with the rounding you mean: "
                           "input + value * torch.div(tensor1, tensor2, rounding_mode='trunc').")
    return apply_n(ADDCDIV, inputs, (_checked(value, inputs[0], "addcdiv"),))


def _operands(name: str, input: Any, tensor1: Any, tensor2: Any) -> list:
    return common(tensor(input, name), tensor(tensor1, name, "tensor1", 2), tensor(tensor2, name, "tensor2", 3))


def _checked(value: Any, like: Any, name: str) -> Any:
    d = dtype_of(like)
    if type(value) is int and value == 1 and d.kind != "b":
        return value
    if d.kind == "b":
        raise NotImplementedError(f'"{name}_cpu_out" not implemented for \'Bool\'. Convert the tensors, for example with '
                                  ".int().")
    if not is_number(value):
        raise TypeError(f"{name}(): argument 'value' must be Number, not {type(value).__name__}")
    check_fits(value, d)
    return int(value) if d.kind in "ui" else value


# --------------------------------------------------------------------------------- masked_fill

def _filled(a: np.ndarray, mask: np.ndarray, value: Any) -> np.ndarray:
    many = a.size > _MANY or mask.size > _MANY
    return np.asarray(select(mask, value, a) if many else np.where(mask, value, a), order="C")


MASKED_FILL = primitive("masked_fill", lambda a, mask, value: _filled(a, mask, scalar(value, a.dtype)),
                        inputs=("self", "mask"), params=("value",), scalars=("value",), meta=elementwise(2, first=True),
                        expr="mask ? value : self",
                        self=lambda xp, g, mask: xp.drop(g, mask))
MASKED_FILL_TENSOR = primitive("masked_fill_tensor", lambda a, mask, value: _filled(a, mask, cast(value, a.dtype)),
                               inputs=("self", "mask", "value"), meta=elementwise(2, first=True),
                               expr="mask ? value : self", node="MaskedFillBackward1",
                               self=lambda xp, g, mask: xp.drop(g, mask), value=lambda xp, g, mask: xp.keep(g, mask))


def _fill_samples(t: Any) -> list:
    return [call(t(3, 4), t(3, 4, dtype="bool"), 1.5), call(t(3, 4), t(4, dtype="bool"), t()),
            call(t(3, 4, dtype="int64"), t(4, dtype="bool"), 2)]


@public(op=MASKED_FILL, inplace=True, out=False, samples=_fill_samples)
def masked_fill(input: Any, mask: Any, value: Any) -> Any:
    """input with value where mask is true, elementwise; input and mask broadcast.

    Args:
        mask: bool tensor.
        value: a number or a zero-dimensional tensor.

    Returns:
        Tensor of the broadcast shape, of the dtype of input.

    Raises:
        RuntimeError: mask is not of dtype bool, value has dimensions, or cannot be cast to the dtype of input.

    >>> flambeau.masked_fill(flambeau.tensor([1., 2.]), flambeau.tensor([True, False]), 0).tolist()
    [0.0, 2.0]
    """
    d = dtype_of(tensor(input, "masked_fill"))
    if dtype_of(tensor(mask, "masked_fill", "mask", 2)) is not BOOL:
        raise RuntimeError(f"masked_fill only supports boolean masks, but got dtype {dtype_of(mask)}")
    if isinstance(value, TensorBase):
        if shape_of(value):
            raise RuntimeError("masked_fill_ only supports a 0-dimensional value tensor; this one has "
                               f"{len(shape_of(value))} dimension(s). Take one element of it, or use torch.where.")
        return apply_n(MASKED_FILL_TENSOR, [input, mask, value])
    if not is_number(value):
        raise TypeError(f"masked_fill(): argument 'value' must be Tensor or a number, not {type(value).__name__}")
    check_fits(value, d)
    return apply_n(MASKED_FILL, [input, mask], (value,))

for _op in (MASKED_FILL, MASKED_FILL_TENSOR):
    _op.overlap_allowed = True
