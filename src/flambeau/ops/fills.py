"""Tensors of a given shape: `empty`, `zeros`, `ones`, `full`, their `_like` and `new_` forms, `eye`."""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.basics import set_requires_grad
from flambeau.core.dtype import META, STRIDED, as_device
from flambeau.core.objects import TensorBase, array_of, dtype_of, shape_of
from flambeau.core.origin import warn_user
from flambeau.kernels import strides
from flambeau.kernels.casting import cast
from flambeau.kernels.promotion import check_fits, number_dtype
from flambeau.kernels.services import default_array_type

from ._args import integer
from ._factory import array_dtype, check_options, filled, finish, format_name, into, size_of, to_device
from ._from_data import from_data
from ._meta import Meta, meta_tensor
from ._record import call, public


def _size_samples(t: Any) -> list:
    return [call(2, 3), call((4,)), call(0, 2), call(())]


def _sizes(size: Any, name: str, size_keyword: Any) -> tuple[int, ...]:
    if size_keyword is not None:
        if size:
            raise TypeError(f"{name}(): argument 'size' is given twice")
        size = (size_keyword,)
    elif not size:
        raise TypeError(f'{name}() missing 1 required positional arguments: "size"')
    return size_of(size, name)


def _sparse_zeros(sizes: tuple[int, ...], layout: Any, dtype: Any, requires_grad: bool, like: Any = None) -> Any:
    """A sparse tensor without elements."""
    from ._sparse import tensor_of
    from .sparse_rules import empty, empty_like

    d = default_array_type() if dtype is None else dtype
    t = tensor_of(empty(sizes, layout, d) if like is None else empty_like(like, d))
    if requires_grad:
        set_requires_grad(t, True)
    return t


def _fill(name: str, sizes: tuple[int, ...], value: Any, out: Any, dtype: Any, layout: Any, device: Any,
          requires_grad: bool, pin_memory: Any) -> Any:
    if name in ("zeros", "empty") and layout is not None and layout is not STRIDED and out is None:
        return _sparse_zeros(sizes, layout, array_dtype(dtype, name), requires_grad)
    check_options(layout, pin_memory)
    d = array_dtype(dtype, name)
    if out is not None:
        o = array_of(out)
        return into(out, np.full(sizes, 0 if value is None else value, o.dtype), name, d)
    return filled(sizes, default_array_type() if d is None else d, value, device, requires_grad)


@public(method=False, out=False, differentiable=False, samples=_size_samples)
def empty(*args: Any, size: Any = None, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
          requires_grad: bool = False, pin_memory: bool = False, memory_format: Any = None) -> Any:
    """A tensor of uninitialised memory.

    Args:
        *args: the sizes, as numbers or as one sequence.
        dtype: default: the default float dtype.
        memory_format: torch.channels_last for four dimensions in that memory order.

    >>> flambeau.empty(2, 3).shape
    torch.Size([2, 3])
    """
    shape = _sizes(args, "empty", size)
    form = format_name(memory_format)
    if form in ("channels_last", "channels_last_3d"):
        check_options(layout, pin_memory)
        d = array_dtype(dtype, "empty") or default_array_type()
        a = strides.empty_like(np.empty(shape, d), form)
        return finish(a, requires_grad) if as_device(device) is not META else meta_tensor(
            shape, d, strides.torch_strides(a))
    return _fill("empty", shape, None, out, dtype, layout, device, requires_grad, pin_memory)


@public(method=False, out=False, differentiable=False, samples=_size_samples)
def zeros(*args: Any, size: Any = None, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
          requires_grad: bool = False, pin_memory: bool = False) -> Any:
    """A tensor of zeros; sizes are numbers or one sequence.

    >>> flambeau.zeros(2)
    tensor([0., 0.])
    """
    return _fill("zeros", _sizes(args, "zeros", size), 0, out, dtype, layout, device, requires_grad, pin_memory)


@public(method=False, out=False, differentiable=False, samples=_size_samples)
def ones(*args: Any, size: Any = None, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
         requires_grad: bool = False, pin_memory: bool = False) -> Any:
    """A tensor of ones; sizes are numbers or one sequence.

    >>> flambeau.ones(2, dtype=flambeau.int64)
    tensor([1, 1])
    """
    return _fill("ones", _sizes(args, "ones", size), 1, out, dtype, layout, device, requires_grad, pin_memory)


