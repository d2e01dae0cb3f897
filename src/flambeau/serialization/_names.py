"""Names in files and objects here: files carry PyTorch's names, so that both libraries read them."""

from __future__ import annotations

import _compat_pickle
import importlib
import sys
from typing import Any

import flambeau
from flambeau.core.dtype import Device, DType, Layout, by_name
from flambeau.core.size import Size
from flambeau.ops._generator import Generator
from flambeau.tensor import Tensor, _legacy

from . import _rebuild

# (module, name) in the file -> the object here
KNOWN: dict[tuple[str, str], Any] = {
    ("torch", "Tensor"): Tensor,
    ("torch", "Size"): Size,
    ("torch", "device"): Device,
    ("torch", "dtype"): DType,
    ("torch._C", "Generator"): Generator,
    ("torch._C", "TensorBase"): Tensor,
    ("torch._C", "_VariableFunctionsClass"): flambeau,
    ("torch.nn.parameter", "Parameter"): _rebuild.Parameter,
    ("torch.serialization", "_get_layout"): _rebuild._get_layout,
    ("torch._tensor", "_rebuild_from_type_v2"): _rebuild._rebuild_from_type_v2,
    ("torch.storage", "UntypedStorage"): _rebuild.UNTYPED,
    ("torch", "UntypedStorage"): _rebuild.UNTYPED,
    **{("torch", kind.name): kind for kind in _rebuild.STORAGE_TYPES},
    **{("torch", name): dtype for name, dtype in by_name.items()},
    **{("torch", name): kind for name, kind in _legacy.old_types().items()},
    **{("torch._utils", function.__name__): function for function in (
        _rebuild._rebuild_tensor, _rebuild._rebuild_tensor_v2, _rebuild._rebuild_tensor_v3, _rebuild._rebuild_parameter,
        _rebuild._rebuild_parameter_with_state, _rebuild._rebuild_meta_tensor_no_storage, _rebuild._rebuild_sparse_tensor)},
}
_TORCH: dict[int, tuple[str, str]] = {id(value): key for key, value in reversed(KNOWN.items())}

# Functions and constants that files of PyTorch may hold and that have no counterpart here
_LACKING = {
    "_rebuild_qtensor": "a quantized tensor",
    "_rebuild_nested_tensor": "a nested tensor", "_rebuild_wrapper_subclass": "a wrapper subclass of Tensor",
    "_rebuild_device_tensor_from_numpy": "a tensor of another device",
    "_rebuild_device_tensor_from_cpu_tensor": "a tensor of another device",
}
# Where PyTorch keeps what lies elsewhere here
_MOVED = {f"flambeau.optim.{module}": "torch.optim.lr_scheduler"
          for module in ("_schedule", "_schedules", "_cycles", "_plateau")}
_MOVED.update({"flambeau.optim.adafactor": "torch.optim", "flambeau.optim.muon": "torch.optim"})
# Functions that PyTorch has compiled, and the prefix of their names there
_COMPILED = {"torch._C._nn": ("torch.nn.functional", ""), "torch._C._linalg": ("torch.linalg", "linalg_"),
             "torch._C._special": ("torch.special", "special_"), "torch._C._fft": ("torch.fft", "fft_")}


def modern(module: str, name: str) -> tuple[str, str]:
    """Python 3's place of a name as protocols up to 2 write it; NumPy 2's of NumPy 1's."""
    if (module, name) in _compat_pickle.NAME_MAPPING:
        module, name = _compat_pickle.NAME_MAPPING[module, name]
    else:
        module = _compat_pickle.IMPORT_MAPPING.get(module, module)
    if module.startswith("numpy.core"):
        module = "numpy._core" + module[len("numpy.core"):]
    return module, name


def lacking(module: str, name: str) -> str | None:
    """What a known name of PyTorch stands for that flambeau has not, or None."""
    if module == "torch._utils":
        return _LACKING.get(name)
    other_dtype = name.startswith(("float8", "float4", "complex32", "uint", "int", "bits", "qint", "quint", "per_"))
    if module == "torch" and (other_dtype or name.startswith("Q") and name.endswith("Storage")):
        return f"torch.{name}"
    if (module.startswith("torch.cuda") and name.endswith("Storage")) or module.startswith("torch.jit"):
        return f"{module}.{name}"
    return None


def find(module: str, name: str) -> Any:
    """The object that a file names: PyTorch's names are looked up here, all others where they say.

    Importing a module runs it: use this only for files that the user trusts.

    Raises:
        AttributeError: there is no such object.
    """
    found = KNOWN.get((module, name))
    if found is not None:
        return found
    what = lacking(module, name)
    if what is not None:
        raise NotImplementedError(f"the file holds {what}, which flambeau does not have")
    for prefix, (public, dropped) in _COMPILED.items():
        if module == prefix:
            module, name = public, name.removeprefix(dropped)
    top, _, rest = module.partition(".")
    if top != "torch":
        return _attribute(importlib.import_module(module), name, f"{module}.{name}")
    path = rest
    place: Any
    while True:         # a name may lie in a module of its own in PyTorch, and in the package above it here
        try:
            place = importlib.import_module("flambeau." + path if path else "flambeau")
        except ModuleNotFoundError:
            place = None
        if place is not None:
            try:
                return _attribute(place, name, "")
            except AttributeError:
                pass
        if not path:
            break
        path = path.rpartition(".")[0]
    raise AttributeError(
        f"Can't get attribute: the file names {module}.{name}, which flambeau does not have. Load a "
        "state_dict instead of a whole object: in PyTorch, torch.save(model.state_dict(), ...).")


def _attribute(place: Any, name: str, what: str) -> Any:
    for part in name.split("."):
        try:
            place = getattr(place, part)
        except AttributeError:
            raise AttributeError(f"Can't get attribute: the file names {what}, which is not "
                                 "there. Define or import it under that name before loading.") from None
    return place


def torch_name(obj: Any, name: str | None = None) -> tuple[str, str] | None:
    """PyTorch's (module, name) of a class, function or constant of flambeau; None for anybody else's."""
    found = _TORCH.get(id(obj))
    if found is not None:
        return found
    module = getattr(obj, "__module__", None)
    if module == "torch.return_types":
        return module, obj.__name__
    if not isinstance(module, str) or module.partition(".")[0] != "flambeau":
        return None
    name = name or getattr(obj, "__qualname__", None) or obj.__name__
    if module in _MOVED:
        return _MOVED[module], name
    if not isinstance(obj, type):       # a function: its home is where users find it
        own = getattr(obj, "__name__", name)
        for public in ("flambeau.nn.functional", "flambeau"):
            if getattr(sys.modules.get(public, flambeau), own, None) is obj:
                return "torch" + public[len("flambeau"):], own
        if "." in name:
            return None
    return "torch" + module[len("flambeau"):], name


def global_name(obj: Any, name: str | None = None) -> str | None:
    """PyTorch's dotted name of an object, or its own; what allow-lists are keyed by."""
    found = torch_name(obj, name)
    if found is None:
        module = getattr(obj, "__module__", None)
        own = name or getattr(obj, "__qualname__", None) or getattr(obj, "__name__", None)
        if module is None or own is None:
            return None
        found = modern(module, own)
    return ".".join(found)


def layout_name(layout: Layout) -> str:
    return f"torch.{layout.name}"

