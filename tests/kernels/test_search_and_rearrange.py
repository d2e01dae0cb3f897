"""searchsorted, bincount, unique, triangles, rolls and repeats against torch."""

# ruff: noqa: B023 - the thunks made in loops run at once

from __future__ import annotations

import numpy as np
import pytest
from kernel_parity import check, to_torch, torch

from flambeau.kernels import rearrange as R
from flambeau.kernels import search, strides

ml_dtypes = pytest.importorskip("ml_dtypes")
DTYPES = [
    np.float32,
    np.float64,
    np.int64,
    np.int32,
    np.uint8,
    np.bool_,
    np.float16,
    np.dtype(ml_dtypes.bfloat16),
]


def random_array(rng, dtypes=tuple(DTYPES), low_ndim=0):
    shape = tuple(int(n) for n in rng.choice([0, 1, 2, 3, 4], rng.integers(low_ndim, 4), p=[0.05, 0.2, 0.25, 0.25, 0.25]))
    a = np.asarray(rng.integers(0, 4, shape)).astype(dtypes[rng.integers(0, len(dtypes))])
    if a.ndim > 1 and rng.random() < 0.4:
        a = a.transpose(rng.permutation(a.ndim))
    return a


def test_unique_matches_torch():
    for seed in range(500):
        rng = np.random.default_rng(seed)
        a = random_array(rng)
        t = to_torch(a)
        inverse, counts = bool(rng.integers(0, 2)), bool(rng.integers(0, 2))
        dim = int(rng.integers(-max(a.ndim, 1), max(a.ndim, 1)))
        wanted = [0, *([1] if inverse else []), *([2] if counts else [])]

        def pick(result):
            return tuple(result[i] for i in wanted)

        def theirs(result):
            return result if isinstance(result, tuple) else (result,)

        label = f"{a.dtype} {a.shape} {dim} {inverse} {counts}"
        check(
            lambda: pick(search.unique(a, True, inverse, counts)),
            lambda: theirs(t.unique(True, inverse, counts)),
            label="unique " + label,
        )
        check(
            lambda: pick(search.unique_consecutive(a, inverse, counts)),
            lambda: theirs(t.unique_consecutive(inverse, counts)),
            label="consecutive " + label,
        )
        if a.ndim:
            check(
                lambda: pick(search.unique_dim(a, dim, inverse, counts)),
                lambda: theirs(t.unique(True, inverse, counts, dim)),
                label="dim " + label,
            )
            check(
                lambda: pick(search.unique_consecutive(a, inverse, counts, dim)),
                lambda: theirs(t.unique_consecutive(inverse, counts, dim)),
                label="consecutive dim " + label,
            )
    a = np.array([np.nan, 1, np.nan], np.float32)
    check(lambda: search.unique(a, True, True, True), lambda: to_torch(a).unique(True, True, True))


def test_searchsorted_and_bincount_match_torch():
    for seed in range(400):
        rng = np.random.default_rng(1000 + seed)
        dtype = [np.float32, np.int64, np.dtype(ml_dtypes.bfloat16)][rng.integers(0, 3)]
        lead = [int(n) for n in rng.integers(1, 4, rng.integers(0, 3))]
        rows = np.sort(rng.integers(0, 6, [*lead, int(rng.integers(0, 6))]), axis=-1).astype(dtype)
        values = np.asarray(rng.integers(-1, 8, [*lead, int(rng.integers(0, 4))])).astype(dtype)
        if rng.random() < 0.1:
            values = values[..., None]
        right, int32 = bool(rng.integers(0, 2)), bool(rng.integers(0, 2))
        check(
            lambda: search.searchsorted(rows, values, int32, right),
            lambda: torch.searchsorted(to_torch(rows), to_torch(values), out_int32=int32, right=right),
            label=f"{rows.shape} {values.shape}",
        )
        line = rows[(0,) * len(lead)]
        check(
            lambda: search.bucketize(values, line, int32, right),
            lambda: torch.bucketize(to_torch(values), to_torch(line), out_int32=int32, right=right),
            label="bucketize",
        )
        shuffled = line[rng.permutation(line.size)]
        sorter = shuffled.astype(float).argsort()
        check(
            lambda: search.searchsorted(shuffled, values, sorter=sorter, side="right"),
            lambda: torch.searchsorted(to_torch(shuffled), to_torch(values), sorter=to_torch(sorter), side="right"),
            label="sorter",
        )
        counted = rng.integers(-1 if rng.random() < 0.1 else 0, 5, int(rng.integers(0, 6)))
        weights = rng.random(counted.size).astype([np.float32, np.float64][rng.integers(0, 2)])
        for w in (None, weights) if counted.size else (None,):
            check(
                lambda: search.bincount(counted, w, 3),
                lambda: torch.bincount(to_torch(counted), None if w is None else to_torch(w), 3),
                label="bincount",
            )


