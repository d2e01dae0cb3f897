"""Assembles what `import flambeau as torch` offers at its top level."""

from __future__ import annotations

import functools
import importlib
import math
import os
from typing import Any

from ._unavailable import no_attribute
from .core import dtype as _dtype
from .core.size import Size
from .core.state import state
from .kernels import services

services.install()

# By their full names: `from . import x` would ask the package's own `__getattr__` first.
import flambeau.ops as ops  # noqa: E402

from .ops import _assemble  # noqa: E402
from .tensor import Tensor, _dlpack, _functions, _legacy, _methods, _numbers, _printing, _storage  # noqa: E402

import flambeau._switches as _switches  # noqa: E402  isort: skip
import flambeau._control as _control  # noqa: E402  isort: skip
from .tensor._typed_storages import CLASSES  # noqa: E402  isort: skip
from .tensor._unsupported import REMOVED  # noqa: E402  isort: skip
import flambeau.autograd as autograd  # noqa: E402  isort: skip

_FOLDER = os.path.dirname(os.path.abspath(__file__))


def _mark_internal_files() -> None:
    """Frames of these files are never the user's; programs under cli and testing are users like any other."""
    for folder, names, files in os.walk(_FOLDER):
        names[:] = [n for n in names if n not in ("cli", "testing", "__pycache__")]
        for file in files:
            if file.endswith(".py"):
                state.internal[os.path.join(folder, file)] = True


_mark_internal_files()


@functools.cache
def public_names() -> dict[str, Any]:
    names: dict[str, Any] = {}
    names.update(_assemble.functions("torch"))
    names.update({k: v for k, v in vars(_methods).items()      # the compiled functions win
                  if k in names and callable(v) and not k.startswith("_")})
    names.update(_functions.TORCH)
    names.update(_switches.names())
    names.update(_control.names())
    names.update(REMOVED)
    names.update(CLASSES, Storage=CLASSES["FloatStorage"], StorageBase=_storage.UntypedStorage)
    names.update(_legacy.old_types())
    names.update({k: getattr(_numbers, k) for k in (
        "can_cast", "finfo", "get_default_device", "get_default_dtype", "iinfo", "promote_types", "result_type",
        "set_default_device", "set_default_dtype", "set_default_tensor_type")})
    names.update(_dtype.by_name)
    names.update(
        Tensor=Tensor, Size=Size, dtype=_dtype.DType, device=_dtype.Device, layout=_dtype.Layout,
        memory_format=_dtype.MemoryFormat, strided=_dtype.STRIDED, contiguous_format=_dtype.CONTIGUOUS,
        preserve_format=_dtype.PRESERVE,
        legacy_contiguous_format=_dtype.CONTIGUOUS, channels_last=_dtype.CHANNELS_LAST,
        channels_last_3d=_dtype.CHANNELS_LAST_3D,
        half=_dtype.by_name["float16"], float=_dtype.by_name["float32"], double=_dtype.by_name["float64"],
        short=_dtype.by_name["int16"], int=_dtype.by_name["int32"], long=_dtype.by_name["int64"],
        cfloat=_dtype.by_name["complex64"], cdouble=_dtype.by_name["complex128"],
        sparse_coo=_dtype.SPARSE_COO, sparse_csr=_dtype.SPARSE_CSR, sparse_csc=_dtype.SPARSE_CSC,
        sparse_bsr=_dtype.SPARSE_BSR, sparse_bsc=_dtype.SPARSE_BSC, set_printoptions=_printing.set_printoptions,
        from_dlpack=_dlpack.from_dlpack, to_dlpack=_dlpack.to_dlpack, UntypedStorage=_storage.UntypedStorage,
        TypedStorage=_storage.TypedStorage, pi=math.pi, e=math.e, inf=math.inf, nan=math.nan, newaxis=None,
        autograd=autograd, no_grad=autograd.no_grad, enable_grad=autograd.enable_grad,
        set_grad_enabled=autograd.set_grad_enabled, is_grad_enabled=autograd.is_grad_enabled,
        inference_mode=autograd.inference_mode, is_inference_mode_enabled=autograd.is_inference_mode_enabled,
        is_anomaly_enabled=autograd.anomaly_mode.is_anomaly_enabled,
        set_anomaly_enabled=autograd.anomaly_mode.set_anomaly_enabled,
        is_anomaly_check_nan_enabled=autograd.anomaly_mode.is_anomaly_check_nan_enabled,
    )
    return names


