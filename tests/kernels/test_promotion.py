"""Type promotion agrees with torch for every pair of dtypes, dimensions and kinds of number."""

from __future__ import annotations

import itertools
import math

import ml_dtypes
import numpy as np
import pytest
import torch

from flambeau.kernels.casting import BFLOAT16
from flambeau.kernels.promotion import can_cast, constant, number_dtype, promote_types, result_type

NAMES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]
NAMES += ["complex64", "complex128"]
NUMPY = {getattr(torch, name): np.dtype(name) if name != "bfloat16" else BFLOAT16 for name in NAMES}
DTYPES = list(NUMPY)
DEFAULTS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
PAIRS = list(itertools.product(DTYPES, DTYPES))
NUMBERS = [True, 3, 2.5, 1 + 2j]


def ours(dtype: torch.dtype) -> np.dtype:
    """NumPy's dtype; complex32, which PyTorch gives for float16 and a complex number, is complex64 here."""
    return np.dtype(np.complex64) if dtype == torch.complex32 else NUMPY[dtype]


@pytest.fixture(params=DEFAULTS, ids=str)
def default(request):
    torch.set_default_dtype(request.param)
    yield NUMPY[request.param]
    torch.set_default_dtype(torch.float32)


def test_promote_types_for_every_pair():
    wrong = [(a, b) for a, b in PAIRS if promote_types(NUMPY[a], NUMPY[b]) != ours(torch.promote_types(a, b))]
    assert wrong == []


def test_can_cast_for_every_pair():
    assert [(a, b) for a, b in PAIRS if can_cast(NUMPY[a], NUMPY[b]) != torch.can_cast(a, b)] == []


def test_result_type_for_every_pair_of_tensors():
    shapes = [(), (1,), (0, 2)]
    for (a, b), left, right in itertools.product(PAIRS, shapes, shapes):
        expected = torch.result_type(torch.empty(left, dtype=a), torch.empty(right, dtype=b))
        got = result_type(np.empty(left, NUMPY[a]), np.empty(right, NUMPY[b]))
        assert got == ours(expected), (a, left, b, right)


def test_result_type_for_tensor_and_number(default):
    for dtype, shape, number in itertools.product(DTYPES, [(), (2,)], NUMBERS):
        expected = torch.result_type(torch.ones(shape, dtype=dtype), number)
        array = np.ones(shape, NUMPY[dtype])
        assert result_type(array, number, default_float_dtype=default) == ours(expected), (dtype, number)
        assert result_type(number, array, default_float_dtype=default) == ours(expected), (dtype, number)


def test_result_type_for_two_numbers(default):
    for a, b in itertools.product(NUMBERS, NUMBERS):
        assert result_type(a, b, default_float_dtype=default) == ours(torch.result_type(a, b)), (a, b)


def test_result_type_for_three_tensors():
    rng = np.random.default_rng(3)
    real = [dtype for dtype in DTYPES if not dtype.is_complex and dtype != torch.bool]
    for _ in range(600):
        dtypes = [real[i] for i in rng.integers(len(real), size=3)]
        shapes = [[(), (1,)][i] for i in rng.integers(2, size=3)]
        tensors = [torch.ones(shape, dtype=dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]
        arrays = [np.ones(shape, NUMPY[dtype]) for shape, dtype in zip(shapes, dtypes, strict=True)]
        assert result_type(*arrays) == NUMPY[torch.clamp(*tensors).dtype], (dtypes, shapes)


def test_result_type_names_what_it_cannot_use():
    with pytest.raises(TypeError, match="got str"):
        result_type(np.ones(1), "1")
    with pytest.raises(TypeError, match="at least one"):
        result_type()


def test_constant_has_the_dtype_torch_computes_in(default):
    for dtype, number in itertools.product(DTYPES, NUMBERS):
        for shape in [(), (2,)]:
            expected = torch.result_type(torch.ones(shape, dtype=dtype), number)
            array = constant(number, NUMPY[dtype], default)
            assert array.dtype == ours(expected), (dtype, number)
            assert array.shape == ()
            assert not array.flags.writeable


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype != torch.bool], ids=str)
@pytest.mark.parametrize(
    "value",
    [
        *(True, False, 0, 1, -1, 300, -129, 2**31, -(2**31) - 1, 2**62 + 2**38 + 1, 2**63 - 1, -(2**63)),
        *(2**63, 2**63 + 1025, 2**64 - 1, 0.0, -0.0, 0.1, 1e300, -1e39, 65519.99, 65520.0, 1e-8),
        *(math.inf, 1 + 1 / 2048 + 2.0**-40, 1.5 - 2.5j, complex(1e300, -0.0)),
    ],
    ids=str,
)
def test_constant_has_the_value_torch_computes_with(dtype, value):
    got = constant(value, NUMPY[dtype])
    tensor = torch.full((1,), -0.0).to(dtype)  # -0.0 is neutral in a sum: it keeps the sign of a zero
    assert got.dtype == ours(torch.result_type(tensor, value))
    if got.dtype.kind == "c":
        # Adding multiplies by alpha first, which makes nan of complex inf; comparing only converts.
        assert (torch.from_numpy(got.copy()) == value).item()
        return
    expected = (tensor + value).item()
    assert got.item() == expected if got.dtype.kind in "iu" else float(got) == expected
    if dtype.is_floating_point:
        assert math.copysign(1, got) == math.copysign(1, expected)


