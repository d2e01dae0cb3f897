"""GradScaler against PyTorch's on the CPU."""

from __future__ import annotations

import math

import pytest

import flambeau


def run(lib, plan, **options):
    """Steps whose gradients are finite ("f"), infinite ("i"), nan ("n"), or clipped in between ("c")."""
    p = lib.ones(3, requires_grad=True)
    opt = lib.optim.SGD([p], lr=0.1)
    scaler = lib.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2, **options)
    seen = []
    for what in plan:
        opt.zero_grad()
        factor = {"i": math.inf, "n": math.nan}.get(what, 1.0)
        scaler.scale((p * factor).sum()).backward()
        if what == "c":
            scaler.unscale_(opt)
            lib.nn.utils.clip_grad_norm_([p], 0.5)
        scaler.step(opt)
        scaler.update()
        seen.append([scaler.get_scale(), p.detach().clone()])
    return [seen, scaler.state_dict()]


@pytest.mark.parametrize("plan", ["ffff", "fifif", "ncfff", "cccc", "iiii"])
@pytest.mark.parametrize("options", [{}, {"growth_factor": 3.0, "backoff_factor": 0.25}, {"enabled": False}], ids=str)
def test_scales_and_steps(both, plan, options):
    both(lambda lib: run(lib, plan, **options))


def misuse(lib, name):
    p = lib.ones(2, requires_grad=True)
    opt = lib.optim.SGD([p], lr=0.1)
    scaler = lib.amp.GradScaler("cpu")
    if name == "update before scale":
        scaler.update()
    elif name == "step before scale":
        scaler.step(opt)
    scaler.scale(p.sum()).backward()
    if name == "twice":
        scaler.unscale_(opt)
        scaler.unscale_(opt)
    elif name == "after step":
        scaler.step(opt)
        scaler.unscale_(opt)
    elif name == "closure":
        scaler.step(opt, closure=lambda: p.sum())
    elif name == "step twice":
        scaler.step(opt)
        scaler.step(opt)
    elif name == "no step":
        scaler.update()
    elif name == "half":
        q = lib.ones(2, dtype=lib.float16, requires_grad=True)
        other = lib.optim.SGD([q], lr=0.1)
        scaler.scale(q.sum()).backward()
        scaler.step(other)
    elif name == "empty state":
        scaler.load_state_dict({})
    elif name == "growth":
        lib.amp.GradScaler("cpu", growth_factor=1.0)
    elif name == "text":
        scaler.scale(3)
    return "nothing was raised"


@pytest.mark.parametrize("name", ["update before scale", "step before scale", "twice", "after step", "closure", "step twice",
                                  "no step", "half", "empty state", "growth", "text"])
def test_misuse(both, name):
    assert both(lambda lib: misuse(lib, name)) != "nothing was raised"


def test_state_and_settings(both):
    def settings(lib):
        scaler = lib.amp.GradScaler("cpu", init_scale=4.0)
        scaler.set_growth_factor(5.0)
        scaler.set_backoff_factor(0.1)
        scaler.set_growth_interval(7)
        other = lib.amp.GradScaler("cpu")
        other.load_state_dict(scaler.state_dict())
        x = lib.ones(2)
        return [other.state_dict(), other.get_scale(), other.is_enabled(), other.scale([x, (x, x)]),
                other.get_growth_factor(), other.get_backoff_factor(), other.get_growth_interval()]

    both(settings)


def test_without_a_gpu_the_scaler_for_one_is_off():
    with pytest.warns(UserWarning, match="CUDA is not available"):
        assert not flambeau.amp.GradScaler("cuda").is_enabled()
    with pytest.warns(FutureWarning, match="torch.cpu.amp.GradScaler"):
        assert flambeau.cpu.amp.GradScaler().is_enabled()


def test_sparse_gradients_are_unscaled_and_looked_at():
    for bad in (False, True):
        table = flambeau.nn.Embedding(4, 2, sparse=True)
        before = table.weight.detach().clone()
        optimizer = flambeau.optim.SGD(table.parameters(), lr=0.5)
        scaler = flambeau.amp.GradScaler("cpu", init_scale=8.0)
        loss = table(flambeau.tensor([1, 1, 2])).sum() * (float("inf") if bad else 1.0)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        moved = before - table.weight.detach()
        rows = [[0.0] * 2] * 4 if bad else [[0.0] * 2, [1.0] * 2, [0.5] * 2, [0.0] * 2]
        assert scaler.get_scale() == (4.0 if bad else 8.0)
        flambeau.testing.assert_close(moved, flambeau.tensor(rows))
