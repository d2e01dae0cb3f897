"""How tensors stand in a file: a storage (its type, key and length), and where in it a tensor looks.

The functions with names that begin with `_rebuild` are named in files, and called when one is read, with whatever the
file says: each checks its arguments before it does anything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from flambeau.core.basics import set_requires_grad
from flambeau.core.dtype import (
    CPU,
    SPARSE_BSC,
    SPARSE_BSR,
    SPARSE_COO,
    SPARSE_CSC,
    SPARSE_CSR,
    STRIDED,
    Device,
    DType,
    Layout,
    as_device,
    by_name,
)
from flambeau.core.objects import array_of, make
from flambeau.kernels import strides as layout
from flambeau.nn.parameter import Parameter
from flambeau.ops._meta import meta_tensor
from flambeau.tensor import Tensor
from flambeau.tensor._python import _SLOTS, of_class
from flambeau.tensor._storage import TypedStorage, UntypedStorage

from ._errors import CheckpointError, short

_LARGEST = (1 << 63) - 1


class StorageType:
    """What a file says of a storage's elements: `torch.FloatStorage` is float32."""

    __slots__ = ("dtype", "name")

    def __init__(self, name: str, dtype: DType | None) -> None:
        self.name = name
        self.dtype = dtype

    def __repr__(self) -> str:
        return f"torch.{self.name}"


_SHORT = {"float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16", "int64": "Long",
          "int32": "Int", "int16": "Short", "int8": "Char", "uint8": "Byte", "bool": "Bool",
          "complex64": "ComplexFloat", "complex128": "ComplexDouble"}
STORAGE_TYPES = tuple(StorageType(short + "Storage", by_name[name]) for name, short in _SHORT.items())
TYPE_OF = {kind.dtype.name: kind for kind in STORAGE_TYPES if kind.dtype is not None}
UNTYPED = StorageType("UntypedStorage", None)


