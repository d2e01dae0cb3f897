"""`torch.nn.grad`: the gradients of convolutions in their input and their weight, as functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau

from . import functional as F

__all__ = [f"conv{n}d_{what}" for n in (1, 2, 3) for what in ("input", "weight")]  # noqa: PLE0605


def _gradient(conv: Callable, asked: Any, other: Any, grad_output: Any, first: bool, options: tuple) -> Any:
    """d conv(...) / d asked applied to grad_output, differentiable in grad_output and other."""
    zeros = flambeau.zeros(tuple(asked), dtype=other.dtype, requires_grad=True)
    with flambeau.enable_grad():
        out = conv(zeros, other, None, *options) if first else conv(other, zeros, None, *options)
        again = other.requires_grad or grad_output.requires_grad
        return flambeau.autograd.grad(out, zeros, grad_output, create_graph=again)[0]


def _register(n: int) -> None:
    conv = getattr(F, f"conv{n}d")

    def of_input(input_size: Any, weight: Any, grad_output: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
                 groups: int = 1) -> Any:
        return _gradient(conv, input_size, weight, grad_output, True, (stride, padding, dilation, groups))

    def of_weight(input: Any, weight_size: Any, grad_output: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
                  groups: int = 1) -> Any:
        return _gradient(conv, weight_size, input, grad_output, False, (stride, padding, dilation, groups))

    for fn, what, size in ((of_input, "input", "input_size"), (of_weight, "weight", "weight_size")):
        fn.__name__ = fn.__qualname__ = f"conv{n}d_{what}"
        fn.__doc__ = (f"The gradient of `conv{n}d` in its {what}, of size {size}, from that of its output.\n\n    Args:\n"
                      f"        {size}: of the {what}. grad_output: gradient of the output.\n"
                      "        stride, padding, dilation, groups: of the convolution.\n    ")
        globals()[fn.__name__] = fn


for _n in (1, 2, 3):
    _register(_n)
