"""Making sparse tensors: from coordinates, from compressed rows or columns, from dense tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.apply import apply1
from flambeau.core.basics import set_requires_grad
from flambeau.core.dtype import (
    SPARSE_BSC,
    SPARSE_BSR,
    SPARSE_COO,
    SPARSE_CSC,
    SPARSE_CSR,
    STRIDED,
    as_device,
)
from flambeau.core.objects import TensorBase, array_of, make, shape_of
from flambeau.core.state import set_grad_enabled
from flambeau.kernels import sparse as k
from flambeau.kernels import sparse_layouts as layouts
from flambeau.kernels.services import default_array_type
from flambeau.kernels.sparse import Compressed, Pattern

from . import sparse_rules
from ._factory import array_dtype
from ._from_data import from_data
from ._sparse import GATHER, data, flat, from_coo, in_layout, is_sparse, tensor_of, to_dense, values_at, with_values

COMPRESSED = {SPARSE_CSR: "csr", SPARSE_CSC: "csc", SPARSE_BSR: "bsr", SPARSE_BSC: "bsc"}
invariants = [False]        # torch.sparse.check_sparse_tensor_invariants


def _tensor(value: Any, dtype: Any = None) -> Any:
    """Values or indices as a tensor."""
    t: Any = value if isinstance(value, TensorBase) else make(from_data(value, None))
    if dtype is not None and t.dtype is not dtype:
        t = t.to(dtype)
    return t


def _indices(value: Any, name: str) -> np.ndarray:
    t = _tensor(value)
    a = array_of(t)
    if a.dtype.kind not in "iu" and a.size:
        raise RuntimeError(f"{name}: indices must be an int64 tensor, but got {t.dtype}. Use .long() if these are "
                           "positions.")
    return a


def _leaf(t: Any, requires_grad: bool) -> Any:
    """A new tensor that has no history when it is asked to require grad itself."""
    if requires_grad:
        t = t.detach()
        set_requires_grad(t, True)
    return t


def _size_of(sizes: tuple) -> tuple[int, ...]:
    if len(sizes) == 1 and not isinstance(sizes[0], int):
        sizes = tuple(sizes[0])
    return tuple(int(n) for n in sizes)


def sparse_coo_tensor(indices: Any = None, values: Any = None, size: Any = None, *, dtype: Any = None, device: Any = None,
                      pin_memory: bool = False, requires_grad: bool = False, check_invariants: bool | None = None,
                      is_coalesced: bool | None = None) -> Any:
    """A sparse tensor in coordinate layout: values at positions, zero elsewhere.

    Args:
        indices: int64, (number of sparse dimensions, number of elements).
        values: (number of elements, *), the trailing dimensions being dense ones. Values at one position are added.
        size: of the tensor; by default the smallest that holds the indices. Alone, it gives a tensor of zeros.
        is_coalesced: the caller's word that positions are sorted and distinct.

    Returns:
        Tensor. A gradient flows to values.

    Raises:
        RuntimeError: shapes that do not fit, or an index outside size.

    >>> s = flambeau.sparse_coo_tensor([[0, 1], [2, 0]], [3., 4.], (2, 3))
    >>> s.to_dense().tolist()
    [[0.0, 0.0, 3.0], [4.0, 0.0, 0.0]]
    """
    as_device(device)
    if values is None:
        shape = size if size is not None else indices
        if shape is None:
            raise TypeError("sparse_coo_tensor() needs indices and values, or size")
        d = array_dtype(dtype, "sparse_coo_tensor") or default_array_type()
        return _leaf(tensor_of(sparse_rules.empty(_size_of((shape,)), SPARSE_COO, d)), requires_grad)
    at = _indices(indices, "sparse_coo_tensor").astype(np.int64, copy=False)
    v = _tensor(values, dtype)
    if at.ndim != 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(at.shape)}")
    n, nnz = at.shape
    given = tuple(shape_of(v))
    if n == 0 and not given:
        v, given = v.reshape(1), (1,)
    if not given or given[0] != nnz:
        raise RuntimeError(f"indices and values must have same nnz, the indices have  {nnz}, nnz from values: "
                           f"{given[0] if given else 'a scalar'}")
    if at.size and int(at.min()) < 0:
        raise RuntimeError(f"found negative index {int(at.min())} in the indices of sparse_coo_tensor()")
    if size is None:
        shape = (*((int(m) + 1 for m in at.max(1)) if nnz else (0,) * n), *given[1:])
    else:
        shape = _size_of((size,))
        if len(shape) != n + len(given) - 1:
            raise RuntimeError(f"number of dimensions must be sparse_dim ({n}) + dense_dim ({len(given) - 1}), but got "
                               f"{len(shape)}: size is {list(shape)}")
        if shape[n:] != given[1:]:
            raise RuntimeError(f"values has incorrect size, expected {[nnz, *shape[n:]]}, got {list(given)}")
        for d in range(n):
            if nnz and int(at[d].max()) >= shape[d]:
                raise RuntimeError(f"size is inconsistent with indices: for dim {d}, size is {shape[d]} but found index "
                                   f"{int(at[d].max())}")
    pattern = Pattern(at, shape, bool(is_coalesced))
    if is_coalesced and (check_invariants or check_invariants is None and invariants[0]) and nnz > 1:
        keys = pattern.keys()
        if not bool((keys[1:] > keys[:-1]).all()):
            raise RuntimeError("cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor: they are "
                               "not sorted, or name a position twice. Leave it out and call coalesce().")
    return _leaf(with_values(pattern, v, "SparseCooTensorWithDimsAndTensorsBackward0"), requires_grad)


def sparse_compressed_tensor(compressed_indices: Any, plain_indices: Any, values: Any, size: Any = None, *,
                             dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: bool = False,
                             requires_grad: bool = False, check_invariants: bool | None = None) -> Any:
    """A sparse matrix compressed along its rows (CSR, BSR) or columns (CSC, BSC).

    Args:
        compressed_indices: where each row (column) begins among the elements; one longer than there are.
        plain_indices: the column (row) of each element.
        values: one for each; blocks, (n, rows, columns), for BSR and BSC.
        layout: torch.sparse_csr, sparse_csc, sparse_bsr or sparse_bsc.

    Raises:
        RuntimeError: indices that do not fit together. NotImplementedError: a batch of matrices.
    """
    as_device(device)
    if layout not in COMPRESSED:
        raise RuntimeError(f"sparse_compressed_tensor expected sparse compressed tensor layout, but got {layout!r}")
    name = f"sparse_{COMPRESSED[layout]}_tensor"
    first, plain = _indices(compressed_indices, name), _indices(plain_indices, name)
    v = _tensor(values, dtype)
    if first.ndim != 1 or plain.ndim != 1:
        raise NotImplementedError(f"{name}: batches of sparse matrices are not supported (indices of shapes "
                                  f"{list(first.shape)} and {list(plain.shape)}). Keep a list of matrices.")
    blocks = layout in k.BLOCKS
    given = tuple(shape_of(v))
    if len(given) != (3 if blocks else 1):
        raise RuntimeError(f"{name}: values must have {3 if blocks else 1} dimensions, but got shape {list(given)}")
    block = (given[1], given[2]) if blocks else None
    if plain.size != given[0]:
        raise RuntimeError(f"{name}: the number of plain indices, {plain.size}, is not that of values, {given[0]}")
    if not first.size or first[0] != 0 or first[-1] != plain.size or bool((np.diff(first) < 0).any()):
        raise RuntimeError(f"{name}: compressed indices must begin with 0, never fall, and end with the number of elements "
                           f"({plain.size}), but got {first[:8].tolist()}")
    high, wide = block or (1, 1)
    along, across = first.size - 1, int(plain.max()) + 1 if plain.size else 0
    if size is None:
        shape = (along * high, across * wide) if layout in k.ROWS else (across * high, along * wide)
    else:
        shape = _size_of((size,))
        if len(shape) != 2:
            raise NotImplementedError(f"{name}: only matrices are supported, and size is {list(shape)}. Keep a list of "
                                      "matrices, or use torch.sparse_coo.")
    rows, columns = shape[0] // high, shape[1] // wide
    if (rows if layout in k.ROWS else columns) != along:
        raise RuntimeError(f"{name}: compressed indices of length {first.size} do not fit size {list(shape)}")
    if plain.size and (int(plain.min()) < 0 or across > (columns if layout in k.ROWS else rows)):
        raise RuntimeError(f"{name}: size is inconsistent with indices: found plain index "
                           f"{int(plain.min()) if int(plain.min()) < 0 else across - 1} for size {list(shape)}")
    return _leaf(with_values(Compressed(layout, first, plain, shape, block), v, "SparseCompressedTensorBackward0"),
                 requires_grad)


def _compressed(layout: Any, compressed: str, plain: str) -> Any:
    name = f"sparse_{COMPRESSED[layout]}_tensor"

    def function(*args: Any, **kwargs: Any) -> Any:
        names = (compressed, plain, "values", "size")
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        given["layout"] = layout
        return sparse_compressed_tensor(given.pop(compressed), given.pop(plain), given.pop("values"),
                                        given.pop("size", None), **given)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""A sparse matrix in layout {layout!r}: see `sparse_compressed_tensor`.

    Args:
        {compressed}, {plain}, values, size: as there, positional or named.
    """
    return function


