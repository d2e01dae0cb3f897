"""Divergences between families, values and gradients against PyTorch."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import flambeau

torch.set_num_threads(1)

# name: (family, parameters of p, parameters of q)
FAMILIES = {
    "bernoulli": ("Bernoulli", {"probs": [0.1, 0.6, 0.8]}, {"probs": [0.3, 0.5, 0.9]}),
    "bernoulli sure": ("Bernoulli", {"probs": [0.0, 0.6, 1.0]}, {"probs": [0.3, 1.0, 0.0]}),
    "bernoulli logits": ("Bernoulli", {"logits": [-3.0, 0.0, 40.0]}, {"logits": [0.3, 1.0, 2.0]}),
    "categorical": ("Categorical", {"probs": [[1.0, 2.0, 1.0], [0.2, 0.0, 0.8]]},
                    {"probs": [[1.0, 0.0, 1.0], [0.2, 0.3, 0.5]]}),
    "categorical logits": ("Categorical", {"logits": [0.1, -0.5, 2.0]}, {"logits": [[0.3, 1.0, 2.0]]}),
    "one_hot": ("OneHotCategorical", {"probs": [[1.0, 2.0, 1.0], [0.2, 0.0, 0.8]]}, {"logits": [0.3, 1.0, 2.0]}),
    "cauchy": ("Cauchy", {"loc": [0.5, 1.5, -3.0], "scale": [0.7, 1.0, 2.0]},
               {"loc": [0.0, 1.0, 2.0], "scale": [1.5, 1.0, 0.5]}),
    "half_normal": ("HalfNormal", {"scale": [0.5, 1.5, 3.0]}, {"scale": [0.7, 1.0, 2.0]}),
    "log_normal": ("LogNormal", {"loc": [0.5, 1.5, -3.0], "scale": [0.7, 1.0, 2.0]},
                   {"loc": [0.0, 1.0, 2.0], "scale": [1.5, 1.0, 0.5]}),
    "multivariate": ("MultivariateNormal", {"loc": [0.5, 1.5], "covariance_matrix": [[2.0, 0.3], [0.3, 1.0]]},
                     {"loc": [[0.0, 1.0], [2.0, 0.5]], "scale_tril": [[1.4, 0.0], [-0.2, 0.9]]}),
    "multivariate precision": ("MultivariateNormal", {"loc": [0.5, 1.5], "scale_tril": [[[1.4, 0.0], [-0.2, 0.9]]] * 3},
                               {"loc": [0.0, 1.0], "precision_matrix": [[2.0, 0.3], [0.3, 1.0]]}),
    "lowrank": ("LowRankMultivariateNormal",
                {"loc": [0.0, 1.0], "cov_factor": [[1.0], [0.5]], "cov_diag": [0.5, 1.0]},
                {"loc": [[0.0, 1.0], [0.5, 0.6]], "cov_factor": [[0.1, 0.3], [2.0, 0.5]], "cov_diag": [0.5, 2.0]}),
    "binomial of fewer": ("Binomial", {"total_count": [5.0, 6.0], "probs": [0.1, 0.6]},
                          {"total_count": [4.0, 5.0], "probs": [0.3, 0.5]}),
    "beta": ("Beta", {"concentration1": [0.5, 1.5, 3.0], "concentration0": [0.7, 1.0, 2.0]},
             {"concentration1": [2.5, 0.7, 1.0], "concentration0": [1.7, 1.0, 0.2]}),
    "binomial": ("Binomial", {"total_count": [3.0, 5.0, 5.0], "probs": [0.1, 0.6, 0.8]},
                 {"total_count": [3.0, 5.0, 5.0], "probs": [0.3, 0.5, 0.9]}),
    "continuous_bernoulli": ("ContinuousBernoulli", {"probs": [0.1, 0.5, 0.8]}, {"probs": [0.3, 0.5, 0.9]}),
    "dirichlet": ("Dirichlet", {"concentration": [[1.0, 2.0], [0.5, 4.0], [3.0, 0.2]]},
                  {"concentration": [[3.0, 2.0], [1.5, 0.4], [1.0, 1.2]]}),
    "exponential": ("Exponential", {"rate": [0.5, 1.0, 3.0]}, {"rate": [0.7, 2.0, 1.0]}),
    "gamma": ("Gamma", {"concentration": [0.5, 1.5, 3.0], "rate": [0.7, 1.0, 2.0]},
              {"concentration": [2.5, 0.7, 1.0], "rate": [1.7, 1.0, 0.2]}),
    "chi2": ("Chi2", {"df": [0.5, 1.5, 3.0]}, {"df": [2.0, 1.0, 3.0]}),
    "geometric": ("Geometric", {"probs": [0.1, 0.6, 0.8]}, {"probs": [0.3, 0.5, 0.9]}),
    "gumbel": ("Gumbel", {"loc": [0.5, 1.5, -3.0], "scale": [0.7, 1.0, 2.0]},
               {"loc": [0.0, 1.0, 2.0], "scale": [1.5, 1.0, 0.5]}),
    "laplace": ("Laplace", {"loc": [0.5, 1.5, -3.0], "scale": [0.7, 1.0, 2.0]},
                {"loc": [0.0, 1.0, 2.0], "scale": [1.5, 1.0, 0.5]}),
    "normal": ("Normal", {"loc": [0.5, 1.5, -3.0], "scale": [0.7, 1.0, 2.0]},
               {"loc": [0.0, 1.0, 2.0], "scale": [1.5, 1.0, 0.5]}),
    "pareto": ("Pareto", {"scale": [0.5, 1.5, 3.0], "alpha": [0.7, 1.5, 3.0]},
               {"scale": [0.4, 1.0, 3.5], "alpha": [1.0, 2.5, 0.7]}),
    "pareto light": ("Pareto", {"scale": [0.5, 1.5, 3.0], "alpha": [3.0, 2.5, 4.0]},
                     {"scale": [0.1, 0.2, 0.3], "alpha": [1.0, 2.5, 0.7]}),
    "poisson": ("Poisson", {"rate": [0.5, 1.0, 3.0]}, {"rate": [0.7, 2.0, 1.0]}),
    "uniform": ("Uniform", {"low": [0.1, -1.0, 0.2], "high": [0.9, 2.0, 0.8]},
                {"low": [-0.1, -2.0, 0.3], "high": [1.1, 3.0, 0.9]}),
    "wishart": ("Wishart", {"df": [3.0, 4.0, 5.0], "scale_tril": [[1.0, 0.0], [0.3, 2.0]]},
                {"df": [2.5, 6.0, 3.0], "scale_tril": [[2.0, 0.0], [-0.3, 1.0]]}),
    "studentT": ("StudentT", {"df": [3.0, 4.0, 5.0]}, {"df": [2.5, 6.0, 3.0]}),
    "inverse_gamma": ("InverseGamma", {"concentration": [0.5, 1.5, 3.0], "rate": [0.7, 1.0, 2.0]},
                      {"concentration": [2.5, 0.7, 1.0], "rate": [1.7, 1.0, 0.2]}),
    "weibull": ("Weibull", {"scale": [0.5, 1.5, 3.0], "concentration": [0.7, 1.0, 2.0]},
                {"scale": [2.5, 0.7, 1.0], "concentration": [1.7, 1.0, 0.2]}),
}


def divergence(t, first, second):
    """(kl, gradients by all parameters), or the exception's type."""
    made, leaves = [], []
    for name, side in ((first, 1), (second, 2)):
        params = {k: t.tensor(v, dtype=t.float64, requires_grad=True) for k, v in FAMILIES[name][side].items()}
        leaves += params.values()
        made.append(getattr(t.distributions, FAMILIES[name][0])(**params))
    try:
        kl = t.distributions.kl_divergence(*made)
    except (NotImplementedError, ValueError, RuntimeError) as error:
        return type(error), None
    usable = kl[kl.isfinite()].sum()
    grads = t.autograd.grad(usable, leaves, allow_unused=True) if usable.requires_grad else [None] * len(leaves)
    return kl.detach().numpy(), [None if g is None else g.numpy() for g in grads]


