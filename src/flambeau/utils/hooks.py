"""Handles by which registered hooks are removed again."""

from __future__ import annotations

from collections.abc import Callable

from flambeau._unavailable import missing
from flambeau.tensor._handles import RemovableHandle

__all__ = ["RemovableHandle", "unserializable_hook"]

globals().update(missing(__name__, "warn_if_has_hooks", "hooks of tensors are never pickled. Register them again after "
                                                        "loading."))
globals().update(missing(__name__, "BackwardHook", "it is how PyTorch calls full backward hooks. Use "
                                                   "Module.register_full_backward_hook."))


def unserializable_hook(f: Callable) -> Callable:
    """Mark a hook as one that a pickle leaves out without a warning."""
    f.__torch_unserializable__ = True  # type: ignore[attr-defined]
    return f
