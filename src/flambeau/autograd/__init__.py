"""Automatic differentiation: `backward`, `grad`, modes, hooks, custom functions, checks."""

from __future__ import annotations

from ._backward import backward, grad
from ._modes import enable_grad, inference_mode, is_grad_enabled, is_inference_mode_enabled, no_grad, set_grad_enabled

__all__ = ["backward", "enable_grad", "grad", "inference_mode", "is_grad_enabled", "is_inference_mode_enabled", "no_grad",
           "set_grad_enabled"]
