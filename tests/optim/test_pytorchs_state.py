"""States of PyTorch's own optimizers, schedules and averages, loaded here, go on as PyTorch does."""

from __future__ import annotations

import copy
import io
import warnings

import pytest
import torch

import flambeau
from flambeau import optim
from flambeau.optim import lr_scheduler, swa_utils

warm = [("LinearLR", dict(start_factor=0.1, total_iters=3)), ("ExponentialLR", dict(gamma=0.5))]
SCHEDULES = [
    ("StepLR", dict(step_size=2, gamma=0.5)), ("MultiStepLR", dict(milestones=[2, 4, 4, 7], gamma=0.5)),
    ("ConstantLR", dict(factor=0.3, total_iters=4)), ("LinearLR", dict(start_factor=0.25, total_iters=6)),
    ("ExponentialLR", dict(gamma=0.9)), ("CosineAnnealingLR", dict(T_max=4, eta_min=0.01)),
    ("PolynomialLR", dict(total_iters=8, power=2.0)), ("CosineAnnealingWarmRestarts", dict(T_0=2, T_mult=2)),
    ("CyclicLR", dict(base_lr=0.01, max_lr=0.1, step_size_up=2, mode="triangular2")),
    ("CyclicLR", dict(base_lr=0.01, max_lr=0.1, step_size_up=2, mode="exp_range", gamma=0.9)),
    ("OneCycleLR", dict(max_lr=0.5, total_steps=20)), ("OneCycleLR", dict(max_lr=0.5, total_steps=20, three_phase=True)),
    ("LambdaLR", dict(lr_lambda=lambda epoch: 0.95**epoch)),
    ("MultiplicativeLR", dict(lr_lambda=lambda epoch: 0.95)),
    ("SequentialLR", warm), ("ChainedScheduler", warm), ("ReduceLROnPlateau", dict(patience=1, factor=0.5, cooldown=1)),
    ("SWALR", dict(swa_lr=0.01, anneal_epochs=4)),
]


def through_a_file(value):
    """What flambeau loads of what PyTorch saves."""
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return flambeau.load(file, weights_only=False)


def scheduled(lib, name, options):
    p = lib.nn.Parameter(lib.ones(2))
    opt = lib.optim.SGD([{"params": [p]}, {"params": [lib.nn.Parameter(lib.ones(1))], "lr": 0.3}], lr=0.2, momentum=0.9)
    module = lib.optim.swa_utils if name == "SWALR" else lib.optim.lr_scheduler
    if isinstance(options, list):
        parts = [getattr(module, kind)(opt, **more) for kind, more in options]
        if name == "SequentialLR":
            return opt, module.SequentialLR(opt, parts, milestones=[3])
        return opt, module.ChainedScheduler(parts, opt)
    return opt, getattr(module, name)(opt, **options)


def steps(opt, schedule, n):
    rates = []
    for i in range(n):
        opt.step()
        if type(schedule).__name__ == "ReduceLROnPlateau":
            schedule.step([3.0, 2.0, 2.5, 2.6, 2.7, 1.0, 1.1, 1.2][i % 8])
        else:
            schedule.step()
        rates.append([group["lr"] for group in opt.param_groups])
        rates.append([group["momentum"] for group in opt.param_groups])
    return rates


@pytest.mark.parametrize(("name", "options"), SCHEDULES, ids=[f"{n}-{i}" for i, (n, _) in enumerate(SCHEDULES)])
def test_schedules_go_on_from_pytorchs_state(name, options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        opt, schedule = scheduled(torch, name, options)
        steps(opt, schedule, 5)
        mine_opt, mine = scheduled(flambeau, name, options)
        mine_opt.load_state_dict(through_a_file(opt.state_dict()))
        mine.load_state_dict(through_a_file(schedule.state_dict()))
        assert sorted(mine.state_dict()) == sorted(schedule.state_dict())
        expected = steps(opt, schedule, 6)
        assert steps(mine_opt, mine, 6) == [pytest.approx(row, rel=1e-12) for row in expected]
        back_opt, back = scheduled(torch, name, options)
        back_opt.load_state_dict(copy.deepcopy(mine_opt.state_dict()))
        back.load_state_dict(mine.state_dict())
        assert steps(back_opt, back, 4) == [pytest.approx(row, rel=1e-12) for row in steps(mine_opt, mine, 4)]


OPTIMIZERS = ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "Rprop", "ASGD",
              "Adafactor", "Muon", "LBFGS"]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_go_on_from_pytorchs_state(name):
    def made(lib, values):
        p = lib.nn.Parameter(lib.tensor(values, dtype=lib.float64))
        return p, getattr(lib.optim, name)([p], lr=0.05, **({"momentum": 0.9} if name == "SGD" else {}))

    def trained(lib, p, opt, n):
        def closure():
            opt.zero_grad()
            loss = (p.sin() * p).sum()
            loss.backward()
            return loss

        for _ in range(n):
            opt.step(closure)
        return p.tolist()

    p, opt = made(torch, [[1.0, -2.0], [0.5, 3.0]])
    trained(torch, p, opt, 3)
    mine, mine_opt = made(flambeau, p.tolist())
    mine_opt.load_state_dict(through_a_file(opt.state_dict()))
    for a, b in zip(trained(flambeau, mine, mine_opt, 3), trained(torch, p, opt, 3), strict=True):
        assert a == pytest.approx(b, rel=1e-3 if name == "Muon" else 1e-6)


