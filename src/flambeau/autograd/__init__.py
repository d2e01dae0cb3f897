"""Automatic differentiation: `backward`, `grad`, modes, hooks, custom functions, checks."""

from __future__ import annotations

from . import anomaly_mode, forward_ad, function, functional, grad_mode, graph, profiler, variable
from ._backward import backward, grad
from ._modes import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    is_multithreading_enabled,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)
from .anomaly_mode import detect_anomaly, set_detect_anomaly
from .function import Function, NestedIOFunction
from .gradcheck import gradcheck, gradgradcheck
from .variable import Variable

__all__ = ["Function", "NestedIOFunction", "Variable", "anomaly_mode", "backward", "detect_anomaly", "enable_grad",
           "forward_ad", "function", "functional", "grad", "grad_mode", "gradcheck", "gradgradcheck", "graph",
           "inference_mode", "is_grad_enabled", "is_inference_mode_enabled", "is_multithreading_enabled", "no_grad",
           "profiler", "set_detect_anomaly", "set_grad_enabled", "set_multithreading_enabled", "variable"]
