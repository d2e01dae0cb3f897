"""`torch.sparse`: functions of sparse tensors, and the old types torch.sparse.FloatTensor and its relatives.

See docs/sparse.md for what sparse tensors can do.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any

from ._unavailable import missing, refusal
from .core import dtype as dtypes
from .core.dtype import SPARSE_COO, SPARSE_CSR
from .core.objects import TensorBase, dtype_of
from .kernels.services import is_float
from .ops import sparse_create as _create
from .ops import sparse_moves as _moves
from .ops import sparse_products as _products
from .ops._args import np_dtype
from .ops._args import tensor as _tensor
from .ops._sparse import data, is_sparse
from .ops.conversion import TYPE_NAMES
from .ops.matmul import mm as _mm
from .ops.sparse_create import (
    sparse_bsc_tensor,
    sparse_bsr_tensor,
    sparse_compressed_tensor,
    sparse_coo_tensor,
    sparse_csc_tensor,
    sparse_csr_tensor,
    spdiags,
)

__all__ = ["addmm", "as_sparse_gradcheck", "check_sparse_tensor_invariants", "log_softmax", "mm", "sampled_addmm", "softmax",
           "sparse_bsc_tensor", "sparse_bsr_tensor", "sparse_compressed_tensor", "sparse_coo_tensor", "sparse_csc_tensor",
           "sparse_csr_tensor", "spdiags", "sum"]

globals().update(missing(
    __name__, "to_sparse_semi_structured SparseSemiStructuredTensor SparseSemiStructuredTensorCUTLASS "
    "SparseSemiStructuredTensorCUSPARSELT", "semi-structured sparsity is a format of CUDA devices. Use a dense tensor."))


def mm(mat1: Any, mat2: Any, reduce: str = "sum") -> Any:
    """The product of two matrices, at least one of them sparse.

    Args:
        mat1: (m, k). mat2: (k, n).
        reduce: how the products of one row's elements become one: "sum"; for mat1 in layout torch.sparse_csr also "mean",
            "amax" and "amin" (0 for a row without elements).

    Returns:
        Tensor (m, n): dense when one of the two is, else sparse. The gradient of a sparse matrix has its own positions.

    Raises:
        RuntimeError: sizes or dtypes that differ.

    >>> eye = flambeau.eye(2).to_sparse()
    >>> flambeau.sparse.mm(eye, flambeau.tensor([[1.], [2.]])).tolist()
    [[1.0], [2.0]]
    """
    if reduce != "sum":
        return _products.reduced(_tensor(mat1, "torch.sparse.mm"), _tensor(mat2, "torch.sparse.mm", "mat2", 2), reduce)
    return _products.masked_product(_tensor(mat1, "torch.sparse.mm"), _tensor(mat2, "torch.sparse.mm", "mat2", 2))


def addmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta * input + alpha * (mat1 @ mat2) with a sparse matrix mat1; gradients as those of `mm`.

    >>> flambeau.sparse.addmm(flambeau.ones(2, 1), flambeau.eye(2).to_sparse(), flambeau.ones(2, 1), alpha=2).tolist()
    [[3.0], [3.0]]
    """
    return _products.masked_addmm(input, _tensor(mat1, "torch.sparse.addmm", "mat1", 2),
                                  _tensor(mat2, "torch.sparse.addmm", "mat2", 3), beta, alpha)


def sampled_addmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Any:
    """beta * input + alpha * (mat1 @ mat2) at the positions of input, a matrix in layout torch.sparse_csr.

    >>> pattern = flambeau.eye(2).to_sparse_csr()
    >>> flambeau.sparse.sampled_addmm(pattern, flambeau.ones(2, 3), flambeau.ones(3, 2)).values().tolist()
    [4.0, 4.0]
    """
    if not is_sparse(input) or data(input).layout is not SPARSE_CSR:
        raise RuntimeError(f"sampled_addmm: Expected input tensor to be in layout SparseCsr, but got {input.layout!r}. "
                           "Convert it with .to_sparse_csr().")
    if out is not None:
        raise NotImplementedError("sampled_addmm(out=) is not supported: use the result.")
    if mat1.shape[1] != mat2.shape[0] or (mat1.shape[0], mat2.shape[1]) != tuple(input.shape):
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({tuple(mat1.shape)} and {tuple(mat2.shape)}) to "
                           f"{tuple(input.shape)}, that of input")
    return _products.sampled(input, mat1, mat2, beta, alpha)


