"""Convolutions under their names in `torch`: `convolution`, of any number of dimensions, and `conv_tbc`."""

from __future__ import annotations

from typing import Any

from flambeau.core.objects import shape_of

from . import convolution as c
from ._args import integer, tensor
from ._record import call, ops, public


@public(name="convolution", method=False, out=False, samples=lambda t: [
    call(t(1, 2, 5), t(3, 2, 2), t(3), [1], [1], [1], False, [0], 1),
    call(t(1, 2, 5, 4), t(2, 3, 2, 2), None, [2, 2], [0, 0], [1, 1], True, [1, 0], 1)], errors=lambda t: [
    (call(t(1, 2, 5), t(3, 3, 2), None, [1], [0], [1], False, [0], 1), RuntimeError, "channels")])
def any_convolution(input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
                    output_padding: Any, groups: int) -> Any:
    """conv1d, conv2d, conv3d, or with transposed=True conv_transpose, by the number of dimensions of weight.

    >>> flambeau.convolution(flambeau.ones(1, 1, 3), flambeau.ones(1, 1, 2), None, [1], [0], [1], False, [0], 1).tolist()
    [[[2.0, 2.0]]]
    """
    n = len(shape_of(tensor(weight, "convolution", "weight", 2))) - 2
    if n not in (1, 2, 3):
        raise RuntimeError(f"convolution: weight should have 3, 4 or 5 dimensions, got shape {list(shape_of(weight))}")
    if transposed:
        fn: Any = (c.conv_transpose1d, c.conv_transpose2d, c.conv_transpose3d)[n - 1]
        return fn(input, weight, bias, tuple(stride), tuple(padding), tuple(output_padding), groups, tuple(dilation))
    fn = (c.conv1d, c.conv2d, c.conv3d)[n - 1]
    return fn(input, weight, bias, tuple(stride), tuple(padding), tuple(dilation), groups)


@public(namespaces=("torch", "nn.functional"), method=False, out=False, samples=lambda t: [
    call(t(5, 2, 3), t(3, 3, 4), t(4), 1), call(t(5, 2, 3), t(2, 3, 4), t(4))], errors=lambda t: [
    (call(t(5, 2), t(3, 2, 4), t(4)), RuntimeError, "3 dims"),
    (call(t(5, 2, 3), t(3, 2, 4), t(4)), RuntimeError, "input channels"),
    (call(t(5, 2, 3), t(3, 3, 4), t(4, 1)), RuntimeError, "1-D"),
    (call(t(5, 2, 3), t(3, 3, 4), t(3)), RuntimeError, "output channels")])
def conv_tbc(input: Any, weight: Any, bias: Any, pad: int = 0) -> Any:
    """1-dimensional convolution of time first, channels last.

    Args:
        input: (L, N, C). weight: (K, C, O). bias: (O,). pad: zeros on both sides of time.

    Returns:
        Tensor (L + 2 pad - K + 1, N, O).

    >>> flambeau.conv_tbc(flambeau.ones(3, 1, 1), flambeau.ones(2, 1, 1), flambeau.zeros(1)).flatten().tolist()
    [2.0, 2.0]
    """
    sizes = [shape_of(tensor(v, "conv_tbc", name)) for v, name in ((input, "input"), (weight, "weight"), (bias, "bias"))]
    if len(sizes[0]) != 3:
        raise RuntimeError(f"conv_tbc: Input must have 3 dims: time, batch, in_channel. Its shape is {list(sizes[0])}")
    if len(sizes[1]) != 3:
        raise RuntimeError("conv_tbc: Weight tensor must have 3 dims: kernel_width, in_channels, out_channels. Its shape is "
                           f"{list(sizes[1])}")
    if len(sizes[2]) != 1:
        raise RuntimeError(f"conv_tbc: Bias must be 1-D, its shape is {list(sizes[2])}")
    if sizes[0][2] != sizes[1][1]:
        raise RuntimeError(f"conv_tbc: Input dim 2 (input channels), {sizes[0][2]}, is not dim 1 of weight, {sizes[1][1]}")
    if sizes[1][2] != sizes[2][0]:
        raise RuntimeError(f"conv_tbc: Bias size {sizes[2][0]} must equal dim 2 of weight (output channels), {sizes[1][2]}")
    out = c.conv1d(ops.permute(input, (1, 2, 0)), ops.permute(weight, (2, 1, 0)), bias, 1, integer(pad, "conv_tbc", "pad"))
    return ops.contiguous(ops.permute(out, (2, 0, 1)))
