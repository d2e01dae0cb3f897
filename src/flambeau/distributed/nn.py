"""`torch.distributed.nn`: communication that carries gradients, which needs more than one process."""

from __future__ import annotations

from flambeau._unavailable import missing

globals().update(missing(__name__, "all_gather all_reduce all_to_all all_to_all_single broadcast gather reduce "
                                   "reduce_scatter scatter RemoteModule",
                         "flambeau computes in one process. Leave it out, or guard it by "
                         "torch.distributed.is_initialized()."))
