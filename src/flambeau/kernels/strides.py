"""Views of an array's memory: shapes, strides and storage, by PyTorch's rules on NumPy arrays.

NumPy and PyTorch agree on most views; this file settles where they differ:

- whether a reshape can be a view, and the errors when it cannot (`view`, `reshape`);
- strides of axes of size 1. NumPy's own indexing gives a new axis stride 0, PyTorch gives it
  `size * stride` of its neighbour: `unsqueeze` here follows PyTorch. What NumPy keeps: the stride
  of a size-1 axis survives `transpose`, basic slicing and `np.ndarray(buffer=...)`; it is replaced by
  the dense value when an array is allocated, copied, or reshaped while contiguous. `torch_strides`
  reports what NumPy holds. Of an empty view NumPy keeps no position: its storage offset is that of
  the view it was taken from, or 0;
- the storage: PyTorch's `as_strided` addresses the whole allocation, so `storage_array` walks
  `.base` to the owning array;
- results stay writeable and keep the owner alive through `.base` (`np.broadcast_to` would be read-only).

Strides are counted in elements here, as in PyTorch, unless a name ends in `_bytes`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

Shape = tuple[int, ...]

CHANNELS_LAST_ORDER = {"channels_last": (0, 2, 3, 1), "channels_last_3d": (0, 2, 3, 4, 1)}


def normalize_dim(dim: int, ndim: int) -> int:
    """Return dim counted from the front; a 0-d array accepts 0 and -1.

    Raises:
        IndexError: dim is outside [-ndim, ndim - 1].
    """
    limit = ndim if ndim > 0 else 1
    if -limit <= dim < limit:
        return dim + limit if dim < 0 else dim
    raise IndexError(
        f"Dimension out of range: got {dim}, but an array of {ndim} dimensions expects to be in range "
        f"of [{-limit}, {limit - 1}]"
    )


def normalize_dims(dim: int | Iterable[int], ndim: int) -> Shape:
    """Return dims counted from the front, in the order given.

    Raises:
        IndexError: one is out of range.
        RuntimeError: one appears twice.
    """
    dims = (normalize_dim(dim, ndim),) if isinstance(dim, int) else tuple(normalize_dim(d, ndim) for d in dim)
    if len(set(dims)) != len(dims):
        repeated = next(d for d in dims if dims.count(d) > 1)
        raise RuntimeError(f"dim {repeated} appears multiple times in the list of dims {dims}")
    return dims


def contiguous_strides(shape: Sequence[int]) -> Shape:
    """Return the strides of a fresh row-major array: an axis of size 0 counts as 1."""
    strides = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= size if size > 1 else 1
    return tuple(reversed(strides))


def torch_strides(a: np.ndarray) -> Shape:
    """Return the strides in elements."""
    itemsize = a.itemsize
    if a.size == 0 and not any(a.strides):  # what NumPy gives a fresh empty array
        return contiguous_strides(a.shape)
    return tuple([step // itemsize for step in a.strides])


# Storage


def address(a: np.ndarray) -> int:
    """Return the address of the first element."""
    return a.__array_interface__["data"][0]


def storage_owner(a: np.ndarray) -> np.ndarray:
    """Return the array at the end of the chain of `.base`: the one that holds the memory."""
    base = a.base
    while isinstance(base, np.ndarray):
        a = base
        base = a.base
    return a


def storage_array(a: np.ndarray) -> np.ndarray:
    """Return a 1-D array, of a's dtype, over the whole memory of a's owner, in address order."""
    owner = storage_owner(a)
    flags = owner.flags
    if flags.c_contiguous:
        flat = owner.reshape(-1)
    elif flags.f_contiguous:
        flat = owner.T.reshape(-1)
    else:
        order = sorted(range(owner.ndim), key=lambda d: -abs(owner.strides[d]))
        dense = owner[tuple(slice(None, None, -1 if step < 0 else None) for step in owner.strides)].transpose(
            order
        )
        if dense.flags.c_contiguous:
            flat = dense.reshape(-1)
        else:  # memory of another library, with gaps
            span = 1 + sum(
                (size - 1) * step for size, step in zip(dense.shape, torch_strides(dense), strict=True)
            )
            flat = np.lib.stride_tricks.as_strided(dense, (span if dense.size else 0,), (dense.itemsize,))
    if flat.dtype == a.dtype:
        return flat
    usable = flat.nbytes - flat.nbytes % a.itemsize
    return flat.view(np.uint8)[:usable].view(a.dtype)


def storage_offset(a: np.ndarray) -> int:
    """Return the position of a's first element in its storage, in elements."""
    if a.base is None:
        return 0
    storage = storage_array(a)
    if (
        storage.size == 0
        or a.size == 0
        and not address(storage) <= address(a) <= address(storage) + storage.nbytes
    ):
        return 0
    return (address(a) - address(storage)) // a.itemsize