@pytest.mark.parametrize("first", FAMILIES)
@pytest.mark.filterwarnings("ignore:Singular sample", "ignore:Low df", "ignore:Ambiguous kl_divergence")
def test_divergence(first):
    for second in FAMILIES:
        (ours, our_grads), (theirs, their_grads) = (divergence(t, first, second) for t in (flambeau, torch))
        if isinstance(theirs, type):
            assert ours is theirs, second
            continue
        assert not isinstance(ours, type), (second, ours)
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-10, err_msg=second)
        for our, their in zip(our_grads, their_grads, strict=True):
            absent = their is None or not np.nan_to_num(their, nan=1.0).any()
            if our is None or their is None:
                assert absent and (our is None or not our.any()), second
            else:
                np.testing.assert_allclose(our, their, rtol=1e-7, atol=1e-9, err_msg=second)


def test_divergence_is_the_expected_difference_of_log_probabilities():
    t, n = flambeau, 20000
    t.manual_seed(0)
    for name in ("beta", "gamma", "dirichlet", "gumbel", "laplace", "exponential", "geometric", "poisson", "binomial"):
        p, q = (getattr(t.distributions, FAMILIES[name][0])(**{k: t.tensor(v) for k, v in FAMILIES[name][side].items()})
                for side in (1, 2))
        draws = p.sample((2000 if name in ("beta", "gamma", "dirichlet", "poisson", "binomial") else n,))
        if name in ("beta", "dirichlet"):
            p._validate_args = q._validate_args = False      # rounding puts draws of low concentration on the edge
        ratio = p.log_prob(draws) - q.log_prob(draws)
        error = ratio.std(0) / math.sqrt(len(draws))
        assert ((ratio.mean(0) - t.distributions.kl_divergence(p, q)).abs() < 5 * error + 1e-5).all(), name
