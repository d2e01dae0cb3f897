"""Families of distributions against PyTorch: every number and gradient, and draws of one seed."""

from __future__ import annotations

import pytest
import torch

import flambeau
from tests.distributions.families import BESSEL, CASES, agree, close, outcome

torch.set_num_threads(1)
pytestmark = pytest.mark.filterwarnings("ignore:Singular sample", "ignore:Low df")

MOMENTS = ["mean", "mode", "variance", "stddev"]
# PyTorch's mode of Kumaraswamy's distribution is nan; see test_draws.py.
COMPARED = [(name, quantity) for name in CASES for quantity in MOMENTS if (name, quantity) != ("kumaraswamy", "mode")]
DOUBLE = [name for name in CASES if CASES[name].dtype == "float64"]


@pytest.mark.parametrize(("name", "quantity"), COMPARED)
def test_moments(name, quantity):
    tolerance = (1e-4, 1e-6) if name in BESSEL else (1e-9, 1e-12)
    agree(name, lambda d, point, t: getattr(d, quantity), *tolerance)


@pytest.mark.parametrize("name", CASES)
def test_parameters_can_be_read(name):
    """Each tensor and shape among the attributes: parameters given, and those that follow from them."""
    ours, theirs = (CASES[name].make(t)[0] for t in (flambeau, torch))
    for attribute in dir(theirs):
        if attribute.startswith("_") or attribute in MOMENTS:
            continue
        wanted = outcome(lambda: getattr(theirs, attribute))[0]  # noqa: B023
        if isinstance(wanted, torch.Tensor):
            close(getattr(ours, attribute), wanted)
        elif isinstance(wanted, torch.Size):
            assert tuple(getattr(ours, attribute)) == tuple(wanted)


@pytest.mark.parametrize("name", CASES)
def test_entropy(name):
    # PyTorch takes the multinomial's log n! in float32.
    agree(name, lambda d, point, t: d.entropy(), 1e-7 if name.startswith("multinomial") else 1e-9)


@pytest.mark.parametrize("name", CASES)
def test_log_prob(name):
    agree(name, lambda d, point, t: d.log_prob(point), *((1e-6, 1e-6) if name in BESSEL else (1e-9, 1e-12)))


@pytest.mark.parametrize("name", CASES)
def test_cdf(name):
    agree(name, lambda d, point, t: d.cdf(point))


@pytest.mark.parametrize("name", CASES)
def test_icdf(name):
    agree(name, lambda d, point, t: d.icdf(t.tensor([[0.1], [0.7]], dtype=point.dtype)))


@pytest.mark.parametrize("name", [name for name in DOUBLE if name not in BESSEL])
def test_second_derivatives(name):
    """Of log_prob, entropy and draws: the gradient of a sum over the gradients, by all parameters."""

    def slopes(value, inputs, t):
        grads = t.autograd.grad((value * value.detach().sin()).sum(), inputs, create_graph=True, allow_unused=True)
        return sum((g * g.detach().cos()).sum() for g in grads if g is not None and g.requires_grad)

    for what in (lambda d, x: d.log_prob(x), lambda d, x: d.entropy(), lambda d, x: d.rsample((3,))):
        results = []
        for t in (flambeau, torch):
            d, params = CASES[name].make(t)
            t.manual_seed(7)
            inputs = list(params.values())

            def twice():
                total = slopes(what(d, CASES[name].point(t, grad=False)), inputs, t)  # noqa: B023
                return t.autograd.grad(total, inputs, allow_unused=True)  # noqa: B023

            results.append(outcome(twice))
        (ours, _), (theirs, their_error) = results
        if their_error is not None:     # PyTorch has no second derivative, or nothing depends on the parameters
            continue
        assert ours is not None, results[0][1]
        for our, their in zip(ours, theirs, strict=True):
            if our is None or their is None:
                assert their is None or not their.any()
            else:
                close(our, their, 1e-6, 1e-8)


@pytest.mark.parametrize("name", CASES)
def test_enumerate_support(name):
    for expand in (True, False):
        agree(name, lambda d, point, t: d.enumerate_support(expand))  # noqa: B023


@pytest.mark.parametrize("name", CASES)
def test_draws_of_one_seed(name):
    agree(name, lambda d, point, t: d.sample((3, 2)))
    agree(name, lambda d, point, t: d.sample())


@pytest.mark.parametrize("name", CASES)
def test_reparameterised_draws_and_their_gradients(name):
    agree(name, lambda d, point, t: d.rsample((5,)))


