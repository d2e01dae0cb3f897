"""Scenarios 7, 8 and 10: modes, detaching, in-place rules, frozen branches."""

from __future__ import annotations

import inspect
import threading

import pytest

import flambeau


def test_modes_as_blocks_and_decorators(both):
    def program(torch):
        x = torch.ones(2, requires_grad=True)
        seen = []

        @torch.no_grad()
        def evaluate(v):
            return (v * 2).requires_grad, torch.is_grad_enabled()

        @torch.enable_grad()
        def train(v):
            return (v * 2).requires_grad

        seen.append(evaluate(x))
        with torch.no_grad():
            seen.append(((x * 2).requires_grad, train(x)))
            with torch.set_grad_enabled(True):
                seen.append((x * 2).requires_grad)
        with torch.inference_mode():
            y = x * 2
            seen.append((y.requires_grad, y.is_inference()))
        seen.append(torch.is_grad_enabled())
        return seen

    both(program)


def test_no_grad_on_a_generator_does_not_leak_between_its_steps(both):
    def program(torch):
        @torch.no_grad()
        def batches():
            for _ in range(2):
                yield torch.is_grad_enabled()

        return [(inside, torch.is_grad_enabled()) for inside in batches()]

    assert both(program) == [[False, True], [False, True]]


def test_modes_belong_to_their_thread(both):
    def program(torch):
        seen = []
        with torch.no_grad():
            thread = threading.Thread(target=lambda: seen.append(torch.is_grad_enabled()))
            thread.start()
            thread.join()
            seen.append(torch.is_grad_enabled())
        return seen

    assert both(program) == [True, False]


def test_detach_shares_memory_and_clone_shares_history(both):
    def program(torch):
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        y = x * 3
        cut, copy = y.detach(), y.clone()
        cut[0] = 10
        (copy * copy).sum().backward()
        return y, copy, x.grad, cut.requires_grad, cut._version == y._version

    both(program)


def test_freezing_one_branch_with_detach_moves_only_the_other(both):
    def program(torch):
        left, right = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
        optimizer = torch.optim.Adam([*left.parameters(), *right.parameters()], lr=0.01)
        x = torch.randn(5, 3)
        before = left.weight.clone(), right.weight.clone()
        for _ in range(3):
            optimizer.zero_grad()
            (left(x) * right(x).detach()).sum().backward()
            optimizer.step()
        return torch.equal(before[0], left.weight), torch.equal(before[1], right.weight), right.weight.grad, left.weight

    result = both(program)
    assert result[:3] == [False, True, None]


def test_frozen_layers_do_not_train(both):
    def program(torch):
        model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
        model[0].requires_grad_(False)
        optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.ones(2, 3)).pow(2).mean().backward()
            optimizer.step()
        return model.state_dict(), model[0].weight.grad

    both(program)


def test_an_overwritten_saved_value_names_both_lines():
    x = flambeau.ones(3, requires_grad=True)
    y = x * 2
    z = y.exp()
    here = inspect.currentframe().f_lineno
    z.mul_(3)
    with pytest.raises(RuntimeError, match="modified by an inplace operation") as error:
        z.sum().backward()
    text = str(error.value)
    assert f"test_controlling_gradients.py:{here - 1}" in text and f"test_controlling_gradients.py:{here + 1}" in text
    assert "mul(" in text or "mul_" in text


@pytest.mark.parametrize("write, words", [
    (lambda x: x.add_(1), "a leaf Variable that requires grad"),
    (lambda x: x[0].fill_(1), "view of a leaf Variable that requires grad"),
])
def test_leaves_that_require_grad_are_not_written(write, words):
    x = flambeau.ones(2, 2, requires_grad=True)
    with pytest.raises(RuntimeError, match=words):
        write(x)
    assert x.tolist() == [[1.0, 1.0], [1.0, 1.0]]               # nothing was written
    with flambeau.no_grad():
        write(x)


def test_a_write_through_a_view_reaches_the_base_and_its_gradient(both):
    def program(torch):
        x = torch.arange(6.0).reshape(2, 3).requires_grad_()
        y = x * 2
        row = y[1]
        row.mul_(x[0])
        y[:, 0] = 5
        (y * y).sum().backward()
        return y, row, x.grad, type(y.grad_fn).__name__, row._version == y._version

    both(program)


def test_updates_by_hand_under_no_grad_keep_the_leaf(both):
    def program(torch):
        w = torch.tensor([1.0, -2.0], requires_grad=True)
        for _ in range(3):
            (w ** 2).sum().backward()
            with torch.no_grad():
                w -= 0.1 * w.grad
                w.grad.zero_()
        return w, w.is_leaf, w.requires_grad

    both(program)
