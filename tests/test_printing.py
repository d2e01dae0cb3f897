"""Tensors print as PyTorch prints them, character for character."""

from __future__ import annotations

import math
import time

import ml_dtypes
import numpy as np
import pytest
import torch

from flambeau.tensor import _printing
from flambeau.tensor._printing import format_text, printoptions, tensor_text

DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.complex128,
]
OPTIONS = {
    "precision": [0, 1, 2, 3, 6, 10],
    "threshold": [0, 1, 5, 20, 100, 1000],
    "edgeitems": [0, 1, 2, 3, 5],
    "linewidth": [10, 40, 79, 80, 81, 120, 200],
    "profile": ["default", "short", "full"],
    "sci_mode": [True, False, None],
}
ROLES = [
    "plain",
    "leaf",
    "result",
    "parameter",
    "subclass",
    "parameter_class",
    "parameter_of_subclass",
    "meta",
]


class MyTensor(torch.Tensor):
    pass


class MyParameter(torch.nn.Parameter):
    pass


def to_numpy(t: torch.Tensor) -> np.ndarray:
    if t.dtype == torch.bfloat16:
        return t.float().numpy().astype(ml_dtypes.bfloat16)
    return t.numpy()


def torch_text(t: torch.Tensor, default_dtype: torch.dtype = torch.float32, **options) -> str:
    torch.set_default_dtype(default_dtype)
    try:
        with torch._tensor_str.printoptions(**options):
            return repr(t)
    finally:
        torch.set_default_dtype(torch.float32)


def our_text(t: torch.Tensor, **facts) -> str:
    return tensor_text(to_numpy(t), dtype_name=str(t.dtype).removeprefix("torch."), **facts)


def random_reals(rng: np.random.Generator, n: int, wide: bool) -> np.ndarray:
    """One of the regimes that decide notation and width, with some nan, inf and signed zeros."""
    regime = rng.integers(8)
    if regime == 0:
        x = rng.standard_normal(n)
    elif regime == 1:
        x = np.floor(rng.standard_normal(n) * 10 ** rng.uniform(0, 10))
    elif regime == 2:
        x = rng.standard_normal(n) * 10 ** rng.uniform(-8, 8, size=n)
    elif regime == 3:
        x = rng.standard_normal(n) * 10.0 ** rng.integers(-300 if wide else -40, 38)
    elif regime == 4:
        x = rng.random(n) * rng.choice([1, 10, 100, 1000, 1e4, 1e5, 1e8, 1e-3, 1e-4])
    elif regime == 5:
        x = np.zeros(n) * rng.choice([-1, 1])
    elif regime == 6:
        x = rng.choice([0.0, -0.0, 1, 1000, 1001, 1e8, 1e8 + 8, 1e-4, 0.5], size=n)
    else:
        x = rng.choice([0.25, 1.5, -2.5, 1e3, 999.99996, 9.99995, 99999.9, 1e-4, 0.1], size=n)
    special = rng.random(n) < rng.choice([0, 0, 0.2, 0.8])
    return np.where(special, rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0], size=n), x)


def random_tensor(rng: np.random.Generator) -> torch.Tensor:
    shape = tuple(
        int(rng.choice([0, 1, 2, 3, 5, 7, 9, 20])) for _ in range(rng.choice([0, 1, 1, 2, 2, 3, 4, 5]))
    )
    if rng.random() < 0.1:
        shape = (int(rng.integers(900, 1200)),)
    if math.prod(shape) > 20_000:
        shape = shape[:3]
    n = math.prod(shape)
    dtype = DTYPES[rng.integers(len(DTYPES))]
    if dtype == torch.bool:
        values = torch.from_numpy(rng.random(n) < 0.5)
    elif dtype.is_complex:
        wide = dtype == torch.complex128
        values = torch.complex(*(torch.from_numpy(random_reals(rng, n, wide)) for _ in range(2)))
    elif dtype.is_floating_point:
        values = torch.from_numpy(random_reals(rng, n, dtype == torch.float64))
    else:
        largest = min(torch.iinfo(dtype).max, int(10 ** rng.uniform(0, 19)))
        smallest = max(torch.iinfo(dtype).min, -largest) if rng.random() < 0.5 else 0
        values = torch.from_numpy(rng.integers(smallest, largest, size=n, endpoint=True))
    return values.to(dtype).reshape(shape)


