"""The order in which selection algorithms leave equal elements.

Sorting without `stable`, topk, kthvalue and mode give equal elements the positions that an algorithm happens to leave
them in. To give PyTorch's, its algorithms are followed here: introsort and introselect (Musser, Software: Practice and
Experience 27(8), 1997) as in the GNU C++ library, and Hoare's selection. Only rows with equal elements come here: the
order of different ones does not depend on the algorithm. All rows, and all parts of a row, are partitioned at once.

Rows are given as ranks: integers, equal for equal elements, in the wanted order.
"""

from __future__ import annotations

import numpy as np

SMALL = 16          # parts of so few elements are left to insertion, which is stable
LIMIT = 1 << 17     # elements: above it the first of equal elements comes first, which costs nothing


def ranks(rows: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Dense ranks (R, n), int32, of rows (R, n), from the positions that sort them stably; NaN equals NaN."""
    ordered = np.take_along_axis(rows, order, -1)
    found = np.zeros(rows.shape, np.int32)
    np.cumsum(~equal_neighbours(ordered), axis=-1, out=found[:, 1:])
    out = np.empty_like(found)
    np.put_along_axis(out, order, found, -1)
    return out


def equal_neighbours(ordered: np.ndarray) -> np.ndarray:
    """Whether each element but the first of sorted rows equals the one before; NaN equals NaN."""
    same = ordered[..., 1:] == ordered[..., :-1]
    if ordered.dtype.kind == "f" and np.isnan(ordered[..., [0, -1]]).any():
        same |= np.isnan(ordered[..., 1:]) & np.isnan(ordered[..., :-1])
    return same


class _Rows:
    """Ranks of all rows, one after another, and where each came from; both are permuted together."""

    def __init__(self, keys: np.ndarray) -> None:
        self.keys = keys.reshape(-1).copy()
        self.order = np.tile(np.arange(keys.shape[1]), len(keys))
        self.starts = np.arange(len(keys)) * keys.shape[1]
        self.size = keys.shape[1]

    def swap(self, a: np.ndarray, b: np.ndarray) -> None:
        for values in (self.keys, self.order):
            values[a], values[b] = values[b], values[a]

    def exchange(self, first: np.ndarray, last: np.ndarray, pivot: np.ndarray, meet: bool) -> tuple[np.ndarray, np.ndarray]:
        """Exchange, in each part [first, last), elements >= pivot from the left with elements <= pivot from the right,
        until the two sides meet.

        Returns:
            Where the left and the right pointer of each part end. With `meet` they pass an element on which both stop.
        """
        lengths = last - first
        part = np.repeat(np.arange(len(first)), lengths)
        at = np.arange(len(part)) + np.repeat(first - (np.cumsum(lengths) - lengths), lengths)
        x, p = self.keys[at], pivot[part]
        low, high = np.flatnonzero(x >= p), np.flatnonzero(x <= p)
        n_low, n_high = np.bincount(part[low], minlength=len(first)), np.bincount(part[high], minlength=len(first))
        low_start, high_end = np.cumsum(n_low) - n_low, np.cumsum(n_high)
        owner = part[low]
        i = np.arange(len(low)) - low_start[owner]
        partner = np.zeros(0, np.int64)
        matched = np.zeros(len(low), np.bool_)
        if len(high):
            partner = high[np.maximum(high_end[owner] - 1 - i, 0)]
            matched = (i < n_high[owner]) & ((low <= partner) if meet else (low < partner))
        m = np.bincount(owner[matched], minlength=len(first))
        if matched.any():
            self.swap(at[low[matched]], at[partner[matched]])
        left, right = last.copy(), first - 1
        more = m < n_low
        left[more] = at[low[low_start[more] + m[more]]]
        more = m < n_high
        right[more] = at[high[high_end[more] - 1 - m[more]]]
        if matched.any():       # what was exchanged for another stops the other side's pointer too
            m -= np.bincount(owner[matched & (low == partner)], minlength=len(first))
        some = m > 0
        left[some] = np.minimum(left[some], at[high[high_end[some] - m[some]]])
        right[some] = np.maximum(right[some], at[low[low_start[some] + m[some] - 1]])
        return left, right

    def cut(self, first: np.ndarray, last: np.ndarray) -> np.ndarray:
        """Partition parts around the median of three elements; where the right side of each begins."""
        keys = self.keys
        a, b, c = first + 1, first + (last - first) // 2, last - 1
        ab, bc, ac = keys[a] < keys[b], keys[b] < keys[c], keys[a] < keys[c]
        self.swap(first, np.where(ab, np.where(bc, b, np.where(ac, c, a)), np.where(ac, a, np.where(bc, c, b))))
        return self.exchange(first + 1, last, keys[first], False)[0]

    def insertion(self, first: np.ndarray, last: np.ndarray) -> None:
        """Sort parts of the same rows stably."""
        for f, e in zip(first.tolist(), last.tolist(), strict=True):
            new = self.keys[f:e].argsort(kind="stable")
            self.keys[f:e], self.order[f:e] = self.keys[f:e][new], self.order[f:e][new]

    def sort(self, first: np.ndarray, last: np.ndarray) -> None:
        """Introsort parts, one in each row at most."""
        begin, end = first, last
        depth = 2 * np.maximum(np.frexp(np.maximum(last - first, 1))[1] - 1, 0)
        while True:
            long = last - first > SMALL
            first, last, depth = first[long], last[long], depth[long]
            if not len(first):
                break
            spent = depth == 0
            for f, e in zip(first[spent].tolist(), last[spent].tolist(), strict=True):
                self.heap(f, e, e)
            first, last, depth = first[~spent], last[~spent], depth[~spent]
            middle = self.cut(first, last)
            first, last = np.concatenate([first, middle]), np.concatenate([middle, last])
            depth = np.concatenate([depth - 1, depth - 1])
        self.insertion(begin, end)

    def heap(self, first: int, middle: int, last: int) -> None:
        """The least elements of a part, in order, at its first places, by a heap of so many."""
        n = middle - first
        heap = list(zip(self.keys[first:middle].tolist(), self.order[first:middle].tolist(), strict=True))
        for i in range(n // 2 - 1, -1, -1):
            _sink(heap, i, n, heap[i])
        if n and last > middle:
            rest = self.keys[middle:last]
            for j in np.flatnonzero(rest < heap[0][0]).tolist():
                if rest[j] < heap[0][0]:
                    own = int(rest[j]), int(self.order[middle + j])
                    self.keys[middle + j], self.order[middle + j] = heap[0]
                    _sink(heap, 0, n, own)
        for end in range(n - 1, 0, -1):
            own, heap[end] = heap[end], heap[0]
            _sink(heap, 0, end, own)
        if n:
            self.keys[first:middle], self.order[first:middle] = zip(*heap, strict=True)

    def select(self, k: int) -> None:
        """Introselect: the element that belongs at place k of each row, what is less before it."""
        first, last = self.starts, self.starts + self.size
        place = first + k
        depth = 2 * max(self.size.bit_length() - 1, 0)
        done_first, done_last = [], []
        while True:
            long = last - first > 3
            done_first.append(first[~long])
            done_last.append(last[~long])
            first, last, place = first[long], last[long], place[long]
            if not len(first):
                break
            if depth == 0:
                for f, p, e in zip(first.tolist(), place.tolist(), last.tolist(), strict=True):
                    self.heap(f, p + 1, e)
                    self.swap(np.array([f]), np.array([p]))
                break
            depth -= 1
            middle = self.cut(first, last)
            right = middle <= place
            first, last = np.where(right, middle, first), np.where(right, last, middle)
        self.insertion(np.concatenate(done_first), np.concatenate(done_last))

    def result(self) -> np.ndarray:
        return self.order.reshape(-1, self.size)


def _sink(heap: list, hole: int, n: int, own: tuple) -> None:
    """Put own into a heap of n elements below hole: down to a leaf first, then up."""
    top, child = hole, hole
    while child < (n - 1) // 2:
        child = 2 * (child + 1)
        if heap[child][0] < heap[child - 1][0]:
            child -= 1
        heap[hole] = heap[child]
        hole = child
    if n % 2 == 0 and child == (n - 2) // 2:
        child = 2 * (child + 1)
        heap[hole] = heap[child - 1]
        hole = child - 1
    parent = (hole - 1) // 2
    while hole > top and heap[parent][0] < own[0]:
        heap[hole] = heap[parent]
        hole, parent = parent, (parent - 1) // 2
    heap[hole] = own


def sort(keys: np.ndarray) -> np.ndarray:
    """The positions (R, n) in which introsort leaves ranks (R, n)."""
    rows = _Rows(keys)
    rows.sort(rows.starts, rows.starts + rows.size)
    return rows.result()


def topk(keys: np.ndarray, k: int, ordered: bool) -> np.ndarray:
    """The positions (R, k) of the k least ranks of each row."""
    rows = _Rows(keys)
    if k * 64 <= rows.size:
        for start in rows.starts.tolist():
            rows.heap(start, start + k, start + rows.size)
    else:
        rows.select(k - 1)
        if ordered:
            rows.sort(rows.starts, rows.starts + k - 1)
    return rows.result()[:, :k]


def kth(keys: np.ndarray, k: int) -> np.ndarray:
    """The position (R,) at which Hoare's selection finds the rank at place k, counted from 0."""
    rows = _Rows(keys)
    left, right = rows.starts, rows.starts + rows.size - 1
    place = left + k
    while True:
        pair = right == left + 1
        wrong = pair & (rows.keys[left] > rows.keys[np.minimum(left + 1, len(rows.keys) - 1)])
        rows.swap(left[wrong], right[wrong])
        long = right > left + 1
        left, right, place = left[long], right[long], place[long]
        if not len(left):
            break
        second = left + 1
        rows.swap(left + (right - left) // 2, second)
        for a, b in ((second, right), (left, right), (second, left)):
            greater = rows.keys[a] > rows.keys[b]
            rows.swap(a[greater], b[greater])
        i, j = rows.exchange(left + 2, right, rows.keys[left], True)     # the elements beside stop the pointers
        rows.swap(left, j)
        left, right = np.where(j <= place, i, left), np.where(j >= place, j - 1, right)
    return rows.result()[:, k]
