"""Tables of vectors looked up by index."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau.autograd import no_grad
from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.nn.parameter import Parameter

from .module import Module


def _table(num: int, dim: int, padding_idx: int | None) -> int | None:
    """padding_idx counted from the front, checked."""
    if padding_idx is not None:
        if not -num <= padding_idx < num:
            raise AssertionError(f"Padding_idx must be within num_embeddings: {padding_idx} is outside "
                                 f"[-{num}, {num})")
        if padding_idx < 0:
            padding_idx += num
    return padding_idx


def _check_weight(weight: Any, num: int, dim: int) -> None:
    if list(weight.shape) != [num, dim]:
        raise AssertionError("The weight must have shape (num_embeddings, embedding_dim): "
                             f"{list(weight.shape)} is not [{num}, {dim}]")


class Embedding(Module):
    """A table of num_embeddings vectors: integers (*) in, vectors (*, embedding_dim) out.

    Args:
        padding_idx: a row that starts as zeros and gets no gradient.
        max_norm: rows that are looked up are first shrunk, in place, to at most this norm_type-norm.
        scale_grad_by_freq: gradients are divided by how often a row occurs in the batch.
        sparse: the gradient of the weight is a sparse tensor, for SGD, Adagrad and SparseAdam.

    Initial values are standard normal.
    """

    __constants__ = ["num_embeddings", "embedding_dim", "padding_idx", "max_norm", "norm_type",
                     "scale_grad_by_freq", "sparse"]
    weight: Any

    def __init__(self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None,
                 max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
                 sparse: bool = False, _weight: Any = None, _freeze: bool = False, device: Any = None,
                 dtype: Any = None) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = _table(num_embeddings, embedding_dim, padding_idx)
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        if _weight is None:
            self.weight = Parameter(flambeau.empty((num_embeddings, embedding_dim), device=device,
                                                   dtype=dtype),
                                    requires_grad=not _freeze)
            self.reset_parameters()
        else:
            _check_weight(_weight, num_embeddings, embedding_dim)
            self.weight = Parameter(_weight, requires_grad=not _freeze)
        self.sparse = sparse

    def reset_parameters(self) -> None:
        """Draw the table anew."""
        init.normal_(self.weight)
        self._fill_padding_idx_with_zero()

    def _fill_padding_idx_with_zero(self) -> None:
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)

    def forward(self, input: Any) -> Any:
        return F.embedding(input, self.weight, self.padding_idx, self.max_norm, self.norm_type,
                           self.scale_grad_by_freq, self.sparse)

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.padding_idx is not None:
            text += f", padding_idx={self.padding_idx}"
        if self.max_norm is not None:
            text += f", max_norm={self.max_norm}"
        if self.norm_type != 2:
            text += f", norm_type={self.norm_type}"
        if self.scale_grad_by_freq is not False:
            text += f", scale_grad_by_freq={self.scale_grad_by_freq}"
        if self.sparse is not False:
            text += ", sparse=True"
        return text

    @classmethod
    def from_pretrained(cls, embeddings: Any, freeze: bool = True, padding_idx: int | None = None,
                        max_norm: float | None = None, norm_type: float = 2.0,
                        scale_grad_by_freq: bool = False, sparse: bool = False) -> Embedding:
        """A layer over a given table (rows, embedding_dim); with `freeze` it is not trained."""
        if embeddings.dim() != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        rows, columns = embeddings.shape
        return cls(rows, columns, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse,
                   _weight=embeddings, _freeze=freeze)


class EmbeddingBag(Module):
    """Sums, means or maxima of looked-up vectors, bag by bag.

    Args:
        mode: "sum", "mean" or "max".
        include_last_offset: the offsets have one more entry, the end of the last bag.
    """

    __constants__ = ["num_embeddings", "embedding_dim", "max_norm", "norm_type", "scale_grad_by_freq", "mode",
                     "sparse", "include_last_offset", "padding_idx"]
    weight: Any

    def __init__(self, num_embeddings: int, embedding_dim: int, max_norm: float | None = None,
                 norm_type: float = 2.0, scale_grad_by_freq: bool = False, mode: str = "mean",
                 sparse: bool = False, _weight: Any = None, include_last_offset: bool = False,
                 padding_idx: int | None = None, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.padding_idx = _table(num_embeddings, embedding_dim, padding_idx)
        if _weight is None:
            self.weight = Parameter(flambeau.empty((num_embeddings, embedding_dim), device=device,
                                                   dtype=dtype))
            self.reset_parameters()
        else:
            _check_weight(_weight, num_embeddings, embedding_dim)
            self.weight = Parameter(_weight)
        self.mode = mode
        self.sparse = sparse
        self.include_last_offset = include_last_offset

    reset_parameters = Embedding.reset_parameters
    _fill_padding_idx_with_zero = Embedding._fill_padding_idx_with_zero

    def forward(self, input: Any, offsets: Any = None, per_sample_weights: Any = None) -> Any:
        return F.embedding_bag(input, self.weight, offsets, self.max_norm, self.norm_type,
                               self.scale_grad_by_freq, self.mode, self.sparse, per_sample_weights,
                               self.include_last_offset, self.padding_idx)

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.max_norm is not None:
            text += f", max_norm={self.max_norm}"
        if self.norm_type != 2:
            text += f", norm_type={self.norm_type}"
        if self.scale_grad_by_freq is not False:
            text += f", scale_grad_by_freq={self.scale_grad_by_freq}"
        text += f", mode={self.mode!r}"
        if self.padding_idx is not None:
            text += f", padding_idx={self.padding_idx}"
        return text

    @classmethod
    def from_pretrained(cls, embeddings: Any, freeze: bool = True, max_norm: float | None = None,
                        norm_type: float = 2.0, scale_grad_by_freq: bool = False, mode: str = "mean",
                        sparse: bool = False, include_last_offset: bool = False,
                        padding_idx: int | None = None) -> EmbeddingBag:
        """A layer over a given table (rows, embedding_dim); with `freeze` it is not trained."""
        if embeddings.dim() != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        rows, columns = embeddings.shape
        layer = cls(rows, columns, max_norm, norm_type, scale_grad_by_freq, mode, sparse, _weight=embeddings,
                    include_last_offset=include_last_offset, padding_idx=padding_idx)
        layer.weight.requires_grad = not freeze
        return layer
