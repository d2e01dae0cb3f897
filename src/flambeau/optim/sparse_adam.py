"""SparseAdam, which is for gradients in sparse layout."""

from __future__ import annotations

from typing import Any

from .optimizer import Optimizer


class SparseAdam(Optimizer):
    """Not available: it updates the rows that a sparse gradient names, and there are no sparse tensors here.

    Raises:
        NotImplementedError: always.
    """

    def __init__(self, params: Any, lr: Any = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 maximize: bool = False) -> None:
        raise NotImplementedError(
            "SparseAdam: there are no sparse gradients, since there are no sparse tensors. Use Adam, with nn.Embedding(..., "
            "sparse=False): it is the same but for rows that a batch does not look up, which Adam's averages still move.")
