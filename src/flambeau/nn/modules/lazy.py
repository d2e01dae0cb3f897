"""Lazy layers: sizes of parameters follow from the first input."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy

from .module import Module

__all__ = ["LazyModuleMixin"]


class LazyModuleMixin(Module):
    """For layers with `UninitializedParameter`s: the first call gives them their shapes.

    A subclass derives from this and from the layer, and defines `initialize_parameters(input)`, which materializes
    the parameters. After the first call the layer is an instance of `cls_to_become`.
    """

    cls_to_become: Any = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(self._infer_parameters, with_kwargs=True)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        for name, p in self._parameters.items():
            if p is not None:
                destination[prefix + name] = p if is_lazy(p) or keep_vars else p.detach()
        for name, b in self._buffers.items():
            if b is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = b if is_lazy(b) or keep_vars else b.detach()

    def _lazy_load_hook(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        """Before loading: take the checkpoint's shapes."""
        for name, own in [*self._parameters.items(), *self._buffers.items()]:
            value = state_dict.get(prefix + name)
            if is_lazy(own) and value is not None and not is_lazy(value):
                own._load_unshaped(value)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Materialize the parameters for an input of forward."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}: define it in "
                                  "the class")

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or buffer has no shape yet."""
        return any(is_lazy(t) for t in [*self._parameters.values(), *self._buffers.values()])

    def _infer_parameters(self, module: Any, args: tuple, kwargs: dict | None = None) -> None:
        """Before the first call: give parameters their shapes, and become an ordinary layer."""
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {self._get_name()} has not been fully initialized: initialize_parameters left "
                               "a parameter without a shape")
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook, module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become


class _LazyNormBase(LazyModuleMixin):
    """Normalisation of channels that are counted at the first call."""

    weight: Any
    bias: Any

    def __init__(self, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
                 track_running_stats: bool = True, device: Any = None, dtype: Any = None, *, bias: bool = True) -> None:
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        super().__init__(0, eps, momentum, False, False, **made)
        self.affine = affine
        self.track_running_stats = track_running_stats
        if affine:
            self.weight = UninitializedParameter(**made)
            if bias:
                self.bias = UninitializedParameter(**made)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(**made)
            self.running_var = UninitializedBuffer(**made)
            self.num_batches_tracked = flambeau.tensor(0, dtype=flambeau.long, device=device)

    def reset_parameters(self) -> None:
        """Scale 1, shift 0, and the running statistics anew, once they have shapes."""
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Any) -> None:
        """Count the channels of the input."""
        if self.has_uninitialized_params():
            self.num_features = self._channels(input)
            for t in (self.weight, self.bias, self.running_mean, self.running_var):
                if is_lazy(t):
                    t.materialize((self.num_features,))
            self.reset_parameters()

    def _channels(self, input: Any) -> int:
        return input.shape[1]
