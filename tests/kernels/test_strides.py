"""Views: strides, shapes, sharing and errors against torch, on random arrays and sequences of views."""

# ruff: noqa: B023 - the thunks made in loops run at once

from __future__ import annotations

import numpy as np
import pytest
from kernel_parity import check, run, to_torch, torch

from flambeau.kernels import strides as S

FORMATS = {
    "contiguous": torch.contiguous_format,
    "channels_last": torch.channels_last,
    "channels_last_3d": torch.channels_last_3d,
    "preserve": torch.preserve_format,
}


def random_array(rng, max_ndim=4):
    """An array and the tensor over the same memory, made by a random chain of views."""
    shape = tuple(rng.choice([0, 1, 2, 3, 4], p=[0.05, 0.2, 0.25, 0.25, 0.25]) for _ in range(rng.integers(0, max_ndim + 1)))
    shape = tuple(int(n) for n in shape)
    a = np.arange(int(np.prod(shape, dtype=int)), dtype=np.float32).reshape(shape)
    t = torch.from_numpy(a)
    for _ in range(rng.integers(0, 4)):
        kind = rng.integers(0, 5)
        if kind == 0 and a.ndim:
            order = [int(d) for d in rng.permutation(a.ndim)]
            a, t = S.permute(a, order), t.permute(order)
        elif kind == 1:
            dim = int(rng.integers(-a.ndim - 1, a.ndim + 1))
            a, t = S.unsqueeze(a, dim), t.unsqueeze(dim)
        elif kind == 2 and a.ndim:
            axis, step = int(rng.integers(0, a.ndim)), int(rng.integers(1, 3))
            key = (slice(None),) * axis + (slice(int(rng.integers(0, 2)), None, step),)
            a, t = a[key], t[key]
        elif kind == 3:
            size = [2, *[n if n != 1 else 3 for n in a.shape]]
            a, t = S.expand(a, size), t.expand(size)
        elif kind == 4:
            a, t = S.squeeze(a), t.squeeze()
    return a, t


def same_view(a, t):
    assert a.shape == tuple(t.shape)
    assert np.array_equal(a, t.numpy())
    if a.size:
        assert S.address(a) == t.data_ptr()
        assert S.storage_offset(a) == t.storage_offset()


def both(mine, theirs, strides=True):
    """Compare two view-making thunks: errors by type, results by memory, shape and strides."""
    got, error = run(mine)
    want, torch_error = run(theirs)
    assert (error is None) == (torch_error is None), (error, torch_error, got, want)
    if error is not None:
        assert isinstance(error, type(torch_error)), (error, torch_error)
        return
    same_view(got, want)
    assert got.flags.writeable
    if strides and got.size:
        assert S.torch_strides(got) == want.stride()


SEEDS = range(400)


@pytest.mark.parametrize("part", range(8))
def test_views_follow_torch(part):
    for seed in SEEDS:
        rng = np.random.default_rng(seed * 8 + part)
        a, t = random_array(rng)
        same_view(a, t)
        canonical = not a.flags.c_contiguous or S.torch_strides(a) == S.contiguous_strides(a.shape)
        n = int(a.size)
        shapes = [
            (n,),
            (-1,),
            (2, -1),
            (-1, 1, 2),
            (n, 1),
            (1, n, 1),
            tuple(a.shape[::-1]),
            (*a.shape, 1),
            (1, *a.shape),
        ]
        if a.ndim > 1:
            shapes += [
                (a.shape[0], -1),
                (*a.shape[:-2], a.shape[-2] * a.shape[-1]),
                (a.shape[0] * a.shape[1], *a.shape[2:]),
            ]
        shapes += [(), (0,), (-1, -1), (-2,), (0, -1), (7, 3)]
        for shape in shapes:
            shape = tuple(int(k) for k in shape)
            both(lambda: S.view(a, shape), lambda: t.view(shape), strides=canonical)
            check(lambda: S.reshape(a, shape), lambda: t.reshape(shape), label=f"reshape {a.shape} {shape}")
            got, _ = run(lambda: S.reshape(a, shape))
            want, _ = run(lambda: t.reshape(shape))
            if got is not None and got.size:
                assert (S.address(got) == S.address(a)) == (want.data_ptr() == t.data_ptr())
        for d in range(-3, 4):
            both(lambda: S.unsqueeze(a, d), lambda: t.unsqueeze(d))
            both(lambda: S.squeeze(a, d), lambda: t.squeeze(d))
            both(lambda: S.transpose(a, d, 0), lambda: t.transpose(d, 0))
            both(lambda: S.movedim(a, d, 1), lambda: t.movedim(d, 1))
            both(lambda: S.unfold(a, d, 2, 1), lambda: t.unfold(d, 2, 1))
            both(lambda: S.diagonal(a, d, 0, -1), lambda: t.diagonal(d, 0, -1))
            check(lambda: S.flip(a, [d]), lambda: t.flip([d]), label="flip")
        both(lambda: S.movedim(a, (0, 1), (-1, 0)), lambda: t.movedim((0, 1), (-1, 0)))
        both(lambda: S.squeeze(a, (0, -1)), lambda: t.squeeze((0, -1)))
        both(lambda: S.unfold(a, 0, 1, 2), lambda: t.unfold(0, 1, 2))
        for size in [
            (3, *a.shape),
            (-1,) * a.ndim,
            (2,) * a.ndim,
            (-1, *a.shape),
            (1, 1, *a.shape),
            (3,),
            (0, *a.shape),
        ]:
            both(lambda: S.expand(a, size), lambda: t.expand(size))
        for size, step, offset in [
            ((2, 2), (1, 1), None),
            ((2,), (3,), 1),
            ((), (), 0),
            ((0, 3), (1, 1), 0),
            ((2, 2), (9, 9), 0),
            ((2,), (-1,), 0),
            ((2,), (1, 1), 0),
            ((1,), (1,), -1),
        ]:
            if offset is None and not a.size:
                continue
            both(lambda: S.as_strided(a, size, step, offset), lambda: t.as_strided(size, step, offset))


