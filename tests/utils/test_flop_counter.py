"""FlopCounterMode counts what PyTorch's does, and shows it as PyTorch does."""

from __future__ import annotations

import warnings

import pytest
import torch
import torch.utils.checkpoint
import torch.utils.flop_counter

import flambeau
import flambeau.nn
import flambeau.utils.checkpoint
from flambeau.ops import aten
from flambeau.utils import flop_counter
from flambeau.utils.flop_counter import FlopCounterMode, register_flop_formula

MODELS = {
    "linear": lambda t: (t.nn.Linear(3, 4), t.ones(2, 3)),
    "linear of sequences": lambda t: (t.nn.Linear(3, 4), t.ones(5, 2, 3, requires_grad=True)),
    "linear without bias": lambda t: (t.nn.Linear(3, 4, bias=False), t.ones(5, 2, 3, requires_grad=True)),
    "conv1d": lambda t: (t.nn.Conv1d(3, 4, 3, padding=1), t.ones(2, 3, 9, requires_grad=True)),
    "conv2d": lambda t: (t.nn.Conv2d(3, 4, 3, stride=2), t.ones(2, 3, 9, 9)),
    "grouped conv2d": lambda t: (t.nn.Conv2d(4, 4, 3, groups=2, padding=1), t.ones(2, 4, 9, 9, requires_grad=True)),
    "transposed conv2d": lambda t: (t.nn.ConvTranspose2d(4, 6, 3, groups=2), t.ones(2, 4, 5, 5, requires_grad=True)),
    "gru": lambda t: (t.nn.GRU(3, 4), t.ones(5, 2, 3, requires_grad=True)),
    "two layers both ways": lambda t: (t.nn.GRU(3, 4, 2, bidirectional=True), t.ones(5, 2, 3)),
    "rnn": lambda t: (t.nn.RNN(3, 4, bias=False), t.ones(5, 1, 3, requires_grad=True)),
    "lstm cell": lambda t: (t.nn.LSTMCell(3, 4), t.ones(5, 3)),
    "cnn": lambda t: (t.nn.Sequential(t.nn.Conv2d(1, 4, 3), t.nn.BatchNorm2d(4), t.nn.ReLU(), t.nn.MaxPool2d(2),
                                      t.nn.Flatten(), t.nn.Linear(4 * 5 * 5, 10)), t.ones(2, 1, 12, 12)),
    "transformer layer": lambda t: (t.nn.TransformerEncoderLayer(4, 2, 8), t.ones(5, 1, 4, requires_grad=True)),
    "transformer": lambda t: (t.nn.TransformerEncoder(t.nn.TransformerEncoderLayer(4, 2, 8), 3), t.ones(5, 1, 4)),
    "partly frozen": lambda t: (t.nn.Sequential(t.nn.Linear(3, 4).requires_grad_(False), t.nn.Linear(4, 5)), t.ones(2, 3)),
    "einsum": lambda t: (lambda x: t.einsum("bij,bjk->bik", x, t.ones(5, 3, 4)), t.ones(5, 2, 3, requires_grad=True)),
    "baddbmm": lambda t: (lambda x: t.baddbmm(t.ones(2), t.ones(5, 2, 3), x, beta=2), t.ones(5, 3, 2, requires_grad=True)),
    "matrix and vector": lambda t: (lambda x: t.ones(2, 3) @ x, t.ones(3, requires_grad=True)),
}


def counted(lib, model):
    """Totals and modules of a forward, its backward, and both with a second derivative."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module, x = model(lib)
        found = []
        with lib.utils.flop_counter.FlopCounterMode(display=False) as counter:
            out = module(x)
        found.append((counter.get_total_flops(), sorted(counter.get_flop_counts())))
        with lib.utils.flop_counter.FlopCounterMode(display=False) as counter:
            (out[0] if isinstance(out, tuple) else out).sum().backward()
        found.append(counter.get_total_flops())
        with lib.utils.flop_counter.FlopCounterMode(display=False) as counter:
            out = module(x)
            (out[0] if isinstance(out, tuple) else out).sum().backward()
        places = {place: sum(counts.values()) for place, counts in counter.get_flop_counts().items()}
        found.append((counter.get_total_flops(), {place: n for place, n in places.items() if n}))
    return found


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_forward_and_backward_count_as_in_pytorch(model):
    assert counted(flambeau, model) == counted(torch, model)


@pytest.mark.parametrize("kind", ["linear", "conv1d", "grouped conv2d", "transformer layer"])
def test_second_derivatives_count_as_in_pytorch(kind):
    def total(lib):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module, x = MODELS[kind](lib)
            x = x.detach().requires_grad_()
            with lib.utils.flop_counter.FlopCounterMode(display=False) as counter:
                module(x).sin().sum().backward(create_graph=True)
                x.grad.square().sum().backward()
        return counter.get_total_flops()

    assert total(flambeau) == total(torch)


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_checkpoints_count_their_second_run(use_reentrant):
    def total(lib):
        lib.manual_seed(0)
        module = lib.nn.Sequential(lib.nn.Conv2d(3, 4, 3), lib.nn.Conv2d(4, 4, 3))
        x = lib.ones(2, 3, 9, 9, requires_grad=True)
        with lib.utils.flop_counter.FlopCounterMode(display=False) as counter:
            lib.utils.checkpoint.checkpoint(module, x, use_reentrant=use_reentrant).sum().backward()
        return counter.get_total_flops()

    assert total(flambeau) == total(torch)


def test_lstm_and_attention_count_as_products():
    """PyTorch's CPU kernels of both are one operator each, which it does not count."""
    lstm = flambeau.nn.LSTM(3, 4)
    with FlopCounterMode(display=False) as counter:
        lstm(flambeau.ones(5, 2, 3))
    assert counter.get_total_flops() == 2 * 10 * 16 * (3 + 4)
    q, k, v = flambeau.ones(2, 3, 4, 8), flambeau.ones(2, 3, 6, 8), flambeau.ones(2, 3, 6, 5)
    with FlopCounterMode(display=False) as counter:
        flambeau.nn.functional.scaled_dot_product_attention(q, k, v)
    expected = torch.utils.flop_counter.sdpa_flop_count(q.shape, k.shape, v.shape)
    assert counter.get_total_flops() == flop_counter.sdpa_flop_count(q.shape, k.shape, v.shape) == expected
    shapes = ((2, 3, 4, 5), q.shape, k.shape, v.shape)
    assert flop_counter.sdpa_backward_flop_count(*shapes) == torch.utils.flop_counter.sdpa_backward_flop_count(*shapes)


