"""Data types, devices, layouts and memory formats: the small constants of the API."""
from __future__ import annotations

from typing import Any, Final

from mypy_extensions import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class DType:
    """An element type. Each exists once: compare with `is` or `==`."""

    def __init__(self, name: str, array_type: Any, itemsize: int, kind: str) -> None:
        self.name: str = name
        self.array_type: Any = array_type       # what the kernels use
        self.itemsize: int = itemsize
        self.kind: str = kind                   # b bool, u unsigned, i signed, f floating, c complex

    @property
    def is_floating_point(self) -> bool:
        return self.kind == "f"

    @property
    def is_complex(self) -> bool:
        return self.kind == "c"

    @property
    def is_signed(self) -> bool:
        return self.kind in ("i", "f", "c")

    def to_real(self) -> DType:
        """The dtype of the real part."""
        return by_name.get({"complex64": "float32", "complex128": "float64"}.get(self.name, self.name), self)

    def to_complex(self) -> DType:
        """The complex dtype whose parts have this one's precision."""
        names = {"float16": "complex64", "bfloat16": "complex64", "float32": "complex64", "float64": "complex128"}
        return by_name.get(names.get(self.name, self.name), self)

    def __repr__(self) -> str:
        return "torch." + self.name

    def __str__(self) -> str:
        return "torch." + self.name

    def __reduce__(self) -> Any:
        return (find_dtype, (self.name,))

    def __copy__(self) -> DType:
        return self

    def __deepcopy__(self, memo: Any) -> DType:
        return self


by_name: Final[dict[str, DType]] = {}
by_array_type: Final[dict[Any, DType]] = {}
default: Final[list[DType]] = []                # [default float dtype]


def find_dtype(name: str) -> DType:
    return by_name[name]


def add_dtype(d: DType) -> DType:
    by_name[d.name] = d
    by_array_type[d.array_type] = d
    return d


def dtype_of_array(array_type: Any) -> DType:
    d = by_array_type.get(array_type)
    if d is None:
        raise TypeError(
            "arrays of dtype {} have no tensor counterpart. The supported dtypes are: {}.".format(
                array_type, ", ".join(by_name)))
    return d


class Device:
    """Where a tensor lives: "cpu", or "meta" (shape and dtype only)."""

    def __init__(self, type: Any = "cpu", index: int | None = None) -> None:
        if isinstance(type, Device):
            self.type: str = type.type
            self.index: int | None = type.index if index is None else index
            return
        if isinstance(type, int):
            raise cuda_error("cuda:" + str(type))
        text = str(type)
        kind, _, number = text.partition(":")
        if kind not in ("cpu", "meta", "cuda", "mps", "xpu", "hpu", "mkldnn", "xla", "privateuseone"):
            raise RuntimeError(
                f"Expected one of cpu, cuda, meta device type at start of device string: {text}")
        if number:
            if not number.isdigit():
                raise RuntimeError(f"Invalid device string: '{text}'")
            if index is not None:
                raise RuntimeError("the index is given twice, in the string and by itself: " + text)
            index = int(number)
        self.type = kind
        self.index = index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and other.type == self.type and other.index == self.index

    def __ne__(self, other: object) -> bool:
        return not (isinstance(other, Device) and other.type == self.type and other.index == self.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __repr__(self) -> str:
        if self.index is None:
            return f"device(type='{self.type}')"
        return "device(type='%s', index=%d)" % (self.type, self.index)

    def __str__(self) -> str:
        return self.type if self.index is None else "%s:%d" % (self.type, self.index)

    def __reduce__(self) -> Any:
        return (Device, (str(self),))

    def __enter__(self) -> Device:
        device_stack.append(self)
        return self

    def __exit__(self, *error: Any) -> None:
        device_stack.pop()


device_stack: Final[list[Device]] = []          # `with torch.device("meta"):`
CPU: Final = Device("cpu")
META: Final = Device("meta")


@mypyc_attr(native_class=False)
class DeviceError(AssertionError, RuntimeError):
    """A device that is not there was asked for.

    PyTorch's CPU build raises AssertionError for CUDA, RuntimeError for others.
    """


def cuda_error(name: str) -> Exception:
    text = f"device '{name}' is not available: flambeau computes on the CPU (and on 'meta', shapes only). "
    if not name.startswith("cuda"):
        return DeviceError(text + "Use device='cpu'.")
    return DeviceError(
        text + "Torch not compiled with CUDA enabled. Use device='cpu', or choose it with "
        "`'cuda' if torch.cuda.is_available() else 'cpu'`.")


def as_device(value: Any) -> Device:
    """A usable device from None, a string or a Device; anything but cpu and meta raises."""
    if value is None:
        if not device_stack:
            return CPU
        value = device_stack[-1]
    d = value if isinstance(value, Device) else Device(value)
    if d.type == "cpu":
        return CPU if d.index is None else d
    if d.type == "meta":
        return META                         # of which there is one
    raise cuda_error(str(d))


class Layout:
    def __init__(self, name: str) -> None:
        self.name: str = name

    def __repr__(self) -> str:
        return "torch." + self.name

    def __reduce__(self) -> Any:
        return (find_layout, (self.name,))


class MemoryFormat:
    def __init__(self, name: str) -> None:
        self.name: str = name

    def __repr__(self) -> str:
        return "torch." + self.name

    def __reduce__(self) -> Any:
        return (find_format, (self.name,))


STRIDED: Final = Layout("strided")
SPARSE_COO: Final = Layout("sparse_coo")
SPARSE_CSR: Final = Layout("sparse_csr")
SPARSE_CSC: Final = Layout("sparse_csc")
SPARSE_BSR: Final = Layout("sparse_bsr")
SPARSE_BSC: Final = Layout("sparse_bsc")
CONTIGUOUS: Final = MemoryFormat("contiguous_format")
PRESERVE: Final = MemoryFormat("preserve_format")
CHANNELS_LAST: Final = MemoryFormat("channels_last")
CHANNELS_LAST_3D: Final = MemoryFormat("channels_last_3d")


def find_layout(name: str) -> Layout:
    for x in (STRIDED, SPARSE_COO, SPARSE_CSR, SPARSE_CSC, SPARSE_BSR, SPARSE_BSC):
        if x.name == name:
            return x
    raise ValueError("unknown layout " + name)


def find_format(name: str) -> MemoryFormat:
    for x in (CONTIGUOUS, PRESERVE, CHANNELS_LAST, CHANNELS_LAST_3D):
        if x.name == name:
            return x
    raise ValueError("unknown memory format " + name)
