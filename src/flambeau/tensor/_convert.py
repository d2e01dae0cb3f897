"""From tensors to Python and NumPy: numbers, lists, arrays, and what Python's protocols ask for."""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.objects import TensorBase, array_of, make, requires, shape_of
from flambeau.core.origin import warn_user
from flambeau.core.state import grad_enabled, state
from flambeau.kernels.casting import BFLOAT16, cast
from flambeau.kernels.promotion import number_dtype

from . import _printing


def values(t: Any, what: str) -> np.ndarray:
    """The array of a tensor whose values are asked for."""
    a = t._array
    if a is None:
        if type(t._lazy) is state.sparse:
            return _of_sparse(t, what)
        if t._lazy.device.type == "meta":
            raise RuntimeError(f"{what} cannot be called on meta tensors: they have a shape and a dtype, but no values")
        a = array_of(t)
    return a


def _of_sparse(t: Any, what: str) -> np.ndarray:
    """A sparse tensor of one element, dense."""
    if t.numel() != 1:
        raise RuntimeError(f"{what}: a Tensor with {t.numel()} elements cannot be converted to Scalar, and it is sparse "
                           f"({t.layout!r}): call .to_dense() for its elements.")
    found: np.ndarray = t._lazy.dense()
    return found


def number(a: np.ndarray) -> Any:
    """The Python number of a one-element array."""
    x = a.item()
    return float(x) if a.dtype == BFLOAT16 else x


def _only(t: Any, what: str) -> Any:
    a = values(t, what)
    if a.size != 1:
        raise ValueError(
            f"only one element tensors can be converted to Python scalars: this one has shape {list(a.shape)}. Use "
            "tolist(), "
            "or reduce it first.")
    return number(a)


def _real(x: Any, dtype: str) -> Any:
    if isinstance(x, complex):
        if x.imag != 0:
            raise RuntimeError(f"value cannot be converted to type {dtype} without overflow: {x} has an imaginary "
                               "part. Take "
                               ".real or .abs() first.")
        return x.real
    return x


def _warn_of_grad(t: Any) -> None:
    """A number has no history; Python and NumPy ask for one in places where that is easily overlooked."""
    if requires(t):
        warn_user("Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior: the "
                  "number has "
                  "no history, so no gradient flows through it. Use tensor.detach() or tensor.item() to say that "
                  "this is "
                  "meant; to fill an array and keep the gradient, use torch.stack() or write into a tensor.")


