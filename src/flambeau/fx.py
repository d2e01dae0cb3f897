"""`torch.fx`: programs that rewrite programs, which flambeau does not have."""

from __future__ import annotations

from typing import Any

from ._unavailable import missing, refusal

_HOOKS = ("modules run as they are written. To see or change what happens inside one use forward hooks; to see the graph "
          "follow grad_fn.next_functions.")
globals().update(missing(__name__, "symbolic_trace replace_pattern map_arg has_side_effect Tracer Graph GraphModule "
                                   "Interpreter Transformer Node Proxy", _HOOKS))


def wrap(fn_or_name: Any) -> Any:
    """fn_or_name itself: a mark for tracing, without meaning for Python."""
    return fn_or_name


_unknown = refusal(__name__, _HOOKS)


def __getattr__(name: str) -> Any:
    return _unknown(name)
