"""The normalisations under their names in `torch`: no defaults, and with the statistics that backward reads."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from flambeau.core.apply import apply_n
from flambeau.core.inplace import apply_inplace2
from flambeau.core.objects import TensorBase, dtype_of, shape_of

from ._args import followed, integer, number, tensor
from ._lazy import placed
from ._record import call, ops, public
from .normalization import (
    _COPY,
    BATCH,
    BATCH_UPDATE,
    GROUP,
    LAYER,
    _check_channels,
    _check_dtype,
    _check_normalized,
    _check_tensors,
    _shape_argument,
    normalise_batch,
    normalise_instances,
)


def _stats(t: Any) -> tuple:
    return t(3, grad=False), t(3, low=0.5, high=2.0, grad=False)


@public(method=False, out=False, samples=lambda t: [
    call(t(4, 3), t(3), t(3), None, None, True, 0.1, 1e-5, False),
    call(t(2, 3, 4), None, None, *_stats(t), False, 0.1, 1e-5, True),
    call(t(2, 3, 2, 2), t(3), None, *_stats(t), True, 0.3, 1e-3, False)], errors=lambda t: [
    (call(t(2, 3), None, None, None, None, False, 0.1, 1e-5, False), RuntimeError, "must be defined in evaluation mode"),
    (call(t(2, 3), t(2), None, None, None, True, 0.1, 1e-5, False), RuntimeError, "should contain 3 elements"),
    (call(t(2, 3)), TypeError, "missing")])
def batch_norm(input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool, momentum: float,
               eps: float, cudnn_enabled: bool) -> Any:
    """`nn.functional.batch_norm` with its arguments in another order; a single value per channel gives 0.

    Args:
        cudnn_enabled: has no effect.

    >>> flambeau.batch_norm(flambeau.tensor([[1.], [3.]]), None, None, None, None, True, 0.1, 0.0, False).tolist()
    [[-1.0], [1.0]]
    """
    return normalise_batch(tensor(input, "batch_norm"), running_mean, running_var, weight, bias, training, momentum, eps)


@public(method=False, out=False, samples=lambda t: [
    call(t(2, 3, 4), t(3), t(3), None, None, True, 0.1, 1e-5, False),
    call(t(2, 3, 4), None, None, *_stats(t), False, 0.1, 1e-5, False)], errors=lambda t: [
    (call(t(2, 3, 4), None, None, None, None, False, 0.1, 1e-5, False), RuntimeError, "when use_input_stats is false")])
def instance_norm(input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, use_input_stats: bool,
                  momentum: float, eps: float, cudnn_enabled: bool) -> Any:
    """`nn.functional.instance_norm` with its arguments in another order; a single element per channel gives 0.

    >>> flambeau.instance_norm(flambeau.tensor([[[1., 3.]]]), None, None, None, None, True, 0.1, 0.0, False).tolist()
    [[[-1.0, 1.0]]]
    """
    return normalise_instances(tensor(input, "instance_norm"), running_mean, running_var, weight, bias, use_input_stats,
                               momentum, eps)


@public(method=False, samples=lambda t: [
    call(t(4, 3), t(3), t(3), None, None, True, 0.1, 1e-5), call(t(2, 3, 4), None, None, *_stats(t), True, 0.1, 1e-5),
    call(t(2, 3, 4), t(3), None, *_stats(t), False, 0.1, 1e-5)], errors=lambda t: [
    (call(t(2, 3), None, None, None, None, True), TypeError, "missing")])
def native_batch_norm(input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool,
                      momentum: float, eps: float) -> tuple:
    """(output, mean, inverse deviation): `batch_norm` and, in training, the statistics (C,) of the batch.

    >>> flambeau.native_batch_norm(flambeau.tensor([[1.], [3.]]), None, None, None, None, True, 0.1, 0.0)[1].tolist()
    [2.0]
    """
    a = tensor(input, "native_batch_norm")
    _check_tensors("native_batch_norm", weight=weight, bias=bias, running_mean=running_mean, running_var=running_var)
    if not training:
        none = placed(a, (0,), dtype_of(a), lambda: np.zeros(0, dtype_of(a)))
        return normalise_batch(a, running_mean, running_var, weight, bias, False, momentum, eps), none, ops.clone(none)
    _check_dtype("batch_norm", a, weight, bias, running_mean, running_var)
    shape = shape_of(a)
    _check_channels("batch_norm", shape[1] if len(shape) > 1 else 0, running_mean=running_mean, running_var=running_var,
                    weight=weight, bias=bias)
    if running_mean is None or running_var is None:
        return tuple(apply_n(BATCH, [a, weight, bias], (eps,)))
    by = number(momentum, "native_batch_norm", "momentum")
    *found, new_mean, new_var = apply_n(BATCH_UPDATE, [a, weight, bias, running_mean, running_var], (by, eps))
    apply_inplace2(_COPY, running_mean, new_mean)
    apply_inplace2(_COPY, running_var, new_var)
    return tuple(found)


@public(method=False, samples=lambda t: [
    call(t(3, 4), (4,), t(4), t(4), 1e-5), call(t(2, 3, 4), (3, 4), None, None, 1e-2)], errors=lambda t: [
    (call(t(2, 3), (2,), None, None, 1e-5), RuntimeError, "expected input with shape")])
def native_layer_norm(input: Any, normalized_shape: Any, weight: Any, bias: Any, eps: float) -> tuple:
    """(output, mean, inverse deviation): `layer_norm` and the statistics of each row, with dimensions of size 1.

    >>> flambeau.native_layer_norm(flambeau.tensor([1., 3.]), (2,), None, None, 0.0)[1].tolist()
    [2.0]
    """
    a = tensor(input, "native_layer_norm")
    normalized = _shape_argument("native_layer_norm", normalized_shape)
    _check_normalized(a, normalized, weight=weight, bias=bias)
    _check_dtype("LayerNormKernelImpl", a, weight, bias)
    return tuple(apply_n(LAYER, [a, weight, bias], (normalized, eps)))


def _group_statistics(a: TensorBase, n: int, groups: int, size: int, eps: float) -> tuple:
    """Mean and inverse deviation of each group, (N, groups), differentiably."""
    rows = ops.reshape(a, (n, groups, size))
    mean = ops.mean(rows, (2,), True)
    centred = rows - mean
    return ops.reshape(mean, (n, groups)), ops.reshape(ops.rsqrt(ops.mean(centred * centred, (2,), True) + eps), (n, groups))


@public(method=False, samples=lambda t: [
    call(t(2, 4, 3), t(4), t(4), 2, 4, 3, 2, 1e-5), call(t(2, 4), None, None, 2, 4, 1, 2, 1e-5),
    call(t(2, 6, 2, 2), t(6), None, 2, 6, 4, 3, 1e-3)], errors=lambda t: [
    (call(t(2, 4, 3), None, None, 2, 4, 3, 3, 1e-5), RuntimeError, "divisible by num_groups"),
    (call(t(2, 4, 3), None, None, 3, 4, 3, 2, 1e-5), RuntimeError, r"N \* C \* HxW"),
    (call(t(2, 4, 3), None, None, 2, 4, 3, 0, 1e-5), RuntimeError, "greater than 0")])
def native_group_norm(input: Any, weight: Any, bias: Any, N: int, C: int, HxW: int, group: int, eps: float) -> tuple:
    """(output, mean, inverse deviation): `group_norm` and the statistics (N, group), all differentiable.

    Args:
        input: (N, C, *). N, C, HxW: its sizes, HxW the product of those after C. group: the number of groups.

    >>> flambeau.native_group_norm(flambeau.tensor([[1., 3.]]), None, None, 1, 2, 1, 1, 0.0)[1].tolist()
    [[2.0]]
    """
    a: Any = tensor(input, "native_group_norm")
    _check_tensors("native_group_norm", weight=weight, bias=bias)
    n, c, plane, groups = (integer(v, "native_group_norm", name) for v, name in (
        (N, "N"), (C, "C"), (HxW, "HxW"), (group, "group")))
    if groups < 1:
        raise RuntimeError(f"native_group_norm: Expected num groups to be greater than 0, got {groups}")
    if c % groups:
        raise RuntimeError("Expected number of channels in input to be divisible by num_groups, but got input of shape "
                           f"{list(shape_of(a))} and num_groups={groups}")
    for name, p in (("weight", weight), ("bias", bias)):
        if p is not None and tuple(shape_of(p)) != (c,):
            raise RuntimeError(f"Expected {name} to be a vector with one element for each channel of the input, but got "
                               f"{name} of shape {list(shape_of(p))} and {c} channels")
    if n * c * plane != prod(shape_of(a)):
        raise RuntimeError(f"native_group_norm: N * C * HxW = {n} * {c} * {plane} is not the number of elements of the "
                           f"input, whose shape is {list(shape_of(a))}")
    _check_dtype("GroupNormKernelImpl", a, weight, bias)
    out, mean, inverse = apply_n(GROUP, [a, weight, bias], (groups, eps))
    if followed(a):
        mean, inverse = _group_statistics(a, n, groups, c * plane // groups, eps)
    return out, mean, inverse
