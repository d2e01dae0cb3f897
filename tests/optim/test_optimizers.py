"""Optimizers follow PyTorch's trajectories; state, groups, hooks and errors as PyTorch's."""

from __future__ import annotations

import copy
import pickle

import pytest

import flambeau
from flambeau import nn, optim

CONFIGURATIONS = [
    ("SGD", {}), ("SGD", dict(momentum=0.9)), ("SGD", dict(momentum=0.9, nesterov=True)),
    ("SGD", dict(momentum=0.9, dampening=0.1, weight_decay=0.1, maximize=True)),
    ("SGD", dict(weight_decay=0.1)), ("Adam", {}), ("Adam", dict(amsgrad=True, weight_decay=0.1)),
    ("Adam", dict(maximize=True, betas=(0.5, 0.9), eps=1e-3)), ("AdamW", {}),
    ("AdamW", dict(amsgrad=True, maximize=True)), ("RMSprop", {}),
    ("RMSprop", dict(momentum=0.9, centered=True)), ("RMSprop", dict(weight_decay=0.1, maximize=True)),
    ("Adagrad", {}), ("Adagrad", dict(lr_decay=0.1, weight_decay=0.1, initial_accumulator_value=0.5)),
    ("Adadelta", dict(weight_decay=0.1)), ("Adamax", dict(weight_decay=0.1)),
]
IDS = [f"{name}-{i}" for i, (name, _) in enumerate(CONFIGURATIONS)]


def train(lib, net, opt, x, n):
    for _ in range(n):
        opt.zero_grad()
        (net(x) ** 2).mean().backward()
        opt.step()


def setup(lib):
    net = lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.Tanh(), lib.nn.Linear(4, 2)).double()
    return net, lib.randn(5, 3, dtype=lib.float64)


@pytest.mark.parametrize(("name", "options"), CONFIGURATIONS, ids=IDS)
def test_trajectory(both, name, options):
    def run(lib):
        net, x = setup(lib)
        opt = getattr(lib.optim, name)(net.parameters(), lr=0.05, **options)
        train(lib, net, opt, x, 5)
        opt.param_groups[0]["lr"] = 0.01
        train(lib, net, opt, x, 2)
        state = opt.state_dict()
        return [*net.parameters(), {k: {n: v for n, v in s.items() if n not in ("step", "eta", "mu_product")} for k,
                                    s in state["state"].items()},
                [sorted(k for k in g if g[k] is not None) for g in state["param_groups"]]]

    both(run, 1e-10)


@pytest.mark.parametrize(("name", "options"), CONFIGURATIONS, ids=IDS)
def test_large_and_strided_parameters(both, name, options):
    def run(lib):
        ps = [lib.nn.Parameter(lib.linspace(-1, 1, 30000, dtype=lib.float64)),
              lib.nn.Parameter(lib.linspace(-1, 1, 12000, dtype=lib.float64).view(100, 120).t()),
              lib.nn.Parameter(lib.linspace(-1, 1, 12, dtype=lib.float64).view(3, 4).t())]
        opt = getattr(lib.optim, name)(ps, lr=0.05, **options)
        for _ in range(3):
            opt.zero_grad()
            sum((p**3).sum() for p in ps).backward()
            opt.step()
        return [ps[0][::997], ps[1][::13, ::17], ps[2]]

    both(run, 1e-10)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad"])
def test_complex_parameters(both, name):
    def run(lib):
        p = lib.nn.Parameter(lib.ones(3, dtype=lib.complex64) * (1 + 2j))
        opt = getattr(lib.optim, name)([p], lr=0.1)
        for _ in range(3):
            opt.zero_grad()
            (p.abs() ** 2).sum().backward()
            opt.step()
        return lib.view_as_real(p.detach())

    both(run)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_parameters(both, dtype):
    def run(lib):
        p = lib.nn.Parameter(lib.ones(3, dtype=getattr(lib, dtype)))
        opt = lib.optim.SGD([p], lr=0.1, momentum=0.9)
        (p.float() ** 2).sum().backward()
        opt.step()
        return p

    both(run)


