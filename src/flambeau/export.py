"""`torch.export`: capture of a model as a graph for other programs, which comes in a later version."""

from __future__ import annotations

from typing import Any

from ._unavailable import missing, refusal

_LATER = "export comes in a later version. Keep the parameters, state_dict(), and the module's code."
globals().update(missing(__name__, "export export_for_training draft_export load save register_dataclass dims "
                                   "default_decompositions unflatten Dim ExportedProgram ShapesCollection", _LATER))
_unknown = refusal(__name__, _LATER)


def __getattr__(name: str) -> Any:
    return _unknown(name)
