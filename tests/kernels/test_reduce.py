"""Reductions, statistics, sorting and running reductions against torch."""

# ruff: noqa: B023 - the thunks made in loops run at once

from __future__ import annotations

import math

import numpy as np
import pytest
from kernel_parity import check, to_torch, torch

from flambeau.kernels import cumulative, reduce, sort, statistics

pytestmark = [  # torch's own warnings, on var and on the complex 0-norm
    pytest.mark.filterwarnings("ignore:.*degrees of freedom is <= 0:UserWarning"),
    pytest.mark.filterwarnings("ignore:Casting complex values:UserWarning"),
]

ml_dtypes = pytest.importorskip("ml_dtypes")
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FLOATING = [np.float32, np.float64, np.float16, BFLOAT16]
INTEGER = [np.int64, np.int32, np.int16, np.int8, np.uint8, np.bool_]
COMPLEX = [np.complex64, np.complex128]


def random_array(rng, dtypes, ties=False, nan=True):
    """Any layout; small integers when ties are wanted, else distinct values; some NaN."""
    shape = tuple(int(n) for n in rng.choice([0, 1, 2, 3, 5, 9], rng.integers(0, 4), p=[0.06, 0.14, 0.2, 0.2, 0.2, 0.2]))
    size = int(np.prod(shape, dtype=int))
    dtype = np.dtype(dtypes[rng.integers(0, len(dtypes))])
    values = rng.integers(0, 4, size) if ties else rng.permutation(size)
    a = np.asarray(values, np.float64).reshape(shape)
    if not ties and dtype.kind not in "iub":
        a = a / 7 - 2
    if dtype.kind == "c":
        a = a + 1j * rng.random(shape)
    a = a.astype(dtype)
    if nan and dtype.kind not in "iub" and rng.random() < 0.3:
        a = np.where(rng.random(shape) < 0.2, dtype.type(math.nan), a).astype(dtype)
    a = np.asarray(a, dtype)
    if a.ndim > 1 and rng.random() < 0.4:
        a = a.transpose(rng.permutation(a.ndim))
    return a


def random_dim(rng, ndim):
    kind = rng.integers(0, 8)
    if kind == 0:
        return None
    if kind <= 4 or ndim == 0:
        return int(rng.integers(-max(ndim, 1), max(ndim, 1) + (rng.random() < 0.05)))
    return tuple(int(d) for d in rng.choice(np.arange(-ndim, ndim), rng.integers(0, ndim + 1)))


def test_sums_match_torch():
    for seed in range(600):
        rng = np.random.default_rng(seed)
        a = random_array(rng, FLOATING + INTEGER + COMPLEX)
        t, dim, keepdim = to_torch(a), random_dim(rng, a.ndim), bool(rng.integers(0, 2))
        if not a.size and isinstance(dim, tuple):
            dim = None  # of two errors torch's choice differs by operator
        label = f"{a.dtype} {a.shape} {dim} {keepdim}"
        for name in ("sum", "mean", "nansum", "nanmean", "amax", "amin", "all", "any"):
            if dim is None:
                if name in ("amax", "amin"):
                    check(lambda: getattr(reduce, name)(a), lambda: getattr(t, name)(), label=f"{name} {label}")
                    continue
                check(lambda: getattr(reduce, name)(a, None), lambda: getattr(t, name)(), 20, f"{name} {label}")
            else:
                check(
                    lambda: getattr(reduce, name)(a, dim, keepdim),
                    lambda: getattr(t, name)(dim, keepdim),
                    20,
                    f"{name} {label}",
                )
        check(lambda: reduce.count_nonzero(a, dim), lambda: t.count_nonzero(dim), label="count " + label)
        small = a if a.dtype.kind == "b" else (a % 3 if a.dtype.kind in "iu" else a)
        ts = to_torch(np.asarray(small))
        if not isinstance(dim, tuple):
            args = () if dim is None else (dim, keepdim)
            check(lambda: reduce.prod(small, *args), lambda: ts.prod(*args), 50, "prod " + label)
            check(
                lambda: reduce.aminmax(a, dim, keepdim),
                lambda: tuple(torch.aminmax(t, dim=dim, keepdim=keepdim)),
                label="aminmax " + label,
            )
        for dtype in (np.float64, np.int64, np.float16):
            if a.dtype.kind != "c" and not np.isnan(a.astype(float)).any() and not isinstance(dim, tuple):
                td = getattr(torch, np.dtype(dtype).name)
                args = () if dim is None else (dim,)
                check(
                    lambda: reduce.sum(a, dim, False, dtype),
                    lambda: t.sum(*args, dtype=td),
                    20,
                    f"as {label}",
                )
                check(
                    lambda: reduce.mean(a, dim, False, dtype),
                    lambda: t.mean(*args, dtype=td),
                    20,
                    f"as {label}",
                )
                if dtype is np.float16:
                    continue  # the product overflows in its own order
                check(lambda: reduce.prod(small, dim, False, dtype), lambda: ts.prod(*args, dtype=td), 50, label)


