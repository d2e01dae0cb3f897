"""`torch.utils.show_pickle`: what a pickle holds."""

from __future__ import annotations

from flambeau._unavailable import missing

globals().update(missing(
    __name__, "FakeObject FakeClass DumpUnpickler",
    "use python -m pickletools, or flambeau.load with weights_only=True, which executes nothing."))