state.public = lambda name: public_names()[name]

SUBMODULES = frozenset((
    "_C", "__config__", "_dynamo", "_inductor", "_tensor_str", "accelerator", "amp", "ao", "backends", "compiler",
    "cpu", "cuda",
    "distributed", "distributions", "export", "fft", "func", "functional", "futures", "fx", "hub", "jit", "library",
    "linalg", "masked", "mps", "mtia", "multiprocessing", "nested", "nn", "onnx", "optim", "overrides", "profiler",
    "quantization", "random",
    "return_types", "serialization", "signal", "sparse", "special", "storage", "testing", "torch_version", "types",
    "utils", "version", "xpu",
))
LATER = {       # names that live in a submodule, which is imported when they are first asked for
    "load": "serialization", "save": "serialization", "compile": "compiler", "vmap": "func", "autocast": "amp",
    "Generator": "random", "default_generator": "random", "manual_seed": "random", "seed": "random",
    "initial_seed": "random", "get_rng_state": "random", "set_rng_state": "random", "OutOfMemoryError": "cuda",
    "AcceleratorError": "accelerator", "FatalError": "accelerator", "GradScaler": "amp", "Future": "futures",
    "DisableTorchFunction": "_C", "DisableTorchFunctionSubclass": "_C", "get_device_module": "accelerator",
    "spmm": "sparse", "smm": "sparse", "hspmm": "sparse", "sspaddmm": "sparse",
    "sparse_coo_tensor": "sparse", "sparse_csr_tensor": "sparse", "sparse_csc_tensor": "sparse",
    "sparse_bsr_tensor": "sparse", "sparse_bsc_tensor": "sparse", "sparse_compressed_tensor": "sparse",
    "is_autocast_enabled": "amp.autocast_mode", "is_autocast_cpu_enabled": "amp.autocast_mode",
    "get_autocast_dtype": "amp.autocast_mode", "get_autocast_gpu_dtype": "amp.autocast_mode",
    "get_autocast_cpu_dtype": "amp.autocast_mode", "is_autocast_cache_enabled": "amp.autocast_mode",
    "clear_autocast_cache": "amp.autocast_mode", "set_autocast_enabled": "amp.autocast_mode",
    "set_autocast_dtype": "amp.autocast_mode", "set_autocast_cache_enabled": "amp.autocast_mode",
    "set_autocast_cpu_enabled": "amp.autocast_mode", "set_autocast_cpu_dtype": "amp.autocast_mode",
    "autocast_increment_nesting": "amp.autocast_mode", "autocast_decrement_nesting": "amp.autocast_mode",
}


def later(name: str) -> Any:
    """A submodule, or a name of one, when it is first asked for (`flambeau.__getattr__`)."""
    package = __package__ or "flambeau"
    for module, attribute in ((name, None),) if name in SUBMODULES else ((LATER.get(name), name),):
        if module is None:
            break
        try:
            found = importlib.import_module(f"{package}.{module}")
        except ModuleNotFoundError as error:
            if error.name != f"{package}.{module}":
                raise
            break
        return found if attribute is None else getattr(found, attribute)
    if not name.startswith("_"):
        known = importlib.import_module(f"{package}._unsupported").find(name)
        if known is not None:
            return known
    raise no_attribute(package, name, [*public_names(), *SUBMODULES, *LATER], planned=name in SUBMODULES or name in LATER)


_ = ops
