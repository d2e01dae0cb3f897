"""Scenarios 1 to 5: what the graph is, when it is recorded, freed, kept and added up."""

from __future__ import annotations

import gc
import inspect
import weakref

import pytest

import flambeau


def walk(fn, depth=0):
    """Names of the nodes from fn down, with their depth."""
    if fn is None:
        return []
    return [(depth, fn.name()), *(x for child, _ in fn.next_functions for x in walk(child, depth + 1))]


def test_the_graph_can_be_followed_down_to_the_leaves(both):
    def program(torch):
        weight = torch.tensor([[0.5, -1.0]], requires_grad=True)
        bias = torch.tensor([0.1], requires_grad=True)
        x = torch.tensor([1.0, 2.0])
        loss = ((weight @ x + bias).sigmoid() ** 2).mean()
        leaf = loss.grad_fn
        while leaf.next_functions:
            leaf = leaf.next_functions[0][0]
        return walk(loss.grad_fn), leaf.variable is weight, x.grad_fn, weight.is_leaf, loss.is_leaf

    both(program)


def test_requires_grad_spreads_by_or_and_only_leaves_keep_gradients(both):
    def program(torch):
        data, w = torch.ones(3), torch.full((3,), 2.0, requires_grad=True)
        middle = data * w
        kept = middle + 1
        kept.retain_grad()
        seen = []
        middle.register_hook(lambda g: seen.append(g.tolist()))
        out = (kept * data).sum()
        out.backward()
        return [(data * 2).requires_grad, middle.requires_grad, kept.grad, w.grad, seen, data.grad is None]

    both(program)


def test_python_control_flow_shapes_the_graph(both):
    def program(torch):
        w = torch.tensor(1.5, requires_grad=True)

        def power(x, n):
            return x if n == 0 else power(x * w, n - 1)

        y = torch.tensor(0.1)
        steps = 0
        while y.item() < 3:
            y = y * w + 0.2 if y > 0.5 else y + w.sin()
            steps += 1
        out = power(y, 3)
        out.backward()
        return steps, out, w.grad

    both(program)


def test_a_recurrent_loop_that_skips_its_attention_on_some_steps(both):
    def program(torch):
        cell, attend = torch.nn.RNNCell(3, 4), torch.nn.Linear(4, 1)
        x = torch.randn(6, 2, 3)
        h, past = torch.zeros(2, 4), []
        for t in range(6):
            h = cell(x[t], h)
            past.append(h)
            if t % 2:
                stack = torch.stack(past)
                h = h + (torch.softmax(attend(stack), 0) * stack).sum(0)
        h.pow(2).mean().backward()
        return [p.grad for p in (*cell.parameters(), *attend.parameters())]

    both(program)


def test_backward_frees_the_graph_and_a_second_one_names_both_lines():
    x = flambeau.tensor([1.0, 2.0], requires_grad=True)
    y = x.exp().sum()
    here = inspect.currentframe().f_lineno
    y.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time") as error:
        y.backward()
    assert f"test_seeing_the_graph.py:{here - 1}" in str(error.value)      # the operator whose values are gone
    assert f"test_seeing_the_graph.py:{here + 1}" in str(error.value)      # the backward that gave them up
    assert "retain_graph=True" in str(error.value)


def test_retain_graph_keeps_it_and_gradients_add_up(both):
    def program(torch):
        x = torch.tensor([0.3, 0.7], requires_grad=True)
        y = (x.tanh() * x).sum()
        y.backward(retain_graph=True)
        first = x.grad.clone()
        y.backward()
        return first, x.grad

    both(program)


def test_a_graph_is_freed_at_once_without_the_collector():
    gc.collect()
    gc.disable()
    try:
        x = flambeau.ones(4, requires_grad=True)
        middle = x * 2
        end = weakref.ref(middle)
        loss = middle.exp().sum()
        del middle
        kept = loss.detach()
        del loss
        assert end() is None and kept.item() > 0
    finally:
        gc.enable()


def test_shared_parameters_of_siamese_towers_get_the_sum(both):
    def program(torch):
        tower = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2))
        a, b = torch.randn(4, 3), torch.randn(4, 3)
        distance = torch.nn.functional.pairwise_distance(tower(a), tower(b))
        distance.mean().backward()
        together = [p.grad.clone() for p in tower.parameters()]
        tower.zero_grad()
        left = torch.nn.functional.pairwise_distance(tower(a), tower(b).detach()).mean()
        right = torch.nn.functional.pairwise_distance(tower(a).detach(), tower(b)).mean()
        left.backward()
        right.backward()
        apart = [p.grad for p in tower.parameters()]
        return together, apart, all(torch.allclose(x, y, atol=1e-6) for x, y in zip(together, apart, strict=True))

    assert both(program)[2] is True


@pytest.mark.parametrize("set_to_none", [True, False])
def test_accumulating_micro_batches_equals_the_large_batch(both, set_to_none):
    def program(torch):
        model = torch.nn.Linear(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x, y = torch.randn(8, 4), torch.randn(8, 2)
        torch.nn.functional.mse_loss(model(x), y).backward()
        large = model.weight.grad.clone()
        optimizer.zero_grad(set_to_none=set_to_none)
        cleared = None if model.weight.grad is None else model.weight.grad.tolist()
        for part in range(4):
            rows = slice(part * 2, part * 2 + 2)
            (torch.nn.functional.mse_loss(model(x[rows]), y[rows]) / 4).backward()
        return large, cleared, model.weight.grad, torch.allclose(large, model.weight.grad, atol=1e-6)

    result = both(program)
    assert result[3] is True and (result[1] is None) == set_to_none


def test_a_vector_needs_the_gradient_of_what_follows(both):
    def program(torch):
        x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        y = x * x
        y.backward(gradient=torch.tensor([1.0, 0.1, 0.01]))
        return x.grad

    both(program)
    x = flambeau.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        (x * 2).backward()
