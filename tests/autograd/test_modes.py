"""Grad modes, inference mode and anomaly mode against torch."""

from __future__ import annotations

import threading
import warnings

import pytest
import torch

import flambeau


def test_set_grad_enabled_as_function_block_and_decorator(agree):
    def fn(T):
        seen = [T.is_grad_enabled()]
        T.set_grad_enabled(False)
        seen.append(T.is_grad_enabled())
        with T.set_grad_enabled(True):
            seen.append(T.is_grad_enabled())
        seen.append(T.is_grad_enabled())
        T.set_grad_enabled(True)

        @T.set_grad_enabled(False)
        def inside():
            return T.is_grad_enabled()

        seen += [T.is_grad_enabled(), inside(), T.is_grad_enabled()]
        return seen

    agree(fn)


def test_decorators_nest_and_restore_on_errors(agree):
    def fn(T):
        @T.no_grad()
        def f(fail):
            if fail:
                raise KeyError
            return T.is_grad_enabled()

        @T.no_grad
        def bare():
            return T.is_grad_enabled()

        @T.enable_grad()
        def g():
            return T.is_grad_enabled()

        with T.no_grad():
            inner = g()
        try:
            f(True)
        except KeyError:
            pass
        return f(False), bare(), inner, T.is_grad_enabled()

    agree(fn)


def test_generators_hold_the_mode_only_while_they_run(agree):
    def fn(T):
        log = []

        @T.no_grad()
        def numbers():
            try:
                for i in range(3):
                    got = yield i, T.is_grad_enabled()
                    log.append(got)
            finally:
                log.append(("closed", T.is_grad_enabled()))
            return "end"

        g = numbers()
        log += [next(g), T.is_grad_enabled(), g.send("x"), T.is_grad_enabled()]
        g.close()
        log.append(T.is_grad_enabled())
        return log

    agree(fn)


def test_inference_mode_rules(agree):
    def flags(T):
        x = T.tensor([1.0, 2.0], requires_grad=True)
        with T.inference_mode():
            y = x * 2
            z = T.tensor([1.0])
            seen = [y.is_inference(), z.is_inference(), y.requires_grad, T.is_inference_mode_enabled(), T.is_grad_enabled()]
            with T.inference_mode(False):
                seen += [T.is_inference_mode_enabled(), (x * 2).requires_grad]
            y.add_(1)

        @T.inference_mode()
        def f():
            return T.is_inference_mode_enabled()

        @T.inference_mode
        def g():
            return T.is_inference_mode_enabled()

        return seen, y, (y + 1).is_inference(), y.clone().is_inference(), f(), g(), T.is_inference_mode_enabled()

    agree(flags)

    def made(T):
        with T.inference_mode():
            return T.tensor([1.0, 2.0])

    agree(lambda T: T.tensor([1.0], requires_grad=True) * made(T), "Inference tensors cannot be saved for backward")
    agree(lambda T: made(T).add_(1), "Inplace update to inference tensor outside InferenceMode")
    agree(lambda T: made(T)._version, "Inference tensors do not track version counter")
    agree(lambda T: made(T).requires_grad_(), "inference tensor")
    agree(lambda T: [(T.tensor([1.0], requires_grad=True) + made(T)).requires_grad, made(T).detach().is_inference()])


def test_modes_are_per_thread(agree):
    def fn(T):
        seen = {}
        inside, leave = threading.Event(), threading.Event()

        def other():
            with T.no_grad():
                seen["before"] = T.is_grad_enabled()
                inside.set()
                leave.wait(5)
                seen["after"] = T.is_grad_enabled()

        thread = threading.Thread(target=other)
        thread.start()
        inside.wait(5)
        seen["main"] = T.is_grad_enabled()
        x = T.tensor([1.0], requires_grad=True)
        seen["records"] = (x * 2).requires_grad
        leave.set()
        thread.join()
        return seen

    agree(fn)


def test_anomaly_mode_names_function_and_line():
    T = flambeau

    class Bad(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g * float("nan")

    x = T.tensor([1.0, 2.0], requires_grad=True)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with pytest.raises(RuntimeError, match="Function 'BadBackward' returned nan values in its 0th output") as error:
            with T.autograd.detect_anomaly():
                y = Bad.apply(x)  # forward line
                y.sum().backward()
    assert "y = Bad.apply(x)  # forward line" in str(error.value)
    texts = [str(w.message) for w in seen]
    assert any("Anomaly Detection has been enabled" in t for t in texts)
    assert any("Error detected in BadBackward. Traceback of forward call" in t and "Bad.apply(x)" in t for t in texts)
    assert not T.is_anomaly_enabled()


def test_anomaly_mode_on_operators_and_without_nan_check(agree):
    def failing(T):
        x = T.tensor([0.0], requires_grad=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with T.autograd.detect_anomaly():
                ((x / x) * 1).sum().backward()

    agree(failing, "Function 'DivBackward0' returned nan values in its 1th output")

    def quiet(T):
        x = T.tensor([0.0], requires_grad=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with T.autograd.detect_anomaly(check_nan=False):
                on = T.is_anomaly_enabled()
                (x / x).sum().backward()
        return on, T.is_anomaly_enabled(), x.grad

    agree(quiet)


def test_set_detect_anomaly(agree):
    def fn(T):
        T.autograd.set_detect_anomaly(True)
        seen = [T.is_anomaly_enabled()]
        with T.autograd.set_detect_anomaly(False):
            seen.append(T.is_anomaly_enabled())
        seen.append(T.is_anomaly_enabled())
        T.autograd.set_detect_anomaly(False)
        return [*seen, T.is_anomaly_enabled()]

    agree(fn)


def test_grad_mode_module_paths(agree):
    def fn(T):
        from importlib import import_module

        found = []
        for name in ("grad_mode", "graph", "function", "functional", "forward_ad", "gradcheck", "anomaly_mode", "variable"):
            module = import_module(f"{T.__name__}.autograd.{name}")
            found.append(module.__name__.split(".", 1)[1])
        with T.autograd.grad_mode.set_multithreading_enabled(False):
            found.append(T.autograd.is_multithreading_enabled())
        v = T.autograd.Variable(T.tensor([1.0]), requires_grad=True)
        return found, isinstance(v, T.autograd.Variable), v.requires_grad

    agree(fn)


def test_data_of_an_inference_tensor_is_one():
    for library in (flambeau, torch):
        with library.inference_mode():
            made = library.ones(2)
        assert made.data.is_inference()
        ordinary = library.ones(2)
        with library.inference_mode():
            assert not ordinary.data.is_inference()