def test_parameters_without_gradient_wait(both):
    def run(lib):
        net, x = setup(lib)
        opt = lib.optim.Adam(net.parameters(), lr=0.01)
        train(lib, net, opt, x, 2)
        opt.zero_grad()
        net[0].weight.grad = lib.ones(4, 3, dtype=lib.float64)
        opt.step()
        train(lib, net, opt, x, 2)
        return [*net.parameters(), [float(opt.state[p]["step"]) for p in net.parameters()]]

    both(run, 1e-10)


def test_groups_with_options_of_their_own(both):
    def run(lib):
        net, x = setup(lib)
        opt = lib.optim.SGD([{"params": net[0].parameters(), "lr": 0.5}, {"params": [net[2].weight]}], lr=0.1)
        opt.add_param_group({"params": net[2].bias, "lr": 0.0})
        train(lib, net, opt, x, 3)
        return [*net.parameters(), repr(opt), [g["lr"] for g in opt.param_groups]]

    both(run, 1e-10)


ERRORS = {
    "empty": lambda lib, p: lib.optim.SGD([]), "tensor": lambda lib, p: lib.optim.SGD(p),
    "not a leaf": lambda lib, p: lib.optim.SGD([p * 2]), "number": lambda lib, p: lib.optim.SGD([1]),
    "lr": lambda lib, p: lib.optim.SGD([p], lr=-1), "momentum": lambda lib,
    p: lib.optim.SGD([p], momentum=-1), "decay": lambda lib, p: lib.optim.SGD([p], weight_decay=-1),
    "nesterov": lambda lib, p: lib.optim.SGD([p], nesterov=True), "beta1": lambda lib,
    p: lib.optim.Adam([p], betas=(1.0, 0)), "beta2": lambda lib, p: lib.optim.Adam([p], betas=(0, 1.0)),
    "eps": lambda lib, p: lib.optim.Adam([p], eps=-1), "twice": lambda lib,
    p: lib.optim.SGD([{"params": [p]}, {"params": [p]}]), "no params": lambda lib,
    p: lib.optim.SGD([{"foo": 1}]), "some names": lambda lib,
    p: lib.optim.SGD([("a", p), lib.nn.Parameter(lib.zeros(1))]), "set": lambda lib,
    p: lib.optim.SGD([p]).add_param_group({"params": {lib.nn.Parameter(lib.zeros(1))}}),
    "no dict": lambda lib, p: lib.optim.SGD([p]).add_param_group(3), "foreach and fused": lambda lib,
    p: lib.optim.Adam([p], foreach=True, fused=True), "lr of two": lambda lib,
    p: lib.optim.Adam([p], lr=lib.zeros(2)), "alpha": lambda lib, p: lib.optim.RMSprop([p], alpha=-1),
    "lr_decay": lambda lib, p: lib.optim.Adagrad([p], lr_decay=-1), "rho": lambda lib,
    p: lib.optim.Adadelta([p], rho=2.0), "no step": lambda lib, p: lib.optim.Optimizer([p], {}).step(),
    "other groups": lambda lib, p: lib.optim.SGD([p]).load_state_dict({"state": {}, "param_groups": []}),
    "other sizes": lambda lib, p: lib.optim.SGD([p]).load_state_dict(
        {"state": {}, "param_groups": [{"params": [0, 1]}]}),
}


@pytest.mark.parametrize("name", ERRORS)
def test_refused(both, name):
    answer = both(lambda lib: ERRORS[name](lib, lib.nn.Parameter(lib.zeros(2))) and None)
    assert answer is not None


def test_messages_say_what_to_do():
    p = nn.Parameter(flambeau.zeros(2))
    with pytest.raises(ValueError, match="empty parameter list.*generator.*nn.ModuleList"):
        optim.SGD([])
    with pytest.raises(TypeError, match=r"'Linear' object is not iterable.*Pass model.parameters\(\)"):
        optim.SGD(nn.Linear(1, 1))
    assert len(optim.SGD(nn.ParameterList([p])).param_groups[0]["params"]) == 1
    with pytest.raises(ValueError, match="can't optimize a non-leaf Tensor.*MulBackward0"):
        optim.SGD([p * 2])
    with pytest.warns(UserWarning, match="duplicate parameters"):
        optim.SGD([p, p])
    with pytest.raises(AttributeError, match="torch.optim.Lion.*Use one of.*Adam"):
        optim.Lion  # noqa: B018


