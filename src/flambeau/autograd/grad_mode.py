"""The grad modes under the module name that PyTorch gives them."""

from __future__ import annotations

from typing import Any

from flambeau.core.objects import TensorBase

from ._modes import Mode, enable_grad, inference_mode, no_grad, set_grad_enabled, set_multithreading_enabled

__all__ = ["enable_grad", "inference_mode", "no_grad", "set_grad_enabled", "set_multithreading_enabled"]

_DecoratorContextManager = Mode
_NoParamDecoratorContextManager = Mode


class _unsafe_preserve_version_counter(Mode):
    """In-place writes to `tensors` inside the block do not count: only for those who know that nothing saved them."""

    def __init__(self, tensors: Any) -> None:
        self.tensors = (tensors,) if isinstance(tensors, TensorBase) else tuple(tensors)
        self.versions = tuple(t._version for t in self.tensors)

    def clone(self) -> _unsafe_preserve_version_counter:
        return type(self)(self.tensors)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        for t, version in zip(self.tensors, self.versions, strict=True):
            if t._cell is not None:
                t._cell.stamp = (t._cell.stamp >> 32 << 32) | version
