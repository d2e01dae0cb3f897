"""Kernels that treat large arrays differently: the same values as of the plain NumPy expression."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import special

from flambeau.kernels import (
    activations,
    cumulative,
    division,
    embedding,
    error_function,
    layout,
    linalg,
    lu,
    ranked,
    rearrange,
    reduce,
    resample,
    scatter,
    sort,
)
from flambeau.kernels.pointwise import BLOCK, LARGE, elementwise, in_blocks, select, steps

N = LARGE + BLOCK + 17
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 1.0, -1.0], "f4")


def normals(n: int = N, dtype: str = "f4") -> np.ndarray:
    a = np.random.default_rng(0).standard_normal(n).astype(dtype)
    a[: len(SPECIAL)] = SPECIAL
    return a


def equal(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal bits, but for nan."""
    number = ~np.isnan(b)
    return a.dtype == b.dtype and np.array_equal(np.isnan(a), np.isnan(b)) and a[number].tobytes() == b[number].tobytes()


@pytest.mark.parametrize("dtype", ["?", "i1", "f2", "f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("shapes", [((40, 30),) * 3, ((40, 1), (40, 30), ()), ((40, 30), (30,), (40, 1)), ((2,), (), ())])
def test_select_is_where(dtype: str, shapes: tuple) -> None:
    rng = np.random.default_rng(1)
    mask = rng.random(shapes[0]) < 0.5
    a, b = (np.asarray(rng.standard_normal(s) * 3).astype(dtype) for s in shapes[1:])
    found = select(np.asarray(mask), a, b)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, np.where(mask, a, b))


@pytest.mark.parametrize("order", ["C", "F", "strided"])
def test_blocks_keep_shape_and_order(order: str) -> None:
    a = normals(600 * 1000).reshape(600, 1000)
    a = a[:, ::2].repeat(2, 1)[:, ::2] if order == "strided" else np.asarray(a, order=order)
    out = in_blocks(lambda x, y, c: x * y + c, a, a, 2.0)
    assert equal(out, a * a + np.float32(2))
    assert order == "strided" or out.flags[order + "_CONTIGUOUS"]


def test_blocks_leave_broadcasting_to_the_kernel() -> None:
    a = normals(LARGE * 2).reshape(2, LARGE)
    b = normals(LARGE)
    assert equal(elementwise(lambda x, y: x + y)(a, b), a + b)


def test_steps_in_place() -> None:
    double = steps(lambda a, out: np.multiply(a, 2, out))
    a = normals()
    expected = a * np.float32(2)
    double.into(a, a)                                                         # type: ignore[attr-defined]
    assert equal(a, expected)


@pytest.mark.parametrize(("kernel", "args", "plain"), [
    (activations.relu, (), lambda a: np.where(a < 0, np.float32(0), a)),
    (activations.hardtanh, (-0.5, 0.7), lambda a: np.minimum(np.maximum(a, np.float32(-0.5)), np.float32(0.7))),
    (activations.threshold, (0.1, 5.0), lambda a: np.where(a <= np.float32(0.1), np.float32(5), a)),
    (activations.hardshrink, (0.5,), lambda a: np.where(np.abs(a) <= 0.5, np.float32(0), a)),
    (activations.leaky_relu, (2.0,), lambda a: np.where(a > 0, a, a * np.float32(2))),
])
@pytest.mark.parametrize("n", [64, 1000, N])
def test_activations(kernel: object, args: tuple, plain: object, n: int) -> None:
    a = normals(n)
    assert equal(kernel(a, *args), plain(a))                                  # type: ignore[operator]


@pytest.mark.parametrize("name", ["fmod", "remainder", "floor_divide"])
@pytest.mark.parametrize("b", [0.7, -0.1, 3.0, math.inf, 0.0, "normal", "wide", "zeros"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_division_is_pytorchs(name: str, b: float | str) -> None:
    rng = np.random.default_rng(2)
    n = 5000
    a = normals(n) * np.float32(100)
    if b == "normal":
        divisor = rng.standard_normal(n).astype("f4")
    elif b == "wide":
        a[100:], divisor = rng.standard_normal(n - 100) * 1e20, np.exp(rng.standard_normal(n) * 20).astype("f4")
    elif b == "zeros":
        divisor = rng.integers(-2, 3, n).astype("f4")
    else:
        divisor = np.array(b, "f4")
    for x in (a[8:], a):        # with and without infinities
        y = divisor[-len(x):] if divisor.ndim else divisor
        got = getattr(division, name)(x, y)
        if b == "wide":         # huge quotients: PyTorch's vector code rounds, NumPy is exact (but for the sign of zeros)
            np.testing.assert_array_equal(got, getattr(np, name)(x, y))
        else:
            divisors = torch.from_numpy(np.ascontiguousarray(y))
            assert equal(got, getattr(torch, name)(torch.from_numpy(x), divisors).numpy())


def test_erf_is_right_to_the_last_place() -> None:
    a = normals() * np.float32(2)
    exact = special.erf(a.astype("f8"))
    found = error_function.erf(a)
    number = ~np.isnan(a)
    assert np.isnan(found[~number]).all()
    assert (np.abs(found - exact)[number] <= 0.55 * np.spacing(np.abs(exact[number]).astype("f4"))).all()
    assert np.signbit(found[1])
    error_function.erf(a, a)
    assert equal(a, found)


@pytest.mark.parametrize("n", [100, N])
def test_normal_distribution(n: int) -> None:
    a = normals(n)
    found = error_function.normal_cdf(a, np.empty_like(a))
    number = ~np.isnan(a)
    assert np.isnan(found[~number]).all()
    assert np.abs(found - special.ndtr(a.astype("f8")))[number].max() < 2e-7
    far = np.repeat(np.array([-1e30, -88, -6, 6, 88, np.inf], "f4"), n)
    assert error_function.normal_cdf(far, np.empty_like(far)).tolist() == [0.0] * 3 * n + [1.0] * 3 * n


# --------------------------------------------------------------------------------- selection, copies, sums


@pytest.mark.parametrize("kind", ["different", "ties", "whole"])
@pytest.mark.parametrize("k", [0, 7, 499])
def test_nth_is_of_the_stable_order(kind: str, k: int) -> None:
    a = np.random.default_rng(3).standard_normal((20, 500)).astype("f4")
    a = np.round(a, 1) if kind == "ties" else (a * 9).astype("i8") if kind == "whole" else a
    found = ranked.nth(a, k)
    assert found is not None
    values, positions, alone = found
    order = a.argsort(-1, kind="stable")[:, k:k + 1]
    np.testing.assert_array_equal(positions, order)
    np.testing.assert_array_equal(values, np.take_along_axis(a, order, -1))
    assert alone == bool((np.count_nonzero(a == values, axis=-1) == 1).all())


def test_nth_leaves_nan_to_the_sort() -> None:
    a = np.zeros(ranked.LARGE, "f4")
    a[5] = np.nan
    assert ranked.nth(a, 3) is None


@pytest.mark.parametrize("values", ["normal", "nan", "-inf"])
@pytest.mark.parametrize("k", [2, 8])
def test_topk_of_few(values: str, k: int) -> None:
    a = np.random.default_rng(4).standard_normal((30, 700)).astype("f4")
    if values == "nan":
        a[:, 100:103] = np.nan
    if values == "-inf":
        a[:, 1:] = -np.inf
    best, positions = sort.topk(a, k)
    order = sort.argsort_last(a, True)[:, :k]
    np.testing.assert_array_equal(best, np.take_along_axis(a, order, -1))
    if values == "normal":
        np.testing.assert_array_equal(positions, order)


@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_running_extrema_keep_the_latest_position(name: str) -> None:
    a = np.round(np.random.default_rng(5).standard_normal((9, 2000)), 1).astype("f4")
    a[3, 50:] = np.nan
    large = getattr(cumulative, name)(a, 1)
    small = [getattr(cumulative, name)(row, 0) for row in a]
    for part in (0, 1):
        np.testing.assert_array_equal(large[part], np.stack([s[part] for s in small]))


@pytest.mark.parametrize("shape", [(512, 1024), (1000, 300), (8, 64, 40, 50)])
def test_row_major_copies_of_permuted_arrays(shape: tuple) -> None:
    a = np.arange(math.prod(shape), dtype="f4").reshape(shape)
    for view in (a.T, a.swapaxes(0, 1), np.moveaxis(a, 1, -1), a.T[::-1, 1:]):
        copy = layout.row_major(view)
        assert copy.flags.c_contiguous
        np.testing.assert_array_equal(copy, view)


@pytest.mark.parametrize("offset", [-9, -1, 0, 2, 9])
def test_triangle_indices(offset: int) -> None:
    mask = np.tri(5, 7, offset, bool)
    np.testing.assert_array_equal(rearrange.tril_indices(5, 7, offset), np.stack(mask.nonzero()))
    np.testing.assert_array_equal(rearrange.triu_indices(5, 7, offset + 1), np.stack((~mask).nonzero()))


def test_sums_and_products_of_many() -> None:
    a = np.random.default_rng(6).standard_normal((300, 501)).astype("f4")
    exact = a.astype("f8").sum()
    for x in (a, a.T, a[::2]):
        assert abs(float(reduce.sum(x)) - x.astype("f8").sum()) < 1e-7 * np.abs(x).sum()
    assert abs(float(reduce.sum_all(a)) - exact) < 1e-7 * np.abs(a).sum()
    b = (1 + 1e-3 * a).astype("f8")
    np.testing.assert_allclose(reduce.prod(b), np.multiply.reduce(b, None), rtol=1e-10)
    a[4, 4] = np.inf
    assert reduce.sum(a) == np.inf
    a[5, 5] = np.nan
    assert np.isnan(reduce.sum(a))
    assert np.isfinite(reduce.nansum(np.where(np.isinf(a), 0, a)))


@pytest.mark.parametrize("start", ["zeros", "normals"])
def test_index_add_adds_rows_in_their_order(start: str) -> None:
    rng = np.random.default_rng(7)
    a = np.zeros((40, 64), "f4") if start == "zeros" else rng.standard_normal((40, 64)).astype("f4")
    index, source = rng.integers(0, 40, 400), rng.standard_normal((400, 64)).astype("f4")
    expected = a.copy()
    for i, row in zip(index, source, strict=True):
        expected[i] += row
    np.testing.assert_array_equal(scatter.index_add(a, 0, index, source), expected)


def test_bag_sums() -> None:
    rng = np.random.default_rng(8)
    weight, indices = rng.standard_normal((30, 50)).astype("f4"), rng.integers(0, 30, 500)
    bag = np.sort(rng.integers(0, 20, 500))
    bag[bag == 7] = 8           # an empty one
    expected = np.zeros((21, 50))
    np.add.at(expected, bag, weight[indices].astype("f8"))
    np.testing.assert_allclose(embedding.bag_sums(weight, indices, bag, 21), expected, atol=1e-5)
    np.testing.assert_allclose(embedding.bag_sums(weight[:, :2], indices, bag, 21), expected[:, :2], atol=1e-5)


@pytest.mark.parametrize(("size", "out"), [(7, 14), (7, 10), (7, 3), (5, 5)])
def test_nearest_resampling_has_its_adjoint(size: int, out: int) -> None:
    rng = np.random.default_rng(9)
    x, g = rng.standard_normal((2, 3, size, size)), rng.standard_normal((2, 3, out, out))
    forward = resample.resample(x, (out, out), "nearest", False, (None, None), False)
    backward = resample.resample_backward(g, x.shape, "nearest", False, (None, None), False)
    np.testing.assert_allclose((forward * g).sum(), (backward * x).sum())


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("shape", [(40, 40), (3, 20, 20), (200, 3, 3), (70, 70)])
def test_triangular_equations_and_factors(dtype: str, upper: bool, shape: tuple) -> None:
    rng = np.random.default_rng(10)
    a, b = rng.standard_normal(shape) + 4 * shape[-1] * np.eye(shape[-1]), rng.standard_normal((*shape[:-1], 5))
    a, b = a.astype(dtype), b.astype(dtype)
    x = linalg.solve_triangular(a, b, upper, False)
    triangle = np.triu(a) if upper else np.tril(a)
    np.testing.assert_allclose(triangle @ x, b, atol=1e-4 if dtype in ("f4", "c8") else 1e-11)
    packed, pivots, info = lu.factor(a)
    low = np.tril(packed, -1) + np.eye(shape[-1], dtype=a.dtype)
    p = lu.permutation(pivots, shape[-1], a.dtype)
    np.testing.assert_allclose(p @ low @ np.triu(packed), a, atol=1e-3 if dtype in ("f4", "c8") else 1e-10)
    assert not info.any()


def test_zero_on_a_diagonal_gives_infinities() -> None:
    a = np.eye(3)
    a[1, 1] = 0
    with np.errstate(all="ignore"):
        assert np.isinf(linalg.solve_triangular(a, np.ones((3, 1)), True, False)[1, 0])
    assert lu.factor(a)[2] == 2
