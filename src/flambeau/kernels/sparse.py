"""Sparse arrays: where the elements stand (a pattern), and their values.

`Sparse` is what a sparse tensor has instead of an array; a backward carries it as a gradient, so it answers `np.add` and
the few questions that the engine asks of an array. A pattern is never changed, and keeps what was found out about it
(its order, its rows), so that a matrix which is multiplied in every step is sorted once.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from flambeau.core.dtype import CPU, SPARSE_BSC, SPARSE_BSR, SPARSE_COO, SPARSE_CSC, SPARSE_CSR, Layout

from .casting import widen

ROWS = (SPARSE_CSR, SPARSE_BSR)             # compressed along rows; the others along columns
BLOCKS = (SPARSE_BSR, SPARSE_BSC)
LAYOUT_NAMES = {SPARSE_COO: "Sparse", SPARSE_CSR: "SparseCsr", SPARSE_CSC: "SparseCsc", SPARSE_BSR: "SparseBsr",
                SPARSE_BSC: "SparseBsc"}


class Pattern:
    """Positions in coordinate layout.

    Attributes:
        indices: int64, (number of sparse dimensions, number of elements).
        shape: of the whole tensor; the dimensions behind the sparse ones are dense.
        coalesced: known to be sorted, each position once.
    """

    layout = SPARSE_COO

    def __init__(self, indices: np.ndarray, shape: Sequence[int], coalesced: bool = False) -> None:
        self.indices = indices
        self.shape = tuple(shape)
        self.coalesced = coalesced
        self._kept: dict[str, Any] = {}

    @property
    def nnz(self) -> int:
        return self.indices.shape[1]

    @property
    def sparse_dim(self) -> int:
        return self.indices.shape[0]

    @property
    def values_shape(self) -> tuple[int, ...]:
        return (self.nnz, *self.shape[self.sparse_dim:])

    @property
    def unique(self) -> bool:
        return self.coalesced

    def __reduce__(self) -> tuple:
        return Pattern, (self.indices, self.shape, self.coalesced)

    def flat(self) -> Pattern:
        return self

    def keys(self) -> np.ndarray:
        """The number of each element's position, counted row by row."""
        found = self._kept.get("keys")
        if found is None:
            found = np.zeros(self.nnz, np.int64)
            for row, size in zip(self.indices, self.shape, strict=False):
                found *= size
                found += row
            self._kept["keys"] = found
        return found

    def merged(self) -> tuple[Pattern, np.ndarray | None]:
        """The coalesced pattern, and the place in it of each element (None: they stand there already)."""
        if self.coalesced:
            return self, None
        found = self._kept.get("merged")
        if found is None:
            keys = self.keys()
            if self.nnz < 2 or bool((keys[1:] > keys[:-1]).all()):
                found = (Pattern(self.indices, self.shape, True), None)
            else:
                _, first, places = np.unique(keys, return_index=True, return_inverse=True)
                found = (Pattern(np.ascontiguousarray(self.indices[:, first]), self.shape, True), places.reshape(-1))
            self._kept["merged"] = found
        return found

    def rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """A matrix by rows: (pointer, columns, order of the elements or None when they are sorted by row)."""
        found = self._kept.get("rows")
        if found is None:
            row, column = self.indices
            order = None if self.nnz < 2 or bool((row[1:] >= row[:-1]).all()) else np.argsort(row, kind="stable")
            small = max(self.nnz, *self.shape[:2], 1) < 2**31
            kind = np.int32 if small else np.int64
            pointer = np.zeros(self.shape[0] + 1, kind)
            np.cumsum(np.bincount(row, minlength=self.shape[0]), out=pointer[1:])
            found = (pointer, (column if order is None else column[order]).astype(kind), order)
            self._kept["rows"] = found
        return found

    def transposed(self) -> Pattern:
        """The matrix with rows and columns exchanged, its elements in the same order."""
        found = self._kept.get("transposed")
        if found is None:
            found = Pattern(np.ascontiguousarray(self.indices[::-1]), (self.shape[1], self.shape[0]), False)
            found._kept["transposed"] = self
            self._kept["transposed"] = found
        return found

    def take(self, dense: np.ndarray) -> np.ndarray:
        """The elements of a dense array at the positions."""
        return dense[tuple(self.indices)] if self.sparse_dim else dense[None][:self.nnz]

    def spread(self, values: np.ndarray) -> np.ndarray:
        """A dense array of the values at their positions, added where several fall together."""
        out = np.zeros(self.shape, values.dtype)
        if not values.size:
            return out
        if self.coalesced and self.sparse_dim:
            out[tuple(self.indices)] = values
            return out
        n = prod(self.shape[:self.sparse_dim])
        return add_values(n, self.keys(), values).reshape(self.shape)


