"""`torch.distributed` in one process: no process group can be made, so `is_available()` and `is_initialized()` are False.

Programs that ask first run as they do without a group. Communication raises, as it does in PyTorch before a group is made.
"""

from __future__ import annotations

from typing import Any

from flambeau._unavailable import missing, refusal

_ALONE = ("flambeau computes in one process. Leave it out, or guard it by torch.distributed.is_initialized(); "
          "gradient accumulation over several backward() calls gives the gradients of a larger batch.")


def is_available() -> bool:
    """False: flambeau computes in one process."""
    return False


def is_initialized() -> bool:
    """False: there is no process group."""
    return False


def is_nccl_available() -> bool:
    """False."""
    return False


def is_gloo_available() -> bool:
    """False."""
    return False


def is_mpi_available() -> bool:
    """False."""
    return False


def is_ucc_available() -> bool:
    """False."""
    return False


def is_xccl_available() -> bool:
    """False."""
    return False


def is_backend_available(backend: str) -> bool:
    """False."""
    return False


def is_torchelastic_launched() -> bool:
    """False: several processes cannot work together here, whoever started this one."""
    return False


class ReduceOp:
    """How values of several processes are combined."""

    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM = range(9)


reduce_op = ReduceOp


class DistError(RuntimeError):
    """An error of communication; never raised here."""


class DistBackendError(DistError):
    """An error of communication; never raised here."""


class DistNetworkError(DistError):
    """An error of communication; never raised here."""


class DistStoreError(DistError):
    """An error of communication; never raised here."""


class group:
    """The group of all processes: none."""

    WORLD = None


class GroupMember:
    """The group of all processes: none."""

    WORLD = None
    NON_GROUP_MEMBER = -100


def _no_group(name: str) -> Any:
    def function(*args: Any, **kwargs: Any) -> Any:
        raise ValueError(f"torch.distributed.{name}(): Default process group has not been initialized, please make sure to "
                         f"call init_process_group; but {_ALONE}")

    function.__name__ = function.__qualname__ = name
    function.__module__ = __name__
    return function


for _name in (
    "get_rank get_world_size get_backend get_group_rank get_global_rank get_process_group_ranks barrier monitored_barrier "
    "all_reduce all_reduce_coalesced all_gather all_gather_into_tensor all_gather_object all_gather_coalesced broadcast "
    "broadcast_object_list reduce reduce_scatter reduce_scatter_tensor gather gather_object scatter scatter_object_list "
    "all_to_all all_to_all_single send recv isend irecv batch_isend_irecv send_object_list recv_object_list new_group "
    "new_subgroups destroy_process_group"
).split():
    globals()[_name] = _no_group(_name)
globals().update(missing(
    __name__, "init_process_group init_device_mesh register_rendezvous_handler rendezvous P2POp DeviceMesh ProcessGroup "
    "Store TCPStore FileStore HashStore PrefixStore Backend Work", _ALONE))


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """fallback_rank: the rank among the processes of this machine is not known.

    Raises:
        RuntimeError: there is no fallback_rank.
    """
    if fallback_rank is None:
        raise RuntimeError("LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow "
                           "`get_node_local_rank` to work.")
    return int(fallback_rank)


_unknown = refusal(__name__, _ALONE)


def __getattr__(name: str) -> Any:
    return _unknown(name)
