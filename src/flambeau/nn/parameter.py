"""Parameters and buffers."""

from __future__ import annotations

import copy
from typing import Any

from flambeau.core.dtype import as_device, default
from flambeau.core.objects import TensorBase, array_of, is_mapped, make_as, set_array
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
        if is_mapped(data):         # a batch of values, without a graph
            p._lazy = data.detach()._lazy
            return p
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


# ------------------------------------------------------------------------------- parameters without a shape

_WHAT_TO_DO = ("Call `forward` with a batch first: it gives lazy layers the sizes of their parameters. Or call "
               "materialize(shape).")


def _no_shape(*args: Any) -> Any:
    raise ValueError("Attempted to use an uninitialized parameter: it has no shape and no values yet. " + _WHAT_TO_DO)


class _NoShape(tuple):
    """The shape of a parameter that has none: every look at it raises."""

    __slots__ = ()
    __len__ = __iter__ = __getitem__ = __eq__ = __ne__ = __lt__ = __add__ = __contains__ = _no_shape  # type: ignore[assignment]
    __hash__ = tuple.__hash__


class _NoValues:
    """What stands in the place of the array."""

    def __init__(self, device: Any) -> None:
        self.device = device

    def materialise(self, t: Any) -> Any:
        """Raise: there are none."""
        _no_shape()

    shape = property(_no_shape)


class UninitializedTensorMixin:
    """What `UninitializedParameter` and `UninitializedBuffer` share: a dtype and device, but no shape."""

    cls_to_become: Any = None

    @classmethod
    def _make(cls, requires_grad: bool, device: Any, dtype: Any) -> Any:
        t: Any = make_as(cls, None)
        d = default[0] if dtype is None else dtype
        t._lazy, t._shape, t._dtype = _NoValues(as_device(device)), _NoShape(), d.array_type
        t.requires_grad = requires_grad
        return t

    def materialize(self: Any, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Give the tensor a shape, and memory with arbitrary values; it becomes an ordinary one.

        Args:
            shape: sizes. device, dtype: those it was made with, unless given.
        """
        import flambeau

        data = flambeau.empty(tuple(shape) if not isinstance(shape, int) else (shape,),
                              device=self.device if device is None else device,
                              dtype=self.dtype if dtype is None else dtype)
        if data._array is None:
            self._lazy, self._shape, self._dtype = data._lazy, data._shape, data._dtype
        else:
            set_array(self, array_of(data))
        self.__class__ = self.cls_to_become

    def _load_unshaped(self: Any, value: Any) -> None:
        """Take the shape of a checkpoint's value."""
        if not is_lazy(value):
            self.materialize(tuple(value.shape))

    @property
    def shape(self) -> Any:
        raise RuntimeError("This uninitialized parameter has no shape yet: the first forward call gives it one. Was it "
                           "loaded from the checkpoint of a lazy layer that never ran? " + _WHAT_TO_DO)

    def share_memory_(self) -> Any:
        """Raises: there is no memory to share."""
        raise RuntimeError("Can't share memory on an uninitialized parameter or buffer. " + _WHAT_TO_DO)

    def copy_(self, src: Any, non_blocking: bool = False) -> Any:
        """Copy nothing from another uninitialized one; refuse values."""
        return self if is_lazy(src) else _no_shape()

    def to(self: Any, *args: Any, **kwargs: Any) -> Any:
        """Another dtype or device."""
        from flambeau.nn.modules._convert import _parse_to

        device, dtype, _ = _parse_to(args, kwargs)
        device, dtype = (self.device if device is None else device), (self.dtype if dtype is None else dtype)
        return self if device == self.device and dtype is self.dtype else self._make(self.requires_grad, device, dtype)

    def cpu(self: Any) -> Any:
        """On the CPU."""
        return self.to("cpu")

    def type(self: Any, dtype: Any = None) -> Any:
        """Another dtype."""
        return super().type() if dtype is None else self.to(dtype)  # type: ignore[misc]

    def __deepcopy__(self: Any, memo: dict) -> Any:
        if id(self) not in memo:
            memo[id(self)] = self._make(self.requires_grad, self.device, self.dtype)
        return memo[id(self)]

    def __reduce_ex__(self: Any, protocol: int) -> Any:
        return (_rebuild_uninitialized, (type(self), self.requires_grad, str(self.device), self.dtype))

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


def _rebuild_uninitialized(cls: Any, requires_grad: bool, device: str, dtype: Any) -> Any:
    return cls._make(requires_grad, device, dtype)


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter whose shape is not known yet: lazy layers find it from their first input.

    Args:
        requires_grad: whether it is trained. device, dtype: of the parameter that it becomes.
    """

    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> Any:
        return cls._make(requires_grad, device, dtype)

    def __init__(self, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> None:
        pass


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer whose shape is not known yet."""

    cls_to_become = Tensor
    __torch_function__ = _disabled_torch_function_impl

    def __new__(cls, requires_grad: bool = False, device: Any = None, dtype: Any = None,
                persistent: bool = True) -> Any:
        t = cls._make(requires_grad, device, dtype)
        t.persistent, t._is_buffer = persistent, True
        return t

    def __init__(self, requires_grad: bool = False, device: Any = None, dtype: Any = None,
                 persistent: bool = True) -> None:
        pass


def is_lazy(param: Any) -> bool:
    """Whether a parameter or buffer has no shape yet."""
    return isinstance(param, UninitializedTensorMixin)
