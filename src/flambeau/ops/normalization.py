"""Normalisations: batch, layer, group, instance, RMS and local response; vectors of norm one.

Each is one primitive that also gives the statistics its backward reads. On arrays the backward is one kernel for all
three gradients; when it is itself recorded, it is composed from the input, so that the statistics are differentiated
too. With xhat the normalised input and h = g * weight, the gradient of the input is

    invstd * (h - mean(h) - xhat * mean(h * xhat)),

the means over the elements that share statistics. Source: Ioffe and Szegedy, arXiv:1502.03167; Ba, Kiros and Hinton,
arXiv:1607.06450; Wu and He, arXiv:1803.08494; Zhang and Sennrich, arXiv:1910.07467.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from flambeau.core.apply import apply_n
from flambeau.core.dtype import dtype_of_array
from flambeau.core.inplace import apply_inplace2
from flambeau.core.objects import TensorBase, dtype_of, requires, shape_of
from flambeau.core.op import slot
from flambeau.core.state import grad_enabled, state
from flambeau.kernels import norm as kernel
from flambeau.kernels.services import is_float

from ._args import integer, number, tensor
from ._assemble import write_out
from ._meta import Meta, preserved
from ._pointwise import fused
from ._record import KERNEL, call, primitive, public
from ._shapes import like
from .padding import pad
from .pooling import avg_pool2d

_COPY = slot("copy")
_INPUTS = ("input", "weight", "bias")


# --------------------------------------------------------------------------------- gradients as compositions


def _standardised(xp: Any, a: Any, dims: tuple, eps: float) -> tuple:
    """(a with mean 0 and variance 1 over dims, the inverse of its standard deviation)."""
    centred = a - xp.mean(a, dims, True)
    invstd = xp.rsqrt(xp.mean(centred * centred, dims, True) + eps)
    return centred * invstd, invstd


def _sum(xp: Any, a: Any, dims: tuple) -> Any:
    return xp.sum(a, dims) if dims else a


def _gradients(xp: Any, g: Any, a: Any, xhat: Any, invstd: Any, h: Any, dims: tuple, rest: tuple, needs: list,
               grouped: Callable = lambda v: v, back: Callable = lambda v: v) -> tuple:
    """Gradients of (input, weight, bias): dims share statistics (in the shape that `grouped` gives), rest share weights."""
    ga = gw = gb = None
    if needs[0]:
        h, xg = grouped(h), grouped(xhat)
        ga = back(invstd * (h - xp.mean(h, dims, True) - xg * xp.mean(h * xg, dims, True)))
    if needs[1]:
        gw = _sum(xp, g * xhat, rest)
    if needs[2]:        # linked: its second derivative in the input is zero, not an error, as in PyTorch
        gb = xp.linked(_sum(xp, g, rest), xp.sum(a))
    return ga, gw, gb


def _layer_composed(xp: Any, g: Any, a: Any, weight: Any, mean: Any, invstd: Any, shape: tuple, eps: float,
                    needs: list) -> tuple:
    dims = tuple(range(-len(shape), 0))
    xhat, invstd = _standardised(xp, a, dims, eps)
    h = g if weight is None else g * weight
    return _gradients(xp, g, a, xhat, invstd, h, dims, tuple(range(len(a.shape) - len(shape))), needs)


def _per_channel(xp: Any, v: Any, n_dims: int) -> Any:
    return xp.reshape(v, (1, -1, *[1] * (n_dims - 2)))


def _others(a: Any) -> tuple:
    """All dimensions but that of channels."""
    return (0, *range(2, len(a.shape)))


def _batch_composed(xp: Any, g: Any, a: Any, weight: Any, mean: Any, invstd: Any, eps: float, needs: list) -> tuple:
    dims = _others(a)
    xhat, invstd = _standardised(xp, a, dims, eps)
    h = g if weight is None else g * _per_channel(xp, weight, len(a.shape))
    return _gradients(xp, g, a, xhat, invstd, h, dims, dims, needs)


def _eval_composed(xp: Any, g: Any, a: Any, weight: Any, running_mean: Any, running_var: Any, eps: float,
                   needs: list) -> tuple:
    n, dims = len(a.shape), _others(a)
    invstd = _per_channel(xp, xp.rsqrt(running_var + eps), n)
    ga = gw = gb = None
    if needs[0]:
        ga = g * (invstd if weight is None else invstd * _per_channel(xp, weight, n))
        ga = xp.linked(ga, xp.sum(a))
    if needs[1]:
        gw = xp.sum(g * (a - _per_channel(xp, running_mean, n)) * invstd, dims)
    if needs[2]:
        gb = xp.linked(xp.sum(g, dims), xp.sum(a))
    return ga, gw, gb


def _group_composed(xp: Any, g: Any, a: Any, weight: Any, mean: Any, invstd: Any, groups: int, eps: float,
                    needs: list) -> tuple:
    shape = a.shape
    rows = (shape[0], groups, prod(shape[1:]) // groups)
    xhat, invstd = _standardised(xp, xp.reshape(a, rows), (2,), eps)
    h = g if weight is None else g * _per_channel(xp, weight, len(shape))
    return _gradients(xp, g, a, xp.reshape(xhat, shape), invstd, h, (2,), _others(a), needs,
                      lambda v: xp.reshape(v, rows), lambda v: xp.reshape(v, shape))


def _rms_composed(xp: Any, g: Any, a: Any, weight: Any, invrms: Any, shape: tuple, eps: Any, needs: list) -> tuple:
    dims = tuple(range(-len(shape), 0))
    invrms = xp.rsqrt(xp.mean(a * a, dims, True) + eps)
    xhat = a * invrms
    h = g if weight is None else g * weight
    ga = invrms * (h - xhat * xp.mean(h * xhat, dims, True)) if needs[0] else None
    gw = _sum(xp, g * xhat, tuple(range(len(a.shape) - len(shape)))) if needs[1] else None
    return ga, gw


# --------------------------------------------------------------------------------- primitives

fused("layer_norm_backward", lambda g, a, weight, mean, invstd, shape, eps, needs: kernel.layer_norm_backward(
    g, a, shape, mean, invstd, weight, needs), _layer_composed)
fused("batch_norm_backward", lambda g, a, weight, mean, invstd, eps, needs: kernel.batch_norm_backward(
    g, a, mean, invstd, weight, needs), _batch_composed)
fused("batch_norm_eval_backward", lambda g, a, weight, running_mean, running_var, eps, needs:
      kernel.batch_norm_eval_backward(g, a, running_mean, running_var, weight, eps, needs), _eval_composed)
fused("group_norm_backward", lambda g, a, weight, mean, invstd, groups, eps, needs: kernel.group_norm_backward(
    g, a, groups, mean, invstd, weight, needs), _group_composed)
fused("rms_norm_backward", lambda g, a, weight, invrms, shape, eps, needs: kernel.rms_norm_backward(
    g, a, shape, invrms, weight, needs), _rms_composed)

def _statistics(self: Meta, shape: tuple) -> Meta:
    """Statistics are at least as wide as float32."""
    return Meta(shape, np.dtype("f4") if self.dtype.itemsize == 2 else self.dtype)


def _layer_shape(self: Meta, weight: Any, bias: Any, normalized_shape: tuple, eps: float) -> list:
    n = self.ndim - len(normalized_shape)
    rows = _statistics(self, (*self.shape[:n], *[1] * len(normalized_shape)))
    return [Meta(self.shape, self.dtype), rows, rows]


def _rms_shape(self: Meta, weight: Any, normalized_shape: tuple, eps: Any) -> list:
    out, rows, _ = _layer_shape(self, weight, None, normalized_shape, eps)
    return [out, rows]


def _group_shape(self: Meta, weight: Any, bias: Any, groups: int, eps: float) -> list:
    rows = _statistics(self, (self.shape[0], groups))
    return [Meta(self.shape, self.dtype), rows, rows]


def _instance_shape(self: Meta, weight: Any, bias: Any, eps: float) -> list:
    return _group_shape(self, weight, bias, self.shape[1], eps)


def _batch_shape(self: Meta, weight: Any, bias: Any, eps: float) -> list:
    channels = _statistics(self, (self.shape[1],))
    return [Meta(self.shape, self.dtype, preserved(self)), channels, channels]


def _update_shape(self: Meta, weight: Any, bias: Any, mean: Meta, var: Meta, momentum: float, eps: float) -> list:
    return [*_batch_shape(self, weight, bias, eps), mean, var]


LAYER = primitive(
    "native_layer_norm", lambda a, weight, bias, shape, eps: kernel.layer_norm(a, shape, weight, bias, eps), inputs=_INPUTS,
    params=("normalized_shape", "eps"), outputs=(True, False, False), promotes=False, meta=_layer_shape, expr=KERNEL,
    joint=lambda xp, g, needs, input, weight, out1, out2, normalized_shape, eps:
    xp.layer_norm_backward(g, input, weight, out1, out2, normalized_shape, eps, needs))
GROUP = primitive(
    "native_group_norm", lambda a, weight, bias, groups, eps: kernel.group_norm(a, groups, weight, bias, eps),
    inputs=_INPUTS,
    params=("num_groups", "eps"), outputs=(True, False, False), promotes=False, meta=_group_shape, expr=KERNEL,
    joint=lambda xp, g, needs, input, weight, out1, out2, num_groups, eps:
    xp.group_norm_backward(g, input, weight, out1, out2, num_groups, eps, needs))
INSTANCE = primitive(
    "instance_norm", lambda a, weight, bias, eps: kernel.group_norm(a, a.shape[1], weight, bias, eps), inputs=_INPUTS,
    params=("eps",), outputs=(True, False, False), promotes=False, meta=_instance_shape,
    expr=KERNEL, node="NativeBatchNormBackward0",
    joint=lambda xp, g, needs, input, weight, out1, out2, eps:
    xp.group_norm_backward(g, input, weight, out1, out2, input.shape[1], eps, needs))
RMS = primitive(
    "rms_norm", lambda a, weight, shape, eps: kernel.rms_norm(a, shape, weight, eps), inputs=("input", "weight"),
    params=("normalized_shape", "eps"), outputs=(True, False), promotes=False, meta=_rms_shape,
    expr=KERNEL, node="FusedRmsNormBackward0",
    joint=lambda xp, g, needs, input, weight, out1, normalized_shape, eps:
    xp.rms_norm_backward(g, input, weight, out1, normalized_shape, eps, needs))
BATCH = primitive(
    "native_batch_norm", kernel.batch_norm, inputs=_INPUTS, params=("eps",), outputs=(True, False, False), promotes=False,
    meta=_batch_shape, expr=KERNEL, joint=lambda xp, g, needs, input, weight, out1, out2, eps:
    xp.batch_norm_backward(g, input, weight, out1, out2, eps, needs))
BATCH_UPDATE = primitive(
    "batch_norm_update", kernel.batch_norm_update, inputs=(*_INPUTS, "running_mean", "running_var"),
    params=("momentum", "eps"),
    outputs=(True, False, False, False, False), promotes=False, meta=_update_shape,
    expr=KERNEL, node="NativeBatchNormBackward0",
    joint=lambda xp, g, needs, input, weight, out1, out2, eps:
    (*xp.batch_norm_backward(g, input, weight, out1, out2, eps, needs), None, None))
BATCH_EVAL = primitive(
    "batch_norm_eval", kernel.batch_norm_eval, inputs=(*_INPUTS, "running_mean", "running_var"), params=("eps",),
    promotes=False,
    meta=like(), expr=KERNEL, node="NativeBatchNormBackward0",
    joint=lambda xp, g, needs, input, weight, running_mean, running_var, eps:
    (*xp.batch_norm_eval_backward(g, input, weight, running_mean, running_var, eps, needs), None, None))


# --------------------------------------------------------------------------------- checks


def _functional(samples: Callable, errors: Callable | None = None, **options: Any) -> Callable:
    return public(namespaces=("nn.functional",), method=False, out=False, samples=samples, errors=errors, **options)


def _check_dtype(function: str, a: TensorBase, *parameters: Any) -> None:
    """Parameters have the input's dtype, or float32 beside an input of two bytes."""
    d = dtype_of(a)
    if d.kind == "c" or not is_float(d):
        raise NotImplementedError(f'"{function}" not implemented for {str(dtype_of_array(d))[6:]!r}: convert input to '
                                  'a floating '
                                  "dtype")
    for p in parameters:
        if p is not None and dtype_of(p) is not d and not (d.itemsize == 2 and dtype_of(p) is state.f32):
            raise RuntimeError(f"{function}: mixed dtype (CPU): all inputs must share same datatype, expect parameter "
                               f"to have scalar type of {d.name}, but one has {dtype_of(p).name}. Convert input with "
                               "input.to(weight.dtype), or the module with .to(dtype).")


