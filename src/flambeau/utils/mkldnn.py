"""`torch.utils.mkldnn`: modules in oneDNN's own memory layout."""

from __future__ import annotations

from flambeau._unavailable import missing

globals().update(missing(
    __name__, "to_mkldnn MkldnnLinear MkldnnConv2d MkldnnConv1d MkldnnConv3d MkldnnBatchNorm MkldnnPrelu",
    "tensors have one memory layout. Use the module as it is."))
