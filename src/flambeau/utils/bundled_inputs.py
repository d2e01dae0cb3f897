"""`torch.utils.bundled_inputs`: inputs packed with TorchScript programs."""

from __future__ import annotations

from flambeau._unavailable import missing

globals().update(missing(
    __name__, "bundle_inputs augment_model_with_bundled_inputs augment_many_model_functions_with_bundled_inputs "
              "bundle_randn bundle_large_tensor InflatableArg",
    "there is no TorchScript to bundle inputs with. Save them beside the model."))
