"""Whole programs that learn through distributions, under both libraries: the same losses, step by step."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import flambeau

torch.set_num_threads(1)


def reinforce(t):
    """A policy gradient on a bandit whose third arm pays."""
    t.manual_seed(0)
    policy = t.nn.Sequential(t.nn.Linear(4, 16), t.nn.Tanh(), t.nn.Linear(16, 3))
    adam = t.optim.Adam(policy.parameters(), lr=0.05)
    losses = []
    for _ in range(15):
        state = t.randn(32, 4)
        chosen = t.distributions.Categorical(logits=policy(state))
        action = chosen.sample()
        reward = (action == 2).float()
        loss = -(chosen.log_prob(action) * (reward - reward.mean())).mean() - 0.01 * chosen.entropy().mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
        losses += [loss.item(), reward.mean().item()]
    assert losses[-1] > losses[1]
    return losses


def autoencoder(t):
    """A variational autoencoder of bits: Kingma and Welling, 2013."""
    d = t.distributions
    t.manual_seed(0)
    data = (t.rand(64, 12) < t.linspace(0.05, 0.95, 12)).float()
    encoder, decoder = t.nn.Linear(12, 6), t.nn.Linear(3, 12)
    adam = t.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=0.02)
    losses = []
    for _ in range(15):
        mean, spread = encoder(data).chunk(2, -1)
        posterior = d.Independent(d.Normal(mean, t.nn.functional.softplus(spread)), 1)
        prior = d.Independent(d.Normal(t.zeros(3), t.ones(3)), 1)
        code = posterior.rsample()
        likelihood = d.Independent(d.Bernoulli(logits=decoder(code)), 1).log_prob(data)
        loss = (d.kl_divergence(posterior, prior) - likelihood).mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    return losses


def squashed_actor(t):
    """The entropy-regularised actor of soft actor-critic: Haarnoja et al., 2018."""
    d = t.distributions
    t.manual_seed(0)
    actor = t.nn.Linear(5, 4)
    sgd = t.optim.SGD(actor.parameters(), lr=0.1)
    losses = []
    for _ in range(15):
        mean, log_std = actor(t.randn(32, 5)).chunk(2, -1)
        action = d.TransformedDistribution(d.Independent(d.Normal(mean, log_std.clamp(-5, 2).exp()), 1),
                                           [d.TanhTransform(cache_size=1)])
        taken = action.rsample()
        loss = (0.1 * action.log_prob(taken) + (taken - 0.5).square().sum(-1)).mean()
        sgd.zero_grad()
        loss.backward()
        sgd.step()
        losses.append(loss.item())
    return losses


def gates(t):
    """Discrete choices learnt through relaxations."""
    d = t.distributions
    t.manual_seed(0)
    logits, weights = t.zeros(6, requires_grad=True), t.zeros(3, 4, requires_grad=True)
    adam = t.optim.Adam([logits, weights], lr=0.1)
    losses = []
    for _ in range(10):
        soft = d.RelaxedBernoulli(t.tensor(0.5), logits=logits).rsample((8,))
        choice = d.OneHotCategoricalStraightThrough(logits=weights).rsample((8,))
        smooth = d.RelaxedOneHotCategorical(t.tensor(0.7), logits=weights).rsample((8,))
        loss = (soft * t.linspace(-1, 1, 6)).sum(-1).mean() + (choice * smooth.detach()).mean() - smooth[..., 0].mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
        losses.append(loss.item())
    return losses


def mixture_fit(t):
    """Maximum likelihood of a mixture of multivariate normals, by factors of covariance."""
    d = t.distributions
    t.manual_seed(0)
    data = t.cat([t.randn(40, 2) * 0.3 + 2, t.randn(40, 2) - 1])
    weights, means = t.zeros(2, requires_grad=True), t.randn(2, 2, requires_grad=True)
    free = t.zeros(2, 2, 2, requires_grad=True)
    adam = t.optim.Adam([weights, means, free], lr=0.1)
    losses = []
    for _ in range(15):
        factor = d.transform_to(d.constraints.lower_cholesky)(free)
        model = d.MixtureSameFamily(d.Categorical(logits=weights), d.MultivariateNormal(means, scale_tril=factor))
        loss = -model.log_prob(data).mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    return losses


@pytest.mark.parametrize("program", [reinforce, autoencoder, squashed_actor, gates, mixture_fit])
def test_program_gives_pytorch_losses(program):
    np.testing.assert_allclose(program(flambeau), program(torch), rtol=2e-4, atol=2e-5)


def of_ones_own(t):
    """A family written by a program: a triangle on [0, scale], with a divergence of its own."""
    from importlib import import_module

    d, c = t.distributions, t.distributions.constraints
    numbers = import_module(t.__name__ + ".types")._Number

    class Triangle(d.Distribution):
        arg_constraints = {"scale": c.positive}
        has_rsample = True

        def __init__(self, scale, validate_args=None):
            (self.scale,) = d.utils.broadcast_all(scale)
            shape = t.Size() if isinstance(scale, numbers) else self.scale.size()
            super().__init__(shape, validate_args=validate_args)

        def expand(self, batch_shape, _instance=None):
            new = self._get_checked_instance(Triangle, _instance)
            new.scale = self.scale.expand(batch_shape)
            super(Triangle, new).__init__(t.Size(batch_shape), validate_args=False)
            new._validate_args = self._validate_args
            return new

        @c.dependent_property(is_discrete=False, event_dim=0)
        def support(self):
            return c.interval(0.0, self.scale)

        @d.utils.lazy_property
        def log_scale(self):
            return self.scale.log()

        def rsample(self, sample_shape=t.Size()):  # noqa: B008
            return self.scale * t.rand(self._extended_shape(sample_shape)).sqrt()

        def log_prob(self, value):
            if self._validate_args:
                self._validate_sample(value)
            return (2 * value).log() - 2 * self.log_scale

    @d.register_kl(Triangle, d.Uniform)
    def _to_uniform(p, q):
        return (q.high - q.low).log() - p.log_scale + 0.1931

    t.manual_seed(0)
    scale = t.tensor([1.0, 2.0], requires_grad=True)
    p = Triangle(scale)
    draws = d.Independent(p.expand((3, 2)), 1).rsample((4,))
    loss = draws.mean() + p.log_prob(draws.detach()).sum() + d.kl_divergence(p, d.Uniform(-1.0, 9.0)).sum()
    loss.backward()
    with pytest.raises(ValueError, match="support"):
        p.log_prob(t.tensor(3.0))
    assert repr(Triangle(2)) == "Triangle(scale: 2.0)"
    return [loss.item(), *scale.grad.tolist(), *draws.flatten().tolist()]


def test_a_family_of_ones_own():
    np.testing.assert_allclose(of_ones_own(flambeau), of_ones_own(torch), rtol=1e-5)
