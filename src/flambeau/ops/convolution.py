"""Convolutions of one to three dimensions, transposed ones, and their windows as columns: unfold and fold.

A convolution is bilinear in input and weight: it and its two adjoints are three primitives whose derivatives are one
another (`kernels/conv.py`), so derivatives exist to any order. The arguments of a call are checked once for each
combination of shapes and remembered.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from flambeau.core.apply import apply1, apply_n
from flambeau.core.dtype import dtype_of_array
from flambeau.core.objects import TensorBase, dtype_of, shape_of
from flambeau.kernels import conv as kernel
from flambeau.kernels.layout import CHANNELS_LAST_ORDER
from flambeau.kernels.services import is_float

from ._args import integer, tensor
from ._meta import Meta
from ._record import KERNEL, call, primitive, public
from ._shapes import in_order, shaped
from .padding import pad

_GEOMETRY = ("stride", "padding", "dilation", "groups")


def _channels(bias: np.ndarray, n_dims: int) -> np.ndarray:
    return bias.reshape(-1, *(1,) * (n_dims - 2))


def _convolution(x: np.ndarray, w: np.ndarray, bias: Any, stride: tuple, padding: tuple, dilation: tuple, groups: int,
                 out_size: Any = None) -> np.ndarray:
    out = kernel.convolution(x, w, stride, padding, dilation, groups, out_size)
    if bias is not None:
        out += _channels(bias, out.ndim)
    return out


def _transposed(x: np.ndarray, w: np.ndarray, bias: Any, stride: tuple, padding: tuple, output_padding: tuple,
                dilation: tuple, groups: int) -> np.ndarray:
    out = kernel.convolution_transpose(x, w, stride, padding, output_padding, dilation, groups)
    if bias is not None:
        out += _channels(bias, out.ndim)
    return out


def _bias(xp: Any, g: Any, weight: Any) -> Any:
    g = xp.sum(g, (0, *range(2, len(g.shape))))
    # linked: a second derivative in the weight is zero, not an error, as in PyTorch
    return g if xp.is_kernels else xp.linked(g, xp.sum(weight))


def _images(x: Meta, w: Meta, shape: tuple) -> Meta:
    """A result in the memory order of input and weight: channels-last when either is."""
    order = CHANNELS_LAST_ORDER.get("channels_last" if len(shape) == 4 else "channels_last_3d")
    if order is not None and len(shape) in (4, 5) and any(
            m.is_contiguous(form) and not m.is_contiguous() for m in (x, w) for form in CHANNELS_LAST_ORDER):
        return Meta(shape, x.dtype, in_order(shape, order))
    return Meta(shape, x.dtype)


def _convolved(x: Meta, w: Meta, bias: Any, stride: tuple, padding: tuple, dilation: tuple, groups: int,
               out_size: Any = None) -> Meta:
    size = kernel.conv_output_size(x.shape[2:], w.shape[2:], stride, padding, dilation) if out_size is None else out_size
    return _images(x, w, (x.shape[0], w.shape[0], *size))


def _transposed_shape(x: Meta, w: Meta, bias: Any, stride: tuple, padding: tuple, output_padding: tuple,
                      dilation: tuple, groups: int) -> Meta:
    size = kernel.conv_transpose_output_size(x.shape[2:], w.shape[2:], stride, padding, output_padding, dilation)
    return _images(x, w, (x.shape[0], w.shape[1] * groups, *size))


def _columns(x: Meta, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Meta:
    n, c, *size = x.shape
    windows = kernel.conv_output_size(size, kernel_size, stride, padding, dilation)
    return Meta((n, c * prod(kernel_size), prod(windows)), x.dtype)


def _image(columns: Meta, output_size: tuple, kernel_size: tuple, *_: Any) -> Meta:
    return Meta((columns.shape[0], columns.shape[1] // prod(kernel_size), *output_size), columns.dtype)


# With G the gradient of each kernel's result; conjugates make the formulas right for complex numbers.
CONVOLUTION = primitive(
    "convolution", _convolution, inputs=("input", "weight", "bias"), params=(*_GEOMETRY, "out_size"), promotes=False,
    meta=_convolved,
    expr=KERNEL,
    input=lambda xp, g, input_shape, weight, stride, padding, dilation, groups:
    xp.convolution_grad_input(g, xp.conj(weight), input_shape, stride, padding, dilation, groups),
    weight=lambda xp, g, input, weight_shape, stride, padding, dilation, groups:
    xp.convolution_grad_weight(g, xp.conj(input), weight_shape, stride, padding, dilation, groups),
    bias=lambda xp, g, weight: _bias(xp, g, weight))
primitive(
    "convolution_grad_input", kernel.convolution_grad_input, inputs=("grad", "weight"), params=("shape", *_GEOMETRY),
    promotes=False, meta=shaped(2), expr=KERNEL, node="ConvolutionBackwardBackward0",
    grad=lambda xp, g, grad_shape, weight, stride, padding, dilation, groups:
    xp.convolution(g, xp.conj(weight), None, stride, padding, dilation, groups, grad_shape[2:]),
    weight=lambda xp, g, grad, weight_shape, stride, padding, dilation, groups:
    xp.convolution_grad_weight(xp.conj(grad), g, weight_shape, stride, padding, dilation, groups))
primitive(
    "convolution_grad_weight", kernel.convolution_grad_weight, inputs=("grad", "input"), params=("shape", *_GEOMETRY),
    promotes=False, meta=shaped(2), expr=KERNEL, node="ConvolutionBackwardBackward0",
    grad=lambda xp, g, grad_shape, input, stride, padding, dilation, groups:
    xp.convolution(xp.conj(input), g, None, stride, padding, dilation, groups, grad_shape[2:]),
    input=lambda xp, g, grad, input_shape, stride, padding, dilation, groups:
    xp.convolution_grad_input(xp.conj(grad), g, input_shape, stride, padding, dilation, groups))
TRANSPOSED = primitive(
    "convolution_transpose", _transposed, inputs=("input", "weight", "bias"),
    params=("stride", "padding", "output_padding", "dilation", "groups"), promotes=False, meta=_transposed_shape,
    expr=KERNEL,
    node="ConvolutionBackward0",
    input=lambda xp, g, input_shape, weight, stride, padding, dilation, groups:
    xp.convolution(g, xp.conj(weight), None, stride, padding, dilation, groups, input_shape[2:]),
    weight=lambda xp, g, input, weight_shape, stride, padding, dilation, groups:
    xp.convolution_grad_weight(xp.conj(input), g, weight_shape, stride, padding, dilation, groups),
    bias=lambda xp, g, weight: _bias(xp, g, weight))


# --------------------------------------------------------------------------------- checks


def _ints(value: Any, n: int, name: str) -> tuple[int, ...]:
    if isinstance(value, (tuple, list)):
        values = tuple(v if type(v) is int else integer(v, "conv", name) for v in value)
        if len(values) == 1:
            return values * n
        if len(values) != n:
            raise RuntimeError(f"expected {name} to be a single integer value or a list of {n} values to match the "
                               f"convolution dimensions, but got {name}={list(values)}")
        return values
    return (value if type(value) is int else integer(value, "conv", name),) * n


def _geometry(n: int, stride: Any, padding: Any, dilation: Any, groups: int) -> tuple:
    stride, padding, dilation = _ints(stride, n, "stride"), _ints(padding, n, "padding"), _ints(dilation, n, "dilation")
    if min(stride) < 1:
        raise RuntimeError(f"non-positive stride is not supported: got stride={list(stride)}")
    if min(padding) < 0:
        raise RuntimeError(f"negative padding is not supported: got padding={list(padding)}. Crop the input with slices.")
    if min(dilation) < 1:
        raise RuntimeError(f"non-positive dilation is not supported: got dilation={list(dilation)}")
    groups = integer(groups, "conv", "groups")
    if groups < 1:
        raise RuntimeError(f"non-positive groups is not supported: got groups={groups}")
    return stride, padding, dilation, groups


def _check_bias(weight: tuple, bias: tuple | None, channels: int, transposed: str) -> None:
    if bias is not None and bias != (channels,):
        raise RuntimeError(f"Given {transposed}weight of size {list(weight)}, expected bias to be 1-dimensional with "
                           f"{channels} elements, but got bias of size {list(bias)} instead")


def _batched(function: str, n: int, shape: tuple) -> bool:
    if len(shape) not in (n + 1, n + 2):
        raise RuntimeError(f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to {function}, but got input of "
                           f"size: {list(shape)}: the dimensions are (N, C{''.join(', ' + s for s in 'DHW'[3 - n:])}), N "
                           "optional."
                           + (" A batch of images without channels becomes one with channels by x.unsqueeze(1)."
                              if len(shape) == n else ""))
    return len(shape) == n + 2


_PERMUTED = {1: "0, 2, 1", 2: "0, 3, 1, 2", 3: "0, 4, 1, 2, 3"}


@lru_cache(maxsize=1024)
def _plan(n: int, shape: tuple, weight: tuple, bias: tuple | None, stride: Any, padding: Any, dilation: Any,
          groups: int) -> tuple:
    """(parameters of the primitive, whether input is batched, padding to add first or None), for one set of shapes."""
    function = f"conv{n}d"
    batched = _batched(function, n, shape)
    if len(weight) != n + 2:
        raise RuntimeError(f"{function}: weight should be {n + 2}-dimensional, (out channels, in channels / groups, "
                           f"kernel), but got weight of size {list(weight)}; expected stride to be a single integer "
                           f"value or a list of {len(weight) - 2} values to match it.")
    extra = None
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise RuntimeError(f"Invalid padding string: {padding!r}: give 'same', 'valid' or numbers")
        stride, none, dilation, groups = _geometry(n, stride, 0, dilation, groups)
        if padding == "same":
            if max(stride) != 1:
                raise RuntimeError("padding='same' is not supported for strided convolutions: got "
                                   f"stride={list(stride)}. Give the padding as numbers.")
            total = [d * (k - 1) for d, k in zip(dilation, weight[2:], strict=True)]
            padding = tuple(t // 2 for t in total)
            if any(t % 2 for t in total):       # one more at the end: the primitive pads both ends alike
                extra = tuple(v for t in reversed(total) for v in (0, t % 2))
        else:
            padding = none
    stride, padding, dilation, groups = _geometry(n, stride, padding, dilation, groups)
    full = shape if batched else (1, *shape)
    if weight[0] % groups:
        raise RuntimeError(f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, but "
                           f"got weight of size {list(weight)} instead")
    wanted = weight[1] * groups
    if full[1] != wanted:
        hint = f"Give an input whose channels (dimension 1) are {wanted}, or a layer for {full[1]} channels."
        if full[-1] == wanted:
            hint = ("Its last dimension has that size: for images stored channels last, use "
                    f"input.permute({_PERMUTED[n]}).")
        raise RuntimeError(f"Given groups={groups}, weight of size {list(weight)}, expected input{list(full)} to have "
                           f"{wanted} channels, but got {full[1]} channels instead. {hint}")
    _check_bias(weight, bias, weight[0], "")
    padded = [s + 2 * p for s, p in zip(full[2:], padding, strict=True)]
    if extra:
        padded = [s + e for s, e in zip(padded, reversed(extra[1::2]), strict=True)]
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, weight[2:], strict=True)]
    if any(s < r for s, r in zip(padded, reach, strict=True)):
        raise RuntimeError(f"Calculated padded input size per channel: ({' x '.join(map(str, padded))}). Kernel size: "
                           f"({' x '.join(map(str, reach))}). Kernel size can't be greater than actual input size. Pad "
                           "more, or pool less before this layer.")
    return (stride, padding, dilation, groups, None), batched, extra


def _hashable(value: Any) -> Any:
    return tuple(value) if type(value) is list else value


def _dtype_word(d: np.dtype) -> str:
    return {"float16": "Half", "bfloat16": "BFloat16", "float32": "Float", "float64": "Double", "complex64": "ComplexFloat",
            "complex128": "ComplexDouble", "int64": "Long", "int32": "Int", "int16": "Short", "int8": "Char",
            "uint8": "Byte",
            "bool": "Bool"}[d.name]


def _check_dtypes(function: str, input: Any, weight: Any, bias: Any) -> None:
    tensor(input, function)
    tensor(weight, function, "weight", 2)
    if bias is not None:
        tensor(bias, function, "bias", 3)
    d, e = dtype_of(input), dtype_of(weight)
    if d is not e:
        raise RuntimeError(f"{function}: expected scalar type {_dtype_word(d)} but found {_dtype_word(e)}: input and "
                           f"weight must have the same dtype, here {d.name} and {e.name}. Convert one: "
                           "input.to(weight.dtype) for data, model.to(dtype) for a layer.")
    if bias is not None and dtype_of(bias) is not d:
        raise RuntimeError(f"{function}: Input type ({d.name}) and bias type ({dtype_of(bias).name}) should be the same")
    if d.kind == "b":
        raise NotImplementedError(f'"{function}" not implemented for \'Bool\': convert input and weight to a floating '
                                  'dtype')


def _conv(function: str, n: int, input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any,
          groups: int) -> Any:
    if (not isinstance(input, TensorBase) or not isinstance(weight, TensorBase) or dtype_of(input) is not dtype_of(weight)
            or dtype_of(input).kind == "b" or (bias is not None and (
                not isinstance(bias, TensorBase) or dtype_of(bias) is not dtype_of(input)))):
        _check_dtypes(function, input, weight, bias)
    params, batched, extra = _plan(n, shape_of(input), shape_of(weight), None if bias is None else shape_of(bias),
                                   _hashable(stride), _hashable(padding), _hashable(dilation), groups)
    x: Any = input if batched else input.unsqueeze(0)
    if extra is not None:
        x = pad(x, extra)
    out = apply_n(CONVOLUTION, [x, weight, bias], params)
    return out if batched else out.squeeze(0)


@lru_cache(maxsize=1024)
def _transposed_plan(n: int, shape: tuple, weight: tuple, bias: tuple | None, stride: Any, padding: Any,
                     output_padding: Any, groups: int, dilation: Any) -> tuple:
    batched = _batched(f"conv_transpose{n}d", n, shape)
    if len(weight) != n + 2:
        raise RuntimeError(f"conv_transpose{n}d: weight should be {n + 2}-dimensional, (in channels, out channels / "
                           f"groups, kernel), but got weight of size {list(weight)}")
    stride, padding, dilation, groups = _geometry(n, stride, padding, dilation, groups)
    extra = _ints(output_padding, n, "output_padding")
    if min(extra) < 0:
        raise RuntimeError(f"negative output_padding is not supported: got {list(extra)}")
    full = shape if batched else (1, *shape)
    if weight[0] % groups:
        raise RuntimeError(f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, but "
                           f"got weight of size {list(weight)} instead")
    if full[1] != weight[0]:
        raise RuntimeError(f"Given transposed=1, weight of size {list(weight)}, expected input{list(full)} to have "
                           f"{weight[0]} channels, but got {full[1]} channels instead")
    _check_bias(weight, bias, weight[1] * groups, "transposed=1, ")
    size = kernel.conv_transpose_output_size(full[2:], weight[2:], stride, padding, extra, dilation)
    if min(size) < 0 or 0 in size:
        raise RuntimeError(f"Given input size per channel: {list(full[2:])}. Calculated output size per channel: "
                           f"{list(size)}. Output size is too small: padding {list(padding)} removes more than there is.")
    return (stride, padding, extra, dilation, groups), batched


def _conv_transpose(n: int, input: Any, weight: Any, bias: Any, stride: Any, padding: Any, output_padding: Any, groups: int,
                    dilation: Any) -> Any:
    _check_dtypes(f"conv_transpose{n}d", input, weight, bias)
    params, batched = _transposed_plan(
        n, shape_of(input), shape_of(weight), None if bias is None else shape_of(bias), _hashable(stride),
        _hashable(padding),
        _hashable(output_padding), groups, _hashable(dilation))
    out = apply_n(TRANSPOSED, [input if batched else input.unsqueeze(0), weight, bias], params)
    return out if batched else out.squeeze(0)


# --------------------------------------------------------------------------------- functions

_BOTH = ("torch", "nn.functional")
_SIZES = {1: (7,), 2: (6, 5), 3: (5, 3, 4)}
_DOC = """{n}-dimensional convolution (cross-correlation) of input with weight.

