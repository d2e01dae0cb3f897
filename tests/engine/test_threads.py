"""Threads: one graph and many, modes of each thread, NumPy's error state in threads, hooks and after errors."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import flambeau as torch


@pytest.fixture
def restless() -> Iterator[None]:
    old = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(old)


def run_all(*works: Callable[[], None]) -> None:
    errors: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(w,)) for w in works]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise errors[0]


def test_many_threads_share_one_graph_and_its_leaf(restless: None) -> None:
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    h = x
    for _ in range(30):
        h = (h * 1.01).sin()
    loss = h.sum()
    (expected,) = torch.autograd.grad(loss, x, retain_graph=True)

    def ask() -> None:
        for _ in range(100):
            (g,) = torch.autograd.grad(loss, x, retain_graph=True)
            assert torch.equal(g, expected)

    def add() -> None:
        for _ in range(100):
            loss.backward(retain_graph=True)

    run_all(ask, ask, add, add)
    torch.testing.assert_close(x.grad, expected * 200, rtol=1e-4, atol=1e-5)


def test_threads_build_their_own_graphs(restless: None) -> None:
    def build() -> None:
        for _ in range(100):
            x = torch.tensor([0.5, 1.0], requires_grad=True)
            y = x
            for _ in range(5):
                y = (y * 2.0).sin() + x / 1.5
            y[0:1].mul_(3)
            y.sum().backward()
            first = x.grad.clone()
            x.grad = None
            del y
            z = x
            for _ in range(5):
                z = (z * 2.0).sin() + x / 1.5
            z[0:1].mul_(3)
            z.sum().backward()
            assert torch.equal(first, x.grad)

    run_all(build, build, build)


def test_modes_belong_to_a_thread(restless: None) -> None:
    x = torch.ones(2, requires_grad=True)

    def modes() -> None:
        for _ in range(300):
            with torch.no_grad():
                assert not (x * 2).requires_grad
                with torch.enable_grad():
                    assert (x * 2).requires_grad
            with torch.inference_mode():
                assert (x * 2).is_inference()
            assert (x * 2).requires_grad

    def plain() -> None:
        for _ in range(1_000):
            assert torch.is_grad_enabled()
            assert (x * 2).requires_grad

    run_all(modes, modes, plain)
    assert torch.is_grad_enabled()


def divides_loudly() -> bool:
    """Whether NumPy raises on a division by zero here and now."""
    try:
        np.array([1.0]) / np.array([0.0])
    except FloatingPointError:
        return True
    return False


def test_numpys_error_state_is_the_users(restless: None) -> None:
    def check() -> None:
        with np.errstate(all="raise"):
            for _ in range(100):
                seen = []
                x = torch.tensor([0.0, 1.0], requires_grad=True)
                y = x / 0.0
                y.register_hook(lambda g, seen=seen: seen.append(divides_loudly()))
                (y.exp() * 1e300).sum().backward()
                assert seen == [True]
                assert divides_loudly()
                with pytest.raises(RuntimeError):
                    x @ torch.ones(3, 3)
                assert divides_loudly()

    run_all(check, check)


def test_numpys_error_state_survives_generators_and_failing_hooks() -> None:
    def produce() -> Iterator[torch.Tensor]:
        x = torch.tensor([0.0], requires_grad=True)
        while True:
            yield x / 0.0

    with np.errstate(all="raise"):
        values = produce()
        y = next(values)
        assert divides_loudly()
        next(values)

        def fail(g: torch.Tensor) -> None:
            assert divides_loudly()
            raise KeyError("mine")

        y.register_hook(fail)
        with pytest.raises(KeyError):
            y.sum().backward()
        assert divides_loudly()
    assert np.geterr()["divide"] == "warn"


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64", "int32", "uint8"])
def test_kernels_are_quiet_about_extreme_values(dtype: str) -> None:
    d = getattr(torch, dtype)
    if d.is_floating_point or d.is_complex:
        x = torch.tensor([0.0, -1.0, float("inf"), float("-inf"), float("nan"), 1e30, -0.0]).to(d)
    else:
        x = torch.tensor([0, 1, 100, 127, 2, 3, 5]).to(d)
    y = x.flip(0)
    with np.errstate(all="raise"):
        for name in (
            "exp",
            "log",
            "sqrt",
            "rsqrt",
            "reciprocal",
            "sin",
            "tan",
            "sigmoid",
            "tanh",
            "square",
            "log1p",
            "expm1",
            "sinh",
            "acos",
            "atan",
            "neg",
            "sum",
            "mean",
            "std",
            "prod",
            "cumsum",
            "softmax",
            "logsumexp",
            "abs",
            "sign",
            "digamma",
            "lgamma",
            "erfinv",
            "sort",
            "double",
            "half",
            "bfloat16",
            "long",
            "int",
            "short",
            "byte",
            "char",
            "bool",
        ):
            fn = getattr(x, name)
            # not implemented for the dtype, or imaginary parts dropped; a loud kernel raises another error
            with contextlib.suppress(RuntimeError, TypeError, UserWarning):
                fn(0) if name in ("cumsum", "softmax", "logsumexp") else fn()
        for name in ("add", "sub", "mul", "div", "pow", "fmod", "remainder", "floor_divide", "atan2", "maximum", "hypot"):
            with contextlib.suppress(RuntimeError):
                getattr(x, name)(y)
