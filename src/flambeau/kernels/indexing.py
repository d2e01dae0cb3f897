"""Indexing with `a[key]`: parsing by PyTorch's rules, reading, writing, and gradients.

A key is applied in two steps, and that is where PyTorch and NumPy differ. First the basic items (integers,
0-d integer arrays, slices, None, Ellipsis) make a view; then the arrays index that view. So an integer
beside an array is not itself an array index: `x[0, :, [0, 1]]` has shape (3, 2) in PyTorch, (2, 3) in NumPy.
Where the new axes go in the second step is NumPy's rule: in place of the indexed axes when these are
adjacent, else in front. `True` and `False` add an axis of size 1 or 0, by copying.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence

import numpy as np

from flambeau.kernels import strides

ALL = slice(None)
MAX_LIST_AS_TUPLE = 32  # a shorter list that holds slices or sequences is read as a tuple


class IndexPlan:
    """A parsed key.

    Attributes:
        basic: key of the first step, for NumPy, ending in Ellipsis (so that the result is an array).
        advanced: key of the second step, of slice(None) and arrays; None when the result is a view.
        new_axes: whether basic holds None.
    """

    __slots__ = ("advanced", "basic", "new_axes")

    def __init__(self, basic: tuple, advanced: tuple | None = None, new_axes: bool = False) -> None:
        self.basic = basic
        self.advanced = advanced
        self.new_axes = new_axes

    @property
    def is_view(self) -> bool:
        """Whether the key selects a view, rather than a copy."""
        return self.advanced is None


def parse_index(key: object, shape: Sequence[int]) -> IndexPlan:
    """Parse a key for an array of this shape; tensors in the key have become arrays.

    Raises:
        IndexError: out of range, too many indices, a mask of another shape, or an unusable item.
        ValueError: a slice with a step that is not positive.
        TypeError: a string or another object that cannot index.
    """
    kind = type(key)
    if kind is int:
        return IndexPlan((_checked(key, 0, shape), ...))
    if kind is slice:
        if not shape:
            raise IndexError("slice() cannot be applied to a 0-dim tensor")
        if key.step is not None:
            _check_step(key)
        return IndexPlan((key, ...))
    if kind is tuple:
        return _parse_items(key, shape)
    if key is None:
        return IndexPlan((None, ...), None, True)
    if key is Ellipsis:
        return IndexPlan((...,))
    if kind is list and len(key) < MAX_LIST_AS_TUPLE and any(_looks_like_key(item) for item in key):
        return _parse_items(tuple(key), shape)
    return _parse_items((key,), shape)


def _looks_like_key(item: object) -> bool:
    return item is None or item is Ellipsis or isinstance(item, (slice, list, tuple, range, np.ndarray))


def _checked(index: int, dim: int, shape: Sequence[int]) -> int:
    if not shape:
        raise IndexError("invalid index of a 0-dim tensor: it has no axis to index; use `tensor.item()` to get the number")
    size = shape[dim]
    if -size <= index < size:
        return index
    raise IndexError(f"index {index} is out of bounds for dimension {dim} with size {size}")


def _check_step(item: slice) -> None:
    step = operator.index(item.step)
    if step <= 0:
        raise ValueError(f"step must be greater than zero, got {step}: use flip() to reverse an axis")


def _as_index_array(item: object) -> np.ndarray:
    """The array a list, range or array stands for: integers (int64) or a mask."""
    if isinstance(item, np.ndarray):
        array = item
        if array.dtype == np.uint8:
            return array.astype(np.bool_)
        if array.dtype not in (np.int64, np.bool_, np.int32):
            raise IndexError(
                f"tensors used as indices must be long, int, byte or bool tensors, got {array.dtype.name}: "
                "convert with .long()"
            )
        return array if array.dtype != np.int32 else array.astype(np.int64)
    if isinstance(item, (list, tuple, range)):
        try:
            array = np.asarray(item)
        except ValueError as error:
            raise ValueError(f"cannot index with the nested sequence {item!r}: its rows differ in length") from error
        if array.size == 0:
            return array.astype(np.int64)
        if array.dtype.kind in "iuf":
            return array.astype(np.int64)
        if array.dtype.kind == "b":
            return array
        raise TypeError(f"cannot index with a sequence of {array.dtype.name}: {item!r}")
    if isinstance(item, (float, complex, np.floating)):
        raise IndexError(
            "only integers, slices (`:`), ellipsis (`...`), None and long or byte tensors are valid indices "
            f"(got {type(item).__name__})"
        )
    raise TypeError(f"cannot index with {item!r} of type {type(item).__name__}")


def _parse_items(items: tuple, shape: Sequence[int]) -> IndexPlan:
    ndim = len(shape)
    parsed = []
    n_used = 0
    for item in items:
        kind = type(item)
        if kind is int or kind is slice:
            n_used += 1
        elif item is None or item is Ellipsis or kind is bool:
            pass
        elif isinstance(item, np.bool_):
            item = bool(item)
        elif isinstance(item, np.ndarray) and item.ndim == 0 and item.dtype == np.bool_:
            item = bool(item)
        elif isinstance(item, np.ndarray) and item.ndim == 0 and item.dtype.kind in "iu":
            item = int(item)
            n_used += 1
        elif hasattr(item, "__index__") and not isinstance(item, np.ndarray):
            item = operator.index(item)
            n_used += 1
        else:
            item = _as_index_array(item)
            n_used += item.ndim if item.dtype == np.bool_ else 1
        parsed.append(item)
    if n_used > ndim:
        raise IndexError(f"too many indices for tensor of dimension {ndim}: the key uses {n_used}")
    basic: list = []
    advanced: list = []
    is_view = True
    new_axes = False
    seen_ellipsis = False
    dim = 0
    for item in parsed:
        kind = type(item)
        if kind is int:
            basic.append(_checked(item, dim, shape))
            dim += 1
        elif kind is slice:
            if item.step is not None:
                _check_step(item)
            basic.append(item)
            advanced.append(ALL)
            dim += 1
        elif item is None:
            basic.append(None)
            advanced.append(ALL)
            new_axes = True
        elif item is Ellipsis:
            if not seen_ellipsis:
                n_skipped = ndim - n_used
                basic.extend([ALL] * n_skipped)
                advanced.extend([ALL] * n_skipped)
                dim += n_skipped
                seen_ellipsis = True
        elif kind is bool:
            basic.append(None)
            advanced.append(np.zeros(1 if item else 0, np.int64))
            new_axes = True
            is_view = False
        elif item.dtype == np.bool_:
            for axis, n in enumerate(item.shape):
                if n != shape[dim + axis]:
                    raise IndexError(
                        f"The shape of the mask {list(item.shape)} at index {axis} does not match the "
                        f"shape of the indexed tensor {list(shape)} at index {dim + axis}"
                    )
            basic.extend([ALL] * item.ndim)
            advanced.append(item)
            dim += item.ndim
            is_view = False
        else:
            basic.append(ALL)
            advanced.append(item)
            dim += 1
            is_view = False
    basic.append(...)
    if is_view:
        return IndexPlan(tuple(basic), None, new_axes)
    while advanced[-1] is ALL:
        advanced.pop()
    return IndexPlan(tuple(basic), tuple(advanced), new_axes)


# Reading


def index_basic(a: np.ndarray, plan: IndexPlan) -> np.ndarray:
    """Return the view of the plan's first step; new axes get PyTorch's strides."""
    out = a[plan.basic]
    if not plan.new_axes or out.size == 0:
        return out
    steps = list(out.strides)
    source_axis = axis = 0
    for item in plan.basic[:-1]:
        if item is None:  # PyTorch inserts the axis before it reads the items that follow
            inside = source_axis < a.ndim
            steps[axis] = a.shape[source_axis] * a.strides[source_axis] if inside else a.itemsize
        else:
            source_axis += 1
        axis += type(item) is not int
    new = tuple(steps)
    return out if new == out.strides else strides.restride_bytes(out, out.shape, new)


def index_advanced(view: np.ndarray, key: Sequence[object]) -> np.ndarray:
    """Return the contiguous copy that arrays select from a view.

    Args:
        key: one item an axis, slice(None) (or None) or an array: int64 indices of any sign, or a mask
            that covers as many axes as it has. Arrays broadcast against each other.

    Raises:
        IndexError: an index out of range, or arrays that do not broadcast.
    """
    key = tuple(ALL if item is None else item for item in key)
    try:
        if len(key) == 1 or all(item is ALL for item in key[:-1]):
            index = key[-1]
            if index.dtype != np.bool_ and view.flags.c_contiguous:
                return view.take(index, axis=len(key) - 1)
        out = view[key]
    except IndexError as error:
        raise _reworded(error, view) from None
    return out if out.flags.c_contiguous else np.ascontiguousarray(out)


def advanced_shape(shape: Sequence[int], key: Sequence[object]) -> tuple[int, ...]:
    """The shape of what `index_advanced` returns for an array of this shape, from the arrays' shapes alone.

    Raises:
        IndexError: the arrays do not broadcast.
    """
    before: list[int] = []
    after: list[int] = []
    places: list[int] = []
    picked: list[tuple[int, ...]] = []
    axis = 0
    for place, item in enumerate(key):
        if item is None or item is ALL:
            (after if places else before).append(shape[axis])
            axis += 1
            continue
        places.append(place)
        mask = item.dtype == np.bool_
        picked.append((int(np.count_nonzero(item)),) if mask else item.shape)
        axis += item.ndim if mask else 1
    after.extend(shape[axis:])
    try:
        middle = np.broadcast_shapes(*picked)
    except ValueError:
        raise IndexError("shape mismatch: the indexing tensors do not broadcast together, their shapes are "
                         + ", ".join([str(list(s)) for s in picked])) from None
    adjacent = places[-1] - places[0] + 1 == len(places)
    return (*before, *middle, *after) if adjacent else (*middle, *before, *after)


def _reworded(error: IndexError, view: np.ndarray) -> IndexError:
    text = str(error).replace("axis", "dimension").replace("indexing arrays", "indexing tensors")
    if "empty axes" in text:
        text = f"index is out of bounds for dimension with size 0, shape {list(view.shape)}"
    return IndexError(text)


def index(a: np.ndarray, plan: IndexPlan) -> np.ndarray:
    """Return `a[key]` for a parsed key: a view, or a contiguous copy."""
    view = index_basic(a, plan)
    return view if plan.advanced is None else index_advanced(view, plan.advanced)


# Writing


def linear_index(shape: Sequence[int], key: Sequence[object]) -> np.ndarray:
    """Return, for each element that key selects, its position in the row-major array of this shape.

    Raises:
        IndexError: an index is out of range, or arrays do not broadcast.
    """
    axes: list = []
    for item in key:
        if item is None or item is ALL:
            axes.append(None)
        elif item.dtype == np.bool_:
            axes.extend(item.nonzero())
        else:
            axes.append(item)
    axes.extend([None] * (len(shape) - len(axes)))
    steps = strides.contiguous_strides(shape)
    indexed = [axis for axis, item in enumerate(axes) if item is not None]
    total: np.ndarray | None = None
    for axis in indexed:
        item, size = axes[axis], shape[axis]
        if item.size:
            low, high = int(item.min()), int(item.max())
            if low < -size or high >= size:
                bad = low if low < -size else high
                raise IndexError(f"index {bad} is out of bounds for dimension {axis} with size {size}")
            if low < 0:
                item = np.where(item < 0, item + size, item)
        part = item * steps[axis] if steps[axis] != 1 else item
        try:
            total = part if total is None else total + part
        except ValueError:
            shapes = ", ".join([str(list(axes[d].shape)) for d in indexed])
            raise IndexError(
                f"shape mismatch: the indexing tensors do not broadcast together, their shapes are {shapes}"
            ) from None
    if total is None:
        return np.arange(int(np.prod(shape, dtype=np.int64))).reshape(tuple(shape))
    adjacent = indexed[-1] - indexed[0] + 1 == len(indexed)
    before = list(range(indexed[0])) if adjacent else []
    after = [d for d in range(len(shape)) if axes[d] is None and d not in before]
    out = total.reshape(total.shape + (1,) * len(after))
    for place, axis in enumerate(after):
        out = out + (np.arange(shape[axis]) * steps[axis]).reshape((-1,) + (1,) * (len(after) - 1 - place))
    for axis in reversed(before):
        out = out + (np.arange(shape[axis]) * steps[axis]).reshape((-1,) + (1,) * out.ndim)
    return out


def add_at(flat: np.ndarray, positions: np.ndarray, values: np.ndarray) -> None:
    """Add values to flat[positions], repeats included, in order.

    NumPy's `add.at` has a fast loop (about 1.5 ns an element) only for 1-D contiguous operands of one
    dtype and int64 positions; this is what every caller here arranges. Sorting with reduceat, and
    bincount, were slower from 8 to 100,000 elements; and the order of additions is PyTorch's.
    """
    np.add.at(flat, np.ascontiguousarray(positions).reshape(-1), np.ascontiguousarray(values).reshape(-1))


def _shape_mismatch(value: np.ndarray, shape: Sequence[int]) -> RuntimeError:
    return RuntimeError(
        f"shape mismatch: value tensor of shape {list(value.shape)} cannot be broadcast to indexing result "
        f"of shape {list(shape)}"
    )


def index_put_(view: np.ndarray, key: Sequence[object], values: np.ndarray, accumulate: bool = False) -> None:
    """Write values (of view's dtype, broadcast) where the arrays of key point, in place.

    With repeated positions and without accumulate, the last value stays.

    Raises:
        IndexError: an index out of range, or arrays that do not broadcast.
        RuntimeError: values does not broadcast to the selection, or has another dtype.
    """
    if values.dtype != view.dtype:
        raise RuntimeError(
            f"index_put: source and destination must have the same dtype, not {view.dtype.name} for the "
            f"destination and {values.dtype.name} for the source"
        )
    key = tuple(ALL if item is None else item for item in key)
    if values.ndim and values.shape[0] == 1:  # NumPy refuses a value of more axes than the selection
        lead = next((axis for axis, n in enumerate(values.shape) if n != 1), values.ndim)
        values = values.reshape(values.shape[lead:])
    if accumulate:
        _accumulate(view, linear_index(view.shape, key), values)
        return
    try:
        view[key] = values
    except IndexError as error:
        raise _reworded(error, view) from None
    except ValueError:
        raise _shape_mismatch(values, index_advanced(view, key).shape) from None


def _accumulate(view: np.ndarray, positions: np.ndarray, values: np.ndarray) -> None:
    try:
        spread = np.broadcast_to(values, positions.shape)
    except ValueError:
        raise _shape_mismatch(values, positions.shape) from None
    if view.flags.c_contiguous:
        add_at(view.reshape(-1), positions, spread)
        return
    dense = view.copy()
    add_at(dense.reshape(-1), positions, spread)
    view[...] = dense


def index_put(a: np.ndarray, key: Sequence[object], values: np.ndarray, accumulate: bool = False) -> np.ndarray:
    """Return a copy of a with values written where the arrays of key point; see `index_put_`."""
    out = strides.clone(a)
    index_put_(out, key, values, accumulate)
    return out


def assign(a: np.ndarray, plan: IndexPlan, value: np.ndarray) -> None:
    """Do `a[key] = value` for a parsed key: value broadcasts; into a view it is cast to a's dtype.

    Raises:
        RuntimeError: value does not broadcast to the selection, or has another dtype than a while the key
            holds arrays (PyTorch's rule; the caller makes Python numbers arrays of a's dtype).
        IndexError: an index is out of range.
    """
    view = index_basic(a, plan)
    if plan.advanced is not None and plan.basic == (None, ...):  # the key is True or False
        if plan.advanced[0].size == 0:
            return
    elif plan.advanced is not None:
        if value.size == 1 and value.dtype != a.dtype:
            arrays = [item for item in plan.advanced if item is not ALL]
            if len(arrays) == 1 and arrays[0].dtype == np.bool_:
                value = value.astype(a.dtype)  # PyTorch treats one value under a mask as masked_fill
        index_put_(view, plan.advanced, value)
        return
    extra = value.ndim - view.ndim
    if extra > 0 and value.shape[:extra] == (1,) * extra:
        value = value.reshape(value.shape[extra:])
    try:
        np.copyto(view, value, casting="unsafe")
    except ValueError:
        raise RuntimeError(
            f"The expanded size of the tensor must match the existing size: a value of shape "
            f"{list(value.shape)} cannot be written to an indexing result of shape {list(view.shape)}"
        ) from None


# Gradients


def index_backward(g: np.ndarray, shape: Sequence[int], plan: IndexPlan) -> np.ndarray:
    """Return the gradient of `a[key]` for a of this shape: g added where the key read."""
    out = np.zeros(shape, g.dtype)
    view = out[plan.basic]
    if plan.advanced is None:
        view[...] = g
        return out
    arrays = [item for item in plan.advanced if item is not ALL]
    if len(arrays) == 1 and arrays[0].dtype == np.bool_:
        view[plan.advanced] = g  # a mask repeats no position
    else:
        _accumulate(view, linear_index(view.shape, plan.advanced), g)
    return out


def index_put_backward(
    g: np.ndarray, key: Sequence[object], values_shape: Sequence[int], accumulate: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return the gradients of `index_put` for the array and for values (summed to values_shape)."""
    key = tuple(ALL if item is None else item for item in key)
    g_self = g
    if not accumulate:
        g_self = g.copy()
        g_self[key] = 0
    g_values = index_advanced(g, key)
    n_lead = g_values.ndim - len(values_shape)
    if n_lead > 0:
        g_values = g_values.sum(axis=tuple(range(n_lead)), dtype=g.dtype)
    summed = tuple(d for d, n in enumerate(values_shape) if n == 1 and g_values.shape[d] != 1)
    if summed:
        g_values = g_values.sum(axis=summed, keepdims=True, dtype=g.dtype)
    return g_self, g_values
