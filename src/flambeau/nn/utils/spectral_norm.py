"""Spectral norm as a forward pre-hook; `parametrizations.spectral_norm` is its successor."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau.nn import functional as F
from flambeau.nn.parameter import Parameter, is_lazy

__all__ = ["SpectralNorm", "remove_spectral_norm", "spectral_norm"]


class SpectralNorm:
    """The hook: before each call the tensor is name_orig divided by its estimated largest singular value."""

    _version = 1

    def __init__(self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        if n_power_iterations <= 0:
            raise ValueError(f"n_power_iterations must be positive, not {n_power_iterations}")
        self.name = name
        self.dim = dim
        self.n_power_iterations = n_power_iterations
        self.eps = eps

    def reshape_weight_to_matrix(self, weight: Any) -> Any:
        """The tensor as a matrix whose rows are `dim`."""
        if self.dim != 0:
            weight = weight.permute(self.dim, *(d for d in range(weight.dim()) if d != self.dim))
        return weight.reshape(weight.size(0), -1)

    def compute_weight(self, module: Any, do_power_iteration: bool) -> Any:
        """The normalised tensor; the vectors are improved first when asked."""
        weight = getattr(module, self.name + "_orig")
        u, v = getattr(module, self.name + "_u"), getattr(module, self.name + "_v")
        matrix = self.reshape_weight_to_matrix(weight)
        if do_power_iteration:
            with flambeau.no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(F.normalize(flambeau.mv(matrix.t(), u), dim=0, eps=self.eps))
                    u.copy_(F.normalize(flambeau.mv(matrix, v), dim=0, eps=self.eps))
                u, v = u.clone(), v.clone()     # the graph keeps these, so that the next call may write
        return weight / flambeau.dot(u, flambeau.mv(matrix, v))

    @staticmethod
    def apply(module: Any, name: str, n_power_iterations: int, dim: int, eps: float) -> SpectralNorm:
        """Rename the parameter, make the vectors and add the hook."""
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, SpectralNorm) and hook.name == name:
                raise RuntimeError(f"There is a spectral_norm hook already on the parameter {name}")
        fn = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
        if is_lazy(weight):
            raise ValueError("spectral_norm cannot work on uninitialized parameters. Call the module "
                             "once, so that it makes them, and apply spectral_norm then")
        with flambeau.no_grad():
            h, w = fn.reshape_weight_to_matrix(weight).size()
            u = F.normalize(weight.new_empty(h).normal_(0, 1), dim=0, eps=eps)
            v = F.normalize(weight.new_empty(w).normal_(0, 1), dim=0, eps=eps)
        delattr(module, name)
        module.register_parameter(name + "_orig", weight)
        setattr(module, name, weight.data)      # replaced at the first call
        module.register_buffer(name + "_u", u)
        module.register_buffer(name + "_v", v)
        module.register_forward_pre_hook(fn)
        return fn

    def remove(self, module: Any) -> None:
        """Make the normalised tensor the parameter."""
        with flambeau.no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        for suffix in ("", "_u", "_v", "_orig"):
            delattr(module, self.name + suffix)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, do_power_iteration=module.training))


def spectral_norm(module: Any, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12,
                  dim: int | None = None) -> Any:
    """The older form of `parametrizations.spectral_norm`: parameter name_orig, buffers name_u and name_v.

    Source: Miyato et al., 2018, arXiv:1802.05957.
    """
    if dim is None:
        dim = 1 if getattr(module, "transposed", False) else 0      # of transposed convolutions the outputs come second
    SpectralNorm.apply(module, name, n_power_iterations, dim, eps)
    return module


def remove_spectral_norm(module: Any, name: str = "weight") -> Any:
    """Undo `spectral_norm`: the parameter keeps the normalised value.

    Raises:
        ValueError: the module has no such hook.
    """
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"spectral_norm of '{name}' not found in {module}")
