"""Functions of functions: modules as functions of their parameters."""

from __future__ import annotations

from typing import Any

from ._functional_call import functional_call, stack_module_state

__all__ = ["functional_call", "stack_module_state"]


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}': flambeau does not support it yet. "
                         "flambeau.autograd.functional has jacobian, hessian, jvp, vjp, hvp and vhp.")
