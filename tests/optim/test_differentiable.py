"""differentiable=True: gradients flow through updates, to what they were computed from."""

from __future__ import annotations

import pytest

import flambeau
from flambeau import optim

CONFIGURATIONS = [
    ("SGD", {}), ("SGD", dict(momentum=0.9, weight_decay=0.1)), ("SGD", dict(momentum=0.9, nesterov=True)),
    ("SGD", dict(momentum=0.9, dampening=0.2, maximize=True)), ("Adam", {}), ("Adam", dict(weight_decay=0.1)),
    ("Adam", dict(amsgrad=True, maximize=True)), ("AdamW", dict(weight_decay=0.1)), ("AdamW", dict(amsgrad=True)),
    ("RMSprop", {}), ("RMSprop", dict(momentum=0.9, centered=True)), ("RMSprop", dict(weight_decay=0.1, maximize=True)),
    ("Adagrad", dict(lr_decay=0.1, weight_decay=0.1)), ("Adagrad", dict(maximize=True)),
    ("Adadelta", dict(weight_decay=0.1)), ("Adadelta", dict(maximize=True)), ("Adamax", dict(weight_decay=0.1)),
    ("Adamax", dict(maximize=True)), ("NAdam", {}), ("NAdam", dict(weight_decay=0.1)),
    ("NAdam", dict(weight_decay=0.1, decoupled_weight_decay=True)), ("RAdam", {}),
    ("RAdam", dict(weight_decay=0.1, decoupled_weight_decay=True)), ("RAdam", dict(betas=(0.5, 0.6))),
    ("Rprop", {}), ("Rprop", dict(maximize=True)), ("ASGD", dict(weight_decay=0.1)), ("ASGD", dict(t0=0)),
]
# PyTorch's recorded amsgrad takes a maximum of complex numbers, which it does not have: see the test after the next
CASES = [pytest.param(name, options, kind, id=f"{name}-{i}-{kind}") for i, (name, options) in enumerate(CONFIGURATIONS)
         for kind in ("float64", "complex128") if kind == "float64" or not options.get("amsgrad")]
STATES = {
    "SGD": ("momentum_buffer",), "Adam": ("exp_avg", "exp_avg_sq", "max_exp_avg_sq"),
    "AdamW": ("exp_avg", "exp_avg_sq", "max_exp_avg_sq"), "RMSprop": ("square_avg", "momentum_buffer", "grad_avg"),
    "Adagrad": ("sum",), "Adadelta": ("square_avg", "acc_delta"), "Adamax": ("exp_avg", "exp_inf"),
    "NAdam": ("exp_avg", "exp_avg_sq"), "RAdam": ("exp_avg", "exp_avg_sq"), "Rprop": ("prev", "step_size"),
    "ASGD": ("ax",),
}


def numbers(lib, seed, n=6, positive=False):
    made = [(((i + 1) * 37 + seed * 11) % 23) / 23 + 0.05 for i in range(n)]
    shift = 0.5 if positive else -0.5
    return lib.tensor([v + shift for v in made], dtype=lib.float64, requires_grad=True)


@pytest.mark.parametrize(("name", "options", "kind"), CASES)
def test_one_step_from_a_given_state(both, name, options, kind):
    def run(lib):
        def leaf(seed, positive=False):
            t = numbers(lib, seed, positive=positive)
            if kind == "float64":
                return t, t
            return t, lib.view_as_complex(t.view(3, 2))

        leaves, values = {}, {}
        leaves["p"], p = leaf(1)
        leaves["g"], g = leaf(2)
        for i, key in enumerate(STATES[name]):
            positive = "sq" in key or key in ("sum", "acc_delta", "exp_inf", "step_size")
            leaves[key], values[key] = leaf(3 + i, positive)
        p = p.clone()
        opt = getattr(lib.optim, name)([p], differentiable=True, **{"lr": 0.1, **options})
        p.grad = g
        wanted = {"SGD": ["momentum_buffer"] if options.get("momentum") else []}.get(name, STATES[name])
        if not options.get("amsgrad"):
            wanted = [k for k in wanted if k != "max_exp_avg_sq"]
        if name == "RMSprop":
            wanted = [k for k in wanted if k == "square_avg" or options.get("momentum")]
        state = {k: values[k].clone() for k in wanted}
        if name != "SGD":
            state["step"] = lib.tensor(4.0)
        if name == "NAdam":
            state["mu_product"] = lib.tensor(0.7)
        if name == "ASGD":
            state["eta"], state["mu"] = lib.tensor(0.1), lib.tensor(1.0)
        opt.state[p].update(state)
        opt.step()
        results = [p, *(opt.state[p][k] for k in wanted)]
        total = 0
        for i, r in enumerate(results):
            r = lib.view_as_real(r) if r.is_complex() else r
            total = total + (r * (i + 1)).square().sum()
        total.backward()
        return [results, {k: v.grad for k, v in leaves.items()}]

    both(run, 1e-6)