class Compressed:
    """Positions of a matrix compressed along rows (CSR, BSR) or columns (CSC, BSC).

    Attributes:
        layout: which of the four.
        compressed: where each row (column) begins among the elements, one longer than there are.
        plain: the column (row) of each element.
        block: (rows, columns) of a block, None when the elements are single.
    """

    coalesced = unique = True
    sparse_dim = 2

    def __init__(self, layout: Layout, compressed: np.ndarray, plain: np.ndarray, shape: Sequence[int],
                 block: tuple[int, int] | None = None) -> None:
        self.layout, self.compressed, self.plain, self.shape, self.block = layout, compressed, plain, tuple(shape), block
        self._flat: Pattern | None = None

    @property
    def nnz(self) -> int:
        return self.plain.shape[0]

    @property
    def values_shape(self) -> tuple[int, ...]:
        return (self.nnz, *(self.block or ()))

    def __reduce__(self) -> tuple:
        return Compressed, (self.layout, self.compressed, self.plain, self.shape, self.block)

    def flat(self) -> Pattern:
        """The positions of `values.reshape(-1)` in coordinates."""
        if self._flat is None:
            lengths = np.diff(self.compressed)
            along = np.repeat(np.arange(lengths.size, dtype=np.int64), lengths)
            row, column = (along, self.plain) if self.layout in ROWS else (self.plain, along)
            if self.block is not None:
                high, wide = self.block
                row = np.broadcast_to((row * high)[:, None, None] + np.arange(high)[:, None], (self.nnz, high, wide))
                column = np.broadcast_to((column * wide)[:, None, None] + np.arange(wide), (self.nnz, high, wide))
            self._flat = Pattern(np.stack([row.reshape(-1), column.reshape(-1)]).astype(np.int64), self.shape)
        return self._flat

    def take(self, dense: np.ndarray) -> np.ndarray:
        return self.flat().take(dense).reshape(self.values_shape)

    def spread(self, values: np.ndarray) -> np.ndarray:
        return self.flat().spread(values.reshape(-1))


class Sparse:
    """The data of a sparse tensor: a pattern and the values at its positions.

    An in-place operator puts a new pattern and new values into it; tensors that share memory share this object.
    """

    __slots__ = ("pattern", "values")

    device = CPU
    stands_in = True            # for an array: nothing is left to be computed
    base = None                 # as an array that is no view
    dispatch: Any = None        # what operators do, (op, inputs, params, kind) -> value: set by `tensor`

    def __init__(self, pattern: Any, values: np.ndarray) -> None:
        self.pattern, self.values = pattern, values

    @property
    def shape(self) -> tuple[int, ...]:
        return self.pattern.shape

    @property
    def dtype(self) -> np.dtype:
        return self.values.dtype

    @property
    def layout(self) -> Layout:
        return self.pattern.layout

    @property
    def ndim(self) -> int:
        return len(self.pattern.shape)

    @property
    def size(self) -> int:
        return prod(self.pattern.shape)

    def __reduce__(self) -> tuple:
        return Sparse, (self.pattern, self.values)

    def clone(self) -> Sparse:
        return Sparse(self.pattern, self.values.copy())

    def cast(self, dtype: np.dtype) -> Sparse:
        values = self.values
        if values.dtype.kind == "c" and dtype.kind != "c":
            values = values.real
        return Sparse(self.pattern, values.astype(dtype))

    def dense(self) -> np.ndarray:
        return self.pattern.spread(self.values)

    def coalesce(self) -> Sparse:
        """Sorted, each position once."""
        pattern, places = self.pattern.merged() if self.pattern.layout is SPARSE_COO else (self.pattern, None)
        if pattern is self.pattern:
            return self
        return Sparse(pattern, self.values if places is None else add_values(pattern.nnz, places, self.values))

    def materialise(self, tensor: Any) -> np.ndarray:
        """Raise: there is no dense array, and none is made behind the user's back."""
        raise NotImplementedError(
            f"this operator is not implemented for sparse tensors: it got one of layout {self.layout!r} and shape "
            f"{list(self.shape)}. Call .to_dense() on it first, or see docs/sparse.md for what sparse tensors can do.")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        if ufunc is not np.add or method != "__call__" or options:
            return NotImplemented
        a, b = inputs
        if isinstance(a, Sparse) and isinstance(b, Sparse):
            return add(a, b)
        dense, sparse = (b, a) if isinstance(a, Sparse) else (a, b)
        total = np.array(dense) if out is None or out[0] is not dense else dense
        add_into(total, sparse)
        return total


