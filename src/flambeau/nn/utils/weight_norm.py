"""Weight norm as a forward pre-hook; `parametrizations.weight_norm` is its successor."""

from __future__ import annotations

from typing import Any

from flambeau.core.origin import warn_user
from flambeau.nn.parameter import Parameter, is_lazy

__all__ = ["WeightNorm", "norm_except_dim", "remove_weight_norm", "weight_norm"]


def norm_except_dim(v: Any, dim: int) -> Any:
    """The 2-norms over all dimensions but one, in a shape that broadcasts to v; of the whole tensor for dim -1."""
    if dim == -1:
        return v.norm()
    others = tuple(d for d in range(v.dim()) if d != dim % v.dim())
    return v.norm(2, others, keepdim=True) if others else v.abs()


class WeightNorm:
    """The hook: before each call of the module the tensor is computed from name_g and name_v."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Any) -> Any:
        """The tensor from magnitude and direction."""
        v = getattr(module, self.name + "_v")
        return v * (getattr(module, self.name + "_g") / norm_except_dim(v, self.dim))

    @staticmethod
    def apply(module: Any, name: str, dim: int | None) -> WeightNorm:
        """Replace a parameter by two, and add the hook."""
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, WeightNorm) and hook.name == name:
                raise RuntimeError(f"There is a weight_norm hook already on the parameter {name}")
        fn = WeightNorm(name, dim)
        weight = getattr(module, name)
        if is_lazy(weight):
            raise ValueError("weight_norm cannot work on uninitialized parameters. Call the module once, "
                             "so that it makes them, and apply weight_norm then")
        del module._parameters[name]
        module.register_parameter(name + "_g", Parameter(norm_except_dim(weight, fn.dim).data))
        module.register_parameter(name + "_v", Parameter(weight.data))
        setattr(module, name, fn.compute_weight(module))
        module.register_forward_pre_hook(fn)
        return fn

    def remove(self, module: Any) -> None:
        """Put one parameter in the place of the two."""
        weight = self.compute_weight(module)
        delattr(module, self.name)
        del module._parameters[self.name + "_g"]
        del module._parameters[self.name + "_v"]
        setattr(module, self.name, Parameter(weight.data))

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """Deprecated: `parametrizations.weight_norm`. Here the parameters are name_g and name_v."""
    warn_user("torch.nn.utils.weight_norm is deprecated: use torch.nn.utils.parametrizations.weight_norm, whose "
              "result is the same.",
              FutureWarning)
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: Any, name: str = "weight") -> Any:
    """Undo `weight_norm`: the parameter keeps its present value.

    Raises:
        ValueError: the module has no such hook.
    """
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, WeightNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"weight_norm of '{name}' not found in {module}")
