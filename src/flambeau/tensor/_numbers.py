"""Facts of dtypes: finfo, iinfo, promotion; and the defaults for new tensors."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from flambeau.core import dtype as dtypes
from flambeau.core.dtype import Device, DType, as_device, by_name, device_stack, dtype_of_array
from flambeau.core.objects import TensorBase, array_of
from flambeau.kernels import promotion, services
from flambeau.ops._meta import Meta


class finfo:
    """Limits of a floating dtype (for a complex one, of its parts).

    Attributes:
        bits: size of a number.
        eps: distance from 1.0 to the next larger number.
        max, min: largest and most negative finite number.
        tiny, smallest_normal: smallest positive number of full precision.
        resolution: 10 ** -(decimal digits).

    >>> flambeau.finfo(flambeau.float16).max
    65504.0
    """

    def __init__(self, type: DType | None = None) -> None:
        d = dtypes.default[0] if type is None else type
        if not isinstance(d, DType):
            raise TypeError(f"finfo(): argument 'type' (position 1) must be torch.dtype, not {d.__class__.__name__}")
        if d.kind not in "fc":
            raise TypeError(f"torch.finfo() requires a floating point input type, not {d}. Use torch.iinfo to handle "
                            "integers.")
        real = d.to_real()
        kind = getattr(ml_dtypes, real.name, None) if real.itemsize == 1 else real.array_type
        if kind is None:
            raise TypeError(f"torch.finfo() does not know the limits of {d}.")
        info: Any = ml_dtypes.finfo(kind)
        self.bits = real.itemsize * 8
        self.eps, self.max, self.min = float(info.eps), float(info.max), float(info.min)
        self.tiny = self.smallest_normal = float(info.smallest_normal)
        self.resolution = {"float16": 1e-3, "bfloat16": 1e-2, "float32": 1e-6, "float64": 1e-15}.get(real.name, 1.0)
        if real.name == "float8_e5m2fnuz":
            self.eps = 0.125        # as PyTorch has it; 0.25 is the distance
        self.dtype = real.name

    def __repr__(self) -> str:
        return (f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
                f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, finfo) and other.dtype == self.dtype

    def __hash__(self) -> int:
        return hash(self.dtype)


class iinfo:
    """Limits of an integer dtype: bits, min, max.

    >>> flambeau.iinfo(flambeau.uint8).max
    255
    """

    def __init__(self, type: DType) -> None:
        if not isinstance(type, DType):
            raise TypeError(f"iinfo(): argument 'type' (position 1) must be torch.dtype, not {type.__class__.__name__}")
        if type.kind not in "iu":
            raise TypeError(f"torch.iinfo() requires an integer input type, not {type}. Use torch.finfo for floating "
                            "ones.")
        info = np.iinfo(type.array_type)
        self.bits, self.min, self.max, self.dtype = info.bits, int(info.min), int(info.max), type.name

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, iinfo) and other.dtype == self.dtype

    def __hash__(self) -> int:
        return hash(self.dtype)


for _info in (finfo, iinfo):
    _info.__module__ = "torch"


def _operand(x: Any) -> Any:
    if not isinstance(x, TensorBase):
        return x
    if x._array is None and isinstance(x._lazy, Meta):
        return x._lazy.stand_in()
    return array_of(x)


def result_type(tensor1: Any, tensor2: Any) -> DType:
    """The dtype that an operator on two tensors or numbers computes in.

    >>> flambeau.result_type(flambeau.tensor([1]), 1.5)
    torch.float32
    """
    d = promotion.result_type(_operand(tensor1), _operand(tensor2), default_float_dtype=services.default_array_type())
    return dtype_of_array(d)


def promote_types(type1: DType, type2: DType) -> DType:
    """The smallest dtype that both convert to without changing their kind downwards.

    >>> flambeau.promote_types(flambeau.int64, flambeau.float16)
    torch.float16
    """
    for position, d in enumerate((type1, type2), 1):
        if not isinstance(d, DType):
            raise TypeError(f"promote_types(): argument 'type{position}' (position {position}) must be torch.dtype, not "
                            f"{type(d).__name__}")
    return dtype_of_array(promotion.promote_types(type1.array_type, type2.array_type))


def can_cast(from_: DType, to: DType) -> bool:
    """Whether a result of one dtype may be written into a tensor of another: not from a higher kind to a lower.

    >>> flambeau.can_cast(flambeau.float32, flambeau.int64)
    False
    """
    return promotion.can_cast(from_.array_type, to.array_type)


def get_default_dtype() -> DType:
    """The dtype of Python floats and of results computed from integers."""
    return dtypes.default[0]


def set_default_dtype(d: DType) -> None:
    """Set the default floating dtype.

    Raises:
        TypeError: not a floating dtype.
    """
    if not isinstance(d, DType):
        raise TypeError(f"invalid dtype object: only floating-point types are supported as the default type, not {d!r}")
    if d.kind != "f":
        raise TypeError(f"only floating-point types are supported as the default type, not {d}")
    services.set_default_dtype(d)


def set_default_tensor_type(t: Any) -> None:
    """Set the default dtype by an old type such as torch.DoubleTensor. Use set_default_dtype."""
    if isinstance(t, str):
        from ._legacy import TYPE_NAMES

        names = {f"torch.{v}Tensor": k for k, v in TYPE_NAMES.items()}
        if t not in names:
            raise TypeError(f"invalid type object: {t!r}. Use torch.set_default_dtype(torch.float64) and the like.")
        set_default_dtype(by_name[names[t]])
        return
    set_default_dtype(t.dtype)


_default_device: list[Device] = []


def set_default_device(device: Any) -> None:
    """The device of new tensors when none is given; None goes back to the CPU."""
    if _default_device:
        device_stack.remove(_default_device.pop())
    if device is not None:
        d = as_device(device)
        own = Device(d.type, d.index) if d.type != "meta" else d
        _default_device.append(own)
        device_stack.insert(0, own)


def get_default_device() -> Device:
    """The device of new tensors when none is given."""
    return as_device(None)