@pytest.mark.parametrize("part", range(4))
def test_memory_formats_follow_torch(part):
    for seed in SEEDS:
        rng = np.random.default_rng(7000 + seed * 4 + part)
        a, t = random_array(rng, 5)
        for name, memory_format in FORMATS.items():
            if name != "preserve" and a.size:
                assert S.is_contiguous(a, name) == t.is_contiguous(memory_format=memory_format)
            got, error = run(lambda: S.contiguous(a, name))
            want, torch_error = run(lambda: t.contiguous(memory_format=memory_format))
            assert (error is None) == (torch_error is None), (error, torch_error)
            if error is None:
                assert (got is a) == (want is t) or (want.data_ptr() == t.data_ptr()) == (S.address(got) == S.address(a))
                np.testing.assert_array_equal(got, want.numpy())
            got, error = run(lambda: S.empty_like(a, name))
            want, torch_error = run(lambda: torch.empty_like(t, memory_format=memory_format))
            assert (error is None) == (torch_error is None), (error, torch_error)
            if error is None:
                assert got.shape == tuple(want.shape)
                if name != "preserve" or not t.is_contiguous():
                    assert S.torch_strides(got) == want.stride(), (a.shape, S.torch_strides(a), name)
            got, _ = run(lambda: S.clone(a, name))
            if got is not None:
                np.testing.assert_array_equal(got, a)
                assert not np.shares_memory(got, a)


def test_partial_overlap_is_what_torch_refuses():
    refused = 0
    for seed in SEEDS:
        rng = np.random.default_rng(31000 + seed)
        buffer = np.zeros(16, np.float32)
        size = [int(n) for n in rng.integers(1, 4, 2)]
        pair = []
        for _ in range(2):
            step = [[size[1], 1], [1, size[0]], [5, 1], [1, 1]][rng.integers(0, 4)]
            pair.append(S.as_strided(buffer, size, step, int(rng.integers(0, 4))))
        a, b = pair
        ta, tb = to_torch(a), to_torch(b)
        root = torch.zeros(16)
        ta = root.as_strided(size, S.torch_strides(a), S.storage_offset(a))
        tb = root.as_strided(size, S.torch_strides(b), S.storage_offset(b))
        _, error = run(lambda: torch.neg(tb, out=ta))
        partial = error is not None and "more than one" not in str(error)
        if error is None or partial:
            assert S.may_partially_overlap(a, b) == partial, (size, a.strides, b.strides)
        refused += partial
    assert refused > 20


def test_internal_overlap_is_what_torch_refuses():
    for seed in SEEDS:
        a, t = random_array(np.random.default_rng(41000 + seed))
        _, error = run(lambda: t.zero_().neg_())
        assert S.has_internal_overlap(a) == (error is not None), (a.shape, a.strides, error)


def test_storage_spans_the_owner():
    owner = np.asfortranarray(np.arange(24, dtype=np.float32).reshape(2, 3, 4)).transpose(1, 0, 2).copy(order="K")
    part = owner[1:, :, 2]
    storage = S.storage_array(part)
    assert storage.size == 24 and np.shares_memory(storage, owner)
    assert storage[S.storage_offset(part)] == part.flat[0]
    complex_ = np.arange(4, dtype=np.complex64)
    assert S.storage_offset(complex_.imag) == 1 and S.storage_array(complex_.imag).size == 8
    frozen = np.frombuffer(bytes(16), np.float32)[1:]
    assert S.storage_array(frozen).size == 4 and S.storage_offset(frozen) == 1


def test_bfloat16_views_work():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    a = np.arange(6).astype(ml_dtypes.bfloat16).reshape(2, 3)
    assert S.expand(S.unsqueeze(a, 1), (2, 4, 3)).shape == (2, 4, 3)
    assert S.as_strided(a.T, (2,), (2,), 1).astype(int).tolist() == [1, 3]


def test_broadcast_shapes_agree():
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        shapes = [tuple(int(n) for n in rng.integers(0, 3, rng.integers(0, 4))) for _ in range(rng.integers(0, 4))]
        check(
            lambda: S.broadcast_shapes(*shapes),
            lambda: tuple(torch.broadcast_shapes(*shapes)),
            label=str(shapes),
        )


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda a: S.view(a.T, (12,)), "view size is not compatible"),
        (lambda a: S.view(a, (5, -1)), "is invalid for input of size 12"),
        (lambda a: S.view(a, (-1, -1)), "only one dimension can be inferred"),
        (lambda a: S.expand(a, (3, 5)), "must match the existing size"),
        (lambda a: S.as_strided(a, (20,), (1,)), "out of bounds for storage of size"),
        (lambda a: S.broadcast_shapes((2, 3), (2, 4)), "at non-singleton dimension 1"),
    ],
)
def test_messages_keep_the_searched_words(call, words):
    with pytest.raises(RuntimeError, match=words):
        call(np.zeros((3, 4), np.float32))
