"""Kernels that treat large arrays differently: the same values as of the plain NumPy expression."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special

from flambeau.kernels import activations, division, error_function
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
def test_division_is_numpys(name: str, b: float | str) -> None:
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
        assert equal(getattr(division, name)(x, y), getattr(np, name)(x, y))


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
