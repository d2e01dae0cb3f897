"""`torch.backends.opt_einsum`: the order in which einsum multiplies, which is from left to right here."""

from __future__ import annotations

enabled = False
strategy: str | None = None


def is_available() -> bool:
    """False: the package is not used."""
    return False


def get_opt_einsum() -> None:
    """None: the package is not used."""
