"""Things often said of automatic differentiation that are not so."""

from __future__ import annotations

import pytest

import flambeau


def test_an_if_on_item_does_not_cut_the_graph_of_what_follows(both):
    def program(torch):
        x = torch.tensor(2.0, requires_grad=True)
        y = x * 3
        z = y * y if y.item() > 5 else y
        z.backward()
        return x.grad

    assert both(program) == 36.0


def test_grad_fn_does_not_become_none_after_backward(both):
    def program(torch):
        y = (torch.ones(2, requires_grad=True) * 2).sum()
        y.backward()
        return y.grad_fn.name()

    assert both(program) == "SumBackward0"


def test_len_does_not_break_a_graph(both):
    def program(torch):
        x = torch.ones(3, requires_grad=True)
        y = x * 2
        (y.sum() / len(y)).backward()
        return x.grad

    both(program)


def test_a_result_cannot_be_frozen_but_detached():
    x = flambeau.ones(2, requires_grad=True)
    y = x * 2
    with pytest.raises(RuntimeError, match="detach"):
        y.requires_grad_(False)
    assert not (y.detach() * 3).requires_grad


def test_doubling_and_then_writing_is_no_error_for_doubling_saves_nothing(both):
    def program(torch):
        x = torch.ones(2, requires_grad=True)
        y = x * 1
        z = y * 2
        y.add_(5)
        z.sum().backward()
        return x.grad, z

    both(program)


def test_retain_graph_keeps_what_backward_would_have_freed_and_no_more():
    kept = []
    x = flambeau.ones(1000, requires_grad=True)
    with flambeau.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.numel()) or t, lambda t: t):
        y = x.exp().sum()
        forward = sum(kept)
        y.backward(retain_graph=True)
        assert sum(kept) == forward == 1000
        y.backward()
    assert sum(kept) == forward


def test_gradients_are_neither_numerical_nor_symbolic():
    # 1e-30 away from 0 a difference quotient has no digit left, and a formula could not follow the loop
    x = flambeau.tensor(1e-30, dtype=flambeau.float64, requires_grad=True)
    y = x
    for _ in range(100):
        y = y.sin()
    y.backward()
    assert x.grad.item() == 1.0


def test_sum_and_mean_losses_differ_by_the_batch_size_in_every_gradient(both):
    def program(torch):
        model = torch.nn.Linear(3, 1)
        x = torch.randn(8, 3)
        grads = []
        for reduction in ("sum", "mean"):
            model.zero_grad()
            torch.nn.functional.mse_loss(model(x), torch.zeros(8, 1), reduction=reduction).backward()
            grads.append(model.weight.grad.clone())
        return grads[0] / grads[1]

    assert both(program)[0] == pytest.approx([8.0] * 3, rel=1e-5)


def test_zero_and_none_gradients_differ_for_an_optimizer_with_momentum(both):
    def program(torch):
        found = []
        for set_to_none in (True, False):
            p = torch.nn.Parameter(torch.ones(1))
            optimizer = torch.optim.SGD([p], lr=0.1, momentum=0.9)
            (p * 2).sum().backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=set_to_none)
            optimizer.step()
            found.append(p.item())
        return found

    result = both(program)
    assert result[0] != result[1]


def test_relu_at_zero_has_the_gradient_zero_and_abs_too(both):
    def program(torch):
        x = torch.zeros(2, requires_grad=True)
        (x.relu() + x.abs()).sum().backward()
        return x.grad

    assert both(program) == [0.0, 0.0]
