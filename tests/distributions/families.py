"""Families of distributions with parameters, and how their numbers are compared with PyTorch's."""

from __future__ import annotations

import math
import warnings
from functools import partial

import numpy as np
import pytest
import torch

import flambeau

torch.set_num_threads(1)


class Case:
    """A family with parameters.

    Args:
        family: name in torch.distributions, or a function of the library and the parameters.
        value: where log_prob is evaluated, array or number; broadcasts with the batch.
        fixed: arguments that are no tensors.
        dtype: of the comparison.
        **params: arrays.
    """

    def __init__(self, family, value, fixed=None, dtype="float64", **params):
        self.dtype = dtype
        self.family, self.value, self.fixed = family, np.asarray(value, np.float64), fixed or {}
        self.params = {name: np.asarray(array, np.float64) for name, array in params.items()}

    def of(self, t):
        return getattr(t.distributions, self.family) if isinstance(self.family, str) else partial(self.family, t)

    def make(self, t, grad=True, dtype=None, **more):
        """(the distribution, its parameters) in library t."""
        params = {name: t.tensor(array.tolist(), dtype=getattr(t, dtype or self.dtype), requires_grad=grad)
                  for name, array in self.params.items()}
        return self.of(t)(**params, **self.fixed, **more), params

    def point(self, t, grad=True, dtype=None):
        return t.tensor(self.value.tolist(), dtype=getattr(t, dtype or self.dtype), requires_grad=grad)


def _spd(*rows):
    return np.array(rows, np.float64)


_V = _spd([2.0, 0.3], [0.3, 1.0])


def _independent(t, loc, scale, **more):
    return t.distributions.Independent(t.distributions.Normal(loc, scale, **more), 1, **more)


def _mixture(t, weights, loc, scale, **more):
    d = t.distributions
    return d.MixtureSameFamily(d.Categorical(weights, **more), d.Normal(loc, scale, **more), **more)


def _vector_mixture(t, weights, loc, scale, **more):
    d = t.distributions
    parts = d.Independent(d.Normal(loc, scale, **more), 1, **more)
    return d.MixtureSameFamily(d.Categorical(logits=weights, **more), parts, **more)


def _transformed(t, loc, scale, shift, **more):
    d = t.distributions
    steps = [d.AffineTransform(shift, -2.0), d.SigmoidTransform()]
    return d.TransformedDistribution(d.Normal(loc, scale, **more), steps, **more)


def _transformed_vectors(t, loc, scale, **more):
    d = t.distributions
    return d.TransformedDistribution(d.Normal(loc, scale, **more), d.StickBreakingTransform(), **more)