Args:
    input: (N, C, {size}) or (C, {size}).
    weight: (O, C / groups, {kernel}), of input's dtype. bias: (O,) or None.
    stride, padding, dilation: a number, or one for each dimension. padding may be "valid" (none) or "same" (the
        output has input's size; stride 1 only).
    groups: channels are split into so many groups that do not mix.

Returns:
    Tensor (N, O, {out}) with floor((size + 2 padding - dilation (kernel - 1) - 1) / stride + 1) positions.

Raises:
    RuntimeError: channels, dimensions or dtypes that do not fit, or a kernel larger than the padded input.

>>> x, w = flambeau.ones({ones}), flambeau.ones({ones})
>>> flambeau.nn.functional.conv{n}d(x, w).shape
torch.Size([1, 1{units}])
"""
_TRANSPOSED_DOC = """{n}-dimensional transposed convolution: the adjoint of `conv{n}d` in its input.

Args:
    input: (N, C, {size}) or (C, {size}).
    weight: (C, O / groups, {kernel}), of input's dtype. bias: (O,) or None.
    stride, padding, dilation, groups: of the convolution whose adjoint this is.
    output_padding: added to the output's size at the end; smaller than stride or dilation.

Returns:
    Tensor (N, O, {out}) of (size - 1) stride - 2 padding + dilation (kernel - 1) + output_padding + 1 positions.

>>> x, w = flambeau.ones({ones}), flambeau.ones({ones})
>>> flambeau.nn.functional.conv_transpose{n}d(x, w).shape
torch.Size([1, 1{units}])
"""


def _describe(text: str, n: int) -> str:
    letters = {1: "L", 2: "H W", 3: "D H W"}[n].split()
    return text.format(n=n, size=", ".join(letters), kernel=", ".join("k" + c for c in letters),
                       out=", ".join(c + "'" for c in letters), ones=", ".join("1" * (n + 2)), units=", 1" * n)


def _conv_samples(n: int) -> Callable:
    size, k = _SIZES[n], (2,) * n

    def samples(t: Any) -> list:
        return [call(t(2, 4, *size), t(3, 4, *k), t(3)), call(t(2, 4, *size), t(4, 2, *k), None, 2, 1, 2, 2),
                call(t(4, *size), t(2, 4, *k), padding="same"), call(t(2, 2, *size, transposed=True), t(2, 2, *k), stride=2)]

    return samples


def _conv_errors(n: int) -> Callable:
    size, k = _SIZES[n], (2,) * n
    return lambda t: [
        (call(t(2, *size, 4), t(3, 4, *k)), RuntimeError, rf"to have 4 channels, but got .*permute\({_PERMUTED[n]}\)"),
        (call(t(4), t(3, 4, *k)), RuntimeError, "input to conv" if n > 1 else "."),
        (call(t(2, 4, *size), t(3, 4, *k), t(2)), RuntimeError, "expected bias to be 1-dimensional with 3"),
        (call(t(2, 4, *size), t(3, 4, *k), stride=0), RuntimeError, "non-positive stride"),
        (call(t(2, 4, *size), t(3, 4, *k), dilation=9), RuntimeError, "can't be greater than actual input size"),
        (call(t(2, 4, *size), t(3, 4, *k, dtype="float64")), RuntimeError, "expected scalar type Float but found Double")]


def _register(n: int) -> Callable:
    function = f"conv{n}d"

    def conv(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
             groups: int = 1) -> Any:
        return _conv(function, n, input, weight, bias, stride, padding, dilation, groups)

    conv.__name__ = conv.__qualname__ = function
    conv.__doc__ = _describe(_DOC, n)
    public(namespaces=_BOTH, method=False, out=False, samples=_conv_samples(n), errors=_conv_errors(n))(conv)
    return conv


def _transposed_samples(n: int) -> Callable:
    size, k = _SIZES[n], (2,) * n
    return lambda t: [call(t(2, 4, *size), t(4, 3, *k), t(3)), call(t(2, 4, *size), t(4, 2, *k), None, 2, 1, 1, 2, 2),
                      call(t(4, *size), t(4, 2, *k), stride=2)]


def _register_transposed(n: int) -> Callable:
    def conv(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
             groups: int = 1, dilation: Any = 1) -> Any:
        return _conv_transpose(n, input, weight, bias, stride, padding, output_padding, groups, dilation)

    conv.__name__ = conv.__qualname__ = f"conv_transpose{n}d"
    conv.__doc__ = _describe(_TRANSPOSED_DOC, n)
    size, k = _SIZES[n], (2,) * n
    public(namespaces=_BOTH, method=False, out=False, samples=_transposed_samples(n), errors=lambda t: [
        (call(t(2, 3, *size), t(4, 3, *k)), RuntimeError, "to have 4 channels, but got 3"),
        (call(t(2, 4, *size), t(4, 3, *k), output_padding=1), RuntimeError, "output padding must be smaller")])(conv)
    return conv


conv1d, conv2d, conv3d = _register(1), _register(2), _register(3)
conv_transpose1d, conv_transpose2d = _register_transposed(1), _register_transposed(2)
conv_transpose3d = _register_transposed(3)


# --------------------------------------------------------------------------------- windows as columns

_WINDOWS = ("kernel_size", "dilation", "padding", "stride")
UNFOLD = primitive(
    "im2col", kernel.unfold, params=_WINDOWS, node="Im2ColBackward0", meta=_columns, batch="items", expr=KERNEL,
    self=lambda xp, g, self_shape, kernel_size, dilation, padding, stride:
    xp.col2im(g, self_shape[2:], kernel_size, dilation, padding, stride))
FOLD = primitive(
    "col2im", kernel.fold, params=("output_size", *_WINDOWS), node="Col2ImBackward0", meta=_image,
    batch="items", expr=KERNEL,
    self=lambda xp, g, kernel_size, dilation, padding, stride: xp.im2col(g, kernel_size, dilation, padding, stride))


def _two(value: Any, name: str, at_least: int) -> tuple[int, int]:
    values = tuple(integer(v, "unfold", name) for v in (value if isinstance(value, (tuple, list)) else (value,)))
    values = values * 2 if len(values) == 1 else values
    if len(values) != 2:
        raise RuntimeError(f"It is expected {name} equals to 2, but got size {len(values)}: give a number or two")
    if min(values) < at_least:
        raise RuntimeError(f"{name} should be greater than {'zero' if at_least else 'or equal to zero'}, but got "
                           f"{name}_height: {values[0]} {name}_width: {values[1]}")
    return values[0], values[1]


def _windows(function: str, input: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> tuple:
    d = dtype_of(tensor(input, function))
    if not is_float(d) and d.kind != "b":
        raise NotImplementedError(f'"{function}" not implemented for {str(dtype_of_array(d))[6:]!r}: convert input to '
                                  'a floating '
                                  "dtype")
    return (_two(kernel_size, "kernel_size", 1), _two(dilation, "dilation", 1), _two(padding, "padding", 0),
            _two(stride, "stride", 1))


def _functional(samples: Callable, errors: Callable) -> Callable:
    return public(namespaces=("nn.functional",), method=False, out=False, samples=samples, errors=errors)


def _blocks(size: tuple, kernel_size: tuple, dilation: tuple, padding: tuple, stride: tuple) -> tuple:
    return tuple((s + 2 * p - d * (k - 1) - 1) // st + 1
                 for s, k, d, p, st in zip(size, kernel_size, dilation, padding, stride, strict=True))


@_functional(lambda t: [call(t(2, 3, 5, 4), 2), call(t(3, 5, 4), (2, 3), 1, 1, 2), call(t(2, 3, 6, 6), 2, dilation=2)],
             lambda t: [(call(t(2, 3, 4, 4), 5), RuntimeError, "must be at least one"),
                        (call(t(2, 3, 4, 4), 2, stride=0), RuntimeError, "stride should be greater than zero")])
def unfold(input: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    """The windows of images as columns.

    Args:
        input: (N, C, H, W) or (C, H, W).
        kernel_size, dilation, padding, stride: of the windows, a number or two.

    Returns:
        Tensor (N, C * kh * kw, number of windows), rows of windows first.

    >>> flambeau.nn.functional.unfold(flambeau.ones(1, 1, 3, 3), 2).shape
    torch.Size([1, 4, 4])
    """
    params = _windows("im2col", input, kernel_size, dilation, padding, stride)
    shape = shape_of(input)
    if len(shape) not in (3, 4) or 0 in shape[-3:]:
        raise RuntimeError("unfold: Expected 3D or 4D (batch mode) tensor, (C, H, W) or (N, C, H, W), of which N "
                           f"alone may be 0; the input has shape {list(shape)}")
    blocks = _blocks(shape[-2:], *params)
    if min(blocks) < 1:
        raise RuntimeError(f"Given input with spatial size {shape[-2:]}, kernel_size={params[0]}, dilation={params[1]}, "
                           f"padding={params[2]}, calculated shape of the array of sliding blocks as {blocks}, but its "
                           "components must be at least one.")
    if len(shape) == 4:
        return apply1(UNFOLD, input, params)
    return apply1(UNFOLD, input.unsqueeze(0), params).squeeze(0)


@_functional(lambda t: [call(t(2, 12, 4), (3, 3), 2), call(t(8, 4), (4, 4), 2, 1, 0, 2)],
             lambda t: [(call(t(2, 13, 4), (3, 3), 2), RuntimeError, "to be divisible by"),
                        (call(t(2, 12, 5), (3, 3), 2), RuntimeError, "number of sliding blocks")])
def fold(input: Any, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    """The sum of columns, placed where `unfold` takes its windows: its adjoint.

    Args:
        input: (N, C * kh * kw, number of windows), N optional.
        output_size: (H, W) of the result.
        kernel_size, dilation, padding, stride: of the windows, a number or two.

    Returns:
        Tensor (N, C, H, W).

    >>> flambeau.nn.functional.fold(flambeau.ones(1, 4, 4), (3, 3), 2)[0, 0].tolist()
    [[1.0, 2.0, 1.0], [2.0, 4.0, 2.0], [1.0, 2.0, 1.0]]
    """
    params = _windows("col2im", input, kernel_size, dilation, padding, stride)
    size = _two(output_size, "output_size", 1)
    shape = shape_of(input)
    if len(shape) not in (2, 3) or 0 in shape[-2:]:
        raise RuntimeError("fold: Expected 2D or 3D (batch mode) tensor, (C * window size, L) or (N, C * window "
                           f"size, L), of which N alone may be 0; the input has shape {list(shape)}")
    taps = params[0][0] * params[0][1]
    if shape[-2] % taps:
        raise RuntimeError("fold: Expected size of input's dimension 1 to be divisible by the elements of a "
                           f"window, {params[0]} (kernel_size), and it is input.size(1)={shape[-2]}.")
    blocks = _blocks(size, *params)
    if shape[-1] != blocks[0] * blocks[1] or min(blocks) < 1:
        raise RuntimeError(f"Given output_size={size}, kernel_size={params[0]}, dilation={params[1]}, "
                           f"padding={params[2]}, stride={params[3]}, expected size of input's dimension 2 to match "
                           f"the calculated number of sliding blocks {blocks[0]} * {blocks[1]} = "
                           f"{blocks[0] * blocks[1]}, but got input.size(2)={shape[-1]}.")
    if len(shape) == 3:
        return apply1(FOLD, input, (size, *params))
    return apply1(FOLD, input.unsqueeze(0), (size, *params)).squeeze(0)
