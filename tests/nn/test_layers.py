"""Layers: signatures, text, initial values and names as PyTorch's."""

from __future__ import annotations

import inspect
import warnings

import pytest
import torch

import flambeau
from flambeau.nn.modules import __all__ as NAMES

ARGUMENTS = {
    "AdaptiveLogSoftmaxWithLoss": (8, 10, [3, 6]), "CrossMapLRN2d": (3,), "GRU": (2, 3), "LSTM": (2, 3),
    "LazyBatchNorm": (), "LazyConv": (4, 3), "LazyInstanceNorm": (), "LazyLinear": (3,),
    "LinearCrossEntropyLoss": (3, 4), "MultiheadAttention": (4, 2), "RNN": (2, 3), "RNNBase": ("LSTM", 2, 3),
    "SyncBatchNorm": (3,), "Transformer": (4, 2, 1, 1, 8), "TransformerDecoderLayer": (4, 2, 8),
    "TransformerEncoderLayer": (4, 2, 8),
    "AdaptiveAvgPool": (2,), "AdaptiveMaxPool": (2,), "AvgPool": (2,), "BatchNorm": (3,),
    "Bilinear": (2, 3, 4), "ChannelShuffle": (2,), "CircularPad": (1,), "ConstantPad": (1, 2.0),
    "Conv": (4, 6, 3), "Embedding": (5, 3), "Fold": ((4, 4), 2), "FractionalMaxPool": (2, 3),
    "GRUCell": (2, 3), "GroupNorm": (2, 4), "InstanceNorm": (3,), "LPPool": (2, 2), "LSTMCell": (2, 3),
    "LayerNorm": ((3, 4),), "Linear": (3, 4), "LocalResponseNorm": (2,), "MaxPool": (2,), "MaxUnpool": (2,),
    "PixelShuffle": (2,), "PixelUnshuffle": (2,), "RMSNorm": (3,), "RNNCell": (2, 3),
    "RNNCellBase": (2, 3, True, 2), "ReflectionPad": (1,), "ReplicationPad": (1,), "Threshold": (1, 2),
    "Unflatten": (1, (2, 2)), "Unfold": (2,), "ZeroPad": (1,),
}
# without layers that take a layer, whose tests are in test_attention
LAYERS = [name for name in NAMES if name not in ("Module", "LinearCrossEntropyOptions", "TransformerEncoder",
                                                 "TransformerDecoder")]
COMPUTED = {"_flat_weights", "_flat_weight_refs"}       # of recurrent layers: found by name when they are read


def arguments(name):
    fitting = [key for key in ARGUMENTS if name.startswith(key)]
    return ARGUMENTS[max(fitting, key=len)] if fitting else ()


