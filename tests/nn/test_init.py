"""nn.init: the same numbers for the same seed."""

from __future__ import annotations

import pytest

import flambeau
from flambeau import nn

FILLS = [
    ("uniform_", {}), ("uniform_", dict(a=-1, b=2)), ("normal_", {}), ("trunc_normal_", {}),
    ("trunc_normal_", dict(std=0.02)), ("trunc_normal_", dict(a=-0.1, b=0.1)),
    ("trunc_normal_", dict(mean=1.0, a=2.0, b=2.5)), ("constant_", dict(val=3.0)), ("ones_", {}),
    ("zeros_", {}), ("eye_", {}), ("xavier_uniform_", {}), ("xavier_normal_", dict(gain=2.0)),
    ("kaiming_uniform_", dict(nonlinearity="relu")), ("kaiming_normal_", dict(mode="fan_out")),
    ("orthogonal_", dict(gain=2.0)), ("sparse_", dict(sparsity=0.3)),
]


@pytest.mark.parametrize("shape", [(5, 7), (7, 5), (4, 4)])
@pytest.mark.parametrize(("name", "options"), FILLS, ids=[f"{n}-{i}" for i, (n, _) in enumerate(FILLS)])
def test_fill(both, name, options, shape):
    def run(lib):
        t = lib.nn.Parameter(lib.empty(*shape))
        result = getattr(lib.nn.init, name)(t, **options)
        return [t, result is t, t.requires_grad, t.grad_fn is None]

    both(run)


@pytest.mark.parametrize(("shape", "groups"), [((4, 2, 3), 1), ((4, 2, 3, 3), 2), ((4, 2, 3, 3, 3), 2)])
def test_dirac(both, shape, groups):
    both(lambda lib: lib.nn.init.dirac_(lib.empty(*shape), groups))


def test_generator(both):
    both(lambda lib: [lib.nn.init.normal_(lib.empty(20), generator=lib.Generator().manual_seed(3)),
                      lib.rand(1)])


@pytest.mark.parametrize("name", ["relu", "leaky_relu", "tanh", "selu", "conv2d", "sigmoid", "linear", "foo"])
def test_gain(both, name):
    both(lambda lib: float(lib.nn.init.calculate_gain(name)))


def test_refused(both):
    both(lambda lib: lib.nn.init.xavier_uniform_(lib.empty(3)))
    both(lambda lib: lib.nn.init.eye_(lib.empty(3)))
    both(lambda lib: lib.nn.init.dirac_(lib.empty(3, 3)))
    both(lambda lib: lib.nn.init.orthogonal_(lib.empty(3)))
    both(lambda lib: lib.nn.init.kaiming_normal_(lib.empty(3, 3), mode="foo"))
    both(lambda lib: float(lib.nn.init.calculate_gain("leaky_relu", "a")))


def test_old_names_warn():
    with pytest.warns(FutureWarning, match="nn.init.uniform_"):
        nn.init.uniform(flambeau.empty(2))


def test_empty_tensor_warns():
    with pytest.warns(UserWarning, match="zero-element"):
        nn.init.kaiming_uniform_(flambeau.empty(0, 3))