def test_rearrangements_match_torch():
    for seed in range(500):
        rng = np.random.default_rng(2000 + seed)
        a = random_array(rng)
        t = to_torch(a)
        k = int(rng.integers(-3, 4))
        i, j = (int(n) for n in rng.integers(-a.ndim - 1, a.ndim + 1, 2))
        label = f"{a.dtype} {a.shape} {k} {i} {j}"
        check(lambda: R.tril(a, k), lambda: t.tril(k), label="tril " + label)
        check(lambda: R.triu(a, k), lambda: t.triu(k), label="triu " + label)
        if a.ndim:
            check(lambda: R.diag_embed(a, k, i, j), lambda: torch.diag_embed(t, k, i, j), label="embed " + label)
        check(lambda: R.roll(a, k), lambda: t.roll(k), label="roll " + label)
        check(lambda: R.roll(a, (k, 1), (i, j)), lambda: t.roll((k, 1), (i, j)), label="roll " + label)
        check(lambda: R.rot90(a, k, (i, j)), lambda: t.rot90(k, (i, j)), label="rot90 " + label)
        sizes = [int(n) for n in rng.integers(0, 3, rng.integers(0, 5))]
        check(lambda: R.repeat(a, sizes), lambda: t.repeat(sizes), label=f"repeat {sizes} {label}")
        check(lambda: R.repeat_interleave(a, k), lambda: t.repeat_interleave(k), label="ri " + label)
        if a.ndim == 0:
            continue  # torch 2.13 refuses dim -1 of a 0-d tensor here
        check(lambda: R.repeat_interleave(a, k, i), lambda: t.repeat_interleave(k, i), label="ri " + label)
        repeats = rng.integers(0, 3, int(rng.integers(1, 5)))
        check(
            lambda: R.repeat_interleave(a, repeats, i),
            lambda: t.repeat_interleave(to_torch(repeats), i),
            label=f"ri {repeats} {label}",
        )
        row, col = (int(n) for n in rng.integers(0, 5, 2))
        check(lambda: R.tril_indices(row, col, k), lambda: torch.tril_indices(row, col, k), label=label)
        check(lambda: R.triu_indices(row, col, k), lambda: torch.triu_indices(row, col, k), label=label)


def test_view_gradients_match_autograd():
    rng = np.random.default_rng(0)
    leaf = torch.rand(5, 4, dtype=torch.float64, requires_grad=True)

    def gradient(out):
        g = rng.random(tuple(out.shape))
        return g, torch.autograd.grad(out, leaf, torch.from_numpy(g))[0].numpy()

    g, want = gradient(leaf.unfold(0, 3, 1))
    np.testing.assert_allclose(R.unfold_backward(g, (5, 4), 0, 3, 1), want)
    g, want = gradient(leaf.diagonal(1))
    np.testing.assert_allclose(R.diagonal_backward(g, (5, 4), 1), want)
    g, want = gradient(leaf.as_strided((4, 3), (2, 1), 1))
    np.testing.assert_allclose(R.as_strided_backward(g, (4, 3), (2, 1), 20, 1).reshape(5, 4), want)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda a: R.tril(a[0]), "at least 2 dimensions"),
        (lambda a: R.roll(a, (1, 2), 0), "must align"),
        (lambda a: R.repeat(a, (2,)), "can not be smaller"),
        (lambda a: R.repeat_interleave(a, -1), "non-negative"),
        (lambda a: search.bincount(a), "only supports"),
        (lambda a: search.searchsorted(a[0], a.astype(float)), "same dtype"),
        (lambda a: R.rot90(a, 1, (0, 0)), "rotation dims to be different"),
    ],
)
def test_messages_keep_the_searched_words(call, words):
    with pytest.raises(RuntimeError, match=words):
        call(np.zeros((3, 4), np.float32))


def test_expanded_source_is_not_needed_to_be_dense():
    a = strides.expand(np.arange(3, dtype=np.float32), (2, 3))
    assert R.roll(a, 1, 1).tolist() == [[2, 0, 1], [2, 0, 1]]
