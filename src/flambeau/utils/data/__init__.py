"""Data sets, samplers and the loader that makes batches of them."""

from __future__ import annotations

from . import _utils, dataloader, dataset, distributed, sampler
from ._utils.collate import default_collate, default_convert
from ._utils.worker import WorkerInfo, get_worker_info
from .dataloader import DataLoader, _DatasetKind
from .dataset import ChainDataset, ConcatDataset, Dataset, IterableDataset, StackDataset, Subset, TensorDataset, random_split
from .distributed import DistributedSampler
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler, SubsetRandomSampler, WeightedRandomSampler

__all__ = ["BatchSampler", "ChainDataset", "ConcatDataset", "DataLoader", "Dataset", "DistributedSampler",
           "IterableDataset", "RandomSampler", "Sampler", "SequentialSampler", "StackDataset", "Subset",
           "SubsetRandomSampler", "TensorDataset", "WeightedRandomSampler", "WorkerInfo", "_DatasetKind",
           "_utils", "dataloader", "dataset", "default_collate", "default_convert", "distributed",
           "get_worker_info", "random_split", "sampler"]


def __getattr__(name: str) -> object:
    text = f"module '{__name__}' has no attribute '{name}'"
    if name.endswith("DataPipe") or "datapipe" in name:
        raise AttributeError(f"{text}: data pipes are not supported. Use Dataset or IterableDataset.")
    raise AttributeError(text)
