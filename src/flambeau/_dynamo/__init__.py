"""Names that programs take from PyTorch's compiler. Nothing is compiled yet: see `torch.compile`."""

from __future__ import annotations

import types
from typing import Any

from flambeau._unavailable import missing, refusal
from flambeau.compiler import allow_in_graph, assume_constant_result, disable, is_compiling, list_backends, reset

from . import eval_frame
from .eval_frame import OptimizedModule

__all__ = ["OptimizedModule", "allow_in_graph", "assume_constant_result", "config", "disable", "eval_frame", "graph_break",
           "is_compiling", "list_backends", "mark_dynamic", "mark_static", "maybe_mark_dynamic", "reset"]

config = types.SimpleNamespace(suppress_errors=False, cache_size_limit=8, verbose=False)
utils = types.SimpleNamespace(counters={})


def graph_break(msg: str = "") -> None:
    """Nothing: nothing is compiled."""


def mark_dynamic(t: Any, index: Any, **bounds: Any) -> None:
    """Nothing: nothing is compiled."""


def maybe_mark_dynamic(t: Any, index: Any) -> None:
    """Nothing: nothing is compiled."""


def mark_static(t: Any, index: Any = None) -> None:
    """Nothing: nothing is compiled."""


globals().update(missing(__name__, "explain export optimize optimize_assert",
                         "nothing is compiled yet: call the function as it is."))
_unknown = refusal(__name__, "flambeau compiles nothing yet; the function runs as it is without it.")


def __getattr__(name: str) -> Any:
    return _unknown(name)
