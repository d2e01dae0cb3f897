"""`Variable`, the old name of a tensor in a graph: programs of before 2018 still write it."""

from __future__ import annotations

from typing import Any

from flambeau.core.objects import TensorBase

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


class Variable(metaclass=_VariableMeta):
    """Variable(data, requires_grad=False): a tensor with the same memory. Use tensors themselves instead."""


