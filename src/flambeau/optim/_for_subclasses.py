"""What optimizers written for PyTorch import from `torch.optim.optimizer` besides the class."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from flambeau.autograd import set_grad_enabled
from flambeau.core.objects import TensorBase

ParamsT = Iterable[Any]          # tensors, dicts of groups, or (name, tensor) pairs
_params_doc = _foreach_doc = _fused_doc = _capturable_doc = _differentiable_doc = _maximize_doc = ""


def _use_grad_for_differentiable(step: Callable) -> Callable:
    """Decorator of `step`: it is recorded if the optimizer's option "differentiable" is set, and else is not."""

    @functools.wraps(step)
    def decorated(self: Any, *args: Any, **kwargs: Any) -> Any:
        with set_grad_enabled(bool(self.defaults.get("differentiable"))):
            return step(self, *args, **kwargs)

    return decorated


def _get_value(x: Any) -> Any:
    """The number in a tensor of one element; others as they are."""
    return x.item() if isinstance(x, TensorBase) else x  # type: ignore[attr-defined]


def _stack_if_compiling(x: Any) -> Any:
    """x: nothing is being compiled."""
    return x


def _dispatch_sqrt(x: Any) -> Any:
    """The square root of a number or a tensor."""
    return x.sqrt() if isinstance(x, TensorBase) else x**0.5  # type: ignore[attr-defined]


def _default_to_fused_or_foreach(params: Any, differentiable: bool, use_fused: bool = False) -> tuple[bool, bool]:
    """(False, False): there is one implementation."""
    return False, False


def _disable_dynamo_if_unsupported(single_tensor_fn: Any = None) -> Callable:
    """A decorator that changes nothing."""
    return lambda fn: fn


def _to_scalar(x: Any) -> Any:
    """A tensor of one element without dimensions; others as they are."""
    return x.squeeze() if isinstance(x, TensorBase) and x.dim() != 0 else x  # type: ignore[attr-defined]


def _view_as_real(params: list, *states: list) -> None:
    """Replace the complex tensors in lists by views as pairs of real numbers."""
    import flambeau

    for i, p in enumerate(params):
        if p.is_complex():
            for tensors in (params, *states):
                tensors[i] = flambeau.view_as_real(tensors[i])
