"""Random operators and generators: the same calls after the same seed give PyTorch's numbers, and its errors."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch

import flambeau
from flambeau.testing.samples import to_numpy

torch.set_num_threads(1)
pytestmark = pytest.mark.filterwarnings("ignore:.*out of bounds")

# On Intel processors PyTorch draws scalar Bernoulli numbers by MKL, from another stream.
_probe = torch.empty(500, dtype=torch.float64).bernoulli_(0.5, generator=torch.Generator().manual_seed(0))
_same_bernoulli = np.array_equal(
    to_numpy(flambeau.empty(500).bernoulli_(0.5, generator=flambeau.Generator().manual_seed(0))), _probe.numpy()
)


def agree(call, seed: int = 7) -> None:
    """call(library) gives one tensor in both libraries, and leaves both default streams at one place."""
    results = []
    for library in (torch, flambeau):
        library.manual_seed(seed)
        results.append((call(library), library.randn(3, dtype=library.float64)))
    (theirs, their_next), (ours, our_next) = results
    assert str(ours.dtype) == str(theirs.dtype) and tuple(ours.shape) == tuple(theirs.shape)
    assert ours.stride() == theirs.stride() or ours.numel() == 0
    rtol = 1e-14 if ours.dtype in (flambeau.float64, flambeau.complex128) else 0
    np.testing.assert_allclose(to_numpy(ours), to_numpy(theirs), rtol=rtol, atol=0)
    np.testing.assert_allclose(to_numpy(our_next), to_numpy(their_next), rtol=1e-15)


def refuse(call) -> Exception:
    """call(library) raises in both libraries, ours a subclass of theirs; returns our exception."""
    with pytest.raises(Exception) as theirs:
        call(torch)
    with pytest.raises(Exception) as ours:
        call(flambeau)
    assert isinstance(ours.value, theirs.type), ours.value
    return ours.value


CREATIONS = {
    "rand sizes": lambda t: t.rand(3, 4),
    "rand sequence": lambda t: t.rand([3, 40]),
    "rand keyword": lambda t: t.rand(size=(5,)),
    "rand empty": lambda t: t.rand(0, 3),
    "rand scalar": lambda t: t.rand(()),
    "rand half": lambda t: t.rand(50, dtype=t.float16),
    "rand bfloat16": lambda t: t.rand(50, dtype=t.bfloat16),
    "rand complex": lambda t: t.rand(50, dtype=t.complex64),
    "rand out": lambda t: t.rand(5, out=t.empty(0, dtype=t.float64)),
    "randn": lambda t: t.randn(3, 50),
    "randn few": lambda t: t.randn(7),
    "randn double": lambda t: t.randn(70, dtype=t.float64),
    "randn complex": lambda t: t.randn(4, 5, dtype=t.complex64),
    "randint high": lambda t: t.randint(10, (20,)),
    "randint low high": lambda t: t.randint(-5, 5, (20,)),
    "randint keywords": lambda t: t.randint(low=2, high=9, size=(3, 4)),
    "randint high keyword": lambda t: t.randint(high=9, size=(3, 4)),
    "randint size keyword": lambda t: t.randint(3, 9, size=[4]),
    "randint one bound": lambda t: t.randint(9, size=[4]),
    "randint tensor": lambda t: t.randint(t.tensor(9), (4,)),
    "randint float": lambda t: t.randint(0, 9, (4,), dtype=t.float32),
    "randint bool": lambda t: t.randint(0, 2, (40,), dtype=t.bool),
    "randint wide": lambda t: t.randint(-(2**62), 2**62, (40,)),
    "randperm": lambda t: t.randperm(30),
    "randperm int32": lambda t: t.randperm(30, dtype=t.int32),
    "randperm none": lambda t: t.randperm(0),
    "rand_like": lambda t: t.rand_like(t.zeros(5, 6).t()),
    "randn_like": lambda t: t.randn_like(t.zeros(5, 6).t()),
    "randn_like dtype": lambda t: t.randn_like(t.zeros(40), dtype=t.float64),
    "randint_like": lambda t: t.randint_like(t.zeros(5, 6).t(), 9),
    "randint_like bounds": lambda t: t.randint_like(t.zeros(5, dtype=t.int64), low=2, high=9),
    "normal numbers": lambda t: t.normal(1.0, 2.0, (40,)),
    "normal keywords": lambda t: t.normal(mean=1, std=2, size=(4,), dtype=t.float64),
    "normal mean": lambda t: t.normal(t.arange(40.0), 2.0),
    "normal mean only": lambda t: t.normal(t.arange(4.0)),
    "normal std": lambda t: t.normal(1.5, t.arange(40.0)),
    "normal both": lambda t: t.normal(t.zeros(4, 1), t.arange(5.0)),
    "normal dtypes": lambda t: t.normal(t.zeros(20), t.ones(20, dtype=t.float64)),
    "normal strided": lambda t: t.normal(t.zeros(4, 5).t(), 1.0),
    "normal half": lambda t: t.normal(0.3, t.ones(40, dtype=t.float16)),
    "bernoulli": lambda t: t.bernoulli(t.arange(40.0) / 39),
    "bernoulli method": lambda t: (t.arange(40.0, dtype=t.float64) / 39).bernoulli(),
    "bernoulli out": lambda t: t.bernoulli(t.arange(40.0) / 39, out=t.empty(40)),
    "multinomial": lambda t: t.multinomial(t.arange(40.0) / 39, 10),
    "multinomial one": lambda t: (t.arange(40.0) / 39).view(2, 20).multinomial(1),
    "multinomial replacement": lambda t: t.multinomial(t.arange(40.0) / 39, num_samples=50, replacement=True),
    "multinomial out": lambda t: t.multinomial(t.ones(5), 3, out=t.empty(0, dtype=t.int64)),
    "poisson": lambda t: t.poisson(t.arange(40.0)),
    "binomial": lambda t: t.binomial(t.full((40,), 30.0), t.arange(40.0) / 39),
    "binomial broadcast": lambda t: t.binomial(t.full((4, 5), 30.0), t.arange(5.0) / 4),
    "binomial of one count": lambda t: t.binomial(t.tensor(30.0), t.tensor(0.3)),
}


@pytest.mark.parametrize("name", CREATIONS)
def test_creation_gives_the_numbers_of_pytorch(name):
    agree(CREATIONS[name])


FILLS = {
    "uniform_": lambda x: x.uniform_(),
    "uniform_ bounds": lambda x: x.uniform_(-0.5, 2.0),
    "uniform_ keywords": lambda x: x.uniform_(**{"from": -0.3, "to": 0.3}),
    "normal_": lambda x: x.normal_(),
    "normal_ keywords": lambda x: x.normal_(mean=1.0, std=0.5),
    "random_": lambda x: x.random_(),
    "random_ to": lambda x: x.random_(9),
    "random_ to keyword": lambda x: x.random_(to=9),
    "random_ from": lambda x: x.random_(3, None),
    "random_ range": lambda x: x.random_(-3, 9),
    "bernoulli_ tensor": lambda x: x.bernoulli_((x * 0 + 0.3).detach()),
    "exponential_": lambda x: x.exponential_(),
    "exponential_ rate": lambda x: x.exponential_(lambd=0.7),
    "cauchy_": lambda x: x.cauchy_(0.3, sigma=0.7),
    "log_normal_": lambda x: x.log_normal_(0.3, 0.7),
    "geometric_": lambda x: x.geometric_(0.3),
}
SCALAR_BERNOULLI = {"bernoulli_": lambda x: x.bernoulli_(), "bernoulli_ p": lambda x: x.bernoulli_(p=0.2)}
NODES = {
    "uniform_": "UniformBackward0", "normal_": "NormalBackward0", "random_": "RandomBackward2",
    "random_ to": "RandomBackward1", "random_ range": "RandomBackward0", "random_ from": "RandomBackward0",
    "bernoulli_": "BernoulliBackward2", "bernoulli_ tensor": "BernoulliBackward1", "exponential_": "ExponentialBackward0",
    "cauchy_": "CauchyBackward0", "log_normal_": "LogNormalBackward0", "geometric_": "GeometricBackward0",
}
LAYOUTS = {
    "few": lambda t: t.zeros(3, 4),
    "many": lambda t: t.zeros(5, 8),
    "transposed": lambda t: t.zeros(5, 8).t(),
    "column": lambda t: t.zeros(40, 2)[:, 1],
    "double": lambda t: t.zeros(5, 8, dtype=t.float64),
    "half": lambda t: t.zeros(5, 8, dtype=t.float16),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", FILLS)
def test_fill_gives_the_numbers_of_pytorch(name, layout):
    agree(lambda t: FILLS[name](LAYOUTS[layout](t)))


@pytest.mark.skipif(not _same_bernoulli, reason="this processor's PyTorch draws bernoulli_ by MKL")
@pytest.mark.parametrize("name", SCALAR_BERNOULLI)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_bernoulli_of_a_number(name, layout):
    agree(lambda t: SCALAR_BERNOULLI[name](LAYOUTS[layout](t)))
    agree(lambda t: t.bernoulli(LAYOUTS[layout](t), 0.3))


@pytest.mark.parametrize("name", NODES)
def test_fill_counts_a_version_and_stops_the_gradient(name):
    fill = {**FILLS, **SCALAR_BERNOULLI}[name]
    for library in (torch, flambeau):
        x = library.ones(3, 4, requires_grad=True)
        y = x * 2
        assert fill(y) is y and y._version == 1
        assert type(y.grad_fn).__name__ == NODES[name]
        y.sum().backward()
        assert x.grad.tolist() == [[0.0] * 4] * 3


@pytest.mark.parametrize("name", NODES)
def test_fill_of_a_leaf_needs_no_grad(name):
    fill = {**FILLS, **SCALAR_BERNOULLI}[name]
    message = str(refuse(lambda t: fill(t.ones(3, requires_grad=True))))
    assert "leaf" in message and name.split()[0] in message
    x = flambeau.ones(3, requires_grad=True)
    with flambeau.no_grad():
        fill(x)
    assert x.is_leaf and x.requires_grad and x._version == 1


def test_fill_of_a_view_rebases_its_base():
    x = flambeau.ones(4, requires_grad=True)
    y = x * 2
    y[1:3].uniform_()
    assert type(y.grad_fn).__name__ == "CopySlices"
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 0.0, 0.0, 2.0]


@pytest.mark.parametrize(
    "draw, node",
    [(lambda t, x: t.bernoulli(x), "BernoulliBackward0"), (lambda t, x: t.poisson(x), "PoissonBackward0"),
     (lambda t, x: t.normal(x, 1.0), "NormalBackward1"), (lambda t, x: t.normal(1.0, x), "NormalBackward2"),
     (lambda t, x: t.normal(t.ones(2, 3), x), "NormalBackward3")],
    ids=["bernoulli", "poisson", "normal mean", "normal std", "normal both"],
)
def test_parameters_of_a_draw_get_zero_gradients(draw, node):
    for library in (torch, flambeau):
        x = library.full((3,), 0.5, requires_grad=True)
        y = draw(library, x)
        assert type(y.grad_fn).__name__ == node
        y.sum().backward()
        assert x.grad.tolist() == [0.0, 0.0, 0.0]


def test_multinomial_is_not_differentiable():
    assert not flambeau.multinomial(flambeau.ones(3, requires_grad=True), 2).requires_grad


ERRORS = {
    "no size": lambda t: t.rand(),
    "float size": lambda t: t.rand(2.5),
    "negative size": lambda t: t.rand(-1),
    "generator": lambda t: t.rand(2, generator=3),
    "rand of integers": lambda t: t.rand(2, dtype=t.int64),
    "randn of integers": lambda t: t.randn(2, dtype=t.int64),
    "rand into integers": lambda t: t.rand(2, out=t.empty(2, dtype=t.int64)),
    "out of another dtype": lambda t: t.rand(2, out=t.empty(2), dtype=t.float64),
    "rand_like list": lambda t: t.rand_like([1.0]),
    "randint without size": lambda t: t.randint(5),
    "randint size": lambda t: t.randint(5, 2),
    "randint float": lambda t: t.randint(5.0, (2,)),
    "randint empty range": lambda t: t.randint(5, 3, (2,)),
    "randint bool": lambda t: t.randint(0, 5, (2,), dtype=t.bool),
    "randint uint8": lambda t: t.randint(0, 300, (2,), dtype=t.uint8),
    "randint grad": lambda t: t.randint(5, (2,), requires_grad=True),
    "randperm negative": lambda t: t.randperm(-1),
    "randperm float": lambda t: t.randperm(3.0),
    "randperm half": lambda t: t.randperm(3000, dtype=t.float16),
    "randperm int8": lambda t: t.randperm(200, dtype=t.int8),
    "randperm bool": lambda t: t.randperm(3, dtype=t.bool),
    "normal numbers": lambda t: t.normal(0, 1),
    "normal std": lambda t: t.normal(0.0, -1.0, (2,)),
    "normal without mean": lambda t: t.normal(std=t.ones(2)),
    "normal stds": lambda t: t.normal(t.zeros(2), -t.ones(2)),
    "normal integers": lambda t: t.normal(t.zeros(2, dtype=t.int64), 1.0),
    "normal shapes": lambda t: t.normal(t.zeros(2), t.ones(3)),
    "uniform_ order": lambda t: t.ones(2).uniform_(1, 0),
    "uniform_ infinite": lambda t: t.ones(2).uniform_(0, float("inf")),
    "uniform_ nan": lambda t: t.ones(2).uniform_(float("nan"), 1),
    "uniform_ too wide": lambda t: t.ones(2).uniform_(-3e38, 3e38),
    "uniform_ integers": lambda t: t.ones(2, dtype=t.int64).uniform_(),
    "uniform_ keyword": lambda t: t.ones(2).uniform_(low=0),
    "uniform_ expanded": lambda t: t.ones(3).expand(2, 3).uniform_(),
    "normal_ integers": lambda t: t.ones(2, dtype=t.int64).normal_(),
    "normal_ std": lambda t: t.ones(2).normal_(0, -1),
    "random_ range": lambda t: t.ones(2).random_(5, 5),
    "random_ float": lambda t: t.ones(2).random_(2.5),
    "random_ zero": lambda t: t.ones(2).random_(0),
    "random_ complex": lambda t: t.ones(2, dtype=t.complex64).random_(),
    "bernoulli_": lambda t: t.ones(2).bernoulli_(1.5),
    "bernoulli_ nan": lambda t: t.ones(2).bernoulli_(float("nan")),
    "bernoulli_ tensor": lambda t: t.ones(2).bernoulli_(t.tensor([2.0, 0.0])),
    "bernoulli_ shape": lambda t: t.ones(3).bernoulli_(t.ones(2)),
    "bernoulli_ integer p": lambda t: t.ones(3).bernoulli_(t.ones(3, dtype=t.int64)),
    "bernoulli": lambda t: t.bernoulli(t.tensor([0.5, 2.0])),
    "bernoulli integers": lambda t: t.bernoulli(t.tensor([1])),
    "exponential_": lambda t: t.ones(2).exponential_(0.0),
    "exponential_ integers": lambda t: t.ones(2, dtype=t.int64).exponential_(),
    "cauchy_": lambda t: t.ones(2).cauchy_(0.0, 0.0),
    "cauchy_ integers": lambda t: t.ones(2, dtype=t.int64).cauchy_(),
    "log_normal_": lambda t: t.ones(2).log_normal_(0.0, 0.0),
    "log_normal_ integers": lambda t: t.ones(2, dtype=t.int64).log_normal_(),
    "geometric_": lambda t: t.ones(2).geometric_(1.0),
    "geometric_ bool": lambda t: t.ones(2, dtype=t.bool).geometric_(0.5),
    "multinomial negative": lambda t: t.multinomial(t.tensor([-1.0, 2.0]), 1),
    "multinomial zeros": lambda t: t.multinomial(t.zeros(3), 2, True),
    "multinomial too many": lambda t: t.multinomial(t.ones(3), 4),
    "multinomial none": lambda t: t.multinomial(t.ones(3), 0),
    "multinomial dimensions": lambda t: t.multinomial(t.ones(2, 2, 2), 1),
    "multinomial integers": lambda t: t.multinomial(t.tensor([1, 1]), 1),
    "multinomial float count": lambda t: t.multinomial(t.ones(3), 2.5),
    "poisson negative": lambda t: t.poisson(t.tensor([-1.0])),
    "poisson integers": lambda t: t.poisson(t.tensor([1])),
    "binomial integers": lambda t: t.binomial(t.tensor([1]), t.tensor([0.5])),
    "binomial dtypes": lambda t: t.binomial(t.ones(2), t.ones(2, dtype=t.float64)),
    "generator device": lambda t: t.Generator("cuda"),
    "seed type": lambda t: t.Generator().manual_seed("3"),
    "seed float": lambda t: t.Generator().manual_seed(1.5),
    "seed range": lambda t: t.Generator().manual_seed(2**64),
    "default seed range": lambda t: t.manual_seed(-(2**63) - 1),
    "state type": lambda t: t.set_rng_state([1]),
    "state dtype": lambda t: t.set_rng_state(t.zeros(5056)),
    "state size": lambda t: t.set_rng_state(t.zeros(10, dtype=t.uint8)),
    "state zeros": lambda t: t.set_rng_state(t.zeros(5056, dtype=t.uint8)),
    "offset": lambda t: t.Generator().get_offset(),
}


@pytest.mark.parametrize("name", ERRORS)
def test_error_types_are_those_of_pytorch(name):
    assert len(str(refuse(ERRORS[name]))) > 10


def test_a_refused_fill_draws_and_writes_nothing():
    flambeau.manual_seed(3)
    before = flambeau.get_rng_state()
    x = flambeau.ones(3, requires_grad=True)
    for fill in (lambda: x.uniform_(), lambda: x.detach().uniform_(1, 0), lambda: flambeau.rand(2, dtype=flambeau.int64)):
        with pytest.raises((RuntimeError, NotImplementedError)):
            fill()
    assert flambeau.equal(before, flambeau.get_rng_state()) and x.tolist() == [1.0, 1.0, 1.0]


def test_floats_warn_of_bounds_they_have_not_exactly():
    with pytest.warns(UserWarning, match="out of bounds"):
        flambeau.empty(3).random_(0, 2**25)


def test_meta_tensors_draw_nothing():
    flambeau.manual_seed(3)
    before = flambeau.get_rng_state()
    assert flambeau.rand(2, 3, device="meta").is_meta
    assert flambeau.empty(2, device="meta").uniform_().is_meta
    assert flambeau.rand_like(flambeau.empty(2, device="meta")).is_meta
    assert flambeau.equal(before, flambeau.get_rng_state())


# -- dropout ---------------------------------------------------------------------------------------------

DROPOUTS = {
    "dropout": (lambda t, x: t.nn.functional.dropout(x, 0.4), (3, 4)),
    "all": (lambda t, x: t.nn.functional.dropout(x, 1.0), (3, 4)),
    "inplace": (lambda t, x: t.nn.functional.dropout(x * 1, 0.4, inplace=True), (3, 4)),
    "alpha": (lambda t, x: t.nn.functional.alpha_dropout(x, 0.4, training=True), (3, 40)),
    "channels 1d": (lambda t, x: t.nn.functional.dropout1d(x, 0.4), (5, 6, 2)),
    "channels 1d unbatched": (lambda t, x: t.nn.functional.dropout1d(x, 0.4), (6, 2)),
    "channels 2d": (lambda t, x: t.nn.functional.dropout2d(x, 0.4), (5, 6, 2, 2)),
    "channels 2d of three": (lambda t, x: t.nn.functional.dropout2d(x, 0.4), (5, 6, 2)),
    "channels 3d": (lambda t, x: t.nn.functional.dropout3d(x, 0.4), (5, 6, 2, 2, 2)),
    "channels 3d unbatched": (lambda t, x: t.nn.functional.dropout3d(x, 0.4), (6, 2, 2, 2)),
    "channels 3d of three": (lambda t, x: t.nn.functional.dropout3d(x, 0.4), (6, 2, 2)),
    "channels alpha": (lambda t, x: t.nn.functional.feature_alpha_dropout(x, 0.4, training=True), (5, 6, 2)),
    "torch.dropout": (lambda t, x: t.dropout(x, 0.4, True), (3, 4)),
    "torch.dropout_": (lambda t, x: t.dropout_(x * 1, 0.4, True), (3, 4)),
    "torch.feature_dropout": (lambda t, x: t.feature_dropout(x, 0.4, True), (3, 4, 2)),
    "gumbel softmax": (lambda t, x: t.nn.functional.gumbel_softmax(x, 0.7), (3, 4)),
    "gumbel softmax hard": (lambda t, x: t.nn.functional.gumbel_softmax(x, hard=True), (3, 4)),
}


@pytest.mark.skipif(not _same_bernoulli, reason="this processor's PyTorch draws bernoulli_ by MKL")
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("name", DROPOUTS)
@pytest.mark.filterwarnings("ignore:dropout")
def test_dropout_and_its_gradient(name, dtype):
    if "gumbel" in name and not hasattr(flambeau.Tensor, "softmax"):
        pytest.skip("until softmax is registered")
    call, shape = DROPOUTS[name]
    values = np.arange(1, np.prod(shape) + 1).reshape(shape) / 8
    found = []
    for library in (torch, flambeau):
        library.manual_seed(3)
        x = library.tensor(values, dtype=getattr(library, dtype), requires_grad=True)
        y = call(library, x)
        (y * library.arange(1.0, 3.0).to(y.dtype)[: y.shape[-1] % 2 + 1].sum()).sum().backward()
        found.append((y, x.grad, type(y.grad_fn).__name__))
    (y, grad, node), (our_y, our_grad, our_node) = found
    tolerance = {"float32": 2e-6, "float64": 1e-14, "bfloat16": 2e-2}[dtype] if "gumbel" in name else 0
    np.testing.assert_allclose(to_numpy(our_y), to_numpy(y), rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(to_numpy(our_grad), to_numpy(grad), rtol=tolerance, atol=tolerance)
    assert our_node == node or "unbatched" in name or "3d of three" in name


@pytest.mark.skipif(not _same_bernoulli, reason="this processor's PyTorch draws bernoulli_ by MKL")
def test_dropout_goes_in_the_order_of_memory():
    agree(lambda t: t.nn.functional.dropout(t.ones(5, 6).t(), 0.5))


def test_dropout_that_does_nothing_returns_its_input():
    x = flambeau.ones(3)
    assert flambeau.nn.functional.dropout(x, 0.5, training=False) is x
    assert flambeau.nn.functional.dropout(x, 0.0) is x and flambeau.dropout(x, 0.5, False) is x


@pytest.mark.parametrize(
    "call",
    [lambda t: t.nn.functional.dropout(t.ones(3), 1.5), lambda t: t.dropout(t.ones(3), -0.1, True),
     lambda t: t.nn.functional.dropout(t.ones(3, dtype=t.int64)), lambda t: t.nn.functional.dropout1d(t.ones(3)),
     lambda t: t.nn.functional.dropout(t.ones(3, requires_grad=True), inplace=True),
     lambda t: t.feature_dropout(t.ones(2), 0.5, True)],
)
def test_dropout_errors(call):
    refuse(call)


# -- generators ------------------------------------------------------------------------------------------


def test_generators_are_independent_of_the_default_one():
    for library in (torch, flambeau):
        library.manual_seed(0)
    g, h = torch.Generator().manual_seed(5), flambeau.Generator().manual_seed(5)
    assert flambeau.rand(3, generator=h).tolist() == torch.rand(3, generator=g).tolist()
    assert flambeau.zeros(20).normal_(generator=h).tolist() == torch.zeros(20).normal_(generator=g).tolist()
    assert flambeau.randperm(9, generator=h).tolist() == torch.randperm(9, generator=g).tolist()
    assert flambeau.rand(3).tolist() == torch.rand(3).tolist()


def test_seeds_are_those_of_pytorch():
    assert flambeau.Generator().initial_seed() == torch.Generator().initial_seed()
    for seed in (3, -1, 2**64 - 1, np.int64(4), "12", 1.7):
        assert flambeau.manual_seed(seed) is flambeau.default_generator
        torch.manual_seed(seed)
        assert flambeau.initial_seed() == torch.initial_seed()
    first = flambeau.seed()
    assert flambeau.initial_seed() == first != flambeau.seed()


def test_states_go_to_and_come_from_pytorch():
    flambeau.manual_seed(3)
    flambeau.randn(7)
    torch.set_rng_state(torch.tensor(flambeau.get_rng_state().tolist(), dtype=torch.uint8))
    assert flambeau.randn(7).tolist() == torch.randn(7).tolist()
    flambeau.set_rng_state(flambeau.tensor(torch.get_rng_state().numpy()))
    assert flambeau.randn(7).tolist() == torch.randn(7).tolist()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g)), lambda g: g.clone_state()])
def test_copies_of_a_generator_continue_its_stream(copied):
    g = flambeau.Generator().manual_seed(4)
    flambeau.randn(3, generator=g)
    other = copied(g)
    assert other is not g and other.initial_seed() == 4 and other.device == flambeau.device("cpu")
    expected = flambeau.randn(5, generator=g).tolist()
    assert flambeau.randn(5, generator=other).tolist() == expected


def test_fork_rng_leaves_no_trace():
    flambeau.manual_seed(1)
    before = flambeau.get_rng_state()
    with pytest.raises(KeyError), flambeau.random.fork_rng():
        flambeau.rand(5)
        raise KeyError
    assert flambeau.equal(before, flambeau.get_rng_state())
    with flambeau.random.fork_rng(enabled=False):
        flambeau.rand(5)
    assert not flambeau.equal(before, flambeau.get_rng_state())
    with pytest.raises(RuntimeError, match="no accelerator"), flambeau.random.fork_rng(devices=[0]):
        pass


def test_threads_share_a_generator_without_losing_or_repeating_numbers():
    g = flambeau.Generator().manual_seed(2)
    found: list[float] = []

    def draw():
        for _ in range(200):
            found.extend(flambeau.rand(7, generator=g).tolist())

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = flambeau.rand(4 * 200 * 7, generator=flambeau.Generator().manual_seed(2)).tolist()
    assert sorted(found) == sorted(expected)


def test_importing_and_seeding_do_not_import_numpy_random():
    code = "import sys, flambeau; flambeau.manual_seed(0); sys.exit('numpy.random' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
