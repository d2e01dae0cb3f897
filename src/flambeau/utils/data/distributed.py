"""Sampling for one of several processes that train together."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import flambeau

from .sampler import Sampler


class DistributedSampler(Sampler[int]):
    """Every num_replicas-th index, from `rank` on; the order changes with `set_epoch`.

    Args:
        num_replicas: how many processes there are; rank: which of them this is. There is no process group yet
            to ask, so both must be given.
        shuffle: whether the order is drawn, from seed + epoch, alike in all processes.
        drop_last: drop the last indices instead of repeating the first to make the parts equal.
    """

    def __init__(self, dataset: Any, num_replicas: int | None = None, rank: int | None = None,
                 shuffle: bool = True, seed: int = 0, drop_last: bool = False) -> None:
        if num_replicas is None or rank is None:
            raise RuntimeError("DistributedSampler: there is no process group to ask for num_replicas and "
                               "rank: give both.")
        if rank >= num_replicas or rank < 0:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        n = len(dataset)
        if drop_last and n % num_replicas != 0:
            self.num_samples = math.ceil((n - num_replicas) / num_replicas)
        else:
            self.num_samples = math.ceil(n / num_replicas)
        self.total_size = self.num_samples * num_replicas
        self.shuffle = shuffle
        self.seed = seed

    def __iter__(self) -> Iterator[int]:
        n = len(self.dataset)
        if self.shuffle:
            generator = flambeau.Generator()
            generator.manual_seed(self.seed + self.epoch)
            indices = flambeau.randperm(n, generator=generator).tolist()
        else:
            indices = list(range(n))
        if not self.drop_last and len(indices) < self.total_size:
            lacking = self.total_size - len(indices)
            indices += (indices * math.ceil(lacking / len(indices)))[:lacking]
        return iter(indices[self.rank:self.total_size:self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Draw another order: call it before each pass."""
        self.epoch = epoch
