"""Logs for TensorBoard, written by the `tensorboard` package: `pip install "flambeau[tensorboard]"`."""

from __future__ import annotations

try:
    import tensorboard as _installed
except ModuleNotFoundError as _error:
    if _error.name != "tensorboard":
        raise
    raise ModuleNotFoundError(
        "torch.utils.tensorboard needs the tensorboard package, which is not installed: pip install "
        "'flambeau[tensorboard]'", name="tensorboard") from None

from .writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "SummaryWriter"]
_ = _installed