def test_the_table(capsys):
    model = flambeau.nn.Sequential(flambeau.nn.Linear(3, 4), flambeau.nn.Sequential(flambeau.nn.Linear(4, 2000)))
    with FlopCounterMode():
        (model(flambeau.ones(2, 3)) @ flambeau.ones(2000, 3)).sum().backward()
    assert capsys.readouterr().out == """\
Module               FLOP    % Total
---------------  --------  ---------
Global           144.096K    100.00%
 - aten.addmm     32.048K     22.24%
 - aten.mm       112.048K     77.76%
 Sequential       96.096K     66.69%
  - aten.addmm    32.048K     22.24%
  - aten.mm       64.048K     44.45%
  Sequential.0     0.096K      0.07%
   - aten.addmm    0.048K      0.03%
   - aten.mm       0.048K      0.03%
  Sequential.1    96.000K     66.62%
   - aten.addmm   32.000K     22.21%
   - aten.mm      64.000K     44.41%
"""
    with FlopCounterMode(display=False) as counter:
        model[0](flambeau.ones(1, 3))
    assert [line.split() for line in counter.get_table(1).split("\n")[2:]] == [
        ["Linear", "24", "100.00%"], ["-", "aten.addmm", "24", "100.00%"]]
    with FlopCounterMode(display=False) as counter:
        pass
    assert counter.get_table().split("\n")[2].split() == ["Global", "0", "0%"]


def test_formulas_of_ones_own():
    def per_element(x_shape, *args, out_shape=None, **kwargs):
        return x_shape.numel() if hasattr(x_shape, "numel") else x_shape[0] * x_shape[1]

    with FlopCounterMode(display=False, custom_mapping={aten.relu: per_element}) as counter:
        flambeau.ones(4, 5).relu()
    assert counter.get_flop_counts() == {"Global": {aten.relu: 20}}
    assert aten.relu not in flop_counter.flop_registry
    with pytest.raises(RuntimeError, match="duplicate registrations for aten.mm"):
        register_flop_formula(aten.mm)(per_element)
    with pytest.raises(ValueError, match="OpOverloadPacket.*without .default"):
        register_flop_formula(aten.tanh.default)(per_element)
    register_flop_formula([aten.atan])(per_element)
    try:
        with FlopCounterMode(display=False) as counter:
            flambeau.ones(4, 5).atan()
        assert counter.get_total_flops() == 20
    finally:
        del flop_counter.flop_registry[aten.atan]
    with pytest.warns(UserWarning, match="mods argument is not needed"):
        FlopCounterMode(flambeau.nn.Linear(1, 1))


def test_names_of_operators():
    assert str(aten.mm) == "aten.mm"
    assert str(aten.add.Tensor) == "aten.add.Tensor"
    assert repr(aten.mm) == repr(torch.ops.aten.mm)
    assert repr(aten.mm.default) == repr(torch.ops.aten.mm.default)
    assert aten.mm.default.name() == torch.ops.aten.mm.default.name()
    assert aten.add.Tensor.name() == torch.ops.aten.add.Tensor.name()
    assert aten.mm.default is aten.mm.default
    assert aten.mm.default.overloadpacket is aten.mm
    assert aten.mm.default(flambeau.ones(1, 2), flambeau.ones(2, 1)).tolist() == [[2.0]]
    assert aten._softmax(flambeau.zeros(2), 0).tolist() == [0.5, 0.5]
    with pytest.raises(NotImplementedError, match=r"torch.ops.aten.nope: flambeau has no function"):
        aten.nope(1)


def test_a_profiler_inside_leaves_the_count_whole():
    model, x = flambeau.nn.Linear(8, 8), flambeau.randn(4, 8)
    counter = FlopCounterMode(display=False)
    with counter:
        with flambeau.autograd.profiler.profile():
            model(x).sum().backward()
        model(x).sum().backward()
    assert counter.get_total_flops() == 2 * 2 * (2 * 4 * 8 * 8)      # two steps: forward and the weight's gradient