class Conversions:
    """Methods of Tensor that leave the world of tensors."""

    __array_priority__ = 1000       # NumPy's operators leave `array * tensor` to the tensor

    def item(self: Any) -> Any:
        """The Python number of a tensor of one element.

        Raises:
            RuntimeError: more or fewer elements.
        """
        a = self._array
        if a is None:
            a = values(self, "Tensor.item()")
        if a.size != 1:
            raise RuntimeError(
                f"a Tensor with {a.size} elements cannot be converted to Scalar: item() is for tensors of one element, "
                "and this "
                f"one has shape {list(a.shape)}. Use tolist(), or reduce it first.")
        return number(a)

    def tolist(self: Any) -> Any:
        """Nested lists of Python numbers; a number for a 0-d tensor."""
        a = array_of(self)
        return a.astype(np.float32).tolist() if a.dtype == BFLOAT16 else a.tolist()

    def numpy(self: Any, *, force: bool = False) -> np.ndarray:
        """A NumPy array over the tensor's memory: writing one changes the other.

        Args:
            force: detach first when the tensor requires grad, instead of raising.

        Raises:
            RuntimeError: the tensor requires grad, and grad mode is on.
            TypeError: a meta tensor, or bfloat16, which NumPy lacks.
        """
        if not force and requires(self) and grad_enabled():
            raise RuntimeError(
                "Can't call numpy() on Tensor that requires grad: what NumPy computes is not recorded. Use "
                "tensor.detach().numpy() instead.")
        a = self._array
        if a is None:
            if self._lazy.device.type == "meta":
                raise TypeError("can't convert meta device type tensor to numpy: it has no values. Use "
                                "torch.empty_like(t, device='cpu') for real memory.")
            if type(self._lazy) is state.sparse:
                raise TypeError(f"can't convert {self.layout!r} layout tensor to numpy: it is sparse. Use Tensor.to_dense() "
                                "first, or .coalesce() and then indices() and values().")
            a = array_of(self)
        if a.dtype == BFLOAT16:
            raise TypeError("Got unsupported ScalarType BFloat16: NumPy has no bfloat16. Use tensor.float().numpy().")
        return a.view()

    def __array__(self: Any, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        a = self.numpy()
        if dtype is not None and dtype != a.dtype:
            if copy is False:
                raise ValueError(f"a tensor of {self.dtype} cannot become an array of {np.dtype(dtype)} without a copy")
            return a.astype(dtype)
        return a.copy() if copy else a

    def __array_wrap__(self: Any, array: np.ndarray, context: Any = None, return_scalar: bool = False) -> Any:
        if array.dtype == np.bool_:
            array = array.astype(np.uint8)      # as in PyTorch
        return make(np.asarray(array))

    # ------------------------------------------------------------------------------- numbers

    def __bool__(self: Any) -> bool:
        a = self._array
        if a is None:
            a = values(self, "Tensor.__bool__()")
        if a.size == 1:
            return bool(a.item())
        if a.size == 0:
            raise RuntimeError("Boolean value of Tensor with no values is ambiguous: ask t.numel() == 0, or any()/all()")
        raise RuntimeError(
            f"Boolean value of Tensor with more than one value is ambiguous: the tensor has shape {list(a.shape)}. Use "
            "any() or "
            "all(), or `&`, `|`, `~` instead of `and`, `or`, `not`.")

    def __int__(self: Any) -> int:
        return int(_real(_only(self, "Tensor.__int__()"), "int64"))

    def __float__(self: Any) -> float:
        _warn_of_grad(self)
        return float(_real(_only(self, "Tensor.__float__()"), "double"))

    def __complex__(self: Any) -> complex:
        _warn_of_grad(self)
        return complex(_only(self, "Tensor.__complex__()"))

    def __index__(self: Any) -> int:
        a = values(self, "Tensor.__index__()")
        if a.size != 1 or a.dtype.kind not in "biu":
            raise TypeError(
                f"only integer tensors of a single element can be converted to an index, not {self.dtype} of shape "
                f"{list(a.shape)}")
        return int(a.item())

    # ------------------------------------------------------------------------------- containers

    def __len__(self: Any) -> int:
        shape = shape_of(self)
        if not shape:
            raise TypeError("len() of a 0-d tensor: it has no first dimension")
        return shape[0]

    def __iter__(self: Any) -> Any:
        if not shape_of(self):
            raise TypeError("iteration over a 0-d tensor: use item() for its number")
        return iter(self.unbind(0))

    def __reversed__(self: Any) -> Any:
        return self if not shape_of(self) else self.flip(0)

    def __contains__(self: Any, element: Any) -> bool:
        if not isinstance(element, TensorBase) and number_dtype(element) is None:
            raise RuntimeError(
                f"`in` on a tensor takes a tensor or a number, not a {type(element)}.")
        return bool(values(self == element, "Tensor.__contains__()").any())

    # ------------------------------------------------------------------------------- text

    def __format__(self: Any, spec: str) -> str:
        a = self._array
        if a is None and self._lazy.device.type != "meta" and not (self.is_sparse or hasattr(self._lazy, "describe")):
            a = array_of(self)
        cls = type(self).__name__
        return _printing.format_text(a, spec, lambda: str(self), cls if a is None or a.ndim else "Tensor")

    # ------------------------------------------------------------------------------- element by element, in Python

    def apply_(self: Any, function: Any) -> Any:
        """Replace each element by function(element); slow, on the CPU, and not differentiated."""
        if requires(self):
            raise RuntimeError("apply_ is not supported on tensors that require grad: it calls Python on the numbers, "
                               "so nothing is "
                               "recorded. Compute with operators, or detach() first.")
        a = values(self, "Tensor.apply_()")
        _write(self, a, [function(x) for x in _numbers(a)])
        return self

    def map_(self: Any, tensor: Any, function: Any) -> Any:
        """Replace each element x by function(x, y), with y the element of `tensor`; slow, and not differentiated."""
        return self.map2_(tensor, None, function)

    def map2_(self: Any, x: Any, y: Any, function: Any) -> Any:
        """Replace each element by function(element, element of x, element of y)."""
        if any(t is not None and requires(t) for t in (self, x, y)):
            raise RuntimeError("map_ is not supported on tensors that require grad. Compute with operators, or "
                               "detach() first.")
        a = values(self, "Tensor.map_()")
        others = [_numbers(np.broadcast_to(values(t, "Tensor.map_()"), a.shape)) for t in (x, y) if t is not None]
        _write(self, a, [function(*each) for each in zip(_numbers(a), *others, strict=True)])
        return self


def _numbers(a: np.ndarray) -> list:
    flat = a.reshape(-1)
    return (flat.astype(np.float32) if a.dtype == BFLOAT16 else flat).tolist()


def _write(t: Any, a: np.ndarray, new: list) -> None:
    from flambeau.ops._from_data import numbers

    t.detach().copy_(make(cast(numbers(new, None), a.dtype).reshape(a.shape)))
