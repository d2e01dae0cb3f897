"""`Variable`, the old name of a tensor in a graph: programs of before 2018 still write it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.core.objects import TensorBase
from flambeau.core.tasks import current_call

__all__ = ["Variable"]


class _VariableMeta(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, TensorBase)

    def __call__(cls, data: Any = None, requires_grad: bool = False, volatile: Any = None) -> Any:
        if not isinstance(data, TensorBase):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        t = data.detach()
        if requires_grad:
            t.requires_grad_()
        return t


class _Engine:
    """What programs reach as `Variable._execution_engine`."""

    @staticmethod
    def queue_callback(fn: Callable) -> None:
        """Call fn() when the backward that runs now is done. Only inside a hook or a custom backward.

        Raises:
            RuntimeError: no backward is running in this thread.
        """
        call = current_call()
        if call is None:
            raise RuntimeError("Final callbacks can only be installed during backward pass: call queue_callback() in a hook")
        call.callbacks.append(fn)

    @staticmethod
    def is_checkpoint_valid() -> bool:
        """Whether the backward that runs now goes to all leaves."""
        call = current_call()
        return call is None or not call.pruned


class Variable(metaclass=_VariableMeta):
    """Variable(data, requires_grad=False): a tensor with the same memory. Use tensors themselves instead."""

    _execution_engine = _Engine()


