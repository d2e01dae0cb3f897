"""Methods and properties of sparse tensors, and their printed form. What they call is imported when first used."""

from __future__ import annotations

from typing import Any

from flambeau.core import dtype as dtypes
from flambeau.core.dtype import SPARSE_BSC, SPARSE_BSR, SPARSE_COO, SPARSE_CSC, SPARSE_CSR, STRIDED
from flambeau.core.objects import make, shape_of
from flambeau.core.state import state

from . import _printing

_NAMES = {STRIDED: "Strided", SPARSE_COO: "Sparse", SPARSE_CSR: "SparseCsr", SPARSE_CSC: "SparseCsc",
          SPARSE_BSR: "SparseBsr", SPARSE_BSC: "SparseBsc"}
_ROWS, _COLUMNS = (SPARSE_CSR, SPARSE_BSR), (SPARSE_CSC, SPARSE_BSC)


def _data(t: Any, what: str, layouts: tuple, words: str) -> Any:
    """The sparse data of t, which must be of one of these layouts."""
    if t._array is not None or type(t._lazy) is not state.sparse or t._lazy.layout not in layouts:
        raise RuntimeError(f"{what} expected {words} tensor layout but got {_NAMES[t.layout]}"
                           + (": make it sparse with .to_sparse()" if t.layout is STRIDED else ""))
    return t._lazy


def _coo(t: Any, what: str) -> Any:
    return _data(t, what, (SPARSE_COO,), "sparse coordinate")


def _coalesced(t: Any, what: str) -> Any:
    s = _coo(t, what)
    if not s.pattern.coalesced:
        raise RuntimeError(f"Cannot get {what} on an uncoalesced tensor, please call .coalesce() first: it adds the values "
                           f"that share a position. _{what}() gives them as they are.")
    return s


def _operate(op: Any, inputs: tuple, params: Any, kind: int) -> Any:
    """The first operator on a sparse tensor loads the rules."""
    from flambeau.ops import sparse_rules  # noqa: F401
    from flambeau.ops._sparse import operate

    state.sparse.dispatch = staticmethod(operate)
    return operate(op, inputs, params, kind)


state.sparse.dispatch = staticmethod(_operate)


