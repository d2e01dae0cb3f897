"""`torch.nn.parallel` on one CPU: DataParallel calls its module; several processes are not supported."""

from __future__ import annotations

from flambeau._unavailable import missing

from .data_parallel import DataParallel, data_parallel

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel", "gather", "parallel_apply", "replicate", "scatter"]

_missing = missing(__name__, "DistributedDataParallel DistributedDataParallelCPU replicate scatter gather parallel_apply",
                   "flambeau computes on the CPU in one process: use the module itself.")
DistributedDataParallel = _missing["DistributedDataParallel"]
DistributedDataParallelCPU = _missing["DistributedDataParallelCPU"]
replicate, scatter, gather, parallel_apply = (_missing[n] for n in ("replicate", "scatter", "gather", "parallel_apply"))
