"""Families of distributions against PyTorch: every number and gradient, and draws of one seed."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

import flambeau

torch.set_num_threads(1)
pytestmark = pytest.mark.filterwarnings("ignore:Singular sample", "ignore:Low df")


class Case:
    """A family with parameters.

    Args:
        family: name in torch.distributions.
        value: where log_prob is evaluated, array or number; broadcasts with the batch.
        fixed: arguments that are no tensors.
        dtype: of the comparison.
        **params: arrays.
    """

    def __init__(self, family, value, fixed=None, dtype="float64", **params):
        self.dtype = dtype
        self.family, self.value, self.fixed = family, np.asarray(value, np.float64), fixed or {}
        self.params = {name: np.asarray(array, np.float64) for name, array in params.items()}

    def make(self, t, grad=True, dtype=None, **more):
        """(the distribution, its parameters) in library t."""
        params = {name: t.tensor(array.tolist(), dtype=getattr(t, dtype or self.dtype), requires_grad=grad)
                  for name, array in self.params.items()}
        return getattr(t.distributions, self.family)(**params, **self.fixed, **more), params

    def point(self, t, grad=True, dtype=None):
        return t.tensor(self.value.tolist(), dtype=getattr(t, dtype or self.dtype), requires_grad=grad)


def _spd(*rows):
    return np.array(rows, np.float64)


_V = _spd([2.0, 0.3], [0.3, 1.0])
CASES = {
    "beta": Case("Beta", [[0.3], [0.9]], concentration1=[0.5, 1.5, 3.0, 20.0], concentration0=[0.7, 1.0, 2.0, 9.0]),
    "binomial": Case("Binomial", 4.0, total_count=[5.0, 5.0, 5.0], probs=[0.1, 0.5, 0.9]),
    "binomial many": Case("Binomial", 31.0, {"total_count": 60}, probs=[[0.1, 0.3], [0.7, 0.9]]),
    "binomial logits": Case("Binomial", [[2.0], [5.0]], {"total_count": 5}, logits=[-1.0, 0.0, 2.0]),
    "binomial counts": Case("Binomial", 2.0, total_count=[5.0, 7.0], probs=[0.3, 0.4]),
    "chi2": Case("Chi2", [[0.5], [3.0]], df=[0.7, 2.0, 5.0]),
    "continuous_bernoulli": Case("ContinuousBernoulli", [[0.1], [0.8]], probs=[0.0, 0.2, 0.4995, 0.5, 0.7, 1.0]),
    "continuous_bernoulli logits": Case("ContinuousBernoulli", [[0.1], [0.8]], logits=[-3.0, 0.0, 1.5]),
    "continuous_bernoulli lims": Case("ContinuousBernoulli", 0.3, {"lims": (0.4, 0.6)}, probs=[0.39, 0.45, 0.61]),
    "dirichlet": Case("Dirichlet", [0.2, 0.3, 0.5], concentration=[[1.0, 2.0, 3.0], [0.5, 0.6, 0.7], [9.0, 1.5, 30.0]]),
    "exponential": Case("Exponential", [[0.5], [3.0]], rate=[0.7, 2.0, 5.0]),
    "fishersnedecor": Case("FisherSnedecor", [[0.5], [3.0]], df1=[1.5, 3.0, 8.0], df2=[1.0, 3.0, 9.0]),
    "gamma": Case("Gamma", [[0.5], [3.0]], concentration=[0.3, 1.0, 2.5, 30.0], rate=[0.7, 2.0, 1.0, 5.0]),
    "generalized_pareto": Case("GeneralizedPareto", [[1.2], [1.9]], dtype="float32", loc=1.0,
                               scale=[2.0, 1.0, 2.0, 3.0, 1.0], concentration=[-0.5, 0.0, 0.3, 1.5, -1.0]),
    "geometric": Case("Geometric", [[0.0], [3.0]], probs=[0.1, 0.5, 0.9]),
    "geometric sure": Case("Geometric", 0.0, probs=[1.0, 0.5]),
    "geometric logits": Case("Geometric", [[0.0], [3.0]], logits=[-2.0, 0.0, 1.0]),
    "gumbel": Case("Gumbel", [[-0.5], [3.0]], loc=[0.0, 1.0, -2.0], scale=[1.0, 2.0, 0.5]),
    "inverse_gamma": Case("InverseGamma", [[0.5], [3.0]], concentration=[0.3, 1.5, 2.5, 30.0], rate=[0.7, 2.0, 1.0, 5.0]),
    "kumaraswamy": Case("Kumaraswamy", [[0.3], [0.9]], concentration1=[0.5, 1.5, 3.0], concentration0=[0.7, 1.0, 2.0]),
    "laplace": Case("Laplace", [[-0.5], [3.0]], loc=[0.0, 1.0, -2.0], scale=[1.0, 2.0, 0.5]),
    "lkj_cholesky": Case("LKJCholesky", [[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.0, 0.6, 0.8]], {"dim": 3},
                         concentration=[0.5, 1.0, 3.0]),
    "multinomial": Case("Multinomial", [2.0, 1.0, 1.0], {"total_count": 4}, probs=[[1.0, 2.0, 1.0], [0.2, 0.2, 0.6]]),
    "multinomial logits": Case("Multinomial", [2.0, 0.0, 2.0], {"total_count": 4}, logits=[0.3, -0.5, 1.0]),
    "negative_binomial": Case("NegativeBinomial", [[0.0], [4.0]], total_count=[2.0, 3.5, 20.0], probs=[0.1, 0.5, 0.9]),
    "negative_binomial logits": Case("NegativeBinomial", 3.0, total_count=[2.0, 3.5], logits=[-1.0, 0.5]),
    "pareto": Case("Pareto", [[2.5], [4.0]], scale=[1.0, 2.0, 0.5], alpha=[0.5, 1.5, 3.0]),
    "poisson": Case("Poisson", [[0.0], [7.0]], rate=[0.5, 4.0, 30.0]),
    "studentT": Case("StudentT", [[-0.5], [3.0]], df=[0.8, 1.5, 5.0], loc=[0.0, 1.0, -2.0], scale=[1.0, 2.0, 0.5]),
    "von_mises": Case("VonMises", [[-0.5], [3.0]], loc=[0.0, 1.0, -2.0], concentration=[0.1, 2.0, 50.0]),
    "weibull": Case("Weibull", [[0.5], [3.0]], scale=[1.0, 2.0, 0.5], concentration=[1.0, 1.5, 3.0]),
    "wishart": Case("Wishart", _spd([3.0, 0.5], [0.5, 2.0]), df=[4.0, 5.5], covariance_matrix=_V),
    "wishart tril": Case("Wishart", _spd([3.0, 0.5], [0.5, 2.0]), {"df": 5}, scale_tril=_spd([1.4, 0.0], [0.2, 0.9])),
    "wishart precision": Case("Wishart", _spd([3.0, 0.5], [0.5, 2.0]), df=4.0, precision_matrix=[_V, 2 * _V]),
}

BESSEL = {"von_mises"}      # PyTorch's Bessel functions have seven digits
# PyTorch's generalised Pareto takes float32 only.


def numbers(x):
    return x.detach().numpy() if hasattr(x, "detach") else np.asarray(x)


def close(ours, theirs, rtol=1e-9, atol=1e-12):
    assert tuple(ours.shape) == tuple(theirs.shape)
    assert str(ours.dtype).split(".")[-1] == str(theirs.dtype).split(".")[-1]
    np.testing.assert_allclose(numbers(ours), numbers(theirs), rtol=rtol, atol=atol)


def outcome(call):
    """(result, None) or (None, the exception's type); warnings are PyTorch's affair."""
    try:
        return call(), None
    except Exception as error:  # noqa: BLE001
        return None, type(error)


def gradients(t, value, inputs):
    """Of a weighted sum of `value`, with None where it does not depend."""
    if not value.requires_grad:
        return [None] * len(inputs)
    weights = t.arange(1.0, value.numel() + 1, dtype=value.dtype).reshape(value.shape).sin()
    return t.autograd.grad((value * weights).sum(), inputs, allow_unused=True)


def both(case, compute, seed=11):
    """compute(distribution, point, t) in each library: results and gradients by parameters and point."""
    found = []
    for t in (flambeau, torch):
        distribution, params = case.make(t)
        point = case.point(t)
        t.manual_seed(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result, error = outcome(lambda: compute(distribution, point, t))  # noqa: B023
        grads = None if error or t.is_complex(result) else outcome(
            lambda: gradients(t, result, [*params.values(), point]))  # noqa: B023
        found.append((result, error, grads))
    return found


def agree(name, compute, rtol=1e-9, atol=1e-12):
    (ours, our_error, our_grads), (theirs, their_error, their_grads) = both(CASES[name], compute)
    if their_error is not None:
        assert our_error is not None and issubclass(our_error, their_error), (our_error, their_error)
        return
    assert our_error is None, our_error
    if CASES[name].dtype == "float32":
        rtol, atol = max(rtol, 1e-5), max(atol, 1e-6)
    close(ours, theirs, rtol, atol)
    if their_grads[1] is not None:      # PyTorch lacks the derivative
        return
    assert our_grads[1] is None, our_grads[1]
    assert ours.requires_grad == theirs.requires_grad
    for our, their in zip(our_grads[0], their_grads[0], strict=True):
        their_zero = their is None or not their.any()
        if our is None or their is None:        # an unused input: none or zeros
            assert their_zero and (our is None or not our.any())
        else:
            close(our, their, max(rtol, 1e-8), max(atol, 1e-11))


MOMENTS = ["mean", "mode", "variance", "stddev"]
NO_MODE = {"kumaraswamy"}       # PyTorch's is nan; see test_b_sound.py


@pytest.mark.parametrize("quantity", MOMENTS)
@pytest.mark.parametrize("name", CASES)
def test_moments(name, quantity):
    if quantity == "mode" and name in NO_MODE:
        return
    tolerance = (1e-4, 1e-6) if name in BESSEL else (1e-9, 1e-12)
    agree(name, lambda d, point, t: getattr(d, quantity), *tolerance)


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
    agree(name, lambda d, point, t: d.rsample((5,)), 1e-7)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
def test_both_precisions(name, dtype):
    if dtype == "float64" and CASES[name].dtype == "float32":
        return
    results = []
    for t in (flambeau, torch):
        d, _ = CASES[name].make(t, grad=False, dtype=dtype)
        t.manual_seed(5)
        results.append([d.sample((20,)), d.log_prob(CASES[name].point(t, grad=False, dtype=dtype)), t.rand(2)])
    for ours, theirs in zip(*results, strict=True):
        close(ours, theirs, 2e-5 if dtype == "float32" else 1e-6, 1e-5 if name == "lkj_cholesky" else 2e-6)


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

    agree(name, compute, *((1e-6, 1e-6) if name in BESSEL else (1e-7, 1e-12)))


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
                family = getattr(t.distributions, case.family)
                results.append(outcome(lambda: repr(family(**params, **case.fixed)))[1])  # noqa: B023
        assert results[:2] == results[2:], spoiled
