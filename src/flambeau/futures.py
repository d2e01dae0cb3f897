"""`torch.futures`: results of work in other processes, of which flambeau has none."""

from __future__ import annotations

from ._unavailable import missing

globals().update(missing(__name__, "Future collect_all wait_all", "use concurrent.futures of Python."))
