"""Backward and grad: arguments, deep graphs, threads, backward inside backward, freeing."""

from __future__ import annotations

import sys
import threading
import weakref

import pytest

import flambeau
from flambeau._pure import is_compiled


@pytest.mark.usefixtures("no_collector")
def test_a_deep_chain_builds_differentiates_and_is_freed():
    # A million nodes take 10 s interpreted: there 20000 show the same absence of recursion.
    n = 1_000_000 if is_compiled() else 20_000
    assert sys.getrecursionlimit() < n
    x = flambeau.tensor([2.0], requires_grad=True)
    y = x
    for _ in range(n):
        y = y * 1.0
    end = weakref.ref(y)
    y.backward()
    assert x.grad.tolist() == [1.0] and end() is y
    del y
    y = x
    for _ in range(n):
        y = y * 1.0
    y.grad_fn.metadata["end"] = 1
    del y                       # freed without having been walked
    assert x.grad.tolist() == [1.0]


@pytest.mark.usefixtures("no_collector")
def test_a_deep_chain_of_looked_at_and_custom_nodes_is_freed():
    class Same(flambeau.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g

    x = flambeau.tensor([2.0], requires_grad=True)
    y = x
    for _ in range(20_000):
        y = Same.apply(y)
        y.grad_fn.name()
    y.backward()
    assert x.grad.tolist() == [1.0]
    del y
    y = x
    for _ in range(20_000):
        y = Same.apply(y)
    del y


def test_arguments_of_backward_and_grad(agree):
    agree(lambda T: (T.tensor([1.0, 2.0], requires_grad=True) * 2).backward(), "grad can be implicitly created only "
                                                                               "for scalar outputs")
    agree(lambda T: T.tensor([1.0]).backward(), "does not require grad")
    agree(lambda T: (T.tensor([1.0, 2.0], requires_grad=True) * 2).backward(T.tensor([1.0])), "Mismatch in shape")
    agree(lambda T: (T.tensor([1.0], requires_grad=True) * 2).backward(inputs=[]), "cannot be empty")
    agree(lambda T: T.autograd.grad(T.tensor([1.0], requires_grad=True) * 2, T.tensor([1.0])), "does not require grad")
    agree(lambda T: T.autograd.grad(T.tensor([1.0], requires_grad=True) * 2, T.tensor([1.0], requires_grad=True)),
          "appears to not have been used in the graph")

    def unused(T):
        x, y = T.tensor([1.0], requires_grad=True), T.tensor([1.0, 2.0], requires_grad=True)
        return [T.autograd.grad(x * 2, (x, y), allow_unused=True), T.autograd.grad(x * 2, (x, y), materialize_grads=True)]

    agree(unused)

    def mixed(T):
        x = T.tensor([1.0, 2.0], requires_grad=True)
        a, b = x * 2, (x * 3).sum()
        T.autograd.backward([a, b], [T.tensor([1.0, 10.0]), None])
        return x.grad

    agree(mixed)

    def batched(T):
        x = T.tensor([1.0, 2.0], requires_grad=True)
        rows = T.tensor([[1.0, 0.0], [0.0, 1.0], [2.0, 2.0]])
        return T.autograd.grad(x * x, x, rows, is_grads_batched=True)

    agree(batched)


def test_inputs_limit_what_is_accumulated(agree):
    def fn(T):
        x, w = T.tensor([2.0], requires_grad=True), T.tensor([3.0], requires_grad=True)
        y = x * w
        z = (y * y).sum()
        z.backward(inputs=[x, y])
        return x.grad, w.grad, y.grad

    agree(fn)


def test_backward_inside_a_hook_and_inside_a_function(agree):
    def hooked(T):
        x = T.tensor([2.0], requires_grad=True)
        inner = T.tensor([3.0], requires_grad=True)
        y = x * x
        y.register_hook(lambda g: _run(T, inner))
        (y * 2).sum().backward()
        return x.grad, inner.grad

    agree(hooked)

    def checkpointed(T):
        class Checkpoint(T.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * x * x

            @staticmethod
            def backward(ctx, g):
                x = ctx.saved_tensors[0].detach().requires_grad_()
                with T.enable_grad():
                    y = x * x * x
                T.autograd.backward(y, g)
                return x.grad

        x = T.tensor([2.0], requires_grad=True)
        y = x
        for _ in range(5):
            y = Checkpoint.apply(y) * 0.1
        y.sum().backward()
        return x.grad

    agree(checkpointed)


def _run(T, t):
    with T.enable_grad():
        (t * t).sum().backward()


def test_threads_share_a_graph(agree):
    def fn(T):
        x = T.tensor([1.0, 2.0], requires_grad=True)
        y = (x * x * 3).sum()
        errors = []

        def work():
            try:
                for _ in range(20):
                    y.backward(retain_graph=True)
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        return x.grad, len(errors)

    agree(fn)


def test_each_thread_its_own_graph(agree):
    def fn(T):
        w = T.tensor([2.0], requires_grad=True)
        found = {}

        def work(k):
            x = T.tensor([float(k)], requires_grad=True)
            for _ in range(20):
                (x * w).sum().backward()
            found[k] = x.grad.tolist()

        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        return [found[k] for k in range(4)], w.grad

    agree(fn)


def test_gradients_for_several_outputs_of_one_node(agree):
    def fn(T):
        x = T.tensor([1.0, 2.0, 3.0], requires_grad=True)
        a, b, c = x.unbind()
        p, q = (x * 1).split([1, 2])
        (a * b * 10 + c * c).backward()
        (p * 3).sum().backward()
        (q * q).sum().backward()
        return x.grad

    agree(fn)


def test_queued_callbacks_run_once_at_the_end():
    T = flambeau
    engine = T.autograd.Variable._execution_engine
    log = []
    x = T.tensor([1.0], requires_grad=True)
    y = x * 2
    y.register_hook(lambda g: engine.queue_callback(lambda: log.append(x.grad.tolist())))
    y.sum().backward()
    assert log == [[2.0]]
    with pytest.raises(RuntimeError, match="during backward pass"):
        engine.queue_callback(print)


def test_error_in_a_hook_leaves_the_engine_usable(agree):
    def fn(T):
        x = T.tensor([1.0], requires_grad=True)
        y = x * 2
        h = y.register_hook(lambda g: 1 / 0)
        try:
            y.sum().backward(retain_graph=True)
        except ZeroDivisionError:
            pass
        h.remove()
        seen = T.is_grad_enabled()
        y.sum().backward()
        return x.grad, seen

    agree(fn)
