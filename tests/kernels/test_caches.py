"""What kernels keep for the next call stays small in long runs whose shapes change."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest

from flambeau.kernels import loss, pool, reduce, resample, sums

MOST_BYTES = 9 << 20


def max_pool(i: int) -> None:
    pool.max_pool_with_indices(np.ones((400 + 2 * i, 1000), "f4"), (1, 2), (1, 2), (0, 0), (1, 1), False)


def average_pool(i: int) -> None:
    pool.avg_pool(np.ones((400 + i, 1000), "f4"), (2, 3), (1, 1), (1, 1), False, False, None)


def adaptive_pool(i: int) -> None:
    pool.adaptive_avg_pool(np.ones((401 + i, 300), "f4"), (400, 299))


def many_taps(i: int) -> None:
    pool.max_pool(np.ones(4000 + i, "f4"), (2000,), (1,), (0,), (1,), False)


def labels(i: int) -> None:
    loss.nll_loss(np.ones((100_000 + i, 2), "f4"), np.zeros(100_000 + i, "i8"), None, "mean", -100)


def resized(i: int) -> None:
    resample.resample_backward(np.ones((1, 1, 1000 + i), "f4"), (1, 1, 500), "linear", False, (None,), False)


def column_sums(i: int) -> None:
    reduce.sum(np.ones((65_000 + i, 1), "f4"), 0)


@pytest.mark.parametrize("call", [max_pool, average_pool, adaptive_pool, many_taps, labels, resized, column_sums])
def test_changing_shapes_leave_little_behind(call: Callable[[int], None]) -> None:
    call(0)
    tracemalloc.start()
    try:
        for i in range(1, 60):
            call(i)
        assert tracemalloc.get_traced_memory()[0] < MOST_BYTES
    finally:
        tracemalloc.stop()


def test_what_is_kept_is_given_again_and_cannot_be_written() -> None:
    d = np.dtype("f4")
    for make in (lambda: sums.ones(7, d), lambda: sums.row_starts(7, 3), lambda: sums.scalar(2.5, d)):
        assert make() is make()
        assert not make().flags.writeable
    assert sums.ones(7, d).tolist() == [1.0] * 7
    assert sums.row_starts(4, 3).tolist() == [0, 3, 6, 9]