def restride_bytes(a: np.ndarray, shape: Shape, strides: Shape, offset: int = 0) -> np.ndarray:
    """Return a writeable view over a's memory; strides and offset (from a's first element) in bytes.

    The caller has checked that the elements lie within a's own extent.
    """
    flags = a.flags
    if flags.c_contiguous or flags.f_contiguous:
        if 0 in shape:
            offset = 0
        return np.ndarray(shape, a.dtype, a, offset, strides)
    storage = storage_array(a)
    return np.ndarray(shape, a.dtype, storage, address(a) - address(storage) + offset, strides)


def as_strided(
    a: np.ndarray, size: Sequence[int], stride: Sequence[int], offset: int | None = None
) -> np.ndarray:
    """Return a view with any strides over the whole storage of a.

    Args:
        offset: position of the first element in the storage, in elements; None keeps a's.

    Raises:
        RuntimeError: lengths differ, a stride or size is negative, or an element lies outside.
    """
    shape, strides = tuple(size), tuple(stride)
    if len(shape) != len(strides):
        raise RuntimeError(f"as_strided: mismatch in length of strides and shape: {strides} against {shape}")
    if any(step < 0 for step in strides):
        raise RuntimeError(f"as_strided: negative strides are not supported, got strides {list(strides)}")
    if any(n < 0 for n in shape):
        raise RuntimeError(f"as_strided: negative sizes are not allowed, got {list(shape)}")
    storage = storage_array(a)
    start = storage_offset(a) if offset is None else offset
    if start < 0:
        raise RuntimeError(f"as_strided: invalid storage offset {start}: it must not be negative")
    itemsize = a.itemsize
    if 0 in shape:
        return np.ndarray(shape, a.dtype, storage, 0, tuple([step * itemsize for step in strides]))
    needed = start + 1 + sum([(n - 1) * step for n, step in zip(shape, strides, strict=True)])
    if needed > storage.size:
        raise RuntimeError(
            f"as_strided: sizes {list(shape)}, strides {list(strides)} and storage offset {start} require a "
            f"storage of {needed * itemsize} bytes and are out of bounds for storage of size {storage.nbytes}"
        )
    return np.ndarray(shape, a.dtype, storage, start * itemsize, tuple([step * itemsize for step in strides]))


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
                f"cannot reshape tensor of 0 elements into shape {list(shape)}: the unspecified dimension "
                "size -1 can be any value and is ambiguous"
            )
    elif numel % known == 0:
        return (*shape[:unknown], numel // known, *shape[unknown + 1 :])
    raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {numel}")


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
        dense_with_previous = axis > 0 and (
            old_shape[axis - 1] == 1 or old_strides[axis - 1] == chunk_numel * chunk_stride
        )
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
    out = _try_view(a, shape)
    if out is None:
        raise RuntimeError(
            f"view size is not compatible with input tensor's size and stride: size {list(a.shape)} with "
            f"stride {list(torch_strides(a))} cannot be seen as {list(shape)} (at least one dimension spans "
            "across two contiguous subspaces). Use .reshape(...) instead, which copies when it must."
        )
    return out


def reshape(a: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """Return a under another shape: a view where `view` would give one, else a contiguous copy."""
    shape = tuple(shape)
    out = _try_view(a, shape)
    return np.ascontiguousarray(a).reshape(shape) if out is None else out


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
                raise RuntimeError(
                    f"expand: the expanded size of the tensor ({n}) at dimension {axis}: {word}"
                )
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
    order = tuple(normalize_dim(d, a.ndim) for d in dims)
    if len(set(order)) != len(order):
        raise RuntimeError(f"permute: duplicate dims are not allowed, got {list(dims)}")
    return a.transpose(order)


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
        raise RuntimeError(
            f"unfold: maximum size for tensor at dimension {dim} is {length} but size is {size}"
        )
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


# Memory formats


def is_contiguous(a: np.ndarray, memory_format: str = "contiguous") -> bool:
    """Tell whether a is dense in the given order; axes of size 1 may have any stride."""
    if memory_format == "contiguous":
        return a.flags.c_contiguous
    order = CHANNELS_LAST_ORDER.get(memory_format)
    if order is None:
        raise RuntimeError(f"is_contiguous: unsupported memory format {memory_format!r}")
    if a.ndim != len(order):
        return False
    expected = 1
    shape, strides = a.shape, torch_strides(a)
    for axis in reversed(order):
        if shape[axis] != 1:
            if strides[axis] != expected:
                return False
            expected *= shape[axis]
    return True


def is_dense(a: np.ndarray) -> bool:
    """Tell whether a fills one block of memory without gap or overlap, in some order of its axes."""
    flags = a.flags
    if flags.c_contiguous or flags.f_contiguous:
        return True
    expected = a.itemsize
    for step, size in sorted([(step, n) for step, n in zip(a.strides, a.shape, strict=True) if n != 1]):
        if step != expected:
            return False
        expected *= size
    return True


def dense_strides(shape: Shape, strides: Shape) -> Shape:
    """Return dense strides in the axis order that `strides` suggests (PyTorch's preserve_format).

    Axes are sorted by insertion, from the last: a stride 0 says nothing of the order, and equal strides
    put the larger axis outside.
    """
    order = list(range(len(shape) - 1, -1, -1))  # innermost first
    for position in range(1, len(order)):
        moving = position
        for other in range(position - 1, -1, -1):
            inner, outer = order[other], order[moving]
            if strides[inner] == 0 or strides[outer] == 0:
                continue
            if strides[inner] < strides[outer]:
                break
            if strides[inner] > strides[outer] or shape[inner] > shape[outer]:
                order[other], order[moving] = outer, inner
                moving = other
    out = [1] * len(shape)
    step = 1
    for axis in order:
        out[axis] = step
        step *= shape[axis] if shape[axis] > 1 else 1
    return tuple(out)


def empty_strided(shape: Shape, strides: Shape, dtype: np.dtype) -> np.ndarray:
    """Return a fresh array with these strides, in elements: exact also on axes of size 1."""
    n = 0 if 0 in shape else 1 + sum([(size - 1) * step for size, step in zip(shape, strides, strict=True)])
    buffer = np.empty(n, dtype)
    return np.ndarray(shape, buffer.dtype, buffer, 0, tuple([step * buffer.itemsize for step in strides]))


def _format_strides(shape: Shape, memory_format: str) -> Shape:
    order = CHANNELS_LAST_ORDER[memory_format]
    if len(shape) != len(order):
        raise RuntimeError(
            f"required rank {len(order)} tensor to use {memory_format} format, got shape {list(shape)}"
        )
    strides = [0] * len(shape)
    step = 1
    for axis in reversed(order):
        strides[axis] = step
        step *= shape[axis]
    return tuple(strides)


def empty_like(a: np.ndarray, memory_format: str = "preserve", dtype: np.dtype | None = None) -> np.ndarray:
    """Return an uninitialised array of a's shape.

    "preserve" keeps a's strides when a is dense and, when not, the order of its axes.
    """
    if memory_format == "contiguous" or memory_format == "preserve" and a.flags.c_contiguous:
        return np.empty(a.shape, a.dtype if dtype is None else dtype)
    new_dtype = a.dtype if dtype is None else np.dtype(dtype)
    if memory_format == "preserve":
        strides = torch_strides(a)
        if not is_dense(a):
            strides = dense_strides(a.shape, strides)
    elif memory_format in CHANNELS_LAST_ORDER:
        strides = _format_strides(a.shape, memory_format)
    else:
        raise RuntimeError(f"empty_like: unknown memory format {memory_format!r}")
    return empty_strided(a.shape, strides, new_dtype)


def contiguous(a: np.ndarray, memory_format: str = "contiguous") -> np.ndarray:
    """Return a itself when it is dense in that order, else a copy that is.

    Raises:
        RuntimeError: "preserve", or a rank that the format does not have.
    """
    if memory_format == "contiguous":
        return a if a.flags.c_contiguous else a.copy()
    if memory_format == "preserve":
        if a.flags.c_contiguous:
            return a
        raise RuntimeError("preserve memory format is unsupported by the contiguous operator: use clone()")
    if is_contiguous(a, memory_format):
        return a
    out = empty_like(a, memory_format)
    out[...] = a
    return out


def clone(a: np.ndarray, memory_format: str = "preserve") -> np.ndarray:
    """Return a copy, with the strides that `empty_like` gives."""
    if memory_format == "contiguous" or memory_format == "preserve" and a.flags.c_contiguous:
        return a.copy()
    out = empty_like(a, memory_format)
    out[...] = a
    return out


# Overlap


def has_internal_overlap(a: np.ndarray) -> bool:
    """Tell whether elements certainly share memory: an axis of more than one element with stride 0.

    This is the cheap test that in-place operators apply; other overlaps (of `as_strided`) pass it.
    """
    if a.flags.c_contiguous:
        return False
    return any(step == 0 and n > 1 for step, n in zip(a.strides, a.shape, strict=True)) and a.size > 0


def may_partially_overlap(a: np.ndarray, b: np.ndarray) -> bool:
    """Tell whether writing a while reading b is refused: same memory, but not the same elements.

    Only dense arrays are judged, by their byte ranges; others pass, as in PyTorch.
    """
    if a is b or a.size == 0 or b.size == 0 or storage_owner(a) is not storage_owner(b):
        return False
    if not (is_dense(a) and is_dense(b)):
        return False
    a_begin, b_begin = address(a), address(b)
    if a_begin == b_begin and a.nbytes == b.nbytes:
        return a.strides != b.strides
    return a_begin < b_begin + b.nbytes and b_begin < a_begin + a.nbytes
