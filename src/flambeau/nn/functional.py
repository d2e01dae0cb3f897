"""Functions behind the layers: `import flambeau.nn.functional as F`. Each is an operator record under
`ops`."""

from __future__ import annotations

from typing import Any

from flambeau.ops import _assemble
from flambeau.tensor._functions import FUNCTIONAL

globals().update(_assemble.functions("nn.functional"))
globals().update(FUNCTIONAL)      # the compiled functions win

__all__ = sorted(_assemble.functions("nn.functional"))  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    import difflib

    near = difflib.get_close_matches(name, __all__, 1)
    hint = f" Did you mean {near[0]}?" if near else ""
    raise AttributeError(
        f"module '{__name__}' has no function '{name}': flambeau does not support it yet, or PyTorch has "
        f"none of that name.{hint} Write it from the operators in flambeau and flambeau.nn.functional: its "
        "gradient follows.")
