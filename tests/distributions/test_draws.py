"""Draws with implicit gradients, and where distributions go beyond PyTorch or refuse arguments."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.special
import torch

import flambeau
from flambeau.kernels import random_gradients
from flambeau.testing.samples import to_numpy
from tests.distributions.families import refused_alike

torch.set_num_threads(1)
D = flambeau.distributions


def _gamma_points(n):
    rng = np.random.default_rng(0)
    alpha = np.exp(rng.uniform(-7, 7, n))
    x = alpha * np.exp(rng.normal(size=n) * 2 / np.sqrt(1 + alpha))
    return alpha, np.where(np.arange(n) % 5 == 0, alpha * (1 + 0.05 * rng.uniform(-1, 1, n)), x)


def _beta_points(n):
    rng = np.random.default_rng(1)
    a, b = np.exp(rng.uniform(-5, 6, n)), np.exp(rng.uniform(-5, 6, n))
    return np.where(np.arange(n) % 5 == 0, a / (a + b), rng.beta(a, b).clip(1e-300, 1 - 1e-12)), a, b


def test_gamma_gradients_are_those_of_pytorch_in_every_region():
    alpha, x = _gamma_points(4000)
    for dtype, rtol in ((np.float64, 1e-9), (np.float32, 1e-6)):
        a, draws = alpha.astype(dtype), x.astype(dtype)
        theirs = torch._standard_gamma_grad(torch.from_numpy(a), torch.from_numpy(draws)).numpy()
        ours = to_numpy(flambeau._standard_gamma_grad(flambeau.from_numpy(a), flambeau.from_numpy(draws)))
        assert ours.dtype == dtype
        np.testing.assert_allclose(ours, theirs, rtol=rtol)


def test_beta_gradients_are_those_of_pytorch_in_every_region():
    x, a, b = _beta_points(4000)
    theirs = torch._dirichlet_grad(*(torch.from_numpy(v) for v in (x, a, a + b))).numpy()
    ours = to_numpy(flambeau._dirichlet_grad(*(flambeau.from_numpy(v) for v in (x, a, a + b))))
    np.testing.assert_allclose(ours, theirs, rtol=1e-8)


def test_gamma_gradients_are_implicit_derivatives():
    alpha, x = _gamma_points(500)
    h = 1e-4 * alpha        # -(dF/da) / (dF/dx), by differences of the distribution function
    use = (scipy.special.gammainc(alpha, x) > 1e-3) & (scipy.special.gammainc(alpha, x) < 1 - 1e-3) & (x > 1e-200)
    by_shape = (scipy.special.gammainc(alpha + h, x) - scipy.special.gammainc(alpha - h, x)) / (2 * h)
    density = np.exp((alpha - 1) * np.log(x) - x - scipy.special.gammaln(alpha))
    np.testing.assert_allclose(random_gradients.standard_gamma_grad(alpha, x)[use], (-by_shape / density)[use], rtol=3e-3)


def test_beta_gradients_are_implicit_derivatives():
    x, a, b = _beta_points(500)
    h = 1e-4 * a
    cdf = scipy.special.betainc(a, b, x)
    use = (cdf > 1e-2) & (cdf < 1 - 1e-2) & (x > 1e-12) & (x < 1 - 1e-6) & (a > 0.1) & (b > 0.1)
    by_shape = (scipy.special.betainc(a + h, b, x) - scipy.special.betainc(a - h, b, x)) / (2 * h)
    density = np.exp((a - 1) * np.log(x) + (b - 1) * np.log1p(-x) - scipy.special.betaln(a, b))
    assert use.sum() > 100
    ours = (1 - x) * random_gradients.dirichlet_grad(x, a, a + b)
    np.testing.assert_allclose(ours[use], (-by_shape / density)[use], rtol=2e-2)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_draws_and_gradients_of_one_seed(dtype):
    results = []
    for t in (flambeau, torch):
        t.manual_seed(3)
        alpha = (t.rand(20, 5, dtype=getattr(t, dtype)) * 8 + 0.05).requires_grad_()
        weights = t.rand(20, 5, dtype=getattr(t, dtype))
        gamma = t._standard_gamma(alpha)
        (gamma_grad,) = t.autograd.grad((gamma * weights).sum(), alpha)
        shares = t.distributions.Dirichlet(alpha).rsample()
        (shares_grad,) = t.autograd.grad((shares * weights).sum(), alpha)
        results.append([gamma, gamma_grad, shares, shares_grad, t.rand(2)])
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(to_numpy(ours.detach()), theirs.detach().numpy(),
                                   rtol=2e-5 if dtype == "float32" else 1e-10)


def test_draws_take_a_generator():
    alpha = flambeau.full((40,), 2.5)
    first = flambeau._standard_gamma(alpha, flambeau.Generator().manual_seed(5))
    theirs = torch._standard_gamma(torch.full((40,), 2.5), torch.Generator().manual_seed(5))
    np.testing.assert_array_equal(first.numpy(), theirs.numpy())
    shares = flambeau._sample_dirichlet(alpha, generator=flambeau.Generator().manual_seed(5))
    assert abs(shares.sum().item() - 1) < 1e-6


MANY = {     # more elements than are drawn at once, so that uniforms drawn ahead go back to the stream
    "gamma": lambda t, x: t._standard_gamma(x),
    "dirichlet": lambda t, x: t._sample_dirichlet(x.view(-1, 4)),
    "poisson": lambda t, x: t.poisson(x),
    "binomial": lambda t, x: t.binomial((x * 9).floor(), x.sigmoid()),
    "binomial of rare successes": lambda t, x: t.binomial(x * 0 + 1e7, x * 1e-8),
}


@pytest.mark.parametrize("name", MANY)
def test_many_draws_and_the_place_in_the_stream(name):
    x = np.exp(np.random.default_rng(2).uniform(-6, 4, 4000))
    x[::7] = 0.0 if name == "poisson" else 0.5
    results = []
    for t in (flambeau, torch):
        t.manual_seed(4)
        t.randn(3, dtype=t.float64)     # a normal waits
        values = MANY[name](t, t.tensor(x.tolist(), dtype=t.float64))
        results.append((to_numpy(values) if t is flambeau else values.numpy(), t.randn(3, dtype=t.float64).tolist()))
    (ours, our_next), (theirs, their_next) = results
    np.testing.assert_allclose(ours, theirs, rtol=1e-14)
    np.testing.assert_allclose(our_next, their_next, rtol=1e-14)


def test_a_refused_rate_leaves_the_stream_where_pytorch_does():
    after = []
    for t in (flambeau, torch):
        t.manual_seed(4)
        with pytest.raises(RuntimeError, match="rate to be non-negative"):
            t.poisson(t.tensor([3.0] * 400 + [-1.0] + [2.0] * 10))
        after.append(t.rand(1).item())
    assert after[0] == after[1]


@pytest.mark.parametrize("draw", ["_standard_gamma", "_sample_dirichlet"])
def test_second_derivatives_are_refused(draw):
    alpha = flambeau.tensor([1.0, 2.0], requires_grad=True)
    (grad,) = flambeau.autograd.grad(getattr(flambeau, draw)(alpha)[0], alpha, create_graph=True)
    with pytest.raises(NotImplementedError, match="derivative for aten::_.*_grad is not implemented"):
        grad.sum().backward()


@pytest.mark.parametrize("dtype", ["int64", "float16", "bfloat16", "complex64"])
@pytest.mark.parametrize("draw", ["_standard_gamma", "_sample_dirichlet"])
def test_other_dtypes_are_refused(draw, dtype):
    for t in (flambeau, torch):
        with pytest.raises(NotImplementedError, match="not implemented for"):
            getattr(t, draw)(t.ones(2, dtype=getattr(t, dtype)))


REFUSED = {
    "dirichlet of a number": (lambda t: t.distributions.Dirichlet(t.tensor(1.0)), "at least one-dimensional"),
    "binomial of nothing": (lambda t: t.distributions.Binomial(3), "Either `probs` or `logits`"),
    "binomial of both": (lambda t: t.distributions.Binomial(3, t.ones(1), t.ones(1)), "Either `probs` or `logits`"),
    "binomial counts": (lambda t: t.distributions.Binomial(t.tensor([3.0, 4.0]), t.tensor(0.5)).entropy(),
                        "Inhomogeneous total count"),
    "binomial of half a trial": (lambda t: t.distributions.Binomial(2.5, t.tensor(0.5)), "total_count"),
    "geometric that never ends": (lambda t: t.distributions.Geometric(t.tensor([0.5, 0.0])), "to be positive"),
    "negative binomial certain": (lambda t: t.distributions.NegativeBinomial(3, t.tensor(1.0)), "probs"),
    "multinomial counts": (lambda t: t.distributions.Multinomial(t.tensor(3), t.ones(2)), "inhomogeneous total_count"),
    "lkj of one row": (lambda t: t.distributions.LKJCholesky(1), "greater than or equal to 2"),
    "wishart of two matrices": (lambda t: t.distributions.Wishart(3, t.eye(2), t.eye(2)), "Exactly one"),
    "wishart of none": (lambda t: t.distributions.Wishart(3), "Exactly one"),
    "wishart of a vector": (lambda t: t.distributions.Wishart(3, t.ones(2)), "at least two-dimensional"),
    "wishart of low df": (lambda t: t.distributions.Wishart(1.0, t.eye(2)), "greater than ndim - 1"),
    "wishart not positive": (lambda t: t.distributions.Wishart(3, -t.eye(2)), "covariance_matrix"),
    "continuous bernoulli": (lambda t: t.distributions.ContinuousBernoulli(t.tensor(1.5), validate_args=True),
                             "invalid values"),
    "gamma of text": (lambda t: t.distributions.Gamma("a", 1.0), "Number"),
    "exponential of a negative": (lambda t: t.distributions.Exponential(-1.0), "rate"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_arguments_refused_as_in_pytorch(name):
    refused_alike(*REFUSED[name])


NUMBERS = {
    "Beta": (1.0, 2.0), "Binomial": (3, 0.5), "Chi2": (2.0,), "ContinuousBernoulli": (0.3,), "Exponential": (2.0,),
    "FisherSnedecor": (3.0, 5.0), "Gamma": (1.0, 2), "GeneralizedPareto": (0, 1.0, 0.1), "Geometric": (0.4,),
    "Gumbel": (0.0, 1.0), "InverseGamma": (3.0, 2.0), "Kumaraswamy": (1.5, 2.0), "Laplace": (0, 1), "LKJCholesky": (3,),
    "NegativeBinomial": (3, 0.5), "Pareto": (1.0, 3.0), "Poisson": (4,), "StudentT": (4.0,), "VonMises": (0.0, 1.0),
    "Weibull": (1.0, 2.0),
}


@pytest.mark.parametrize("family", NUMBERS)
def test_families_of_numbers(family):
    results = []
    for t in (flambeau, torch):
        d = getattr(t.distributions, family)(*NUMBERS[family])
        t.manual_seed(1)
        results.append((repr(d), tuple(d.batch_shape), d.sample((3,)), d.sample()))
    (shown, shape, *ours), (their_shown, their_shape, *theirs) = results
    assert (shown, shape) == (their_shown, their_shape)
    for our, their in zip(ours, theirs, strict=True):
        assert str(our.dtype).split(".")[-1] == str(their.dtype).split(".")[-1]
        np.testing.assert_allclose(our.numpy(), their.numpy(), rtol=2e-6, atol=1e-6)


def test_a_family_of_ones_own_must_expand_itself():
    for base, args in ((D.Gamma, (1.0, 1.0)), (D.Chi2, (1.0,)), (D.Pareto, (1.0, 1.0)), (D.Wishart, (3.0, flambeau.eye(2)))):
        class Own(base):
            def __init__(self, *args):
                super().__init__(*args)

        with pytest.raises(NotImplementedError, match="must also define a custom .expand"):
            Own(*args).expand((2,))


# ------------------------------------------------------------------------------------------- beyond PyTorch 2.13


def test_kumaraswamy_has_a_mode():
    d = D.Kumaraswamy(flambeau.tensor([2.0, 3.0, 0.5]), flambeau.tensor([3.0, 2.0, 2.0]))
    grid = flambeau.linspace(0.001, 0.999, 999)
    best = grid[d.expand((3,)).log_prob(grid.unsqueeze(-1))[:, :2].argmax(0)]
    np.testing.assert_allclose(d.mode[:2].numpy(), best.numpy(), atol=1e-3)
    assert math.isnan(d.mode[2].item())


def test_generalized_pareto_computes_in_double():
    d = D.GeneralizedPareto(1.0, flambeau.tensor(2.0, dtype=flambeau.float64), 0.25)
    x = d.icdf(flambeau.tensor(0.3, dtype=flambeau.float64))
    assert x.dtype == flambeau.float64
    assert abs(d.cdf(x).item() - 0.3) < 1e-12


def test_von_mises_is_normalised_to_double_precision():
    d = D.VonMises(0.5, flambeau.tensor(3.0, dtype=flambeau.float64))
    x = flambeau.linspace(-math.pi, math.pi, 201, dtype=flambeau.float64)[:-1]
    assert abs(d.log_prob(x).exp().mean().item() * 2 * math.pi - 1) < 1e-12


def test_wishart_does_not_warn_of_sound_draws(recwarn):
    flambeau.manual_seed(0)
    draws = D.Wishart(5.0, flambeau.eye(2, dtype=flambeau.float64)).sample((300,))
    assert not recwarn.list
    assert (draws.mean(0) - 5 * flambeau.eye(2)).abs().max().item() < 0.6


def test_wishart_warns_of_low_df_and_singular_draws():
    with pytest.warns(UserWarning, match="Low df values"):
        d = D.Wishart(1.0001, flambeau.eye(2))
    flambeau.manual_seed(0)
    with pytest.warns(UserWarning, match="Singular sample"):
        d.sample((200,))


def test_gamma_draws_stay_above_zero_and_keep_their_gradient():
    rate = flambeau.tensor(2.0, requires_grad=True)
    draws = D.Gamma(flambeau.full((50,), 1e-3), rate).rsample()
    assert draws.min().item() >= flambeau.finfo(flambeau.float32).tiny
    (grad,) = flambeau.autograd.grad(draws.sum(), rate)
    assert grad.item() < 0
