"""Pickles objects so that PyTorch reads them: its names for what is flambeau's, storages apart from the "
  "rest."""

from __future__ import annotations

import pickle
import types
import warnings
from collections import OrderedDict
from typing import Any

import numpy as np

from flambeau.core.dtype import Device, DType, Layout, dtype_of_array
from flambeau.core.objects import TensorBase, array_of, make, requires
from flambeau.core.size import Size
from flambeau.kernels import strides as layout
from flambeau.kernels.sparse import Pattern, Sparse
from flambeau.nn.parameter import Parameter
from flambeau.ops._generator import Generator
from flambeau.ops._meta import Meta
from flambeau.tensor import Tensor
from flambeau.tensor._python import attributes
from flambeau.tensor._storage import TypedStorage, UntypedStorage

from . import _names, _rebuild

_PLAIN = frozenset((int, float, str, bool, bytes, type(None), list, tuple, dict, set))


class _Stored:
    """Stands for a storage while an object is pickled."""

    __slots__ = ("flat", "kind")

    def __init__(self, flat: np.ndarray, kind: _rebuild.StorageType) -> None:
        self.flat = flat        # of the storage's dtype
        self.kind = kind


class Storages:
    """The storages that the pickled objects look at, each once.

    Attributes:
        flat: key -> the elements.
    """

    def __init__(self) -> None:
        self.flat: dict[str, np.ndarray] = {}
        self._keys: dict[tuple, tuple[str, _rebuild.StorageType]] = {}

    def key(self, stored: _Stored) -> str:
        """The key of a storage; the same memory has one key.

        Raises:
            RuntimeError: two tensors look at one storage as elements of different dtypes.
        """
        flat = stored.flat
        where: tuple = (layout.address(flat), flat.nbytes) if flat.size else (id(layout.storage_owner(flat)), 0)
        found = self._keys.get(where)
        if found is None:
            found = self._keys[where] = (str(len(self._keys)), stored.kind)
            self.flat[found[0]] = flat
        elif found[1] is not stored.kind:
            if flat.size:
                raise RuntimeError(
                    "Cannot save multiple tensors or storages that view the same data as different types: "
                    f"{found[1].dtype} and {stored.kind.dtype}. Save a clone() of one of them.")
            where = (*where, stored.kind.name)
            found = self._keys.setdefault(where, (str(len(self._keys)), stored.kind))
            self.flat[found[0]] = flat
        return found[0]


def raw_bytes(flat: np.ndarray) -> Any:
    """The little-endian bytes of an array, without a copy where they lie so."""
    view: Any = np.ascontiguousarray(flat).reshape(-1).view(np.uint8)
    return memoryview(view)


def _storage_of(a: np.ndarray) -> tuple[_Stored, int]:
    """The storage of an array, and where in it the array begins.

    Memory that its owner laid out backwards, or not at a multiple of the element's size, cannot be described in a file:
    then the array is stored by itself.
    """
    flat = layout.storage_array(a)
    if a.size and ((layout.address(a) - layout.address(flat)) % a.itemsize or min(a.strides, default=0) < 0
                   or any(step % a.itemsize for step in a.strides)):
        flat = np.array(a, order="C").reshape(-1)
        return _Stored(flat, _kind(a.dtype)), -1
    return _Stored(flat, _kind(a.dtype)), layout.storage_offset(a)


def _kind(dtype: np.dtype) -> _rebuild.StorageType:
    return _rebuild.TYPE_OF.get(dtype_of_array(dtype).name, _rebuild.UNTYPED)


def _sparse_parts(s: Sparse) -> tuple:
    p = s.pattern
    if isinstance(p, Pattern):
        return make(p.indices), make(s.values), Size(p.shape), p.coalesced
    return make(p.compressed), make(p.plain), make(s.values), Size(p.shape)


def reduce_tensor(t: Any) -> tuple:
    """A tensor as a call of one of the functions in `_rebuild`."""
    own = attributes(t)
    if type(t) is Parameter:
        parts: tuple = (t.data, requires(t), OrderedDict())
        if own:
            return _rebuild._rebuild_parameter_with_state, (*parts, own)
        return _rebuild._rebuild_parameter, parts
    if t._hooks is not None and t._hooks.tensor:
        warnings.warn("a tensor's hooks are not saved: register them again after loading", UserWarning, stacklevel=2)
    if t._array is None and isinstance(t._lazy, Meta):
        function: Any = _rebuild._rebuild_meta_tensor_no_storage
        args: tuple = (t.dtype, tuple(t.shape), t._lazy.strides, requires(t))
    elif type(t._lazy) is Sparse:
        function, args = _rebuild._rebuild_sparse_tensor, (t.layout, _sparse_parts(t._lazy))
    else:
        a = array_of(t)
        stored, offset = _storage_of(a)
        steps = layout.contiguous_strides(a.shape) if offset < 0 else layout.torch_strides(a)
        function = _rebuild._rebuild_tensor_v2
        args = (stored, max(offset, 0), tuple(a.shape), steps, requires(t), OrderedDict())
        if stored.kind is _rebuild.UNTYPED:         # bytes: the dtype stands beside them
            stored.flat = stored.flat.view(np.uint8)
            function, args = _rebuild._rebuild_tensor_v3, (*args, t.dtype)
    if type(t) is Tensor and not own:
        return function, args
    return _rebuild._rebuild_from_type_v2, (function, type(t), args, own or None)


