"""Process-wide settings that programs ask for: threads, determinism, matmul precision, warnings."""

from __future__ import annotations

import os
from typing import Any

from .core.objects import TensorBase
from .tensor._storage import is_storage

_threads = [0]
_interop = [1]
_deterministic = [False, False]
_precision = ["highest"]
_warn_always = [False]


def get_num_threads() -> int:
    """The number of threads that kernels may use."""
    if _threads[0]:
        return _threads[0]
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        value = os.environ.get(name, "")
        if value.isdigit() and int(value) > 0:
            return int(value)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def set_num_threads(n: int) -> None:
    """Set the number of threads that kernels may use.

    Raises:
        RuntimeError: less than one.
    """
    if not isinstance(n, int):
        raise TypeError(f"set_num_threads expects an int, but got {type(n).__name__}")
    if n < 1:
        raise RuntimeError(f"set_num_threads expects a positive integer, got {n}")
    _threads[0] = n
    from .kernels import services

    limit = getattr(services, "set_threads", None)
    if limit is not None:
        limit(n)


def get_num_interop_threads() -> int:
    """The number of threads for operators in parallel: operators run one after the other here."""
    return _interop[0]


def set_num_interop_threads(n: int) -> None:
    """Accepted for compatibility."""
    if n < 1:
        raise RuntimeError(f"set_num_interop_threads expects a positive integer, got {n}")
    _interop[0] = n


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Ask for deterministic kernels: all of flambeau's are."""
    _deterministic[:] = [bool(mode), bool(warn_only)]


def are_deterministic_algorithms_enabled() -> bool:
    """What use_deterministic_algorithms set."""
    return _deterministic[0]


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """What use_deterministic_algorithms set."""
    return _deterministic[1]


def get_deterministic_debug_mode() -> int:
    """0, 1 (warn) or 2 (error), as use_deterministic_algorithms set."""
    return 0 if not _deterministic[0] else 1 if _deterministic[1] else 2


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Set determinism by 0/"default", 1/"warn" or 2/"error"."""
    level = {"default": 0, "warn": 1, "error": 2}.get(debug_mode, debug_mode) if isinstance(debug_mode, str) else debug_mode
    if level not in (0, 1, 2):
        raise RuntimeError(f"invalid value of debug_mode, expected 0, 1, 2, default, warn or error, but got {debug_mode!r}")
    use_deterministic_algorithms(level != 0, warn_only=level == 1)


def get_float32_matmul_precision() -> str:
    """What set_float32_matmul_precision set."""
    return _precision[0]


def set_float32_matmul_precision(precision: str) -> None:
    """ "highest", "high" or "medium": accepted; float32 products are always computed in float32 here."""
    if precision not in ("highest", "high", "medium"):
        raise RuntimeError(f"set_float32_matmul_precision expects highest, high or medium, got {precision!r}")
    _precision[0] = precision


def set_warn_always(b: bool) -> None:
    """Whether warnings that are given once are given each time."""
    _warn_always[0] = bool(b)


def is_warn_always_enabled() -> bool:
    """What set_warn_always set."""
    return _warn_always[0]


def set_flush_denormal(mode: bool) -> bool:
    """False: denormal numbers are kept, and the processor's mode is left alone."""
    return False


def is_tensor(obj: Any) -> bool:
    """Whether obj is a Tensor."""
    return isinstance(obj, TensorBase)


def typename(obj: Any) -> str:
    """The name of obj's type: "torch.FloatTensor" for a tensor, "module.Class" for an object."""
    if isinstance(obj, TensorBase):
        return obj.type()
    kind = obj if hasattr(obj, "__qualname__") and hasattr(obj, "__module__") else type(obj)
    module = getattr(kind, "__module__", "") or ""
    return kind.__qualname__ if module in ("builtins", "") else f"{module}.{kind.__qualname__}"


def _tensor(x: Any, name: str) -> Any:
    if not isinstance(x, TensorBase):
        raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(x).__name__}")
    return x


def numel(input: Any) -> int:
    """The number of elements."""
    return _tensor(input, "numel").numel()


def is_floating_point(input: Any) -> bool:
    """Whether the dtype is a real floating one."""
    return _tensor(input, "is_floating_point").is_floating_point()


def is_complex(input: Any) -> bool:
    """Whether the dtype is complex."""
    return _tensor(input, "is_complex").is_complex()


def is_signed(input: Any) -> bool:
    """Whether the dtype has negative numbers."""
    return _tensor(input, "is_signed").is_signed()


def is_nonzero(input: Any) -> bool:
    """Whether the only element is not zero."""
    return bool(_tensor(input, "is_nonzero"))


def is_same_size(input: Any, other: Any) -> bool:
    """Whether both have one shape."""
    return _tensor(input, "is_same_size").is_same_size(other)


def is_conj(input: Any) -> bool:
    """Whether a conjugation is pending: never here."""
    return False


def is_neg(input: Any) -> bool:
    """Whether a negation is pending: never here."""
    return False


def resolve_conj(input: Any) -> Any:
    """input itself: no conjugation is pending."""
    return input


def resolve_neg(input: Any) -> Any:
    """input itself: no negation is pending."""
    return input


def is_inference(input: Any) -> bool:
    """Whether the tensor was made in inference mode."""
    return _tensor(input, "is_inference").is_inference()


def detach(input: Any) -> Any:
    """The same memory, outside the graph."""
    return _tensor(input, "detach").detach()


def detach_(input: Any) -> Any:
    """Cut the tensor from its graph."""
    return _tensor(input, "detach_").detach_()


def names() -> dict[str, Any]:
    """The public names of this file."""
    found = {k: v for k, v in globals().items() if callable(v) and getattr(v, "__module__", "") == __name__
             and not k.startswith("_") and k != "names"}
    return {**found, "is_storage": is_storage}
