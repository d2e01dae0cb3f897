"""What samples do not cover of the pointwise operators: fused derivatives, values at edges, names, errors, in-place."""

from __future__ import annotations

import math

import numpy as np
import pytest

import flambeau
import flambeau.nn.functional as F
from flambeau.core.objects import make
from flambeau.ops import ops
from flambeau.ops._pointwise import FUSED
from flambeau.ops._record import kernels

PARAMETERS = {      # of the fused derivatives that take more than (g, saved)
    "leaky_relu_backward": (0.2,), "elu_backward": (1.3, 1.1, 0.7), "softplus_backward": (2.0, 1.0),
    "hardtanh_backward": (-0.5, 0.8), "softshrink_backward": (0.4,), "hardshrink_backward": (0.4,),
    "threshold_backward": (0.3,), "clamp_backward": (-0.5, 0.8), "pow_backward": (3,), "logit_backward": (0.2,),
}


def _saved(name: str) -> tuple:
    rng = np.random.default_rng(1)
    a = rng.uniform(0.1, 0.9, (5, 7)) if name == "logit_backward" else rng.uniform(-2, 2, (5, 7))
    if name == "gelu_backward":
        return a, "tanh"
    if name == "glu_backward":
        return rng.uniform(-2, 2, (5, 14)), 1
    if name == "div_backward" or name == "sgn_backward":
        return a, rng.uniform(0.5, 2, (5, 7))
    if name == "prelu_backward":
        return a, rng.uniform(-1, 1, (7,))
    if name == "extremum_backward":
        return a > 0.5, np.abs(a) < 0.2
    return (a, *PARAMETERS.get(name, ()))


FAMILIES = ("arithmetic", "exponential", "trigonometric", "comparison", "clamping", "activations")
NAMES = sorted(n for n, f in FUSED.items() if f.__module__.rpartition(".")[2] in FAMILIES and n != "as_float")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", ["matrix", "0-d"])
def test_fused_derivative_equals_its_composition(name: str, shape: str) -> None:
    saved = _saved(name)
    g = np.random.default_rng(2).standard_normal((5, 7))
    if shape == "0-d":
        if name == "glu_backward":
            pytest.skip("glu has no 0-d form")
        g = np.asarray(g[1, 2])
        saved = tuple(np.asarray(s.ravel()[3]) if isinstance(s, np.ndarray) else s for s in saved)
    fused = getattr(kernels, name)(g, *saved)
    composed = getattr(ops, name)(make(g), *[make(s) if isinstance(s, np.ndarray) else s for s in saved])
    np.testing.assert_allclose(fused, composed._array, rtol=1e-12, atol=1e-14)


def test_gelu_backward_exact_equals_its_composition() -> None:
    g, a = np.ones((3, 4)), np.linspace(-3, 3, 12).reshape(3, 4)
    composed = ops.gelu_backward(make(g), make(a), "none")._array
    np.testing.assert_allclose(kernels.gelu_backward(g, a, "none"), composed, rtol=1e-12)


@pytest.mark.parametrize("make_out, node", [
    (lambda x: x ** 2, "PowBackward0"), (lambda x: 2 ** x, "PowBackward2"), (lambda x: x ** x, "PowBackward1"),
    (lambda x: 1 - x, "RsubBackward1"), (lambda x: 1 / x, "MulBackward0"), (lambda x: x % 2, "RemainderBackward0"),
    (lambda x: x % x, "RemainderBackward1"), (F.selu, "EluBackward0"), (F.celu, "CeluBackward0"),
    (F.relu6, "HardtanhBackward0"),
    (F.logsigmoid, "LogSigmoidBackward0"), (lambda x: x.clamp(0, 1), "ClampBackward1"),
    (lambda x: flambeau.square(x), "PowBackward0"), (lambda x: x.masked_fill(x > 0, 0), "MaskedFillBackward0"),
])
def test_graph_nodes_have_pytorch_names(make_out, node: str) -> None:
    x = flambeau.tensor([0.3, 0.7], requires_grad=True)
    assert type(make_out(x).grad_fn).__name__ == node


def test_relu_backward_is_zero_where_closed_even_for_infinite_gradients() -> None:
    x = flambeau.tensor([-1.0, 2.0], requires_grad=True)
    F.relu(x).backward(flambeau.tensor([math.inf, 3.0]))
    assert x.grad.tolist() == [0.0, 3.0]


@pytest.mark.parametrize("size", [10, 1000])
def test_selection_by_bits_equals_selection_by_where(size: int) -> None:
    from flambeau.kernels.pointwise import drop, keep

    rng = np.random.default_rng(3)
    for dtype in ("float16", "float32", "float64", "complex64", "int8", "int64"):
        a = (rng.standard_normal(size) * 9).astype(dtype)
        mask = rng.random(size) < 0.5
        assert (keep(a, mask) == np.where(mask, a, 0)).all() and keep(a, mask).dtype == a.dtype
        assert (drop(a, mask) == np.where(mask, 0, a)).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_products_use_the_number_unrounded_and_sums_rounded(dtype: str) -> None:
    d = getattr(flambeau, dtype)
    x = flambeau.tensor([1.5, 2.5, 3.0, 7.0, 0.3], dtype=d)
    wide = x._array.astype(np.float32)
    assert ((x * 2.1)._array == (wide * np.float32(2.1)).astype(x._array.dtype)).all()
    assert ((x / 2.1)._array == (wide / np.float32(2.1)).astype(x._array.dtype)).all()
    rounded = np.float32(np.asarray(2.1).astype(x._array.dtype))
    assert ((x + 2.1)._array == (wide + rounded).astype(x._array.dtype)).all()


