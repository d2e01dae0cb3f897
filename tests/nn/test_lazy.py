"""Lazy layers and parameters without a shape."""

from __future__ import annotations

import copy
import pickle

import pytest

import flambeau

LAYERS = [("LazyLinear", (3,), (2, 4)), *[(f"LazyConv{n}d", (4, 2), (2, 3, *[5] * n)) for n in (1, 2, 3)],
          *[(f"LazyConvTranspose{n}d", (4, 2), (2, 3, *[5] * n)) for n in (1, 2, 3)],
          *[(f"LazyBatchNorm{n}d", (), (2, 3, *[4] * n)) for n in (1, 2, 3)],
          *[(f"LazyInstanceNorm{n}d", (), (2, 3, *[4] * n)) for n in (1, 2, 3)]]


@pytest.mark.parametrize(("name", "arguments", "shape"), LAYERS, ids=lambda v: str(v))
def test_first_call_gives_shapes_and_pytorchs_values(both, name, arguments, shape):
    def run(lib):
        layer = getattr(lib.nn, name)(*arguments)
        before = repr(layer)
        n = 1
        for size in shape:
            n *= size
        out = layer(lib.arange(float(n)).reshape(shape).sin())
        assert type(layer) is getattr(lib.nn, name[4:])
        return before, repr(layer), out, dict(layer.state_dict())

    both(run, tolerance=1e-4)


def test_names_and_initial_state():
    layer = flambeau.nn.LazyLinear(3)
    assert layer.has_uninitialized_params() and flambeau.nn.parameter.is_lazy(layer.weight)
    assert repr(layer.weight) == "<UninitializedParameter>"
    assert isinstance(layer.weight, flambeau.nn.Parameter) and layer.weight.requires_grad
    assert list(layer.state_dict()) == ["weight", "bias"]


@pytest.mark.parametrize("use", [
    lambda p: p + 1, lambda p: p.sum(), lambda p: p.numel(), lambda p: p.detach(), len, lambda p: p.tolist(),
    lambda p: flambeau.nn.functional.linear(flambeau.ones(2, 3), p), flambeau.nn.init.normal_], ids=range(8))
def test_use_before_the_first_call_is_refused(use):
    with pytest.raises(ValueError, match="uninitialized parameter.*forward"):
        use(flambeau.nn.LazyLinear(3).weight)


def test_shape_before_the_first_call_is_refused():
    with pytest.raises(RuntimeError, match="uninitialized parameter has no shape yet"):
        _ = flambeau.nn.LazyLinear(3).weight.shape


def test_checkpoint_gives_shapes():
    source = flambeau.nn.Linear(2, 3)
    layer = flambeau.nn.LazyLinear(3)
    layer.load_state_dict(source.state_dict())
    x = flambeau.ones(1, 2)
    assert layer(x).tolist() == source(x).tolist()
    assert type(layer) is flambeau.nn.Linear and layer.in_features == 2
    other = flambeau.nn.LazyLinear(3)
    other.load_state_dict(flambeau.nn.LazyLinear(3).state_dict())
    assert other.has_uninitialized_params()
    with pytest.raises(RuntimeError, match="uninitialized"):
        source.load_state_dict(flambeau.nn.LazyLinear(3).state_dict())


def test_dtype_is_kept_and_optimizers_take_them_early():
    layer = flambeau.nn.LazyLinear(3).double()
    optimizer = flambeau.optim.SGD(layer.parameters(), lr=0.1)
    layer(flambeau.ones(2, 4, dtype=flambeau.float64)).sum().backward()
    before = layer.weight.detach().clone()
    optimizer.step()
    assert layer.weight.dtype is flambeau.float64
    assert flambeau.allclose(layer.weight - before, flambeau.full((3, 4), -0.2, dtype=flambeau.float64))


def test_copies_are_lazy_too():
    layer = flambeau.nn.LazyConv2d(4, 3)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert other.has_uninitialized_params()
        other(flambeau.ones(1, 2, 5, 5))
        assert other.in_channels == 2 and layer.has_uninitialized_params()


def test_materialize():
    p = flambeau.nn.UninitializedParameter(dtype=flambeau.float64)
    p.materialize((2, 3))
    assert type(p) is flambeau.nn.Parameter and p.shape == (2, 3) and p.dtype is flambeau.float64
    b = flambeau.nn.UninitializedBuffer()
    assert not b.requires_grad
    b.materialize((2,))
    assert type(b) is flambeau.Tensor


def test_wrong_inputs(both):
    both(lambda lib: lib.nn.LazyConv1d(4, 2)(lib.ones(3)))
    both(lambda lib: lib.nn.LazyBatchNorm2d()(lib.ones(3, 4)))