@pytest.mark.parametrize("name", ["SGD", "Adam", "Adagrad", "Rprop"])
def test_groups_may_be_empty(both, name):
    """A program freezes the layers of a group, or fills it later."""
    def run(lib):
        opt = getattr(lib.optim, name)([{"params": []}], lr=0.1)
        opt.step()
        p = lib.nn.Parameter(lib.ones(2))
        opt.add_param_group({"params": [p]})
        p.grad = lib.tensor([1.0, -2.0])
        opt.step()
        return [p, len(opt.param_groups), sorted(opt.state_dict()["state"])]

    both(run)


def test_hooks(both):
    def run(lib):
        p = lib.nn.Parameter(lib.ones(2))
        p.grad = lib.ones(2)
        opt, log = lib.optim.SGD([p], lr=0.1), []
        handles = [opt.register_step_pre_hook(lambda o, a, k: log.append(["pre", len(a), k])),
                   opt.register_step_post_hook(lambda o, a, k: log.append(["post", len(a), float(p[0])])),
                   opt.register_state_dict_pre_hook(lambda o: log.append("state")),
                   opt.register_state_dict_post_hook(lambda o, s: {**s, "more": 1}),
                   opt.register_load_state_dict_pre_hook(lambda o, s: log.append("more" in s)),
                   opt.register_load_state_dict_post_hook(lambda o: log.append("loaded"))]
        opt.step()
        opt.load_state_dict(opt.state_dict())
        for handle in handles:
            handle.remove()
        opt.step()
        return [log, p]

    both(run)


def test_closure_runs_recorded_and_is_returned(both):
    def run(lib):
        p = lib.nn.Parameter(lib.ones(2))
        opt = lib.optim.SGD([p], lr=0.1)

        def closure():
            opt.zero_grad()
            loss = (p * p).sum()
            loss.backward()
            return loss

        with lib.no_grad():
            loss = opt.step(closure)
        return [loss, p, opt.step() is None]

    both(run)


def test_optimizers_of_users(both):
    def run(lib):
        class Plain(lib.optim.Optimizer):
            def __init__(self, params, lr=0.1):
                super().__init__(params, dict(lr=lr))

            @lib.no_grad()
            def step(self, closure=None):
                for group in self.param_groups:
                    for p in group["params"]:
                        p.add_(p.grad, alpha=-group["lr"])
                        self.state[p]["n"] = self.state[p].get("n", 0) + 1

        p = lib.nn.Parameter(lib.ones(2))
        p.grad = lib.ones(2)
        opt, called = Plain([p]), []
        opt.register_step_post_hook(lambda *a: called.append(1))
        opt.step()
        schedule = lib.optim.lr_scheduler.StepLR(opt, 1)
        opt.step()
        schedule.step()
        return [p, opt.state_dict(), called, repr(opt)]

    both(run)


def test_loading_copies_the_state():
    p1, p2 = nn.Parameter(flambeau.ones(2)), nn.Parameter(flambeau.ones(2))
    o1, o2 = optim.SGD([p1], lr=0.1, momentum=0.9), optim.SGD([p2], lr=0.1, momentum=0.9)
    p1.grad = flambeau.ones(2)
    o1.step()
    o2.load_state_dict(o1.state_dict())
    p1.grad = flambeau.full((2,), 5.0)
    o1.step()
    assert o2.state[p2]["momentum_buffer"].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("name", ["SGD", "Adam", "RMSprop"])
