"""gather, scatter, index_*, take, put and masks against torch: values, gradients, error types."""

# ruff: noqa: B023 - the thunks made in loops run at once

from __future__ import annotations

import numpy as np
import pytest
from kernel_parity import assert_same, check, to_torch, torch

from flambeau.kernels import masks as M
from flambeau.kernels import scatter as C

pytestmark = pytest.mark.filterwarnings("ignore:.*is in beta:UserWarning")  # torch's own, on index_reduce

DTYPES = [np.float32, np.float64, np.int64, np.int32, np.float16]


def draw(rng, shape, dtype=np.float32):
    return np.asarray(rng.integers(-9, 9, shape)).astype(dtype)


def cases(count, start):
    for seed in range(start, start + count):
        rng = np.random.default_rng(seed)
        ndim = int(rng.integers(0, 4))
        shape = tuple(int(n) for n in rng.integers(1, 5, ndim))
        a = draw(rng, shape, DTYPES[rng.integers(0, len(DTYPES))])
        if a.ndim > 1 and rng.random() < 0.4:
            a = a.transpose(rng.permutation(a.ndim))
        yield rng, a, int(rng.integers(-max(ndim, 1), max(ndim, 1)))


def test_gather_and_scatter_match_torch():
    for rng, a, dim in cases(600, 0):
        t = to_torch(a)
        shape = a.shape or (1,)
        axis = dim % len(shape)
        size = [int(rng.integers(0 if rng.random() < 0.1 else 1, n + 1)) for n in shape]
        size[axis] = int(rng.integers(1, 6))
        low = -1 if rng.random() < 0.1 else 0
        high = shape[axis] + (1 if rng.random() < 0.1 else 0)
        index = np.asarray(rng.integers(low, high, size)).astype([np.int64, np.int32][rng.integers(0, 2)])
        if not a.ndim and rng.random() < 0.5:
            index = np.zeros((), np.int64)
        ti = to_torch(index)
        label = f"{a.shape} {dim} {index.tolist()}"
        check(lambda: C.gather(a, dim, index), lambda: t.gather(dim, ti), label="gather " + label)
        src = draw(rng, [n + int(rng.integers(0, 2)) for n in (index.shape or (1,))], a.dtype)
        if rng.random() < 0.1:
            src = src[:-1]
        ts = to_torch(src)
        check(
            lambda: C.scatter_add(a, dim, index, src),
            lambda: t.scatter_add(dim, ti, ts),
            label="add " + label,
        )
        check(lambda: C.scatter(a, dim, index, 3), lambda: t.scatter(dim, ti, 3), label="fill " + label)
        unique = np.sort(index, axis=axis) if index.ndim else index
        if index.ndim and unique.size and not (np.diff(unique, axis=axis) == 0).any():
            check(
                lambda: C.scatter(a, dim, index, src),
                lambda: t.scatter(dim, ti, ts),
                label="scatter " + label,
            )
        for reduce in (*C.REDUCTIONS, "other"):
            for include_self in (True, False):
                check(
                    lambda: C.scatter_reduce(a, dim, index, src, reduce, include_self),
                    lambda: t.scatter_reduce(dim, ti, ts, reduce, include_self=include_self),
                    label=f"{reduce} {include_self} {label} {a.dtype}",
                )


def test_vector_indices_match_torch():
    for rng, a, dim in cases(500, 1000):
        t = to_torch(a)
        shape = a.shape or (1,)
        axis = dim % len(shape)
        count = int(rng.integers(0, 4)) if a.ndim else 1
        low = -1 if rng.random() < 0.1 else 0
        high = shape[axis] + (1 if rng.random() < 0.1 else 0)
        index = np.asarray(rng.integers(low, high, count)).astype(np.int64)
        if rng.random() < 0.1:
            index = index.reshape(1, -1)
        elif rng.random() < 0.1:
            index = index.astype([np.int32, np.int16][rng.integers(0, 2)])
        ti = to_torch(index)
        source_shape = list(a.shape)
        if a.ndim:
            source_shape[axis] = count
        if a.ndim and rng.random() < 0.1:
            source_shape[int(rng.integers(0, a.ndim))] += 1
        source = draw(rng, source_shape, a.dtype if rng.random() < 0.95 else np.int16)
        ts = to_torch(source)
        label = f"{a.shape} {dim} {index!r} {source.shape}"
        check(lambda: C.index_select(a, dim, index), lambda: t.index_select(dim, ti), label="select " + label)
        check(lambda: C.index_fill(a, dim, index, 2), lambda: t.index_fill(dim, ti, 2), label="fill " + label)
        check(
            lambda: C.index_add(a, dim, index, source, 2),
            lambda: t.index_add(dim, ti, ts, alpha=2),
            label="add " + label,
        )
        if len(set(index.reshape(-1).tolist())) == index.size:
            check(
                lambda: C.index_copy(a, dim, index, source),
                lambda: t.index_copy(dim, ti, ts),
                label="copy " + label,
            )
        for reduce in ("prod", "mean", "amax", "amin"):
            for include_self in (True, False):
                check(
                    lambda: C.index_reduce(a, dim, index, source, reduce, include_self),
                    lambda: t.index_reduce(dim, ti, ts, reduce, include_self=include_self),
                    label=f"{reduce} {include_self} {label}",
                )


