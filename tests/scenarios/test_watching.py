"""Scenarios 14 to 16: hooks while backward runs, anomaly mode, norms of gradients."""

from __future__ import annotations

import inspect

import pytest

import flambeau


def test_every_kind_of_hook_fires_in_pytorchs_order(both):
    def program(torch):
        log = []
        model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))
        for i, layer in enumerate(model):
            layer.register_forward_pre_hook(lambda m, args, i=i: log.append(f"before {i}"))
            layer.register_forward_hook(lambda m, args, out, i=i: log.append(f"after {i}"))
            layer.register_full_backward_pre_hook(lambda m, g, i=i: log.append(f"backward before {i}"))
            layer.register_full_backward_hook(lambda m, gin, gout, i=i: log.append(
                f"backward {i} {[None if g is None else list(g.shape) for g in gin]}"))
        for name, p in model.named_parameters():
            p.register_hook(lambda g, name=name: log.append(f"gradient of {name}"))
            p.register_post_accumulate_grad_hook(lambda p, name=name: log.append(f"accumulated {name}"))
        x = torch.ones(4, 2, requires_grad=True)
        model(x).sum().backward()
        return log

    both(program)


def test_gradient_norms_of_each_layer_while_backward_runs(both):
    def program(torch):
        model = torch.nn.Sequential(*[torch.nn.Linear(6, 6) for _ in range(5)])
        norms = {}
        for name, layer in model.named_children():
            layer.register_full_backward_hook(lambda m, gin, gout, name=name: norms.__setitem__(name, gout[0].norm().item()))
        model(torch.randn(3, 6, requires_grad=True)).pow(2).sum().backward()
        return norms

    both(program)


def test_a_tensor_hook_can_change_the_gradient_and_be_removed(both):
    def program(torch):
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        handle = x.register_hook(lambda g: g * 10)
        (x * 3).sum().backward(retain_graph=True)
        changed = x.grad.clone()
        handle.remove()
        x.grad = None
        (x * 3).sum().backward()
        return changed, x.grad

    both(program)


def test_an_optimizer_step_in_backward(both):
    def program(torch):
        model = torch.nn.Linear(3, 2)
        optimizers = {p: torch.optim.SGD([p], lr=0.1) for p in model.parameters()}

        def step(p):
            optimizers[p].step()
            optimizers[p].zero_grad()

        for p in model.parameters():
            p.register_post_accumulate_grad_hook(step)
        model(torch.ones(1, 3)).sum().backward()
        return model.weight, model.bias, model.weight.grad

    both(program)


def test_anomaly_mode_names_the_operator_and_the_line_of_its_forward():
    x = flambeau.tensor([0.0, 4.0], requires_grad=True)
    with pytest.warns(UserWarning, match="Anomaly Detection has been enabled"):
        context = flambeau.autograd.detect_anomaly()
    with context:
        here = inspect.currentframe().f_lineno
        y = x.sqrt() * 0
        with pytest.warns(UserWarning, match=f"{here + 1}"), pytest.raises(RuntimeError, match="SqrtBackward0.*nan"):
            y.sum().backward()


def test_clipping_by_norm_and_by_value(both):
    def program(torch):
        model = torch.nn.Linear(4, 3)
        (model(torch.randn(2, 4)) * 50).pow(2).sum().backward()
        per_parameter = [p.grad.norm() for p in model.parameters()]
        total = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        clipped = [p.grad.clone() for p in model.parameters()]
        torch.nn.utils.clip_grad_value_(model.parameters(), 0.05)
        return per_parameter, total, clipped, [p.grad for p in model.parameters()]

    both(program)


def test_vanishing_and_exploding_gradients_show_layer_by_layer(both):
    def program(torch):
        found = []
        for scale in (0.1, 4.0):
            layers = [torch.nn.Linear(8, 8, bias=False) for _ in range(6)]
            for layer in layers:
                torch.nn.init.normal_(layer.weight, std=scale / 8 ** 0.5)
            torch.nn.Sequential(*layers)(torch.randn(4, 8)).sum().backward()
            norms = [layer.weight.grad.norm().item() for layer in layers]
            found.append((norms[0] < norms[-1], [round(x, 3) for x in norms]))
        return found

    both(program, rel=2e-3)


def test_dead_relus_and_the_size_of_updates(both):
    def program(torch):
        layer = torch.nn.Linear(5, 20)
        with torch.no_grad():
            layer.bias[:7] = -100
        active = []
        relu = torch.nn.ReLU()
        relu.register_forward_hook(lambda m, args, out: active.append((out > 0).any(0)))
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        relu(layer(torch.randn(64, 5))).sum().backward()
        before = layer.weight.detach().clone()
        optimizer.step()
        ratio = (layer.weight.detach() - before).norm() / before.norm()
        return int((~active[0]).sum()), ratio, (layer.weight.grad[:7] == 0).all().item()

    assert both(program)[0] >= 7