def _check_tensors(function: str, **values: Any) -> None:
    for name, value in values.items():
        if value is not None and not isinstance(value, TensorBase):
            raise TypeError(f"{function}(): argument '{name}' must be Tensor, not {type(value).__name__}")


def _same_dtype(d: Any, weight: Any, bias: Any) -> bool:
    return ((d is state.f32 or d is state.f64) and (weight is None or dtype_of(weight) is d)
            and (bias is None or dtype_of(bias) is d))


def _check_channels(function: str, channels: int, **parameters: Any) -> None:
    for name, p in parameters.items():
        if p is not None and shape_of(p) != (channels,):
            raise RuntimeError(f"{function}: {name} should contain {channels} elements not {prod(shape_of(p))}: input "
                               f"has {channels} channels (dimension 1)")


def _size_text(shape: tuple) -> str:
    return f"torch.Size({list(shape)})"


# --------------------------------------------------------------------------------- batch norm


def _batch_samples(t: Any) -> list:
    stats = (t(3, grad=False), t(3, low=0.5, high=2.0, grad=False))
    return [call(t(4, 3), None, None, t(3), t(3), True), call(t(2, 3, 4), *stats), call(t(2, 3, 2, 2), *stats, t(3), t(3)),
            call(t(2, 3, 4, transposed=True), *stats, t(3), None, True, 0.3, 1e-3)]