def _number(value: Any, name: str) -> Any:
    if type(value) is float or type(value) is int:
        return value
    if isinstance(value, TensorBase):
        if value.numel() != 1 or shape_of(value):
            raise TypeError(f"{name}(): argument 'fill_value' must be Number, not Tensor of shape {list(shape_of(value))}")
        return array_of(value)[()].item()
    if number_dtype(value) is None:
        raise TypeError(f"{name}(): argument 'fill_value' must be Number, not {type(value).__name__}")
    return value


@public(method=False, out=False, differentiable=False,
        samples=lambda t: [call((2, 3), 1.5), call((2,), 3), call((), True)])
def full(size: Any, fill_value: Any, *, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
         requires_grad: bool = False, pin_memory: bool = False) -> Any:
    """A tensor of one value.

    Args:
        size: a sequence of sizes.
        fill_value: a number or a 0-d tensor.
        dtype: default: that of the number (bool, int64, the default float or complex dtype).

    >>> flambeau.full((2,), 7)
    tensor([7, 7])
    """
    if isinstance(size, (int, np.integer)):
        raise TypeError("full(): argument 'size' (position 1) must be tuple of ints, not int: write full((n,), value)")
    shape = size_of((size,), "full")
    value = _number(fill_value, "full")
    if dtype is None and out is None:
        own = number_dtype(value, default_array_type())
        check_options(layout, pin_memory)
        return filled(shape, own, value, device, requires_grad)
    d = array_dtype(dtype, "full")
    if d is not None:
        value = _fitting(value, d)
    return _fill("full", shape, value, out, dtype, layout, device, requires_grad, pin_memory)


def _fitting(value: Any, d: np.dtype) -> Any:
    """value as an element of d; RuntimeError when it does not fit."""
    check_fits(value, d)
    return cast(np.asarray(value), d)[()] if d.kind in "iu" else value


@public(method=False, out=False, differentiable=False, samples=lambda t: [call((2, 3), (1, 2))])
def empty_strided(size: Any, stride: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
                  requires_grad: bool = False, pin_memory: bool = False) -> Any:
    """A tensor of uninitialised memory with these strides, in elements.

    >>> flambeau.empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """
    check_options(layout, pin_memory)
    shape, steps = size_of((size,), "empty_strided"), tuple(integer(s, "empty_strided", "stride") for s in stride)
    if len(shape) != len(steps):
        raise RuntimeError(f"empty_strided: dimensionality of sizes ({len(shape)}) must match dimensionality of strides "
                           f"({len(steps)})")
    d = array_dtype(dtype, "empty_strided") or default_array_type()
    if as_device(device) is META:
        return meta_tensor(shape, d, steps)
    return finish(strides.empty_strided(shape, steps, d), requires_grad)


@public(method=False, out=False, differentiable=False, samples=lambda t: [call((2, 3), (1, 0))])
def empty_permuted(size: Any, physical_layout: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
                   requires_grad: bool = False, pin_memory: bool = False) -> Any:
    """A tensor of uninitialised memory whose dimensions lie in memory in the given order, outermost first.

    >>> flambeau.empty_permuted((2, 3), (1, 0)).stride()
    (1, 2)
    """
    shape = size_of((size,), "empty_permuted")
    order = [integer(i, "empty_permuted", "physical_layout") for i in physical_layout]
    if sorted(order) != list(range(len(shape))):
        raise RuntimeError(f"empty_permuted: physical_layout {order} must name each of the {len(shape)} dimensions once")
    steps, step = [0] * len(shape), 1
    for axis in reversed(order):
        steps[axis] = step
        step *= max(1, shape[axis])
    return empty_strided(shape, steps, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad,
                         pin_memory=pin_memory)


# -------------------------------------------------------------------------------------------------- like, new


