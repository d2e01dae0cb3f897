"""`torch.quantization`: computing with integers of few bits, which flambeau does not do."""

from __future__ import annotations

from typing import Any

from ._unavailable import missing, refusal

_KEEP = ("keep the floating-point model; to train against rounding, write the rounding as an autograd.Function whose "
         "backward passes the gradient through.")

globals().update(missing(
    __name__, "quantize_dynamic quantize quantize_qat prepare prepare_qat convert fuse_modules get_default_qconfig "
    "get_default_qat_qconfig propagate_qconfig_ swap_module add_quant_dequant default_eval_fn QuantStub DeQuantStub "
    "QuantWrapper QConfig FakeQuantize MinMaxObserver MovingAverageMinMaxObserver HistogramObserver", _KEEP))
default_qconfig = default_qat_qconfig = default_dynamic_qconfig = float16_dynamic_qconfig = None
_unknown = refusal(__name__, _KEEP)


def __getattr__(name: str) -> Any:
    return _unknown(name)
