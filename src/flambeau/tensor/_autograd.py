"""Methods of Tensor that belong to autograd."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.core.basics import add_post_accumulate_hook, add_tensor_hook
from flambeau.core.errors import AutogradError, forward_line
from flambeau.core.objects import TensorBase, requires
from flambeau.core.origin import warn_user
from flambeau.core.state import state
from flambeau.core.views import grad_fn

from ._handles import RemovableHandle


class TensorHookHandle(RemovableHandle):
    """Removes a hook of a tensor, which stands in a list of entries that begin with the id."""

    def __init__(self) -> None:
        self._entries: list | None = None
        super().__init__(_NO_HOOKS)

    def remove(self) -> None:
        """Take the hook away; nothing happens when it is gone already."""
        super().remove()
        entries, self._entries = self._entries, None
        for i, entry in enumerate(entries or ()):
            if entry[0] == self.id:
                del entries[i]  # type: ignore[union-attr]
                break

    def __setstate__(self, state: tuple) -> None:
        super().__setstate__(state)
        self._entries = None


class _NoHooks(dict):
    """The dictionary of handles whose hooks stand in a list."""

    def __reduce__(self) -> tuple:
        return _no_hooks, ()


_NO_HOOKS = _NoHooks()


def _no_hooks() -> _NoHooks:
    return _NO_HOOKS


class Autograd:
    """backward, hooks, and the flags of leaves."""

    def register_hook(self: Any, hook: Callable) -> RemovableHandle:
        """Call hook(gradient) when the gradient of this tensor is computed; what it returns replaces it.

        Returns:
            a handle whose remove() takes the hook away.

        Raises:
            RuntimeError: the tensor does not require grad.
        """
        if not requires(self):
            raise AutogradError(
                "cannot register a hook: the tensor doesn't require gradient: no gradient will be computed for "
                "it. Call "
                "requires_grad_() first.")
        if self._array is None and hasattr(self._lazy, "hooked"):
            return self._lazy.inner.register_hook(self._lazy.hooked(hook))
        handle = TensorHookHandle()
        handle._entries = add_tensor_hook(self, handle.id, hook)
        return handle

    def register_post_accumulate_grad_hook(self: Any, hook: Callable) -> RemovableHandle:
        """Call hook(self) after a gradient was added to `.grad` of this leaf.

        Raises:
            RuntimeError: the tensor does not require grad, or is not a leaf.
        """
        if not requires(self):
            raise AutogradError("cannot register a hook: the tensor doesn't require gradient")
        if grad_fn(self) is not None:
            raise AutogradError("post accumulate grad hooks cannot be registered on non-leaf tensors: only leaves "
                                "accumulate "
                                "gradients. Use register_hook() on this one.")
        handle = TensorHookHandle()
        handle._entries = add_post_accumulate_hook(self, handle.id, hook)
        return handle

    def requires_grad_(self: Any, requires_grad: bool = True) -> Any:
        """Set whether operators on this leaf are recorded; returns it."""
        self.requires_grad = requires_grad
        return self

    def detach_(self: Any) -> Any:
        """Cut this tensor from its graph; it becomes a leaf that does not require grad.

        Raises:
            RuntimeError: the tensor is a view.
        """
        if self._view is not None:
            raise AutogradError("Can't detach views in-place. Use detach() instead: it returns a new tensor.")
        self._node = None
        self._nr = 0
        self._rg = False
        self._retains = False
        return self

    @property
    def name(self: Any) -> Any:
        return None


def warn_non_leaf_grad(t: TensorBase) -> None:
    """`.grad` of a tensor that keeps none was read."""
    node = t._node
    where = "" if node is None else " It was computed at " + forward_line(node) + "."
    warn_user(
        "The .grad attribute of a Tensor that is not a leaf Tensor was read, and it is None: backward() "
        "fills only that of leaves. Call .retain_grad() on this Tensor before backward() to keep its "
        "gradient, or read the leaf it was computed from." + where)


state.non_leaf_grad = warn_non_leaf_grad