def in_role(t: torch.Tensor, role: str, requires_grad: bool) -> tuple[torch.Tensor, dict]:
    """The tensor as a leaf, a result, a parameter, ... and the facts that tell our printer so."""
    if role == "leaf":
        return t.requires_grad_(requires_grad), {"requires_grad": requires_grad}
    if role == "result" and requires_grad:
        return t.requires_grad_().clone(), {"requires_grad": True, "grad_fn_name": "CloneBackward0"}
    if role == "parameter":
        t = torch.nn.Parameter(t, requires_grad)
        return t, {"is_parameter": True, "requires_grad": requires_grad}
    if role == "subclass":
        return t.as_subclass(MyTensor), {"class_name": "MyTensor"}
    if role == "parameter_class":
        facts = {"class_name": "MyParameter", "is_parameter": True, "requires_grad": requires_grad}
        return MyParameter(t, requires_grad), facts
    if role == "parameter_of_subclass":
        t = torch.nn.Parameter(t.as_subclass(MyTensor), requires_grad)
        facts = {"class_name": "MyTensor", "is_parameter": True, "parameter_header": False}
        return t, {**facts, "requires_grad": requires_grad}
    if role == "meta":
        return t.to("meta"), {"is_meta": True, "shape": tuple(t.shape)}
    return t, {}


@pytest.mark.parametrize("seed", range(300))
def test_random_tensor_prints_as_torch(seed):
    rng = np.random.default_rng([20260, seed])
    t = random_tensor(rng)
    values = to_numpy(t)
    options = {}
    if rng.random() < 0.5:
        for name, choices in OPTIONS.items():
            if rng.random() < 0.4:
                options[name] = choices[rng.integers(len(choices))]
    default = [torch.float32, torch.float32, torch.float64, torch.float16, torch.bfloat16][rng.integers(5)]
    differentiable = t.dtype.is_floating_point or t.dtype.is_complex
    t, facts = in_role(t, ROLES[rng.integers(len(ROLES))], differentiable)
    with printoptions(**options):
        text = tensor_text(
            None if t.is_meta else values,
            dtype_name=str(t.dtype).removeprefix("torch."),
            default_dtype_name=str(default).removeprefix("torch."),
            **facts,
        )
    assert text == torch_text(t, default, **options)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([1.0, -2.0], "tensor([ 1., -2.])"),
        ([1.5, float("nan"), -0.0], "tensor([1.5000,    nan, -0.0000])"),
        ([0.0, float("-inf")], "tensor([0., -inf])"),
        ([1e8, 1e5], "tensor([100000000.,    100000.])"),
        ([1.0, 1001.0], "tensor([1.0000e+00, 1.0010e+03])"),
        ([9e-5], "tensor([9.0000e-05])"),
        ([[]], "tensor([], size=(1, 0))"),
        ([], "tensor([])"),
        (3.0, "tensor(3.)"),
        ([1 + 2j, 3.5 - 1j], "tensor([1.0000+2.j, 3.5000-1.j])"),
    ],
)
def test_known_text(values, text):
    t = torch.tensor(values)
    assert our_text(t) == text == repr(t)


@pytest.mark.parametrize("size", range(1, 30))
def test_notes_wrap_under_the_values_where_torch_wraps_them(size):
    t = torch.rand(size, dtype=torch.float64, requires_grad=True) * 2
    text = our_text(t.detach(), grad_fn_name="MulBackward0")
    assert text == repr(t)
    assert ("\n" in text) == (size > 3)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_large_tensor_formats_only_what_is_shown(dtype):
    t = torch.arange(1_000_000).reshape(100, 100, 100).to(dtype)
    values = to_numpy(t)
    start = time.perf_counter()
    text = tensor_text(values, dtype_name=str(dtype).removeprefix("torch."))
    elapsed_s = time.perf_counter() - start
    assert text == repr(t)
    assert elapsed_s < 0.25  # formatting every element takes at least ten times that