@pytest.mark.parametrize("ties", [False, True])
def test_extrema_and_their_positions_match_torch(ties):
    for seed in range(600):
        rng = np.random.default_rng(1000 + seed)
        a = random_array(rng, FLOATING + INTEGER + [np.complex64], ties)
        t, keepdim = to_torch(a), bool(rng.integers(0, 2))
        dim = int(rng.integers(-max(a.ndim, 1), max(a.ndim, 1) + (rng.random() < 0.05)))
        label = f"{a.dtype} {a.shape} {dim} {keepdim}"
        check(lambda: reduce.max_dim(a, dim, keepdim), lambda: tuple(t.max(dim, keepdim)), label="max " + label)
        check(lambda: reduce.min_dim(a, dim, keepdim), lambda: tuple(t.min(dim, keepdim)), label="min " + label)
        check(lambda: reduce.max(a), lambda: t.max(), label="max " + label)
        check(lambda: reduce.min(a), lambda: t.min(), label="min " + label)
        for name in ("argmax", "argmin"):
            check(
                lambda: getattr(reduce, name)(a, dim, keepdim),
                lambda: getattr(t, name)(dim, keepdim),
                label=label,
            )
            check(lambda: getattr(reduce, name)(a), lambda: getattr(t, name)(), label=f"{name} {label}")
        check(lambda: cumulative.cummax(a, dim), lambda: tuple(t.cummax(dim)), label="cummax " + label)
        check(lambda: cumulative.cummin(a, dim), lambda: tuple(t.cummin(dim)), label="cummin " + label)
        if a.dtype.kind in "iub" or not np.isnan(a).any():  # torch's mode with NaN is arbitrary
            check(lambda: statistics.mode(a, dim, keepdim), lambda: tuple(t.mode(dim, keepdim)), label=label)
        keep = 1 if ties or a.dtype.itemsize < 4 else 2  # equal elements: torch's selection decides
        for name in ("median", "nanmedian"):
            mine = getattr(statistics, name + "_dim")
            check(
                lambda: mine(a, dim, keepdim)[:keep],
                lambda: tuple(getattr(t, name)(dim, keepdim))[:keep],
                label=f"{name} {label} {a.tolist()}",
            )
            check(lambda: getattr(statistics, name)(a), lambda: getattr(t, name)(), label=f"{name} {label}")


@pytest.mark.parametrize("ties", [False, True])
def test_order_matches_torch(ties):
    for seed in range(500):
        rng = np.random.default_rng(2000 + seed)
        a = random_array(rng, FLOATING + INTEGER + [np.complex64], ties)
        t, flag = to_torch(a), bool(rng.integers(0, 2))
        dim = int(rng.integers(-max(a.ndim, 1), max(a.ndim, 1) + (rng.random() < 0.05)))
        label = f"{a.dtype} {a.shape} {dim} {flag} {a.tolist()}"
        check(lambda: sort.sort(a, dim, flag), lambda: tuple(t.sort(dim, flag)), label="sort " + label)
        check(
            lambda: sort.argsort(a, dim, flag),
            lambda: t.argsort(dim=dim, descending=flag, stable=True),
            label="argsort " + label,
        )
        check(lambda: sort.msort(a), lambda: t.msort(), label="msort " + label)
        n_nan = 0 if a.dtype.kind in "iub" else np.isnan(a).sum()
        keep = 1 if ties or n_nan > 1 or a.dtype.itemsize < 4 else 2  # equal elements: positions may differ
        k = int(rng.integers(0, 4))
        check(
            lambda: sort.topk(a, k, dim, flag)[:keep],
            lambda: tuple(t.topk(k, dim, flag))[:keep],
            label=f"topk {k} {label}",
        )
        check(
            lambda: sort.kthvalue(a, k, dim, flag)[:keep],
            lambda: tuple(t.kthvalue(k, dim, flag))[:keep],
            label=f"kth {k} {label}",
        )


def test_large_topk_has_the_values_of_the_sorted_order():
    rng = np.random.default_rng(0)
    for largest in (True, False):
        a = rng.integers(0, 50, (3, 400)).astype(np.float32)
        for k in (6, 7):
            values, index = sort.topk(a, k, 1, largest)
            assert np.array_equal(values, sort.sort(a, 1, largest)[0][:, :k], equal_nan=True)
            assert np.array_equal(values, np.take_along_axis(a, index, 1), equal_nan=True)
            a[0, 5], a[1, 6] = np.nan, np.inf


def test_running_reductions_match_torch():
    for seed in range(400):
        rng = np.random.default_rng(3000 + seed)
        a = random_array(rng, FLOATING + INTEGER + COMPLEX)
        t = to_torch(a)
        dim = int(rng.integers(-max(a.ndim, 1), max(a.ndim, 1) + (rng.random() < 0.05)))
        label = f"{a.dtype} {a.shape} {dim}"
        check(lambda: cumulative.cumsum(a, dim), lambda: t.cumsum(dim), 4, "cumsum " + label)
        check(lambda: cumulative.cumprod(a, dim), lambda: t.cumprod(dim), 10, "cumprod " + label)
        check(lambda: cumulative.logcumsumexp(a, dim), lambda: t.logcumsumexp(dim), 10, "lcse " + label)
        n = int(rng.integers(-1, 3))
        check(lambda: cumulative.diff(a, n, dim), lambda: torch.diff(t, n, dim), 4, f"diff {n} {label}")


