"""Pruning: masks, names and values as PyTorch's."""

from __future__ import annotations

import importlib

import pytest


def prune(lib):
    return importlib.import_module(f"{lib.__name__}.nn.utils.prune")


WAYS = [lambda p, m: p.l1_unstructured(m, "weight", 0.5), lambda p, m: p.random_unstructured(m, "weight", 3),
        lambda p, m: p.ln_structured(m, "weight", 0.5, 2, 0), lambda p, m: p.random_structured(m, "weight", 1, 1),
        lambda p, m: p.identity(m, "bias"), lambda p, m: p.l1_unstructured(m, "weight", 0)]


@pytest.mark.parametrize("way", WAYS, ids=range(len(WAYS)))
def test_one_way(both, way):
    def run(lib):
        layer = lib.nn.Linear(3, 4)
        way(prune(lib), layer)
        out = layer(lib.ones(1, 3))
        out.square().sum().backward()
        names = [n for n, _ in layer.named_parameters()]
        return names, dict(layer.state_dict()), out, layer.weight, [p.grad for p in layer.parameters()]

    both(run)


def test_one_after_the_other_and_remove(both):
    def run(lib):
        p, layer = prune(lib), lib.nn.Linear(3, 4)
        p.l1_unstructured(layer, "weight", 0.3)
        p.ln_structured(layer, "weight", 1, 2, 0)
        p.random_unstructured(layer, "weight", 0.5)
        p.custom_from_mask(layer, "bias", lib.tensor([0, 1, 0, 1]))
        mask, was = layer.weight_mask, p.is_pruned(layer)
        kinds = [type(h).__name__ for h in layer._forward_pre_hooks.values()]
        p.remove(layer, "weight")
        p.remove(layer, "bias")
        return mask, was, kinds, p.is_pruned(layer), dict(layer.state_dict()), [n for n, _ in layer.named_parameters()]

    both(run)


def test_globally(both):
    def run(lib):
        p, model = prune(lib), lib.nn.Sequential(lib.nn.Linear(3, 2), lib.nn.Linear(2, 2))
        pairs = [(model[0], "weight"), (model[1], "weight")]
        p.global_unstructured(pairs, p.L1Unstructured, amount=0.5)
        p.global_unstructured(pairs, p.L1Unstructured, amount=2)
        return dict(model.state_dict()), p.L1Unstructured(amount=1).prune(lib.arange(4.0) + 1)

    both(run)


def test_scores_say_what_goes(both):
    def run(lib):
        layer = lib.nn.Linear(2, 2)
        prune(lib).l1_unstructured(layer, "weight", 1, importance_scores=lib.tensor([[3.0, 2.0], [0.5, 4.0]]))
        return layer.weight_mask

    both(run)


@pytest.mark.parametrize("attempt", [
    lambda p, layer: p.l1_unstructured(layer, "weight", 50), lambda p, layer: p.l1_unstructured(layer, "weight", 1.5),
    lambda p, layer: p.l1_unstructured(layer, "weight", "a"), lambda p, layer: p.ln_structured(layer, "bias", 1, 2, 0),
    lambda p, layer: p.ln_structured(layer, "weight", 1, 2, 3), lambda p, layer: p.remove(layer, "weight"),
    lambda p, layer: p.l1_unstructured(layer, "foo", 1)])
def test_errors(both, attempt):
    def run(lib):
        layer = lib.nn.Linear(2, 2)
        before = [n for n, _ in layer.named_parameters()]
        try:
            attempt(prune(lib), layer)
        finally:
            assert [n for n, _ in layer.named_parameters()] == before
        return 0

    both(run)
