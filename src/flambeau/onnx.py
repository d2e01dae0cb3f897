"""`torch.onnx`: export to ONNX, which comes in a later version."""

from __future__ import annotations

from typing import Any

from ._unavailable import missing, refusal

_LATER = "export comes in a later version. Keep the parameters, state_dict(), and the module's code."


class OnnxExporterError(RuntimeError):
    """An export failed; never raised here."""


class OperatorExportTypes:
    """Which operators an export may use."""

    ONNX, ONNX_ATEN, ONNX_ATEN_FALLBACK, ONNX_FALLTHROUGH = 0, 1, 2, 3


class TrainingMode:
    """The mode in which a model is exported."""

    EVAL, PRESERVE, TRAINING = 0, 1, 2


def is_in_onnx_export() -> bool:
    """False: nothing is being exported."""
    return False


globals().update(missing(__name__, "export dynamo_export register_custom_op_symbolic unregister_custom_op_symbolic "
                                   "select_model_mode_for_export ONNXProgram ExportOptions OnnxRegistry", _LATER))
_unknown = refusal(__name__, _LATER)


def __getattr__(name: str) -> Any:
    return _unknown(name)
