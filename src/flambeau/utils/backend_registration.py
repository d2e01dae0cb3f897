"""`torch.utils.backend_registration`: devices of other makers."""

from __future__ import annotations

from flambeau._unavailable import missing

globals().update(missing(
    __name__, "rename_privateuse1_backend generate_methods_for_privateuse1_backend",
    "devices are added in Python: see CONTRIBUTING.md."))
