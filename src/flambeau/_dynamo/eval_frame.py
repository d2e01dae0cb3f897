"""A compiled module: the module itself under `_orig_mod`."""

from __future__ import annotations

from typing import Any

from flambeau.nn import Module


class OptimizedModule(Module):
    """What `torch.compile(module)` returns: it calls the module, and has its attributes."""

    def __init__(self, mod: Module) -> None:
        super().__init__()
        self._orig_mod = mod
        self.training = mod.training

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """mod(*args, **kwargs)"""
        return self._orig_mod(*args, **kwargs)

    def train(self, mode: bool = True) -> Any:
        """Set the mode of the module."""
        self.training = mode
        self._orig_mod.train(mode)
        return self

    def __len__(self) -> int:
        return len(self._orig_mod)

    def __bool__(self) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        if name == "_orig_mod":
            return self._modules["_orig_mod"]
        return getattr(self._modules["_orig_mod"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        own = name in ("_orig_mod", "training") or name.startswith("_") or "_modules" not in self.__dict__
        if own or "_orig_mod" not in self._modules:
            super().__setattr__(name, value)
        else:
            setattr(self._orig_mod, name, value)