class _Mixin:
    """What is added to Python's pickler, or to another module's."""

    storages: Storages
    location = "cpu"
    legacy = False

    def persistent_id(self, obj: Any) -> Any:
        """Storages lie outside the pickle."""
        kind = type(obj)
        if kind is not _Stored:
            if isinstance(obj, UntypedStorage):
                obj = _Stored(obj._bytes, _rebuild.UNTYPED)
            elif kind is TypedStorage:
                obj = _Stored(obj._elements(), _kind(obj.dtype.array_type))
            else:
                return None
        key = self.storages.key(obj)
        pid = ("storage", obj.kind, key, self.location, obj.flat.size)
        return (*pid, None) if self.legacy else pid

    def reducer_override(self, obj: Any) -> Any:
        """How flambeau's own objects are written; NotImplemented leaves an object to pickle."""
        kind = type(obj)
        if kind in _PLAIN:
            return NotImplemented
        if isinstance(obj, TensorBase):
            if kind.__reduce_ex__ not in (Tensor.__reduce_ex__, Parameter.__reduce_ex__):
                return NotImplemented           # a user's class that says itself how it is pickled
            return reduce_tensor(obj)
        if kind is DType:
            return obj.name
        if kind is _rebuild.StorageType:
            return obj.name
        if kind is Device:
            return Device, ((obj.type,) if obj.index is None else (obj.type, obj.index))
        if kind is Layout:
            return _rebuild._get_layout, (_names.layout_name(obj),)
        if kind.__module__ == "torch.return_types":
            return kind, (tuple(obj), {})
        if kind is Generator:
            return Generator, (obj.device,), (obj.initial_seed(), None, obj.get_state())
        return NotImplemented


_PythonPickler: Any = pickle._Pickler  # type: ignore[attr-defined]


class Pickler(_Mixin, _PythonPickler):  # type: ignore[misc]
    """Python's pickler, in Python: the one in C cannot write a name that is not importable here.

    Args:
        file: anything with `write`.
        protocol: of the pickle; 2 is what PyTorch reads with weights_only=True.
        storages: collects the storages.
    """

    def __init__(self, file: Any, protocol: int, storages: Storages, legacy: bool = False) -> None:
        super().__init__(file, protocol=protocol)
        self.storages = storages
        self.legacy = legacy

    def save_global(self, obj: Any, name: str | None = None) -> None:
        """Write the name of a class, function or constant: PyTorch's name for flambeau's own."""
        found = _names.torch_name(obj, name)
        if found is None:
            super().save_global(obj, name)
            return
        module, own = found
        if self.proto >= 4:
            self.save(module)
            self.save(own)
            self.write(pickle.STACK_GLOBAL)
        elif "." in own:
            raise pickle.PicklingError(f"Can't pickle {module}.{own}, which lies inside a class, with "
                                       f"pickle_protocol={self.proto}: use 4")
        else:
            self.write(pickle.GLOBAL + module.encode() + b"\n" + own.encode() + b"\n")
        self.memoize(obj)

    def save_type(self, obj: Any) -> Any:
        """Classes are written by name."""
        if obj in (type(None), type(NotImplemented), type(...)):
            return super().save_type(obj)
        return self.save_global(obj)

    dispatch = {**_PythonPickler.dispatch, type: save_type, types.FunctionType: save_global}


def _is_plain_pickle(module: Any) -> bool:
    return module is None or module is pickle


def pickler(file: Any, protocol: int, storages: Storages, pickle_module: Any, legacy: bool = False) -> Any:
    """The pickler for `pickle_module`; of other modules than pickle, those whose Pickler is written in "
      "Python (dill).

    Raises:
        TypeError: it has no such Pickler.
    """
    if _is_plain_pickle(pickle_module):
        return Pickler(file, protocol, storages, legacy)
    base: Any = getattr(pickle_module, "Pickler", None)
    if not (isinstance(base, type) and issubclass(base, _PythonPickler)):
        raise TypeError(
            f"pickle_module={getattr(pickle_module, '__name__', pickle_module)!r} cannot be used: flambeau "
            "needs a Pickler that derives from Python's own pickle._Pickler, as dill's does, to write "
            "PyTorch's names. Leave pickle_module out.")
    cls: Any = type("Pickler", (_Mixin, base), {"save_global": None, "dispatch": {**base.dispatch}})
    inherited: Any = base.dispatch

    def save_global(self: Any, obj: Any, name: str | None = None, **keywords: Any) -> None:
        if _names.torch_name(obj, name) is None:
            base.save_global(self, obj, name)
        else:
            Pickler.save_global(self, obj, name)

    def save_type(self: Any, obj: Any, *args: Any, **keywords: Any) -> Any:
        return inherited[type](self, obj, *args, **keywords) if _names.torch_name(obj) is None else save_global(self, obj)

    cls.save_global = save_global
    cls.dispatch[type] = save_type
    of_functions = inherited[types.FunctionType]

    def save_function(self: Any, obj: Any, *args: Any, **keywords: Any) -> Any:
        return of_functions(self, obj, *args, **keywords) if _names.torch_name(obj) is None else save_global(self, obj)

    cls.dispatch[types.FunctionType] = save_function
    result = cls(file, protocol=protocol)
    result.storages, result.legacy = storages, legacy
    return result