@pytest.mark.parametrize(("name", "dtype"), [(name, dtype) for name in CASES for dtype in ("float32", "float64")
                                             if dtype == "float32" or name in DOUBLE])
def test_both_precisions(name, dtype):
    if dtype == "float32":
        tolerance = 2e-5, 1e-5 if name == "lkj_cholesky" else 2e-6     # its diagonal is what the rows leave of 1
    else:
        tolerance = (1e-7, 1e-12) if name in BESSEL else (1e-9, 1e-12)
    results = []
    for t in (flambeau, torch):
        d, _ = CASES[name].make(t, grad=False, dtype=dtype)
        t.manual_seed(5)
        results.append([d.sample((20,)), d.log_prob(CASES[name].point(t, grad=False, dtype=dtype)), t.rand(2)])
    for ours, theirs in zip(*results, strict=True):
        close(ours, theirs, *tolerance)


@pytest.mark.parametrize("name", CASES)
def test_natural_parameters(name):
    case = CASES[name]
    ours, theirs = case.make(flambeau)[0], case.make(torch)[0]
    if not isinstance(theirs, torch.distributions.ExponentialFamily):
        assert not isinstance(ours, flambeau.distributions.ExponentialFamily)
        return
    for our, their in zip(ours._natural_params, theirs._natural_params, strict=True):
        close(our, their)
    close(ours._log_normalizer(*ours._natural_params), theirs._log_normalizer(*theirs._natural_params))
    assert outcome(lambda: ours._mean_carrier_measure) == outcome(lambda: theirs._mean_carrier_measure)


@pytest.mark.parametrize("name", CASES)
def test_shapes_flags_and_print(name):
    case = CASES[name]
    ours, theirs = case.make(flambeau, grad=False)[0], case.make(torch, grad=False)[0]
    for d in (lambda t: t[0], lambda t: t[0].expand((4, 1, *t[0].batch_shape))):
        our, their = d((ours,)), d((theirs,))
        assert tuple(our.batch_shape) == tuple(their.batch_shape)
        assert tuple(our.event_shape) == tuple(their.event_shape)
        assert (our.has_rsample, our.has_enumerate_support) == (their.has_rsample, their.has_enumerate_support)
        assert repr(our) == repr(their)
        assert list(our.arg_constraints) == list(their.arg_constraints) or name.startswith("wishart")
        assert {k: repr(c) for k, c in our.arg_constraints.items()} == {
            k: repr(c) for k, c in their.arg_constraints.items()}
        assert repr(our.support) == repr(their.support)
        assert our.support.event_dim == their.support.event_dim
        assert our.support.is_discrete == their.support.is_discrete
    family = type(ours)
    assert family.__module__.split(".")[1:] == type(theirs).__module__.split(".")[1:]
    assert family.__name__ == type(theirs).__name__


@pytest.mark.parametrize("name", CASES)
def test_expanded_families_compute_the_same(name):
    def compute(d, point, t):
        wide = d.expand((4, *d.batch_shape))
        assert wide.expand(wide.batch_shape).batch_shape == wide.batch_shape
        if wide.has_rsample:
            return wide.rsample((2,))
        return wide.log_prob(wide.sample((2,)))

    agree(name, compute, *((1e-6, 1e-6) if name in BESSEL else (1e-9, 1e-12)))


@pytest.mark.parametrize("name", CASES)
def test_values_outside_the_support_are_refused(name):
    results = []
    for t in (flambeau, torch):
        d, _ = CASES[name].make(t, grad=False)
        point = CASES[name].point(t, grad=False)
        errors = []
        for value in (point * float("nan"), point - 100.5, "text", t.ones(7, 3, 5)):
            errors.append(outcome(lambda: d.log_prob(value).shape)[1])  # noqa: B023
        results.append(errors)
    assert results[0] == results[1]


@pytest.mark.parametrize("name", CASES)
def test_parameters_outside_their_range_are_refused(name):
    case = CASES[name]
    for spoiled in case.params:
        results = []
        for t in (flambeau, torch):
            for bad in (float("nan"), -1000.5):
                params = {k: t.tensor(v.tolist(), dtype=t.float64) for k, v in case.params.items()}
                params[spoiled] = params[spoiled] * 0 + bad
                family = case.of(t)
                results.append(outcome(lambda: repr(family(**params, **case.fixed)))[1])  # noqa: B023
        # PyTorch may reach a factorisation before it looks at the parameter.
        theirs = [ValueError if kind is torch.linalg.LinAlgError else kind for kind in results[2:]]
        assert results[:2] == theirs, spoiled
