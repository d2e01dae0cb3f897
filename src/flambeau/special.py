"""Special functions: `torch.special`. Each is an operator record under `ops`."""

from __future__ import annotations

from flambeau.ops import _assemble

globals().update(_assemble.functions("special"))

__all__ = sorted(_assemble.functions("special"))  # noqa: PLE0605