def _like(name: str, source: Any, value: Any, dtype: Any, layout: Any, device: Any, requires_grad: bool,
          memory_format: Any, pin_memory: Any) -> Any:
    if not isinstance(source, TensorBase):
        raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(source).__name__}")
    d = array_dtype(dtype, name) or dtype_of(source)
    wanted = source.layout if layout is None else layout
    if wanted is not STRIDED:
        if name not in ("zeros_like", "empty_like"):
            raise NotImplementedError(f"{name}() is not implemented for sparse tensors: it would fill all elements. Use "
                                      f"{name}(t.to_dense()), or layout=torch.strided.")
        like = source._lazy if source.layout is wanted else None
        return _sparse_zeros(tuple(shape_of(source)), wanted, d, requires_grad, like)
    check_options(layout, pin_memory)
    form = format_name(memory_format)
    if (source.device if device is None else as_device(device)) is META:
        a = source._array
        steps = strides.torch_strides(strides.empty_like(a, form)) if a is not None else (
            source._lazy.strides if isinstance(source._lazy, Meta) else None)
        t = meta_tensor(shape_of(source), d, steps)
        if requires_grad:
            set_requires_grad(t, True)
        return t
    shape = shape_of(source)
    if source._array is None:
        return filled(tuple(shape), d, value, "cpu", requires_grad)
    a = source._array
    if a.flags.c_contiguous and form in ("preserve", "contiguous"):
        return filled(a.shape, d, value, "cpu", requires_grad)
    new = strides.empty_like(a, form, d)
    if value is not None:
        new[...] = value
    return finish(new, requires_grad)


def _like_samples(t: Any) -> list:
    return [call(t(2, 3)), call(t(3, 2, transposed=True)), call(t())]


@public(method=False, out=False, differentiable=False, samples=_like_samples)
def empty_like(input: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
               pin_memory: bool = False, memory_format: Any = None) -> Any:
    """A tensor of uninitialised memory with the shape, dtype, device and memory order of another.

    >>> flambeau.empty_like(flambeau.ones(2, 3)).shape
    torch.Size([2, 3])
    """
    return _like("empty_like", input, None, dtype, layout, device, requires_grad, memory_format, pin_memory)


@public(method=False, out=False, differentiable=False, samples=_like_samples)
def zeros_like(input: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
               pin_memory: bool = False, memory_format: Any = None) -> Any:
    """Zeros with the shape, dtype, device and memory order of another tensor.

    >>> flambeau.zeros_like(flambeau.ones(2))
    tensor([0., 0.])
    """
    return _like("zeros_like", input, 0, dtype, layout, device, requires_grad, memory_format, pin_memory)


@public(method=False, out=False, differentiable=False, samples=_like_samples)
def ones_like(input: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
              pin_memory: bool = False, memory_format: Any = None) -> Any:
    """Ones with the shape, dtype, device and memory order of another tensor.

    >>> flambeau.ones_like(flambeau.zeros(2))
    tensor([1., 1.])
    """
    return _like("ones_like", input, 1, dtype, layout, device, requires_grad, memory_format, pin_memory)


@public(method=False, out=False, differentiable=False, samples=lambda t: [call(t(2, 3), 1.5), call(t(2), 3)])
def full_like(input: Any, fill_value: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
              requires_grad: bool = False, pin_memory: bool = False, memory_format: Any = None) -> Any:
    """One value with the shape, dtype, device and memory order of another tensor.

    >>> flambeau.full_like(flambeau.zeros(2), 3)
    tensor([3., 3.])
    """
    value = _number(fill_value, "full_like")
    if isinstance(input, TensorBase):
        value = _fitting(value, array_dtype(dtype, "full_like") or dtype_of(input))
    return _like("full_like", input, value, dtype, layout, device, requires_grad, memory_format, pin_memory)


def _new(self: Any, name: str, sizes: tuple[int, ...], value: Any, dtype: Any, device: Any, requires_grad: bool,
         layout: Any, pin_memory: Any) -> Any:
    check_options(layout, pin_memory)
    return filled(sizes, array_dtype(dtype, name) or dtype_of(self), value, self.device if device is None else device,
                  requires_grad)


def _new_samples(t: Any) -> list:
    return [call(t(2), 3, 2), call(t(2, dtype="int64"), (2,))]