def sum(input: Any, dim: Any = None, dtype: Any = None) -> Any:
    """The sum of all elements, a dense scalar, or over dimensions: sparse while a sparse dimension is left.

    >>> flambeau.sparse.sum(flambeau.eye(3).to_sparse(), 0).to_dense().tolist()
    [1.0, 1.0, 1.0]
    """
    if not is_sparse(_tensor(input, "torch.sparse.sum")):
        raise RuntimeError("torch.sparse.sum: expected a sparse tensor, but got a dense one. Use torch.sum.")
    return _moves.summed(input, dim, False, None if dtype is None else np_dtype(dtype))


def _soft(name: str, input: Any, dim: int, dtype: Any) -> Any:
    if not is_sparse(_tensor(input, name)):
        raise RuntimeError(f"torch.sparse.{name}: expected a sparse tensor, but got a dense one. Use torch.{name}.")
    t = input if dtype is None else input.to(dtype)
    if not is_float(dtype_of(t)):
        raise NotImplementedError(f'"{name}" not implemented for {t.dtype}: give dtype=torch.float32')
    return _moves.soften(t, dim, name == "log_softmax")


def softmax(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """softmax along dim over the elements that are there: the others count as -inf.

    >>> s = flambeau.sparse_coo_tensor([[0, 0], [0, 2]], [1., 1.], (1, 3))
    >>> flambeau.sparse.softmax(s, 1).to_dense().tolist()
    [[0.5, 0.0, 0.5]]
    """
    return _soft("softmax", input, dim, dtype)


def log_softmax(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """log(softmax) along dim over the elements that are there.

    >>> s = flambeau.sparse_coo_tensor([[0], [1]], [5.], (1, 3))
    >>> flambeau.sparse.log_softmax(s, 1).values().tolist()
    [0.0]
    """
    return _soft("log_softmax", input, dim, dtype)


def hspmm(mat1: Any, mat2: Any) -> Any:
    """`torch.hspmm`: the product of a sparse and a dense matrix, in a tensor of sparse rows.

    Args:
        mat1: (m, k) in layout torch.sparse_coo. mat2: (k, n), dense.

    Returns:
        Tensor (m, n) with one sparse and one dense dimension, which holds the rows where mat1 has elements.

    >>> flambeau.hspmm(flambeau.sparse_coo_tensor([[1], [0]], [2.], (3, 2)), flambeau.ones(2, 2)).values().tolist()
    [[2.0, 2.0]]
    """
    return _products.sparse_rows(_tensor(mat1, "hspmm", "mat1", 1), _tensor(mat2, "hspmm", "mat2", 2))


def sspaddmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """`torch.sspaddmm`: beta * input + alpha * (mat1 @ mat2), for a sparse input and mat1 and a dense mat2: sparse.

    >>> eye = flambeau.eye(2).to_sparse()
    >>> flambeau.sspaddmm(eye, eye, flambeau.ones(2, 2), beta=2).to_dense().tolist()
    [[3.0, 1.0], [1.0, 3.0]]
    """
    a, s = _tensor(input, "sspaddmm"), _tensor(mat1, "sspaddmm", "mat1", 2)
    b = _tensor(mat2, "sspaddmm", "mat2", 3)
    if not is_sparse(a) or not is_sparse(s):
        raise RuntimeError("sspaddmm: expected input and mat1 to be sparse, but got "
                           f"{'a dense input' if not is_sparse(a) else 'a dense mat1'}. Use torch.addmm.")
    return a * beta + _products.masked_product(s, b, "sspaddmm").to_sparse() * alpha


def spmm(input: Any, mat2: Any) -> Any:
    """`torch.spmm`: as `torch.mm`, whose gradient of a sparse matrix is dense."""
    return _mm(input, mat2)


def smm(input: Any, mat: Any) -> Any:
    """`torch.smm`: the product of a sparse and a dense matrix, in coordinate layout."""
    return mm(input, mat).to_sparse()


def solve(*args: Any, **kwargs: Any) -> Any:
    raise NotImplementedError("torch.sparse.solve is not supported: use torch.linalg.solve of A.to_dense().")


spsolve = solve


def as_sparse_gradcheck(gradcheck: Any) -> Any:
    """gradcheck for functions of sparse tensors: it checks the values at the positions of each."""

    @functools.wraps(gradcheck)
    def checked(fn: Any, inputs: Any, **kwargs: Any) -> Any:
        kwargs.pop("masked", None)
        given = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
        sparse = [t.coalesce() if isinstance(t, TensorBase) and t.is_sparse else t for t in given]

        def of_values(*values: Any) -> Any:
            made = [_create.with_values(data(s).pattern, v) if is_sparse(s) else v
                    for s, v in zip(sparse, values, strict=True)]
            out = fn(*made)
            several = out if isinstance(out, (tuple, list)) else (out,)
            dense = tuple(o.to_dense() if is_sparse(o) else o for o in several)
            return dense if isinstance(out, (tuple, list)) else dense[0]

        leaves = [s.detach().values().clone().requires_grad_(t.requires_grad) if is_sparse(s) else s
                  for s, t in zip(sparse, given, strict=True)]
        return gradcheck(of_values, tuple(leaves), **kwargs)

    return checked


class check_sparse_tensor_invariants(contextlib.ContextDecorator):
    """A block in which `is_coalesced=True` is verified too. What else a sparse tensor needs is always checked.

    Args:
        enable: on or off in the block.
    """

    def __init__(self, enable: bool = True) -> None:
        self.on = enable

    @staticmethod
    def is_enabled() -> bool:
        """Whether the checks are on."""
        return _create.invariants[0]

    @staticmethod
    def enable() -> None:
        """Switch the checks on."""
        _create.invariants[0] = True

    @staticmethod
    def disable() -> None:
        """Switch the checks off."""
        _create.invariants[0] = False

    def __enter__(self) -> check_sparse_tensor_invariants:
        self.before = _create.invariants[0]
        _create.invariants[0] = self.on
        return self

    def __exit__(self, *error: Any) -> None:
        _create.invariants[0] = self.before


class _SparseType(type):
    """The class of torch.sparse.FloatTensor and the like: isinstance asks layout and dtype."""

    dtype: dtypes.DType

    def __instancecheck__(cls, instance: Any) -> bool:
        return is_sparse(instance) and data(instance).layout is SPARSE_COO and instance.dtype is cls.dtype

    def __call__(cls, *args: Any, device: Any = None) -> Any:
        """(), sizes, (indices, values), or (indices, values, size)."""
        if not args:
            args = (0,)
        if all(isinstance(a, int) for a in args) or len(args) == 1:
            return sparse_coo_tensor(size=args if isinstance(args[0], int) else args[0], dtype=cls.dtype, device=device)
        return sparse_coo_tensor(*args, device=device)          # as in PyTorch, of the dtype of the values


for _name, _short in TYPE_NAMES.items():
    if not _short.startswith("Complex"):
        _class = _SparseType(_short + "Tensor", (), {"__module__": "torch.sparse", "dtype": dtypes.by_name[_name]})
        globals()[_class.__name__] = _class

_unknown = refusal(__name__, "see docs/sparse.md for what sparse tensors can do, and .to_dense() for the rest")


def __getattr__(name: str) -> Any:
    return _unknown(name)
