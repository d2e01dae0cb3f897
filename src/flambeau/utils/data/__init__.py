"""Data sets, samplers and the loader that makes batches of them."""

from __future__ import annotations

from flambeau._unavailable import missing, missing_module, no_attribute

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


_PIPES = "there are no data pipes. Use Dataset or IterableDataset."
globals().update(missing(__name__, "DFIterDataPipe DataChunk IterDataPipe MapDataPipe argument_validation "
                         "functional_datapipe guaranteed_datapipes_determinism non_deterministic runtime_validation "
                         "runtime_validation_disabled", _PIPES))
datapipes = missing_module(__name__, "datapipes", _PIPES)


def __getattr__(name: str) -> object:
    raise no_attribute(__name__, name, __all__)