def test_int_beside_bool_is_int64():
    assert constant(3, np.dtype(bool)).dtype == np.int64
    assert constant(True, np.dtype(bool)).dtype == np.bool_


def test_equal_keys_of_different_kind_or_sign_stay_apart():
    int64 = np.dtype(np.int64)
    dtypes = [constant(value, int64).dtype for value in (1, 1.0, True, 1)]
    assert dtypes == [np.int64, np.float32, np.int64, np.int64]
    signs = [math.copysign(1, constant(value, np.dtype(np.float32))) for value in (0.0, -0.0, 0.0)]
    assert signs == [1, -1, 1]
    assert constant(1.0, int64, np.dtype(np.float64)).dtype == np.float64
    assert constant(1.0, int64).dtype == np.float32


def test_nan_is_a_constant():
    for _ in range(3):
        assert np.isnan(constant(float("nan"), np.dtype(np.float32)))


@pytest.mark.parametrize(
    "value", [2**64, -(2**63) - 1, 10**400, -(10**5000)], ids=["2^64", "low", "big", "huge"]
)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.float32, torch.bool], ids=str)
def test_ints_of_more_than_64_bits_overflow(dtype, value):
    with pytest.raises(OverflowError):
        torch.ones(1, dtype=dtype) + value
    with pytest.raises(OverflowError, match="too big to convert"):
        constant(value, NUMPY[dtype])


def test_uint64_beside_bool_is_refused():
    with pytest.raises(RuntimeError):
        torch.ones(1, dtype=torch.bool) + 2**63
    with pytest.raises(RuntimeError, match="promot"):
        constant(2**63, np.dtype(bool))


@pytest.mark.parametrize("value", [None, "1", [1], np.ones(1), np.array(1.0), np.timedelta64(1), object()])
def test_what_is_not_a_number_gives_none(value):
    assert constant(value, np.dtype(np.float32)) is None
    assert number_dtype(value) is None


@pytest.mark.parametrize(
    ("scalar", "kind"),
    [
        (np.float64(2.0), float),
        (np.float32(2.0), float),
        (np.float16(2.0), float),
        (ml_dtypes.bfloat16(2.0), float),
        (np.int8(2), int),
        (np.uint64(2), int),
        (np.bool_(True), bool),
        (np.complex64(2j), complex),
        (np.complex128(2j), complex),
    ],
    ids=lambda x: str(type(x).__name__),
)
def test_numpy_scalars_count_as_python_numbers(scalar, kind):
    for dtype in NUMPY.values():
        expected = constant(kind(scalar), dtype)
        got = constant(scalar, dtype)
        assert got.dtype == expected.dtype
        assert got == expected


def test_subclasses_of_python_numbers_count_as_numbers():
    class Rate(float):
        pass

    assert constant(Rate(0.5), np.dtype(np.int32)).dtype == np.float32
