"""`torch.FloatStorage` and the like: a typed storage's class of old, whose `isinstance` asks the dtype."""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.dtype import DType, by_name
from flambeau.kernels.casting import cast

from ._storage import TypedStorage, UntypedStorage

_SHORT = {"float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16", "int64": "Long",
          "int32": "Int", "int16": "Short", "int8": "Char", "uint8": "Byte", "bool": "Bool",
          "complex64": "ComplexFloat", "complex128": "ComplexDouble"}


class _Typed(type):
    dtype: DType

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, TypedStorage) and instance.dtype is cls.dtype

    def __call__(cls, *args: Any, device: Any = None, wrap_storage: Any = None) -> Any:
        """A storage of so many elements, of the elements of a sequence, or over the bytes of another storage."""
        if wrap_storage is not None:
            return TypedStorage(wrap_storage=wrap_storage, dtype=cls.dtype)
        array_type = cls.dtype.array_type
        if not args or isinstance(args[0], (int, np.integer)):
            values = np.zeros(int(args[0]) if args else 0, array_type)
        else:
            values = cast(np.array(list(args[0])), array_type)
        return TypedStorage(wrap_storage=UntypedStorage(values.view(np.uint8)), dtype=cls.dtype)


CLASSES: dict[str, Any] = {
    f"{short}Storage": _Typed(f"{short}Storage", (), {
        "dtype": by_name[name], "__module__": "torch", "__doc__": f"The class of storages of {name}: deprecated, use "
        "torch.UntypedStorage."})
    for name, short in _SHORT.items()
}
BY_DTYPE: dict[str, Any] = {name: CLASSES[f"{short}Storage"] for name, short in _SHORT.items()}
