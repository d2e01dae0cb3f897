"""`torch.backends.mkl`: Intel's library, which flambeau does not use."""

from __future__ import annotations

from typing import Any

VERBOSE_OFF, VERBOSE_ON = 0, 1


def is_available() -> bool:
    """False: products and decompositions are NumPy's BLAS and LAPACK."""
    return False


class verbose:
    """A block that prints the library's calls: there are none."""

    def __init__(self, enable: int) -> None:
        self.enable = enable

    def __enter__(self) -> verbose:
        return self

    def __exit__(self, *error: Any) -> None:
        pass
