"""`torch.cuda` on a machine without a CUDA device: questions are answered, work on a device is refused.

As in PyTorch's CPU build, seeding and emptying the cache do nothing, memory counts are 0, and what needs a device raises.
"""

from __future__ import annotations

import importlib
from collections import OrderedDict
from typing import Any

from flambeau._unavailable import refusal
from flambeau.core.dtype import cuda_error

__all__ = [
    "BFloat16Tensor", "BoolTensor", "ByteTensor", "CUDAGraph", "CharTensor", "CudaError", "DoubleTensor", "Event",
    "ExternalStream", "FloatTensor", "HalfTensor", "IntTensor", "LongTensor", "OutOfMemoryError", "ShortTensor", "Stream",
    "StreamContext", "amp", "can_device_access_peer", "current_blas_handle", "current_device", "current_stream",
    "default_stream", "device", "device_count", "device_of", "empty_cache", "get_arch_list", "get_device_capability",
    "get_device_name", "get_device_properties", "get_gencode_flags", "get_rng_state", "get_rng_state_all", "graph", "init",
    "initial_seed", "ipc_collect", "is_available", "is_bf16_supported", "is_current_stream_capturing", "is_initialized",
    "manual_seed", "manual_seed_all", "max_memory_allocated", "max_memory_cached", "max_memory_reserved", "mem_get_info",
    "memory_allocated", "memory_cached", "memory_reserved", "memory_snapshot", "memory_stats", "memory_summary",
    "reset_max_memory_allocated", "reset_max_memory_cached", "reset_peak_memory_stats", "seed", "seed_all", "set_device",
    "set_per_process_memory_fraction", "set_rng_state", "set_rng_state_all", "set_stream", "stream", "synchronize",
]

has_half = True
has_magma = False
default_generators: tuple = ()


class CudaError(RuntimeError):
    """An error of a CUDA device; never raised here."""


class OutOfMemoryError(RuntimeError):
    """A device's memory is full; never raised here (the CPU's is Python's MemoryError)."""


# --------------------------------------------------------------------------------- questions


def is_available() -> bool:
    """False: flambeau computes on the CPU."""
    return False


def device_count() -> int:
    """0: there is no CUDA device."""
    return 0


def is_initialized() -> bool:
    """False: there is nothing to initialise."""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """False: there is no CUDA device."""
    return False


def is_tf32_supported() -> bool:
    """False: there is no CUDA device."""
    return False


def get_arch_list() -> list[str]:
    """[]: nothing is compiled for CUDA devices."""
    return []


def get_gencode_flags() -> str:
    """ "": nothing is compiled for CUDA devices."""
    return ""


def _is_compiled() -> bool:
    return False


def _is_in_bad_fork() -> bool:
    return False


# --------------------------------------------------------------------------------- harmless without a device


def manual_seed(seed: int) -> None:
    """Nothing: `flambeau.manual_seed` seeds the CPU's stream, the only one."""
    int(seed)


def manual_seed_all(seed: int) -> None:
    """Nothing: `flambeau.manual_seed` seeds the CPU's stream, the only one."""
    int(seed)


def seed() -> None:
    """Nothing, as there is no device."""


def seed_all() -> None:
    """Nothing, as there is no device."""


def empty_cache() -> None:
    """Nothing: there is no device memory."""


def set_stream(stream: Any) -> None:
    """Nothing for None; a stream cannot be made without a device."""


def get_rng_state_all() -> list:
    """[]: one state for each device."""
    return []


def set_rng_state_all(new_states: Any) -> None:
    """Nothing for an empty list.

    Raises:
        RuntimeError: there are states to set, but no devices.
    """
    if list(new_states):
        raise _refused("set_rng_state_all")


def memory_allocated(device: Any = None) -> int:
    """0 bytes: no device memory is in use."""
    return 0


max_memory_allocated = memory_reserved = max_memory_reserved = memory_cached = max_memory_cached = memory_allocated


