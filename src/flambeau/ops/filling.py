"""Writing one value everywhere, or along the diagonal: fill_, zero_, fill_diagonal_."""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.apply import apply1, apply_n
from flambeau.core.inplace import apply_inplace1, apply_inplace2
from flambeau.core.objects import TensorBase, dtype_of, shape_of
from flambeau.kernels.casting import cast
from flambeau.kernels.layout import empty_like
from flambeau.kernels.pointwise import scalar
from flambeau.kernels.promotion import check_fits
from flambeau.kernels.services import copy_kernel

from ._args import tensor
from ._pointwise import is_number
from ._record import call, primitive, public
from ._shapes import like
from .shape import strides_of


def _into(a: np.ndarray, value: np.ndarray, out: np.ndarray) -> None:
    copy_kernel(a, value, out)


def _zero(xp: Any, g: Any) -> Any:
    return xp.zeros_like(g)


def _filled(a: np.ndarray, value: np.ndarray) -> np.ndarray:
    out = empty_like(a)
    out[...] = value
    return out


FILL_ = primitive("fill_", lambda a, value: _filled(a, cast(value, a.dtype)), inputs=("self", "value"), inplace=_into,
                  pointwise=True, promotes=False, is_copy=True, expr="value", node="FillBackward2",
                  self=_zero, value=lambda xp, g: g)
FILL = primitive("fill", lambda a, value: _filled(a, scalar(value, a.dtype)), params=("value",), scalars=("value",),
                 pointwise=True, same_dtype=True, expr="value", node="FillBackward0", self=_zero)
FILL_TENSOR = primitive("fill_tensor", lambda a, value: _filled(a, cast(value, a.dtype)), inputs=("self", "value"),
                        meta=like(), expr="value", node="FillBackward1", self=_zero, value=lambda xp, g: g)
ZERO_ = primitive("zero_", np.zeros_like, inplace=lambda a, out: out.fill(0), pointwise=True, same_dtype=True, is_copy=True,
                  expr="0", node="ZeroBackward0", self=_zero)


def _check(self: Any, value: Any) -> None:
    if isinstance(value, TensorBase):
        if shape_of(value):
            raise RuntimeError(f"fill_ only supports 0-dimension value tensor: this one has {len(shape_of(value))} "
                               "dimensions. Take one element of it, or use copy_().")
    elif not is_number(value):
        raise TypeError(f"fill_() received an invalid combination of arguments: value must be a number or a Tensor, not "
                        f"{type(value).__name__}")
    else:
        check_fits(value, dtype_of(self))


@public(namespaces=("torch",), name="fill_", out=False, samples=lambda t: [call(t(3, 4, grad=False), 2.5)])
def fill_(input: Any, value: Any) -> Any:
    """Write value, a number or a zero-dimensional tensor, into every element of input, which is returned.

    Raises:
        RuntimeError: value has dimensions.

    >>> flambeau.zeros(2).fill_(3).tolist()
    [3.0, 3.0]
    """
    _check(tensor(input, "fill_"), value)
    return apply_inplace2(FILL_, input, value)


@public(method=False, samples=lambda t: [call(t(3, 4), 2.5), call(t(3, 4), t())])
def fill(input: Any, value: Any) -> Any:
    """A tensor like input with value, a number or a zero-dimensional tensor, in every element.

    >>> flambeau.fill(flambeau.zeros(2), 3).tolist()
    [3.0, 3.0]
    """
    _check(tensor(input, "fill"), value)
    if isinstance(value, TensorBase):
        return apply_n(FILL_TENSOR, [input, value])
    return apply1(FILL, input, (value,))


@public(namespaces=("torch",), name="zero_", out=False, samples=lambda t: [call(t(3, 4, grad=False))])
def zero_(input: Any) -> Any:
    """Write 0 into every element of input, which is returned.

    >>> flambeau.ones(2).zero_().tolist()
    [0.0, 0.0]
    """
    return apply_inplace1(ZERO_, tensor(input, "zero_"))


@public(namespaces=(), name="fill_diagonal_", out=False,
        samples=lambda t: [call(t(3, 4, grad=False), 2.5), call(t(8, 2, grad=False), 1.0, True),
                           call(t(3, 3, 3, grad=False), 0)])
def fill_diagonal_(input: Any, fill_value: Any, wrap: bool = False) -> Any:
    """Write a number along the main diagonal of input, of at least two dimensions; returns input.

    Args:
        fill_value: a number, or a tensor of one element.
        wrap: in a matrix of more rows than columns start again below, one row after each square.

    Raises:
        RuntimeError: fewer than two dimensions, or more than two of different lengths.

    >>> flambeau.zeros(2, 2).fill_diagonal_(1).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    shape = tuple(shape_of(tensor(input, "fill_diagonal_")))
    if len(shape) < 2:
        raise RuntimeError("fill_diagonal_: dimensions must be larger than 1, "
                           f"input of shape {list(shape)} has {len(shape)}")
    if len(shape) > 2 and len(set(shape)) > 1:
        raise RuntimeError("fill_diagonal_: all dimensions of input must be of equal length, "
                           f"input has shape {list(shape)}")
    if isinstance(fill_value, TensorBase):
        fill_value = fill_value.item()
    steps = strides_of(input)
    rows, columns = shape[0], min(shape[1:])
    for start in range(0, rows if wrap and len(shape) == 2 else 1, columns + 1):
        length = min(rows - start, columns)
        offset = input.storage_offset() + start * steps[0]
        fill_(input.as_strided((length,), (sum(steps),), offset), fill_value)
    return input
