"""cat, stack and block_diag of arrays, by PyTorch's rules of shapes, dtypes and memory order."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from .casting import cast
from .promotion import promote_types
from .strides import is_contiguous

_concatenate = getattr(np.concatenate, "_implementation", np.concatenate)     # without the look at __array_function__


def common_dtype(arrays: Sequence[np.ndarray]) -> np.dtype:
    """Return the dtype to which all promote; 0-d arrays count like any other."""
    return reduce(promote_types, [a.dtype for a in arrays])


def _one_dtype(arrays: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    first = arrays[0].dtype
    for a in arrays:
        if a.dtype is not first:
            d = common_dtype(arrays)
            return [cast(b, d) for b in arrays]
    return arrays


def _is_legacy_empty(a: np.ndarray) -> bool:
    return a.ndim == 1 and a.shape[0] == 0


def _cat_error(arrays: Sequence, dim: int) -> RuntimeError | None:
    n = arrays[0].ndim
    for i, a in enumerate(arrays):
        if a.ndim == 0:
            return RuntimeError(f"zero-dimensional tensor (at position {i}) cannot be concatenated: use stack()")
        if a.ndim != n:
            return RuntimeError(
                f"Tensors must have same number of dimensions: got {n} and {a.ndim} (tensor number {i} of "
                f"cat() has shape {list(a.shape)})"
            )
        for axis in range(n):
            if axis != dim and a.shape[axis] != arrays[0].shape[axis]:
                return RuntimeError(
                    f"Sizes of tensors must match except in dimension {dim}. Expected size {arrays[0].shape[axis]} but got "
                    f"size {a.shape[axis]} for tensor number {i} in the list (shapes {list(arrays[0].shape)} and "
                    f"{list(a.shape)})."
                )
    return None


def check_cat(arrays: Sequence, dim: int) -> None:
    """Raise when arrays, or Metas, cannot be joined along dim."""
    error = _cat_error(arrays, dim)
    if error is not None:
        raise error


def check_stack(arrays: Sequence) -> None:
    """Raise when arrays, or Metas, have not all one shape."""
    shape = arrays[0].shape
    for i, a in enumerate(arrays):
        if a.shape != shape:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(shape)} at entry 0 and {list(a.shape)} "
                f"at entry {i}"
            )


def cat(arrays: Sequence[np.ndarray], dim: int = 0, sizes: Sequence[int] | None = None) -> np.ndarray:
    """Return the arrays joined along dim; 1-D empty ones are skipped.

    The result is row-major, or channels-last when all arrays are.

    Raises:
        RuntimeError: numbers of dimensions or sizes differ.
    """
    kept = arrays
    first = arrays[0].dtype
    for a in arrays:
        if a.dtype is not first:
            kept = _one_dtype(arrays)
            break
    try:
        out = _concatenate(kept, dim)
    except ValueError:
        kept = [a for a in kept if not _is_legacy_empty(a)] or list(kept)
        if any(a.ndim == 0 for a in arrays):
            check_cat(arrays, dim)
        try:
            out = np.concatenate(kept, dim)
        except ValueError:
            check_cat(kept, dim)
            raise
    if not out.flags.c_contiguous:
        for name, n in (("channels_last", 4), ("channels_last_3d", 5)):
            if out.ndim == n and all(is_contiguous(a, name) for a in kept):
                return out if is_contiguous(out, name) else np.ascontiguousarray(out)
        out = np.ascontiguousarray(out)
    return out


def stack(arrays: Sequence[np.ndarray], dim: int = 0) -> np.ndarray:
    """Return arrays of one shape joined along a new axis at dim, counted from the front.

    Raises:
        RuntimeError: shapes differ.
    """
    shape = arrays[0].shape
    if dim == 0 and shape:
        d = arrays[0].dtype
        for a in arrays:
            if a.shape != shape or a.dtype is not d:
                break
        else:                                   # along the first axis the elements lie as in cat: no new axes needed
            out = _concatenate(arrays, 0)
            return (out if out.flags.c_contiguous else np.ascontiguousarray(out)).reshape(len(arrays), *shape)
    key = (slice(None),) * dim + (None,)
    parts = []
    check_stack(arrays)
    parts.extend([a[key] for a in arrays])
    out = np.concatenate(_one_dtype(parts), dim)
    return out if out.flags.c_contiguous else np.ascontiguousarray(out)


def block_diag(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Return a matrix with the arrays (as matrices) down its diagonal and zeros elsewhere."""
    blocks = [a.reshape((1,) * (2 - a.ndim) + a.shape) for a in arrays]
    out = np.zeros((sum(b.shape[0] for b in blocks), sum(b.shape[1] for b in blocks)), common_dtype(arrays))
    row = col = 0
    for b in _one_dtype(blocks):
        out[row : row + b.shape[0], col : col + b.shape[1]] = b
        row, col = row + b.shape[0], col + b.shape[1]
    return out
