"""The default random stream: seeding it, and saving and restoring its state."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

from flambeau.ops._generator import Generator, checked_seed, default_generator

__all__ = ["set_rng_state", "get_rng_state", "manual_seed", "seed", "initial_seed", "fork_rng"]


def manual_seed(seed: Any) -> Generator:
    """Seed the default generator; returns it.

    Args:
        seed: what `int()` takes, -2**63 to 2**64 - 1; a negative seed counts from 2**64 down.

    Raises:
        ValueError: seed out of range.

    >>> _ = flambeau.manual_seed(0)
    >>> flambeau.rand(2)
    tensor([0.4963, 0.7682])
    """
    return default_generator.manual_seed(checked_seed(int(seed)))


def seed() -> int:
    """Seed the default generator from the operating system's entropy; returns the seed, 64 bits."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed of the default generator's stream."""
    return default_generator.initial_seed()


def get_rng_state() -> Any:
    """The default generator's state: a uint8 tensor of 5056 elements."""
    return default_generator.get_state()


def set_rng_state(new_state: Any) -> None:
    """Continue the default generator from a state that `get_rng_state` gave."""
    default_generator.set_state(new_state)


@contextlib.contextmanager
def fork_rng(
    devices: Iterable[Any] | None = None,
    enabled: bool = True,
    _caller: str = "fork_rng",
    _devices_kw: str = "devices",
    device_type: str | None = None,
) -> Iterator[None]:
    """Restore the default generator's state at the end of the block, so that draws inside leave no trace.

    Args:
        devices: accelerators to save too; only an empty list, or None, is possible here.
        enabled: False makes this do nothing.

    Raises:
        RuntimeError: devices names an accelerator.

    >>> before = flambeau.get_rng_state()
    >>> with flambeau.random.fork_rng():
    ...     _ = flambeau.rand(3)
    >>> flambeau.equal(before, flambeau.get_rng_state())
    True
    """
    if not enabled:
        yield
        return
    named = list(devices or ())
    if named:
        raise RuntimeError(f"{_caller}(): {_devices_kw}={named}: there is no accelerator here. Leave {_devices_kw} out.")
    state = default_generator.get_state()
    try:
        yield
    finally:
        default_generator.set_state(state)