class LoadedStorage(UntypedStorage):
    """A storage of a file. Its bytes are read when they are first needed, straight into the array that asks "
      "for them.

    Args:
        nbytes: its length in the file.
        fill: given an empty array of so many bytes, reads them into it; or, where there is nothing to allocate, None.
        mapped: the bytes, when they are not read but mapped.
        device: cpu or meta.
    """

    def __init__(self, nbytes: int, fill: Callable[[np.ndarray], None] | None, mapped: np.ndarray | None = None,
                 device: Device = CPU) -> None:
        self._nbytes = nbytes
        self._fill = fill
        self._owner: Any = mapped
        self._device = device
        self.later: list[Callable[[], None]] | None = None      # what to do when bytes that come later are there

    def elements(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """An array of this shape at the storage's beginning, which it fills. The first one owns the "
          "memory."""
        if self._owner is None:
            owner = np.empty(shape, dtype)
            if self._fill is not None and owner.nbytes:
                self._fill(owner.reshape(-1).view(np.uint8))
            self._owner = owner
            return owner
        return layout.storage_array(self._owner).view(np.uint8).view(dtype).reshape(shape)

    def accept(self, data: np.ndarray, waiting: list[np.ndarray]) -> None:
        """Fill what has been handed out with bytes that came later; keep them for what will be."""
        for target in waiting:
            target[:] = data
        if self._owner is None:
            self._fill = lambda target: target.__setitem__(slice(None), data)
        for act in self.later or ():
            act()
        self.later = None

    def read(self) -> None:
        """Read the bytes now, if they have not been read."""
        if self._owner is None and self._device.type != "meta":
            self.elements((self._nbytes,), np.dtype(np.uint8))
            self._fill = None

    @property
    def _bytes(self) -> np.ndarray:         # type: ignore[override]
        if self._owner is None:
            self.elements((self._nbytes,), np.dtype(np.uint8))
        return layout.storage_array(self._owner).view(np.uint8)

    @_bytes.setter
    def _bytes(self, value: np.ndarray) -> None:
        self._owner = value

    def nbytes(self) -> int:
        return self._nbytes

    size = nbytes

    def __len__(self) -> int:
        return self._nbytes

    @property
    def device(self) -> Any:
        return self._device

    def cuda(self, *args: Any, **kwargs: Any) -> Any:
        """Raises: there is no CUDA device."""
        as_device("cuda")

    def to(self, device: Any = "cpu", **kwargs: Any) -> Any:
        """The storage itself, for the cpu; nothing else is there."""
        as_device(device)
        return self


def _integers(values: Any, what: str) -> tuple[int, ...]:
    if not isinstance(values, (tuple, list)) or not all(type(n) is int and 0 <= n <= _LARGEST for n in values):
        raise CheckpointError(f"a tensor of the file has {what} {short(values)}, which should be a tuple of "
                              "integers from 0")
    return tuple(values)


def _checked(offset: Any, size: Any, stride: Any) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    sizes, steps = _integers(size, "size"), _integers(stride, "stride")
    if len(sizes) != len(steps):
        raise CheckpointError(f"a tensor of the file has size {sizes} and stride {steps}: their lengths "
                              "differ")
    if len(sizes) > 64:
        raise CheckpointError(f"a tensor of the file has {len(sizes)} dimensions; 64 are the most there can "
                              "be")
    return _integers((offset,), "storage offset")[0], sizes, steps


def _tensor(storage: Any, offset: Any, size: Any, stride: Any, dtype: DType | None) -> Any:
    if isinstance(storage, TypedStorage):
        raw, dtype = storage.untyped(), dtype or storage.dtype
    elif isinstance(storage, UntypedStorage) and dtype is not None:
        raw = storage
    else:
        raise CheckpointError(f"a tensor of the file has a {type(storage).__name__} where its storage should "
                              "be")
    start, sizes, steps = _checked(offset, size, stride)
    array_type = dtype.array_type
    if raw.device.type == "meta":
        return meta_tensor(sizes, array_type, steps)
    itemsize = dtype.itemsize
    length = raw.nbytes() // itemsize
    needed = 0 if 0 in sizes else start + 1 + sum((n - 1) * step for n, step in zip(sizes, steps, strict=True))
    if needed > length:
        raise CheckpointError(
            f"a tensor of the file has size {sizes}, stride {steps} and storage offset {start}: it needs "
            f"{needed} elements of a storage that has {length}, so it would be out of bounds")
    whole = start == 0 and steps == layout.contiguous_strides(sizes) and needed == length
    try:
        if whole and isinstance(raw, LoadedStorage) and length * itemsize == raw.nbytes():
            return make(raw.elements(sizes, array_type))
        if isinstance(raw, LoadedStorage) and length * itemsize == raw.nbytes():
            flat = raw.elements((length,), array_type)
        else:
            flat = raw._bytes[:length * itemsize].view(array_type)
        if 0 in sizes:
            start = 0
        return make(np.ndarray(sizes, array_type, flat, start * itemsize, tuple(step * itemsize for step in steps)))
    except (ValueError, OverflowError) as error:        # NumPy's limits of sizes
        raise CheckpointError(f"a tensor of the file has size {sizes} and stride {steps}: {error}") from None


def _with_grad(t: Any, requires_grad: Any) -> Any:
    if requires_grad:
        if not (t.is_floating_point() or t.is_complex()):
            raise CheckpointError(f"a tensor of the file requires grad, but is of {t.dtype}")
        set_requires_grad(t, True)
    return t


def _rebuild_tensor(storage: Any, storage_offset: Any, size: Any, stride: Any) -> Any:
    """A tensor of the oldest files."""
    return _tensor(storage, storage_offset, size, stride, None)


def _rebuild_tensor_v2(storage: Any, storage_offset: Any, size: Any, stride: Any, requires_grad: Any, backward_hooks: Any,
                       metadata: Any = None) -> Any:
    """A tensor. Hooks are never saved; metadata names what PyTorch would do when the tensor is read."""
    t = _with_grad(_tensor(storage, storage_offset, size, stride, None), requires_grad)
    if metadata:
        if not isinstance(metadata, dict) or not set(metadata) <= {"conj", "neg"}:
            raise CheckpointError(f"a tensor of the file has metadata {short(metadata)}; known are conj and "
                                  "neg")
        t = _with_grad(_resolved(t.detach(), metadata, storage), requires_grad)
    return t


def _resolved(view: Any, metadata: dict, storage: Any) -> Any:
    """The numbers that PyTorch would compute when it reads a tensor; once more when their storage is filled."""

    def computed() -> Any:
        t = view.conj().resolve_conj() if metadata.get("conj") and view.is_complex() else view
        return -t if metadata.get("neg") else t

    found = computed()
    raw = storage.untyped() if isinstance(storage, TypedStorage) else storage
    if isinstance(raw, LoadedStorage) and raw.later is not None and found is not view:
        raw.later.append(lambda: np.copyto(array_of(found), array_of(computed())))
    return found


def _rebuild_tensor_v3(storage: Any, storage_offset: Any, size: Any, stride: Any, requires_grad: Any, backward_hooks: Any,
                       dtype: Any, metadata: Any = None) -> Any:
    """A tensor over a storage of bytes."""
    if not isinstance(dtype, DType):
        raise CheckpointError(f"a tensor of the file has {short(dtype)} where its dtype should be")
    return _with_grad(_tensor(storage, storage_offset, size, stride, dtype), requires_grad)


def _rebuild_meta_tensor_no_storage(dtype: Any, size: Any, stride: Any, requires_grad: Any) -> Any:
    """A meta tensor."""
    if not isinstance(dtype, DType):
        raise CheckpointError(f"a tensor of the file has {short(dtype)} where its dtype should be")
    _, sizes, steps = _checked(0, size, stride)
    return _with_grad(meta_tensor(sizes, dtype.array_type, steps), requires_grad)


def _rebuild_parameter(data: Any, requires_grad: Any, backward_hooks: Any) -> Any:
    """A parameter."""
    if not isinstance(data, Tensor):
        raise CheckpointError(f"a parameter of the file has a {type(data).__name__} where its tensor should "
                              "be")
    p = Parameter(data, False)
    return _with_grad(p, requires_grad)


def _rebuild_parameter_with_state(data: Any, requires_grad: Any, backward_hooks: Any, state: Any) -> Any:
    """A parameter with attributes."""
    return with_attributes(_rebuild_parameter(data, requires_grad, backward_hooks), state)


def _rebuild_from_type_v2(func: Any, new_type: Any, args: Any, state: Any) -> Any:
    """A tensor of a subclass, or with attributes."""
    if not any(func is rebuild for rebuild in REBUILDERS):
        raise CheckpointError(f"a tensor of the file should be made by {short(func)}, which does not make "
                              "tensors")
    if not (isinstance(new_type, type) and issubclass(new_type, Tensor)) or not isinstance(args, tuple):
        raise CheckpointError(f"a tensor of the file should be of the class {short(new_type)}, which is no "
                              "tensor's")
    t = called(func, args)
    if type(t) is not new_type and new_type is not Tensor:
        t = of_class(t, new_type)
    return with_attributes(t, state)


def with_attributes(t: Any, state: Any) -> Any:
    """Give a tensor the attributes that its user had set."""
    if isinstance(state, tuple) and len(state) == 2:        # (dict, slots)
        for part in state:
            with_attributes(t, part)
        return t
    if not state:
        return t
    if not isinstance(state, dict):
        raise CheckpointError(f"a tensor of the file has {type(state).__name__} where its attributes should "
                              "be")
    for name in state:
        taken = not isinstance(name, str) or name in _SLOTS or hasattr(Tensor, name)
        if taken and name not in ("_is_param", "_is_buffer"):
            raise CheckpointError(f"a tensor of the file has an attribute {short(name)}, a name that tensors "
                                  "use themselves")
    t.__dict__.update(state)
    return t


def _get_layout(name: Any) -> Layout:
    """The layout of this name."""
    for found in (STRIDED, SPARSE_COO, SPARSE_CSR, SPARSE_CSC, SPARSE_BSR, SPARSE_BSC):
        if name == f"torch.{found.name}":
            return found
    raise CheckpointError(f"the file names the layout {short(name)}, which flambeau does not have")


def called(function: Any, args: tuple) -> Any:
    """function(*args); arguments that do not fit are the file's fault."""
    try:
        return function(*args)
    except TypeError as error:
        if error.__traceback__ is None or error.__traceback__.tb_next is not None:     # raised further inside
            raise
        raise CheckpointError(f"the file calls {function.__name__} with {len(args)} arguments: {error}") from None


def _rebuild_sparse_tensor(layout: Any, data: Any) -> Any:
    """A sparse tensor: (indices, values, size, is_coalesced), or (compressed indices, plain indices, values, size)."""
    from flambeau.ops.sparse_create import sparse_compressed_tensor, sparse_coo_tensor

    if not isinstance(data, tuple) or not isinstance(layout, Layout) or layout is STRIDED:
        raise CheckpointError(f"a sparse tensor of the file has layout {short(layout)} and data {short(data)}")
    n_tensors = 2 if layout is SPARSE_COO else 3
    if len(data) not in (3, 4) or not all(isinstance(t, Tensor) for t in data[:n_tensors]):
        raise CheckpointError("a sparse tensor of the file lacks its indices or values")
    try:
        if layout is SPARSE_COO:
            coalesced = bool(data[3]) if len(data) == 4 else None
            return sparse_coo_tensor(data[0], data[1].detach(), data[2], is_coalesced=coalesced, check_invariants=True)
        return sparse_compressed_tensor(data[0], data[1], data[2].detach(), data[3], layout=layout)
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        raise CheckpointError(f"a sparse tensor of the file does not fit together: {error}") from None


REBUILDERS = (_rebuild_tensor, _rebuild_tensor_v2, _rebuild_tensor_v3, _rebuild_meta_tensor_no_storage,
              _rebuild_parameter, _rebuild_parameter_with_state, _rebuild_sparse_tensor)
FUNCTIONS = (*REBUILDERS, _rebuild_from_type_v2, _get_layout)
