"""Recurrent layers and packed sequences: values, gradients, initial values, errors as PyTorch's."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from torch.nn.utils import rnn as torch_rnn

import flambeau
from flambeau.autograd import gradcheck, gradgradcheck
from flambeau.nn.utils import rnn as our_rnn
from flambeau.ops._record import ops
from flambeau.ops.recurrent import gru_composed, lstm_composed, recurrent_layer, rnn_composed

# PyTorch says that it computes projections in the slower of its two ways
pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections:UserWarning")
KINDS = [("LSTM", {}), ("LSTM", {"proj_size": 2}), ("GRU", {}), ("RNN", {}), ("RNN", {"nonlinearity": "relu"})]
SHAPES = [{}, {"num_layers": 2, "bidirectional": True}, {"batch_first": True, "bias": False}, {"num_layers": 3}]


def pair(kind, **options):
    layers = []
    for lib in (torch, flambeau):
        lib.manual_seed(3)
        layers.append(getattr(lib.nn, kind)(3, 4, **options))
    return layers


def flat(value):
    """All tensors of a result, as arrays."""
    if isinstance(value, (tuple, list)):
        return [a for v in value for a in flat(v)]
    return [] if value is None else [value.detach().numpy()]


def states(lib, kind, layer, n, values):
    directions = 2 if layer.bidirectional else 1
    sizes = [layer.proj_size or 4] + ([4] if kind == "LSTM" else [])
    made = tuple(lib.tensor(values[:layer.num_layers * directions, :n, :s].copy()) for s in sizes)
    return made if kind == "LSTM" else made[0]


def compare(theirs, ours, run, tolerance=2e-6):
    """run(layer, lib) gives outputs; values and gradients of all parameters agree."""
    expected, got = run(theirs, torch), run(ours, flambeau)
    for a, b in zip(flat(expected), flat(got), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=tolerance)
    for outs, lib in ((expected, torch), (got, flambeau)):
        total = 0
        for i, t in enumerate(tensors(outs)):
            total = total + (t * lib.arange(t.numel()).reshape(t.shape).cos()).sum() * (i + 1)
        total.backward()
    for (name, p), q in zip(theirs.named_parameters(), ours.parameters(), strict=True):
        np.testing.assert_allclose(q.grad.numpy(), p.grad.numpy(), rtol=1e-4, atol=1e-5, err_msg=name)


def tensors(value):
    if isinstance(value, (tuple, list)):
        return [t for v in value for t in tensors(v)]
    return [value] if value is not None and value.is_floating_point() else []


@pytest.mark.parametrize("options", SHAPES, ids=str)
@pytest.mark.parametrize(("kind", "more"), KINDS, ids=lambda v: str(v))
def test_values_and_gradients(kind, more, options):
    theirs, ours = pair(kind, **options, **more)
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    for a, b in zip(theirs.parameters(), ours.parameters(), strict=True):
        assert a.tolist() == b.tolist()                     # the initial values, number for number
    assert ours._all_weights == theirs._all_weights
    r = np.random.default_rng(0)
    x = r.standard_normal((5, 5, 3)).astype("f4")
    h = r.standard_normal((6, 5, 4)).astype("f4")

    def run(layer, lib):
        a = layer(lib.tensor(x))
        b = layer(lib.tensor(x), states(lib, kind, layer, 5, h))
        return a, b, layer(lib.tensor(x[0]))

    compare(theirs, ours, run)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("lengths", [[5, 5, 5], [5, 3, 1], [2, 5, 4]], ids=str)
def test_packed(kind, lengths, bidirectional):
    theirs, ours = pair(kind, num_layers=2, bidirectional=bidirectional)
    r = np.random.default_rng(0)
    x = r.standard_normal((5, 3, 3)).astype("f4")
    h = r.standard_normal((4, 3, 4)).astype("f4")
    grads = []

    def run(layer, lib):
        utils = torch_rnn if lib is torch else our_rnn
        given = lib.tensor(x, requires_grad=True)
        grads.append(given)
        packed = utils.pack_padded_sequence(given, lengths, enforce_sorted=False)
        out, last = layer(packed, states(lib, kind, layer, 3, h))
        assert isinstance(out, utils.PackedSequence)
        padded, found = utils.pad_packed_sequence(out, padding_value=-1.0, total_length=6)
        assert found.tolist() == lengths
        return padded, last

    compare(theirs, ours, run)
    np.testing.assert_allclose(grads[1].grad.numpy(), grads[0].grad.numpy(), rtol=1e-4, atol=1e-6)
    for i, n in enumerate(lengths):
        assert not grads[1].grad[n:, i].any()               # nothing flows into padding


def test_packed_sequences_are_run_as_if_alone():
    layer = flambeau.nn.GRU(3, 4, bidirectional=True)
    sequences = [flambeau.randn(n, 3) for n in (2, 5, 3)]
    _, last = layer(our_rnn.pack_sequence(sequences, enforce_sorted=False))
    for i, s in enumerate(sequences):
        np.testing.assert_allclose(last[:, i].detach().numpy(), layer(s)[1].detach().numpy(), atol=1e-6)


def test_dropout_between_layers_draws_pytorchs_numbers(both):
    def run(lib):
        layer = lib.nn.LSTM(3, 4, num_layers=3, dropout=0.5)
        out, _ = layer(lib.ones(4, 2, 3))
        rest = lib.rand(2)
        layer.eval()
        return out, rest, layer(lib.ones(4, 2, 3))[0]

    both(run)


@pytest.mark.parametrize("sizes", [None, (3, 3, 2, 1)], ids=["padded", "packed"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("mode", ["LSTM", "GRU", "RNN_TANH"])
def test_gradients_to_order_two(mode, reverse, sizes):
    flambeau.manual_seed(0)
    chunks = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1}[mode]
    n_states = 2 if mode == "LSTM" else 1
    shapes = [(4, 3, 2) if sizes is None else (9, 2), *[(3, 2)] * n_states, (2 * chunks, 2), (2 * chunks, 2),
              (2 * chunks,), (2 * chunks,)]
    inputs = [flambeau.randn(*s, dtype=flambeau.float64, requires_grad=True) for s in shapes]

    def layer(x, *rest):
        return tuple(recurrent_layer(mode, x, list(rest[:n_states]), [*rest[n_states:], None], sizes, reverse))

    assert gradcheck(layer, inputs, check_forward_ad=True)
    assert gradgradcheck(layer, inputs)


@pytest.mark.parametrize("mode", ["LSTM", "GRU", "RNN_RELU"])
@pytest.mark.parametrize("sizes", [None, (3, 2, 2)], ids=["padded", "packed"])
def test_kernel_equals_composition(mode, sizes):
    flambeau.manual_seed(0)
    chunks = {"LSTM": 4, "GRU": 3, "RNN_RELU": 1}[mode]
    x = flambeau.randn(3, 3, 2) if sizes is None else flambeau.randn(7, 2)
    weights = [flambeau.randn(4 * chunks, 2), flambeau.randn(4 * chunks, 4), None, flambeau.randn(4 * chunks)]
    for reverse in (False, True):
        if mode == "LSTM":
            kernel = recurrent_layer(mode, x, [None, None], [*weights, None], sizes, reverse)
            composed = lstm_composed(ops, x, None, None, *weights, None, sizes, reverse)
        else:
            kernel = recurrent_layer(mode, x, [None], [*weights, None], sizes, reverse)
            composed = (gru_composed(ops, x, None, *weights, sizes, reverse) if mode == "GRU" else
                        rnn_composed(ops, x, None, *weights, True, sizes, reverse))
        for a, b in zip(kernel, composed, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-5)


def test_double_backward_through_a_weight_used_twice():
    """The recorded backward stops at the layer's inputs, though one was computed from another."""
    results = []
    for lib in (torch, flambeau):
        lib.manual_seed(0)
        layer = lib.nn.GRU(2, 2).double()
        x = lib.linspace(-1, 1, 12, dtype=lib.float64).reshape(3, 2, 2).requires_grad_()
        h = x[:1] * 2                                        # the state depends on the input
        out, _ = layer(x, h)
        g, = lib.autograd.grad(out.square().sum(), x, create_graph=True)
        g.square().sum().backward()
        results.append((g.detach().numpy(), x.grad.numpy(), layer.weight_hh_l0.grad.numpy()))
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", ["LSTMCell", "GRUCell", "RNNCell"])
def test_cells(both, kind):
    def run(lib):
        cell = getattr(lib.nn, kind)(3, 4)
        x = lib.linspace(-1, 1, 6).reshape(2, 3).requires_grad_()
        first = cell(x)
        second = cell(x * 2, first)
        alone = cell(x[0])
        out = second[0] if kind == "LSTMCell" else second
        out.sin().sum().backward()
        return first, second, alone, x.grad, [p.grad for p in cell.parameters()]

    both(run)


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16"])
def test_dtypes(both, dtype):
    def run(lib):
        layer = lib.nn.GRU(3, 4).to(getattr(lib, dtype))
        return layer(lib.linspace(-1, 1, 18).reshape(3, 2, 3).to(getattr(lib, dtype)))

    both(run, tolerance=1e-9 if dtype == "float64" else 2e-2)


