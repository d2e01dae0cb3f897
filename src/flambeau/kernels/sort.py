"""Order along one axis: sort, argsort, topk, kthvalue, msort. NaN is the greatest value, as in PyTorch.

Where PyTorch leaves the order of equal elements to its algorithm (topk, kthvalue, sort without stable), that algorithm is
followed (see `ties`), up to ties.LIMIT elements; above it the first positions are given.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from flambeau.kernels import ties
from flambeau.kernels.layout import empty_like
from flambeau.kernels.ranked import nth
from flambeau.kernels.strides import normalize_dim

RADIX = 1 << 15     # elements from which PyTorch sorts a vector of integers by their digits, which is stable


def sortable(a: np.ndarray) -> np.ndarray:
    """Return a in a dtype that NumPy sorts rightly: bfloat16, whose NaN it misplaces, is widened."""
    return a.astype(np.float32) if a.dtype.char == "E" else a


def refuse_complex(name: str, a: np.ndarray) -> None:
    """Raise for dtypes that have no order."""
    if a.dtype.kind == "c":
        raise RuntimeError(f"{name} does not support complex dtypes on CPU: sort by .abs() or .real")


def argsort_last(a: np.ndarray, descending: bool) -> np.ndarray:
    """Return the stable argsort along the last axis; descending keeps equal elements in order too."""
    keys = sortable(a)
    if not descending:
        return keys.argsort(-1, "stable")
    order = keys[..., ::-1].argsort(-1, "stable")[..., ::-1]
    return a.shape[-1] - 1 - order


def take_last(a: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Return a's elements at order along the last axis."""
    if a.ndim == 1:
        return a[order]
    if a.flags.c_contiguous and a.size:     # a third of the time of take_along_axis for small arrays
        starts = np.arange(0, a.size, a.shape[-1]).reshape(*a.shape[:-1], 1)
        return a.reshape(-1).take(starts + order)
    return np.take_along_axis(a, order, axis=-1)


def like(out: np.ndarray, a: np.ndarray) -> np.ndarray:
    """Return out in the memory order of a, which has its shape."""
    if a.flags.c_contiguous:
        return dense(out)
    ordered = empty_like(a, "preserve", out.dtype)
    ordered[...] = out
    return ordered


def dense(a: np.ndarray) -> np.ndarray:
    """Return a, or a contiguous copy (np.ascontiguousarray would make a 0-d array 1-D)."""
    return a if a.flags.c_contiguous else a.copy()


def reorder_ties(keys: np.ndarray, order: np.ndarray, chosen: np.ndarray, follow: Callable[[np.ndarray], np.ndarray],
                 into: np.ndarray) -> None:
    """Put what `follow`, an algorithm on ranks (R, n), gives for the chosen rows into the same rows of `into`.

    Args:
        keys, order: rows (..., n), and the positions that sort them stably.
        chosen: bool (...), the rows in which equal elements matter.
        into: positions (..., k), written in place.
    """
    n = keys.shape[-1]
    rows = np.flatnonzero(chosen)
    if 0 < len(rows) * n <= ties.LIMIT:
        picked = ties.ranks(keys.reshape(-1, n)[rows], order.reshape(-1, n)[rows])
        into.reshape(-1, into.shape[-1])[rows] = follow(picked).reshape(len(rows), into.shape[-1])


def unstable_order(keys: np.ndarray, order: np.ndarray) -> np.ndarray:
    """The positions that sort keys (..., n) as introsort leaves them, from those of the stable sort."""
    n = keys.shape[-1]
    if n <= ties.SMALL or not keys.size:
        return order
    chosen = ties.equal_neighbours(take_last(keys, order)).any(-1)
    if chosen.any():
        order = np.array(order, order="C")
        reorder_ties(keys, order.copy(), chosen, ties.sort, order)
    return order