class SparseMethods:
    """What Tensor has for sparse layouts; most of it says on a dense tensor that it is dense."""

    @property
    def is_sparse(self: Any) -> bool:
        """Whether the layout is torch.sparse_coo."""
        return self._array is None and self.layout is SPARSE_COO

    @property
    def is_sparse_csr(self: Any) -> bool:
        """Whether the layout is torch.sparse_csr."""
        return self._array is None and self.layout is SPARSE_CSR

    def to_dense(self: Any, dtype: Any = None, *, masked_grad: Any = None) -> Any:
        """A dense tensor of the same values; the tensor itself when it is dense.

        The gradient of a sparse tensor is sparse, with the tensor's own positions.
        """
        t = self
        if self._array is None and self.layout is not STRIDED:
            from flambeau.ops._sparse import to_dense

            t = to_dense(self)
        return t if dtype is None else t.to(dtype)

    def to_sparse(self: Any, sparse_dim: Any = None, *, layout: Any = None, blocksize: Any = None,
                  dense_dim: Any = None) -> Any:
        """The tensor in a sparse layout: coordinates of its nonzero elements, or another layout.

        Args:
            sparse_dim: how many of the first dimensions are sparse; all by default.
            layout, blocksize: as in `to_sparse_csr` and its relatives.
        """
        from flambeau.ops.sparse_create import to_sparse

        if isinstance(sparse_dim, dtypes.Layout):
            sparse_dim, layout = None, sparse_dim
        if dense_dim:
            raise NotImplementedError("to_sparse(dense_dim=): compressed layouts with dense dimensions are not supported. "
                                      "Use to_sparse(sparse_dim), which gives torch.sparse_coo.")
        return to_sparse(self, layout, sparse_dim, blocksize)

    def to_sparse_coo(self: Any) -> Any:
        """The tensor in coordinate layout."""
        return self.to_sparse()

    def to_sparse_csr(self: Any, dense_dim: Any = None) -> Any:
        """The matrix with compressed rows."""
        return self.to_sparse(layout=SPARSE_CSR, dense_dim=dense_dim)

    def to_sparse_csc(self: Any, dense_dim: Any = None) -> Any:
        """The matrix with compressed columns."""
        return self.to_sparse(layout=SPARSE_CSC, dense_dim=dense_dim)

    def to_sparse_bsr(self: Any, blocksize: Any, dense_dim: Any = None) -> Any:
        """The matrix in blocks, by rows."""
        return self.to_sparse(layout=SPARSE_BSR, blocksize=blocksize, dense_dim=dense_dim)

    def to_sparse_bsc(self: Any, blocksize: Any, dense_dim: Any = None) -> Any:
        """The matrix in blocks, by columns."""
        return self.to_sparse(layout=SPARSE_BSC, blocksize=blocksize, dense_dim=dense_dim)

    def sparse_mask(self: Any, mask: Any) -> Any:
        """The elements at the positions of a sparse tensor, in its layout."""
        from flambeau.ops.sparse_create import sparse_mask

        return sparse_mask(self, mask)

    # ------------------------------------------------------------------------------- parts

    def coalesce(self: Any) -> Any:
        """Positions sorted and distinct, values that share one added; the tensor itself when it is so already."""
        from flambeau.ops._sparse import coalesced

        _coo(self, "coalesce")
        return coalesced(self)

    def is_coalesced(self: Any) -> bool:
        """Whether positions are known to be sorted and distinct."""
        found: bool = _coo(self, "is_coalesced").pattern.coalesced
        return found

    def _coalesced_(self: Any, coalesced: bool) -> Any:
        from flambeau.kernels.sparse import Pattern

        s = _coo(self, "_coalesced_")
        s.pattern = Pattern(s.pattern.indices, s.pattern.shape, bool(coalesced))
        return self

    def indices(self: Any) -> Any:
        """The positions of a coalesced tensor, int64 (sparse dimensions, elements)."""
        return make(_coalesced(self, "indices").pattern.indices)

    def values(self: Any) -> Any:
        """The values of a sparse tensor, differentiable; they share its memory."""
        from flambeau.ops._sparse import values

        if self.layout is SPARSE_COO or self.layout is STRIDED:
            if self.layout is STRIDED:
                _data(self, "values", (), "sparse")
            _coalesced(self, "values")
        return values(self)

    def _indices(self: Any) -> Any:
        return make(_coo(self, "_indices").pattern.indices)

    def _values(self: Any) -> Any:
        return make(_coo(self, "_values").values)

    def crow_indices(self: Any) -> Any:
        """Where each row begins among the elements (CSR, BSR)."""
        return make(_data(self, "crow_indices", _ROWS, "sparse row compressed").pattern.compressed)

    def col_indices(self: Any) -> Any:
        """The column of each element (CSR, BSR)."""
        return make(_data(self, "col_indices", _ROWS, "sparse row compressed").pattern.plain)

    def ccol_indices(self: Any) -> Any:
        """Where each column begins among the elements (CSC, BSC)."""
        return make(_data(self, "ccol_indices", _COLUMNS, "sparse column compressed").pattern.compressed)

    def row_indices(self: Any) -> Any:
        """The row of each element (CSC, BSC)."""
        return make(_data(self, "row_indices", _COLUMNS, "sparse column compressed").pattern.plain)

    def _nnz(self: Any) -> int:
        """How many elements are stored (blocks, for BSR and BSC)."""
        found: int = _data(self, "_nnz", tuple(_NAMES)[1:], "sparse").pattern.nnz
        return found

    def _dimI(self: Any) -> int:
        """As sparse_dim()."""
        return int(self.sparse_dim())

    def _dimV(self: Any) -> int:
        """As dense_dim()."""
        return int(self.dense_dim())

    def sparse_dim(self: Any) -> int:
        """How many dimensions are sparse: none of a dense tensor."""
        return 0 if self.layout is STRIDED else int(self._lazy.pattern.sparse_dim)

    def dense_dim(self: Any) -> int:
        """How many dimensions are dense: all of a dense tensor."""
        return len(shape_of(self)) - self.sparse_dim()

    # ------------------------------------------------------------------------------- other sizes

    def sparse_resize_(self: Any, size: Any, sparse_dim: int, dense_dim: int) -> Any:
        """Give a tensor in coordinate layout another, larger size; positions and values stay."""
        return _resize(self, size, sparse_dim, dense_dim, False)

    def sparse_resize_and_clear_(self: Any, size: Any, sparse_dim: int, dense_dim: int) -> Any:
        """Give a tensor in coordinate layout another size, without elements."""
        return _resize(self, size, sparse_dim, dense_dim, True)


