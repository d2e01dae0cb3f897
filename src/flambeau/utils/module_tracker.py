"""ModuleTracker: which modules are running, in forward and backward."""

from __future__ import annotations

import weakref
from typing import Any

from flambeau.autograd.graph import register_multi_grad_hook
from flambeau.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from ._pytree import tree_leaves

__all__ = ["ModuleTracker"]


class ModuleTracker:
    """A block in which `parents` names the modules that run: "Global", "Model", "Model.layer", ...

    `is_bw` tells whether a backward runs. Names are class names for modules called by themselves, with the way from there
    for those inside.

    >>> model = flambeau.nn.Sequential(flambeau.nn.Linear(1, 1))
    >>> with ModuleTracker() as tracker:
    ...     handle = model[0].register_forward_pre_hook(lambda *args: print(sorted(tracker.parents)))
    ...     _ = model(flambeau.ones(1))
    ['Global', 'Sequential', 'Sequential.0']
    """

    def __init__(self) -> None:
        self.parents: set[str] = {"Global"}
        self.is_bw = False
        self._names: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
        self._handles: list[Any] = []

    def _name(self, module: Any) -> str:
        found: str | None = self._names.get(module)
        if found is None:
            root = type(module).__name__
            for path, inner in module.named_modules():
                self._names[inner] = f"{root}.{path}" if path else root
            found = self._names[module]
        return found

    def _enter(self, name: str, backward: bool) -> Any:
        def act(*args: Any) -> None:
            self.is_bw = backward
            self.parents.add(name)

        return act

    def _leave(self, name: str, backward: bool) -> Any:
        def act(*args: Any) -> None:
            self.parents.discard(name)
            if backward and self.parents == {"Global"}:
                self.is_bw = False

        return act

    @staticmethod
    def _when_known(values: Any, act: Any) -> None:
        tensors = [t for t in tree_leaves(values) if getattr(t, "requires_grad", False)]
        if tensors:
            register_multi_grad_hook(tensors, act)

    def _before(self, module: Any, args: Any) -> None:
        name = self._name(module)
        self._enter(name, False)()
        self._when_known(args, self._leave(name, True))

    def _after(self, module: Any, args: Any, out: Any) -> None:
        name = self._name(module)
        self._leave(name, False)()
        self._when_known(out, self._enter(name, True))

    def __enter__(self) -> ModuleTracker:
        self._handles = [register_module_forward_pre_hook(self._before),
                         register_module_forward_hook(self._after, always_call=True)]
        return self

    def __exit__(self, *error: Any) -> None:
        for handle in self._handles:
            handle.remove()
