"""How `LinearCrossEntropyLoss` may split its work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass
class LinearCrossEntropyOptions:
    """PyTorch's settings for computing the loss in pieces. They are kept, and change nothing here."""

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any = None
