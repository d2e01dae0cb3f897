"""`autocast`, which is off: see the package."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from flambeau.core.dtype import by_name
from flambeau.core.origin import warn_user

_DEVICES = ("cpu", "cuda", "mps", "xpu", "hpu", "mtia", "xla", "ipu", "privateuseone")
_FAST = {"cuda": "float16", "mps": "float16"}       # the dtype of autocast for each device; bfloat16 for others


def is_autocast_available(device_type: str) -> bool:
    """False: there is no autocast yet."""
    return False


def autocast_dtype(device_type: str) -> Any:
    """The dtype that autocast would compute in on a device."""
    return by_name[_FAST.get(device_type, "bfloat16")]


class autocast:
    """A block, or a decorated function, in which operators choose between float32 and a shorter dtype.

    Args:
        device_type: "cuda" and other devices, which are never here: the block changes nothing (a warning says so).
            "cpu": only with enabled=False.
        dtype: float16 or bfloat16; the device's by default.
        enabled: False makes it change nothing.

    Raises:
        RuntimeError: device_type is no device's name.
        NotImplementedError: mixed precision on the CPU.

    >>> with flambeau.autocast("cpu", enabled=False):
    ...     flambeau.ones(2).dtype
    torch.float32
    """

    def __init__(self, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None) -> None:
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        if device_type not in _DEVICES:
            raise RuntimeError(f"User specified an unsupported autocast device_type '{device_type}': it is one of "
                               f"{', '.join(_DEVICES)}")
        self.device = device_type
        self.fast_dtype = autocast_dtype(device_type) if dtype is None else dtype
        self._cache_enabled = True if cache_enabled is None else cache_enabled
        if enabled and device_type == "cpu" and self.fast_dtype is not by_name["float32"]:
            raise NotImplementedError(
                "autocast('cpu'): mixed precision is not available yet. Compute in float32 (enabled=False), or convert the "
                "model and its input with .to(torch.bfloat16).")
        if enabled and device_type != "cpu":
            warn_user(f"User provided device_type of '{device_type}', but {device_type.upper()} is not available. "
                      "Disabling autocast: the block computes in the tensors' own dtypes.")
        self._enabled = False

    def __enter__(self) -> autocast:
        return self

    def __exit__(self, *error: Any) -> None:
        return None

    def __call__(self, fn: Callable) -> Callable:
        @functools.wraps(fn)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self:
                return fn(*args, **kwargs)

        return inside


def custom_fwd(fwd: Callable | None = None, *, device_type: str, cast_inputs: Any = None) -> Any:
    """Decorator of an autograd.Function's forward; without autocast it leaves it as it is."""
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        args[0]._dtype = autocast_dtype(device_type)
        args[0]._fwd_used_autocast = False
        return fwd(*args, **kwargs)

    return decorated


def custom_bwd(bwd: Callable | None = None, *, device_type: str) -> Any:
    """Decorator of an autograd.Function's backward; without autocast it leaves it as it is."""
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)
    return bwd


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """False: there is no autocast yet."""
    return False


def is_autocast_cpu_enabled() -> bool:
    """Deprecated: `is_autocast_enabled("cpu")`."""
    warn_user("torch.is_autocast_cpu_enabled() is deprecated. Please use torch.is_autocast_enabled('cpu') instead.",
              DeprecationWarning)
    return False


def get_autocast_dtype(device_type: str) -> Any:
    """The dtype that autocast would compute in on a device."""
    return autocast_dtype(device_type)


def get_autocast_gpu_dtype() -> Any:
    """Deprecated: `get_autocast_dtype("cuda")`."""
    warn_user("torch.get_autocast_gpu_dtype() is deprecated. Please use torch.get_autocast_dtype('cuda') instead.",
              DeprecationWarning)
    return autocast_dtype("cuda")


def get_autocast_cpu_dtype() -> Any:
    """Deprecated: `get_autocast_dtype("cpu")`."""
    warn_user("torch.get_autocast_cpu_dtype() is deprecated. Please use torch.get_autocast_dtype('cpu') instead.",
              DeprecationWarning)
    return autocast_dtype("cpu")


def is_autocast_cache_enabled() -> bool:
    """True, PyTorch's default; there is no cache."""
    return True


def clear_autocast_cache() -> None:
    """Nothing: there is no cache."""