sparse_csr_tensor = _compressed(SPARSE_CSR, "crow_indices", "col_indices")
sparse_csc_tensor = _compressed(SPARSE_CSC, "ccol_indices", "row_indices")
sparse_bsr_tensor = _compressed(SPARSE_BSR, "crow_indices", "col_indices")
sparse_bsc_tensor = _compressed(SPARSE_BSC, "ccol_indices", "row_indices")


# --------------------------------------------------------------------------------- from other tensors


def to_sparse(t: Any, layout: Any = None, sparse_dim: int | None = None, block: Any = None) -> Any:
    """A dense or sparse tensor in a sparse layout (None: coordinates)."""
    layout = SPARSE_COO if layout is None else layout
    if layout is STRIDED:
        return to_dense(t) if is_sparse(t) else t
    if (layout in k.BLOCKS) != (block is not None):
        raise RuntimeError("to_sparse: conversion to a layout of blocks needs blocksize, and one without takes none"
                           f" (layout {layout!r}, blocksize {block})")
    block = None if block is None else (int(block[0]), int(block[1]))
    if is_sparse(t):
        if data(t).layout is layout and getattr(data(t).pattern, "block", None) == block:
            return t
        return in_layout(t, layout, block)
    a = array_of(t)
    n = a.ndim if sparse_dim is None else int(sparse_dim)
    if not 0 <= n <= a.ndim or (n == 0 and a.ndim):
        raise RuntimeError(f"sparse_dim must be >= 1 and at most the number of dimensions, {a.ndim}, but got {n}")
    if layout is not SPARSE_COO and a.ndim != 2:
        raise NotImplementedError(f"a tensor of shape {list(a.shape)} in layout {layout!r}: only matrices are supported. "
                                  "Use to_sparse() for torch.sparse_coo.")
    pattern = layouts.pattern_of(a, n)
    if block is not None and 0 not in block and not (a.shape[0] % block[0] or a.shape[1] % block[1]):
        pattern = _whole_blocks(pattern, block)
    v = apply1(GATHER, t, (pattern,))
    if layout is SPARSE_COO:
        return with_values(pattern, v, "ToSparseBackward1" if sparse_dim is None else "ToSparseBackward0")
    return from_coo(pattern, v, layout, block, "ToSparse" + k.LAYOUT_NAMES[layout][6:] + "Backward0")


