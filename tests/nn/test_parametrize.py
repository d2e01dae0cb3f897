"""Parametrizations, weight and spectral norm, fusion, functional calls."""

from __future__ import annotations

import copy
import importlib
import pickle

import pytest
import torch

import flambeau

OLD = pytest.mark.filterwarnings("ignore:.*deprecated:FutureWarning")


def utils(lib, name):
    return importlib.import_module(f"{lib.__name__}.nn.utils.{name}")


def symmetric(lib):
    class Symmetric(lib.nn.Module):
        def forward(self, x):
            return x.triu() + x.triu(1).T

        def right_inverse(self, x):
            return x.triu()

    return Symmetric()


def double(lib):
    class Double(lib.nn.Module):
        def forward(self, x):
            return x * 2

    return Double()


def product(lib):
    class Product(lib.nn.Module):
        def forward(self, a, b):
            return a * b

        def right_inverse(self, w):
            return w, lib.ones_like(w)

    return Product()


def names(module):
    return [n for n, _ in module.named_parameters()]


def test_parametrized_layer(both):
    def run(lib):
        p = utils(lib, "parametrize")
        layer = p.register_parametrization(lib.nn.Linear(3, 3), "weight", symmetric(lib))
        first = [repr(layer), names(layer), list(layer.state_dict()), layer.weight, p.is_parametrized(layer, "bias")]
        layer(lib.ones(1, 3)).square().sum().backward()
        grad = layer.parametrizations.weight.original.grad
        layer.weight = lib.eye(3) * 2
        with p.cached():
            assert layer.weight is layer.weight
        assert layer.weight is not layer.weight
        original = layer.parametrizations.weight.original
        p.remove_parametrizations(layer, "weight")
        assert layer.weight is original and type(layer) is lib.nn.Linear
        return first, grad, layer.weight, repr(layer), names(layer)

    both(run)


def test_several_originals_and_chains(both):
    def run(lib):
        p = utils(lib, "parametrize")
        layer = lib.nn.Linear(2, 2)
        p.register_parametrization(layer, "weight", product(lib))
        p.register_parametrization(layer, "weight", double(lib))
        p.register_parametrization(layer, "bias", double(lib))
        other = p.transfer_parametrizations_and_params(layer, lib.nn.Linear(2, 2))
        shown = repr(other), names(layer), other.weight, layer.weight
        p.remove_parametrizations(layer, "bias", leave_parametrized=False)
        p.remove_parametrizations(layer, "weight")
        return shown, repr(layer), layer.weight, layer.bias, type(layer).__name__

    both(run)


@pytest.mark.parametrize("attempt", [
    lambda lib, p: p.register_parametrization(lib.nn.Linear(2, 2), "foo", double(lib)),
    lambda lib, p: p.remove_parametrizations(lib.nn.Linear(2, 2), "weight"),
    lambda lib, p: p.register_parametrization(lib.nn.Linear(2, 2), "weight", lib.nn.Flatten(0)),
    lambda lib, p: setattr(p.register_parametrization(lib.nn.Linear(2, 2), "weight", double(lib)), "weight", lib.eye(2)),
    lambda lib, p: p.remove_parametrizations(p.register_parametrization(lib.nn.Linear(2, 2), "weight", product(lib)),
                                             "weight", leave_parametrized=False),
    lambda lib, p: pickle.dumps(p.register_parametrization(lib.nn.Linear(2, 2), "weight", double(lib))),
])
def test_errors_are_of_pytorchs_kinds(both, attempt):
    both(lambda lib: [attempt(lib, utils(lib, "parametrize")) and 0])


def test_a_copy_keeps_its_own_class():
    p = utils(flambeau, "parametrize")
    layer = p.register_parametrization(flambeau.nn.Linear(2, 2), "weight", double(flambeau))
    other = copy.deepcopy(layer)
    p.remove_parametrizations(other, "weight")
    assert p.is_parametrized(layer) and layer.weight.shape == (2, 2)


def test_a_failing_parametrization_says_so():
    class Broken(flambeau.nn.Module):
        def forward(self, x):
            return x.no_such_method()

    p = utils(flambeau, "parametrize")
    layer = p.register_parametrization(flambeau.nn.Linear(2, 2), "weight", Broken(), unsafe=True)
    with pytest.raises(RuntimeError, match="parametrization of 'weight' failed.*no_such_method"):
        layer(flambeau.ones(1, 2))


@pytest.mark.parametrize("make", [
    lambda lib, n: n.weight_norm(lib.nn.Linear(3, 2)), lambda lib, n: n.weight_norm(lib.nn.Linear(3, 2), dim=None),
    lambda lib, n: n.weight_norm(lib.nn.Conv2d(2, 3, 2), dim=1), lambda lib, n: n.spectral_norm(lib.nn.Linear(3, 2)),
    lambda lib, n: n.spectral_norm(lib.nn.ConvTranspose1d(3, 2, 2)),
    *[lambda lib, n, m=m, s=s: n.orthogonal(lib.nn.Linear(*s), orthogonal_map=m)
      for m in ("matrix_exp", "cayley", "householder") for s in ((3, 3), (4, 2), (2, 4))],
    lambda lib, n: n.orthogonal(lib.nn.Linear(2, 4), use_trivialization=False),
], ids=range(15))
def test_ready_parametrizations(both, make):
    def run(lib):
        layer = make(lib, utils(lib, "parametrizations"))
        weight = layer.weight
        (weight * lib.arange(weight.numel()).reshape(weight.shape).cos()).sum().backward()
        layer.eval()
        return list(layer.state_dict()), weight, layer.weight, [p.grad for p in layer.parameters()]

    both(run, tolerance=1e-4)


