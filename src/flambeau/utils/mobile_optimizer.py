"""`torch.utils.mobile_optimizer`: programs for phones are not made."""

from __future__ import annotations

from flambeau._unavailable import missing

globals().update(missing(
    __name__, "optimize_for_mobile generate_mobile_module_lints LintCode MobileOptimizerType",
    "there is no TorchScript to optimise. Export the weights with torch.save."))