def _whole_blocks(pattern: Pattern, block: tuple[int, int]) -> Pattern:
    """The positions of all elements of the blocks that have some."""
    found, _ = layouts.compress(pattern, SPARSE_BSR, block)
    at = found.flat()
    order = np.argsort(at.keys(), kind="stable")
    return Pattern(np.ascontiguousarray(at.indices[:, order]), pattern.shape, True)


def sparse_mask(t: Any, mask: Any) -> Any:
    """The elements of t at the positions of a sparse tensor, in its layout."""
    if not is_sparse(mask):
        raise NotImplementedError(f"sparse_mask: the mask must be a sparse tensor, and is {mask.layout!r}. For a dense one "
                                  "use torch.where(mask, t, 0).")
    if tuple(shape_of(t)) != tuple(shape_of(mask)):
        raise RuntimeError(f"sparse_mask(): operands have incompatible sizes: self {list(shape_of(t))}, mask "
                           f"{list(shape_of(mask))}")
    pattern = data(mask).pattern
    if is_sparse(t):
        p, v = flat(t)
        t = with_values(p, v)
    return with_values(pattern, values_at(t, pattern), "SparseMaskBackward0")


def spdiags(diagonals: Any, offsets: Any, shape: Any, layout: Any = None) -> Any:
    """A sparse matrix with rows of `diagonals` on its diagonals.

    Args:
        diagonals: (n, m), the element j of a row standing in column j. offsets: (n), which diagonal each is.
        shape: of the matrix. layout: torch.sparse_coo (the default), sparse_csr or sparse_csc.

    >>> flambeau.sparse.spdiags(flambeau.ones(1, 2), flambeau.tensor([1]), (2, 2)).to_dense().tolist()
    [[0.0, 1.0], [0.0, 0.0]]
    """
    old = set_grad_enabled(False)
    try:
        rows = array_of(_tensor(diagonals))
        at = array_of(_tensor(offsets)).reshape(-1)
    finally:
        set_grad_enabled(old)
    rows = rows.reshape(1, -1) if rows.ndim == 1 else rows
    if rows.shape[0] != at.size:
        raise RuntimeError(f"spdiags(): number of diagonals ({rows.shape[0]}) does not match the number of offsets "
                           f"({at.size})")
    if np.unique(at).size != at.size:
        raise RuntimeError(f"spdiags(): Offset tensor contains duplicate values: {at.tolist()}")
    if len(shape) != 2:
        raise RuntimeError(f"spdiags(): Output shape must be 2d, but is {list(shape)}")
    column = np.broadcast_to(np.arange(rows.shape[1]), rows.shape)
    row = column - at[:, None]
    kept = (row >= 0) & (row < shape[0]) & (column < shape[1])
    found = tensor_of(k.Sparse(Pattern(np.stack([row[kept], column[kept]]), tuple(shape)), rows[kept]))
    return found if layout is None or layout is SPARSE_COO else to_sparse(found, layout)
