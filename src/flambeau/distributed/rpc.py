"""`torch.distributed.rpc`: calls of functions in other processes, which flambeau does not have."""

from __future__ import annotations

from flambeau._unavailable import missing

globals().update(missing(__name__, "init_rpc shutdown rpc_sync rpc_async remote get_worker_info RRef RpcBackendOptions "
                                   "TensorPipeRpcBackendOptions",
                         "flambeau computes in one process; use multiprocessing or concurrent.futures of Python."))


def is_available() -> bool:
    """False: flambeau computes in one process."""
    return False
