"""`torch.jit`: TorchScript, which flambeau does not have. What only marks code for it is accepted."""

from __future__ import annotations

import builtins
import typing
from collections.abc import Callable
from typing import Any

from ._unavailable import missing, refusal

Final = typing.Final
_RUN = "run the function or module as it is: its Python code is what is computed. Saved parameters go with state_dict()."

globals().update(missing(
    __name__, "script trace trace_module script_method load save freeze optimize_for_inference fork wait CompilationUnit "
    "jit_module_from_flatbuffer save_jit_module_to_flatbuffer run_frozen_optimizations export_opnames "
    "last_executed_optimized_graph ScriptModule ScriptFunction RecursiveScriptModule TopLevelTracedModule TracedModule "
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