@pytest.mark.parametrize("attempt", [
    lambda lib, layer: layer(lib.ones(3)), lambda lib, layer: layer(lib.ones(2, 2, 5)),
    lambda lib, layer: layer(lib.ones(2, 2, 3).double()), lambda lib, layer: layer(lib.ones(0, 2, 3)),
    lambda lib, layer: layer(lib.ones(2, 2, 3), (lib.ones(1, 3, 4), lib.ones(1, 3, 4))),
    lambda lib, layer: layer(lib.ones(2, 2, 3), (lib.ones(2, 4), lib.ones(2, 4))),
    lambda lib, layer: layer(lib.ones(2, 3), (lib.ones(1, 2, 4), lib.ones(1, 2, 4))),
    lambda lib, layer: layer(lib.ones(2, 0, 3)), lambda lib, layer: lib.nn.LSTM(3, 0),
    lambda lib, layer: lib.nn.LSTM(3, 4.0), lambda lib, layer: lib.nn.LSTM(3, 4, dropout=2),
    lambda lib, layer: lib.nn.LSTM(3, 4, proj_size=4), lambda lib, layer: lib.nn.GRU(3, 4, proj_size=1),
    lambda lib, layer: lib.nn.RNN(3, 4, nonlinearity="x"), lambda lib, layer: lib.nn.LSTM(3, 4, batch_first=1),
])
def test_errors_are_of_pytorchs_kinds(both, attempt):
    both(lambda lib: [attempt(lib, lib.nn.LSTM(3, 4)) and 0])


