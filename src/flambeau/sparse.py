"""`torch.sparse`: tensors that keep their nonzero elements only, which flambeau does not have."""

from __future__ import annotations

import contextlib
from typing import Any

from ._unavailable import missing, refusal

_DENSE = ("there are no sparse tensors. Use a dense one: torch.zeros(size).index_put_(tuple(indices), values, "
          "accumulate=True) has the same elements.")

globals().update(missing(
    __name__, "sparse_coo_tensor sparse_csr_tensor sparse_csc_tensor sparse_bsr_tensor sparse_bsc_tensor "
    "sparse_compressed_tensor as_sparse_gradcheck solve to_sparse_semi_structured SparseSemiStructuredTensor FloatTensor "
    "DoubleTensor HalfTensor BFloat16Tensor LongTensor IntTensor ShortTensor CharTensor ByteTensor BoolTensor", _DENSE))
globals().update(missing(__name__, "mm addmm sum softmax log_softmax spdiags sampled_addmm",
                         "there are no sparse tensors. Use the function of the same name in torch, of dense tensors."))


class check_sparse_tensor_invariants(contextlib.ContextDecorator):
    """A block in which sparse tensors are checked: there are none."""

    def __init__(self, enable: bool = True) -> None:
        self.on = enable

    def __enter__(self) -> check_sparse_tensor_invariants:
        return self

    def __exit__(self, *error: Any) -> None:
        pass


_unknown = refusal(__name__, _DENSE)


def __getattr__(name: str) -> Any:
    return _unknown(name)
