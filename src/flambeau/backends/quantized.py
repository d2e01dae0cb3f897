"""`torch.backends.quantized`: engines of quantised layers, of which flambeau has none."""

from __future__ import annotations

engine = "none"
supported_engines = ["none"]
