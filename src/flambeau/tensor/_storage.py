"""Where a tensor's elements lie: addresses, strides, storages; `set_`, `resize_`, `share_memory_`."""

from __future__ import annotations

import math
import mmap
import os
from typing import Any

import numpy as np

from flambeau.core.dtype import CPU, META, SPARSE_COO, DType
from flambeau.core.errors import AutogradError
from flambeau.core.objects import (
    TensorBase,
    array_of,
    cell_of,
    dtype_of,
    is_mapped,
    memory_of,
    requires,
    set_array,
    set_memory,
    shape_of,
)
from flambeau.core.origin import warn_user
from flambeau.core.state import state
from flambeau.kernels import strides
from flambeau.ops._factory import format_name
from flambeau.ops._from_data import warn_once
from flambeau.ops._lazy import is_meta
from flambeau.ops._meta import Memory, Meta


class UntypedStorage:
    """The bytes of one piece of memory, which one or several tensors look at."""

    def __init__(self, *args: Any, device: Any = None) -> None:
        if args and isinstance(args[0], np.ndarray):
            self._bytes: np.ndarray = args[0]
        elif args and hasattr(args[0], "__iter__"):
            self._bytes = np.array(list(args[0]), np.uint8)
        else:
            self._bytes = np.empty(int(args[0]) if args else 0, np.uint8)

    @classmethod
    def from_file(cls, filename: Any, shared: bool = False, nbytes: int = 0) -> UntypedStorage:
        """The first nbytes (0: all) of a file, mapped into memory.

        Args:
            shared: writes go to the file, which is made as long as need be; else they stay in memory.

        Raises:
            RuntimeError: the file cannot be opened, or is shorter.
        """
        try:
            if shared:
                with open(filename, "ab") as file:
                    file.truncate(max(os.path.getsize(filename), nbytes))
            size = os.path.getsize(filename)
            if nbytes > size:
                raise RuntimeError(f"UntypedStorage.from_file: {filename} has {size} bytes, and nbytes is {nbytes}")
            n = nbytes or size
            made = cls(np.memmap(filename, np.uint8, "r+" if shared else "c", shape=(n,)).view(np.ndarray) if n else 0)
        except OSError as error:
            raise RuntimeError(f"UntypedStorage.from_file: unable to open file <{filename}>: {error}") from None
        return made

    def untyped(self) -> UntypedStorage:
        """Itself."""
        return self

    def nbytes(self) -> int:
        """The number of bytes."""
        return self._bytes.size

    size = nbytes

    def __len__(self) -> int:
        return self._bytes.size

    def __getitem__(self, key: Any) -> Any:
        part = self._bytes[key]
        return UntypedStorage(part) if isinstance(part, np.ndarray) else int(part)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._bytes[key] = value

    def __iter__(self) -> Any:
        return iter(self._bytes.tolist())

    def tolist(self) -> list:
        """The bytes as numbers."""
        return self._bytes.tolist()

    def data_ptr(self) -> int:
        """The address of the first byte."""
        return strides.address(self._bytes) if self._bytes.size else 0

    def element_size(self) -> int:
        return 1

    @property
    def device(self) -> Any:
        return CPU

    @property
    def is_cuda(self) -> bool:
        return False

    def is_shared(self) -> bool:
        """Whether the memory is shared with forked processes."""
        return _is_shared(self._bytes)

    def clone(self) -> UntypedStorage:
        """A copy."""
        return UntypedStorage(self._bytes.copy())

    def cpu(self) -> UntypedStorage:
        return self

    def copy_(self, source: Any, non_blocking: bool = False) -> UntypedStorage:
        """Write another storage's bytes."""
        self._bytes[...] = source._bytes
        return self

    def fill_(self, value: int) -> UntypedStorage:
        """Write one value into each byte."""
        self._bytes[...] = value
        return self

    def __repr__(self) -> str:
        rows = "\n".join(f" {b}" for b in self._bytes.tolist()[:1000])
        return f"{rows}\n[torch.storage.UntypedStorage(device=cpu) of size {self._bytes.size}]"