CASES = {
    "bernoulli": Case("Bernoulli", [[0.0], [1.0]], probs=[0.1, 0.5, 0.9]),
    "bernoulli sure": Case("Bernoulli", [[0.0], [1.0]], probs=[0.0, 1.0]),
    "bernoulli logits": Case("Bernoulli", [[0.0], [1.0]], logits=[-30.0, 0.0, 1.5]),
    "categorical": Case("Categorical", [[0.0], [2.0]], probs=[[1.0, 2.0, 1.0], [0.2, 0.0, 0.8]]),
    "categorical logits": Case("Categorical", [1.0, 0.0], logits=[0.3, -0.5, 1.0]),
    "categorical impossible": Case("Categorical", 1.0, logits=[[0.3, -0.5, -math.inf], [-math.inf, 1.0, 2.0]]),
    "cauchy": Case("Cauchy", [[-0.5], [3.0]], loc=[0.0, 1.0, -2.0], scale=[1.0, 2.0, 0.5]),
    "half_cauchy": Case("HalfCauchy", [[0.5], [3.0]], scale=[1.0, 2.0, 0.5]),
    "half_normal": Case("HalfNormal", [[0.5], [3.0]], scale=[1.0, 2.0, 0.5]),
    "log_normal": Case("LogNormal", [[0.5], [3.0]], loc=[0.0, 1.0, -2.0], scale=[1.0, 2.0, 0.5]),
    "logistic_normal": Case("LogisticNormal", [0.2, 0.3, 0.5], loc=[[0.0, 1.0], [-1.0, 0.5]], scale=[0.5, 2.0]),
    "logistic_normal scalar": Case("LogisticNormal", [0.2, 0.8], loc=0.5, scale=1.5),
    "lowrank": Case("LowRankMultivariateNormal", [[0.2, 0.3, -0.5], [0.0, 1.0, 2.0]], loc=[0.0, 1.0, -1.0],
                    cov_factor=[[1.0, 0.2], [0.5, -0.3], [0.0, 1.5]], cov_diag=[0.5, 1.0, 2.0]),
    "lowrank batch": Case("LowRankMultivariateNormal", [0.2, 0.3], loc=[[[0.0, 1.0]], [[1.0, 1.0]]],
                          cov_factor=[[[1.0], [0.5]], [[0.1], [-0.5]], [[2.0], [1.0]]], cov_diag=[0.5, 1.0]),
    "multivariate": Case("MultivariateNormal", [[0.2, 0.3], [1.0, -2.0]], loc=[0.0, 1.0], covariance_matrix=_V),
    "multivariate precision": Case("MultivariateNormal", [0.2, 0.3], loc=[[0.0, 1.0], [0.5, 0.1]],
                                   precision_matrix=[_V, 2 * _V]),
    "multivariate tril": Case("MultivariateNormal", [0.2, 0.3], loc=[[0.0, 1.0], [0.5, 0.1]],
                              scale_tril=[[[1.4, 0.0], [0.2, 0.9]]]),
    "multivariate broadcast": Case("MultivariateNormal", [0.2, 0.3], loc=[[[0.0, 1.0]], [[0.5, 0.1]]],
                                   scale_tril=[[[1.4, 0.0], [0.2, 0.9]], [[0.4, 0.0], [-0.2, 1.9]]]),
    "normal": Case("Normal", [[-0.5], [3.0]], loc=[0.0, 1.0, -2.0], scale=[1.0, 2.0, 0.5]),
    "normal broadcast": Case("Normal", 0.3, loc=[[0.0], [1.0]], scale=[1.0, 2.0, 0.5]),
    "normal number": Case("Normal", 0.3, {"scale": 2}, loc=[[0.0], [1.0]]),
    "one_hot": Case("OneHotCategorical", [0.0, 0.0, 1.0], probs=[[1.0, 2.0, 1.0], [0.2, 0.0, 0.8]]),
    "one_hot logits": Case("OneHotCategorical", [0.0, 0.0, 1.0], logits=[0.3, -0.5, 1.0]),
    "straight_through": Case("OneHotCategoricalStraightThrough", [0.0, 1.0, 0.0], probs=[[1.0, 2.0, 1.0], [0.2, 0.1, 0.8]]),
    "relaxed_bernoulli": Case("RelaxedBernoulli", [[0.2], [0.9]], temperature=0.7, probs=[0.1, 0.5, 0.9]),
    "relaxed_bernoulli logits": Case("RelaxedBernoulli", [[0.2], [0.9]], temperature=1.7, logits=[-1.0, 0.0, 1.0]),
    "relaxed_one_hot": Case("RelaxedOneHotCategorical", [0.1, 0.3, 0.6], temperature=0.7,
                            probs=[[1.0, 2.0, 1.0], [0.2, 0.1, 0.8]]),
    "relaxed_one_hot logits": Case("RelaxedOneHotCategorical", [0.1, 0.3, 0.6], temperature=1.7, logits=[0.3, -0.5, 1.0]),
    "uniform": Case("Uniform", [[-0.5], [1.2]], low=[-1.0, -2.0, -0.7], high=[2.0, 1.5, 3.0]),
    "independent": Case(_independent, [[-0.5, 1.0, 0.0], [3.0, 0.1, 2.0]], loc=[0.0, 1.0, -2.0], scale=[1.0, 2.0, 0.5]),
    "mixture": Case(_mixture, [[-0.5], [3.0]], weights=[[1.0, 2.0, 0.5], [0.1, 0.1, 0.8]],
                    loc=[[0.0, 1.0, -2.0], [0.3, 0.2, 0.1]], scale=[1.0, 2.0, 0.5]),
    "mixture of vectors": Case(_vector_mixture, [-0.5, 1.0], weights=[1.0, 2.0, 0.5],
                               loc=[[0.0, 1.0], [0.3, 0.2], [5.0, 4.0]], scale=[1.0, 2.0]),
    "transformed": Case(_transformed, [[0.5], [0.9]], loc=[0.0, 1.0, -2.0], scale=[1.0, 2.0, 0.5], shift=[-1.0, -2.0, -3.0]),
    "transformed vectors": Case(_transformed_vectors, [[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]], loc=[0.0, 1.0], scale=[1.0, 0.5]),
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
    # PyTorch's takes float32 only.
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


def refused_alike(call, words):
    """call(t) raises the same class in both libraries, and says `words`."""
    with pytest.raises(Exception, match=words) as theirs:
        call(torch)
    with pytest.raises(theirs.type, match=words):
        call(flambeau)


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
