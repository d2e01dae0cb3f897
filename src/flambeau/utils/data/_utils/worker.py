"""What a worker process of the loader knows of itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass
class WorkerInfo:
    """Number of the worker, number of workers, its seed and its copy of the data set."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


_worker_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """The WorkerInfo of this worker process; None in the main process."""
    return _worker_info
