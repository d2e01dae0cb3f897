"""Conversions between dtypes give the values that torch's `.to(dtype)` gives."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

from flambeau.kernels import casting
from flambeau.kernels.casting import BFLOAT16, cast

TORCH_DTYPES = {
    np.dtype(name): getattr(torch, name)
    for name in (
        "bool",
        "uint8",
        "int8",
        "int16",
        "int32",
        "int64",
        "float16",
        "float32",
        "float64",
        "complex64",
        "complex128",
    )
} | {BFLOAT16: torch.bfloat16}
DTYPES = list(TORCH_DTYPES)
FLOATS = [dtype for dtype in DTYPES if dtype.kind == "f" or dtype == BFLOAT16]
INTEGERS = [dtype for dtype in DTYPES if dtype.kind in "iu"]
EDGES = [
    np.nan,
    np.inf,
    -np.inf,
    0.0,
    -0.0,
    0.5,
    -0.5,
    255.9,
    256.0,
    300.7,
    -1.7,
    65504,
    65519.99,
    65520,
    65543,
    2.0**31,
    2.0**31 - 1,
    -(2.0**31),
    -(2.0**31) - 1,
    2.0**32 + 5,
    3e9,
    -3e9,
    2.0**40 + 2**20 + 77,
    2.0**63,
    -(2.0**63),
    2.0**64,
    1e19,
    -1e19,
    1e30,
    3.4e38,
    3.5e38,
    -1e300,
    1e-8,
    1e-45,
    5e-324,
]


@pytest.fixture(autouse=True)
def quiet_numpy():
    with np.errstate(all="ignore"):
        yield


def to_torch(array: np.ndarray) -> torch.Tensor:
    if array.dtype == BFLOAT16:
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(array.copy())


def to_numpy(t: torch.Tensor) -> np.ndarray:
    return t.view(torch.int16).numpy().view(BFLOAT16) if t.dtype == torch.bfloat16 else t.numpy()


def bits(array: np.ndarray) -> np.ndarray:
    """Bit patterns, so that -0.0 differs from 0.0, with one pattern for all nans."""
    if array.dtype.kind == "c":
        array = array.view(array.real.dtype)
    patterns = array.view(f"u{array.dtype.itemsize}").copy()
    patterns[array != array] = 1
    return patterns


def reals(rng: np.random.Generator) -> np.ndarray:
    n = 2000
    half_ties = 1 + rng.integers(0, 2**20, n) / 2**11 + rng.choice([-1, 0, 1], n) * 2.0**-40
    bfloat_ties = 1 + rng.integers(0, 2**20, n) / 2**9 + rng.choice([-1, 0, 1], n) * 2.0**-40
    return np.concatenate(
        [
            rng.standard_normal(n) * 100,
            rng.standard_normal(n) * 10 ** rng.uniform(-50, 40, n),
            rng.standard_normal(n) * 10 ** rng.uniform(0, 25, n),
            rng.integers(-70_000, 140_000, n) + rng.choice([0, 0.5], n),
            half_ties,
            bfloat_ties,
            rng.integers(0, 3000, n) * 2.0**-25 + rng.choice([0, 2.0**-50], n),  # float16 subnormals
            np.array(EDGES),
        ]
    )


def samples(dtype: np.dtype) -> np.ndarray:
    """All values of the 16-bit floats; random and edge values of the others."""
    rng = np.random.default_rng(7)
    if dtype == np.bool_:
        return rng.random(100) < 0.5
    if dtype.kind in "iu":
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        spread = rng.integers(low, high, 5000, endpoint=True, dtype=dtype)
        small = rng.integers(max(low, -70_000), min(high, 140_000), 5000, endpoint=True, dtype=dtype)
        return np.concatenate([spread, small, np.array([low, low + 1, high - 1, high, 0], dtype)])
    if dtype.itemsize == 2:
        return np.arange(2**16, dtype=np.uint16).view(dtype)
    x = reals(rng)
    if dtype.kind == "c":
        z = np.empty(x.size, dtype)
        z.real, z.imag = x, rng.permutation(x)
        return z
    return x.astype(dtype)


@pytest.mark.parametrize("target", DTYPES, ids=str)
@pytest.mark.parametrize("source", DTYPES, ids=str)
@pytest.mark.filterwarnings("ignore:Casting complex values to real")
def test_values_are_those_of_torch(source, target):
    array = samples(source)
    before = array.copy()
    result = cast(array, target)
    expected = to_numpy(to_torch(array).to(TORCH_DTYPES[target]))
    assert result.dtype == target
    np.testing.assert_array_equal(bits(result), bits(expected))
    np.testing.assert_array_equal(bits(array), bits(before))


@pytest.mark.parametrize("target", INTEGERS, ids=str)
@pytest.mark.parametrize("source", FLOATS, ids=str)
def test_what_does_not_fit_an_integer_is_the_same_on_every_processor(source, target, monkeypatch):
    array = samples(source)
    here = cast(array, target)
    monkeypatch.setattr(casting, "_PROCESSOR_AGREES", False)
    np.testing.assert_array_equal(cast(array, target), here)
    assert cast(array[0], target).shape == ()


@pytest.mark.parametrize("size", [1, 3, 15, 16, 17, 64, 67])
def test_misfits_do_not_depend_on_length(size):
    nans = np.full(size, np.nan, np.float32)
    assert set(cast(nans, np.dtype(np.int32)).tolist()) == {-(2**31)}
    assert set(cast(nans, np.dtype(np.int64)).tolist()) == {-(2**63)}
    assert set(cast(nans, np.dtype(np.uint8)).tolist()) == {0}


@pytest.mark.parametrize("target", DTYPES, ids=str)
@pytest.mark.parametrize("source", DTYPES, ids=str)
def test_zero_dimensional_empty_and_strided_inputs(source, target):
    array = samples(source)[:24].reshape(2, 3, 4)
    strided = array.transpose(2, 0, 1)[::2]
    result = cast(strided, target)
    np.testing.assert_array_equal(bits(result.copy("C")), bits(cast(strided.copy("C"), target)))
    assert isinstance(cast(array[0, 0, 0, ...], target), np.ndarray)
    assert cast(array[:, :0], target).shape == (2, 0, 4)
    if source != target:
        assert not np.shares_memory(result, array)


def test_same_dtype_returns_the_array_itself():
    for dtype in DTYPES:
        array = np.zeros((2, 2), dtype)
        assert cast(array, np.dtype(dtype)) is array
    array = np.zeros(2, np.longlong)  # int64 by another name on most systems
    assert array.dtype != np.int64 or cast(array, np.dtype(np.int64)) is array


def test_complex_to_real_of_the_same_width_is_a_copy():
    z = np.array([1 + 2j, 3 - 1j], np.complex64)
    x = cast(z, np.dtype(np.float32))
    x[0] = 9
    assert z[0] == 1 + 2j
    assert x.flags.c_contiguous


def test_discard_hook_is_told_of_every_dropped_imaginary_part():
    told = []
    previous = casting.set_discard_hook(lambda: told.append(1))
    try:
        z = np.array([1 + 2j, 2j])
        assert cast(z, np.dtype(np.int32)).tolist() == [1, 0]
        assert cast(z, np.dtype(np.float32)).tolist() == [1.0, 0.0]
        assert len(told) == 2
        assert cast(z, np.dtype(np.bool_)).tolist() == [True, True]
        cast(z, np.dtype(np.complex64))
        cast(np.ones(2), np.dtype(np.float32))
        assert len(told) == 2
    finally:
        installed = casting.set_discard_hook(previous)
    assert installed is not None


def test_no_hook_means_silence():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cast(np.array(1 + 2j), np.dtype(np.float64)) == 1.0
