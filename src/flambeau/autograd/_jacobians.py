"""Jacobians of a function as real matrices: by differences, by backward, and by forward mode.

A complex element counts as two real ones, its real and imaginary part, in inputs and outputs alike. With PyTorch's
convention (the gradient of a real L is dL/dRe + i dL/dIm) both kinds of derivative then are ordinary matrices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from flambeau.core.objects import TensorBase, array_of, dtype_of, make, requires, shape_of
from flambeau.core.state import state

from . import forward_ad
from ._backward import grad


def outputs_of(func: Callable, inputs: Sequence) -> tuple:
    """The function's outputs as a tuple."""
    out = func(*inputs)
    return tuple(out) if isinstance(out, (tuple, list)) else (out,)


def is_checked(t: Any) -> bool:
    """Whether t is a floating or complex tensor."""
    return isinstance(t, TensorBase) and state.is_float(dtype_of(t))


def as_real(a: np.ndarray) -> np.ndarray:
    """The elements as a flat vector of real numbers: re, im, re, im for complex arrays."""
    flat = np.array(a).reshape(-1)
    if flat.dtype.kind == "c":
        return np.stack([flat.real, flat.imag], 1).reshape(-1).astype(np.float64)
    return flat.astype(np.float64)


def n_real(t: TensorBase) -> int:
    """How many real numbers t holds."""
    a = array_of(t)
    return a.size * (2 if a.dtype.kind == "c" else 1)


def unit(t: TensorBase, k: int) -> TensorBase:
    """Zeros like t with 1 (or i) at real component k."""
    a = np.zeros(tuple(shape_of(t)), dtype_of(t))
    if a.dtype.kind == "c":
        a.reshape(-1)[k // 2] = 1j if k % 2 else 1
    else:
        a.reshape(-1)[k] = 1
    return make(a)


def as_tensor(values: np.ndarray, like: TensorBase) -> TensorBase:
    """A tensor like `like` from its real components."""
    d = dtype_of(like)
    if d.kind == "c":
        values = values[0::2] + 1j * values[1::2]
    return make(values.reshape(tuple(shape_of(like))).astype(d))


def _evaluate(func: Callable, inputs: Sequence, which: Sequence[int]) -> list[np.ndarray]:
    outs = outputs_of(func, inputs)
    return [as_real(array_of(outs[i])) for i in which]


def difference(func: Callable, inputs: Sequence, t: TensorBase, which: Sequence[int], eps: float,
               direction: np.ndarray) -> list[np.ndarray]:
    """(f(t + eps d) - f(t - eps d)) / (2 eps) for the outputs `which`; t's memory is changed and put back."""
    array = array_of(t)
    kept = np.array(array)
    step = array_of(as_tensor(direction, t)).astype(array.dtype)
    try:
        array[...] = kept + eps * step
        high = _evaluate(func, inputs, which)
        array[...] = kept - eps * step
        low = _evaluate(func, inputs, which)
    finally:
        array[...] = kept
    return [(h - lo) / (2 * eps) for h, lo in zip(high, low, strict=True)]


def numerical(func: Callable, inputs: Sequence, t: TensorBase, which: Sequence[int], eps: float) -> list[np.ndarray]:
    """For each output the Jacobian with respect to t, (outputs, inputs), by central differences."""
    n = n_real(t)
    columns = [difference(func, inputs, t, which, eps, row) for row in np.eye(n)]
    if not columns:
        return [np.zeros((0, 0)) for _ in which]
    return [np.stack([c[i] for c in columns], 1) for i in range(len(which))]


def backward_row(out: TensorBase, inputs: Sequence, vector: TensorBase) -> list:
    """vector^T J for each input: gradients, None where there is none."""
    return list(grad(out, inputs, vector, retain_graph=True, allow_unused=True))


def gradient_vector(g: TensorBase | None, like: TensorBase) -> np.ndarray:
    """A gradient as real components; zeros for None."""
    return np.zeros(n_real(like)) if g is None else as_real(array_of(g))


def analytical(out: TensorBase, inputs: Sequence) -> list[np.ndarray]:
    """The Jacobians of one output with respect to inputs, by one backward for each real component."""
    rows: list[list] = [[] for _ in inputs]
    for k in range(n_real(out)):
        for column, g, t in zip(rows, backward_row(out, inputs, unit(out, k)), inputs, strict=True):
            column.append(gradient_vector(g, t))
    return [np.stack(r, 0) if r else np.zeros((0, n_real(t))) for r, t in zip(rows, inputs, strict=True)]


def pushed(func: Callable, inputs: Sequence, position: int, direction: TensorBase, which: Sequence[int]) -> list:
    """The tangents of the outputs `which`, None for none, with `direction` that of the input at `position`."""
    with forward_ad.dual_level():
        given = [forward_ad.make_dual(t, direction if i == position else make(np.zeros_like(array_of(t))))
                 if isinstance(t, TensorBase) and requires(t) else t for i, t in enumerate(inputs)]
        outs = outputs_of(func, given)
        return [(outs[i], forward_ad.unpack_dual(outs[i]).tangent) for i in which]


def tangent(func: Callable, inputs: Sequence, position: int, direction: TensorBase,
            which: Sequence[int]) -> list[np.ndarray]:
    """J d for the outputs `which` in forward mode, with d the tangent of the input at `position`."""
    return [np.zeros(n_real(out)) if value is None else as_real(array_of(value))
            for out, value in pushed(func, inputs, position, direction, which)]


def forward(func: Callable, inputs: Sequence, position: int, which: Sequence[int]) -> list[np.ndarray]:
    """The Jacobians with respect to one input, by forward mode."""
    t = inputs[position]
    columns = [tangent(func, inputs, position, unit(t, k), which) for k in range(n_real(t))]
    if not columns:
        return [np.zeros((0, 0)) for _ in which]
    return [np.stack([c[i] for c in columns], 1) for i in range(len(which))]