@_functional(_batch_samples, lambda t: [
    (call(t(1, 3), None, None, training=True), ValueError, "Expected more than 1 value per channel when training"),
    (call(t(2, 3), None, None), RuntimeError, "running_mean must be defined in evaluation mode"),
    (call(t(2, 3), t(2), t(3)), RuntimeError, "running_mean should contain 3 elements not 2"),
    (call(t(2, 3, dtype="int64"), t(3), t(3)), NotImplementedError, "not implemented for"),
    (call(t(2, 3, dtype="float64"), t(3), t(3)), RuntimeError, "mixed dtype")])
def batch_norm(input: Any, running_mean: Any, running_var: Any, weight: Any = None, bias: Any = None,
               training: bool = False, momentum: float = 0.1, eps: float = 1e-5) -> Any:
    """Each channel with mean 0 and variance 1 over the batch, scaled by weight and shifted by bias.

    Args:
        input: (N, C) or (N, C, *).
        running_mean, running_var: (C,). In training moved, in place, by `momentum` towards the batch's mean and unbiased
            variance (None: not kept); in evaluation they are what input is normalised by.
        weight, bias: (C,) or None.
        eps: added to the variance.

    Raises:
        ValueError: one value per channel in training, which would give zeros.
        RuntimeError: sizes or dtypes that do not fit, no running statistics in evaluation.

    >>> x = flambeau.tensor([[1.], [3.]])
    >>> flambeau.nn.functional.batch_norm(x, None, None, training=True, eps=0.0).tolist()
    [[-1.0], [1.0]]
    """
    a = tensor(input, "batch_norm")
    shape = shape_of(a)
    if training and len(shape) > 1 and prod(shape) == shape[1] and shape[0]:
        raise ValueError("batch_norm: Expected more than 1 value per channel when training: with input size "
                         f"{_size_text(shape)} each value is its own mean, and the result would be all zeros. Use a "
                         "larger batch, drop the last one (DataLoader(drop_last=True)), or call model.eval().")
    return normalise_batch(a, running_mean, running_var, weight, bias, training, momentum, eps)


