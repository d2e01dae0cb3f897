"""`to` and its short forms: dtype, device and memory order of a tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.apply import apply1
from flambeau.core.dtype import CPU, META, STRIDED, Device, DType, MemoryFormat, as_device, by_name, cuda_error
from flambeau.core.inplace import apply_inplace2
from flambeau.core.objects import TensorBase, array_of, dtype_of
from flambeau.core.op import slot
from flambeau.core.state import state
from flambeau.kernels import strides
from flambeau.kernels.casting import cast

from ._factory import _PYTHON_TYPES, format_name
from ._lazy import moved_to_meta
from ._meta import Meta, meta_of
from ._record import KERNEL, call, primitive, public
from ._shapes import formatted


def _to_copy(a: np.ndarray, dtype: np.dtype, memory_format: str) -> np.ndarray:
    """A copy of a in another dtype; "preserve" keeps the order of its axes."""
    if dtype is a.dtype or dtype == a.dtype:
        return strides.clone(a, memory_format)
    if memory_format == "preserve" or memory_format == "contiguous" and a.flags.c_contiguous:
        if a.flags.c_contiguous or strides.is_dense(a):
            return cast(a, dtype)
        return cast(strides.clone(a, "preserve"), dtype)
    out = strides.empty_like(a, memory_format, dtype)
    out[...] = cast(a, dtype)
    return out


TO_COPY = primitive("to_copy", _to_copy, params=("dtype", "memory_format"), check_float=True, node="ToCopyBackward0",
                    meta=lambda self, dtype, memory_format: Meta(self.shape, dtype, formatted(self, memory_format)),
                    expr="cast(self, dtype)", self=lambda xp, g: g)
_COPY = slot("copy")


def converted(t: TensorBase, dtype: np.dtype | None = None, device: Device | None = None, copy: bool = False,
              memory_format: str = "preserve") -> Any:
    """t in another dtype, device or memory order: t itself when nothing changes and no copy is asked for."""
    here = META if t._array is None and t._lazy.device.type == "meta" else CPU
    d = dtype_of(t)
    target = d if dtype is None else dtype
    if device is not None and device.type != here.type:
        return _moved(t, target, here, device)
    same_order = memory_format == "preserve" or (
        meta_of(t).is_contiguous(memory_format) if here is META else strides.is_contiguous(array_of(t), memory_format))
    if memory_format == "contiguous" and here is not META:      # any order but channels last passes for it
        last = {4: "channels_last", 5: "channels_last_3d"}.get(t.dim())
        same_order = same_order or last is None or not strides.is_contiguous(array_of(t), last)
    if not copy and target == d and same_order:
        return t
    return apply1(TO_COPY, t, (target, memory_format))


def _moved(t: TensorBase, dtype: np.dtype, here: Device, device: Device) -> Any:
    if here is META:
        raise NotImplementedError(
            "Cannot copy out of meta tensor; no data! Make real memory with torch.empty_like(t, device='cpu'), or for a "
            "module with torch.nn.Module.to_empty(device='cpu') in the place of to(), and fill it.")
    if device.type != "meta":
        raise cuda_error(str(device))
    return moved_to_meta(t, dtype)


def target_dtype(value: Any) -> np.dtype | None:
    """The arrays' dtype if value names a dtype."""
    if isinstance(value, DType):
        return value.array_type
    if isinstance(value, type) and value in _PYTHON_TYPES:
        return by_name[_PYTHON_TYPES[value]].array_type
    return None


def parse_to(args: tuple, kwargs: dict[str, Any]) -> tuple[np.dtype | None, Device | None, bool, bool, str]:
    """The arguments of `to` in all its signatures: dtype, device, non_blocking, copy, memory format."""
    named = dict(kwargs)
    dtype: Any = named.pop("dtype", None)
    device: Any = named.pop("device", None)
    other: Any = named.pop("other", None)
    memory_format = named.pop("memory_format", None)
    rest = list(args)
    if rest:
        first = rest.pop(0)
        if isinstance(first, TensorBase):
            other = first
        elif target_dtype(first) is not None:
            if dtype is not None:
                raise TypeError("to() received an invalid combination of arguments: dtype is given twice")
            dtype = first
        elif first is None or isinstance(first, (str, Device, int)):
            if device is not None:
                raise TypeError("to() received an invalid combination of arguments: device is given twice")
            device = first
            if rest and (rest[0] is None or target_dtype(rest[0]) is not None):
                dtype = rest.pop(0) if dtype is None else dtype
        else:
            raise TypeError(
                f"to() received an invalid combination of arguments: got {type(first).__name__}, but expected a dtype, "
                "a device "
                "or a Tensor")
    flags = {"non_blocking": False, "copy": False}
    for name, value in zip(("non_blocking", "copy"), rest, strict=False):
        flags[name] = value
    for name in ("non_blocking", "copy"):
        if name in named:
            flags[name] = named.pop(name)
    if named or len(rest) > 2:
        raise TypeError(f"to() got an unexpected keyword argument '{next(iter(named))}'" if named
                        else "to() received too many arguments")
    if other is not None:
        dtype, device = other.dtype, other.device
    if memory_format is not None and not isinstance(memory_format, MemoryFormat):
        raise TypeError(f"to(): argument 'memory_format' must be torch.memory_format, not {type(memory_format).__name__}")
    target = None if dtype is None else target_dtype(dtype)
    if dtype is not None and target is None:
        raise TypeError(f"to(): argument 'dtype' must be torch.dtype, not {type(dtype).__name__}")
    return (target, None if device is None else as_device(device), bool(flags["non_blocking"]), bool(flags["copy"]),
            format_name(memory_format))


