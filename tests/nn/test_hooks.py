"""Hooks of modules: what they are given, in which order, what they may replace."""

from __future__ import annotations

import gc
import weakref

import pytest
from module_nets import make_net

import flambeau
from flambeau import nn


def test_order_and_arguments_of_all_hooks(both):
    def run(lib):
        log = []

        def note(name):
            return lambda *a: log.append([name, *(type(v).__name__ for v in a)]) and None

        net = make_net(lib)
        whole = lib.nn.modules.module
        handles = [
            net.register_forward_pre_hook(note("pre")),
            net.register_forward_pre_hook(note("pre kwargs"), with_kwargs=True, prepend=True),
            net.register_forward_hook(note("forward")),
            net.register_forward_hook(note("forward kwargs"), with_kwargs=True),
            net.register_full_backward_hook(note("backward")),
            net.register_full_backward_pre_hook(note("backward pre")),
            net.first.register_full_backward_hook(note("first backward")),
            net.first.register_full_backward_pre_hook(note("first backward pre")),
            net.rest[1].register_full_backward_hook(note("tanh backward")),
            whole.register_module_forward_hook(note("any forward")),
            whole.register_module_forward_pre_hook(note("any pre")),
            whole.register_module_full_backward_hook(note("any backward")),
        ]
        x = lib.ones(2, 2, requires_grad=True)
        net(x, times=2).sum().backward()
        for handle in handles:
            handle.remove()
        n = len(log)
        net(x).sum().backward()
        return [log, n == len(log), x.grad]

    both(run)


def with_hook(register):
    def run(lib):
        net = make_net(lib)
        x = lib.tensor([[1.0, 2.0]], requires_grad=True)
        seen = []
        register(net, seen)
        out = net(x)
        out.sum().backward()
        return [out, x.grad, seen]

    return run


CASES = {
    "pre replaces input": lambda net, seen: net.register_forward_pre_hook(lambda m, a: (a[0] * 0,)),
    "pre replaces single": lambda net, seen: net.register_forward_pre_hook(lambda m, a: a[0] * 3),
    "pre with kwargs": lambda net, seen: net.register_forward_pre_hook(
        lambda m, a, k: (a, {"times": 3}), with_kwargs=True),
    "pre with kwargs, wrong": lambda net, seen: net.register_forward_pre_hook(
        lambda m, a, k: 3, with_kwargs=True),
    "forward replaces output": lambda net, seen: net.register_forward_hook(lambda m, a, out: out * 2),
    "forward with kwargs": lambda net, seen: net.register_forward_hook(
        lambda m, a, k, out: seen.append(list(k)), with_kwargs=True),
    "backward sees": lambda net, seen: net.first.register_full_backward_hook(
        lambda m, gi, go: seen.append([list(gi), list(go)])),
    "backward replaces": lambda net, seen: net.first.register_full_backward_hook(
        lambda m, gi, go: (gi[0] * 2,)),
    "backward replaces, wrong number": lambda net, seen: net.first.register_full_backward_hook(
        lambda m, gi, go: (1, 2)),
    "backward pre replaces": lambda net, seen: net.first.register_full_backward_pre_hook(
        lambda m, go: (go[0] * 0,)),
    "old backward": lambda net, seen: net.first.register_backward_hook(
        lambda m, gi, go: seen.append([len(gi), len(go)])),
    "old and full": lambda net, seen: (net.register_backward_hook(print),
                                       net.register_full_backward_hook(print)),
}


@pytest.mark.parametrize("name", CASES)
def test_hook_effects(both, name):
    both(with_hook(CASES[name]))


def test_backward_hook_without_differentiable_input(both):
    def run(lib):
        net = make_net(lib)
        seen = []
        net.first.register_full_backward_hook(lambda m, gi, go: seen.append([list(gi), list(go)]))
        net(lib.tensor([[1.0, 2.0]])).sum().backward()
        return seen

    both(run)


def test_backward_hook_of_several_inputs_and_outputs(both):
    def run(lib):
        class Several(lib.nn.Module):
            def forward(self, x, y, word):
                return x * y, word, x + 1

        seen = []
        module = Several()
        module.register_full_backward_hook(lambda m, gi, go: seen.append([list(gi), list(go)]))
        x, y = lib.ones(2, requires_grad=True), lib.ones(2)
        a, word, b = module(x, y, "s")
        (a.sum() + b.sum()).backward()
        module(x, y, "s")[2].sum().backward()
        return [word, seen, x.grad]

    both(run)


def test_forward_hook_always_called(both):
    def run(lib):
        net = make_net(lib)
        seen = []
        net.register_forward_hook(lambda m, a, out: seen.append(out), always_call=True)
        try:
            net(lib.ones(1, 5))
        except RuntimeError:
            seen.append("raised")
        return seen

    both(run)


def test_inplace_after_backward_hook_says_clone():
    net = nn.Sequential(nn.Linear(3, 3), nn.ReLU(inplace=True))
    net[1].register_full_backward_hook(lambda m, gi, go: None)
    with pytest.raises(RuntimeError, match="inplace.*clon|clon.*inplace"):
        net(flambeau.ones(2, 3)).sum().backward()


def test_old_hook_warns_when_it_sees_only_the_last_operator():
    layer = nn.Linear(2, 2)
    layer.register_backward_hook(lambda m, gi, go: None)
    with pytest.warns(FutureWarning, match="non-full backward hook"):
        layer(flambeau.ones(1, 2))


def test_hooks_with_create_graph_leave_no_graph_alive():
    layer = nn.Linear(3, 1)
    layer.register_full_backward_hook(lambda m, gi, go: None)
    x = flambeau.ones(2, 3, requires_grad=True)
    out = layer(x).exp().sum()
    out.backward(create_graph=True)
    alive = weakref.ref(out)
    x.grad = None
    layer.zero_grad()
    del out
    gc.collect()
    assert alive() is None
