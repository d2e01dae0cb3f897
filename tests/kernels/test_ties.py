"""Which of equal elements sort, topk, kthvalue and mode choose: PyTorch's, up to a size."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from flambeau.kernels import sort, statistics, ties

SIZES = (1, 2, 3, 5, 16, 17, 40, 64, 100, 700)


def rows(seed: int) -> list[np.ndarray]:
    """Integers and floats with few different values, some NaN and zeros of both signs."""
    rng = np.random.default_rng(seed)
    found: list[np.ndarray] = []
    for n in SIZES:
        for different in (1, 2, 7):
            a = rng.integers(0, different, (2, n))
            b = np.where(rng.random(a.shape) < 0.2, np.nan, a * rng.choice([-1.0, 1.0], a.shape)).astype(np.float32)
            found += [a, a.astype(np.uint8), b]
    return found


@pytest.mark.parametrize("seed", range(4))
def test_unstable_sort_leaves_equal_elements_where_pytorch_does(seed):
    for a in rows(seed):
        for descending in (False, True):
            expected = torch.sort(torch.from_numpy(a), 1, descending).indices.numpy()
            assert np.array_equal(sort.sort(a, 1, descending, False)[1], expected), (a.shape, a.dtype, descending)
            expected = torch.sort(torch.from_numpy(a), dim=1, descending=descending, stable=True).indices.numpy()
            assert np.array_equal(sort.sort(a, 1, descending, True)[1], expected), (a.shape, a.dtype, descending)


@pytest.mark.parametrize("seed", range(4))
def test_topk_and_kthvalue_choose_pytorchs_positions(seed):
    rng = np.random.default_rng(seed)
    for a in rows(seed):
        t = torch.from_numpy(a)
        for k in {1, int(rng.integers(1, a.shape[1] + 1)), max(1, a.shape[1] // 64)}:
            for largest in (False, True):
                for ordered in (False, True):
                    expected = torch.topk(t, k, 1, largest, ordered).indices.numpy()
                    found = sort.topk(a, k, 1, largest, ordered)[1]
                    assert np.array_equal(found, expected), (a.shape, a.dtype, k, largest, ordered)
            assert np.array_equal(sort.kthvalue(a, k, 1)[1], torch.kthvalue(t, k, 1).indices.numpy()), (a.shape, a.dtype, k)


def test_mode_chooses_pytorchs_position():
    for a in rows(0):
        if a.dtype.kind != "f":
            assert np.array_equal(statistics.mode(a, 1)[1], torch.mode(torch.from_numpy(a), 1).indices.numpy()), a.shape


def test_parts_that_do_not_shrink_fall_back_to_a_heap():
    # the median of three is always the second least: the depth limit ends it
    rng = np.random.default_rng(0)
    killer = np.empty(300)
    order = list(range(300))
    for k in range(150):
        killer[2 * k], killer[2 * k + 1] = k, 150 + k
    for a in (killer // 3, np.concatenate([np.arange(200), np.arange(200)[::-1]]) // 2, rng.permutation(400) // 4):
        a = a.astype(np.int64)[None]
        assert np.array_equal(sort.sort(a, 1, False, False)[1], torch.sort(torch.from_numpy(a), 1).indices.numpy())
    rows_ = ties._Rows(np.array([order[::-1]]) // 7)
    rows_.heap(0, 300, 300)
    assert np.array_equal(rows_.keys, np.sort(np.array(order) // 7))


def test_large_vectors_of_integers_are_sorted_stably():
    a = np.random.default_rng(0).integers(0, 9, sort.RADIX + 5)
    assert np.array_equal(sort.sort(a, 0, False, False)[1], torch.sort(torch.from_numpy(a)).indices.numpy())
    assert np.array_equal(sort.sort(a, 0, True, False)[1], torch.sort(torch.from_numpy(a), descending=True).indices.numpy())