@pytest.mark.parametrize("name", ["Adam", "AdamW"])
def test_amsgrad_of_complex_numbers_is_that_of_their_parts(name):
    def after(form):
        """Two recorded steps, the second with smaller gradients: the parameters, and gradients through both steps."""
        start, g = numbers(flambeau, 1), numbers(flambeau, 2)
        w = form(start.view(3, 2)).clone()
        opt = getattr(optim, name)([w], lr=0.1, weight_decay=0.1, amsgrad=True, differentiable=True)
        for size in (1.0, 0.1):
            w.grad = form(g.view(3, 2)) * size
            opt.step()
        parts = flambeau.view_as_real(w) if w.is_complex() else w
        parts.square().sum().backward()
        return parts.detach(), start.grad, g.grad

    got, expected = after(flambeau.view_as_complex), after(lambda t: t)
    for a, b in zip(got, expected, strict=True):
        flambeau.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "NAdam", "RAdam"])
def test_learning_rate_is_learned(both, name):
    """PyTorch refuses a tensor that requires grad with the other optimizers."""
    def run(lib):
        start = numbers(lib, 1)
        rate = lib.tensor(0.1, dtype=lib.float64, requires_grad=True)
        w = start.clone()
        options = {"Adam": {"amsgrad": True}, "SGD": {}}.get(name, {})
        opt = getattr(lib.optim, name)([w], lr=rate, differentiable=True, **options)
        used = w.clone()                                # the step writes w: what the loss saved must stay
        loss = (used.sin() * lib.arange(1.0, 7.0)).sum()
        (w.grad,) = lib.autograd.grad(loss, used, create_graph=True)
        opt.step()
        (w.cos() * 2).sum().backward()
        return [w, start.grad, rate.grad]

    both(run, 2e-5)         # PyTorch computes the corrections of Adam in float32


@pytest.mark.parametrize("name", ["RMSprop", "Adagrad", "Adadelta", "Adamax", "ASGD"])
def test_learning_rate_that_pytorch_does_not_learn(name):
    """The gradient of the learning rate against differences."""
    def updated(rate):
        w = numbers(flambeau, 1).clone()
        opt = getattr(optim, name)([w], lr=rate, differentiable=True)
        w.grad = numbers(flambeau, 2) * 2
        opt.step()
        return w.sin().sum()

    rate = flambeau.tensor(0.1, dtype=flambeau.float64, requires_grad=True)
    (got,) = flambeau.autograd.grad(updated(rate), rate)
    difference = (updated(rate.detach() + 1e-5) - updated(rate.detach() - 1e-5)) / 2e-5
    assert got.item() == pytest.approx(difference.item(), rel=1e-3 if name == "ASGD" else 1e-5)     # eta is float32


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_meta_learning_over_several_steps(both, momentum):
    def run(lib):
        start = numbers(lib, 1)
        rate = lib.tensor(0.05, dtype=lib.float64, requires_grad=not momentum)
        w = start.clone()
        opt = lib.optim.SGD([w], lr=rate, momentum=momentum, differentiable=True)
        if momentum:            # PyTorch cuts the graph at the first gradient, which becomes the buffer
            opt.state[w]["momentum_buffer"] = lib.zeros_like(w)
        for i in range(4):
            used = w.clone()
            loss = ((used.tanh() * (i + 1)).sum() - 1) ** 2
            (w.grad,) = lib.autograd.grad(loss, used, create_graph=True)
            opt.step()
        outer = (w * w).sum()
        outer.backward()
        return [outer, start.grad, rate.grad]

    both(run, 1e-8)


