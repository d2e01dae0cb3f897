"""Schedules set exactly PyTorch's rates."""

from __future__ import annotations

import pytest

import flambeau
from flambeau import nn, optim

SCHEDULES = {
    "StepLR": lambda L, o: L.StepLR(o, 3, 0.5), "MultiStepLR": lambda L, o: L.MultiStepLR(o, [2, 2, 5], 0.5),
    "ExponentialLR": lambda L, o: L.ExponentialLR(o, 0.9), "CosineAnnealingLR": lambda L,
    o: L.CosineAnnealingLR(o, 4, eta_min=0.01), "LambdaLR": lambda L, o: L.LambdaLR(o, lambda e: 0.9**e),
    "LambdaLR by group": lambda L, o: L.LambdaLR(o, [lambda e: 0.9**e, lambda e: 1 / (1 + e)]),
    "MultiplicativeLR": lambda L, o: L.MultiplicativeLR(o, lambda e: 0.9), "ConstantLR": lambda L,
    o: L.ConstantLR(o, 0.5, 3), "LinearLR": lambda L, o: L.LinearLR(o, 0.1, 1.0, 4), "PolynomialLR": lambda L,
    o: L.PolynomialLR(o, 5, 2.0), "CosineAnnealingWarmRestarts": lambda L,
    o: L.CosineAnnealingWarmRestarts(o, 3, 2, 0.01), "CyclicLR": lambda L, o: L.CyclicLR(o, 0.01, 0.1, 3, 4),
    "CyclicLR triangular2": lambda L, o: L.CyclicLR(o, [0.01, 0.02], 0.1, 3, mode="triangular2"),
    "CyclicLR exp_range": lambda L, o: L.CyclicLR(o, 0.01, 0.1, 3, mode="exp_range", gamma=0.9),
    "CyclicLR own scale": lambda L, o: L.CyclicLR(o, 0.01, 0.1, 3, scale_fn=lambda x: 1 / x,
                                                  scale_mode="cycle"),
    "OneCycleLR": lambda L, o: L.OneCycleLR(o, 1.0, 14),
    "OneCycleLR three phases": lambda L, o: L.OneCycleLR(o, [1.0, 2.0], 14, three_phase=True,
                                                         anneal_strategy="linear",
                                                        pct_start=0.4),
    "SequentialLR": lambda L, o: L.SequentialLR(o, [L.ConstantLR(o, 0.1, 3), L.ExponentialLR(o, 0.9)], [4]),
    "SequentialLR of three": lambda L, o: L.SequentialLR(
        o, [L.LinearLR(o, 0.1, 1.0, 3), L.CosineAnnealingLR(o, 8), L.StepLR(o, 2)], [3, 8]),
    "ChainedScheduler": lambda L, o: L.ChainedScheduler([L.ConstantLR(o, 0.1, 3), L.ExponentialLR(o, 0.9)]),
}


def optimizer(lib, kind="SGD", **options):
    groups = [{"params": [lib.nn.Parameter(lib.zeros(1))], "lr": 0.5},
              {"params": [lib.nn.Parameter(lib.zeros(1))]}]
    return getattr(lib.optim, kind)(groups, lr=0.1, **options)


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_rates(both, name, kind):
    def run(lib):
        opt = optimizer(lib, kind, **({"momentum": 0.9} if kind == "SGD" else {}))
        schedule = SCHEDULES[name](lib.optim.lr_scheduler, opt)
        rates = [schedule.get_last_lr()]
        for _ in range(12):
            opt.step()
            schedule.step()
            rates.append([[g["lr"], g.get("momentum", 0),
                           list(g.get("betas", ()))] for g in opt.param_groups])
        return [rates, schedule.get_last_lr()]

    both(run, 0.0)


@pytest.mark.parametrize("name", SCHEDULES)
def test_resumed_equals_continued(both, name):
    def run(lib):
        L = lib.optim.lr_scheduler
        opt = optimizer(lib, "Adam")
        schedule = SCHEDULES[name](L, opt)
        for _ in range(6):
            opt.step()
            schedule.step()
        fresh = optimizer(lib, "Adam")
        again = SCHEDULES[name](L, fresh)
        fresh.load_state_dict(opt.state_dict())
        again.load_state_dict(schedule.state_dict())
        for o, s in ((opt, schedule), (fresh, again)):
            for _ in range(3):
                o.step()
                s.step()
        keys = sorted(schedule.state_dict())
        return [[g["lr"] for g in o.param_groups] for o in (opt, fresh)] + [keys]

    both(run, 0.0)