def sort(a: np.ndarray, dim: int = -1, descending: bool = False, stable: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Return a sorted along dim and the positions (int64) of its elements.

    Raises:
        RuntimeError: a is complex.
        IndexError: dim is out of range.
    """
    dim = normalize_dim(dim, a.ndim)
    refuse_complex("sort", a)
    if a.ndim == 0:
        return a.copy(), np.zeros((), np.int64)
    moved = a.swapaxes(dim, -1)
    order = argsort_last(moved, descending)
    if not stable and not (a.ndim == 1 and a.size >= RADIX and a.dtype.kind in "iu" and not descending):
        order = unstable_order(sortable(moved), order)
    return like(take_last(moved, order).swapaxes(dim, -1), a), like(order.swapaxes(dim, -1), a)


def argsort(a: np.ndarray, dim: int = -1, descending: bool = False, stable: bool = True) -> np.ndarray:
    """Return the positions that sort a along dim; see `sort`."""
    return sort(a, dim, descending, stable)[1]


def msort(a: np.ndarray) -> np.ndarray:
    """Return a sorted along its first axis."""
    return sort(a, 0)[0]


def topk(a: np.ndarray, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Return the k largest (or smallest) elements along dim, in order, and their positions.

    Raises:
        RuntimeError: k is negative or exceeds the axis; a is bool or complex.
    """
    dim = normalize_dim(dim, a.ndim)
    length = a.shape[dim] if a.ndim else 1
    if not 0 <= k <= length:
        raise RuntimeError(f"selected index k out of range: k is {k}, dimension {dim} has size {length}")
    refuse_complex("topk", a)
    if a.dtype == np.bool_:
        raise RuntimeError("topk does not support bool dtypes on CPU: use .to(torch.uint8)")
    if a.ndim == 0:  # for k = 0 too, as in PyTorch
        return a.copy(), np.zeros((), np.int64)
    moved = a.swapaxes(dim, -1)
    if sorted and (k > 1 or length < 64) and 0 < a.size <= FEW and a.dtype.char in "fd":
        keys = np.negative(moved) if largest else moved.copy()
        order = keys.argsort(-1)[..., :k]
        keys.sort(-1)
        if _all_different(keys[..., : k + 1]) and keys[..., -1].max() <= np.inf:      # and no NaN, which comes last
            best = keys[..., :k]
            return dense((-best if largest else best).swapaxes(dim, -1)), dense(order.swapaxes(dim, -1))
    if k == 1 and moved.size:
        keys = sortable(moved)
        order = (keys.argmax(axis=-1) if largest else _argmin_nan_last(keys))[..., None]
    elif 0 < k < length // 8 and a.dtype.kind == "f":
        order = _partial_order(sortable(moved), k, largest)
    else:
        order = argsort_last(moved, largest)[..., :k]
    if 0 < k and moved.size and length > 1:
        order = _as_selected(sortable(moved), order, k, largest, sorted)
    return dense(take_last(moved, order).swapaxes(dim, -1)), dense(order.swapaxes(dim, -1))


FEW = 4096          # elements up to which whole rows are sorted for topk


def _all_different(ordered: np.ndarray) -> bool:
    """Whether sorted rows have no equal neighbours."""
    return not np.count_nonzero(ordered[..., 1:] == ordered[..., :-1])


def _as_selected(keys: np.ndarray, order: np.ndarray, k: int, largest: bool, ordered: bool) -> np.ndarray:
    """The k chosen positions with PyTorch's choice among equal elements; unordered, in its order too."""
    if k == 1 and keys.shape[-1] >= 64:
        return order            # a heap of one keeps the first
    if not ordered and k * 64 > keys.shape[-1]:
        chosen = np.ones(keys.shape[:-1], np.bool_)
    else:
        best = take_last(keys, order)
        last = best[..., -1:]
        same = keys == last
        chosen = same.sum(-1) > 1
        if k > 1:
            chosen |= ties.equal_neighbours(best).any(-1)
        if keys.dtype.kind == "f":
            chosen |= np.isnan(last[..., 0])
    if chosen.any() and np.count_nonzero(chosen) * keys.shape[-1] <= ties.LIMIT:
        order = np.array(order, order="C")
        reorder_ties(keys, argsort_last(keys, largest), chosen, lambda ranks: ties.topk(ranks, k, ordered), order)
    return order


def _argmin_nan_last(keys: np.ndarray) -> np.ndarray:
    if keys.dtype.kind != "f":
        return keys.argmin(axis=-1)
    nan = np.isnan(keys)
    if not nan.any():
        return keys.argmin(axis=-1)
    order = np.where(nan, np.inf, keys).argmin(axis=-1)
    first_number = (~nan).argmax(axis=-1)  # an infinity before the first number may be a NaN
    chosen_nan = np.take_along_axis(nan, order[..., None], -1)[..., 0]
    return np.where(chosen_nan, first_number, order)


_ONE_BY_ONE = 8         # elements that are found one after the other


def _one_by_one(keys: np.ndarray, k: int) -> np.ndarray | None:
    """The positions of the k greatest elements, each taken out when it is found; None where -inf is among them."""
    left = np.array(keys, order="C")
    out = np.empty((*keys.shape[:-1], k), np.int64)
    flat = left.reshape(-1)
    starts = np.arange(0, left.size, left.shape[-1]).reshape(left.shape[:-1])
    for i in range(k):
        out[..., i] = left.argmax(-1)
        at = starts + out[..., i]
        if i == k - 1 and np.isneginf(flat[at]).any():
            return None
        flat[at] = -np.inf
    return out


def _partial_order(keys: np.ndarray, k: int, largest: bool) -> np.ndarray:
    """The k first of the stable order, by partition: linear in the axis. Floating keys only."""
    if k <= _ONE_BY_ONE and largest:
        found = _one_by_one(keys, k)
        if found is not None:
            return found
    ranks = np.where(np.isnan(keys), np.inf, keys)
    if largest:
        ranks = -ranks
    elif np.isinf(ranks).any() or largest:
        return argsort_last(keys, largest)[..., :k]
    threshold = np.partition(ranks, k - 1, axis=-1)[..., k - 1 : k]
    if np.isinf(threshold).any() or np.isinf(ranks).any():
        return argsort_last(keys, largest)[..., :k]
    below = ranks < threshold
    equal = ranks == threshold
    missing = k - np.count_nonzero(below, axis=-1)[..., None]
    chosen = below | (equal & (equal.cumsum(axis=-1) <= missing))
    positions = chosen.nonzero()[-1].reshape(*keys.shape[:-1], k)
    inner = argsort_last(take_last(keys, positions), largest)
    return take_last(positions, inner)


def kthvalue(a: np.ndarray, k: int, dim: int = -1, keepdim: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Return the k-th smallest element (k counts from 1) along dim and its position.

    Raises:
        RuntimeError: k is outside [1, size]; a is bool or complex.
        IndexError: the axis is empty.
    """
    dim = normalize_dim(dim, a.ndim)
    length = a.shape[dim] if a.ndim else 1
    if length == 0:
        raise IndexError(f"kthvalue(): Expected reduction dim {dim} to have non-zero size.")
    if not 1 <= k <= length:
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {dim}: {k} of {length}")
    if a.ndim == 0:
        return a.copy(), np.zeros((), np.int64)
    if a.dtype.kind in "cb":
        raise NotImplementedError(f"kthvalue is not implemented for {a.dtype.name}")
    moved = a.swapaxes(dim, -1)
    found = nth(moved, k - 1)
    if found is not None and (found[2] or moved.size > ties.LIMIT):     # with no equal elements to choose from
        values, order = found[0].swapaxes(dim, -1), found[1].swapaxes(dim, -1)
        return (dense(values), dense(order)) if keepdim else (dense(values.squeeze(dim)), dense(order.squeeze(dim)))
    stable = argsort_last(moved, False)
    order = np.array(stable[..., k - 1 : k], order="C")
    keys = sortable(moved)
    value = take_last(keys, order)
    chosen = ((keys == value).sum(-1) != 1) if moved.size else np.zeros(moved.shape[:-1], np.bool_)
    if chosen.any():
        reorder_ties(keys, stable, chosen, lambda ranks: ties.kth(ranks, k - 1), order)
    values, order = take_last(moved, order).swapaxes(dim, -1), order.swapaxes(dim, -1)
    if not keepdim:
        values, order = values.squeeze(dim), order.squeeze(dim)
    return dense(values), dense(order)
