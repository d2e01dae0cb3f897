"""Indexing against torch: random keys for reading, writing and the gradient, and each error."""

# ruff: noqa: B023 - the thunks made in loops run at once

from __future__ import annotations

import numpy as np
import pytest
from kernel_parity import assert_same, check, run, to_torch, torch

from flambeau.kernels import indexing as I
from flambeau.kernels import strides as S


def random_key(rng, shape):
    """A key (with arrays), mostly valid."""
    items = []
    dim = 0
    ellipsis = False
    while dim < len(shape) and rng.random() < 0.85:
        n = shape[dim]
        kind = rng.integers(0, 12)
        if kind <= 1:
            items.append(int(rng.integers(-n, n)) if n else 0)
            dim += 1
        elif kind <= 4:
            bounds = [None if rng.random() < 0.5 else int(rng.integers(-n - 1, n + 2)) for _ in range(2)]
            items.append(slice(*bounds, None if rng.random() < 0.6 else int(rng.integers(1, 3))))
            dim += 1
        elif kind == 5:
            items.append(None)
        elif kind == 6 and not ellipsis:
            items.append(Ellipsis)
            ellipsis = True
            dim = min(len(shape), dim + int(rng.integers(0, 2)))
        elif kind == 7:
            items.append(bool(rng.integers(0, 2)))
        elif kind == 8:
            mask_ndim = int(rng.integers(0, min(2, len(shape) - dim) + 1))
            items.append(np.asarray(rng.random(shape[dim : dim + mask_ndim]) < 0.6))
            dim += mask_ndim
        elif n:
            index_shape = [(), (2,), (1, 2), (3, 1), (2,), (0,)][rng.integers(0, 6)]
            dtype = [np.int64, np.int64, np.int32][rng.integers(0, 3)]
            index = rng.integers(-n, n, index_shape).astype(dtype)
            items.append(index.tolist() if kind == 11 and index.ndim == 1 else np.asarray(index))
            dim += 1
    if len(items) == 1 and rng.random() < 0.7:
        return items[0]
    return tuple(items)


def cases(count, start):
    for seed in range(start, start + count):
        rng = np.random.default_rng(seed)
        shape = tuple(int(n) for n in rng.choice([0, 1, 2, 3, 4], rng.integers(0, 5), p=[0.03, 0.17, 0.3, 0.3, 0.2]))
        a = rng.integers(0, 50, shape).astype(np.float32)
        if a.ndim > 1 and rng.random() < 0.3:
            a = a.transpose(rng.permutation(a.ndim))
        yield rng, a, random_key(rng, a.shape)


def torch_key(key):
    return tuple(torch_key(k) for k in key) if isinstance(key, tuple) else to_torch(key)


@pytest.mark.parametrize("start", range(0, 3000, 500))
def test_reading_matches_torch(start):
    for _, a, key in cases(500, start):
        t = to_torch(a)
        label = f"{a.shape} {key!r}"
        result = check(lambda: I.index(a, I.parse_index(key, a.shape)), lambda: t[torch_key(key)], label=label)
        if result is None:
            continue
        got, want = result
        plan = I.parse_index(key, a.shape)
        if got.size:
            shared = want.untyped_storage().data_ptr() == t.untyped_storage().data_ptr()
            assert plan.is_view == shared == np.shares_memory(got, a), label
            if plan.is_view:
                assert S.torch_strides(got) == want.stride(), label
            else:
                assert got.flags.c_contiguous


