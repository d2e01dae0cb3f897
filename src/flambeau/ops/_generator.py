"""`Generator`: a stream of random numbers that operators draw from, and the default one."""

from __future__ import annotations

import os
import threading
from typing import Any

import numpy as np

from flambeau.core.dtype import Device, as_device
from flambeau.core.objects import TensorBase, array_of, make
from flambeau.kernels.random_engine import DEFAULT_SEED, MersenneTwister

_LOW, _HIGH = -(1 << 63), (1 << 64) - 1  # of seeds; negative ones count from 2**64 down


class Generator:
    """A stream of pseudo-random numbers: PyTorch's CPU generator, number for number and state for state.

    Threads may share one: an operator draws all its numbers under the generator's lock.

    Args:
        device: "cpu", the only device with random numbers here.

    Raises:
        RuntimeError: another device.

    >>> g = flambeau.Generator().manual_seed(1)
    >>> flambeau.rand(2, generator=g)
    tensor([0.7576, 0.2793])
    """

    __slots__ = ("__weakref__", "_seed", "_stream", "device", "lock")

    def __init__(self, device: Any = "cpu") -> None:
        found = as_device(device)
        if found.type != "cpu":
            raise RuntimeError(f"Generator(): random numbers are drawn on the cpu only, not on device '{found}'. "
                               "Leave device out.")
        self.device: Device = found
        self.lock = threading.Lock()
        self._seed = DEFAULT_SEED
        self._stream: MersenneTwister | None = None

    @property
    def engine(self) -> MersenneTwister:
        """The stream itself; hold `lock` while drawing. Made at first use, as it imports numpy.random."""
        stream = self._stream
        if stream is None:
            stream = self._stream = MersenneTwister(self._seed)
        return stream

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream of `seed`, -2**63 to 2**64 - 1; returns the generator itself.

        Raises:
            RuntimeError: seed is no integer.
            ValueError: it is out of range.
        """
        if isinstance(seed, (bool, np.bool_)) or not isinstance(seed, (int, np.integer)):
            raise RuntimeError(f"manual_seed expected a long, but got {type(seed).__name__}: give an integer")
        seed = checked_seed(int(seed))
        with self.lock:
            if self._stream is None:
                self._seed = seed
            else:
                self._stream.manual_seed(seed)
        return self

    def seed(self) -> int:
        """Seed from the operating system's entropy; returns the seed, 64 bits."""
        with self.lock:
            return self.engine.seed()

    def initial_seed(self) -> int:
        """The seed of the stream."""
        return self._seed & _HIGH if self._stream is None else self._stream.initial_seed

    def get_state(self) -> Any:
        """The state as a uint8 tensor of 5056 elements, which PyTorch's CPU generators also take."""
        with self.lock:
            return make(self.engine.get_state())

    def set_state(self, new_state: Any) -> Generator:
        """Continue from a state that `get_state` gave; returns the generator itself.

        Raises:
            TypeError: not a tensor, or not of uint8.
            RuntimeError: not a state.
        """
        if not isinstance(new_state, TensorBase):
            raise TypeError(f"expected a torch.ByteTensor, but got {type(new_state).__name__}: pass what get_state() "
                            "returned")
        array = array_of(new_state)
        if array.dtype != np.uint8:
            raise TypeError(f"RNG state must be a torch.ByteTensor, not a tensor of {array.dtype}: pass what get_state() "
                            "returned")
        with self.lock:
            self.engine.set_state(array)
        return self

    def clone_state(self) -> Generator:
        """A new generator that continues this stream independently."""
        other = Generator(self.device)
        with self.lock:
            other._stream = self.engine.clone()
        return other

    def get_offset(self) -> int:
        raise RuntimeError("CPU Generator does not use offset: its position is part of get_state()")

    def set_offset(self, offset: int) -> Generator:
        raise RuntimeError("CPU Generator does not use offset: its position is part of get_state()")

    def __reduce__(self) -> Any:
        with self.lock:
            return (_restored, (str(self.device), self.engine.get_state()))

    def __setstate__(self, state: tuple[int, int | None, Any]) -> None:
        """(seed, offset, state tensor): how files of torch.save describe a generator."""
        self.set_state(state[2])


def _restored(device: str, state: np.ndarray) -> Generator:
    generator = Generator(device)
    generator.engine.set_state(state)
    return generator


def checked_seed(seed: int) -> int:
    if not _LOW <= seed <= _HIGH:
        raise ValueError(f"Overflow when unpacking long long: a seed lies in [-2**63, 2**64 - 1], not {seed}")
    return seed


default_generator = Generator()


def generator_of(generator: Any, function: str) -> Generator:
    """The argument `generator=`, the default generator where it is None."""
    if generator is None:
        return default_generator
    if not isinstance(generator, Generator):
        raise TypeError(f"{function}(): argument 'generator' must be torch.Generator, not {type(generator).__name__}")
    return generator


def _renew_lock() -> None:
    default_generator.lock = threading.Lock()


if hasattr(os, "register_at_fork"):  # a thread that the child does not have may have held it
    os.register_at_fork(after_in_child=_renew_lock)
