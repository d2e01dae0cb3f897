"""The memory order of convolutions' weights."""

from __future__ import annotations

from typing import Any

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]


def _convert(module: Any, memory_format: Any, names: tuple[str, ...]) -> Any:
    from flambeau.nn import modules

    for layer in module.modules():
        if isinstance(layer, tuple(getattr(modules, n) for n in names)):
            layer.weight.data = layer.weight.detach().clone(memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module: Any, memory_format: Any) -> Any:
    """Put the weights of all Conv2d and ConvTranspose2d below into a memory order; the module is returned."""
    return _convert(module, memory_format, ("Conv2d", "ConvTranspose2d"))


def convert_conv3d_weight_memory_format(module: Any, memory_format: Any) -> Any:
    """Put the weights of all Conv3d and ConvTranspose3d below into a memory order; the module is returned."""
    return _convert(module, memory_format, ("Conv3d", "ConvTranspose3d"))
