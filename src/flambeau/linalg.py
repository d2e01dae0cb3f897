"""Linear algebra: `torch.linalg`. Each function is an operator record under `ops`."""

from __future__ import annotations

from typing import Any

from flambeau.kernels.linalg import LinAlgError
from flambeau.ops import _assemble

globals().update(_assemble.functions("linalg"))

__all__ = sorted([*_assemble.functions("linalg"), "LinAlgError"])  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    raise AttributeError(f"module '{__name__}' has no function '{name}': flambeau does not support it yet, or PyTorch has none of "
                         "that name. Write it from the others (inv, solve, cholesky, qr, svd, eigh): its gradient follows.")


