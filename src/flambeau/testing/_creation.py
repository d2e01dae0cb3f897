"""`make_tensor`: a random tensor for a test."""

from __future__ import annotations

from typing import Any

import flambeau


def make_tensor(*shape: Any, dtype: Any, device: Any = "cpu", low: float | None = None, high: float | None = None,
                requires_grad: bool = False, noncontiguous: bool = False, exclude_zero: bool = False,
                memory_format: Any = None) -> Any:
    """A tensor of the shape with random values in [low, high).

    Args:
        low, high: default -9 and 9 for floating and complex dtypes, -9 and 10 for signed integers, 0 and 10 for uint8.
        noncontiguous: its elements do not lie densely in memory.
        exclude_zero: zeros become the smallest positive number.

    >>> flambeau.testing.make_tensor(2, 3, dtype=flambeau.int64, low=0, high=5).shape
    torch.Size([2, 3])
    """
    size = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else tuple(shape)
    sizes = (*size[:-1], 2 * size[-1]) if noncontiguous and size else size
    if dtype.kind == "b":
        t = flambeau.randint(0, 2, sizes, dtype=dtype)
    elif dtype.kind in "iu":
        lowest, highest = (0, 10) if dtype.kind == "u" else (-9, 10)
        t = flambeau.randint(int(lowest if low is None else low), int(highest if high is None else high), sizes, dtype=dtype)
    else:
        least, most = -9.0 if low is None else low, 9.0 if high is None else high
        if dtype.kind == "c":
            parts = [flambeau.rand(sizes, dtype=dtype.to_real()) * (most - least) + least for _ in range(2)]
            t = flambeau.complex(*parts)
        else:
            wide = flambeau.float32 if dtype.itemsize < 4 else dtype
            t = (flambeau.rand(sizes, dtype=wide) * (most - least) + least).to(dtype)
    if noncontiguous and size:
        t = t[..., ::2]
    if exclude_zero:
        t[t == 0] = 1 if dtype.kind in "iu" else flambeau.finfo(dtype).tiny
    if memory_format is not None:
        t = t.clone(memory_format=memory_format)
    t = t.to(device)
    return t.requires_grad_() if requires_grad and dtype.kind in "fc" else t
