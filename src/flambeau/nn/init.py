"""Initial values of parameters: each function fills a tensor in place, unrecorded, and returns it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import flambeau
from flambeau.autograd import no_grad
from flambeau.core.objects import array_of, make
from flambeau.core.origin import warn_user

_ONE = ("linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
        "sigmoid")


def calculate_gain(nonlinearity: str, param: Any = None) -> float:
    """The factor by which a nonlinearity asks the weights before it to be scaled.

    Args:
        nonlinearity: name of the function as in nn.functional.
        param: the negative slope of leaky_relu, 0.01 when None.

    Source: Glorot and Bengio, 2010; He et al., 2015, arXiv:1502.01852.
    """
    if nonlinearity in _ONE:
        return 1
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "leaky_relu":
        if param is None:
            slope = 0.01
        elif isinstance(param, (int, float)) and not isinstance(param, bool):
            slope = param
        else:
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity == "selu":
        return 3.0 / 4
    raise ValueError(f"Unsupported nonlinearity {nonlinearity}")


def uniform_(tensor: Any, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Any:
    """Uniform in [a, b)."""
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor: Any, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Any:
    """Normal with mean and standard deviation std."""
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(tensor: Any, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0,
                  generator: Any = None) -> Any:
    """Normal, cut to [a, b]: values outside are drawn again."""
    if mean < a - 2 * std or mean > b + 2 * std:
        warn_user("trunc_normal_: the mean lies more than 2 std from [a, b]. The distribution of "
                  "values may be incorrect.")

    def cdf(x: float) -> float:
        return (1.0 + math.erf(x / math.sqrt(2.0))) / 2.0

    def draw(fill: Callable) -> Any:
        return fill(flambeau.empty_like(tensor))

    with no_grad():
        if tensor.is_meta:
            return tensor
        if cdf((b - mean) / std) - cdf((a - mean) / std) > 0.3:
            low, high = tensor.new_tensor(a).item(), tensor.new_tensor(b).item()
            tensor.normal_(mean, std, generator=generator)
            while (refused := (tensor < low) | (tensor > high)).any():
                again = draw(lambda t: t.normal_(mean, std, generator=generator))
                tensor.copy_(flambeau.where(refused, again, tensor))
            return tensor
        # few normal values fall into [a, b]: accept uniform ones with the density's probability
        peak = -0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2

        def refuse(values: Any) -> Any:
            log_density = ((values - mean) / std).pow(2) * -0.5 - peak
            return draw(lambda t: t.uniform_(generator=generator)).log_() > log_density

        tensor.uniform_(a, b, generator=generator)
        refused = refuse(tensor)
        while refused.any():
            again = draw(lambda t: t.uniform_(a, b, generator=generator))
            tensor.copy_(flambeau.where(refused, again, tensor))
            refused = refused & refuse(again)
        return tensor


def constant_(tensor: Any, val: float) -> Any:
    """Every element val."""
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor: Any) -> Any:
    """Every element 1."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Any) -> Any:
    """Every element 0."""
    with no_grad():
        return tensor.zero_()


def eye_(tensor: Any) -> Any:
    """The identity matrix; tensor has two dimensions."""
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    with no_grad():
        tensor.copy_(flambeau.eye(*tensor.shape, dtype=tensor.dtype, device=tensor.device))
    return tensor


def dirac_(tensor: Any, groups: int = 1) -> Any:
    """The convolution kernel (3, 4 or 5 dimensions) that passes its input through, as far as channels
    allow."""
    dimensions = tensor.ndimension()
    if dimensions not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    sizes = tuple(tensor.shape)
    if sizes[0] % groups != 0:
        raise ValueError("dim 0 must be divisible by groups")
    per_group = sizes[0] // groups
    centre = tuple(s // 2 for s in sizes[2:])
    with no_grad():
        tensor.zero_()
        for group in range(groups):
            for channel in range(min(per_group, sizes[1])):
                tensor[(group * per_group + channel, channel, *centre)] = 1
    return tensor


def _calculate_fan_in_and_fan_out(tensor: Any) -> tuple[int, int]:
    """How many inputs reach an output element, and how many outputs an input element reaches."""
    sizes = tuple(tensor.shape)
    if len(sizes) < 2:
        raise ValueError("Fan in and fan out need a weight of at least 2 dimensions")
    field = math.prod(sizes[2:])
    return sizes[1] * field, sizes[0] * field


def _calculate_correct_fan(tensor: Any, mode: str) -> int:
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    return _calculate_fan_in_and_fan_out(tensor)[mode == "fan_out"]


def xavier_uniform_(tensor: Any, gain: float = 1.0, generator: Any = None) -> Any:
    """Uniform in +-gain * sqrt(6 / (fan_in + fan_out)).

    Source: Glorot and Bengio, 2010, Understanding the difficulty of training deep feedforward neural
    networks.
    """
    bound = math.sqrt(3.0) * _xavier_std(tensor, gain)
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Any, gain: float = 1.0, generator: Any = None) -> Any:
    """Normal with standard deviation gain * sqrt(2 / (fan_in + fan_out)). Source: as xavier_uniform_."""
    return normal_(tensor, 0.0, _xavier_std(tensor, gain), generator)


