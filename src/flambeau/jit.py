"""`torch.jit` as PyTorch has it with PYTORCH_JIT=0: scripted and traced code is the Python code itself.

There is no TorchScript: no graph to look at, no file of code to save or load.
"""

from __future__ import annotations

import builtins
import typing
from collections.abc import Callable
from typing import Any

from ._unavailable import missing, refusal
from .nn.modules.module import Module

Final = typing.Final
_RUN = ("its Python code is what is computed, there is no graph and no file of it. Parameters are saved with "
        "torch.save(module.state_dict(), path).")

globals().update(missing(
    __name__, "load save freeze optimize_for_inference fork wait CompilationUnit "
    "jit_module_from_flatbuffer save_jit_module_to_flatbuffer run_frozen_optimizations export_opnames "
    "last_executed_optimized_graph ScriptFunction RecursiveScriptModule TopLevelTracedModule TracedModule "
    "ONNXTracedModule Future", _RUN))


class Error(RuntimeError):
    """An error of TorchScript; never raised here."""


class TracerWarning(Warning):
    """A warning of tracing; never given here."""

    @staticmethod
    def ignore_lib_warnings() -> None:
        """Nothing: there are none."""


class ScriptWarning(Warning):
    """A warning of TorchScript; never given here."""


class TracingCheckError(Exception):
    """A trace that does not repeat; never raised here."""


class ScriptModule(Module):
    """A base class of modules with script_method: an ordinary module."""

    def __init__(self, arg: Any = None) -> None:
        super().__init__()


def script(obj: Any, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None,
           example_inputs: Any = None) -> Any:
    """obj itself, a function, module or class: Python runs what TorchScript would be made of.

    >>> @flambeau.jit.script
    ... def twice(x: flambeau.Tensor) -> flambeau.Tensor:
    ...     return x + x
    >>> twice(flambeau.ones(2))
    tensor([2., 2.])
    """
    return obj


def script_method(fn: Any) -> Any:
    """fn itself."""
    return fn


def trace(func: Any, example_inputs: Any = None, *args: Any, **kwargs: Any) -> Any:
    """func itself, a function or module; it is not called.

    A trace keeps the branches that the example took. Here each call takes its own.
    """
    return func


def trace_module(mod: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
    """mod itself; it is not called."""
    return mod


def is_scripting() -> bool:
    """False: code runs as Python."""
    return False


def is_tracing() -> bool:
    """False: nothing is traced."""
    return False


def annotate(the_type: Any, the_value: Any) -> Any:
    """the_value"""
    return the_value


def isinstance(obj: Any, target_type: Any) -> bool:
    """Python's isinstance, of the origin of types such as List[int]."""
    kinds = target_type if type(target_type) is tuple else (target_type,)
    return any(builtins.isinstance(obj, typing.get_origin(k) or k) for k in kinds)


def _marks(name: str) -> Callable:
    def function(fn: Any) -> Any:
        return fn

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "fn itself: a mark for TorchScript, without meaning for Python."
    return function


export = _marks("export")
unused = _marks("unused")
interface = _marks("interface")
script_if_tracing = _marks("script_if_tracing")
_overload = _marks("_overload")
_overload_method = _marks("_overload_method")


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """A decorator that leaves its function as it is: a mark for TorchScript, without meaning for Python."""
    return drop if callable(drop) else lambda fn: fn


def Attribute(value: Any, type: Any = None) -> Any:
    """value"""
    return value


class optimized_execution:
    """A block with or without TorchScript's optimisations: there are none."""

    def __init__(self, should_optimize: bool) -> None:
        self.should_optimize = should_optimize

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        pass


def enable_onednn_fusion(enabled: bool) -> None:
    """Accepted: there is no TorchScript to fuse."""


def onednn_fusion_enabled() -> bool:
    """False."""
    return False


def set_fusion_strategy(strategy: Any) -> list:
    """Accepted: there is no TorchScript to fuse."""
    return []


_unknown = refusal(__name__, "flambeau has no TorchScript: " + _RUN)


def __getattr__(name: str) -> Any:
    return _unknown(name)