@pytest.mark.parametrize("start", range(10000, 12000, 500))
def test_writing_and_gradient_match_torch(start):
    for rng, a, key in cases(500, start):
        t = to_torch(a).clone()
        selected, error = run(lambda: t[torch_key(key)])
        if error is not None or selected.numel() == 0:  # torch checks no index that selects nothing
            continue
        label = f"{a.shape} {key!r}"
        plan = I.parse_index(key, a.shape)
        shape = list(selected.shape)
        for axis in range(len(shape)):
            if rng.random() < 0.2:
                shape[axis] = 1
        value = rng.random([1] * int(rng.integers(0, 2)) + shape[int(rng.integers(0, len(shape) + 1)) :])
        value = np.asarray(value).astype([np.float32, np.float64][rng.integers(0, 2)])
        mine = a.copy()
        # A repeated position keeps an unspecified value in torch; write one value everywhere there.
        if not plan.is_view:
            value = value.astype(np.float32)
            value[...] = 7
        if any(k is False for k in (key if isinstance(key, tuple) else [key])):
            continue  # torch writes nothing and skips the shape check

        def write():
            t[torch_key(key)] = to_torch(value)
            return t

        def write_mine():
            I.assign(mine, plan, value)
            return mine

        check(write_mine, write, label=f"set {label} {value.shape}")
        leaf = to_torch(a).clone().requires_grad_()
        out = leaf[torch_key(key)]
        g = rng.random(tuple(out.shape)).astype(np.float32)
        out.backward(to_torch(np.asarray(g)))
        assert_same(I.index_backward(np.asarray(g), a.shape, plan), leaf.grad)
        if plan.advanced is not None:
            view = np.ascontiguousarray(I.index_basic(a, plan))
            want = to_torch(view).clone()
            index = tuple(None if k is I.ALL else to_torch(k) for k in plan.advanced)
            full = rng.random(tuple(out.shape)).astype(np.float32)
            full = np.asarray(full)
            torch_index = [torch.arange(0) if k is None else k for k in index]
            if None not in index:
                want.index_put_(tuple(torch_index), to_torch(full), accumulate=True)
                assert_same(I.index_put(view, plan.advanced, full, True), want)


@pytest.mark.parametrize(
    "key, error, words",
    [
        (5, IndexError, "index 5 is out of bounds for dimension 0 with size 2"),
        (slice(None, None, -1), ValueError, "step must be greater than zero"),
        ((0, 0, 0, 0), IndexError, "too many indices for tensor of dimension 3"),
        (np.array([True, False, True]), IndexError, "shape of the mask"),
        (1.5, IndexError, "only integers, slices"),
        (np.array([1.5]), IndexError, "must be long, int, byte or bool"),
        (np.array([5]), IndexError, "index 5 is out of bounds for dimension 0 with size 2"),
        ((np.array([0, 1]), np.array([0, 1, 1])), IndexError, "shape mismatch: indexing tensors"),
        ("a", TypeError, "cannot index"),
    ],
)
def test_errors_keep_type_and_words(key, error, words):
    a = np.arange(24.0).reshape(2, 3, 4)
    with pytest.raises(error, match=words):
        I.index(a, I.parse_index(key, a.shape))
    with pytest.raises(error):
        torch.from_numpy(a)[torch_key(key)]


def test_value_that_does_not_broadcast_is_refused():
    a = np.zeros((3, 4), np.float32)
    with pytest.raises(RuntimeError, match="shape mismatch: value tensor of shape"):
        I.assign(a, I.parse_index(np.array([0, 1]), a.shape), np.zeros((3, 4), np.float32))
    with pytest.raises(RuntimeError, match="expanded size of the tensor"):
        I.assign(a, I.parse_index(0, a.shape), np.zeros(3, np.float32))
    with pytest.raises(RuntimeError, match="must have the same dtype"):
        I.index_put(a, (np.array([0]),), np.zeros(4))


def test_integer_beside_array_is_selected_first():
    a = np.arange(24).reshape(2, 3, 4)
    assert I.index(a, I.parse_index((0, slice(None), [0, 1]), a.shape)).shape == (3, 2)


def test_index_put_gradients_match_autograd():
    rng = np.random.default_rng(0)
    for accumulate in (False, True):
        a = torch.rand(4, 5, requires_grad=True)
        values = torch.rand(1, 5, requires_grad=True)
        index = torch.tensor([0, 2, 3])
        out = a.index_put((index,), values, accumulate=accumulate)
        g = rng.random((4, 5)).astype(np.float32)
        out.backward(torch.from_numpy(g))
        mine = I.index_put_backward(g, (index.numpy(),), (1, 5), accumulate)
        assert_same(mine, (a.grad, values.grad))
