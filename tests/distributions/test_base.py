"""What all distributions share: validation and its messages, defaults, expansion, dispatch of divergences, copies."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch

import flambeau
import flambeau.distributions as D
from flambeau.distributions.kl import _KL_MEMOIZE, _KL_REGISTRY
from tests.distributions.families import outcome, refused_alike

torch.set_num_threads(1)


@pytest.fixture
def validation():
    """The default is put back."""
    had = D.Distribution._validate_args
    yield
    D.Distribution.set_default_validate_args(had)


def test_same_names_as_pytorch():
    assert set(torch.distributions.__all__) == set(D.__all__)
    for module in ("constraints", "transforms", "utils", "kl", "constraint_registry"):
        theirs, ours = getattr(torch.distributions, module), getattr(D, module)
        assert set(theirs.__all__) <= set(dir(ours)), module
    pairs = {(p.__name__, q.__name__) for p, q in torch.distributions.kl._KL_REGISTRY}
    assert {(p.__name__, q.__name__) for p, q in _KL_REGISTRY} == pairs
    for name in torch.distributions.__all__:
        ours, theirs = getattr(D, name), getattr(torch.distributions, name)
        if isinstance(theirs, type) and issubclass(theirs, torch.distributions.Distribution):
            missing = {n for n in vars(theirs) if not n.startswith("_")} - set(dir(ours))
            assert not missing, (name, missing)


def test_the_package_is_loaded_when_it_is_asked_for():
    code = ("import sys, flambeau as torch; torch.ones(1); assert 'flambeau.distributions' not in sys.modules; "
            "print(torch.distributions.Normal(0.0, 1.0))")
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "Normal(loc: 0.0, scale: 1.0)"


def test_an_invalid_parameter_is_named_with_its_constraint_and_line():
    with pytest.raises(ValueError, match="Expected parameter scale") as caught:
        D.Normal(flambeau.zeros(3), flambeau.tensor([1.0, -2.0, 0.0]))
    text = str(caught.value)
    assert "GreaterThan(lower_bound=0.0)" in text and "found invalid values" in text
    assert "2 of 3 fail, the first at [1]: -2.0" in text
    assert "test_base.py:" in text


def test_the_only_member_of_a_batch_is_not_counted():
    with pytest.raises(ValueError, match="found invalid values") as caught:
        D.Categorical(flambeau.tensor([-1.0, 2.0]))
    assert "tensor([-1.,  2.])\n  at " in str(caught.value)


def test_nan_parameters_are_called_so():
    with pytest.raises(ValueError, match=r"Expected parameter logits[^$]*invalid values[^$]*nan among them"):
        D.Categorical(logits=flambeau.tensor([[0.0, float("nan")]]))


def test_an_invalid_value_is_named_with_the_support():
    with pytest.raises(ValueError, match=r"within the support \(IntegerInterval\(lower_bound=0, upper_bound=2\)\)"):
        D.Categorical(flambeau.ones(3)).log_prob(flambeau.tensor([0, 3]))
    with pytest.raises(ValueError, match="must be a Tensor"):
        D.Normal(0.0, 1.0).log_prob(1.0)
    with pytest.raises(ValueError, match="right-most size of value must match event_shape"):
        D.Dirichlet(flambeau.ones(3)).log_prob(flambeau.ones(2) / 2)
    with pytest.raises(ValueError, match="not broadcastable with batch_shape"):
        D.Normal(flambeau.zeros(3), 1.0).log_prob(flambeau.zeros(2))


def test_vmap_checks_the_whole_batch():
    def chosen(t):
        return t.func.vmap(lambda row, index: t.distributions.Categorical(logits=row).log_prob(index))

    rows, indices = [[0.0, 1.0, 2.0], [1.0, 0.0, -1.0]], [0, 2]
    ours, theirs = (chosen(t)(t.tensor(rows), t.tensor(indices)) for t in (flambeau, torch))
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-6)
    with pytest.raises(ValueError, match="parameter logits"):
        chosen(flambeau)(flambeau.tensor([[0.0, 1.0], [1.0, flambeau.nan]]), flambeau.tensor(indices))
    with pytest.raises(ValueError, match="within the support"):
        chosen(flambeau)(flambeau.tensor(rows), flambeau.tensor([0, 3]))
    with pytest.raises(ValueError, match="2 of 3 fail"):
        flambeau.func.vmap(lambda s: D.Normal(0.0, s).loc)(flambeau.tensor([1.0, -2.0, 0.0]))


def test_validation_can_be_switched_off(validation):
    assert D.Normal(0.0, -1.0, validate_args=False).scale.item() == -1.0
    D.Distribution.set_default_validate_args(False)
    assert D.Normal(0.0, -1.0).scale.item() == -1.0
    assert D.Categorical(flambeau.ones(2)).expand((3,))._validate_args is False
    with pytest.raises(ValueError, match="scale"):
        D.Normal(0.0, -1.0, validate_args=True)
    D.Distribution.set_default_validate_args(True)
    with pytest.raises(ValueError, match="scale"):
        D.Normal(0.0, -1.0)
    with pytest.raises(ValueError, match="True or False"):
        D.Distribution.set_default_validate_args("yes")


def test_validation_is_off_under_dash_o():
    code = "import flambeau.distributions as D; print(D.Normal(0.0, -1.0))"
    answer = subprocess.run([sys.executable, "-O", "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "Normal(loc: 0.0, scale: -1.0)"


class _Bare(D.Distribution):
    """A distribution that defines next to nothing."""

    arg_constraints = {}


def test_what_is_not_implemented_says_so():
    d = _Bare(flambeau.Size((2,)))
    for call in (d.sample, d.rsample, d.entropy, d.enumerate_support, lambda: d.mean, lambda: d.mode, lambda: d.variance,
                 lambda: d.stddev, lambda: d.log_prob(flambeau.ones(2)), lambda: d.cdf(flambeau.ones(2)), d.perplexity,
                 lambda: d.icdf(flambeau.ones(2)), lambda: d.expand((3,)), lambda: d.support):
        with pytest.raises(NotImplementedError):
            call()
    with pytest.raises(NotImplementedError, match="_Bare.*does not implement mode"):
        _ = d.mode
    with pytest.raises(NotImplementedError, match=r"Categorical.*does not implement rsample\(\).*log_prob\(sample\(\)\)"):
        D.Categorical(flambeau.ones(2)).rsample()


def test_a_distribution_without_constraints_warns():
    with pytest.warns(UserWarning, match="does not define `arg_constraints`") as caught:
        D.Distribution()
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="does not define `support`"):
        _Bare()._validate_sample(flambeau.ones(1))
    with pytest.warns(FutureWarning, match=r"sample\(\(n,\)\)"):
        assert D.Normal(0.0, 1.0).sample_n(3).shape == (3,)


def test_a_subclass_with_its_own_init_must_expand_itself():
    class Own(D.Normal):
        def __init__(self):
            super().__init__(0.0, 1.0)

    class Plain(D.Normal):
        pass

    with pytest.raises(NotImplementedError, match=r"must also define a custom .expand\(\) method"):
        Own().expand((2,))
    assert type(Plain(0.0, 1.0).expand((2,))) is Plain


def test_a_subclass_can_expand_in_the_documented_way():
    class Shifted(D.Normal):
        def __init__(self, loc, scale, shift):
            self.shift = shift
            super().__init__(loc + shift, scale)

        def expand(self, batch_shape, _instance=None):
            new = self._get_checked_instance(Shifted, _instance)
            new.shift = self.shift
            return super().expand(batch_shape, _instance=new)

    wide = Shifted(flambeau.zeros(1), flambeau.ones(1), 2.0).expand((4,))
    assert type(wide) is Shifted and wide.shift == 2.0 and wide.mean.tolist() == [2.0] * 4


def test_lazy_parameters_carry_gradients_made_under_no_grad():
    logits = flambeau.zeros(3, requires_grad=True)
    d = D.Categorical(logits=logits)
    with flambeau.no_grad():
        d.sample()          # reads probs, which is kept
    d.probs[0].backward()
    assert logits.grad.abs().sum().item() > 0


def test_copies_and_pickles():
    for d in (D.Normal(flambeau.zeros(2), 1.0), D.Categorical(logits=flambeau.zeros(3)), D.LogNormal(0.0, 1.0),
              D.Independent(D.Beta(flambeau.ones(2), flambeau.ones(2)), 1),
              D.MultivariateNormal(flambeau.zeros(2), flambeau.eye(2)),
              D.LowRankMultivariateNormal(flambeau.zeros(2), flambeau.ones(2, 1), flambeau.ones(2))):
        for twin in (copy.deepcopy(d), pickle.loads(pickle.dumps(d))):
            value = d.sample()
            assert flambeau.equal(twin.log_prob(value), d.log_prob(value))


# --------------------------------------------------------------------------------------------- divergences


@pytest.fixture
def registry():
    had = dict(_KL_REGISTRY)
    yield
    _KL_REGISTRY.clear()
    _KL_REGISTRY.update(had)
    _KL_MEMOIZE.clear()


def test_the_most_specific_function_is_taken(registry):
    class Base(D.Distribution):
        arg_constraints = {}

    class Middle(Base):
        pass

    class Last(Middle):
        pass

    D.register_kl(Base, Base)(lambda p, q: "base")
    assert D.kl_divergence(Last(), Last()) == "base"
    D.register_kl(Middle, Middle)(lambda p, q: "middle")
    assert D.kl_divergence(Last(), Last()) == "middle"
    assert D.kl_divergence(Base(), Last()) == "base"
    D.register_kl(Last, Base)(lambda p, q: "left")
    with pytest.warns(RuntimeWarning, match=r"Ambiguous kl_divergence\(Last, Last\)") as caught:
        assert D.kl_divergence(Last(), Last()) == "left"
    assert "Please register_kl(Last, Middle)" in str(caught[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert D.kl_divergence(Last(), Last()) == "left"        # once for each pair of classes
        D.register_kl(Last, Middle)(lambda p, q: "both")
        assert D.kl_divergence(Last(), Last()) == "both"


def test_pairs_without_a_formula_are_refused():
    with pytest.raises(NotImplementedError, match=r"No KL\(p \|\| q\) is implemented for p type Normal and q type Cat"):
        D.kl_divergence(D.Normal(0.0, 1.0), D.Categorical(flambeau.ones(2)))
    with pytest.raises(TypeError, match="type_p to be a Distribution subclass"):
        D.register_kl(2, D.Normal)
    with pytest.raises(TypeError, match="type_q to be a Distribution subclass"):
        D.register_kl(D.Normal, 3)


def test_classes_that_a_library_has_besides_are_taken(registry):
    class Own:
        pass

    D.register_kl(D.Normal, Own)(lambda p, q: "own")
    assert D.kl_divergence(D.Normal(0.0, 1.0), Own()) == "own"


def test_exponential_families_share_one_formula(registry):
    """A Bregman divergence, where a family has no formula of its own."""
    del _KL_REGISTRY[D.Normal, D.Normal]
    _KL_MEMOIZE.clear()
    for t in (flambeau, torch):
        loc = t.tensor([1.0, 2.0], dtype=t.float64, requires_grad=True)
        p = t.distributions.Normal(t.tensor([0.0, 1.0], dtype=t.float64), 2.0)
        q = t.distributions.Normal(loc, t.tensor(0.5, dtype=t.float64))
        general = t.distributions.kl._kl_expfamily_expfamily if t is torch else D.kl_divergence
        value = general(p, q)
        value.sum().backward()
        if t is flambeau:
            ours = value.detach().numpy(), loc.grad.numpy()
    np.testing.assert_allclose(ours[0], value.detach().numpy())
    np.testing.assert_allclose(ours[1], loc.grad.numpy())


def test_a_uniform_on_the_unit_interval_is_at_a_finite_divergence():
    """PyTorch answers inf: it takes bounds that coincide for bounds that exclude."""
    flat = D.Uniform(flambeau.tensor(0.0), flambeau.tensor(1.0))
    bent = D.ContinuousBernoulli(flambeau.tensor(0.3))
    x = (flambeau.arange(2000, dtype=flambeau.float64) + 0.5) / 2000
    log_ratio = bent.log_prob(x) - flat.log_prob(x)
    assert D.kl_divergence(flat, bent).item() == pytest.approx(-log_ratio.mean().item(), rel=1e-4)
    assert D.kl_divergence(bent, flat).item() == pytest.approx((log_ratio.exp() * log_ratio).mean().item(), rel=1e-4)


def test_a_mixture_broadcasts_its_weights():
    """PyTorch draws wrong shapes here, or raises."""
    weights = D.Categorical(flambeau.tensor([1.0, 0.0]))
    d = D.MixtureSameFamily(weights, D.Normal(flambeau.tensor([[0.0, 90.0]] * 3), 1.0))
    draws = d.sample((5,))
    assert draws.shape == (5, 3) and draws.abs().max().item() < 10
    assert d.log_prob(draws).shape == (5, 3)


REFUSED = {
    "transform of a number": (lambda t, d: d.TransformedDistribution(d.Normal(0.0, 1.0), 3), "must be a Transform or"),
    "transforms of numbers": (lambda t, d: d.TransformedDistribution(d.Normal(0.0, 1.0), [3]), "list of Transforms"),
    "too small a base": (lambda t, d: d.TransformedDistribution(d.Normal(0.0, 1.0), d.StickBreakingTransform()),
                         "base_distribution needs to have shape with size at least 1"),
    "too much independence": (lambda t, d: d.Independent(d.Normal(0.0, 1.0), 1), "reinterpreted_batch_ndims"),
    "product of supports": (lambda t, d: d.Independent(d.Bernoulli(t.ones(2)), 1).enumerate_support(), "cartesian"),
    "mixture by a normal": (lambda t, d: d.MixtureSameFamily(d.Normal(0.0, 1.0), d.Normal(0.0, 1.0)), "Mixture distrib"),
    "mixture of a number": (lambda t, d: d.MixtureSameFamily(d.Categorical(t.ones(2)), 3), "Component distribution"),
    "mixture of three by two": (lambda t, d: d.MixtureSameFamily(d.Categorical(t.ones(2)), d.Normal(t.zeros(3), 1.0)),
                                "does not equal"),
    "mixture of batches": (lambda t, d: d.MixtureSameFamily(d.Categorical(t.ones(3, 2)), d.Normal(t.zeros(2, 2), 1.0)),
                           "not compatible"),
    "no covariance": (lambda t, d: d.MultivariateNormal(t.zeros(2)), "Exactly one of covariance_matrix"),
    "two covariances": (lambda t, d: d.MultivariateNormal(t.zeros(2), t.eye(2), t.eye(2)), "Exactly one of"),
    "scalar mean": (lambda t, d: d.MultivariateNormal(t.tensor(0.0), t.eye(1)), "loc must be at least one-dim"),
    "vector covariance": (lambda t, d: d.MultivariateNormal(t.zeros(2), t.ones(2)), "must be at least two-dim"),
    "singular covariance": (lambda t, d: d.MultivariateNormal(t.zeros(2), t.ones(2, 2)), "parameter covariance_matrix"),
    "low rank scalar": (lambda t, d: d.LowRankMultivariateNormal(t.tensor(0.0), t.ones(1, 1), t.ones(1)), "one-dim"),
    "low rank vector": (lambda t, d: d.LowRankMultivariateNormal(t.zeros(2), t.ones(2), t.ones(2)), "two-dimensional"),
    "low rank factor": (lambda t, d: d.LowRankMultivariateNormal(t.zeros(2), t.ones(3, 1), t.ones(2)), "2 x m"),
    "low rank diagonal": (lambda t, d: d.LowRankMultivariateNormal(t.zeros(2), t.ones(2, 1), t.ones(3)), "cov_diag"),
    "low rank batches": (lambda t, d: d.LowRankMultivariateNormal(t.zeros(4, 2), t.ones(3, 2, 1), t.ones(2)),
                         "Incompatible batch shapes"),
    "gaussians of two sizes": (lambda t, d: d.kl_divergence(d.MultivariateNormal(t.zeros(2), t.eye(2)),
                                                            d.MultivariateNormal(t.zeros(3), t.eye(3))),
                               "different event shapes"),
    "independence of two kinds": (lambda t, d: d.kl_divergence(d.Independent(d.Normal(t.zeros(2), 1.0), 1),
                                                               d.Independent(d.Normal(t.zeros(2), 1.0), 0)), None),
    "transforms of two kinds": (lambda t, d: d.kl_divergence(
        d.LogNormal(0.0, 1.0), d.TransformedDistribution(d.Normal(0.0, 1.0), [d.AffineTransform(0.0, 2.0)])), None),
    "categorical of a number": (lambda t, d: d.Categorical(t.tensor(1.0)), "at least one-dimensional"),
    "bernoulli of nothing": (lambda t, d: d.Bernoulli(), "Either `probs` or `logits` must be specified"),
    "bernoulli of both": (lambda t, d: d.Bernoulli(0.5, 0.5), "Either `probs` or `logits` must be specified"),
    "normal of text": (lambda t, d: d.Normal("a", 1.0), "must all be instances of Number"),
    "empty interval": (lambda t, d: d.Uniform(2.0, 1.0), "parameter low"),
    "negative scale": (lambda t, d: d.HalfNormal(-1.0), "parameter scale"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_as_in_pytorch(name):
    make, words = REFUSED[name]
    refused_alike(lambda t: make(t, t.distributions), words)


DTYPES = {
    "two integers": lambda t, d: d.Normal(0, 1).sample((2,)),
    "double and number": lambda t, d: d.Normal(t.tensor(0.0, dtype=t.float64), 1).sample((2,)),
    "double and float": lambda t, d: d.Normal(t.tensor(0.0, dtype=t.float64), t.tensor(1.0)).rsample((2,)),
    "float and double": lambda t, d: d.Normal(t.tensor(0.0), t.tensor(1.0, dtype=t.float64)).sample((2,)),
    "integer tensors": lambda t, d: d.Normal(t.tensor(0), t.tensor(1)).sample(),
    "half": lambda t, d: d.Normal(t.zeros(3, dtype=t.float16), 1.0).sample((2,)),
    "bfloat16": lambda t, d: d.Normal(t.zeros(3, dtype=t.bfloat16), 1.0).log_prob(t.ones(3, dtype=t.bfloat16)),
    "certain coin": lambda t, d: d.Bernoulli(1).sample((2,)),
    "coin of integers": lambda t, d: d.Bernoulli(t.tensor([0, 1])).sample((2,)),
    "bool values": lambda t, d: d.Bernoulli(t.tensor([0.2, 0.3])).log_prob(t.tensor([False, True])),
    "weights of integers": lambda t, d: d.Categorical(t.tensor([1, 2, 3])).sample((4,)),
    "classes as floats": lambda t, d: d.Categorical(t.tensor([1.0, 2.0, 3.0])).log_prob(t.tensor([1.0, 2.0])),
    "half a class": lambda t, d: d.Categorical(t.ones(3)).log_prob(t.tensor([1.5])),
    "weights of zero": lambda t, d: d.Categorical(t.zeros(3)),
    "a list of weights": lambda t, d: d.Categorical([1.0, 2.0]),
    "an empty batch": lambda t, d: d.Categorical(t.ones(0, 3)).sample((2,)),
    "no draws": lambda t, d: d.Categorical(t.ones(2, 3)).sample((0,)),
    "the upper end": lambda t, d: d.Uniform(t.zeros(2), t.ones(2)).log_prob(t.tensor([1.0, 0.5])),
    "a list as shape": lambda t, d: d.Normal(t.zeros(2), 1.0).sample([3]),
    "a number as shape": lambda t, d: d.Normal(t.zeros(2), 1.0).sample(3),
    "a negative shape": lambda t, d: d.Normal(t.zeros(2), 1.0).sample((-1,)),
    "a narrower batch": lambda t, d: d.Normal(t.zeros(3), 1.0).expand((2,)),
    "a number as value": lambda t, d: d.HalfCauchy(1.0, validate_args=False).log_prob(1.0),
    "probability beyond one": lambda t, d: d.Normal(t.zeros(2), 1).icdf(t.tensor([1.5, 0.5])),
    "matrix of other dtype": lambda t, d: d.MultivariateNormal(t.zeros(2), t.eye(2, dtype=t.float64)).sample(),
    "float temperature": lambda t, d: d.RelaxedBernoulli(0.5, t.tensor([0.3])).rsample(),
    "bad value of a mixture": lambda t, d: d.MixtureSameFamily(
        d.Categorical(t.ones(2)), d.Categorical(t.ones(2, 4))).log_prob(t.tensor([1, 5])),
    "broadcast divergence": lambda t, d: d.kl_divergence(d.Uniform(t.zeros(2, 1), 1.0), d.Uniform(-t.ones(3), 2.0)),
    "infinite divergence": lambda t, d: d.kl_divergence(d.Normal(t.zeros(2), 1.0), d.Uniform(0.0, t.ones(2))),
    "divergence of dtypes": lambda t, d: d.kl_divergence(d.Normal(t.zeros(2, dtype=t.float64), 1.0), d.Normal(0.0, 1.0)),
}


@pytest.mark.parametrize("name", DTYPES)
def test_dtypes_and_corners(name):
    answers = []
    for t in (flambeau, torch):
        t.manual_seed(0)
        answers.append(outcome(lambda: DTYPES[name](t, t.distributions)))  # noqa: B023
    (ours, our_error), (theirs, their_error) = answers
    assert (our_error and our_error.__name__) == (their_error and their_error.__name__)
    if their_error is None:
        assert str(ours.dtype).split(".")[-1] == str(theirs.dtype).split(".")[-1]
        assert tuple(ours.shape) == tuple(theirs.shape)
        rtol = 1e-2 if theirs.dtype == torch.bfloat16 else 1e-5      # bfloat16 has 8 bits
        np.testing.assert_allclose(ours.double().numpy(), theirs.double().numpy(), rtol=rtol)


def test_a_covariance_of_other_size_is_refused():
    with pytest.raises(ValueError, match="covariance_matrix must end in the shape"):
        D.MultivariateNormal(flambeau.zeros(3, 2), flambeau.eye(3))        # PyTorch makes a distribution of it
