"""`torch.backends.openmp`: threads by OpenMP, which flambeau does not use."""

from __future__ import annotations


def is_available() -> bool:
    """False: flambeau's threads are its own. `flambeau.set_num_threads` sets their number."""
    return False