def test_non_contiguous_values_print_in_logical_order():
    t = torch.arange(24.0).reshape(2, 3, 4).permute(2, 0, 1)[::2]
    assert our_text(t) == repr(t)


def test_device_and_tangent_are_noted():
    one = np.ones(1, np.float32)
    assert tensor_text(one, dtype_name="float32", device="cuda:0") == "tensor([1.], device='cuda:0')"
    text = tensor_text(one, dtype_name="float32", tangent_text="tensor([2.])")
    assert text == "tensor([1.], tangent=tensor([2.]))"


def test_infinite_linewidth_prints_rows_on_one_line():
    with printoptions(linewidth=math.inf):
        assert "\n" not in tensor_text(np.arange(500), dtype_name="int64")


def test_options_follow_torch():
    calls = [
        {"precision": 2, "sci_mode": True},
        {"threshold": 7},
        {"profile": "short", "linewidth": 100},
        {"profile": "full", "precision": 1},
        {},
        {"profile": "default"},
    ]
    try:
        for call in calls:
            torch.set_printoptions(**call)
            _printing.set_printoptions(**call)
            assert _printing.get_printoptions() == torch._tensor_str.get_printoptions()
    finally:
        torch.set_printoptions(profile="default")
        _printing.set_printoptions(profile="default")


def test_printoptions_restores_after_an_error():
    before = _printing.get_printoptions()
    with pytest.raises(KeyError), printoptions(precision=1, sci_mode=True):
        assert _printing.get_printoptions()["precision"] == 1
        raise KeyError
    assert _printing.get_printoptions() == before


@pytest.mark.parametrize("name", ["precision", "edgeitems"])
def test_negative_option_is_refused(name):
    with pytest.raises(ValueError, match=rf"{name}=-1"):
        _printing.set_printoptions(**{name: -1})


def test_unknown_profile_warns_and_changes_nothing():
    before = _printing.get_printoptions()
    with pytest.warns(UserWarning, match="default, short or full"):
        _printing.set_printoptions(profile="tiny")
    assert _printing.get_printoptions() == before


@pytest.mark.parametrize(
    ("value", "spec"),
    [(1.5, ".2f"), (3, "04d"), (True, "d"), (True, ""), (1 + 2j, ".1f"), (1.5, ""), (0.1, ""), (2.5, ">8")],
)
def test_scalar_formats_as_its_python_number(value, spec):
    t = torch.tensor(value)
    assert format_text(t.numpy(), spec, repr) == format(t, spec)


def test_bfloat16_scalar_formats_as_float():
    assert format_text(np.array(1.5, ml_dtypes.bfloat16), ".3f", repr) == "1.500"


def test_other_tensors_format_only_as_their_text():
    row = np.ones(2, np.float32)
    assert format_text(row, "", lambda: "the text") == "the text"
    for array, class_name in [(row, "Tensor"), (None, "Tensor"), (np.ones(()), "MyTensor")]:
        with pytest.raises(TypeError, match=f"unsupported format string passed to {class_name}.__format__"):
            format_text(array, ".2f", repr, class_name)
    with pytest.raises(ValueError, match="Unknown format code"):
        format_text(np.array(1.5), "d", repr)


def test_tensor_str_is_the_values_alone_and_options_are_read_from_it():
    import torch._tensor_str as theirs

    import flambeau
    from flambeau import _tensor_str as ours

    for values in ([[1.5, -2.0], [3.25, 1e-3]], [[1, 2], [3, 40]], [], 2.5, [True, False]):
        for indent in (0, 4):
            text = theirs._tensor_str(torch.tensor(values), indent)
            assert ours._tensor_str(flambeau.tensor(values), indent) == text
    assert ours.PRINT_OPTS.threshold == theirs.PRINT_OPTS.threshold == 1000
    with _printing.printoptions(threshold=5):
        assert ours.PRINT_OPTS.threshold == 5
        ours.PRINT_OPTS.precision = 2
        assert ours._tensor_str(flambeau.tensor([1.23456]), 0) == "[1.23]"
    with pytest.raises(AttributeError, match="no 'colour'"):
        ours.PRINT_OPTS.colour = 1