def test_flat_indices_match_torch():
    for rng, a, dim in cases(300, 2000):
        t = to_torch(a)
        spread = a.size + (1 if rng.random() < 0.1 else 0)
        index = np.asarray(rng.integers(-spread, spread, [int(n) for n in rng.integers(0, 4, rng.integers(0, 3))]))
        ti = to_torch(index)
        source = draw(rng, index.shape, a.dtype)
        check(lambda: C.take(a, index), lambda: t.take(ti), label=f"take {a.shape} {index}")
        check(lambda: C.put(a, index, source, True), lambda: t.put(ti, to_torch(source), True), label="put")
        longer = draw(rng, (index.size + 1,), a.dtype)
        check(lambda: C.put(a, index, longer), lambda: t.put(ti, to_torch(longer)), label="put longer")
        if a.ndim:
            size = [n if rng.random() < 0.5 else 1 for n in a.shape]
            n = a.shape[dim]
            size[dim] = int(rng.integers(1, 4))
            along = rng.integers(-n, n, size)
            check(
                lambda: C.take_along_dim(a, along, dim),
                lambda: torch.take_along_dim(t, to_torch(along), dim),
                label=f"along {a.shape} {along.shape}",
            )
        flat = np.asarray(rng.integers(0, a.size, 3))
        dense = t.contiguous()  # torch 2.13 fails on others, by an internal view()
        check(
            lambda: C.take_along_dim(a, flat),
            lambda: torch.take_along_dim(dense, to_torch(flat)),
            label="flat",
        )


def test_masks_match_torch():
    for rng, a, _ in cases(400, 3000):
        t = to_torch(a)
        size = [n if rng.random() < 0.7 else 1 for n in a.shape][int(rng.integers(0, a.ndim + 1)) :]
        if rng.random() < 0.2:
            size = [2, *size]
        mask = np.asarray(rng.random(size) < 0.5)
        tm = to_torch(mask)
        source = draw(rng, (int(rng.integers(0, 40)),), a.dtype)
        other = draw(rng, a.shape, a.dtype)
        check(lambda: M.masked_select(a, mask), lambda: t.masked_select(tm), label="select")
        check(
            lambda: M.masked_fill(a, mask, 5),
            lambda: t.masked_fill(tm, 5),
            label=f"fill {a.shape} {mask.shape}",
        )
        check(
            lambda: M.masked_scatter(a, mask, source),
            lambda: t.masked_scatter(tm, to_torch(source)),
            label="ms",
        )
        check(lambda: M.where(mask, a, other), lambda: torch.where(tm, t, to_torch(other)), label="where")
        check(lambda: M.nonzero(a), lambda: t.nonzero(), label="nonzero")
        check(lambda: M.nonzero_tuple(a), lambda: t.nonzero(as_tuple=True), label="nonzero")
        wrong = np.zeros((7, 7), bool)
        check(lambda: M.masked_select(a, wrong), lambda: t.masked_select(to_torch(wrong)), label="mismatch")
        check(lambda: M.where(wrong, a, other), lambda: torch.where(to_torch(wrong), t, to_torch(other)))


def test_gradients_match_autograd():
    rng = np.random.default_rng(5)
    a = torch.rand(3, 4, dtype=torch.float64, requires_grad=True)
    index = torch.from_numpy(rng.integers(0, 3, (2, 4)))
    g = rng.random((2, 4))
    (want,) = torch.autograd.grad(a.gather(0, index), a, torch.from_numpy(g))
    assert_same(C.gather_backward(g, (3, 4), 0, index.numpy()), want)
    (want,) = torch.autograd.grad(a.take(index), a, torch.from_numpy(g))
    assert_same(C.take_backward(g, (3, 4), index.numpy()), want)
    vector = torch.tensor([1, 1])
    (want,) = torch.autograd.grad(a.index_select(0, vector), a, torch.from_numpy(g))
    assert_same(C.index_select_backward(g, (3, 4), 0, vector.numpy()), want)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "complex64", "bool"])
def test_other_dtypes_accumulate(dtype):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    dtype = np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)
    rng = np.random.default_rng(0)
    a, src = draw(rng, (4, 3)).astype(dtype), draw(rng, (6, 3)).astype(dtype)
    index = rng.integers(0, 4, (6, 3))
    theirs = to_torch(a).scatter_add(0, to_torch(index), to_torch(src))
    assert_same(C.scatter_add(a, 0, index, src), theirs)


def test_large_accumulation_is_exact():
    rng = np.random.default_rng(1)
    index, values = rng.integers(0, 50, 20000), rng.random((20000, 8)).astype(np.float32)
    zeros = np.zeros((50, 8), np.float32)
    theirs = to_torch(zeros).index_add(0, to_torch(index), to_torch(values))
    assert np.array_equal(C.index_add(zeros, 0, index, values), theirs.numpy())


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda a, i: C.gather(a, 1, i + 9), RuntimeError, "out of bounds for dimension 1 with size 4"),
        (
            lambda a, i: C.gather(a, 1, i.astype(np.int16)),
            RuntimeError,
            "Expected dtype int32/int64 for index",
        ),
        (lambda a, i: C.scatter(a, 1, i, a.astype(int)), RuntimeError, "Expected self.dtype to be equal"),
        (lambda a, i: C.index_select(a, 1, i), IndexError, "supposed to be a vector"),
        (lambda a, i: C.index_add(a, 1, i[0] + 9, a), IndexError, "out of bounds"),
        (lambda a, i: C.take(a, i + 99), IndexError, "out of range: tried to access index"),
        (lambda a, i: M.masked_select(a, a), RuntimeError, "expected BoolTensor for mask"),
        (lambda a, i: M.masked_scatter(a, a == a, a[0]), RuntimeError, "Number of elements of source"),
        (lambda a, i: C.index_reduce(a, 1, i[0], a, "sum"), RuntimeError, "Expected reduce to be one of"),
    ],
)
def test_messages_keep_the_searched_words(call, error, words):
    with pytest.raises(error, match=words):
        call(np.zeros((3, 4), np.float32), np.zeros((3, 4), np.int64))
