"""Graphs are freed by reference counting, at once, with the cycle collector off."""

from __future__ import annotations

import gc
import tracemalloc
import weakref
from collections.abc import Callable

import pytest
from tests.differential.custom import functions

import flambeau as torch
from flambeau import nn


def leaf() -> torch.Tensor:
    return torch.ones(3, requires_grad=True)


def plain(watch: Callable) -> None:
    y = watch(leaf()).exp()
    watch((y * y).sum()).backward()


def written_over_saved_values(watch: Callable) -> None:
    y = watch(leaf() * 1.0)
    z = watch(y.exp())
    y.mul_(z)
    z.add_(1)
    watch(y).sum()


def output_saved_then_overwritten(watch: Callable) -> None:
    y = watch(leaf().tanh())
    y.exp_()
    watch(y.sum())


def views_rebased(watch: Callable) -> None:
    y = watch(leaf() * 1.0)
    v, w = watch(y[1:]), watch(y.view(3, 1))
    v.mul_(2)
    w.exp_()
    watch(v + 1).sum().backward()


def view_written_with_itself(watch: Callable) -> None:
    y = watch(torch.zeros(2, 3))
    watch(y[0]).copy_(leaf())
    watch(y[1]).mul_(y[0])
    assert y.grad_fn is not None


def created_graph(watch: Callable) -> None:
    x = watch(leaf())
    y = watch((x * x).tanh())
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    watch(g)
    (h,) = torch.autograd.grad(g.sum(), x, create_graph=True)
    watch(h)


def custom_function(watch: Callable) -> None:
    made = functions(torch)
    y = watch(made["f_square"](watch(leaf()), None))
    watch(made["f_dirty"](y * 1.0, None)).sum().backward()


def hooks(watch: Callable) -> None:
    x = watch(leaf())
    x.register_hook(lambda g: g * 2)
    y = watch(x * 2)
    y.register_hook(lambda g: None)
    y.grad_fn.register_hook(lambda gi, go: None)
    x.register_post_accumulate_grad_hook(lambda p: None)
    y.retain_grad()
    y.sum().backward()


def retained_and_kept(watch: Callable) -> None:
    y = watch(leaf() * 2)
    y.retain_grad()
    y.sum().backward(retain_graph=True)
    watch(y.grad)


def failing_forward(watch: Callable) -> None:
    y = watch(leaf() * 2)
    with pytest.raises(RuntimeError):
        y @ torch.ones(5)


def failing_backward(watch: Callable) -> None:
    y = watch(leaf() * 2)
    z = watch(y.exp())
    z.mul_(2)
    with pytest.raises(RuntimeError):
        z.sum().backward()


def failing_hook(watch: Callable) -> None:
    y = watch(leaf() * 2)

    def fail(g: torch.Tensor) -> None:
        raise ValueError("no more")

    y.register_hook(fail)
    with pytest.raises(ValueError):
        y.sum().backward()


def module(watch: Callable) -> None:
    net = watch(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)))
    net[0].register_forward_hook(lambda m, i, o: None)
    net[2].register_full_backward_hook(lambda m, gi, go: None)
    watch(net(torch.ones(2, 3))).sum().backward()


def saved_hooks(watch: Callable) -> None:
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t):
        y = watch(leaf().exp())
    watch(y.sum())


def split_views(watch: Callable) -> None:
    y = watch(leaf() * 1.0)
    for part in y.unbind():
        watch(part)
    y.exp_()
    watch(y.sum())


@pytest.mark.parametrize("build", [
    plain, written_over_saved_values, output_saved_then_overwritten, views_rebased, view_written_with_itself, created_graph,
    custom_function, hooks, retained_and_kept, failing_forward, failing_backward, failing_hook, module, saved_hooks,
    split_views], ids=lambda f: f.__name__)
def test_a_graph_is_freed_without_the_collector(build: Callable) -> None:
    alive: list[weakref.ref] = []

    def watch(t):
        alive.append(weakref.ref(t))
        return t

    build(lambda t: t)          # what is imported and cached at first use is no leak
    gc.collect()
    gc.disable()
    try:
        build(watch)
        left = [r() for r in alive if r() is not None]
        assert not left, f"{len(left)} of {len(alive)} objects of {build.__name__} are alive"
    finally:
        gc.enable()


def test_memory_stays_flat_over_many_steps() -> None:
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    net[0].register_forward_hook(lambda m, i, o: None)
    for p in net.parameters():
        p.register_hook(lambda g: g * 1.0)
    x = torch.ones(2, 4)

    def step() -> None:
        net.zero_grad()
        h = net(x)
        h[0].mul_(2)
        h.sum().backward()

    gc.collect()
    gc.disable()
    try:
        for _ in range(300):
            step()
        tracemalloc.start()             # NumPy tells it of its arrays, which the collector does not see
        for _ in range(100):
            step()
        before = tracemalloc.get_traced_memory()[0]
        objects = len(gc.get_objects())
        for _ in range(1_000):
            step()
        assert tracemalloc.get_traced_memory()[0] - before < 20_000
        assert len(gc.get_objects()) - objects < 50
    finally:
        tracemalloc.stop()
        gc.enable()


def test_long_chains_and_wide_graphs_need_no_recursion() -> None:
    x = leaf()
    y = x
    for _ in range(50_000):
        y = y * 1.0
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0, 1.0]
    del y

    x = torch.ones(1, requires_grad=True)
    torch.cat([x] * 20_000).sum().backward()
    assert x.grad.item() == 20_000
    x.grad = None
    sum([x * 1.0 for _ in range(5_000)], torch.zeros(1)).backward()
    assert x.grad.item() == 5_000


def test_deeply_nested_views_are_written_and_freed() -> None:
    x = leaf()
    y = x * 1.0
    v = y
    for _ in range(3_000):
        v = v.view(3)
    v.mul_(2)
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0]
