"""Views of an array's memory by PyTorch's rules: reshape, expand, permute, unfold, diagonal.

NumPy and PyTorch agree on most views; this file settles where they differ: whether a reshape can be a view
and the errors when it cannot; strides of new axes of size 1 (NumPy's indexing gives 0, PyTorch
`size * stride` of the neighbour); views past the array, over its storage (`as_strided`). Results stay
writeable and keep the owner alive through `.base` (`np.broadcast_to` would be read-only). The facts about
memory they rest on are in `layout`, whose names can also be reached from here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from flambeau.kernels.layout import (
    CHANNELS_LAST_ORDER as CHANNELS_LAST_ORDER,
)
from flambeau.kernels.layout import (
    Shape as Shape,
)
from flambeau.kernels.layout import (
    address as address,
)
from flambeau.kernels.layout import (
    clone as clone,
)
from flambeau.kernels.layout import (
    contiguous as contiguous,
)
from flambeau.kernels.layout import (
    contiguous_strides as contiguous_strides,
)
from flambeau.kernels.layout import (
    dense_strides as dense_strides,
)
from flambeau.kernels.layout import (
    empty_like as empty_like,
)
from flambeau.kernels.layout import (
    empty_strided as empty_strided,
)
from flambeau.kernels.layout import (
    has_internal_overlap as has_internal_overlap,
)
from flambeau.kernels.layout import (
    is_contiguous as is_contiguous,
)
from flambeau.kernels.layout import (
    is_dense as is_dense,
)
from flambeau.kernels.layout import (
    may_partially_overlap as may_partially_overlap,
)
from flambeau.kernels.layout import (
    normalize_dim as normalize_dim,
)
from flambeau.kernels.layout import (
    normalize_dims as normalize_dims,
)
from flambeau.kernels.layout import (
    restride_bytes as restride_bytes,
)
from flambeau.kernels.layout import (
    row_major as row_major,
)
from flambeau.kernels.layout import (
    storage_array as storage_array,
)
from flambeau.kernels.layout import (
    storage_offset as storage_offset,
)
from flambeau.kernels.layout import (
    storage_owner as storage_owner,
)
from flambeau.kernels.layout import (
    torch_strides as torch_strides,
)


def as_strided(a: np.ndarray, size: Sequence[int], stride: Sequence[int], offset: int | None = None) -> np.ndarray:
    """Return a view with any strides over the whole storage of a.

    Args:
        offset: position of the first element in the storage, in elements; None keeps a's.

    Raises:
        RuntimeError: lengths differ, a stride or size is negative, or an element lies outside.
    """
    shape, strides = tuple(size), tuple(stride)
    storage = storage_array(a)
    start = storage_offset(a) if offset is None else offset
    itemsize = a.itemsize
    check_strided(shape, strides, start, itemsize, storage.nbytes)
    first = 0 if 0 in shape else start * itemsize
    return np.ndarray(shape, a.dtype, storage, first, tuple([step * itemsize for step in strides]))


def check_strided(shape: Shape, strides: Shape, start: int, itemsize: int, nbytes: int) -> None:
    """Raise when a view with these strides, in elements, is not one of a storage of nbytes."""
    if len(shape) != len(strides):
        raise RuntimeError(f"as_strided: mismatch in length of strides and shape: {strides} against {shape}")
    if strides and min(strides) < 0:
        raise RuntimeError(f"as_strided: negative strides are not supported, got strides {list(strides)}")
    if shape and min(shape) < 0:
        raise RuntimeError(f"as_strided: negative sizes are not allowed, got {list(shape)}")
    if start < 0:
        raise RuntimeError(f"as_strided: invalid storage offset {start}: it must not be negative")
    if 0 in shape:
        return
    needed = start + 1 + sum([(n - 1) * step for n, step in zip(shape, strides, strict=True)])
    if needed * itemsize > nbytes:
        raise RuntimeError(
            f"as_strided: sizes {list(shape)}, strides {list(strides)} and storage offset {start} require a "
            f"storage of {needed * itemsize} bytes and are out of bounds for storage of size {nbytes}"
        )


# Reshape


def infer_shape(shape: Sequence[int], numel: int) -> Shape:
    """Return shape with its single -1 replaced.

    Raises:
        RuntimeError: two -1, another negative size, or a number of elements other than numel.
    """
    known, unknown = 1, -1
    for position, n in enumerate(shape):
        if n == -1:
            if unknown >= 0:
                raise RuntimeError(f"only one dimension can be inferred, got shape {list(shape)}")
            unknown = position
        elif n < 0:
            raise RuntimeError(f"invalid shape dimension {n} at index {position} of shape {list(shape)}")
        else:
            known *= n
    if unknown < 0:
        if known == numel:
            return tuple(shape)
    elif known == 0:
        if numel == 0:
            raise RuntimeError(
                f"cannot reshape tensor of 0 elements into shape {list(shape)}: the size -1 is "
                "ambiguous, any value would do"
            )
    elif numel % known == 0:
        return (*shape[:unknown], numel // known, *shape[unknown + 1 :])
    holds = f"{known} elements. Write -1 for one size to have it computed."
    if unknown >= 0:
        holds = f"a multiple of {known} elements."
    raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {numel}: it holds {holds}")


def view_strides(old_shape: Shape, old_strides: Shape, shape: Shape) -> Shape | None:
    """Return the strides that show the same elements under another shape, or None when none do.

    Walks both shapes from the last axis, in chunks of old axes that are dense relative to each other;
    each chunk must be filled exactly by new axes. Units are those of old_strides.
    """
    if 0 in old_shape:
        return None
    new = [0] * len(shape)
    position = len(shape) - 1
    chunk_stride = old_strides[-1]
    chunk_numel = 1
    for axis in range(len(old_shape) - 1, -1, -1):
        chunk_numel *= old_shape[axis]
        dense_with_previous = axis > 0 and (old_shape[axis - 1] == 1 or old_strides[axis - 1] == chunk_numel * chunk_stride)
        if dense_with_previous:
            continue
        filled = 1
        while position >= 0 and (filled < chunk_numel or shape[position] == 1):
            new[position] = filled * chunk_stride
            filled *= shape[position]
            position -= 1
        if filled != chunk_numel:
            return None
        if axis > 0:
            chunk_stride = old_strides[axis - 1]
            chunk_numel = 1
    return tuple(new) if position == -1 else None


def _try_view(a: np.ndarray, shape: Shape) -> np.ndarray | None:
    if a.flags.c_contiguous and (not shape or min(shape) >= -1):  # NumPy infers any negative size
        try:
            return a.reshape(shape)
        except ValueError:
            infer_shape(shape, a.size)
            raise
    shape = infer_shape(shape, a.size)
    strides = view_strides(a.shape, a.strides, shape)  # a is not contiguous, so neither 0-d nor empty
    return None if strides is None else restride_bytes(a, shape, strides)


def view(a: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """Return a under another shape, sharing memory.

    Raises:
        RuntimeError: the number of elements differs, or a's strides do not allow a view.
    """
    shape = tuple(shape)
    if a.flags.c_contiguous:
        for n in shape:
            if n < -1:                   # NumPy infers any negative size
                break
        else:
            try:
                return a.reshape(shape)
            except ValueError:
                pass                     # _try_view says why
    out = _try_view(a, shape)
    if out is None:
        raise RuntimeError(
            f"view size is not compatible with input tensor's size and stride: size {list(a.shape)} with "
            f"stride {list(torch_strides(a))} cannot be seen as {list(shape)} (some dimension would have to "
            "span two pieces of memory that do not join). Use .reshape(...) instead, which copies when it must."
        )
    return out


def reshape(a: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """Return a under another shape: a view where `view` would give one, else a contiguous copy."""
    shape = tuple(shape)
    out = _try_view(a, shape)
    return row_major(a).reshape(shape) if out is None else out


def expand(a: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """Return a writeable view with axes of size 1 repeated (stride 0); -1 keeps a size.

    Raises:
        RuntimeError: fewer sizes than axes, -1 for a new leading axis, or a size that does not match.
    """
    shape = tuple(shape)
    old_shape, old_strides = a.shape, a.strides
    n_new = len(shape) - len(old_shape)
    if n_new < 0:
        raise RuntimeError(
            f"expand: the number of sizes provided ({len(shape)}) must be greater or equal to the number of "
            f"dimensions in the tensor ({a.ndim}): {list(old_shape)} to {list(shape)}"
        )
    if shape == old_shape:
        return a.view()
    sizes, strides = list(shape), [0] * len(shape)
    for axis in range(len(shape) - 1, -1, -1):
        n = sizes[axis]
        if axis < n_new:
            if n < 0:
                word = "-1 is not allowed in a leading, non-existing dimension" if n == -1 else "is negative"
                raise RuntimeError(f"expand: the expanded size of the tensor ({n}) at dimension {axis}: {word}")
            if n == 1 and not old_shape:
                continue  # PyTorch gives every axis of an expanded scalar stride 0
            if n == 1 and axis + 1 < len(sizes):
                strides[axis] = sizes[axis + 1] * strides[axis + 1]
            elif n == 1:
                strides[axis] = a.itemsize
            continue
        old = old_shape[axis - n_new]
        if n == -1:
            sizes[axis] = n = old
        if n == old:
            strides[axis] = old_strides[axis - n_new]
        elif old != 1 or n < 0:
            raise RuntimeError(
                f"expand: the expanded size of the tensor ({n}) must match the existing size ({old}) at "
                f"non-singleton dimension {axis}: sizes {list(old_shape)} to {list(shape)}"
            )
    return restride_bytes(a, tuple(sizes), tuple(strides))


def broadcast_shapes(*shapes: Sequence[int]) -> Shape:
    """Return the common shape of several.

    Raises:
        RuntimeError: two sizes differ and neither is 1.
    """
    if not shapes:
        return ()
    out = list(shapes[0])
    for shape in shapes[1:]:
        if len(shape) > len(out):
            out = [1] * (len(shape) - len(out)) + out
        shift = len(out) - len(shape)
        for axis, n in enumerate(shape):
            old = out[axis + shift]
            if n == old or n == 1:
                continue
            if old != 1:
                listed = ", ".join([str(list(s)) for s in shapes])
                raise RuntimeError(
                    f"The size of tensor a ({old}) must match the size of tensor b ({n}) at non-singleton "
                    f"dimension {axis + shift}: shapes {listed} do not broadcast"
                )
            out[axis + shift] = n
    return tuple(out)


# Axes


def unsqueeze(a: np.ndarray, dim: int) -> np.ndarray:
    """Return a view with a new axis of size 1 before position dim (in [-ndim - 1, ndim])."""
    ndim = a.ndim
    dim = normalize_dim(dim, ndim + 1)
    shape = a.shape
    strides = a.strides
    step = a.itemsize if dim >= ndim else shape[dim] * strides[dim]
    return restride_bytes(a, (*shape[:dim], 1, *shape[dim:]), (*strides[:dim], step, *strides[dim:]))


def squeeze(a: np.ndarray, dim: int | Iterable[int] | None = None) -> np.ndarray:
    """Return a view without the axes of size 1 (all, or those among dim); others named are kept."""
    shape = a.shape
    if dim is None:
        return a.squeeze()
    dims = normalize_dims(dim, a.ndim)
    if a.ndim == 0:
        return a.view()
    return a.squeeze(tuple([d for d in dims if shape[d] == 1]))


def permute(a: np.ndarray, dims: Sequence[int]) -> np.ndarray:
    """Return a view with axes in the order dims.

    Raises:
        RuntimeError: dims does not name every axis once.
    """
    if len(dims) != a.ndim:
        raise RuntimeError(
            f"permute: number of dimensions in the tensor input ({a.ndim}) does not match the length of the "
            f"desired ordering {list(dims)}"
        )
    try:
        return a.transpose(dims)
    except (ValueError, TypeError):
        order = [normalize_dim(d, a.ndim) for d in dims]        # says what is out of range
        raise RuntimeError(f"permute: duplicate dims are not allowed, got {order}") from None


def transpose(a: np.ndarray, dim0: int, dim1: int) -> np.ndarray:
    """Return a view with two axes exchanged; a 0-d array gives itself."""
    ndim = a.ndim
    dim0, dim1 = normalize_dim(dim0, ndim), normalize_dim(dim1, ndim)
    return a.swapaxes(dim0, dim1) if ndim else a.view()


def movedim(a: np.ndarray, source: int | Sequence[int], destination: int | Sequence[int]) -> np.ndarray:
    """Return a view with axes source placed at destination; the others keep their order.

    Raises:
        RuntimeError: lengths differ, or an axis appears twice.
        IndexError: an axis is out of range.
    """
    sources = (source,) if isinstance(source, int) else tuple(source)
    targets = (destination,) if isinstance(destination, int) else tuple(destination)
    if len(sources) != len(targets):
        raise RuntimeError(
            f"movedim: Invalid source or destination dims: source {list(sources)} and destination "
            f"{list(targets)} should contain the same number of dims"
        )
    ndim = a.ndim
    sources = tuple(normalize_dim(d, ndim) for d in sources)
    targets = tuple(normalize_dim(d, ndim) for d in targets)
    for name, dims in (("source", sources), ("destination", targets)):
        if len(set(dims)) != len(dims):
            raise RuntimeError(f"movedim: repeated dim in `{name}` ({list(dims)})")
    if ndim == 0:
        return a.view()
    order = [d for d in range(ndim) if d not in sources]
    for target, origin in sorted(zip(targets, sources, strict=True)):
        order.insert(target, origin)
    return a.transpose(order)


def unfold(a: np.ndarray, dim: int, size: int, step: int) -> np.ndarray:
    """Return the windows of `size` elements, `step` apart, along dim; the window is the last axis.

    Raises:
        RuntimeError: size exceeds the axis or is negative, or step is not positive.
    """
    dim = normalize_dim(dim, a.ndim)
    length = a.shape[dim] if a.ndim else 1
    if size < 0:
        raise RuntimeError(f"unfold: size must not be negative, got {size}")
    if size > length:
        raise RuntimeError(f"unfold: maximum size for tensor at dimension {dim} is {length} but size is {size}")
    if step <= 0:
        raise RuntimeError(f"unfold: step is {step} but must be > 0")
    if a.ndim == 0:
        return restride_bytes(a, (size,), (a.itemsize,))
    shape, strides = a.shape, a.strides
    n_windows = (length - size) // step + 1
    new_shape = (*shape[:dim], n_windows, *shape[dim + 1 :], size)
    new_strides = (*strides[:dim], step * strides[dim], *strides[dim + 1 :], strides[dim])
    return restride_bytes(a, new_shape, new_strides)


def diagonal(a: np.ndarray, offset: int = 0, dim1: int = 0, dim2: int = 1) -> np.ndarray:
    """Return a writeable view of a diagonal of axes dim1 and dim2, as the last axis.

    Raises:
        RuntimeError: dim1 equals dim2.
        IndexError: an axis is out of range.
    """
    first, second = normalize_dim(dim1, a.ndim), normalize_dim(dim2, a.ndim)
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical: {dim1}, {dim2}")
    shape, strides = a.shape, a.strides
    rows, cols = shape[first], shape[second]
    length = max(min(rows, cols - offset) if offset >= 0 else min(rows + offset, cols), 0)
    start = 0
    if length:
        start = offset * strides[second] if offset >= 0 else -offset * strides[first]
    if len(shape) == 2:
        return restride_bytes(a, (length,), (strides[0] + strides[1],), start)
    kept = [d for d in range(a.ndim) if d != first and d != second]
    new_shape = (*[shape[d] for d in kept], length)
    new_strides = (*[strides[d] for d in kept], strides[first] + strides[second])
    return restride_bytes(a, new_shape, new_strides, start)


def flip(a: np.ndarray, dims: int | Sequence[int]) -> np.ndarray:
    """Return a copy reversed along dims, in a's memory order."""
    reversed_dims = normalize_dims(dims, a.ndim)
    if a.ndim == 0:
        return a.copy()
    key = tuple(slice(None, None, -1) if d in reversed_dims else slice(None) for d in range(a.ndim))
    out = empty_like(a)
    out[...] = a[key]
    return out
