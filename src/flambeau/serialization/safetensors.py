"""safetensors files: named tensors and nothing else, so that reading one can execute nothing.

The functions are those of `safetensors.torch`, for flambeau's tensors; under `flambeau run` a script that imports
`safetensors.torch` gets this module.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from flambeau.core.dtype import META, as_device, by_name
from flambeau.core.objects import TensorBase, array_of, make
from flambeau.kernels import strides as layout
from flambeau.kernels.casting import BFLOAT16
from flambeau.ops._meta import meta_tensor

from ._files import written

_TYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32",
          "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool", "C64": "complex64"}
_NAMES = {name: code for code, name in _TYPES.items()}


def load_file(filename: Any, device: Any = "cpu", *, backend: str = "mmap") -> dict[str, Any]:
    """The tensors of a safetensors file, by name.

    Args:
        filename: a path.
        device: "cpu", or "meta" for shapes and dtypes only.
        backend: accepted as in `safetensors.torch`; the file is read whole either way.

    Raises:
        FileNotFoundError: there is no such file.
        safetensors.SafetensorError: it is no safetensors file, or damaged.
        NotImplementedError: a tensor's dtype is none of flambeau's.
    """
    with open(os.fspath(filename), "rb") as file:
        return _loaded(file.read(), device)


def load(data: bytes) -> dict[str, Any]:
    """The tensors of a safetensors file given as bytes; see `load_file`."""
    return _loaded(data, "cpu")


def _loaded(data: bytes, device: Any) -> dict[str, Any]:
    from safetensors import deserialize

    target = as_device(device)
    found = {}
    for name, facts in deserialize(data):
        dtype = by_name.get(_TYPES.get(facts["dtype"], ""))
        if dtype is None:
            raise NotImplementedError(f"tensor {name!r} of the file is of dtype {facts['dtype']}, which "
                                      f"flambeau does not have. It has {', '.join(_TYPES)}.")
        shape = tuple(facts["shape"])
        if target.type == META.type:
            found[name] = meta_tensor(shape, dtype.array_type)
            continue
        array = np.empty(shape, dtype.array_type)       # memory of its own, aligned
        array.reshape(-1).view(np.uint8)[:] = np.frombuffer(facts["data"], np.uint8)
        found[name] = make(array)
    return found


def save_file(tensors: dict[str, Any], filename: Any, metadata: dict[str, str] | None = None) -> None:
    """Write named tensors to a safetensors file, completely or not at all.

    Args:
        tensors: contiguous tensors that share no memory, by name.
        filename: a path.
        metadata: further texts for the file's header.

    Raises:
        ValueError: not a dict of tensors, or a tensor is not contiguous.
        RuntimeError: tensors share memory.
        NotImplementedError: a dtype that the format lacks (complex128).
    """
    data = save(tensors, metadata)
    with written(filename) as write:
        write(data)


def save(tensors: dict[str, Any], metadata: dict[str, str] | None = None) -> bytes:
    """The bytes of a safetensors file; see `save_file`.

    >>> from flambeau.serialization import safetensors
    >>> safetensors.load(safetensors.save({"w": flambeau.ones(2)}))
    {'w': tensor([1., 1.])}
    """
    import safetensors

    if not isinstance(tensors, dict):
        raise ValueError(f"Expected a dict of [str, torch.Tensor] but received {type(tensors)}")
    for name, t in tensors.items():
        if not isinstance(t, TensorBase):
            raise ValueError(f"Key `{name}` is invalid, expected torch.Tensor but received {type(t)}")
    shared = _shared(tensors)
    if shared:
        raise RuntimeError(
            f"Some tensors share memory: {shared}. The file would hold it twice, and they would no longer "
            "share it when loaded. Save one of each group, or use save_model, which does so for a module.")
    arrays = {name: _plain(name, t) for name, t in tensors.items()}
    specification = getattr(safetensors, "TensorSpec", None)
    specs: dict[str, Any] = {}
    for name, a in arrays.items():
        kind = "bfloat16" if a.dtype == BFLOAT16 else a.dtype.name
        if specification is None:       # before safetensors 0.8
            specs[name] = {"dtype": kind, "shape": a.shape, "data": a.tobytes()}
        else:
            specs[name] = specification(dtype=kind, shape=list(a.shape), data_ptr=layout.address(a), data_len=a.nbytes)
    return safetensors.serialize(specs, metadata)


def _plain(name: str, t: Any) -> np.ndarray:
    """The array of a tensor that can be written as it lies."""
    if t._array is None and t.is_meta:
        raise ValueError(f"Key `{name}` is invalid: it is on the meta device and has no values")
    a = array_of(t)
    if not a.flags.c_contiguous:
        raise ValueError(f"You are trying to save a non contiguous tensor: `{name}` which is not allowed. "
                         f"Save {name}.contiguous(), or, if it is a part of another tensor, save that one.")
    if str(t.dtype).removeprefix("torch.") not in _NAMES:
        raise NotImplementedError(f"Key `{name}` is of {t.dtype}, which the safetensors format does not "
                                  "have: use torch.save, or save its real and imaginary parts")
    return a


def _shared(tensors: dict[str, Any]) -> list[list[str]]:
    """Groups of names whose tensors have a byte of memory in common."""
    spans = []
    for name, t in tensors.items():
        if t._array is None and t.is_meta:
            continue
        a = array_of(t)
        if a.size:
            low, high = np.lib.array_utils.byte_bounds(a)
            spans.append((low, high, name))
    groups: list[list[str]] = []
    end = -1
    for low, high, name in sorted(spans):
        if low < end:
            groups[-1].append(name)
        else:
            groups.append([name])
        end = max(end, high)
    return [group for group in groups if len(group) > 1]


def save_model(model: Any, filename: Any, metadata: dict[str, str] | None = None, force_contiguous: bool = True) -> None:
    """Write a module's state_dict; of tensors that share memory one is kept, and the header says which "
      "names it has.

    Args:
        model: a module.
        filename: a path.
        metadata: further texts for the file's header.
        force_contiguous: make tensors contiguous that are not, instead of raising.

    Raises:
        RuntimeError: tensors share memory, but none of them covers the others.
    """
    state = dict(model.state_dict())
    facts = dict(metadata or {})
    for group in _shared(state):
        whole = max(group, key=lambda name: (state[name].numel(), -group.index(name)))
        names = sorted(name for name in group if state[name].numel() == state[whole].numel())
        kept = names[0]
        a = array_of(state[kept])
        for name in group:
            b = array_of(state[name])
            if name == kept:
                continue
            if b.shape != a.shape or b.strides != a.strides or layout.address(a) != layout.address(b):
                raise RuntimeError(f"{name} and {kept} share memory without being the same tensor: save a "
                                   "state_dict in which one of them is a clone()")
            facts[name] = kept
            del state[name]
    if force_contiguous:
        state = {name: t.contiguous() for name, t in state.items()}
    save_file(state, filename, facts or None)


def load_model(model: Any, filename: Any, strict: bool = True, device: Any = "cpu", *,
               backend: str = "mmap") -> tuple[set[str], list[str]]:
    """Load a file of `save_model` into a module.

    Args:
        model: a module, whose tensors are overwritten.
        filename: a path.
        strict: raise when names are missing or unexpected.
        device: "cpu".

    Returns:
        Missing and unexpected names.

    Raises:
        RuntimeError: strict, and names do not match; or a shape differs.
    """
    state = load_file(filename, device=device)
    missing, unexpected = model.load_state_dict(state, strict=False)
    own = dict(model.state_dict())
    lacking = set(missing)
    for group in _shared(own):          # a name whose memory another name has filled is not missing
        if any(name not in lacking for name in group):
            lacking.difference_update(group)
    unexpected = list(unexpected)
    if strict and (lacking or unexpected):
        lines = [f"Error(s) in loading state_dict for {type(model).__name__}:"]
        if lacking:
            lines.append("    Missing key(s) in state_dict: " + ", ".join(f'"{name}"' for name in sorted(lacking)))
        if unexpected:
            lines.append("    Unexpected key(s) in state_dict: " + ", ".join(f'"{name}"' for name in sorted(unexpected)))
        raise RuntimeError("\n".join(lines))
    return lacking, unexpected


def storage_ptr(tensor: Any) -> int:
    """The address of the memory that a tensor lies in: equal for tensors that share it."""
    return int(tensor.untyped_storage().data_ptr())


def storage_size(tensor: Any) -> int:
    """The size of that memory, in bytes."""
    return int(tensor.untyped_storage().nbytes())