@public(namespaces=(), differentiable=False, samples=_new_samples)
def new_empty(self: Any, *args: Any, size: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False,
              layout: Any = None, pin_memory: bool = False) -> Any:
    """A tensor of uninitialised memory with this one's dtype and device."""
    return _new(self, "new_empty", _sizes(args, "new_empty", size), None, dtype, device, requires_grad, layout, pin_memory)


@public(namespaces=(), differentiable=False, samples=_new_samples)
def new_zeros(self: Any, *args: Any, size: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False,
              layout: Any = None, pin_memory: bool = False) -> Any:
    """Zeros with this tensor's dtype and device."""
    return _new(self, "new_zeros", _sizes(args, "new_zeros", size), 0, dtype, device, requires_grad, layout, pin_memory)


@public(namespaces=(), differentiable=False, samples=_new_samples)
def new_ones(self: Any, *args: Any, size: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False,
             layout: Any = None, pin_memory: bool = False) -> Any:
    """Ones with this tensor's dtype and device."""
    return _new(self, "new_ones", _sizes(args, "new_ones", size), 1, dtype, device, requires_grad, layout, pin_memory)


@public(namespaces=(), differentiable=False, samples=lambda t: [call(t(2), (3, 2), 1.5)])
def new_full(self: Any, size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
             layout: Any = None, pin_memory: bool = False) -> Any:
    """One value with this tensor's dtype and device."""
    value = _fitting(_number(fill_value, "new_full"), array_dtype(dtype, "new_full") or dtype_of(self))
    return _new(self, "new_full", size_of((size,), "new_full"), value, dtype, device, requires_grad, layout, pin_memory)


@public(namespaces=(), differentiable=False, samples=lambda t: [call(t(2), (2, 3), (1, 2))])
def new_empty_strided(self: Any, size: Any, stride: Any, dtype: Any = None, layout: Any = None, device: Any = None,
                      requires_grad: bool = False, pin_memory: bool = False) -> Any:
    """A tensor of uninitialised memory with these strides and this one's dtype and device."""
    return empty_strided(size, stride, dtype=self.dtype if dtype is None else dtype, layout=layout,
                         device=self.device if device is None else device, requires_grad=requires_grad,
                         pin_memory=pin_memory)


@public(namespaces=(), differentiable=False, samples=lambda t: [call(t(2), [1.0, 2.0])])
def new_tensor(self: Any, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
               layout: Any = None, pin_memory: bool = False) -> Any:
    """A copy of the data with this tensor's dtype and device."""
    check_options(layout, pin_memory)
    if isinstance(data, TensorBase):
        warn_user("new_tensor() was given a tensor. To copy construct from a tensor, use x.detach().clone(), "
                  "followed by .requires_grad_(True) where the copy is to collect gradients: this says what "
                  "new_tensor(x) does, which copies the values and leaves the graph.")
        data = array_of(data)
    d = array_dtype(dtype, "new_tensor") or dtype_of(self)
    return to_device(finish(from_data(data, d), requires_grad), self.device if device is None else device)


@public(method=False, out=False, differentiable=False, samples=lambda t: [call(3), call(2, 3)])
def eye(n: int, m: int | None = None, *, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
        requires_grad: bool = False, pin_memory: bool = False) -> Any:
    """Ones on the diagonal of an n x m matrix (n x n by default), zeros elsewhere.

    Raises:
        RuntimeError: a negative size.

    >>> flambeau.eye(2)
    tensor([[1., 0.],
            [0., 1.]])
    """
    check_options(layout, pin_memory)
    columns = n if m is None else m
    for name, value in (("n", n), ("m", columns)):
        if not hasattr(value, "__index__"):
            raise TypeError(f"eye(): argument '{name}' must be int, not {type(value).__name__}")
    for name, value in (("n", n), ("m", columns)):
        if value < 0:
            raise RuntimeError(f"{name} must be greater or equal to 0, got {value}")
    d = array_dtype(dtype, "eye")
    if out is not None:
        return into(out, np.eye(n, columns, dtype=array_of(out).dtype), "eye", d)
    d = d or default_array_type()
    if as_device(device) is META:
        return filled((int(n), int(columns)), d, None, device, requires_grad)
    return finish(np.eye(int(n), int(columns), dtype=d), requires_grad)