def test_rate_and_start_are_learned_over_steps_with_momentum():
    """PyTorch's buffer is saved by one step and written by the next, which is an error in its backward."""
    def trained(start, rate):
        w = start.clone()
        opt = optim.SGD([w], lr=rate, momentum=0.9, differentiable=True)
        for _ in range(3):
            used = w.clone()
            (w.grad,) = flambeau.autograd.grad(used.sin().sum(), used, create_graph=True)
            opt.step()
        return (w * w).sum()

    inputs = numbers(flambeau, 1), flambeau.tensor(0.1, dtype=flambeau.float64, requires_grad=True)
    assert flambeau.autograd.gradcheck(trained, inputs)


def unrolled(start, rate, n):
    """n steps of Adam on sum(sin(w)), written out."""
    w, mean, square = start, 0.0, 0.0
    for i in range(1, n + 1):
        (g,) = flambeau.autograd.grad(w.sin().sum(), w, create_graph=True)
        mean, square = mean * 0.9 + g * 0.1, square * 0.999 + g * g * 0.001
        w = w - rate / (1 - 0.9**i) * mean / ((square / (1 - 0.999**i)).sqrt() + 1e-8)
    return w


def test_several_steps_of_adam_equal_the_formula():
    start, rate = numbers(flambeau, 1), flambeau.tensor(0.1, dtype=flambeau.float64, requires_grad=True)
    w = start.clone()
    opt = optim.Adam([w], lr=rate, differentiable=True)
    for _ in range(3):
        used = w.clone()
        (w.grad,) = flambeau.autograd.grad(used.sin().sum(), used, create_graph=True)
        opt.step()
    got = flambeau.autograd.grad((w**3).sum(), (start, rate))
    expected = flambeau.autograd.grad((unrolled(start, rate, 3) ** 3).sum(), (start, rate))
    for a, b in zip(got, expected, strict=True):
        flambeau.testing.assert_close(a, b, rtol=1e-9, atol=1e-12)


def test_gradients_reach_tensor_betas_and_weight_decay(both):
    def run(lib):
        start = numbers(lib, 1)
        beta1, beta2 = (lib.tensor(b, dtype=lib.float64, requires_grad=True) for b in (0.9, 0.99))
        decay = lib.tensor(0.1, dtype=lib.float64, requires_grad=True)
        w, v = start.clone(), start.clone()
        adam = lib.optim.Adam([w], betas=(beta1, beta2), weight_decay=decay, differentiable=True)
        sgd = lib.optim.SGD([v], lr=0.1, weight_decay=decay, differentiable=True)
        w.grad = v.grad = start * 2
        adam.state[w].update(step=lib.tensor(2.0), exp_avg=lib.full_like(w, 0.1).detach(),
                             exp_avg_sq=lib.full_like(w, 0.2).detach())
        adam.step()
        sgd.step()
        (w.sum() * 3 + v.square().sum()).backward()
        return [w, v, beta1.grad, beta2.grad, decay.grad, start.grad]

    both(run, 1e-6)


def test_leaves_cannot_be_written_by_a_recorded_step(both):
    def run(lib):
        p = lib.nn.Parameter(lib.ones(2))
        p.grad = lib.ones(2)
        lib.optim.SGD([p], lr=0.1, differentiable=True).step()

    both(run)


def test_what_contradicts_differentiable_is_refused(both):
    def fused(lib):
        lib.optim.Adam([lib.ones(2)], differentiable=True, fused=True)

    def foreach(lib):
        p = lib.ones(2, requires_grad=True).clone()
        p.grad = lib.ones(2)
        lib.optim.Adam([p], differentiable=True, foreach=True).step()

    def counted(lib):
        p = lib.ones(2, requires_grad=True).clone()
        p.grad = lib.ones(2)
        opt = lib.optim.Adam([p], differentiable=True)
        opt.state[p] = {"step": lib.tensor(1.0, requires_grad=True), "exp_avg": p * 0, "exp_avg_sq": p * 0}
        opt.step()

    for case in (fused, foreach, counted):
        both(case)
    with pytest.raises(RuntimeError, match="`fused` does not support `differentiable`"):
        fused(flambeau)
