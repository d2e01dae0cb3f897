"""weights_only=False: whole modules and other objects, under PyTorch's names."""

from __future__ import annotations

import importlib
import pickle

import numpy as np
import pytest
import torch
import torch.utils.data

import flambeau
from flambeau.serialization import _names

from .conftest import loaded, saved


class Net(flambeau.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = flambeau.nn.Linear(2, 2)
        self.register_buffer("seen", flambeau.zeros(1))
        self.activation = flambeau.nn.functional.relu

    def forward(self, x):
        return self.activation(self.inner(x))


class Special(flambeau.Tensor):
    pass


NETS = {
    "mlp": (lambda nn: nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.BatchNorm1d(8), nn.Dropout(0.1),
                                     nn.Linear(8, 2)), (3, 4)),
    "conv": (lambda nn: nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.GroupNorm(1, 2), nn.MaxPool2d(2), nn.Flatten(),
                                      nn.Linear(8, 2), nn.LeakyReLU(), nn.Softmax(1)), (2, 1, 4, 4)),
    "lists": (lambda nn: nn.Sequential(nn.ModuleList([nn.LayerNorm(3)])[0], nn.GELU(), nn.Identity()), (2, 3)),
}


@pytest.mark.parametrize("name", NETS)
def test_modules_compute_the_same_after_the_journey(ways, name):
    writer, reader = ways
    build, shape = NETS[name]
    writer.manual_seed(0)
    net = build(writer.nn).eval()
    copy = loaded(reader, saved(writer, net), weights_only=False)
    x = np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)
    want, got = net(writer.tensor(x)), copy(reader.tensor(x))
    assert np.allclose(want.detach().numpy(), got.detach().numpy(), rtol=1e-5, atol=1e-6)
    assert repr(net) == repr(copy) and not copy.training
    copy.train()
    assert list(copy.state_dict()) == list(net.state_dict())


def test_users_classes_and_functions():
    net = Net()
    copy = loaded(flambeau, saved(flambeau, net), weights_only=False)
    assert type(copy) is Net and copy.activation is flambeau.nn.functional.relu
    assert copy.inner.weight.tolist() == net.inner.weight.tolist() and copy.seen.tolist() == [0.0]
    with pytest.raises(pickle.UnpicklingError, match="test_objects.Net was not an allowed global"):
        loaded(flambeau, saved(flambeau, net))


def test_tensor_subclasses():
    t = flambeau.ones(2).as_subclass(Special)
    t.note = 3
    r = loaded(flambeau, saved(flambeau, t), weights_only=False)
    assert type(r) is Special and r.note == 3
    with flambeau.serialization.safe_globals([Special]):
        assert type(loaded(flambeau, saved(flambeau, t))) is Special


def test_generators_continue(ways):
    writer, reader = ways
    g = writer.Generator()
    g.manual_seed(5)
    writer.rand(3, generator=g)
    h = loaded(reader, saved(writer, g), weights_only=False)
    assert writer.rand(4, generator=g).tolist() == reader.rand(4, generator=h).tolist()


def test_optimizers_datasets_and_numpy(ways):
    writer, reader = ways
    data = importlib.import_module(f"{writer.__name__}.utils.data")
    obj = {"opt": writer.optim.SGD([writer.nn.Parameter(writer.ones(2))], lr=0.5, momentum=0.9),
           "data": data.TensorDataset(writer.arange(4)), "array": np.arange(3), "number": np.float64(2.5), "range": range(3)}
    r = loaded(reader, saved(writer, obj), weights_only=False)
    assert type(r["opt"]) is reader.optim.SGD and r["opt"].param_groups[0]["lr"] == 0.5
    assert r["data"][2][0].item() == 2 and r["array"].tolist() == [0, 1, 2] and r["number"] == 2.5 and r["range"] == range(3)
    r["opt"].step()


def _classes(path):
    ours, theirs = (importlib.import_module(f"{top}.{path}") for top in ("flambeau", "torch"))
    for name in sorted(set(dir(ours)) & set(dir(theirs))):
        a, b = getattr(ours, name), getattr(theirs, name)
        if (isinstance(a, type) and isinstance(b, type) and a.__module__.startswith("flambeau")
                and b.__module__.startswith("torch")):
            yield name, a, b


@pytest.mark.parametrize("path", ["nn", "optim", "optim.lr_scheduler", "utils.data"])
def test_every_class_has_the_name_that_pytorch_finds(path):
    wrong = []
    for name, ours, theirs in _classes(path):
        module, own = _names.torch_name(ours)
        try:
            found = getattr(importlib.import_module(module), own)
        except (ImportError, AttributeError):
            found = None
        if found is not theirs or _names.find(theirs.__module__, theirs.__qualname__) is not ours:
            wrong.append((name, module, theirs.__module__))
    assert not wrong


def test_a_class_that_is_not_here_is_named():
    data = saved(torch, torch.nn.Linear(1, 1)).replace(b"modules.linear\nLinear", b"modules.linear\nLineax")
    with pytest.raises(RuntimeError, match="CRC of 'archive/data.pkl'"):
        loaded(flambeau, data, weights_only=False)
    with pytest.raises(AttributeError, match="torch.nn.modules.linear.Lineax, which flambeau does not have"):
        _names.find("torch.nn.modules.linear", "Lineax")


def test_pickle_module_means_weights_only_false():
    data = saved(flambeau, {"a": slice(1), "t": flambeau.ones(1)})
    assert loaded(flambeau, data, pickle_module=pickle)["a"] == slice(1)
    with pytest.raises(RuntimeError, match="Can not safely load weights when explicit pickle_module is specified"):
        loaded(flambeau, data, pickle_module=pickle, weights_only=True)


class _Module:
    """Stands for dill: a module whose Pickler derives from Python's own."""

    __name__ = "mine"
    Unpickler = pickle.Unpickler

    class Pickler(pickle._Pickler):
        pass


def test_a_pickle_module_with_a_pickler_in_python_writes_pytorchs_names():
    net = flambeau.nn.Linear(1, 1)
    data = saved(flambeau, {"net": net, "f": flambeau.nn.functional.relu, "l": len}, pickle_module=_Module)
    r = loaded(torch, data, weights_only=False)
    assert type(r["net"]) is torch.nn.Linear and r["f"] is torch.nn.functional.relu and r["l"] is len
    with pytest.raises(TypeError, match="pickle_module='json' cannot be used"):
        saved(flambeau, net, pickle_module=importlib.import_module("json"))