@pytest.mark.parametrize("options", [dict(patience=1, cooldown=1, factor=0.5),
                                     dict(mode="max", patience=1, threshold_mode="abs", threshold=0.5,
                                          min_lr=[0.2, 0.05])])
def test_plateau(both, options):
    def run(lib):
        opt = optimizer(lib)
        schedule = lib.optim.lr_scheduler.ReduceLROnPlateau(opt, **options)
        rates = []
        for value in (5, 4, 4, 4, 4, 4.6, 4, 3, 3, 3, 9, 9, 2):
            schedule.step(lib.tensor(float(value)))
            rates.append(list(schedule.get_last_lr()))
        return [rates, sorted(schedule.state_dict().items())]

    both(run, 0.0)


REFUSED = {
    "no optimizer": lambda L, o: L.StepLR(3, 1), "resume without rates": lambda L,
    o: L.StepLR(o(), 1, last_epoch=3), "too few functions": lambda L, o: L.LambdaLR(o(), [lambda e: 1]),
    "no steps": lambda L, o: L.OneCycleLR(o(), 1.0), "negative steps": lambda L,
    o: L.OneCycleLR(o(), 1.0, -2), "no momentum": lambda L, o: L.OneCycleLR(o("Adagrad"), 1.0, 3),
    "cyclic without momentum": lambda L, o: L.CyclicLR(o("Adagrad"), 0.1, 1.0), "factor": lambda L,
    o: L.ReduceLROnPlateau(o(), factor=2.0), "mode": lambda L, o: L.ReduceLROnPlateau(o(), mode="x"),
    "constant": lambda L, o: L.ConstantLR(o(), 2.0), "linear": lambda L, o: L.LinearLR(o(), 0.0),
    "nothing in sequence": lambda L, o: L.SequentialLR(o(), [], []), "restarts": lambda L,
    o: L.CosineAnnealingWarmRestarts(o(), 0),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(both, name):
    def run(lib):
        REFUSED[name](lib.optim.lr_scheduler, lambda kind="SGD": optimizer(lib, kind))

    assert both(run) is not None


def test_too_many_steps(both):
    def run(lib):
        opt = optimizer(lib, momentum=0.9)
        schedule = lib.optim.lr_scheduler.OneCycleLR(opt, 1.0, 2)
        for _ in range(3):
            opt.step()
            schedule.step()

    both(run)


def test_step_before_the_optimizer_warns():
    schedule = optim.lr_scheduler.StepLR(optimizer(flambeau), 1)
    with pytest.warns(UserWarning, match=r"lr_scheduler.step\(\)` before `optimizer.step\(\)`"):
        schedule.step()


def test_get_lr_outside_step_warns():
    schedule = optim.lr_scheduler.StepLR(optimizer(flambeau), 1)
    with pytest.warns(UserWarning, match="get_last_lr"):
        schedule.get_lr()


def test_schedules_of_users(both):
    def run(lib):
        class Doubling(lib.optim.lr_scheduler.LRScheduler):
            def __init__(self, opt):
                self.factor = 2
                super().__init__(opt)

            def get_lr(self):
                return [base * self.factor**self.last_epoch for base in self.base_lrs]

        opt = optimizer(lib)
        schedule = Doubling(opt)
        opt.step()
        schedule.step()
        return [schedule.get_last_lr(), sorted(schedule.state_dict())]

    both(run)


def test_epoch_argument(both):
    def run(lib):
        opt = optimizer(lib)
        schedule = lib.optim.lr_scheduler.StepLR(opt, 2)
        opt.step()
        schedule.step(5)
        return schedule.get_last_lr()

    both(run, 0.0)
    opt = optim.SGD([nn.Parameter(flambeau.zeros(1))], lr=0.1)
    schedule = optim.lr_scheduler.StepLR(opt, 2)
    opt.step()
    with pytest.warns(UserWarning, match="epoch parameter"):
        schedule.step(5)