def build(lib, name, *args, **kwargs):
    lib.manual_seed(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return getattr(lib.nn, name)(*args, **kwargs)


@pytest.mark.parametrize("name", LAYERS)
def test_layer_is_built_as_in_pytorch(name):
    theirs, ours = build(torch, name, *arguments(name)), build(flambeau, name, *arguments(name))
    assert repr(ours) == repr(theirs)
    assert type(ours).__module__ == type(theirs).__module__.replace("torch", "flambeau")
    assert list(ours.state_dict()) == list(theirs.state_dict())
    for key, value in theirs.state_dict().items():
        if not torch.nn.parameter.is_lazy(value):
            assert ours.state_dict()[key].tolist() == value.tolist(), key
    assert set(vars(theirs)) - COMPUTED <= set(vars(ours))
    assert flambeau.rand(1).item() == torch.rand(1).item()         # as many numbers were drawn


@pytest.mark.parametrize("name", LAYERS)
def test_signatures(name):
    def parameters(function):
        return [(p.name, getattr(p.default, "__name__", p.default), p.kind)
                for p in inspect.signature(function).parameters.values()]

    theirs, ours = getattr(torch.nn, name), getattr(flambeau.nn, name)
    expected = parameters(theirs.__init__)
    if expected[1:] and expected[1][0] != "args":
        assert parameters(ours.__init__) == expected
    expected = parameters(theirs.forward)
    if expected[-1][0] != "input" or expected[-1][2] is not inspect.Parameter.VAR_POSITIONAL:
        assert parameters(ours.forward) == expected


VARIANTS = [
    ("Conv2d", (4, 6, (3, 5)), dict(stride=2, padding=(1, 2), dilation=2, groups=2, bias=False,
                                    padding_mode="reflect")),
    ("Conv1d", (1, 2, 3), dict(padding="same", dilation=2)), ("Conv3d", (1, 2, 3), dict(padding="valid")),
    ("ConvTranspose2d", (4, 2, 4), dict(stride=2, output_padding=1, groups=2)),
    ("Linear", (2, 3), dict(bias=False)), ("Embedding", (5, 3),
                                           dict(padding_idx=-1, max_norm=2.0, norm_type=1,
                                                scale_grad_by_freq=True, sparse=True)),
    ("EmbeddingBag", (5, 3), dict(mode="sum", padding_idx=2)),
    ("BatchNorm2d", (3,), dict(affine=False, momentum=None)),
    ("BatchNorm1d", (3,), dict(bias=False, track_running_stats=False)), ("LayerNorm", (3,), dict(bias=False)),
    ("InstanceNorm2d", (3,), dict(affine=True, track_running_stats=True)), ("ReLU", (), dict(inplace=True)),
    ("Hardtanh", (-2.0, 2.0, True), {}), ("RNNCell", (2, 3), dict(nonlinearity="relu", bias=False)),
    ("MaxPool2d", (3,), dict(stride=2, padding=1, ceil_mode=True)),
    ("Upsample", (), dict(scale_factor=2, mode="bilinear")), ("Linear", (2, 3), dict(dtype="float64")),
    ("ZeroPad2d", ((1, 2, 3, 4),), {}),
]


@pytest.mark.parametrize(("name", "args", "kwargs"), VARIANTS,
                         ids=[f"{v[0]}-{i}" for i, v in enumerate(VARIANTS)])
def test_variants_are_built_as_in_pytorch(name, args, kwargs):
    def made(lib):
        options = {k: getattr(lib, v) if k == "dtype" else v for k, v in kwargs.items()}
        layer = build(lib, name, *args, **options)
        return [repr(layer), {k: (str(v.dtype).split(".")[1], v.tolist()) for k,
                              v in layer.state_dict().items()},
                list(getattr(layer, "_reversed_padding_repeated_twice", ()))]

    assert made(flambeau) == made(torch)


ERRORS = {
    "groups of inputs": lambda nn: nn.Conv2d(3, 4, 3, groups=2),
    "groups of outputs": lambda nn: nn.Conv2d(4, 3, 3, groups=2),
    "no groups": lambda nn: nn.Conv2d(4, 4, 3, groups=0),
    "padding word": lambda nn: nn.Conv2d(4, 3, 3, padding="foo"),
    "same with stride": lambda nn: nn.Conv2d(4, 3, 3, padding="same", stride=2),
    "padding mode": lambda nn: nn.Conv2d(4, 3, 3, padding_mode="foo"),
    "transposed padding mode": lambda nn: nn.ConvTranspose2d(4, 4, 3, padding_mode="circular"),
    "group norm": lambda nn: nn.GroupNorm(3, 4), "dropout": lambda nn: nn.Dropout(1.5),
    "padding_idx": lambda nn: nn.Embedding(3, 2, padding_idx=5),
    "margin": lambda nn: nn.TripletMarginLoss(margin=-1), "multi margin": lambda nn: nn.MultiMarginLoss(p=3),
    "fractional": lambda nn: nn.FractionalMaxPool2d(2),
    "fractional both": lambda nn: nn.FractionalMaxPool2d(2, 3, 0.5),
    "hardtanh": lambda nn: nn.Hardtanh(2.0, 1.0), "unflatten": lambda nn: nn.Unflatten(1, 3),
    "bilinear": lambda nn: nn.Bilinear(0, 1, 1),
}


@pytest.mark.parametrize("name", ERRORS)
def test_refused_arguments(both, name):
    answer = both(lambda lib: ERRORS[name](lib.nn))
    assert answer in ("ValueError", "TypeError", "AssertionError")


def test_wrong_shapes_are_refused(both):
    both(lambda lib: lib.nn.BatchNorm1d(3)(lib.zeros(2, 3, 4, 5)))
    both(lambda lib: lib.nn.BatchNorm2d(3)(lib.zeros(2, 3)))
    both(lambda lib: lib.nn.InstanceNorm1d(3)(lib.zeros(3)))
    both(lambda lib: lib.nn.InstanceNorm1d(3, affine=True)(lib.zeros(2, 2, 4)))
    both(lambda lib: lib.nn.RNNCell(2, 3)(lib.zeros(1, 2, 3)))
    both(lambda lib: lib.nn.RNNCell(2, 3)(lib.zeros(4, 2), lib.zeros(3, 3)))
    both(lambda lib: lib.nn.RNNCell(2, 3)(lib.zeros(4, 5)))
    both(lambda lib: lib.nn.ConvTranspose2d(1, 1, 3)(lib.zeros(1, 1, 4, 4), output_size=(9, 9)))
    both(lambda lib: lib.nn.Linear(2, 2)(lib.zeros(3, 4)))


@pytest.mark.parametrize("name", ["RNNCell", "LSTMCell", "GRUCell"])
@pytest.mark.parametrize("batched", [True, False])
def test_recurrent_cells(both, name, batched):
    def run(lib):
        cell = getattr(lib.nn, name)(3, 4)
        x = lib.randn(2, 3, requires_grad=True) if batched else lib.randn(3, requires_grad=True)
        state = None
        for _ in range(3):
            state = cell(x, state)
        out = state[0] if isinstance(state, tuple) else state
        out.pow(2).sum().backward()
        return [out, x.grad, *(p.grad for p in cell.parameters())]

    both(run)


def test_embedding_from_pretrained(both):
    def run(lib):
        table = lib.arange(6.0).view(3, 2)
        layer = lib.nn.Embedding.from_pretrained(table, padding_idx=1)
        return [layer.weight, layer.weight.requires_grad, layer.padding_idx, repr(layer)]

    both(run)
    both(lambda lib: lib.nn.Embedding.from_pretrained(lib.zeros(2)))


def test_old_reduction_flags(both):
    def run(lib):
        return [lib.nn.MSELoss(size_average=False).reduction, lib.nn.MSELoss(reduce=False).reduction,
                lib.nn.MSELoss(size_average=True).reduction]

    both(run)


def test_class_weights_move_with_the_module(both):
    both(lambda lib: list(lib.nn.CrossEntropyLoss(weight=lib.ones(3)).double().state_dict().values()))
