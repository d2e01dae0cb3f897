"""Converting all parameters and buffers of a module: dtype, device, memory format."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.autograd import no_grad
from flambeau.core.dtype import DType, as_device, by_name
from flambeau.nn.parameter import Parameter


class Conversion:
    """The conversion methods of Module."""

    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    children: Callable

    def _apply(self, fn: Callable[[Any], Any], recurse: bool = True) -> Any:
        if recurse:
            for child in self.children():
                child._apply(fn)
        for key, p in self._parameters.items():
            if p is None:
                continue
            with no_grad():
                new = fn(p)
            if new is p:
                pass
            elif new.is_meta == p.is_meta:
                p.data = new
            else:
                self._parameters[key] = Parameter(new, p.requires_grad)
            if p.grad is not None:
                with no_grad():
                    grad = fn(p.grad)
                if grad is not p.grad:
                    target = self._parameters[key]
                    flag = p.grad.requires_grad
                    target.grad = None
                    target.grad = grad.requires_grad_(flag)
        for key, b in self._buffers.items():
            if b is not None:
                with no_grad():
                    self._buffers[key] = fn(b)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """Move or cast parameters and buffers: to(device), to(dtype), to(tensor), to(memory_format=...).

        Only floating and complex ones are cast. The module itself changes and is returned.
        """
        device, dtype, memory_format = _parse_to(args, kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError("nn.Module.to only accepts floating point or complex dtypes: integers collect no "
                            f"gradients; got dtype={dtype}")

        def convert(t: Any) -> Any:
            options: dict[str, Any] = {}
            if dtype is not None and (t.is_floating_point() or t.is_complex()):
                options["dtype"] = dtype
            if device is not None:
                options["device"] = device
            if memory_format is not None and t.dim() in (4, 5):
                options["memory_format"] = memory_format
            return t.to(**options) if options else t

        return self._apply(convert)

    def _cast(self, name: str) -> Any:
        dtype = by_name[name]
        return self._apply(lambda t: t.to(dtype) if t.is_floating_point() else t)

    def float(self) -> Any:
        """Floating parameters and buffers as float32."""
        return self._cast("float32")

    def double(self) -> Any:
        """Floating parameters and buffers as float64."""
        return self._cast("float64")

    def half(self) -> Any:
        """Floating parameters and buffers as float16."""
        return self._cast("float16")

    def bfloat16(self) -> Any:
        """Floating parameters and buffers as bfloat16."""
        return self._cast("bfloat16")

    def type(self, dst_type: Any) -> Any:
        """All parameters and buffers as dst_type."""
        return self._apply(lambda t: t.type(dst_type))

    def cpu(self) -> Any:
        """Nothing to do: everything is on the CPU."""
        return self._apply(lambda t: t.cpu())

    def cuda(self, device: Any = None) -> Any:
        """Raises: flambeau computes on the CPU."""
        return self._apply(lambda t: t.cuda(device))

    def to_empty(self, *, device: Any, recurse: bool = True) -> Any:
        """Uninitialised parameters and buffers on a device: from a module built on "meta"."""
        import flambeau

        where = as_device(device)
        return self._apply(lambda t: flambeau.empty_like(t, device=where), recurse=recurse)


def _parse_to(args: tuple, kwargs: dict) -> tuple[Any, DType | None, Any]:
    kwargs = dict(kwargs)
    device, dtype = kwargs.pop("device", None), kwargs.pop("dtype", None)
    memory_format = kwargs.pop("memory_format", None)
    kwargs.pop("non_blocking", None)
    other = kwargs.pop("tensor", None)
    if kwargs:
        raise TypeError(f"to() got an unexpected keyword argument '{next(iter(kwargs))}'")
    for a in args:
        if isinstance(a, DType):
            dtype = a
        elif isinstance(a, bool):
            continue
        elif hasattr(a, "dtype") and hasattr(a, "device"):
            other = a
        elif a is not None:
            device = a
    if other is not None:
        device, dtype = other.device, other.dtype
    return None if device is None else as_device(device), dtype, memory_format