def test_running_sum_of_float32_is_exact_as_in_torch():
    a = np.random.default_rng(0).random((4, 1000)).astype(np.float32)
    assert np.array_equal(cumulative.cumsum(a, 1), torch.from_numpy(a).cumsum(1).numpy())


def test_variance_norm_and_logsumexp_match_torch():
    for seed in range(500):
        rng = np.random.default_rng(4000 + seed)
        a = random_array(rng, FLOATING + COMPLEX + [np.int64])
        t, dim, keepdim = to_torch(a), random_dim(rng, a.ndim), bool(rng.integers(0, 2))
        label = f"{a.dtype} {a.shape} {dim} {keepdim}"
        for correction in (0, 1, 2.5):
            arguments = {"correction": correction, "keepdim": keepdim}
            check(
                lambda: statistics.var(a, dim, **arguments),
                lambda: t.var(dim, **arguments),
                20,
                f"var {correction} {label}",
            )
            check(
                lambda: statistics.std_mean(a, dim, **arguments),
                lambda: torch.std_mean(t, dim, **arguments),
                20,
                f"std {correction} {label}",
            )
        for p in (0, 1, 2, 3, 0.5, -1, math.inf, -math.inf):
            check(
                lambda: statistics.norm(a, p, dim, keepdim),
                lambda: torch.linalg.vector_norm(t, p, dim, keepdim),
                40,
                f"norm {p} {label}",
            )
        if dim is not None and dim != ():
            check(
                lambda: statistics.logsumexp(a, dim, keepdim),
                lambda: t.logsumexp(dim, keepdim),
                20,
                "lse " + label,
            )


def test_quantiles_match_torch():
    for seed in range(500):
        rng = np.random.default_rng(5000 + seed)
        a = random_array(rng, [np.float32, np.float64, np.int64])
        t, keepdim = to_torch(a), bool(rng.integers(0, 2))
        dim = None if rng.random() < 0.3 else int(rng.integers(-max(a.ndim, 1), max(a.ndim, 1)))
        q = [0.3, np.asarray([0.0, 0.5, 0.9, 1.0], a.dtype), np.asarray(0.25, a.dtype), 1.5][rng.integers(0, 4)]
        way = [*statistics.INTERPOLATIONS, "other"][rng.integers(0, 6)]
        for name in ("quantile", "nanquantile"):
            check(
                lambda: getattr(statistics, name)(a, q, dim, keepdim, way),
                lambda: getattr(t, name)(to_torch(q), dim, keepdim, interpolation=way),
                4,
                f"{name} {a.dtype} {a.shape} {q} {dim} {keepdim} {way}",
            )


def test_half_types_accumulate_wide():
    for dtype in (np.float16, BFLOAT16):
        a = np.ones(5000, np.float32).astype(dtype)
        assert float(reduce.sum(a)) == float(to_torch(a).sum()) and float(reduce.mean(a)) == 1.0
        assert float(cumulative.cumsum(a, 0)[-1]) == float(to_torch(a).cumsum(0)[-1])


def test_variance_of_a_large_offset_is_stable():
    a = (1e4 + np.arange(64) / 64).astype(np.float32)
    assert abs(float(statistics.var(a)) / float(np.var(a.astype(np.float64), ddof=1)) - 1) < 1e-4


def test_infinite_logsumexp():
    for values in (
        [math.inf, 1.0],
        [-math.inf, -math.inf],
        [math.inf, -math.inf],
        [math.nan, 1.0],
        [1000.0, 1000.0],
    ):
        a = np.array(values, np.float32)
        check(lambda: statistics.logsumexp(a, 0), lambda: to_torch(a).logsumexp(0), label=str(values))
        check(lambda: cumulative.logcumsumexp(a, 0), lambda: to_torch(a).logcumsumexp(0), label=str(values))


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda a: reduce.mean(a.astype(int)), RuntimeError, "could not infer output dtype"),
        (lambda a: reduce.sum(a, (0, 0)), RuntimeError, "appears multiple times in the list of dims"),
        (lambda a: reduce.sum(a, 3), IndexError, "Dimension out of range"),
        (lambda a: reduce.amax(a[:0], 0), IndexError, "Expected reduction dim 0 to have non-zero size"),
        (lambda a: reduce.max(a[:0]), RuntimeError, "Expected reduction dim to be specified"),
        (lambda a: sort.topk(a, 9), RuntimeError, "selected index k out of range"),
        (lambda a: statistics.quantile(a, 1.5), RuntimeError, "range \\[0, 1\\]"),
        (lambda a: statistics.norm(a[:0], math.inf), RuntimeError, "does not have an identity"),
    ],
)
def test_messages_keep_the_searched_words(call, error, words):
    with pytest.raises(error, match=words):
        call(np.ones((3, 4), np.float32))
