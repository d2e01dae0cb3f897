"""LBFGS, Adafactor, Muon, SparseAdam and averages of weights, against PyTorch."""

from __future__ import annotations

import copy

import pytest

import flambeau

MATRIX = ((6, 4), (4, 6), (3, 3))


def train(lib, make, steps=4, dtype="float64", shapes=((5, 4), (4,)), resume=False):
    """The parameters after a few steps on a smooth problem."""
    lib.manual_seed(0)
    params = [(lib.randn(*s, dtype=getattr(lib, dtype)) * 0.5).requires_grad_() for s in shapes]
    opt = make(lib.optim, params)

    def closure():
        opt.zero_grad()
        loss = sum(((p - 1) ** 2).sum() + (p ** 4).sum() + p.sin().sum() for p in params)
        loss.backward()
        return loss

    for i in range(steps):
        if resume and i == steps // 2:
            state = copy.deepcopy(opt.state_dict())
            opt = make(lib.optim, params)
            opt.load_state_dict(state)
        if isinstance(opt, lib.optim.LBFGS):
            opt.step(closure)
        else:
            closure()
            opt.step()
    return [p.detach() for p in params], sorted(map(str, opt.state_dict()["state"][0])), sorted(opt.param_groups[0])


CASES = {
    "lbfgs": lambda o, p: o.LBFGS(p, lr=0.1, max_iter=4),
    "lbfgs, line search": lambda o, p: o.LBFGS(p, max_iter=3, line_search_fn="strong_wolfe"),
    "lbfgs, far first step": lambda o, p: o.LBFGS(p, lr=50, max_iter=2, line_search_fn="strong_wolfe"),
    "lbfgs, short history": lambda o, p: o.LBFGS(p, lr=0.05, max_iter=5, history_size=2, max_eval=4),
    "adafactor": lambda o, p: o.Adafactor(p),
    "adafactor, options": lambda o, p: o.Adafactor(p, lr=0.3, beta2_decay=-0.5, eps=(1e-10, 1e-2), d=2.0, weight_decay=0.1,
                                                   maximize=True),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("resume", [False, True], ids=["straight", "resumed"])
def test_trajectories(both, name, resume):
    both(lambda lib: train(lib, CASES[name], resume=resume), 1e-9)


@pytest.mark.parametrize("name", ["lbfgs, line search", "adafactor, options"])
def test_trajectories_in_single_precision(both, name):
    # the line search and the norms of Adafactor divide what nearly cancels: more than the rounding of one operator
    both(lambda lib: train(lib, CASES[name], steps=2, dtype="float32"), 2e-5)


@pytest.mark.parametrize("options", [{}, {"nesterov": False}, {"adjust_lr_fn": "match_rms_adamw"}, {"ns_steps": 2}],
                         ids=str)
def test_muon(both, options):
    # 8 bits of precision: a rounding that differs shows as 2 ** -8 of a step of lr
    both(lambda lib: train(lib, lambda o, p: o.Muon(p, lr=1e-4, **options), shapes=MATRIX), 2e-6)


def test_lbfgs_minimises_rosenbrock():
    p = flambeau.tensor([-1.5, 2.0], dtype=flambeau.float64, requires_grad=True)
    opt = flambeau.optim.LBFGS([p], max_iter=100, tolerance_change=1e-14, line_search_fn="strong_wolfe")

    def closure():
        opt.zero_grad()
        loss = (1 - p[0]) ** 2 + 100 * (p[1] - p[0] ** 2) ** 2
        loss.backward()
        return loss

    first = opt.step(closure)
    assert first.item() == pytest.approx(12.5)
    assert p.tolist() == pytest.approx([1, 1], abs=1e-6)


REFUSED = {
    "lbfgs groups": lambda o, p: o.LBFGS([{"params": p[:1]}, {"params": p[1:]}]),
    "adafactor lr": lambda o, p: o.Adafactor(p, lr=-1.0), "adafactor decay": lambda o, p: o.Adafactor(p, beta2_decay=0.1),
    "adafactor d": lambda o, p: o.Adafactor(p, d=0.5), "adafactor eps": lambda o, p: o.Adafactor(p, eps=(-1.0, 1.0)),
    "muon vector": lambda o, p: o.Muon(p), "muon adjust": lambda o, p: o.Muon(p[:1], adjust_lr_fn="x"),
    "muon steps": lambda o, p: o.Muon(p[:1], ns_steps=100), "search": lambda o, p: o.LBFGS(p, line_search_fn="armijo"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(both, name):
    assert both(lambda lib: train(lib, REFUSED[name], shapes=((2, 2),) if name == "muon steps" else ((5, 4), (4,)))) \
        in ("ValueError", "RuntimeError")


def test_sparse_adam_says_what_to_use():
    p = flambeau.ones(2, requires_grad=True)
    optimizer = flambeau.optim.SparseAdam([p])
    (p * p).sum().backward()
    with pytest.raises(RuntimeError, match="does not support dense gradients, please consider Adam.*sparse=True"):
        optimizer.step()


# ------------------------------------------------------------------------------------- averages


def averaged(lib, **options):
    swa = lib.optim.swa_utils
    net = lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.BatchNorm1d(4), lib.nn.Linear(4, 1))
    options = {key: fn(swa) if callable(fn) else fn for key, fn in options.items()}
    model = swa.AveragedModel(net, **options)
    opt = lib.optim.SGD(net.parameters(), lr=0.1)
    batches = [lib.randn(8, 3) for _ in range(4)]
    for x in batches:
        opt.zero_grad()
        net(x).pow(2).mean().backward()
        opt.step()
        model.update_parameters(net)
    before = model.state_dict()
    swa.update_bn([(x,) for x in batches], model)
    return [list(before), *(v.clone() for v in before.values()), model(batches[0]), *model.state_dict().values()]


@pytest.mark.parametrize("options", [
    {}, {"use_buffers": True}, {"multi_avg_fn": lambda s: s.get_ema_multi_avg_fn(0.9)},
    {"avg_fn": lambda s: s.get_ema_avg_fn(0.9), "use_buffers": True}, {"avg_fn": lambda s: s.get_swa_avg_fn()},
    {"multi_avg_fn": lambda s: s.get_ema_multi_avg_fn(0.9), "use_buffers": True},
    {"avg_fn": lambda s: s.get_swa_avg_fn(), "multi_avg_fn": lambda s: s.get_swa_multi_avg_fn()},
    {"avg_fn": lambda s: s.get_ema_avg_fn(1.5)}],
    ids=["mean", "buffers", "ema", "ema one by one", "mean one by one", "ema of buffers", "both", "decay"])
def test_averaged_model(both, options):
    both(lambda lib: averaged(lib, **options))


@pytest.mark.parametrize("options", [{"anneal_epochs": 4}, {"anneal_epochs": 3, "anneal_strategy": "linear"},
                                     {"anneal_epochs": 0}, {"anneal_strategy": "x"}, {"anneal_epochs": -1},
                                     {"swa_lr": [0.1, 0.2, 0.3]}, {"swa_lr": [0.02, 0.03], "anneal_epochs": 2}], ids=str)
def test_swalr(both, options):
    def run(lib):
        p = [lib.zeros(2, requires_grad=True), lib.zeros(2, requires_grad=True)]
        opt = lib.optim.SGD([{"params": p[:1]}, {"params": p[1:], "lr": 0.5}], lr=1.0)
        schedule = lib.optim.swa_utils.SWALR(opt, **{"swa_lr": 0.05, **options})
        rates = [schedule.get_last_lr()]
        for _ in range(6):
            opt.step()
            schedule.step()
            rates.append(schedule.get_last_lr())
        return rates

    both(run, 1e-12)
