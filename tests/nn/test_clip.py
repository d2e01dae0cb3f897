"""nn.utils: norms of gradients, clipping, parameters as a vector."""

from __future__ import annotations

import pytest

import flambeau
from flambeau import nn
from flambeau.nn.utils import clip_grad_norm_, get_total_norm


def parameters(*grads):
    ps = []
    for g in grads:
        p = nn.Parameter(flambeau.zeros(2))
        p.grad = None if g is None else flambeau.tensor(g)
        ps.append(p)
    return ps


@pytest.mark.parametrize("order", [2.0, 1, 3.0, float("inf"), "inf", 0.0])
def test_clipping(both, order):
    def run(lib):
        net = lib.nn.Linear(3, 4)
        (net(lib.ones(2, 3)).sum() * 3).backward()
        norm = lib.nn.utils.clip_grad_norm_(net.parameters(), 1.0, norm_type=order)
        return [norm, *(p.grad for p in net.parameters())]

    both(run)


def test_small_gradients_are_left(both):
    def run(lib):
        p = lib.nn.Parameter(lib.zeros(2))
        p.grad = lib.tensor([0.3, 0.4])
        return [lib.nn.utils.clip_grad_norm_(p, 1.0), p.grad,
                lib.nn.utils.clip_grad_norm_([lib.nn.Parameter(lib.zeros(1))], 1.0)]

    both(run)


def test_total_norm(both):
    both(lambda lib: lib.nn.utils.get_total_norm([lib.tensor([3.0]), lib.tensor([4.0], dtype=lib.float64)]))
    both(lambda lib: lib.nn.utils.get_total_norm(lib.tensor([3.0, 4.0]), norm_type=1))
    both(lambda lib: lib.nn.utils.get_total_norm([]))
    both(lambda lib: lib.nn.utils.get_total_norm([lib.tensor([3.0, float("nan")])], error_if_nonfinite=True))
    both(lambda lib: lib.nn.utils.get_total_norm([lib.ones(3, dtype=lib.float16),
                                                  lib.ones(2, dtype=lib.float16)]))


def test_clip_value(both):
    def run(lib):
        p = lib.nn.Parameter(lib.zeros(3))
        p.grad = lib.tensor([-2.0, 0.1, 3.0])
        lib.nn.utils.clip_grad_value_([p], 0.5)
        return p.grad

    both(run)


def test_clip_with_given_norm(both):
    def run(lib):
        p = lib.nn.Parameter(lib.zeros(3))
        p.grad = lib.tensor([-2.0, 0.1, 3.0])
        lib.nn.utils.clip_grads_with_norm_([p], 1.0, lib.tensor(10.0))
        return p.grad

    both(run)


def test_nonfinite_gradient_is_named_and_nothing_is_changed():
    ps = parameters([1.0, 1.0], None, [1.0, float("nan")], [float("inf"), 0.0])
    with pytest.raises(RuntimeError, match=r"non-finite.*parameter 2 \(shape \[2\]: NaN\), parameter 3 "
                                           r"\(shape \[2\]: infinite\)"):
        clip_grad_norm_(ps, 0.1, error_if_nonfinite=True)
    assert ps[0].grad.tolist() == [1.0, 1.0]


def test_nonfinite_gradient_warns_by_default():
    ps = parameters([1.0, 1.0], [1.0, float("nan")])
    with pytest.warns(UserWarning, match="non-finite.*parameter 1"):
        norm = clip_grad_norm_(ps, 0.1)
    assert norm.isnan().item()


def test_spent_generator_warns():
    net = nn.Linear(2, 1)
    net(flambeau.ones(1, 2)).sum().backward()
    given = net.parameters()
    list(given)
    before = net.weight.grad.tolist()
    with pytest.warns(UserWarning, match="empty generator.*model.parameters"):
        assert clip_grad_norm_(given, 0.1).item() == 0.0
    assert net.weight.grad.tolist() == before


def test_clipping_counts_as_a_write():
    (p,) = parameters([3.0, 4.0])
    before = p.grad._version
    clip_grad_norm_([p], 1.0)
    assert p.grad._version == before + 1
    assert get_total_norm([p.grad]).item() == pytest.approx(1.0, abs=1e-5)


def test_vector_of_parameters(both):
    def run(lib):
        net = lib.nn.Linear(2, 3)
        vector = lib.nn.utils.parameters_to_vector(net.parameters())
        lib.nn.utils.vector_to_parameters(lib.arange(9.0), net.parameters())
        return [vector, vector.requires_grad, net.weight, net.bias]

    both(run)
    both(lambda lib: lib.nn.utils.vector_to_parameters([1.0], []))
