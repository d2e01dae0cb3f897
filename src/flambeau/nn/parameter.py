"""Parameters and buffers."""

from __future__ import annotations

import copy
from typing import Any

from flambeau.core.objects import TensorBase, array_of, make_as
from flambeau.tensor import Tensor
from flambeau.tensor._python import attributes
from flambeau.tensor._torch_function import _disabled_torch_function_impl


class _ParameterMeta(type(Tensor)):  # type: ignore[misc]
    """A tensor of a subclass that was made a parameter is one."""

    def __instancecheck__(cls, value: Any) -> bool:
        return type.__instancecheck__(cls, value) or (
            cls is Parameter and isinstance(value, Tensor) and getattr(value, "_is_param", False))


class Parameter(Tensor, metaclass=_ParameterMeta):
    """A tensor that a Module registers as a parameter when it is assigned as an attribute.

    Args:
        data: tensor of any shape; None makes an empty one.
        requires_grad: whether it is trained.

    >>> p = flambeau.nn.Parameter(flambeau.zeros(2))
    >>> p.requires_grad, p.is_leaf
    (True, True)
    """

    __torch_function__ = _disabled_torch_function_impl
    _is_param = True            # printed as "Parameter containing:"

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Any:
        if data is None:
            import numpy as np

            data = make_as(Tensor, np.empty(0, np.float32))
        if not isinstance(data, TensorBase):
            raise TypeError(f"Parameter data must be a Tensor, not {type(data).__name__}")
        if type(data) is not Tensor and type(data) is not Parameter and not isinstance(data, Parameter):
            p = data.detach().requires_grad_(requires_grad)     # a subclass stays what it is
            p._is_param = True
            return p
        p = make_as(cls, None) if data._array is None else make_as(cls, array_of(data))
        if data._array is None:
            p._lazy, p._shape, p._dtype = data._lazy, data._shape, data._dtype
        p._inference = data._inference
        p._cell = data.detach()._cell
        p.requires_grad = requires_grad
        return p

    def __init__(self, data: Any = None, requires_grad: bool = True) -> None:
        pass

    def __deepcopy__(self, memo: dict) -> Any:
        if id(self) in memo:
            return memo[id(self)]
        result = type(self)(self.data.clone(), self.requires_grad)
        memo[id(self)] = result
        for key, value in attributes(self).items():
            setattr(result, key, copy.deepcopy(value, memo))
        return result

    def __reduce_ex__(self, protocol: int) -> Any:
        return (_rebuild_parameter, (self.data, self.requires_grad, attributes(self)))


def _rebuild_parameter(data: Any, requires_grad: bool, own: dict) -> Parameter:
    p = Parameter(data, requires_grad)
    p.__dict__.update(own)
    return p


class _BufferMeta(type(Tensor)):  # type: ignore[misc]
    """A tensor that was made a buffer is one: its class stays Tensor."""

    def __instancecheck__(cls, value: Any) -> bool:
        made_one = isinstance(value, Tensor) and getattr(value, "_is_buffer", False)
        return made_one or type.__instancecheck__(cls, value)


class Buffer(Tensor, metaclass=_BufferMeta):
    """A tensor that a Module registers as a buffer when it is assigned as an attribute.

    Args:
        data: tensor of any shape.
        persistent: whether it is part of the module's state_dict.
    """

    __torch_function__ = _disabled_torch_function_impl

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Any:
        if data is None:
            import numpy as np

            data = make_as(Tensor, np.empty(0, np.float32))
        t = data.detach().requires_grad_(data.requires_grad)
        t.persistent = persistent
        t._is_buffer = True
        return t


def is_parameter(value: Any) -> bool:
    """A Parameter, or a tensor of a subclass that was made one."""
    return isinstance(value, Tensor) and (type(value) is Parameter or isinstance(value, Parameter))
