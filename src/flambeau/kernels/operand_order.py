"""The layout of a result whose operands lie differently in memory.

NumPy then answers row by row; PyTorch sorts the axes by the first operand that tells two of them apart. Random numbers
fill a tensor in the order of its memory, so the masks of dropout depend on it, and `view` needs the right strides.
"""

from __future__ import annotations

import numpy as np


def follow(x: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """x, the result of a and b, in PyTorch's order of axes; x itself when it has it.

    >>> from flambeau.kernels.operand_order import follow
    >>> a, b = np.ones((2, 3)).T, np.ones((3, 2))
    >>> (a + b).strides, follow(a + b, a, b).strides
    ((16, 8), (8, 24))
    """
    n = x.ndim
    if n < 2 or x.strides == a.strides or b.strides == a.strides or b.ndim == 0:
        return x
    steps = [(0,) * (n - y.ndim) + tuple(0 if size == 1 else step for size, step in zip(y.shape, y.strides, strict=True))
             for y in (a, b)]
    order = list(range(n - 1, -1, -1))      # innermost first; an insertion sort in which some pairs do not compare
    for i in range(1, n):
        at = i
        for k in range(i - 1, -1, -1):
            told = _outer(order[k], order[at], steps, x.shape)
            if told > 0:
                order[k], order[at] = order[at], order[k]
                at = k
            elif told < 0:
                break
    order.reverse()
    out = np.empty([x.shape[axis] for axis in order], x.dtype).transpose(np.argsort(order))
    if out.strides == x.strides:
        return x
    out[...] = x
    return out


def _outer(i: int, j: int, steps: list[tuple[int, ...]], shape: tuple[int, ...]) -> int:
    """1 if axis i belongs outside axis j, -1 if inside, 0 if no operand tells."""
    for step in steps:
        if step[i] == 0 or step[j] == 0:
            continue
        if step[i] != step[j]:
            return 1 if step[i] > step[j] else -1
        if shape[i] > shape[j]:
            return 1
    return 0
