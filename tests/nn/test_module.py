"""Module: registration, attributes, walking, text, copies, conversion."""

from __future__ import annotations

import copy
import pickle
import warnings

import pytest

import flambeau
from flambeau import nn


def make(lib):
    class Net(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = lib.nn.Linear(2, 3)
            self.rest = lib.nn.Sequential(lib.nn.Linear(3, 3), lib.nn.Tanh())
            self.again = self.rest
            self.register_buffer("kept", lib.ones(2))
            self.register_buffer("scratch", lib.ones(1), persistent=False)
            self.scale = lib.nn.Parameter(lib.zeros(2))
            self.register_parameter("absent", None)

        def forward(self, x, times=1):
            return self.rest(self.first(x)) * times

    return Net()


def test_names_of_members(both):
    def names(lib):
        net = make(lib)
        return [[k for k, _ in net.named_parameters()],
                [k for k, _ in net.named_parameters(remove_duplicate=False)],
                [k for k, _ in net.named_parameters("p", recurse=False)], [k for k, _ in net.named_buffers()],
                [k for k, _ in net.named_modules()],
                [k for k, _ in net.named_modules(remove_duplicate=False)],
                [k for k, _ in net.named_children()], list(net.state_dict()),
                dict(net.state_dict()._metadata)]

    both(names)


def test_text(both):
    both(lambda lib: repr(make(lib)))
    both(lambda lib: repr(lib.nn.ModuleList([lib.nn.Linear(2, 2), lib.nn.Linear(2, 2), lib.nn.ReLU()])))
    both(lambda lib: [repr(lib.nn.Module()), repr(lib.nn.ModuleList()), repr(lib.nn.ModuleDict({"a": make(lib)}))])


def test_forward_and_gradient_with_the_same_seed(both):
    def run(lib):
        net = make(lib)
        x = lib.randn(4, 2, requires_grad=True)
        net(x, times=2).sum().backward()
        return [x.grad, *(p.grad for p in net.parameters())]

    both(run)


ASSIGNMENTS = {
    "module by number": lambda lib, n: setattr(n, "first", 3),
    "parameter by tensor": lambda lib, n: setattr(n, "scale", lib.ones(2)),
    "buffer by number": lambda lib, n: setattr(n, "kept", 3),
    "parameter by module": lambda lib, n: setattr(n, "scale", lib.nn.ReLU()),
    "parameter by None": lambda lib, n: setattr(n, "scale", None) or [k for k, _ in n.named_parameters()],
    "buffer by tensor": lambda lib, n: setattr(n, "kept", lib.zeros(3)) or n.kept,
    "buffer by parameter": lambda lib, n: setattr(n, "kept", lib.nn.Parameter(lib.ones(1))) or [
        [k for k, _ in n.named_parameters()], [k for k, _ in n.named_buffers()]],
    "buffer class": lambda lib, n: (
        setattr(n, "new", lib.nn.Buffer(lib.ones(1))) or [k for k, _ in n.named_buffers()]),
    "delete module": lambda lib, n: delattr(n, "rest") or [k for k, _ in n.named_parameters()],
    "delete absent": lambda lib, n: delattr(n, "nothing"),
    "get absent": lambda lib, n: n.nothing,
    "buffer with dot": lambda lib, n: n.register_buffer("a.b", None),
    "buffer without name": lambda lib, n: n.register_buffer("", None),
    "buffer over method": lambda lib, n: n.register_buffer("forward", None),
    "buffer of number": lambda lib, n: n.register_buffer("q", 3),
    "buffer named by number": lambda lib, n: n.register_buffer(3, None),
    "parameter of tensor": lambda lib, n: n.register_parameter("q", lib.ones(1)),
    "parameter not a leaf": lambda lib, n: n.register_parameter("q", lib.nn.Parameter(lib.ones(1)) * 2),
    "module of number": lambda lib, n: n.add_module("q", 3),
    "module with dot": lambda lib, n: n.add_module("a.b", None),
    "submodule": lambda lib, n: repr(n.get_submodule("rest.0")),
    "submodule absent": lambda lib, n: n.get_submodule("rest.7"),
    "submodule is parameter": lambda lib, n: n.get_submodule("scale"),
    "parameter by path": lambda lib, n: n.get_parameter("first.weight").shape[0],
    "parameter is buffer": lambda lib, n: n.get_parameter("kept"),
    "buffer is parameter": lambda lib, n: n.get_buffer("scale"),
    "train with number": lambda lib, n: n.train(3),
    "eval": lambda lib, n: [n.eval().training, n.rest[0].training, n.train().rest.training],
    "apply": lambda lib, n: (seen := [], n.apply(lambda m: seen.append(type(m).__name__)), seen)[2],
    "freeze": lambda lib, n: [p.requires_grad for p in n.requires_grad_(False).parameters()],
}


@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_attribute_rules(both, name):
    both(lambda lib: ASSIGNMENTS[name](lib, make(lib)))


def test_parts_before_init_are_refused(both):
    def build(part):
        def run(lib):
            class Bad(lib.nn.Module):
                def __init__(self):
                    self.part = part(lib)
            Bad()

        return run

    both(build(lambda lib: lib.nn.ReLU()))
    both(build(lambda lib: lib.nn.Parameter(lib.ones(1))))


def test_call_before_init_says_what_is_missing():
    class Bad(nn.Module):
        def __init__(self):
            self.number = 1

        def forward(self, x):
            return x

    with pytest.raises(AttributeError, match=r"super\(\).__init__\(\) first in Bad"):
        Bad()(1)


def test_missing_forward_is_named():
    with pytest.raises(NotImplementedError, match='missing the required "forward"'):
        nn.Module()(1)


def test_constructor_arguments_of_module(both):
    both(lambda lib: lib.nn.Module(1))
    both(lambda lib: lib.nn.Module(a=1))


def test_list_of_modules_warns_with_attribute_and_container():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = [nn.Linear(2, 2)]

    with pytest.warns(UserWarning, match=r"Net\.blocks is a plain list of Modules.*nn\.ModuleList"):
        Net()


def test_list_of_registered_modules_does_not_warn():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 2)
            self.order = [self.layer]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Net()