def test_bfloat16_gradients_keep_their_dtype() -> None:
    x = flambeau.tensor([1.0, 2.0], dtype=flambeau.bfloat16, requires_grad=True)
    x.exp2().backward(flambeau.ones(2, dtype=flambeau.bfloat16))
    assert x.grad._array.dtype == x._array.dtype


def test_small_integers_are_divided_by_numbers_they_cannot_hold() -> None:
    assert (flambeau.tensor([128], dtype=flambeau.uint8) / 256).tolist() == [0.5]
    assert (flambeau.tensor([100], dtype=flambeau.uint8) / -1).tolist() == [-100.0]


def test_ties_of_maximum_share_the_gradient_and_fmax_prefers_the_first() -> None:
    a = flambeau.tensor([1.0, 2.0], requires_grad=True)
    b = flambeau.tensor([1.0, 1.0], requires_grad=True)
    flambeau.maximum(a, b).sum().backward()
    assert a.grad.tolist() == [0.5, 1.0] and b.grad.tolist() == [0.5, 0.0]
    assert flambeau.autograd.grad(flambeau.fmax(a, b).sum(), [a, b])[1].tolist() == [0.0, 0.0]


def test_powers_at_zero_have_pytorch_gradients() -> None:
    x = flambeau.tensor([0.0, 0.0], requires_grad=True)
    (x ** 0).sum().backward()
    assert x.grad.tolist() == [0.0, 0.0]
    e = flambeau.tensor([0.0, 2.0], requires_grad=True)
    flambeau.pow(0.0, e).sum().backward()
    assert e.grad.tolist() == [0.0, 0.0]


def test_gradient_passes_at_the_bounds_of_clamp_but_not_of_hardtanh() -> None:
    x = flambeau.tensor([-1.0, 1.0], requires_grad=True)
    assert flambeau.autograd.grad(x.clamp(-1, 1).sum(), x)[0].tolist() == [1.0, 1.0]
    assert flambeau.autograd.grad(F.hardtanh(x).sum(), x)[0].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("call, error, words", [
    (lambda: flambeau.tensor([2]) ** -1, RuntimeError, "negative integer powers"),
    (lambda: flambeau.tensor([2]) // 0, RuntimeError, "ZeroDivisionError"),
    (lambda: flambeau.tensor([2]) % 0, RuntimeError, "ZeroDivisionError"),
    (lambda: -flambeau.tensor([True]), RuntimeError, "Negation"),
    (lambda: flambeau.tensor([True]) - flambeau.tensor([True]), RuntimeError, "Subtraction"),
    (lambda: flambeau.tensor([True]) - 1, RuntimeError, "Subtraction"),
    (lambda: ~flambeau.tensor([1.0]), TypeError, "integer and boolean"),
    (lambda: flambeau.tensor([1.0]) & 1, NotImplementedError, "not implemented for"),
    (lambda: flambeau.tensor([1.0]) << 1, NotImplementedError, "lshift_cpu"),
    (lambda: F.gelu(flambeau.tensor([1])), NotImplementedError, "GeluKernelImpl"),
    (lambda: flambeau.relu(flambeau.tensor([True])), RuntimeError, "Boolean inputs"),
    (lambda: flambeau.maximum(flambeau.tensor([1.0]), 1), TypeError, "must be Tensor"),
    (lambda: flambeau.tensor([1.0]).clamp(), RuntimeError, "At least one of"),
    (lambda: flambeau.tensor([1]).div_(2), RuntimeError, "can't be cast"),
    (lambda: flambeau.zeros(3).fill_(flambeau.ones(3)), RuntimeError, "0-dimension"),
    (lambda: flambeau.where(flambeau.tensor([1.0]), 1, 2), RuntimeError, "boolean"),
    (lambda: F.gelu(flambeau.tensor([1.0]), "fast"), RuntimeError, "none or tanh"),
    (lambda: flambeau.tensor([1.0]) ** "2", TypeError, "unsupported operand"),
])
def test_wrong_calls_raise_pytorch_errors(call, error: type, words: str) -> None:
    with pytest.raises(error, match=words):
        call()


def test_in_place_operators_write_and_follow_the_gradient() -> None:
    x = flambeau.tensor([1.0, 4.0], requires_grad=True)
    y = x.clone()
    kept = y
    y *= 2
    y += 1
    y **= 2
    F.leaky_relu_(y)
    y.clamp_(max=20.0)
    assert y is kept and y.tolist() == [9.0, 20.0]
    y.sum().backward()
    assert x.grad.tolist() == [12.0, 0.0]
    i = flambeau.tensor([5, 6])
    i //= 2
    i <<= 1
    i |= 1
    i %= 4
    assert i.tolist() == [1, 3]


def test_real_and_imag_are_views_that_can_be_written() -> None:
    z = flambeau.tensor([1 + 2j, 3 + 4j])
    z.real.mul_(10)
    z.imag.zero_()
    assert z.tolist() == [10 + 0j, 30 + 0j]


def test_where_accepts_numbers_on_either_side() -> None:
    c = flambeau.tensor([True, False])
    assert flambeau.where(c, 1, 0).dtype == flambeau.int64
    assert flambeau.where(c, 1.0, 0).dtype == flambeau.float32
    assert flambeau.tensor([5, 6]).where(c, 0).tolist() == [5, 0]


def test_operators_leave_unknown_operands_to_them() -> None:
    class Other:
        def __rpow__(self, base):
            return "rpow"

        def __rmod__(self, left):
            return "rmod"

    x = flambeau.tensor([1.0])
    assert x ** Other() == "rpow" and x % Other() == "rmod"
    assert (x == None) is False  # noqa: E711
