"""Making a batch of samples: tensors are stacked, containers are gone through."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

import flambeau
from flambeau.core.objects import array_of, make
from flambeau.tensor import Tensor

from . import worker

_TEXT_KINDS = "SUOa"
_WHAT = "default_collate: the batch must hold tensors, NumPy arrays, numbers, dicts, lists or strings; found {}"


def default_convert(data: Any) -> Any:
    """NumPy arrays as tensors, in containers too; everything else as it is."""
    kind = type(data)
    if isinstance(data, Tensor):
        return data
    if isinstance(data, (np.ndarray, np.generic)):
        return data if data.dtype.kind in _TEXT_KINDS else flambeau.as_tensor(data)
    if isinstance(data, Mapping):
        return _like(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return kind(*(default_convert(value) for value in data))
    if isinstance(data, tuple):
        return [default_convert(value) for value in data]
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return _like(data, [default_convert(value) for value in data])
    return data


def _like(original: Any, values: Any) -> Any:
    """values in a container of the original's type, if one can be made."""
    try:
        if isinstance(original, MutableMapping):
            made = copy.copy(original)
            made.update(values)
            return made
        if isinstance(original, MutableSequence) and type(original) is not list:
            made = copy.copy(original)
            for i, value in enumerate(values):
                made[i] = value
            return made
        return type(original)(values)
    except TypeError:
        return values


def collate(batch: Any, *, collate_fn_map: dict[Any, Callable] | None = None) -> Any:
    """A batch, with functions (batch, collate_fn_map=) for types of samples; containers are gone through."""
    first = batch[0]
    kind = type(first)
    if collate_fn_map is not None:
        fn = collate_fn_map.get(kind)
        if fn is None:
            fn = next((f for t, f in collate_fn_map.items() if isinstance(first, t)), None)
        if fn is not None:
            return fn(batch, collate_fn_map=collate_fn_map)
    if isinstance(first, Mapping):
        return _like(first, {key: collate([sample[key] for sample in batch],
                                          collate_fn_map=collate_fn_map) for key in first})
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        columns = zip(*batch, strict=True)
        return kind(*(collate(samples, collate_fn_map=collate_fn_map) for samples in columns))
    if isinstance(first, Sequence) and not isinstance(first, (str, bytes)):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size: the samples have "
                               f"{sorted({len(sample) for sample in batch})} elements. Pad them, or give a "
                               "collate_fn.")
        columns = [collate(samples, collate_fn_map=collate_fn_map) for samples in zip(*batch, strict=True)]
        return columns if isinstance(first, tuple) else _like(first, columns)
    raise TypeError(_WHAT.format(kind))


def collate_tensor_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """Tensors, stacked; in a worker, into memory that the main process can map."""
    shared = _stacked_in_shared_memory(batch)
    return flambeau.stack(list(batch), 0) if shared is None else shared


def _stacked_in_shared_memory(batch: Any) -> Any:
    from flambeau.utils.data import _shared

    if worker._worker_info is None or not _shared.AVAILABLE:
        return None
    first = batch[0]
    if not all(type(t) is Tensor and not t.requires_grad and t.dtype is first.dtype and t.shape == first.shape
               and t.device.type == "cpu" for t in batch):
        return None
    arrays = [array_of(t) for t in batch]
    if arrays[0].nbytes * len(arrays) < _shared.LARGE:
        return None
    out = _shared.empty((len(arrays), *arrays[0].shape), arrays[0].dtype)
    for i, a in enumerate(arrays):
        out[i] = a
    return make(out)


def collate_numpy_array_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """Arrays, as tensors, stacked."""
    if batch[0].dtype.kind in _TEXT_KINDS:
        raise TypeError(_WHAT.format(batch[0].dtype))
    return collate([flambeau.as_tensor(sample) for sample in batch], collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """NumPy numbers, as one tensor."""
    return flambeau.as_tensor(np.array(batch))


def collate_float_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """Python floats, as a float64 tensor."""
    return flambeau.tensor(list(batch), dtype=flambeau.float64)


def collate_int_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """Python ints, as an int64 tensor."""
    return flambeau.tensor(list(batch))


def collate_str_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """Texts, as they are."""
    return batch


default_collate_fn_map: dict[Any, Callable] = {
    Tensor: collate_tensor_fn,
    np.ndarray: collate_numpy_array_fn,
    (np.bool_, np.number, np.object_): collate_numpy_scalar_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}


def default_collate(batch: Any) -> Any:
    """A batch of samples: one more dimension in front for tensors, arrays and numbers; containers are gone
    through.

    >>> default_collate([(1, 2.0), (3, 4.0)])
    [tensor([1, 3]), tensor([2., 4.], dtype=torch.float64)]
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)
