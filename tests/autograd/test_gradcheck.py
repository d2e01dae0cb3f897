"""gradcheck and gradgradcheck: pass what is right, catch what is wrong, and say what is wrong."""

from __future__ import annotations

import importlib
import warnings

import pytest

import flambeau as T
from flambeau.autograd import gradcheck, gradgradcheck

GradcheckError = importlib.import_module("flambeau.autograd.gradcheck").GradcheckError


def double(values, dtype=T.float64):
    return T.tensor(values, dtype=dtype, requires_grad=True)


def scaled(factor):
    """x * x with a backward that is off by `factor`."""

    class Square(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return g * 2 * ctx.saved_tensors[0] * factor

        @staticmethod
        def jvp(ctx, t):
            return t * 2 * factor

    return Square.apply


@pytest.mark.parametrize("fast", [False, True])
def test_right_functions_pass(fast):
    x, y = double([[1.0, -2.0], [0.5, 3.0]]), double([2.0, 0.3])
    f = lambda x, y: (x * y, (x / y).sum(0))  # noqa: E731
    assert gradcheck(f, (x, y), fast_mode=fast, check_forward_ad=True)
    assert gradgradcheck(f, (x, y), fast_mode=fast, check_fwd_over_rev=True)


@pytest.mark.parametrize("fast", [False, True])
def test_complex_functions_pass(fast):
    z, r = double([1 + 2j, -0.5j], T.complex128), double([2.0, 3.0])
    f = lambda z, r: z * z * r  # noqa: E731
    assert gradcheck(f, (z, r), fast_mode=fast, check_forward_ad=True)
    assert gradgradcheck(f, (z, r), fast_mode=fast)


@pytest.mark.parametrize("fast", [False, True])
def test_a_wrong_factor_is_named(fast):
    x = double([1.0, -2.0, 3.0])
    assert not gradcheck(scaled(0.5), x, raise_exception=False, fast_mode=fast)
    with pytest.raises(GradcheckError, match="Jacobian mismatch for output 0 with respect to input 0") as error:
        gradcheck(scaled(0.5), x, fast_mode=fast)
    text = str(error.value)
    for words in ("numerical", "analytical", "output 0 [2] / d input 0 [2] is 6 by differences and 3 by the formula",
                  "0.5 times the true one everywhere", "a factor of 2 is missing"):
        assert words in text, text


def test_wrong_sign_and_lost_gradient_are_named():
    with pytest.raises(GradcheckError, match="sign is wrong everywhere"):
        gradcheck(scaled(-1.0), double([1.0, 2.0]))
    with pytest.raises(GradcheckError, match="gives zero everywhere"):
        gradcheck(scaled(0.0), double([1.0, 2.0]))


def test_a_small_error_is_caught():
    with pytest.raises(GradcheckError, match="1.01 times"):
        gradcheck(scaled(1.01), double([1.0, 2.0]))
    assert gradcheck(scaled(1.00001), double([1.0, 2.0]))


def test_forward_mode_is_checked_apart():
    x = double([1.0, 3.0])
    assert gradcheck(scaled(1.0), x)
    with pytest.raises(GradcheckError, match="Jacobian computed with forward mode mismatch"):
        gradcheck(scaled(1.0), x, check_forward_ad=True, check_backward_ad=False)


def test_second_derivative_is_checked():
    class Cheat(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return g * 2 * ctx.saved_tensors[0].detach()

    x = double([1.0, 2.0])
    assert gradcheck(Cheat.apply, x)
    with pytest.raises(GradcheckError, match="Jacobian mismatch"):
        gradgradcheck(Cheat.apply, x)


def test_backward_that_ignores_its_gradient_is_caught():
    class Ones(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g * 0 + 1

    with pytest.raises(GradcheckError, match="backward not multiplied by grad_output|Jacobian mismatch"):
        gradcheck(Ones.apply, double([2.0]))


def test_backward_that_changes_is_not_reentrant():
    class Wobbles(T.autograd.Function):
        calls = 0

        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            Wobbles.calls += 1
            return g * (1 + 1e-7 * Wobbles.calls)

    with pytest.raises(GradcheckError, match="not reentrant"):
        gradcheck(Wobbles.apply, double([2.0]))
    assert gradcheck(Wobbles.apply, double([2.0]), nondet_tol=1e-3)


def test_undefined_gradients_must_be_handled():
    class Two(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, a, b):
            return a * 2 + b * 3

    with pytest.raises(TypeError, match="NoneType"):
        gradcheck(Two.apply, double([2.0]))


def test_a_cut_graph_is_caught():
    with pytest.raises(GradcheckError, match="expected to be zero"):
        gradcheck(lambda x: x.detach() * 2, double([2.0]))
    assert gradcheck(lambda x: T.tensor([1.0], dtype=T.float64), double([2.0]))


def test_single_precision_input_is_named():
    x, y = double([1.0]), T.tensor([2.0], requires_grad=True)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        gradcheck(lambda x, y: x * y, (x, y), raise_exception=False)
    assert any("Input #1" in str(w.message) and "double precision" in str(w.message) for w in seen)


def test_inputs_are_checked():
    with pytest.raises(ValueError, match="at least one input tensor to require gradient"):
        gradcheck(lambda x: x, T.tensor([1.0]))
    wide = double([1.0]).expand(3)
    with pytest.raises(RuntimeError, match="The 0th input has a dimension with stride 0"):
        gradcheck(lambda x: x * 2, wide)


def test_inputs_are_left_as_they_were():
    x = double([[1.0, 2.0], [3.0, 4.0]])
    before = x.tolist()
    gradcheck(lambda x: x * x, x)
    assert x.tolist() == before and x.grad is None and x._version == 0