def test_resumed_equals_continued(name):
    def start():
        flambeau.manual_seed(0)
        net, x = setup(flambeau)
        return net, x, getattr(optim, name)(net.parameters(), lr=0.05,
                                            **({"momentum": 0.9} if name != "Adam" else {}))

    net, x, opt = start()
    train(flambeau, net, opt, x, 6)
    half, x, opt = start()
    train(flambeau, half, opt, x, 3)
    saved = pickle.loads(pickle.dumps((half.state_dict(), opt.state_dict())))
    fresh, x, opt = start()
    fresh.load_state_dict(saved[0])
    opt.load_state_dict(saved[1])
    train(flambeau, fresh, opt, x, 3)
    assert [p.tolist() for p in fresh.parameters()] == [p.tolist() for p in net.parameters()]


def test_copies_are_independent():
    flambeau.manual_seed(0)
    net, x = setup(flambeau)
    opt = optim.Adam(net.parameters(), lr=0.05)
    train(flambeau, net, opt, x, 2)
    net2, opt2 = copy.deepcopy((net, opt))
    assert opt2.param_groups[0]["params"][0] is net2[0].weight
    train(flambeau, net, opt, x, 2)
    train(flambeau, net2, opt2, x, 2)
    assert [p.tolist() for p in net2.parameters()] == [p.tolist() for p in net.parameters()]
    before = opt2.state[net2[0].weight]["exp_avg"].tolist()
    train(flambeau, net, opt, x, 1)
    assert opt2.state[net2[0].weight]["exp_avg"].tolist() == before


def test_state_changed_by_the_user_is_used():
    flambeau.manual_seed(0)
    p = nn.Parameter(flambeau.ones(3))
    q = nn.Parameter(flambeau.ones(2))
    opt = optim.SGD([p, q], lr=1.0, momentum=0.5)
    p.grad, q.grad = flambeau.ones(3), flambeau.ones(2)
    opt.step()
    opt.state[p]["momentum_buffer"].zero_()
    opt.state[q]["momentum_buffer"] = flambeau.full((2,), 4.0)
    opt.step()
    assert p.tolist() == [-1.0] * 3 and q.tolist() == [-3.0] * 2
    opt.state.clear()
    opt.step()
    assert p.tolist() == [-2.0] * 3


def test_step_is_a_write_that_backward_notices():
    net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    opt = optim.SGD(net.parameters(), lr=0.5)
    versions = [p._version for p in net.parameters()]
    out = net(flambeau.ones(4, 2))
    out.mean().backward(retain_graph=True)
    opt.step()
    assert [p._version - v for p, v in zip(net.parameters(), versions, strict=True)] == [1, 1, 1, 1]
    with pytest.raises(RuntimeError, match="inplace operation"):
        (out * out).mean().backward()


@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_seam_of_the_compiler_does_what_step_does(name):
    def start():
        flambeau.manual_seed(0)
        p = nn.Parameter(flambeau.ones(3))
        p.grad = flambeau.tensor([1.0, 2.0, 3.0])
        return p, getattr(optim, name)([p], lr=0.1)

    p, opt = start()
    q, other = start()
    opt.step()
    other.apply(other.scalars())
    assert p.tolist() == q.tolist()
    key = other.key()
    hash(key)
    other.param_groups[0]["lr"] = 0.5
    assert other.key() == key                 # a number that may change is not part of it
    other.param_groups[0]["weight_decay"] = 0.5
    assert other.key() != key


def test_zero_grad_forms(both):
    def run(lib):
        p = lib.nn.Parameter(lib.ones(2))
        opt = lib.optim.SGD([p], lr=0.1)
        p.sum().backward()
        kept = p.grad
        opt.zero_grad(set_to_none=False)
        found = [p.grad is kept, p.grad]
        opt.zero_grad()
        return [*found, p.grad]

    both(run)


def test_lr_as_tensor(both):
    def run(lib):
        p = lib.nn.Parameter(lib.tensor(2.0))
        rate = lib.tensor(0.1)
        opt = lib.optim.Adam([p], lr=rate)
        schedule = lib.optim.lr_scheduler.ExponentialLR(opt, 0.5)
        for _ in range(2):
            opt.zero_grad()
            (p * p).backward()
            opt.step()
            schedule.step()
        return [p, rate, schedule.get_last_lr()]

    both(run)
