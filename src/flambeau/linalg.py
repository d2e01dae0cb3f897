"""Linear algebra: `torch.linalg`. Each function is an operator record under `ops`."""

from __future__ import annotations

from typing import Any

from flambeau._unavailable import no_attribute
from flambeau.kernels.linalg import LinAlgError as LinAlgError
from flambeau.ops import _assemble

globals().update(_assemble.functions("linalg"))

__all__ = sorted([*_assemble.functions("linalg"), "LinAlgError"])  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    raise no_attribute(__name__, name, __all__,
                       "Write it from the others (inv, solve, cholesky, qr, svd, eigh): its gradient follows.")