def test_dropout_in_one_layer_is_pointed_out():
    with pytest.warns(UserWarning, match="has no effect with num_layers"):
        flambeau.nn.LSTM(3, 4, dropout=0.5)


def test_initial_state_of_lstm_is_a_pair():
    with pytest.raises(TypeError, match=r"\(h_0, c_0\)"):
        flambeau.nn.LSTM(3, 4)(flambeau.ones(2, 2, 3), flambeau.ones(1, 2, 4))


def test_copies_and_pickles_are_independent():
    layer = flambeau.nn.LSTM(3, 4, num_layers=2)
    x = flambeau.ones(2, 1, 3)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        np.testing.assert_array_equal(other(x)[0].detach().numpy(), layer(x)[0].detach().numpy())
        with flambeau.no_grad():
            other.weight_ih_l0.zero_()
        assert not np.array_equal(other(x)[0].detach().numpy(), layer(x)[0].detach().numpy())


# ---------------------------------------------------------------------------------------- packing


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("lengths", [[4, 2], [1, 4]], ids=str)
def test_packing_equals_pytorchs(both, lengths, batch_first):
    def run(lib):
        utils = torch_rnn if lib is torch else our_rnn
        x = lib.arange(24.0).reshape(2, 4, 3) if batch_first else lib.arange(24.0).reshape(4, 2, 3)
        x.requires_grad_()
        packed = utils.pack_padded_sequence(x, lib.tensor(lengths), batch_first, enforce_sorted=False)
        padded, found = utils.pad_packed_sequence(packed, batch_first, -2.0, 5)
        padded.square().sum().backward()
        return list(packed), padded, found, x.grad, utils.unpack_sequence(packed), list(packed.double())

    both(run)


def test_unsorted_lengths_name_the_remedy():
    with pytest.raises(RuntimeError, match="enforce_sorted=False"):
        our_rnn.pack_padded_sequence(flambeau.ones(5, 2), [2, 5])


@pytest.mark.parametrize(("lengths", "words"), [
    ([5, 0], "greater than 0"), ([5, 4, 3], "equal to batch_size"), ([6, 5], "has only 5")])
def test_wrong_lengths_are_refused(lengths, words):
    with pytest.raises(RuntimeError, match=words):
        our_rnn.pack_padded_sequence(flambeau.ones(5, 2), lengths)


def test_total_length_is_checked():
    packed = our_rnn.pack_sequence([flambeau.ones(3), flambeau.ones(2)])
    with pytest.raises(ValueError, match="total_length"):
        our_rnn.pad_packed_sequence(packed, total_length=2)
    assert packed.float() is packed and packed.to(flambeau.float64).data.dtype is flambeau.float64
    assert [tuple(t.tolist()) for t in pickle.loads(pickle.dumps(packed))[:2]] == [(1,) * 5, (2, 2, 1)]