def normalise_batch(a: Any, running_mean: Any, running_var: Any, weight: Any, bias: Any, training: bool, momentum: float,
                    eps: float) -> Any:
    """`batch_norm` after its check of the batch's size."""
    shape = shape_of(a)
    _check_tensors("batch_norm", running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    if not training:
        for name, p in (("running_mean", running_mean), ("running_var", running_var)):
            if p is None:
                raise RuntimeError(f"batch_norm: {name} must be defined in evaluation mode: give running statistics, or "
                                   "training=True")
    if not (_same_dtype(dtype_of(a), weight, bias) and _same_dtype(dtype_of(a), running_mean, running_var)):
        _check_dtype("batch_norm", a, weight, bias, running_mean, running_var)
    _check_channels("batch_norm", shape[1] if len(shape) > 1 else 0, running_mean=running_mean, running_var=running_var,
                    weight=weight, bias=bias)
    if len(shape) < 2:          # no channels: the checks leave only an empty vector
        return a.clone()
    if not training:
        return apply_n(BATCH_EVAL, [a, weight, bias, running_mean, running_var], (eps,))
    if running_mean is None and running_var is None:
        return apply_n(BATCH, [a, weight, bias], (eps,))[0]
    if running_mean is None or running_var is None:
        raise ValueError("batch_norm: running_mean and running_var go together: give both of them, or None for both")
    out, _, _, new_mean, new_var = apply_n(BATCH_UPDATE, [a, weight, bias, running_mean, running_var],
        (number(momentum, "batch_norm", "momentum"), eps))
    if prod(shape):
        apply_inplace2(_COPY, running_mean, new_mean)
        apply_inplace2(_COPY, running_var, new_var)
    return out


# --------------------------------------------------------------------------------- layer and RMS norm


def _shape_argument(function: str, value: Any) -> tuple:
    if isinstance(value, (tuple, list)) and not isinstance(value, tuple):
        value = tuple(integer(v, function, "normalized_shape") for v in value)
    if not isinstance(value, tuple):
        raise TypeError(f"{function}(): argument 'normalized_shape' (position 2) must be tuple of ints, not "
                        f"{type(value).__name__}: give ({value},)")
    return value


def _check_normalized(a: TensorBase, normalized: tuple, **parameters: Any) -> None:
    _check_tensors("layer_norm", **parameters)
    if not normalized:
        raise RuntimeError("Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one "
                           "element, but got normalized_shape = []")
    for name, p in parameters.items():
        if p is not None and shape_of(p) != normalized:
            raise RuntimeError(f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape "
                               f"{list(shape_of(p))} and normalized_shape = {list(normalized)}")
    shape = shape_of(a)
    if shape[len(shape) - len(normalized):] != normalized or len(shape) < len(normalized):
        raise RuntimeError(f"Given normalized_shape={list(normalized)}, expected input with shape "
                           f"[*{''.join(f', {n}' for n in normalized)}], but got input of size{list(shape)}")


def _layer_samples(t: Any) -> list:
    return [call(t(3, 4), (4,), t(4), t(4)), call(t(2, 3, 4), (3, 4)), call(t(2, 3, 4), (4,), t(4)),
            call(t(3, 4, transposed=True), [4], t(4), t(4), 1e-2)]


_LAYER_ERRORS = (lambda t: [  # noqa: E731
    (call(t(2, 3), (2,)), RuntimeError, r"expected input with shape \[\*, 2\]"),
    (call(t(2, 3), (3,), t(2)), RuntimeError, "Expected weight to be of same shape as normalized_shape"),
    (call(t(2, 3), ()), RuntimeError, "at least 1-dimensional"), (call(t(2, 3), 3), TypeError, "must be tuple of ints")])


def layer_norm(input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """Mean 0 and variance 1 over the last dimensions, scaled by weight and shifted by bias.

    Args:
        input: (*, *normalized_shape).
        normalized_shape: sizes of the dimensions that are normalised together.
        weight, bias: of shape normalized_shape, or None.
        eps: added to the variance.

    Raises:
        RuntimeError: input does not end in normalized_shape, or weight or bias differ from it.

    Source: Ba, Kiros and Hinton, arXiv:1607.06450.

    >>> flambeau.nn.functional.layer_norm(flambeau.tensor([1., 3.]), (2,), eps=0.0).tolist()
    [-1.0, 1.0]
    """
    a = input if isinstance(input, TensorBase) else tensor(input, "layer_norm")
    normalized = normalized_shape if type(normalized_shape) is tuple else _shape_argument("layer_norm", normalized_shape)
    if not _same_dtype(dtype_of(a), weight, bias):
        _check_dtype("LayerNormKernelImpl", a, weight, bias)
    shape = shape_of(a)
    if (not normalized or shape[len(shape) - len(normalized):] != normalized
            or (weight is not None and shape_of(weight) != normalized)
            or (bias is not None and shape_of(bias) != normalized)):
        _check_normalized(a, normalized, weight=weight, bias=bias)
    return apply_n(LAYER, [a, weight, bias], (normalized, eps))[0]


public(namespaces=("torch", "nn.functional"), method=False, out=False, samples=_layer_samples,
       errors=_LAYER_ERRORS)(layer_norm)


def rms_norm(input: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    """input / sqrt(mean(input^2) + eps) over the last dimensions, scaled by weight.

    Args:
        input: (*, *normalized_shape).
        normalized_shape: sizes of the dimensions that are normalised together.
        weight: of shape normalized_shape, or None.
        eps: by default the smallest step of the dtype above 1.

    Raises:
        RuntimeError: input does not end in normalized_shape, or weight differs from it.

    Source: Zhang and Sennrich, arXiv:1910.07467.

    >>> flambeau.nn.functional.rms_norm(flambeau.tensor([3., -3.]), (2,), eps=0.0).tolist()
    [1.0, -1.0]
    """
    a: Any = tensor(input, "rms_norm")
    normalized = _shape_argument("rms_norm", normalized_shape)
    _check_normalized(a, normalized, weight=weight)
    d = dtype_of(a)
    if not is_float(d):
        raise NotImplementedError(f'"rms_norm" not implemented for {d.name!r}: convert input to a floating dtype')
    if eps is None:
        eps = float(np.finfo(np.float32 if d.itemsize == 2 else d).eps)
    if d.kind == "c" or (weight is not None and dtype_of(weight) is not d):
        dims = tuple(range(-len(normalized), 0))
        out = a * (a.pow(2).mean(dims, True) + eps).rsqrt()
        return out if weight is None else out * weight
    if d.itemsize == 2 and requires(a) and grad_enabled():      # backward needs the float32 copy, so a may be written
        wide = None if weight is None else weight.float()
        return apply_n(RMS, [a.float(), wide], (normalized, eps))[0].to(a.dtype)
    return apply_n(RMS, [a, weight], (normalized, eps))[0]


public(namespaces=("torch", "nn.functional"), method=False, out=False, samples=lambda t: [
    call(t(3, 4), (4,), t(4)), call(t(2, 3, 4), (3, 4)), call(t(4), (4,), None, 1e-2)],
    errors=lambda t: _LAYER_ERRORS(t)[:2])(rms_norm)


# --------------------------------------------------------------------------------- group and instance norm


def group_norm(input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """Each group of channels of each sample with mean 0 and variance 1, scaled by weight and shifted by bias.

    Args:
        input: (N, C, *).
        num_groups: divides C.
        weight, bias: (C,) or None.
        eps: added to the variance.

    Raises:
        RuntimeError: num_groups does not divide C, or weight or bias are not (C,).
        ValueError: one value per group.

    Source: Wu and He, arXiv:1803.08494.

    >>> flambeau.nn.functional.group_norm(flambeau.tensor([[1., 3.]]), 1, eps=0.0).tolist()
    [[-1.0, 1.0]]
    """
    a = tensor(input, "group_norm")
    shape = shape_of(a)
    if len(shape) < 2:
        raise RuntimeError(f"group_norm: Expected at least 2 dimensions, (N, C, ...), and the input has {len(shape)}")
    num_groups = integer(num_groups, "group_norm", "num_groups")
    if num_groups < 1:
        raise RuntimeError(f"group_norm: Expected num groups to be greater than 0, got {num_groups}")
    if shape[0] and prod(shape) and shape[0] * (shape[1] // num_groups) * prod(shape[2:]) == 1:
        raise ValueError("group_norm: Expected more than 1 value per channel when training: with input size "
                         f"{list(shape)} each group holds a single value, and the result would be all zeros. Use "
                         "fewer groups.")
    if shape[1] % num_groups:
        raise RuntimeError("Expected number of channels in input to be divisible by num_groups, but got input of shape "
                           f"{list(shape)} and num_groups={num_groups}")
    for name, p in (("weight", weight), ("bias", bias)):
        if p is not None and shape_of(p) != shape[1:2]:
            raise RuntimeError(f"group_norm: {name} needs one value for each channel of the input; {name} has shape "
                               f"{list(shape_of(p))} and the input has shape {list(shape)}")
    _check_dtype("GroupNormKernelImpl", a, weight, bias)
    return apply_n(GROUP, [a, weight, bias], (num_groups, eps))[0]


public(namespaces=("torch", "nn.functional"), method=False, out=False, samples=lambda t: [
    call(t(3, 4), 2, t(4), t(4)), call(t(2, 4, 3), 2), call(t(2, 4, 2, 2, transposed=True), 4, t(4))], errors=lambda t: [
    (call(t(2, 3), 2), RuntimeError, "divisible by num_groups"),
    (call(t(2, 3), 3, t(2)), RuntimeError, "one value for each channel")])(group_norm)


@_functional(lambda t: [call(t(2, 3, 4), None, None, t(3), t(3)), call(t(2, 3, 2, 2)),
                        call(t(2, 3, 4), t(3, grad=False), t(3, low=0.5, high=2.0, grad=False), t(3), None, False),
                        call(t(2, 3, 4), t(3, grad=False), t(3, low=0.5, high=2.0, grad=False), momentum=0.4)],
             lambda t: [(call(t(2, 3)), ValueError, "Expected more than 1 spatial element"),
                        (call(t(2, 3, 1)), ValueError, "Expected more than 1 spatial element")])
def instance_norm(input: Any, running_mean: Any = None, running_var: Any = None, weight: Any = None, bias: Any = None,
                  use_input_stats: bool = True, momentum: float = 0.1, eps: float = 1e-5) -> Any:
    """Each channel of each sample with mean 0 and variance 1, scaled by weight and shifted by bias.

    Args:
        input: (N, C, *).
        running_mean, running_var: (C,) or None: moved, in place, by `momentum` towards the samples' mean statistics; used
            instead of them when use_input_stats is False.
        weight, bias: (C,) or None.
        eps: added to the variance.

    Raises:
        ValueError: one element per channel and sample.
        RuntimeError: sizes or dtypes that do not fit.

    Source: Ulyanov, Vedaldi and Lempitsky, arXiv:1607.08022.

    >>> flambeau.nn.functional.instance_norm(flambeau.tensor([[[1., 3.]]]), eps=0.0).tolist()
    [[[-1.0, 1.0]]]
    """
    a: Any = tensor(input, "instance_norm")
    shape = shape_of(a)
    if use_input_stats and prod(shape[2:]) == 1:
        raise ValueError("instance_norm: Expected more than 1 spatial element when training: with input size "
                         f"{_size_text(shape)} the result would be all zeros. Leave out the norm at this size, or "
                         "call model.eval() with running statistics.")
    return normalise_instances(a, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


def normalise_instances(a: Any, running_mean: Any, running_var: Any, weight: Any, bias: Any, use_input_stats: bool,
                        momentum: float, eps: float) -> Any:
    """`instance_norm` after its check of the number of elements."""
    shape = shape_of(a)
    _check_tensors("instance_norm", running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    if not use_input_stats:
        if running_mean is None or running_var is None:
            raise RuntimeError("Expected running_mean and running_var to be defined when use_input_stats is false: give "
                               "running statistics, or use_input_stats=True")
        return normalise_batch(a, running_mean, running_var, weight, bias, False, momentum, eps)
    _check_dtype("instance_norm", a, weight, bias, running_mean, running_var)
    _check_channels("instance_norm", shape[1], running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    out = apply_n(INSTANCE, [a, weight, bias], (eps,))[0]
    if running_mean is not None or running_var is not None:
        values = a.detach()
        over = tuple(range(2, len(shape)))
        for running, batch in ((running_mean, lambda: values.mean(over)), (running_var, lambda: values.var(over))):
            if running is not None:
                apply_inplace2(_COPY, running, (running * (1 - momentum) + batch().mean(0) * momentum).to(running.dtype))
    return out


# --------------------------------------------------------------------------------- composed


@_functional(lambda t: [call(t(2, 4, 3), 2), call(t(2, 4, 3, 2), 3, 1e-2, 0.5, 2.0)], lambda t: [
    (call(t(3, 3), 2), ValueError, "Expected 3D or higher dimensionality")])
def local_response_norm(input: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Any:
    """input / (k + alpha * mean of the squares of `size` neighbouring channels)^beta.

    Args:
        input: (N, C, *), at least three dimensions.

    Source: Krizhevsky, Sutskever and Hinton, NIPS 2012, section 3.3.

    >>> flambeau.nn.functional.local_response_norm(flambeau.tensor([[[0.]]]), 1).tolist()
    [[[0.0]]]
    """
    a: Any = tensor(input, "local_response_norm")
    shape = shape_of(a)
    if len(shape) < 3:
        raise ValueError(f"local_response_norm: Expected 3D or higher dimensionality input (got {len(shape)} dimensions)")
    if prod(shape) == 0:
        return a
    squares = (a * a).reshape(shape[0], 1, shape[1], -1)
    squares = pad(squares, (0, 0, size // 2, (size - 1) // 2))
    return a / (avg_pool2d(squares, (size, 1), 1).reshape(shape) * alpha + k).pow(beta)


@public(namespaces=("nn.functional",), method=False, samples=lambda t: [
    call(t(3, 4)), call(t(3, 4), 1.0, 0), call(t(4), dim=0), call(t(2, 3, 4), 3.0, (1, 2))], errors=lambda t: [
    (call(t(3), dim=4), IndexError, "out of range")])
def normalize(input: Any, p: float = 2.0, dim: Any = 1, eps: float = 1e-12, out: Any = None) -> Any:
    """input divided by its p-norm along dim (at least eps).

    Args:
        out: a tensor that takes the result.

    >>> flambeau.nn.functional.normalize(flambeau.tensor([3., 4.]), dim=0).shape
    torch.Size([2])
    """
    a: Any = tensor(input, "normalize")
    result = a / a.norm(p, dim, keepdim=True).clamp_min(eps)
    if out is not None:
        return write_out("normalize", out, result)
    return result
