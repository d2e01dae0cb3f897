"""Numbers rounded to those that an integer grid holds, as floats: how training meets quantisation.

The derivative is 1 where the value is inside the grid, 0 where it was clamped. Source: Jacob et al., arXiv:1712.05877.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.apply import apply_n
from flambeau.core.dtype import dtype_of_array
from flambeau.core.objects import TensorBase, array_of, dtype_of, make, shape_of
from flambeau.kernels.services import is_float

from ._args import dim as one_dim
from ._args import integer, tensor
from ._record import KERNEL, call, primitive, public
from ._shapes import always, like, several


def _kernel(a: np.ndarray, scale: np.ndarray, zero_point: np.ndarray, low: int, high: int) -> tuple[np.ndarray, np.ndarray]:
    """(rounded values, whether each was inside the grid)."""
    wide = a.astype(np.float32) if a.dtype.itemsize == 2 else a
    steps = np.rint(wide * (np.float32(1) / scale)) + zero_point
    inside = (steps >= low) & (steps <= high)
    return ((np.clip(steps, low, high) - zero_point) * scale).astype(a.dtype), inside


def _record(name: str, node: str) -> Any:
    return primitive(name, _kernel, inputs=("self", "scale", "zero_point"), params=("quant_min", "quant_max"),
                     outputs=(True, False), promotes=False, meta=several(like(), like(always("?"))), expr=KERNEL, node=node,
                     self=lambda xp, g, out1: xp.keep(g, out1))


PER_TENSOR = _record("fake_quantize_per_tensor", "FakeQuantizePerTensorAffineCachemaskBackward0")
PER_CHANNEL = _record("fake_quantize_per_channel", "FakeQuantizePerChannelAffineCachemaskBackward0")


def _checked(name: str, value: Any, low: Any, high: Any) -> tuple[TensorBase, int, int]:
    t = tensor(value, name)
    d = dtype_of(t)
    low, high = integer(low, name, "quant_min"), integer(high, name, "quant_max")
    if low > high:
        raise RuntimeError(f"{name}: `quant_min` should be less than or equal to `quant_max`, got {low} and {high}")
    if not is_float(d) or d.kind == "c":
        raise NotImplementedError(f'"{name}" not implemented for {str(dtype_of_array(d))[6:]!r}: convert input to a '
                                  "floating dtype")
    return t, low, high


def _check_zero(name: str, zero: np.ndarray, low: int, high: int) -> None:
    if ((zero < low) | (zero > high)).any():
        raise RuntimeError(f"{name}: `zero_point` must be between `quant_min` and `quant_max`: {low} and {high}")


@public(method=False, out=False, samples=lambda t: [
    call(t(3, 4), 0.3, 1, -3, 4), call(t(6, low=-3, high=3), 0.5, 0, 0, 3)], errors=lambda t: [
    (call(t(3), 0.5, 9, 0, 7), RuntimeError, "zero_point"), (call(t(3), 0.5, 1, 7, 0), RuntimeError, "quant_min"),
    (call(t(3, dtype="int64"), 0.5, 0, 0, 3), NotImplementedError, "not implemented for")])
def fake_quantize_per_tensor_affine(input: Any, scale: Any, zero_point: Any, quant_min: int, quant_max: int) -> Any:
    """(clamp(round(input / scale) + zero_point, quant_min, quant_max) - zero_point) * scale.

    Args:
        scale, zero_point: numbers, or tensors of one element; zero_point an integer in [quant_min, quant_max].

    >>> flambeau.fake_quantize_per_tensor_affine(flambeau.tensor([0.3, 9.]), 0.5, 0, 0, 3).tolist()
    [0.5, 1.5]
    """
    name = "fake_quantize_per_tensor_affine"
    t, low, high = _checked(name, input, quant_min, quant_max)
    whole = zero_point if isinstance(zero_point, TensorBase) else integer(zero_point, name, "zero_point")
    zero = array_of(whole) if isinstance(whole, TensorBase) else np.asarray(whole)
    size = array_of(scale) if isinstance(scale, TensorBase) else np.asarray(scale)
    _check_zero(name, zero, low, high)
    return apply_n(PER_TENSOR, [t, make(size.astype(np.float32).reshape(())), make(zero.astype(np.float32).reshape(()))],
                   (low, high))[0]


@public(method=False, out=False, samples=lambda t: [
    call(t(2, 3, grad=True), t(values=[0.5, 1.0], dtype="float32", grad=False),
         t(values=[0, 1], dtype="int32", grad=False), 0, -3, 3)],
    errors=lambda t: [
    (call(t(2, 3), t(values=[0.5], dtype="float32"), t(values=[0], dtype="int32"), 0, -3, 3), RuntimeError,
     "not consistent"),
    (call(t(2, 3), t(values=[0.5, 1.0], dtype="float32"), t(values=[0, 9], dtype="int32"), 0, -3, 3), RuntimeError,
     "zero_point"),
    (call(t(2, 3), t(values=[0.5, 1.0], dtype="float32"), t(values=[0, 1], dtype="int64"), 0, -3, 3), RuntimeError,
     "Zero-point must be Int32")])
def fake_quantize_per_channel_affine(input: Any, scale: Any, zero_point: Any, axis: int, quant_min: int,
                                     quant_max: int) -> Any:
    """`fake_quantize_per_tensor_affine` with a scale and a zero point (C,) for each index along axis.

    >>> x = flambeau.tensor([[0.3], [0.3]])
    >>> zero = flambeau.zeros(2, dtype=flambeau.int32)
    >>> flambeau.fake_quantize_per_channel_affine(x, flambeau.tensor([0.5, 0.25]), zero, 0, 0, 3).tolist()
    [[0.5], [0.25]]
    """
    name = "fake_quantize_per_channel_affine"
    t, low, high = _checked(name, input, quant_min, quant_max)
    size, zero = array_of(tensor(scale, name, "scale", 2)), array_of(tensor(zero_point, name, "zero_point", 3))
    if zero.dtype.name not in ("int32", "float32", "float16"):
        raise RuntimeError(f"{name}: Zero-point must be Int32, Float or Half, found {zero.dtype.name}")
    at = one_dim(integer(axis, name, "axis"), len(shape_of(t)))
    if size.shape != zero.shape or size.shape != tuple(shape_of(t)[at:at + 1]):
        raise RuntimeError(f"{name}: dimensions of scale and zero-point are not consistent with input tensor: "
                           f"{list(size.shape)} and {list(zero.shape)} for {shape_of(t)[at]} channels")
    _check_zero(name, zero, low, high)
    inner = (-1, *[1] * (len(shape_of(t)) - at - 1))
    return apply_n(PER_CHANNEL, [t, make(size.astype(np.float32).reshape(inner)),
                                 make(zero.astype(np.float32).reshape(inner))], (low, high))[0]