def _xavier_std(tensor: Any, gain: float) -> float:
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return gain * math.sqrt(2.0 / float(fan_in + fan_out))


def kaiming_uniform_(tensor: Any, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
                     generator: Any = None) -> Any:
    """Uniform in +-gain * sqrt(3 / fan).

    Args:
        a: negative slope of the leaky_relu after the layer.
        mode: "fan_in" keeps the forward's variance, "fan_out" the backward's.

    Source: He et al., 2015, arXiv:1502.01852.
    """
    if _nothing_to_fill(tensor):
        return tensor
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(tensor: Any, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
                    generator: Any = None) -> Any:
    """Normal with standard deviation gain / sqrt(fan). Arguments and source: as kaiming_uniform_."""
    if _nothing_to_fill(tensor):
        return tensor
    return normal_(tensor, 0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def _kaiming_std(tensor: Any, a: float, mode: str, nonlinearity: str) -> float:
    fan = _calculate_correct_fan(tensor, mode)
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def _nothing_to_fill(tensor: Any) -> bool:
    if 0 in tensor.shape:
        warn_user("Initializing zero-element tensors is a no-op")
        return True
    return False


def orthogonal_(tensor: Any, gain: float = 1, generator: Any = None) -> Any:
    """A (semi-)orthogonal matrix times gain; dimensions after the first are taken as one.

    Source: Saxe et al., 2013, arXiv:1312.6120.
    """
    if tensor.ndimension() < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0 or tensor.is_meta:
        return tensor
    rows = tensor.size(0)
    columns = tensor.numel() // rows
    with no_grad():
        draw = flambeau.empty((rows, columns), dtype=tensor.dtype,
                              device=tensor.device).normal_(0, 1, generator=generator)
        q, r = np.linalg.qr(array_of(draw.t() if rows < columns else draw))
        q *= np.sign(np.diagonal(r))             # makes the factorisation unique, hence q uniform
        tensor.view(rows, columns).copy_(make(np.ascontiguousarray(q.T if rows < columns else q)))
        tensor.mul_(gain)
    return tensor


def sparse_(tensor: Any, sparsity: float, std: float = 0.01, generator: Any = None) -> Any:
    """Normal values of which in each column a fraction `sparsity`, drawn at random, is zero.

    Source: Martens, 2010, Deep learning via Hessian-free optimization.
    """
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    n_zeros = math.ceil(sparsity * rows)
    with no_grad():
        tensor.normal_(0, std, generator=generator)
        for column in range(columns):
            tensor[flambeau.randperm(rows)[:n_zeros], column] = 0
    return tensor


def _old_name(new: Callable) -> Callable:
    old = new.__name__[:-1]

    def function(*args: Any, **kwargs: Any) -> Any:
        warn_user(f"`nn.init.{old}` is now deprecated in favor of `nn.init.{new.__name__}`.", FutureWarning)
        return new(*args, **kwargs)

    function.__name__ = function.__qualname__ = old
    function.__doc__ = f"The old name of `{new.__name__}`."
    return function


uniform = _old_name(uniform_)
normal = _old_name(normal_)
constant = _old_name(constant_)
eye = _old_name(eye_)
dirac = _old_name(dirac_)
xavier_uniform = _old_name(xavier_uniform_)
xavier_normal = _old_name(xavier_normal_)
kaiming_uniform = _old_name(kaiming_uniform_)
kaiming_normal = _old_name(kaiming_normal_)
orthogonal = _old_name(orthogonal_)
sparse = _old_name(sparse_)