@OLD
@pytest.mark.parametrize("name", ["weight_norm", "spectral_norm"])
def test_hooks_of_old(both, name):
    def run(lib):
        layer = getattr(lib.nn.utils, name)(lib.nn.Linear(3, 2))
        out = layer(lib.ones(2, 3)), layer(lib.ones(1, 3))
        sum(t.square().sum() for t in out).backward()
        state, grads = dict(layer.state_dict()), [p.grad for p in layer.parameters()]
        getattr(lib.nn.utils, f"remove_{name}")(layer)
        return out, state, grads, dict(layer.state_dict())

    both(run)
    with pytest.raises(ValueError, match="not found"):
        getattr(flambeau.nn.utils, f"remove_{name}")(flambeau.nn.Linear(2, 2))


def test_weight_norm_reads_old_checkpoints(both):
    def run(lib):
        layer = utils(lib, "parametrizations").weight_norm(lib.nn.Linear(3, 2))
        layer.load_state_dict({"bias": lib.zeros(2), "weight_g": lib.ones(2, 1), "weight_v": lib.ones(2, 3)})
        return layer.weight

    both(run)


def test_fusion():
    x = flambeau.randn(2, 2, 5, 5)
    for make, transpose in ((flambeau.nn.Conv2d, False), (flambeau.nn.ConvTranspose2d, True)):
        conv, bn = make(2, 3, 2, bias=False).eval(), flambeau.nn.BatchNorm2d(3).eval()
        bn.running_mean.normal_()
        bn.running_var.uniform_(0.5, 2)
        fused = flambeau.nn.utils.fuse_conv_bn_eval(conv, bn, transpose)
        assert flambeau.allclose(fused(x), bn(conv(x)), atol=1e-5)
        assert conv.bias is None
    linear, bn = flambeau.nn.Linear(2, 3).eval(), flambeau.nn.BatchNorm1d(3).eval()
    rows = flambeau.randn(4, 2)
    assert flambeau.allclose(flambeau.nn.utils.fuse_linear_bn_eval(linear, bn)(rows), bn(linear(rows)), atol=1e-5)
    with pytest.raises(AssertionError, match="eval"):
        flambeau.nn.utils.fuse_linear_bn_eval(linear.train(), bn)


# ---------------------------------------------------------------------------------------- functional calls


def call(lib):
    return importlib.import_module(f"{lib.__name__}.func").functional_call


def test_functional_call(both):
    def run(lib):
        layer = lib.nn.Linear(2, 2)
        weight = lib.eye(2).requires_grad_()
        x = lib.arange(2.0).reshape(1, 2)
        out = call(lib)(layer, {"weight": weight}, x)
        out.sum().backward()
        two = call(lib)(layer, ({"weight": lib.eye(2)}, {"bias": lib.zeros(2)}), (x,))
        norm = lib.nn.BatchNorm1d(2)
        buffers = {k: v.clone() for k, v in norm.named_buffers()}
        call(lib)(norm, buffers, lib.arange(6.0).reshape(3, 2))
        return out, two, weight.grad, layer.weight.grad, buffers, dict(norm.named_buffers()), names(layer)

    both(run)


def test_tied_weights(both):
    def run(lib):
        model = lib.nn.Sequential(lib.nn.Linear(2, 2), lib.nn.Linear(2, 2))
        model[1].weight = model[0].weight
        given = {"0.weight": lib.eye(2), "0.bias": lib.zeros(2), "1.bias": lib.zeros(2)}
        x = lib.arange(2.0).reshape(1, 2)
        return call(lib)(model, given, x), call(lib)(model, given, x, tie_weights=False)

    both(run)


@pytest.mark.parametrize("given", [{"weight": 3}, {"a.b": 1.0}, ({"weight": 1.0}, {"weight": 1.0})], ids=str)
def test_functional_call_errors(both, given):
    def run(lib):
        def tensors(d):
            return {k: lib.full((2, 2), v) if isinstance(v, float) else v for k, v in d.items()}

        return call(lib)(lib.nn.Linear(2, 2), tensors(given) if isinstance(given, dict) else tuple(map(tensors, given)),
                         lib.ones(1, 2))

    both(run)
    both(lambda lib: call(lib)(lib.nn.Linear(2, 2), {"weight": lib.eye(2)}, lib.ones(1, 2), strict=True))


def test_lstm_follows_functional_call():
    layer = flambeau.nn.LSTM(2, 3)
    zeros = {n: flambeau.zeros_like(p) for n, p in layer.named_parameters()}
    assert not call(flambeau)(layer, zeros, flambeau.ones(2, 1, 2))[0].any()
    assert layer(flambeau.ones(2, 1, 2))[0].any()


def test_stack_module_state():
    models = [torch.nn.Linear(2, 3), torch.nn.Linear(2, 3)], [flambeau.nn.Linear(2, 3), flambeau.nn.Linear(2, 3)]
    for lib, group in zip((torch, flambeau), models, strict=True):
        params, buffers = importlib.import_module(f"{lib.__name__}.func").stack_module_state(group)
        assert {k: tuple(v.shape) for k, v in params.items()} == {"weight": (2, 3, 2), "bias": (2, 3)} and buffers == {}
        assert params["weight"].requires_grad and params["weight"].is_leaf


def test_skip_init_allocates_only():
    layer = flambeau.nn.utils.skip_init(flambeau.nn.Linear, 2, 3)
    assert layer.weight.shape == (3, 2) and layer.weight.device.type == "cpu"
    with pytest.raises(RuntimeError, match="device"):
        flambeau.nn.utils.skip_init(flambeau.nn.ReLU)