def memory_stats(device: Any = None) -> OrderedDict:
    """An empty dictionary: no device memory is in use."""
    return OrderedDict()


# --------------------------------------------------------------------------------- what needs a device


def _refused(what: str, instead: str = "") -> Exception:
    error = cuda_error("cuda")
    return type(error)(f"torch.cuda.{what}: {error}{instead}")


_GUARD = " Call it only `if torch.cuda.is_available()`."


def _needs_device(name: str, instead: str = _GUARD) -> Any:
    def function(*args: Any, **kwargs: Any) -> Any:
        raise _refused(f"{name}()", instead)

    function.__name__ = function.__qualname__ = name
    function.__module__ = __name__
    function.__doc__ = f"Raises: {name}() is a request to a CUDA device, and there is none."
    return function


_TIME = " To time work on the CPU call time.perf_counter(): operators have finished when they return."
for _name in (
    "current_device get_device_name get_device_capability get_device_properties mem_get_info memory_summary memory_snapshot "
    "reset_peak_memory_stats reset_accumulated_memory_stats reset_max_memory_allocated reset_max_memory_cached "
    "set_per_process_memory_fraction get_rng_state set_rng_state initial_seed init ipc_collect current_stream "
    "default_stream can_device_access_peer cudart current_blas_handle is_current_stream_capturing make_graphed_callables "
    "check_error caching_allocator_alloc caching_allocator_delete list_gpu_processes utilization temperature power_draw "
    "clock_rate set_sync_debug_mode get_sync_debug_mode _lazy_init _sleep"
).split():
    globals()[_name] = _needs_device(_name)
synchronize = _needs_device("synchronize", " Operators on the CPU have finished when they return, so that nothing needs "
                                           "waiting for: leave the call out, or guard it by torch.cuda.is_available().")


def set_device(device: Any) -> None:
    """Nothing for -1, "no device".

    Raises:
        RuntimeError: a device is named.
    """
    if device != -1:
        raise _refused("set_device()", _GUARD)


class device:
    """The block's device. Entering it with a device raises, as there is none; -1 and None stand for none."""

    def __init__(self, device: Any) -> None:
        self.idx = device

    def __enter__(self) -> None:
        if self.idx not in (None, -1):
            raise _refused(f"device({self.idx!r})", _GUARD)

    def __exit__(self, *error: Any) -> None:
        pass


class device_of(device):
    """The device of a tensor, for a block: none, since all are on the CPU."""

    def __init__(self, obj: Any) -> None:
        super().__init__(-1)


class StreamContext:
    """The block's stream: None, as there are no devices."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        pass


def stream(stream: Any) -> StreamContext:
    """A block that computes in a stream; `with stream(None):` does nothing."""
    return StreamContext(stream)


class _DeviceObject(type):
    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        raise _refused(f"{cls.__name__}()", cls.__dict__.get("_instead", _GUARD))


def _device_object(name: str, instead: str = _GUARD) -> Any:
    return _DeviceObject(name, (), {"__module__": __name__, "_instead": instead,
                                    "__doc__": "Needs a CUDA device: making one raises."})


Stream = _device_object("Stream")
ExternalStream = _device_object("ExternalStream")
Event = _device_object("Event", _TIME)
CUDAGraph = _device_object("CUDAGraph")
graph = _device_object("graph")
MemPool = _device_object("MemPool")
for _name in ("Float", "Double", "Half", "BFloat16", "Byte", "Char", "Short", "Int", "Long", "Bool"):
    globals()[_name + "Tensor"] = _device_object(_name + "Tensor", f" Write torch.{_name}Tensor for a tensor on the CPU.")

_SUBMODULES = ("amp", "memory", "nvtx", "random")
_unknown = refusal(__name__, "flambeau computes on the CPU, and has the common names of torch.cuda only. Leave it out, or "
                             "guard it by torch.cuda.is_available().")


def __getattr__(name: str) -> Any:
    return importlib.import_module(f"{__name__}.{name}") if name in _SUBMODULES else _unknown(name)
