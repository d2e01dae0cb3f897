"""Hooks that see what modules register, modules compiled in place, and when full backward hooks warn."""

from __future__ import annotations

import copy
import pickle
import warnings

import pytest

import flambeau
from flambeau import nn


def logged(lib, replace):
    """What the three hooks see while a small model is built and changed."""
    whole = lib.nn.modules.module
    log = []

    def hook(kind):
        def seen(module, name, value):
            log.append([kind, type(module).__name__, name, type(value).__name__])
            return replace(lib, kind, value)

        return seen

    handles = [getattr(whole, f"register_module_{kind}_registration_hook")(hook(kind))
               for kind in ("parameter", "buffer", "module")]
    try:
        net = lib.nn.Sequential(lib.nn.Linear(2, 3), lib.nn.BatchNorm1d(3, affine=False))
        net.extra = lib.nn.Parameter(lib.ones(2))
        net.extra = None
        net.register_parameter("none", None)
        net.register_buffer("kept", lib.ones(1))
        net.kept = lib.zeros(2)
        net.kept = None
        net.loose = lib.nn.Buffer(lib.ones(1), persistent=False)
        net.loose = lib.zeros(3)
        net.add_module("child", lib.nn.Tanh())
        net.child = None
        net.child = lib.nn.ReLU()
        net.append(lib.nn.Identity())
    finally:
        for handle in handles:
            handle.remove()
    n = len(log)
    net.late = lib.nn.Linear(1, 1)
    return net, log, n


def test_registration_hooks_see_what_is_registered(both):
    def run(lib):
        net, log, n = logged(lib, lambda *a: None)
        return [log, n == len(log), sorted(net.state_dict()), [name for name, _ in net.named_buffers()]]

    both(run)


def test_registration_hooks_replace(both):
    def replace(lib, kind, value):
        if kind == "parameter":
            return lib.nn.Parameter(lib.full_like(value.detach(), 2.0))
        if kind == "buffer" and value is not None and value.dtype == lib.float32:
            return value + 1
        if kind == "module" and type(value).__name__ == "Tanh":
            return lib.nn.Sigmoid()
        return None

    def run(lib):
        net, _, _ = logged(lib, replace)
        return [str(net), {k: v for k, v in net.state_dict().items() if "late" not in k}, list(net.named_buffers())]

    both(run)


def test_hooks_of_one_kind_run_in_order_each_on_the_last_answer(both):
    def run(lib):
        register = lib.nn.modules.module.register_module_buffer_registration_hook
        handles = [register(lambda m, n, t: t * 2), register(lambda m, n, t: None), register(lambda m, n, t: t + 1)]
        module = lib.nn.Module()
        module.register_buffer("b", lib.ones(1))
        for handle in handles:
            handle.remove()
        return module.b

    both(run)


def test_assigning_a_buffer_to_a_subclass_with_an_old_register_buffer():
    class Old(nn.Module):
        def register_buffer(self, name, tensor):
            super().register_buffer(name, tensor)

    module = Old()
    module.b = nn.Buffer(flambeau.ones(1))
    assert module.b.tolist() == [1.0]
    with pytest.raises(RuntimeError, match="register_buffer.*persistent argument"):
        module.c = nn.Buffer(flambeau.ones(1), persistent=False)


def test_module_compile_keeps_names_hooks_and_results(both):
    def run(lib):
        net = lib.nn.Sequential(lib.nn.Linear(2, 2), lib.nn.Tanh())
        x = lib.ones(1, 2)
        before = net(x)
        seen = []
        net.register_forward_hook(lambda m, args, out: seen.append(type(m).__name__))
        net.compile(backend="eager")
        return [lib.equal(net(x), before), seen, list(net.state_dict()), type(net).__name__,
                type(copy.deepcopy(net)).__name__, lib.equal(copy.deepcopy(net)(x), before)]

    both(run)


def test_a_compiled_module_is_pickled_without_what_compile_made():
    net = nn.Linear(2, 2)
    net.compile(disable=True)
    assert "_compiled_call_impl" in net.__dict__
    again = pickle.loads(pickle.dumps(net))
    assert "_compiled_call_impl" not in again.__dict__
    assert flambeau.equal(again(flambeau.ones(1, 2)), net(flambeau.ones(1, 2)))


def test_full_backward_hook_warns_when_no_input_requires_grad(both):
    def run(lib):
        net = lib.nn.Linear(2, 2)
        seen = []
        net.register_full_backward_hook(lambda m, gi, go: seen.append([gi, go[0].tolist()]))
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            net(lib.ones(1, 2)).sum().backward()
            n = len(warned)
            net(lib.ones(1, 2, requires_grad=True)).sum().backward()
        return [seen, n, len(warned), "Full backward hook is firing" in str(warned[0].message)]

    both(run)


def test_unused_outputs_have_no_gradient_in_full_backward_hooks(both):
    class Two:
        def __new__(cls, lib):
            class Net(lib.nn.Module):
                def __init__(self):
                    super().__init__()
                    self.used, self.unused = lib.nn.Parameter(lib.ones(2)), lib.nn.Parameter(lib.ones(2))

                def forward(self, x):
                    return x * self.used, x * self.unused

            return Net()

    def run(lib):
        net, seen = Two(lib), []
        net.register_full_backward_pre_hook(lambda m, go: seen.append([None if g is None else g.tolist() for g in go]))
        net.register_full_backward_hook(lambda m, gi, go: seen.append([gi[0].tolist(), go[1] is None]))
        x = lib.ones(2, requires_grad=True)
        net(x)[0].sum().backward()
        return [seen, net.unused.grad, net.used.grad, x.grad]

    both(run)


def test_old_and_full_hooks_of_one_node_run_in_pytorchs_order(both):
    def run(lib):
        whole = lib.nn.modules.module
        log = []
        net = lib.nn.Sequential(lib.nn.Linear(2, 2), lib.nn.Tanh())
        handles = [whole.register_module_full_backward_pre_hook(lambda m, go: log.append(["pre", type(m).__name__]))]
        net[1].register_backward_hook(lambda m, gi, go: log.append(["old", type(m).__name__]))
        net[0].register_full_backward_hook(lambda m, gi, go: log.append(["full", type(m).__name__]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            net(lib.ones(1, 2, requires_grad=True)).sum().backward()
        for handle in handles:
            handle.remove()
        return log

    both(run)
