"""`DataParallel` without GPUs: its module, called as it is."""

from __future__ import annotations

from typing import Any

from flambeau.nn.modules.module import Module


class DataParallel(Module):
    """A module over several GPUs; without any, as here, it calls the module.

    Args:
        module: its parameters are under "module." in the state_dict.
        device_ids, output_device, dim: of GPUs, not used.

    >>> flambeau.nn.DataParallel(flambeau.nn.Identity())(flambeau.ones(1)).item()
    1.0
    """

    def __init__(self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0) -> None:
        super().__init__()
        self.module = module
        self.device_ids: list = []
        self.output_device = output_device
        self.dim = dim

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """module(*inputs, **kwargs)"""
        return self.module(*inputs, **kwargs)


def data_parallel(module: Module, inputs: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0,
                  module_kwargs: dict | None = None) -> Any:
    """module(*inputs, **module_kwargs)"""
    if not isinstance(inputs, tuple):
        inputs = (inputs,)
    return module(*inputs, **(module_kwargs or {}))