class MetaStorage(UntypedStorage):
    """The storage of a meta tensor and its views: a size."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    @property
    def _bytes(self) -> np.ndarray:  # type: ignore[override]
        raise NotImplementedError("Not available for 'meta' device type: this storage has a size, and no bytes")

    def nbytes(self) -> int:
        """The number of bytes there would be."""
        return self._memory.nbytes

    size = nbytes

    def __len__(self) -> int:
        return self._memory.nbytes

    def data_ptr(self) -> int:
        """0: there is no memory."""
        return 0

    @property
    def device(self) -> Any:
        return META

    def is_shared(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"...\n[torch.storage.UntypedStorage(device=meta) of size {self._memory.nbytes}]"


class TypedStorage:
    """A storage seen as elements of one dtype (deprecated in PyTorch)."""

    def __init__(self, *args: Any, wrap_storage: UntypedStorage | None = None, dtype: Any = None,
                 device: Any = None) -> None:
        self.dtype: DType = dtype
        self._untyped = UntypedStorage(*args) if wrap_storage is None else wrap_storage

    def _elements(self) -> np.ndarray:
        return self._untyped._bytes.view(self.dtype.array_type)

    def untyped(self) -> UntypedStorage:
        """The bytes."""
        return self._untyped

    def size(self) -> int:
        """The number of elements."""
        return self._untyped.nbytes() // self.dtype.itemsize

    __len__ = size

    def nbytes(self) -> int:
        """The number of bytes."""
        return self._untyped.nbytes()

    def data_ptr(self) -> int:
        """The address of the first element."""
        return self._untyped.data_ptr()

    def element_size(self) -> int:
        """The bytes of one element."""
        return self.dtype.itemsize

    def __getitem__(self, key: Any) -> Any:
        part = self._elements()[key]
        return part.tolist() if isinstance(part, np.ndarray) else part.item()

    def __setitem__(self, key: Any, value: Any) -> None:
        self._elements()[key] = value

    def tolist(self) -> list:
        """The elements as numbers."""
        return self._elements().tolist()

    @property
    def device(self) -> Any:
        return self._untyped.device

    def __repr__(self) -> str:
        rows = "\n".join(f" {x}" for x in self.tolist()[:1000])
        return f"{rows}\n[torch.storage.TypedStorage(dtype={self.dtype}, device=cpu) of size {self.size()}]"


def is_storage(obj: Any) -> bool:
    """Whether obj is a storage."""
    return isinstance(obj, (UntypedStorage, TypedStorage))


def _is_shared(a: np.ndarray) -> bool:
    owner: Any = strides.storage_owner(a).base
    while isinstance(owner, memoryview):
        owner = owner.obj
    return isinstance(owner, mmap.mmap)


def steps(t: Any) -> tuple[int, ...]:
    """The strides of t in elements."""
    if is_meta(t) or is_mapped(t):
        return t._lazy.strides
    if _is_coo(t):
        return (0,) * len(shape_of(t))
    return strides.torch_strides(array_of(t))


def _is_coo(t: Any) -> bool:
    """Whether t is sparse, in coordinates: as in PyTorch it has strides of 0, and is contiguous in no order."""
    return t._array is None and type(t._lazy) is state.sparse and t._lazy.layout is SPARSE_COO


def _storage_bytes(a: np.ndarray) -> np.ndarray:
    return strides.storage_array(a).view(np.uint8)


def _dim(dim: int, n: int) -> int:
    if n == 0:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    return strides.normalize_dim(dim, n)


def _resize_meta(t: Any, shape: tuple[int, ...]) -> Any:
    m = t._lazy
    if m.shape != shape:
        cell_of(t).stamp += 1
        needed = (m.offset + math.prod(shape)) * m.dtype.itemsize
        m.memory.nbytes = max(m.memory.nbytes, needed)
        set_memory(t, Meta(shape, m.dtype, None, m.offset, memory=m.memory))
    return t


class Storage:
    """Methods of Tensor about its memory."""

    def size(self: Any, dim: int | None = None) -> Any:
        """The shape, or the size of one dimension."""
        if dim is None:
            return self.shape
        shape = shape_of(self)
        return shape[_dim(dim, len(shape))]

    def stride(self: Any, dim: int | None = None) -> Any:
        """The distance between neighbours along each dimension, in elements; or along one dimension."""
        s = steps(self)
        if dim is None:
            return s
        return s[_dim(dim, len(s))]

    def storage_offset(self: Any) -> int:
        """The position of the first element in the storage, in elements."""
        if is_meta(self) or is_mapped(self):
            return self._lazy.offset
        return strides.storage_offset(array_of(self))

    def data_ptr(self: Any) -> int:
        """The address of the first element; 0 for a tensor without elements."""
        if self._array is None and isinstance(self._lazy, Meta):
            return 0
        a = array_of(self)
        return strides.address(a) if a.size else 0

    def is_contiguous(self: Any, memory_format: Any = None) -> bool:
        """Whether the elements lie densely in row-major order, or in the order of a memory format."""
        form = "contiguous" if memory_format is None else format_name(memory_format)
        if is_meta(self) or is_mapped(self):
            return self._lazy.is_contiguous(form)
        if _is_coo(self):
            return False
        return strides.is_contiguous(array_of(self), form)

    def element_size(self: Any) -> int:
        """The bytes of one element."""
        return dtype_of(self).itemsize

    @property
    def itemsize(self: Any) -> int:
        """The bytes of one element."""
        return dtype_of(self).itemsize

    @property
    def nbytes(self: Any) -> int:
        """The bytes of all elements."""
        return self.numel() * dtype_of(self).itemsize

    def nelement(self: Any) -> int:
        """The number of elements."""
        return self.numel()

    def ndimension(self: Any) -> int:
        """The number of dimensions."""
        return len(shape_of(self))

    def untyped_storage(self: Any) -> UntypedStorage:
        """The bytes of the memory that this tensor, and perhaps others, look at."""
        if self._array is None and isinstance(self._lazy, Meta):
            return MetaStorage(self._lazy.memory)
        return UntypedStorage(_storage_bytes(array_of(self)))

    def storage(self: Any) -> TypedStorage:
        """The memory as elements of the tensor's dtype. Deprecated: use untyped_storage()."""
        warn_once("TypedStorage", "TypedStorage is deprecated: a storage is bytes without a dtype. Use "
                                  "tensor.untyped_storage() instead of tensor.storage().")
        return TypedStorage(wrap_storage=self.untyped_storage(), dtype=self.dtype)

    def is_set_to(self: Any, tensor: Any) -> bool:
        """Whether both look at the same elements in the same order."""
        a, b = memory_of(self), memory_of(tensor)
        if isinstance(a, Meta) or isinstance(b, Meta):
            return (isinstance(a, Meta) and isinstance(b, Meta) and a.memory is b.memory
                    and (a.shape, a.strides, a.offset) == (b.shape, b.strides, b.offset))
        return a.shape == b.shape and a.strides == b.strides and strides.address(a) == strides.address(b)

    def is_same_size(self: Any, other: Any) -> bool:
        """Whether both have one shape."""
        return tuple(shape_of(self)) == tuple(shape_of(other))

    def is_shared(self: Any) -> bool:
        """Whether the memory is shared with forked processes (see share_memory_)."""
        return self._array is not None and _is_shared(self._array)

    def share_memory_(self: Any) -> Any:
        """Move the elements to memory that processes forked later share: writes in one are seen by all.

        Processes started by other means (spawn) get a copy when the tensor is sent to them.
        """
        a = array_of(self)
        if not _is_shared(a) and a.size:
            shared = np.frombuffer(mmap.mmap(-1, a.nbytes), a.dtype).reshape(a.shape)
            shared[...] = a
            set_array(self, shared)
        return self

    def is_pinned(self: Any, device: Any = None) -> bool:
        """False: there is no pinned memory here."""
        return False

    def pin_memory(self: Any, device: Any = None) -> Any:
        """Raises: there is no accelerator to pin memory for."""
        raise RuntimeError("Cannot access accelerator device when none is available: pin_memory() serves copies to "
                           "one. Leave it "
                           "out, or call it only `if torch.cuda.is_available()`.")

    def set_(self: Any, source: Any = None, storage_offset: int = 0, size: Any = None, stride: Any = None) -> Any:
        """Make this tensor look at another tensor's or a storage's memory.

        Args:
            source: a tensor, or a storage; None for no elements.
            storage_offset, size, stride: where in the storage; by default all of it, in one dimension.
        """
        cell = cell_of(self)
        if requires(self) and self._node is not None:
            raise AutogradError("set_() cannot be used on a tensor that has a grad_fn: its history would no longer be "
                                "its own")
        d = dtype_of(self)
        if source is None:
            set_array(self, np.empty(0, d))
        elif isinstance(source, TensorBase) and size is None:
            if dtype_of(source) != d:
                raise RuntimeError(f"Could not set tensor of type {source.dtype} to a tensor of type {self.dtype}")
            set_memory(self, memory_of(source))
            self._cell = cell_of(source)
            return self                 # its memory has not changed: what was saved of it is as it was
        else:
            if isinstance(source, TensorBase):
                source = source.untyped_storage()
            raw = (source.untyped() if isinstance(source, TypedStorage) else source)._bytes
            flat = raw[:raw.size - raw.size % d.itemsize].view(d)
            shape = (flat.size - storage_offset,) if size is None else tuple(int(n) for n in size)
            step = strides.contiguous_strides(shape) if stride is None else tuple(int(n) for n in stride)
            set_array(self, strides.as_strided(flat, shape, step, storage_offset))
        cell.stamp += 1
        return self

    def resize_(self: Any, *size: Any, memory_format: Any = None) -> Any:
        """Give the tensor another shape, over the same memory where it suffices; new elements are uninitialised.

        Raises:
            RuntimeError: the tensor requires grad.
        """
        if requires(self):
            raise AutogradError("cannot resize variables that require grad: use a detached tensor, or reshape()")
        shape = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
        shape = tuple(int(n) for n in shape)
        if min(shape, default=0) < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {min(shape)}: {list(shape)}")
        if self._array is None and isinstance(self._lazy, Meta):
            return _resize_meta(self, shape)
        a = array_of(self)
        if a.shape == shape:
            return self
        cell_of(self).stamp += 1
        n, flat = math.prod(shape), strides.storage_array(a)
        offset = strides.storage_offset(a)
        if offset + n > flat.size:
            grown = np.zeros(offset + n, a.dtype)
            grown[:flat.size] = flat
            flat = grown
        set_array(self, flat[offset:offset + n].reshape(shape))
        return self

    def resize_as_(self: Any, the_template: Any, memory_format: Any = None) -> Any:
        """resize_ to the shape of another tensor."""
        return self.resize_(tuple(shape_of(the_template)))

    def resize(self: Any, *sizes: Any) -> Any:
        """Deprecated: a view of another shape with as many elements."""
        warn_user("non-inplace resize is deprecated: use reshape()")
        return self.reshape(*sizes)

    def dim_order(self: Any) -> tuple[int, ...]:
        """The dimensions from the outermost to the innermost in memory."""
        s = steps(self)
        return tuple(sorted(range(len(s)), key=lambda i: -s[i]))

    def get_device(self: Any) -> int:
        """The number of the accelerator: -1, the CPU."""
        return -1