def test_averaged_model_goes_on_from_pytorchs_state():
    def made(lib, **options):
        lib.manual_seed(0)
        net = lib.nn.Sequential(lib.nn.Linear(2, 3), lib.nn.BatchNorm1d(3))
        return net, lib.optim.swa_utils.AveragedModel(net, **options)

    def updated(lib, net, averaged, n):
        for _ in range(n):
            with lib.no_grad():
                for p in net.parameters():
                    p.add_(0.5)
            averaged.update_parameters(net)
        return {k: v.tolist() for k, v in averaged.state_dict().items()}

    for options in ({}, {"multi_avg_fn": "ema"}, {"use_buffers": True}):
        ema = options.get("multi_avg_fn") == "ema"
        theirs = {**options, **({"multi_avg_fn": torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)} if ema else {})}
        ours = {**options, **({"multi_avg_fn": swa_utils.get_ema_multi_avg_fn(0.9)} if ema else {})}
        net, averaged = made(torch, **theirs)
        updated(torch, net, averaged, 2)
        mine_net, mine = made(flambeau, **ours)
        mine_net.load_state_dict(through_a_file(net.state_dict()))
        mine.load_state_dict(through_a_file(averaged.state_dict()))
        expected, got = updated(torch, net, averaged, 2), updated(flambeau, mine_net, mine, 2)
        assert list(got) == list(expected)
        for key, value in expected.items():
            flambeau.testing.assert_close(flambeau.tensor(got[key]), flambeau.tensor(value), rtol=1e-5, atol=1e-6)


def test_swapped_in_parameters_are_stepped_and_given_back(both):
    def run(lib):
        p = lib.nn.Parameter(lib.ones(2))
        opt = lib.optim.Adam([p], lr=0.1)
        p.grad = lib.ones(2)
        opt.step()
        other = lib.nn.Parameter(lib.full((2,), 5.0))
        other.grad = lib.full((2,), -1.0)
        state = copy.deepcopy(opt.state_dict())
        state["param_groups"][0]["lr"] = 1.0
        with lib.optim.swap_in_optimizer_params_and_state(opt, {"other": other}, state):
            opt.step()
        seen = [p, other, state, opt.param_groups[0]["params"][0] is p, opt.param_groups[0]["lr"], opt.state_dict()]
        try:
            with lib.optim.swap_in_optimizer_params_and_state(opt, {}, state):
                pass
        except RuntimeError:
            seen.append("refused")
        return seen

    both(run)


def test_names_that_optimizers_of_programs_import():
    from flambeau.optim.optimizer import Optimizer, _get_value, _use_grad_for_differentiable, _view_as_real, required

    class Plain(Optimizer):
        def __init__(self, params, lr=required, differentiable=False):
            super().__init__(params, dict(lr=lr, differentiable=differentiable))

        @_use_grad_for_differentiable
        def step(self, closure=None):
            self._cuda_graph_capture_health_check()
            for group in self.param_groups:
                for p in group["params"]:
                    p.add_(p.grad, alpha=-_get_value(group["lr"]))

    p = flambeau.nn.Parameter(flambeau.ones(2))
    p.grad = flambeau.ones(2)
    Plain([p], lr=flambeau.tensor(0.5)).step()
    assert p.tolist() == [0.5, 0.5]
    lists = [[flambeau.ones(1, dtype=flambeau.complex64)], [flambeau.zeros(1, dtype=flambeau.complex64)]]
    _view_as_real(*lists)
    assert lists[0][0].tolist() == [[1.0, 0.0]]
    assert lists[1][0].tolist() == [[0.0, 0.0]]
    from flambeau.optim import _functional

    with pytest.raises(NotImplementedError, match=r"_functional.adam\(\).*Make an optimizer object"):
        _functional.adam([])
    assert optim.adam.adam is _functional.adam
    assert lr_scheduler.StepLR.__name__ == "StepLR"
