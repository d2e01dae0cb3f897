"""t[key] and t[key] = value where the key holds batched tensors: each sample picks with indices of its own.

As in indexing without vmap, integers, slices and None make a view first, and tensors then index that view. In the batch
their arrays are joined by one that counts the samples, so that one operator picks for all.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.objects import TensorBase, dtype_of, make, shape_of
from flambeau.core.state import state
from flambeau.ops._mapped import getter, setter
from flambeau.ops.indexing_basic import setitem as plain_setitem

from ._levels import VmapLevel, innermost, is_batched, is_batched_at, unbatch_at, wrap


def _items(key: Any) -> list:
    return list(key) if type(key) is tuple else [key]


def _level(t: Any, items: list) -> VmapLevel | None:
    """The level at which the key is batched, when that is the deepest."""
    level = innermost([t, *items])
    if level is None or not any(is_batched_at(x, level) for x in items):
        return None
    return level


def _is_mask(x: Any) -> bool:
    return isinstance(x, TensorBase) and dtype_of(x).kind == "b"


class Key:
    """A key with batched tensors, taken apart for a tensor.

    Attributes:
        view: the view that integers, slices and None make.
        indices: for each dimension of the view its index tensor, or None.
        place: before which of the dimensions that remain the result has those of the indices.
        n: how many dimensions the indices have, broadcast.
    """

    def __init__(self, t: TensorBase, items: list) -> None:
        found: list[Any] = []
        for x in items:
            if isinstance(x, (list, range)) and not isinstance(x, TensorBase):
                x = make(np.asarray(list(x)))
            if _is_mask(x):
                if is_batched(x):
                    raise RuntimeError(
                        "vmap: indexing with a boolean mask that is batched has a dynamic (data-dependent) output shape: it "
                        "cannot be mapped. Use torch.where(mask, value, x), or x.masked_fill(mask, number).")
                found.extend(x.nonzero(as_tuple=True))      # type: ignore[attr-defined]
            elif isinstance(x, TensorBase) and not is_batched(x) and len(shape_of(x)) == 0:
                found.append(int(x))            # type: ignore[call-overload]
            else:
                found.append(x)
        used = sum(1 for x in found if x is not None and x is not Ellipsis)
        rank = len(shape_of(t))
        if used > rank:
            raise IndexError(f"too many indices for tensor of dimension {rank}: the key uses {used}")
        if not any(x is Ellipsis for x in found):
            found.append(Ellipsis)
        at = next(i for i, x in enumerate(found) if x is Ellipsis)
        found[at:at + 1] = [slice(None)] * (rank - used)
        basic = tuple([slice(None) if isinstance(x, TensorBase) else x for x in found])
        self.view: Any = t if all(b == slice(None) for b in basic if b is not None) and None not in basic else state.getitem(
            t, basic)
        self.indices: list[Any] = [x if isinstance(x, TensorBase) else None for x in found if not isinstance(x, int)]
        wide = [i for i, x in enumerate(x for x in self.indices if x is None or len(shape_of(x)))
                if x is not None]                           # numbered without the dimensions that single indices remove
        adjacent = bool(wide) and wide[-1] - wide[0] + 1 == len(wide)
        self.place = wide[0] if adjacent else 0
        self.n = max([len(shape_of(x)) for x in self.indices if x is not None])

    def inner(self, level: VmapLevel) -> tuple:
        """The key of the view with its batch in front."""
        last = max(i for i, x in enumerate(self.indices) if x is not None)
        key: list[Any] = [make(np.arange(level.size).reshape(level.size, *(1,) * self.n))]
        for x in self.indices[:last + 1]:
            if x is None:
                key.append(slice(None))
            elif is_batched_at(x, level):
                own = x._lazy.inner
                key.append(own.reshape(level.size, *(1,) * (self.n - len(shape_of(x))), *shape_of(x)))
            else:
                key.append(x)
        return tuple(key)

    def selection(self) -> tuple[int, ...]:
        """The shape of what one sample's key selects."""
        picked = np.broadcast_shapes(*[tuple(shape_of(x)) for x in self.indices if x is not None])
        rest = [s for s, x in zip(shape_of(self.view), self.indices, strict=True) if x is None]
        return (*rest[:self.place], *picked, *rest[self.place:])


def get(t: Any, key: Any) -> Any:
    """t[key], or NotImplemented when the key is not batched."""
    items = _items(key)
    level = _level(t, items)
    if level is None:
        return NotImplemented
    k = Key(t, items)
    out = state.getitem(unbatch_at(k.view, level), k.inner(level))      # (B, dimensions of the indices, the rest)
    if k.place and k.n:
        out = out.movedim(tuple(range(1, k.n + 1)), tuple(range(k.place + 1, k.place + k.n + 1)))
    return wrap(out, level)


def put(t: Any, key: Any, value: Any) -> bool:
    """t[key] = value where the key is batched; False when it is not."""
    items = _items(key)
    level = _level(t, items)
    if level is None:
        return False
    if len(items) == 1 and _is_mask(items[0]):
        _put_masked(t, items[0], value)
        return True
    if not is_batched_at(t, level):
        raise RuntimeError(
            "vmap: a write with batched indices into a tensor that is not batched is not possible: all samples would write "
            "into one. Make the target from a batched tensor, as in torch.zeros_like(x).")
    k = Key(t, items)
    if isinstance(value, TensorBase):
        shape = k.selection()
        value = value.expand(shape)             # type: ignore[attr-defined]
        if k.place and k.n:
            value = value.movedim(tuple(range(k.place, k.place + k.n)), tuple(range(k.n)))
        value = unbatch_at(value, level)
        if value.dtype != t.dtype:              # type: ignore[attr-defined]
            value = value.to(t.dtype)           # type: ignore[attr-defined]
    plain_setitem(unbatch_at(k.view, level), k.inner(level), value)
    return True


def _put_masked(t: Any, mask: Any, value: Any) -> None:
    """One value where a mask of each sample says so."""
    if isinstance(value, TensorBase) and len(shape_of(value)) != 0:
        raise RuntimeError(
            "vmap: a write of several values through a boolean mask that is batched needs to count the mask's elements, "
            "which is data-dependent. Write one value, or use torch.where(mask, values, x).")
    mask = mask.reshape(*shape_of(mask), *(1,) * (len(shape_of(t)) - len(shape_of(mask))))
    if not isinstance(value, TensorBase):
        t.masked_fill_(mask, value)
        return
    t.copy_(state.ops.where(mask, value, t))


getter[:] = [get]
setter[:] = [put]
