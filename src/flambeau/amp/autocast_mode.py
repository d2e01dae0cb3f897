"""`autocast`: operators choose between float32 and a shorter dtype, by the lists in `_policies`.

It is an interceptor of operators, registered while some thread has it enabled; an operator that is not listed, or
whose inputs have the wanted dtype, runs as ever.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from flambeau.autograd._rerun import rerun
from flambeau.core import interception
from flambeau.core.apply import CALL
from flambeau.core.dtype import by_name
from flambeau.core.objects import TensorBase, dtype_of
from flambeau.core.origin import warn_user
from flambeau.core.state import bump_ambient, grad_enabled
from flambeau.ops import _record
from flambeau.ops._whole import watchers
from flambeau.tensor import Tensor

from ._policies import AS_IS, LOWER, OPERATORS, RESULT, WIDEST

ORDER = 25          # of interception: the profiler sees an operator before its inputs are cast, capture after

_DEVICES = ("cpu", "cuda", "mps", "xpu", "hpu", "mtia", "xla", "ipu", "privateuseone", "meta", "maia")
_FAST = {"cuda": "float16", "mps": "float16"}       # the dtype of autocast for each device; bfloat16 for others
_FLOAT32 = np.dtype(np.float32)
_FLOAT64 = np.dtype(np.float64)


class _Local(threading.local):
    """The modes of a thread."""

    def __init__(self) -> None:
        self.enabled: dict[str, bool] = {}
        self.dtypes: dict[str, Any] = {}
        self.cache_enabled = True
        self.nesting = 0
        self.inside = False                      # of a function that is treated as a whole
        self.cache: dict[Any, tuple] = {}        # casts of parameters


_local = _Local()
_lock = threading.Lock()
_n_enabled = 0                                   # threads in which autocast for the CPU is on


def _check_str(device_type: Any) -> None:
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")


def _check_device(device_type: Any) -> str:
    _check_str(device_type)
    if device_type not in _DEVICES:
        raise RuntimeError(f"Expected one of {', '.join(_DEVICES)} device type, not {device_type!r}")
    return device_type


# ------------------------------------------------------------------------------------- the casts


def _wanted(t: Any) -> bool:
    return isinstance(t, TensorBase) and dtype_of(t).kind not in "biuc" and dtype_of(t) != _FLOAT64


def _cast(t: Any, dtype: Any, lower: bool) -> Any:
    if not _wanted(t) or dtype_of(t) == dtype:
        return t
    keep = lower and _local.cache_enabled and t.requires_grad and t.is_leaf and dtype_of(t) == _FLOAT32 and not t._is_view()
    if not keep:
        return _record.ops.cast(t, dtype)
    key = (id(t), dtype, grad_enabled())
    found = _local.cache.get(key)
    if found is not None and found[0] is t and found[1] == t._version:
        return found[2]
    made = _record.ops.cast(t, dtype)
    _local.cache[key] = (t, t._version, made)
    return made


def _cast_all(value: Any, dtype: Any, lower: bool) -> Any:
    return [_cast(t, dtype, lower) for t in value] if type(value) is list else _cast(value, dtype, lower)


def _flat(values: Any) -> Any:
    for value in values:
        yield from value if type(value) is list else (value,)


def _dtype_for(policy: str, values: Any) -> Any:
    """What to cast to; None to leave all as it is."""
    if policy == LOWER:
        return np.dtype(get_autocast_dtype("cpu").array_type)
    if policy == WIDEST:
        found = {dtype_of(t) for t in values if isinstance(t, TensorBase) and dtype_of(t).kind not in "biuc"}
        return _FLOAT32 if len(found) > 1 and _FLOAT64 not in found else None
    return _FLOAT32


def _operator(op: Any, inputs: Any, params: Any, kind: Any) -> Any:
    """The interceptor of operators."""
    policy = OPERATORS.get(op.name)
    if policy is None or kind != CALL or _local.inside or not _local.enabled.get("cpu"):
        return NotImplemented
    dtype = _dtype_for(policy, inputs)
    if dtype is None:
        return NotImplemented
    old = interception.set_limit(ORDER)
    try:
        cast = tuple(_cast(t, dtype, policy == LOWER) for t in inputs)
        if policy == RESULT:
            return _cast(rerun(op, cast, params, kind), _dtype_for(LOWER, ()), True)
        if all(a is b for a, b in zip(cast, inputs, strict=True)):
            return NotImplemented
        return rerun(op, cast, params, kind)
    finally:
        interception.set_limit(old)


def _function(policy: str, fn: Callable, args: tuple, kwargs: dict) -> Any:
    """The watcher of functions that are seen whole."""
    if _local.inside or not _local.enabled.get("cpu"):
        return fn(*args, **kwargs)
    _local.inside = True
    try:
        if fn.__name__ == "max_pool3d" and (kwargs.get("return_indices") or len(args) > 6 and args[6]):
            policy = AS_IS              # the form with indices is not on PyTorch's list
        dtype = None if policy == AS_IS else _dtype_for(policy, _flat((*args, *kwargs.values())))
        if dtype is not None:
            args = tuple(_cast_all(v, dtype, policy == LOWER) for v in args)
            kwargs = {k: _cast_all(v, dtype, policy == LOWER) for k, v in kwargs.items()}
        return fn(*args, **kwargs)
    finally:
        _local.inside = False


def _set_enabled(device_type: str, enabled: bool) -> None:
    global _n_enabled
    before = _local.enabled.get(device_type, False)
    _local.enabled[device_type] = enabled
    if device_type != "cpu" or before == enabled:
        return
    bump_ambient()
    with _lock:
        _n_enabled += 1 if enabled else -1
        if enabled and _n_enabled == 1:
            interception.register(ORDER, _operator)
            watchers.append(_function)
        elif not enabled and _n_enabled == 0:
            interception.unregister(ORDER, _operator)
            watchers.remove(_function)


# ------------------------------------------------------------------------------------- the mode


class autocast:
    """A block, or a decorated function, in which operators choose between float32 and a shorter dtype.

    Matrix products, convolutions and attention compute in `dtype`; losses, products, Fourier transforms and
    decompositions in float32; all others in the dtypes of their inputs. float64 is left alone. Call backward outside
    of the block.

    Args:
        device_type: "cpu"; for other devices, which are never here, the block changes nothing (a warning says so).
        dtype: bfloat16 (default) or float16; for others the block changes nothing (a warning says so).
        enabled: False switches it off, also inside of a block.
        cache_enabled: cast a parameter once, not each time it is used, until the outermost block ends.

    Raises:
        RuntimeError: device_type is no device's name.

    Source: Micikevicius et al., 2017, arXiv:1710.03740.

    >>> x = flambeau.ones(2, 2)
    >>> with flambeau.autocast("cpu"):
    ...     y = x @ x
    >>> y.dtype, flambeau.exp(y).dtype
    (torch.bfloat16, torch.bfloat16)
    """

    def __init__(self, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None) -> None:
        _check_str(device_type)
        if device_type not in _DEVICES:
            raise RuntimeError(f"User specified an unsupported autocast device_type '{device_type}': it is one of "
                               f"{', '.join(_DEVICES)}")
        self.device = device_type
        self.fast_dtype = get_autocast_dtype(device_type) if dtype is None else dtype
        self._cache_enabled = is_autocast_cache_enabled() if cache_enabled is None else cache_enabled
        if enabled and device_type != "cpu":
            warn_user(f"User provided device_type of '{device_type}', but {device_type.upper()} is not available. Disabling "
                      "autocast: the block computes in the tensors' own dtypes.")
            enabled = False
        if enabled and self.fast_dtype not in (by_name["bfloat16"], by_name["float16"]):
            warn_user("In CPU autocast, but the target dtype is not supported. Disabling autocast: the block computes in "
                      f"the tensors' own dtypes. CPU Autocast only supports dtypes of torch.bfloat16, torch.float16, not "
                      f"{self.fast_dtype}.")
            enabled = False
        self._enabled = enabled
        self._before: list[tuple] = []

    def __enter__(self) -> autocast:
        device = self.device
        self._before.append((is_autocast_enabled(device), get_autocast_dtype(device), _local.cache_enabled))
        _set_enabled(device, self._enabled)
        _local.dtypes[device] = self.fast_dtype
        _local.nesting += 1
        _local.cache_enabled = self._cache_enabled
        bump_ambient()
        return self

    def __exit__(self, *error: Any) -> None:
        enabled, dtype, cache_enabled = self._before.pop()
        _local.nesting -= 1
        if _local.nesting == 0:
            _local.cache.clear()
        _set_enabled(self.device, enabled)
        _local.dtypes[self.device] = dtype
        _local.cache_enabled = cache_enabled
        bump_ambient()

    def __call__(self, fn: Callable) -> Callable:
        @functools.wraps(fn)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self:
                return fn(*args, **kwargs)

        return inside


def autocast_decorator(autocast_instance: autocast, func: Callable) -> Callable:
    """func inside of a block of autocast."""
    return autocast_instance(func)


def _cast_arguments(value: Any, device_type: str, dtype: Any) -> Any:
    if isinstance(value, Tensor):
        eligible = value.is_floating_point() and value.device.type == device_type and value.dtype is not by_name["float64"]
        return value.to(dtype) if eligible else value
    if isinstance(value, (str, np.ndarray)):
        return value
    if isinstance(value, Mapping):
        return {_cast_arguments(k, device_type, dtype): _cast_arguments(v, device_type, dtype) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_cast_arguments(v, device_type, dtype) for v in value)
    return value


def custom_fwd(fwd: Callable | None = None, *, device_type: str, cast_inputs: Any = None) -> Any:
    """Decorator of an autograd.Function's forward.

    Args:
        device_type: the device whose autocast it heeds.
        cast_inputs: None runs forward under the autocast there is; with a dtype, floating tensors are cast to it, if
            autocast is on, and forward runs with autocast off.
    """
    _check_str(device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        on = is_autocast_enabled(device_type)
        args[0]._dtype = get_autocast_dtype(device_type)
        args[0]._fwd_used_autocast = on and cast_inputs is None
        if cast_inputs is None or not on:
            return fwd(*args, **kwargs)
        with autocast(device_type, enabled=False):
            return fwd(*_cast_arguments(args, device_type, cast_inputs), **_cast_arguments(kwargs, device_type, cast_inputs))

    return decorated


def custom_bwd(bwd: Callable | None = None, *, device_type: str) -> Any:
    """Decorator of an autograd.Function's backward: it runs under the same autocast as forward did."""
    _check_str(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        with autocast(device_type, enabled=args[0]._fwd_used_autocast, dtype=args[0]._dtype):
            return bwd(*args, **kwargs)

    return decorated


# ------------------------------------------------------------------------------------- questions and switches


def is_autocast_available(device_type: str) -> bool:
    """Whether a device knows autocast, be there one or not."""
    return _check_device(device_type) not in ("meta", "maia")


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether autocast is on for a device in this thread."""
    return _local.enabled.get(_check_device(device_type), False)


def get_autocast_dtype(device_type: str) -> Any:
    """The dtype that autocast computes in on a device."""
    found = _local.dtypes.get(_check_device(device_type))
    return by_name[_FAST.get(device_type, "bfloat16")] if found is None else found


def is_autocast_cache_enabled() -> bool:
    """Whether parameters are cast once in a block."""
    return _local.cache_enabled


def clear_autocast_cache() -> None:
    """Forget the casts of parameters, after they were changed inside of a block."""
    _local.cache.clear()


def set_autocast_enabled(device_type: Any, enabled: bool | None = None) -> None:
    """Switch autocast on or off for a device in this thread; `autocast` is what programs use."""
    if enabled is None:
        device_type, enabled = "cuda", device_type
    _set_enabled(_check_device(device_type), bool(enabled))


def set_autocast_dtype(device_type: str, dtype: Any) -> None:
    """The dtype that autocast computes in on a device."""
    _local.dtypes[_check_device(device_type)] = dtype
    bump_ambient()


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Cast parameters once in a block, or each time."""
    _local.cache_enabled = enabled


def autocast_increment_nesting() -> int:
    """One more block; returns how many there are."""
    _local.nesting += 1
    return _local.nesting


def autocast_decrement_nesting() -> int:
    """One block less; returns how many there are."""
    _local.nesting -= 1
    return _local.nesting


def _deprecated(old: str, new: str) -> None:
    warn_user(f"torch.{old} is deprecated. Please use torch.{new} instead.", DeprecationWarning)


def is_autocast_cpu_enabled() -> bool:
    """Deprecated: `is_autocast_enabled("cpu")`."""
    _deprecated("is_autocast_cpu_enabled()", "is_autocast_enabled('cpu')")
    return is_autocast_enabled("cpu")


def get_autocast_gpu_dtype() -> Any:
    """Deprecated: `get_autocast_dtype("cuda")`."""
    _deprecated("get_autocast_gpu_dtype()", "get_autocast_dtype('cuda')")
    return get_autocast_dtype("cuda")


def get_autocast_cpu_dtype() -> Any:
    """Deprecated: `get_autocast_dtype("cpu")`."""
    _deprecated("get_autocast_cpu_dtype()", "get_autocast_dtype('cpu')")
    return get_autocast_dtype("cpu")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """Deprecated: `set_autocast_enabled("cpu", enabled)`."""
    _deprecated("set_autocast_cpu_enabled(enabled)", "set_autocast_enabled('cpu', enabled)")
    set_autocast_enabled("cpu", enabled)


def set_autocast_cpu_dtype(dtype: Any) -> None:
    """Deprecated: `set_autocast_dtype("cpu", dtype)`."""
    _deprecated("set_autocast_cpu_dtype(dtype)", "set_autocast_dtype('cpu', dtype)")
    set_autocast_dtype("cpu", dtype)