def add_values(n: int, places: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Zeros (n, *) with the values (m, *) added at places (m,), in their order."""
    wide = widen(values.dtype)
    rest = values.shape[1:]
    if values.dtype.kind == "b":
        out = np.zeros((n, *rest), bool)
        np.logical_or.at(out, places, values)
        return out
    if values.ndim == 1:
        out = np.zeros(n, wide)
        np.add.at(out, places, values.astype(wide, copy=False))
    else:
        out = np.zeros((n, prod(rest)), wide)
        if values.size:
            _add_rows(out, places, values.reshape(len(values), -1).astype(wide, copy=False))
    return out.reshape((n, *rest)).astype(values.dtype, copy=False)


def _add_rows(out: np.ndarray, places: np.ndarray, rows: np.ndarray) -> None:
    """out[places] += rows, repeats in their order: first the first row of every place, then the second, and so on.

    Whole rows move, without collision, until few are left; those are added element by element.
    """
    order = np.argsort(places, kind="stable")
    sorted_places = places[order]
    new = np.ones(order.size, bool)
    new[1:] = sorted_places[1:] != sorted_places[:-1]
    first = np.flatnonzero(new)
    rank = np.arange(order.size) - np.repeat(first, np.diff(np.append(first, order.size)))
    left = order.size
    round_ = 0
    while left:
        now = order[rank == round_]
        if now.size * 8 < left:
            rest = np.sort(order[rank >= round_])
            width = out.shape[1]
            at = (places[rest, None] * width + np.arange(width)).reshape(-1)
            np.add.at(out.reshape(-1), at, rows[rest].reshape(-1))
            return
        out[places[now]] += rows[now]
        left -= now.size
        round_ += 1


def add_into(dense: np.ndarray, sparse: Sparse) -> None:
    """dense += sparse."""
    pattern, values = sparse.pattern, sparse.values
    if pattern.layout is not SPARSE_COO:
        pattern, values = pattern.flat(), values.reshape(-1)
    at = tuple(pattern.indices)
    values = values.astype(dense.dtype, copy=False)
    if pattern.coalesced:
        dense[at] += values
    elif values.ndim > 1 and values.size and dense.flags.c_contiguous:
        rows = dense.reshape(prod(pattern.shape[:pattern.sparse_dim]), -1)
        _add_rows(rows, pattern.keys(), values.reshape(pattern.nnz, -1))
    else:
        np.add.at(dense, at, values)


def add(a: Sparse, b: Sparse) -> Sparse:
    """a + b of one layout, in a's."""
    if a.pattern is b.pattern or (a.layout is b.layout and same_positions(a.pattern, b.pattern)):
        return Sparse(a.pattern, a.values + b.values)
    pattern, places_a, places_b = union(a.pattern.flat(), b.pattern.flat())
    dtype = np.result_type(a.values, b.values)
    rest = pattern.values_shape[1:]
    out = np.zeros(pattern.values_shape, dtype)
    out[places_a] = a.values.reshape((-1, *rest))
    out[places_b] += b.values.reshape((-1, *rest))
    total = Sparse(pattern, out)
    if a.layout is SPARSE_COO:
        return total
    from .sparse_layouts import to_layout

    return to_layout(total, a.layout, a.pattern.block)


def same_positions(a: Any, b: Any) -> bool:
    if a.shape != b.shape or a.nnz != b.nnz or a.layout is not b.layout:
        return False
    if a.layout is SPARSE_COO:
        return a.coalesced == b.coalesced and a.sparse_dim == b.sparse_dim and (
            a.indices is b.indices or bool(np.array_equal(a.indices, b.indices)))
    return a.block == b.block and np.array_equal(a.compressed, b.compressed) and np.array_equal(a.plain, b.plain)


def union(a: Pattern, b: Pattern) -> tuple[Pattern, np.ndarray, np.ndarray]:
    """The positions of both, and where those of a and of b stand among them.

    As PyTorch's addition: two lists are merged by walking along both, whether they are sorted or not.
    """
    x, y = a.keys(), b.keys()
    if _rising(x) and _rising(y):
        keys = np.union1d(x, y)
        at_a, at_b = np.searchsorted(keys, x), np.searchsorted(keys, y)
        n = keys.size
    else:
        at_a, at_b, n = _walk(x.tolist(), y.tolist())
    indices = np.empty((a.sparse_dim, n), np.int64)
    indices[:, at_b] = b.indices
    indices[:, at_a] = a.indices
    return Pattern(indices, a.shape, a.coalesced and b.coalesced), at_a, at_b


def _rising(keys: np.ndarray) -> bool:
    return keys.size < 2 or bool((keys[1:] > keys[:-1]).all())


def _walk(x: list, y: list) -> tuple[np.ndarray, np.ndarray, int]:
    at_x, at_y = [], []
    i = j = n = 0
    while i < len(x) and j < len(y):
        p, q = x[i], y[j]
        if p <= q:
            at_x.append(n)
            i += 1
        if q <= p:
            at_y.append(n)
            j += 1
        n += 1
    at_x.extend(range(n, n + len(x) - i))
    n += len(x) - i
    at_y.extend(range(n, n + len(y) - j))
    n += len(y) - j
    return np.array(at_x, np.int64), np.array(at_y, np.int64), n


def find(pattern: Pattern, wanted: Pattern) -> tuple[np.ndarray, np.ndarray]:
    """For each position in `wanted` its place in a coalesced pattern, and whether it is there (else place 0)."""
    keys, asked = pattern.keys(), wanted.keys()
    if not keys.size:
        return np.zeros(asked.size, np.int64), np.zeros(asked.size, bool)
    places = np.minimum(np.searchsorted(keys, asked), keys.size - 1)
    there = keys[places] == asked
    return np.where(there, places, 0), there
