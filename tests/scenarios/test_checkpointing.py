"""Scenario 28: activation checkpointing, both ways: the same numbers, less kept, random state replayed, and its errors."""

from __future__ import annotations

import gc
import warnings
import weakref

import pytest

import flambeau
from flambeau.utils.checkpoint import CheckpointError, checkpoint, checkpoint_sequential, set_checkpoint_early_stop


class Counted:
    """A function that counts its runs."""

    def __init__(self, fn):
        self.fn, self.runs = fn, 0

    def __call__(self, *args):
        self.runs += 1
        return self.fn(*args)


@pytest.mark.parametrize("reentrant", [True, False])
def test_blocks_with_dropout_give_the_plain_runs_numbers(both, reentrant):
    def program(torch):
        from torch.utils.checkpoint import checkpoint as theirs

        call = theirs if torch.__name__ == "torch" else checkpoint
        blocks = [torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5), torch.nn.Tanh()) for _ in range(3)]
        found = []
        for use in (False, True):
            torch.manual_seed(5)
            x = torch.ones(2, 4, requires_grad=True)
            for b in blocks:
                b.zero_grad()
            h = x
            for b in blocks:
                h = call(b, h, use_reentrant=reentrant) if use else b(h)
            h.sum().backward()
            found.append([h, x.grad, *[p.grad.clone() for b in blocks for p in b.parameters()], torch.rand(2)])
        return found, all(torch.allclose(a, b) for a, b in zip(*found, strict=True))

    assert both(program)[1] is True


def test_fewer_tensors_are_saved_than_by_the_plain_run():
    kept = []
    hooks = flambeau.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.numel()) or t, lambda t: t)
    x = flambeau.ones(100, requires_grad=True)

    def chain(v):
        for _ in range(10):
            v = v.exp().tanh()
        return v

    with hooks:
        chain(x)
    plain = sum(kept)
    kept.clear()
    with hooks:
        checkpoint(chain, x, use_reentrant=False)
    assert plain == 2000 and sum(kept) == 100


def test_the_second_run_happens_in_backward_only_and_stops_early():
    done = []

    def block(v):
        v = v.exp()
        v = v.sin()
        done.append("end")
        return v * 1

    counted = Counted(block)
    x = flambeau.ones(2, requires_grad=True)
    y = checkpoint(counted, x, use_reentrant=False)
    assert (counted.runs, len(done)) == (1, 1)
    y.sum().backward()
    assert (counted.runs, len(done)) == (2, 1)                  # what follows the last saved value was not run again
    with set_checkpoint_early_stop(False):
        checkpoint(counted, x, use_reentrant=False).sum().backward()
    assert (counted.runs, len(done)) == (4, 3)


def test_nested_checkpoints(both):
    def program(torch):
        from torch.utils.checkpoint import checkpoint as theirs

        call = theirs if torch.__name__ == "torch" else checkpoint
        runs = []

        def inner(v):
            runs.append("inner")
            return (v.sin() * v).tanh()

        def outer(v):
            runs.append("outer")
            return call(inner, v.exp(), use_reentrant=False).cos() * v

        x = torch.tensor([0.3, 0.6], requires_grad=True)
        call(outer, x, use_reentrant=False).sum().backward()
        return x.grad, runs

    both(program)


def test_second_derivatives_and_grad_go_through(both):
    def program(torch):
        from torch.utils.checkpoint import checkpoint as theirs

        call = theirs if torch.__name__ == "torch" else checkpoint
        x = torch.tensor([0.3, 0.6], requires_grad=True)
        (g,) = torch.autograd.grad(call(lambda v: v.sin().exp(), x, use_reentrant=False).sum(), x, create_graph=True)
        g.sum().backward()
        return g, x.grad

    both(program)
    x = flambeau.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"incompatible with .grad\(\).*use_reentrant=False"):
        flambeau.autograd.grad(checkpoint(flambeau.exp, x, use_reentrant=True).sum(), x)


def test_sequential_segments(both):
    def program(torch):
        from torch.utils.checkpoint import checkpoint_sequential as theirs

        call = theirs if torch.__name__ == "torch" else checkpoint_sequential
        chain = torch.nn.Sequential(*[torch.nn.Linear(3, 3) for _ in range(5)])
        found = []
        for reentrant in (True, False):
            x = torch.ones(2, 3, requires_grad=True)
            call(chain, 2, x, use_reentrant=reentrant).sum().backward()
            found.append(x.grad)
        return found

    both(program)


def test_warnings_of_a_checkpoint_that_cannot_train():
    layer = flambeau.nn.Linear(2, 1)
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        out = checkpoint(layer, flambeau.ones(1, 2), use_reentrant=True)
    assert not out.requires_grad
    assert checkpoint(layer, flambeau.ones(1, 2), use_reentrant=False).requires_grad
    with pytest.warns(UserWarning, match="use_reentrant parameter should be passed explicitly"):
        checkpoint(layer, flambeau.ones(1, 2, requires_grad=True))


def test_a_function_that_changes_between_its_runs_is_caught():
    x = flambeau.ones(2, requires_grad=True)

    def changing(first, later):
        counted = Counted(lambda v: (first if counted.runs == 1 else later)(v))
        return counted

    cases = [
        (lambda v: v.sin().cos(), lambda v: v.sin(), "A different number of tensors was saved"),
        (lambda v: v.sin(), lambda v: flambeau.cat([v, v]).sin(), "different metadata"),
    ]
    for first, later, words in cases:
        with pytest.raises(CheckpointError, match=words):
            checkpoint(changing(first, later), x, use_reentrant=False).sum().backward()
    with pytest.raises(CheckpointError, match="trying to save more tensors"):
        longer = changing(lambda v: v.sin(), lambda v: v.sin().cos())
        checkpoint(longer, x, use_reentrant=False, early_stop=False).sum().backward()
    with pytest.raises(CheckpointError, match="test_checkpointing.py"):
        checkpoint(changing(lambda v: v.sin().cos(), lambda v: v.sin()), x, use_reentrant=False, debug=True).sum().backward()


def test_an_argument_changed_after_the_first_run_is_caught():
    h = flambeau.ones(2, requires_grad=True) * 2
    y = checkpoint(lambda v: v.sin(), h, use_reentrant=False)
    h.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.parametrize("reentrant", [True, False])
def test_nothing_is_kept_after_backward_without_the_collector(reentrant):
    layer = flambeau.nn.Linear(3, 3)
    gc.collect()
    gc.disable()
    try:
        x = flambeau.ones(2, 3, requires_grad=True)
        h = x * 2
        end = weakref.ref(h)
        loss = checkpoint(layer, h, use_reentrant=reentrant).sum()
        del h
        loss.backward()
        del loss
        assert end() is None
    finally:
        gc.enable()


def test_wrong_options_are_refused():
    x = flambeau.ones(2, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="Unexpected keyword arguments: scale"):
            checkpoint(flambeau.exp, x, use_reentrant=True, scale=2)
        with pytest.raises(ValueError, match="determinism_check should be one of"):
            checkpoint(flambeau.exp, x, use_reentrant=False, determinism_check="sometimes")
        with pytest.raises(ValueError, match="3 segments of 2 functions"):
            checkpoint_sequential([flambeau.exp, flambeau.log], 3, x, use_reentrant=False)
