"""Convolutions."""

from __future__ import annotations

import math
from typing import Any

import flambeau
from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.nn.parameter import Parameter, UninitializedParameter

from .lazy import LazyModuleMixin
from .module import Module
from .utils import _pair, _single, _triple

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Module):
    """What all convolutions share: checks, parameters, text.

    Initial values are uniform in +-1/sqrt(channels of a group * kernel elements).
    """

    __constants__ = ["stride", "padding", "dilation", "groups", "padding_mode", "output_padding",
                     "in_channels", "out_channels", "kernel_size"]
    weight: Any
    bias: Any

    def __init__(self, in_channels: int, out_channels: int, kernel_size: tuple, stride: tuple, padding: Any,
                 dilation: tuple, transposed: bool, output_padding: tuple, groups: int, bias: bool,
                 padding_mode: str, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        for name, channels in (("in_channels", in_channels), ("out_channels", out_channels)):
            if channels % groups != 0:
                raise ValueError(f"{name} must be divisible by groups: {channels} % {groups} is not 0")
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ValueError(f"Invalid padding string {padding!r}, should be one of 'same', 'valid'")
            if padding == "same" and any(s != 1 for s in stride):
                raise ValueError("padding='same' is not supported for strided convolutions")
        if padding_mode not in _PADDING_MODES:
            raise ValueError(f"padding_mode must be one of {_PADDING_MODES}, but got "
                             f"padding_mode='{padding_mode}'")
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.transposed = transposed
        self.output_padding = output_padding
        self.groups = groups
        self.padding_mode = padding_mode
        self._reversed_padding_repeated_twice = _pad_sides(padding, kernel_size, dilation)
        if transposed:
            shape = (in_channels, out_channels // groups, *kernel_size)
        else:
            shape = (out_channels, in_channels // groups, *kernel_size)
        self.weight = Parameter(flambeau.empty(shape, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(flambeau.empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the initial values anew."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def __setstate__(self, state: dict) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("padding_mode", "zeros")

    def _padded(self, input: Any) -> tuple[Any, Any]:
        """The input and the padding that is left for the operator: other modes than zeros pad beforehand."""
        if self.padding_mode == "zeros":
            return input, self.padding
        return F.pad(input, self._reversed_padding_repeated_twice,
                     mode=self.padding_mode), (0,) * len(self.kernel_size)

    def extra_repr(self) -> str:
        n = len(self.kernel_size)
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}"
        text += f", stride={self.stride}"
        if self.padding != (0,) * n:
            text += f", padding={self.padding}"
        if self.dilation != (1,) * n:
            text += f", dilation={self.dilation}"
        if self.output_padding != (0,) * n:
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        if self.padding_mode != "zeros":
            text += f", padding_mode={self.padding_mode}"
        return text


def _pad_sides(padding: Any, kernel_size: tuple, dilation: tuple) -> Any:
    """What `F.pad` is given: before and after, the last dimension first."""
    if padding == "valid":
        return [0] * (2 * len(kernel_size))
    if padding == "same":
        sides: list[int] = []
        for size, step in zip(reversed(kernel_size), reversed(dilation), strict=True):
            total = step * (size - 1)
            sides += [total // 2, total - total // 2]
        return sides
    return tuple(p for p in reversed(padding) for _ in range(2))


class Conv1d(_ConvNd):
    """Convolution (cross-correlation) of (N, C, L) or (C, L)."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1,
                 padding: Any = 0, dilation: Any = 1, groups: int = 1, bias: bool = True,
                 padding_mode: str = "zeros", device: Any = None, dtype: Any = None) -> None:
        super().__init__(in_channels, out_channels, _single(kernel_size), _single(stride),
                         padding if isinstance(padding, str) else _single(padding), _single(dilation), False,
                         _single(0), groups, bias, padding_mode, device, dtype)

    def forward(self, input: Any) -> Any:
        return self._conv_forward(input, self.weight, self.bias)

    def _conv_forward(self, input: Any, weight: Any, bias: Any) -> Any:
        input, padding = self._padded(input)
        return F.conv1d(input, weight, bias, self.stride, padding, self.dilation, self.groups)


class Conv2d(_ConvNd):
    """Convolution (cross-correlation) of (N, C, H, W) or (C, H, W).

    >>> flambeau.nn.Conv2d(1, 4, 3, padding=1)(flambeau.zeros(2, 1, 8, 8)).shape
    torch.Size([2, 4, 8, 8])
    """

    def __init__(self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1,
                 padding: Any = 0, dilation: Any = 1, groups: int = 1, bias: bool = True,
                 padding_mode: str = "zeros", device: Any = None, dtype: Any = None) -> None:
        super().__init__(in_channels, out_channels, _pair(kernel_size), _pair(stride),
                         padding if isinstance(padding, str) else _pair(padding), _pair(dilation), False,
                         _pair(0), groups, bias, padding_mode, device, dtype)

    def forward(self, input: Any) -> Any:
        return self._conv_forward(input, self.weight, self.bias)

    def _conv_forward(self, input: Any, weight: Any, bias: Any) -> Any:
        input, padding = self._padded(input)
        return F.conv2d(input, weight, bias, self.stride, padding, self.dilation, self.groups)


class Conv3d(_ConvNd):
    """Convolution (cross-correlation) of (N, C, D, H, W) or (C, D, H, W)."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1,
                 padding: Any = 0, dilation: Any = 1, groups: int = 1, bias: bool = True,
                 padding_mode: str = "zeros", device: Any = None, dtype: Any = None) -> None:
        super().__init__(in_channels, out_channels, _triple(kernel_size), _triple(stride),
                         padding if isinstance(padding, str) else _triple(padding), _triple(dilation), False,
                         _triple(0), groups, bias, padding_mode, device, dtype)

    def forward(self, input: Any) -> Any:
        return self._conv_forward(input, self.weight, self.bias)

    def _conv_forward(self, input: Any, weight: Any, bias: Any) -> Any:
        input, padding = self._padded(input)
        return F.conv3d(input, weight, bias, self.stride, padding, self.dilation, self.groups)


class _ConvTransposeNd(_ConvNd):
    """What the transposed convolutions share: they undo the shapes of a convolution with the same
    arguments."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: tuple, stride: tuple, padding: tuple,
                 dilation: tuple, transposed: bool, output_padding: tuple, groups: int, bias: bool,
                 padding_mode: str, device: Any = None, dtype: Any = None) -> None:
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, transposed,
                         output_padding, groups, bias, padding_mode, device, dtype)

    def _output_padding(self, input: Any, output_size: Any, stride: Any, padding: Any, kernel_size: Any,
                        num_spatial_dims: int, dilation: Any = None) -> Any:
        """The output padding that gives output_size: a stride leaves several sizes to choose from."""
        if output_size is None:
            return _single(self.output_padding)
        n = num_spatial_dims
        batched = input.dim() == n + 2
        wanted = tuple(output_size)
        if len(wanted) == n + (2 if batched else 1):
            wanted = wanted[-n:]
        if len(wanted) != n:
            raise ValueError(f"ConvTranspose{n}D: for {input.dim()}D input, output_size must have {n} or "
                             f"{n + 2} elements (got {len(wanted)})")
        spatial = tuple(input.shape)[-n:]
        steps = dilation if dilation is not None else (1,) * n
        low = [(spatial[d] - 1) * stride[d] - 2 * padding[d] + steps[d] * (kernel_size[d] - 1) + 1
               for d in range(n)]
        high = [low[d] + stride[d] - 1 for d in range(n)]
        if any(not low[d] <= wanted[d] <= high[d] for d in range(n)):
            raise ValueError(f"requested an output size of {output_size}, but valid sizes range from {low} "
                             f"to {high} (for an input of {input.size()[2:]})")
        return tuple(wanted[d] - low[d] for d in range(n))


class ConvTranspose1d(_ConvTransposeNd):
    """Transposed convolution of (N, C, L) or (C, L)."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1,
                 padding: Any = 0, output_padding: Any = 0, groups: int = 1, bias: bool = True,
                 dilation: Any = 1, padding_mode: str = "zeros", device: Any = None,
                 dtype: Any = None) -> None:
        super().__init__(in_channels, out_channels, _single(kernel_size), _single(stride), _single(padding),
                         _single(dilation), True, _single(output_padding), groups, bias, padding_mode, device,
                         dtype)

    def forward(self, input: Any, output_size: Any = None) -> Any:
        extra = self._output_padding(input, output_size, self.stride, self.padding, self.kernel_size, 1,
                                     self.dilation)
        return F.conv_transpose1d(input, self.weight, self.bias, self.stride, self.padding, extra,
                                  self.groups, self.dilation)


class ConvTranspose2d(_ConvTransposeNd):
    """Transposed convolution of (N, C, H, W) or (C, H, W)."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1,
                 padding: Any = 0, output_padding: Any = 0, groups: int = 1, bias: bool = True,
                 dilation: Any = 1, padding_mode: str = "zeros", device: Any = None,
                 dtype: Any = None) -> None:
        super().__init__(in_channels, out_channels, _pair(kernel_size), _pair(stride), _pair(padding),
                         _pair(dilation), True, _pair(output_padding), groups, bias, padding_mode, device,
                         dtype)

    def forward(self, input: Any, output_size: Any = None) -> Any:
        extra = self._output_padding(input, output_size, self.stride, self.padding, self.kernel_size, 2,
                                     self.dilation)
        return F.conv_transpose2d(input, self.weight, self.bias, self.stride, self.padding, extra,
                                  self.groups, self.dilation)


class ConvTranspose3d(_ConvTransposeNd):
    """Transposed convolution of (N, C, D, H, W) or (C, D, H, W)."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1,
                 padding: Any = 0, output_padding: Any = 0, groups: int = 1, bias: bool = True,
                 dilation: Any = 1, padding_mode: str = "zeros", device: Any = None,
                 dtype: Any = None) -> None:
        super().__init__(in_channels, out_channels, _triple(kernel_size), _triple(stride), _triple(padding),
                         _triple(dilation), True, _triple(output_padding), groups, bias, padding_mode, device,
                         dtype)

    def forward(self, input: Any, output_size: Any = None) -> Any:
        extra = self._output_padding(input, output_size, self.stride, self.padding, self.kernel_size, 3,
                                     self.dilation)
        return F.conv_transpose3d(input, self.weight, self.bias, self.stride, self.padding, extra,
                                  self.groups, self.dilation)


class _LazyConvXdMixin(LazyModuleMixin):
    """A convolution whose in_channels are counted at the first call."""

    weight: Any
    bias: Any
    _n_spatial: int

    def _make_lazy(self, out_channels: int, bias: bool, made: dict) -> None:
        self.weight = UninitializedParameter(**made)
        self.out_channels = out_channels
        if bias:
            self.bias = UninitializedParameter(**made)

    def reset_parameters(self) -> None:
        """Draw the initial values, once there are shapes."""
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Any, *args: Any, **kwargs: Any) -> None:
        """Count the channels of the input."""
        if not self.has_uninitialized_params():
            if self.in_channels == 0:       # loaded from a checkpoint before the first call
                self.in_channels = self._channels(input)
            return
        self.in_channels = self._channels(input)
        if self.in_channels % self.groups != 0:
            raise ValueError(f"in_channels must be divisible by groups: {self.in_channels} % {self.groups} is not 0")
        pair = (self.in_channels, self.out_channels // self.groups) if self.transposed else (
            self.out_channels, self.in_channels // self.groups)
        self.weight.materialize((*pair, *self.kernel_size))
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()

    def _channels(self, input: Any) -> int:
        n = self._n_spatial
        if input.dim() not in (n + 1, n + 2):
            raise RuntimeError(f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to {type(self).__name__}, but "
                               f"got input of size: {input.shape}")
        return input.shape[-n - 1]


class LazyConv1d(_LazyConvXdMixin, Conv1d):
    """Conv1d whose in_channels are those of the first input."""

    cls_to_become = Conv1d
    _n_spatial = 1

    def __init__(self, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
                 groups: int = 1, bias: bool = True, padding_mode: str = "zeros", device: Any = None,
                 dtype: Any = None) -> None:
        super().__init__(0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode)
        self._make_lazy(out_channels, bias, {"device": device, "dtype": dtype})


class LazyConv2d(_LazyConvXdMixin, Conv2d):
    """Conv2d whose in_channels are those of the first input."""

    cls_to_become = Conv2d
    _n_spatial = 2

    def __init__(self, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
                 groups: int = 1, bias: bool = True, padding_mode: str = "zeros", device: Any = None,
                 dtype: Any = None) -> None:
        super().__init__(0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode)
        self._make_lazy(out_channels, bias, {"device": device, "dtype": dtype})


class LazyConv3d(_LazyConvXdMixin, Conv3d):
    """Conv3d whose in_channels are those of the first input."""

    cls_to_become = Conv3d
    _n_spatial = 3

    def __init__(self, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
                 groups: int = 1, bias: bool = True, padding_mode: str = "zeros", device: Any = None,
                 dtype: Any = None) -> None:
        super().__init__(0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode)
        self._make_lazy(out_channels, bias, {"device": device, "dtype": dtype})


class LazyConvTranspose1d(_LazyConvXdMixin, ConvTranspose1d):
    """ConvTranspose1d whose in_channels are those of the first input."""

    cls_to_become = ConvTranspose1d
    _n_spatial = 1

    def __init__(self, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
                 groups: int = 1, bias: bool = True, dilation: Any = 1, padding_mode: str = "zeros", device: Any = None,
                 dtype: Any = None) -> None:
        super().__init__(0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation, padding_mode)
        self._make_lazy(out_channels, bias, {"device": device, "dtype": dtype})


class LazyConvTranspose2d(_LazyConvXdMixin, ConvTranspose2d):
    """ConvTranspose2d whose in_channels are those of the first input."""

    cls_to_become = ConvTranspose2d
    _n_spatial = 2

    def __init__(self, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
                 groups: int = 1, bias: bool = True, dilation: Any = 1, padding_mode: str = "zeros", device: Any = None,
                 dtype: Any = None) -> None:
        super().__init__(0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation, padding_mode)
        self._make_lazy(out_channels, bias, {"device": device, "dtype": dtype})


class LazyConvTranspose3d(_LazyConvXdMixin, ConvTranspose3d):
    """ConvTranspose3d whose in_channels are those of the first input."""

    cls_to_become = ConvTranspose3d
    _n_spatial = 3

    def __init__(self, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
                 groups: int = 1, bias: bool = True, dilation: Any = 1, padding_mode: str = "zeros", device: Any = None,
                 dtype: Any = None) -> None:
        super().__init__(0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation, padding_mode)
        self._make_lazy(out_channels, bias, {"device": device, "dtype": dtype})