def _resize(t: Any, size: Any, sparse_dim: int, dense_dim: int, clear: bool) -> Any:
    from flambeau.kernels.sparse import Pattern
    from flambeau.ops.sparse_rules import empty

    s, shape = _coo(t, "sparse_resize_"), tuple(int(n) for n in size)
    if len(shape) != sparse_dim + dense_dim:
        raise RuntimeError(f"number of dimensions must be sparse_dim ({sparse_dim}) + dense_dim ({dense_dim}), but got "
                           f"{len(shape)}")
    if clear:
        new = empty(shape, SPARSE_COO, s.dtype, sparse_dim)
        s.pattern, s.values = new.pattern, new.values
    else:
        if s.pattern.nnz and (sparse_dim != s.pattern.sparse_dim or shape[sparse_dim:] != s.shape[sparse_dim:]
                              or any(n < m for n, m in zip(shape, s.shape, strict=True))):
            raise RuntimeError(f"shrinking a sparse tensor that has elements, or changing its number of dense dimensions or "
                               f"sparse ones, is not supported: {list(s.shape)} to {list(shape)}. Use "
                               "sparse_resize_and_clear_().")
        s.pattern = Pattern(s.pattern.indices, shape, s.pattern.coalesced)
    t._shape = shape
    return t


# --------------------------------------------------------------------------------- printing


def sparse_text(s: Any, notes: list[str]) -> str:
    """The printed form of a sparse tensor; notes say what holds of requires_grad."""
    options = _printing._options
    p = s.pattern
    if s.layout is SPARSE_COO:
        parts = [("indices", p.indices)]
    else:
        first, second = ("crow_indices", "col_indices") if s.layout in _ROWS else ("ccol_indices", "row_indices")
        parts = [(first, p.compressed), (second, p.plain)]
    texts = []
    for name, array in (*parts, ("values", s.values)):
        prefix = f"{name}=tensor("
        if array.size:
            body = _printing._values_text(array, 7 + len(prefix), options)
        else:
            body = f"[], size={tuple(array.shape)}"
        texts.append(prefix + body + ")")
    facts = [f"size={tuple(s.shape)}", f"nnz={p.nnz}"]
    dtype = dtypes.dtype_of_array(s.dtype).name
    if not _printing._goes_unsaid(dtype, dtypes.default[0].name, True):
        facts.append(f"dtype=torch.{dtype}")
    facts += [f"layout={s.layout!r}", *notes]
    text = "tensor(" + (",\n" + " " * 7).join(texts)
    if s.layout is not SPARSE_COO:
        return _printing._append_notes(text, facts, 7, options.linewidth)
    used = 7 + len(facts[0])            # coordinates: the size begins a line
    text += ",\n" + " " * 7 + facts[0]
    for fact in facts[1:]:
        new_line = used + len(fact) + 2 > options.linewidth
        text += (",\n" + " " * 7 if new_line else ", ") + fact
        used = 7 + len(fact) if new_line else used + 2 + len(fact)
    return text + ")"