@public(namespaces=(), samples=lambda t: [call(t(2, 3), "cpu"), call(t(3, 2, transposed=True), copy=True)])
def to(self: Any, *args: Any, **kwargs: Any) -> Any:
    """The tensor in another dtype, device or memory order; the tensor itself when nothing changes.

    Called as to(dtype), to(device, dtype) or to(other), with non_blocking=, copy= and memory_format=. Gradients flow
    through the conversion.

    Args:
        copy: always make a copy.

    Raises:
        RuntimeError: a device that does not exist here.
        NotImplementedError: a meta tensor to a real device.

    >>> flambeau.tensor([1.7]).to(flambeau.int64)
    tensor([1])
    """
    if len(args) == 1 and (not kwargs or len(kwargs) == 1 and "non_blocking" in kwargs):    # the usual calls
        first = args[0]
        if type(first) is DType:
            d = first.array_type
            return self if dtype_of(self) is d else apply1(TO_COPY, self, (d, "preserve"))
        if (first is CPU or first == "cpu") and self._array is not None:
            return self
    dtype, device, _, copy, form = parse_to(args, kwargs)
    return converted(self, dtype, device, copy, form)


def _short(method: str, name: str) -> None:
    d = by_name[name].array_type

    def convert(self: Any, memory_format: Any = None) -> Any:
        if memory_format is None:
            return self if dtype_of(self) is d else apply1(TO_COPY, self, (d, "preserve"))
        return converted(self, d, None, False, format_name(memory_format))

    convert.__name__ = convert.__qualname__ = method
    convert.__doc__ = f"""The tensor as {name}; the tensor itself when it is that already.

    >>> flambeau.tensor([1]).{method}().dtype
    torch.{name}
    """
    public(namespaces=(), name=method, differentiable=by_name[name].kind in "fc", samples=lambda t: [call(t(2, 3))])(convert)


for _method, _name in (
    ("float", "float32"), ("double", "float64"), ("half", "float16"), ("bfloat16", "bfloat16"), ("long", "int64"),
    ("int", "int32"), ("short", "int16"), ("char", "int8"), ("byte", "uint8"), ("bool", "bool"), ("cfloat", "complex64"),
    ("cdouble", "complex128"),
):
    _short(_method, _name)


@public(namespaces=(), samples=lambda t: [call(t(2, 3))])
def cpu(self: Any, memory_format: Any = None) -> Any:
    """The tensor on the CPU: itself, unless a memory format asks for a copy."""
    return converted(self, None, CPU, False, format_name(memory_format))


@public(namespaces=(), differentiable=False, samples=lambda t: [call(t(2))])
def cuda(self: Any, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Any:
    """Raises: there is no CUDA device."""
    raise cuda_error("cuda" if device is None else str(device) if not isinstance(device, int) else f"cuda:{device}")


TYPE_NAMES = {"bool": "Bool", "uint8": "Byte", "int8": "Char", "int16": "Short", "int32": "Int", "int64": "Long",
              "float16": "Half", "bfloat16": "BFloat16", "float32": "Float", "float64": "Double",
              "complex64": "ComplexFloat", "complex128": "ComplexDouble", "uint16": "UInt16", "uint32": "UInt32",
              "uint64": "UInt64"}
_BY_TYPE_NAME = {f"torch.{v}Tensor": k for k, v in TYPE_NAMES.items()}


@public(name="type", namespaces=(), samples=lambda t: [call(t(2, 3))])
def type_(self: Any, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
    """Without an argument the old name of the tensor's type ("torch.FloatTensor"), else the tensor in that dtype.

    Args:
        dtype: a dtype, such a name, or a class such as torch.LongTensor.
    """
    if dtype is None:
        layout = "" if self.layout is STRIDED else self.layout.name.replace("_coo", "") + "."
        return f"torch.{layout}{TYPE_NAMES[self.dtype.name]}Tensor"
    d = target_dtype(dtype)
    if d is None:
        if isinstance(dtype, str):
            name = _BY_TYPE_NAME.get("torch.FloatTensor" if dtype == "torch.Tensor" else dtype)
            if name is None:
                raise ValueError(f"invalid type: '{dtype}'. Give a dtype, such as torch.float32.")
            d = by_name[name].array_type
        else:
            legacy = getattr(dtype, "dtype", None)
            if not isinstance(legacy, DType):
                raise TypeError(f"type(): argument 'dtype' must be a torch.dtype, a type or its name, not {dtype!r}")
            d = legacy.array_type
    return converted(self, d)


@public(namespaces=(), samples=lambda t: [call(t(2, 3), t(2))])
def type_as(self: Any, other: Any) -> Any:
    """The tensor in the dtype (and on the device) of another."""
    return converted(self, dtype_of(other), other.device)


@public(name="copy_", namespaces=(), differentiable=False,
        samples=lambda t: [call(t(2, 3), t(3)), call(t(2, 3, dtype="int64"), t(2, 3)), call(t(2, 3), t(2, 3, dtype="bool"))])
def copy_(self: Any, src: Any, non_blocking: bool = False) -> Any:
    """Write the values of src, converted and broadcast, into this tensor; gradients flow to src.

    >>> flambeau.zeros(2).copy_(flambeau.tensor([1, 2]))
    tensor([1., 2.])
    """
    if not isinstance(src, TensorBase):
        raise TypeError(f"copy_(): argument 'other' (position 1) must be Tensor, not {type(src).__name__}")
    return apply_inplace2(_COPY, self, src)


_ = KERNEL, state