def test_conversion(both):
    def run(lib):
        net = make(lib)
        first = net.first.weight
        found = [str(net.double().first.weight.dtype).split(".")[1], str(net.scratch.dtype).split(".")[1],
                 net.first.weight is first]
        net.half()
        found.append(str(first.dtype).split(".")[1])
        net.to("cpu", lib.float32)
        net(lib.ones(1, 2)).sum().backward()
        net.to(lib.ones(1, dtype=lib.float64))
        found.append(str(net.first.weight.grad.dtype).split(".")[1])
        net.zero_grad()
        return [*found, net.first.weight.grad]

    both(run)
    both(lambda lib: make(lib).to(lib.int64))


def test_deepcopy_keeps_shared_parts_shared():
    net = make(flambeau)
    copied = copy.deepcopy(net)
    assert copied.rest is copied.again
    assert copied.first.weight is not net.first.weight
    assert copied.first.weight.tolist() == net.first.weight.tolist()
    assert copied.first.weight.requires_grad


def test_pickle_gives_equal_values():
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    again = pickle.loads(pickle.dumps(net))
    assert repr(again) == repr(net)
    assert again[0].weight.tolist() == net[0].weight.tolist()
    assert isinstance(again[0].weight, nn.Parameter) and again[0].weight.requires_grad


def test_parameters_and_buffers_by_isinstance(both):
    def run(lib):
        p, b = lib.nn.Parameter(lib.ones(2)), lib.nn.Buffer(lib.ones(2))
        return [isinstance(p, lib.nn.Parameter), isinstance(b, lib.nn.Parameter),
                isinstance(b, lib.nn.Buffer), isinstance(lib.ones(1), lib.nn.Parameter),
                isinstance(p, lib.Tensor), repr(p), repr(p * 2), list(lib.nn.Parameter().shape)]

    both(run)
    both(lambda lib: lib.nn.Parameter(lib.ones(1).long()))


def test_names_that_are_lacking_say_what_to_do():
    with pytest.raises(AttributeError, match="keep the floating-point ones"):
        nn.quantized.Linear  # noqa: B018
    with pytest.raises(AttributeError, match="Did you mean Linear"):
        nn.Linaer  # noqa: B018
    with pytest.raises(AttributeError, match="torch.nn.functional.reluu is not supported.*Did you mean relu"):
        nn.functional.reluu  # noqa: B018
    assert not hasattr(nn, "__wrapped__")


def test_operators_know_the_path_of_their_module():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(2, 2)])
            self.layers.append(nn.Sequential(nn.Linear(2, 2), nn.Tanh()))

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = Block()

        def forward(self, x):
            return self.encoder(x)

    out = Net()(flambeau.ones(1, 2))
    assert "encoder.layers.1.1" in str(out.grad_fn.module)
