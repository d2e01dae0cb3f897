"""Recurrent networks as functions of their weights: lstm, gru, rnn_tanh, rnn_relu, and their cells.

The layers under `nn` hold the weights and check shapes in words; these take what they are given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.core.objects import TensorBase, array_of, requires, shape_of

from ._args import integer, tensor
from ._record import call, ops, public
from .dropout import dropout
from .joining import joined
from .recurrent import recurrent_layer


def run_layers(mode: str, x: Any, states: Sequence[Any], weights: list[list[list[Any]]], sizes: tuple | None,
               dropped: float = 0.0) -> tuple[Any, list]:
    """(output of the last layer, last states (layers * directions, N, H)).

    Args:
        mode, sizes: see `recurrent_layer`.
        x: (L, N, D), or the rows of a packed batch.
        states: first states, (layers * directions, N, H) or None each.
        weights: for each layer, for each direction: w_ih, w_hh, b_ih, b_hh, w_hr, None where absent.
        dropped: probability with which elements between layers are zeroed.
    """
    firsts = [None if s is None else s.unbind(0) for s in states]
    lasts: list[list[Any]] = [[] for _ in states]
    k = 0
    for layer, directions in enumerate(weights):
        outs = []
        for direction, own in enumerate(directions):
            result = recurrent_layer(mode, x, [None if f is None else f[k] for f in firsts], own, sizes, direction == 1)
            outs.append(result[0])
            for last, state in zip(lasts, result[1:], strict=True):
                last.append(state)
            k += 1
        x = outs[0] if len(outs) == 1 else joined(outs, -1)
        if dropped and layer < len(weights) - 1:
            x = dropout(x, dropped, True)
    if mode != "LSTM" and len(outs) == 1 and requires(x):
        x = x.clone()           # the backward pass reads the layer's output, and programs write to theirs
    return x, [s[0].unsqueeze(0) if len(s) == 1 else joined([v.unsqueeze(0) for v in s], 0) for s in lasts]


def _weights(mode: str, params: Sequence[Any], biases: bool, n_layers: int, n_directions: int) -> list:
    """Flat parameters by layer and direction."""
    count = len(params) // (n_layers * n_directions) if n_layers > 0 else 0
    least = 4 if biases else 2
    allowed = (least, least + 1) if mode == "LSTM" else (least,)
    if count not in allowed or count * n_layers * n_directions != len(params):
        raise RuntimeError(f"{mode}: got {len(params)} parameters for {n_layers} layers of {n_directions} directions: each "
                           f"has {' or '.join(str(n) for n in allowed)} of them, weights{' and biases' if biases else ''}")
    found = []
    for layer in range(n_layers):
        row = []
        for direction in range(n_directions):
            start = (layer * n_directions + direction) * count
            own = list(params[start:start + count])
            if not biases:
                own[2:2] = [None, None]
            row.append(own if len(own) == 5 else [*own, None])
        found.append(row)
    return found


def _sequence(mode: str, name: str, x: Any, states: list, params: Any, options: tuple, sizes: tuple | None) -> tuple:
    biases, layers, dropped, training, both, batch_first = options
    tensor(x, name)
    if not isinstance(params, (tuple, list)):
        raise TypeError(f"{name}(): argument 'params' must be tuple of Tensors, not {type(params).__name__}")
    directions = 2 if both else 1
    weights = _weights(mode, params, bool(biases), integer(layers, name, "num_layers"), directions)
    for state in states:
        n = shape_of(tensor(state, name, "hx", 2))
        if n and n[0] != len(weights) * directions:
            raise RuntimeError(f"{name}: hx has {n[0]} states, and there are {len(weights)} layers of {directions} "
                               "directions")
    single = sizes is None and len(shape_of(x)) == 2
    if single:
        x, states = x.unsqueeze(1), [s.unsqueeze(1) for s in states]
    elif batch_first:
        x = x.transpose(0, 1)
    if shape_of(x)[-1] != shape_of(weights[0][0][0])[1]:
        raise RuntimeError(f"{name}: input has {shape_of(x)[-1]} features, the weights expect "
                           f"{shape_of(weights[0][0][0])[1]}")
    out, lasts = run_layers(mode, x, states, weights, sizes, dropped if training else 0.0)
    if single:
        out, lasts = out.squeeze(1), [s.squeeze(1) for s in lasts]
    elif batch_first:
        out = out.transpose(0, 1)
    return (out, *lasts)


def _states(name: str, hx: Any) -> list:
    if not isinstance(hx, (tuple, list)) or len(hx) != 2:
        raise RuntimeError(f"{name} expects two hidden states, (h, c)")
    return list(hx)


def _batch_sizes(value: TensorBase) -> tuple:
    return tuple(int(n) for n in array_of(value))


def _options(name: str, options: tuple, packed: bool) -> tuple:
    wanted = 5 if packed else 6
    if len(options) != wanted:
        raise TypeError(f"{name}() received an invalid combination of arguments: after the parameters come has_biases, "
                        "num_layers, dropout, train, bidirectional" + ("" if packed else ", batch_first"))
    for place, word in ((0, "has_biases"), (3, "train"), (4, "bidirectional"), (5, "batch_first")):
        if place < wanted and not isinstance(options[place], bool):
            raise TypeError(f"{name}(): argument '{word}' must be bool, not {type(options[place]).__name__}")
    return options if not packed else (*options, False)


def _params(t: Any, gates: int, width: int = 4, inputs: int = 3, biases: bool = True) -> list:
    own = [t(gates * width, inputs), t(gates * width, width)]
    return own + [t(gates * width), t(gates * width)] if biases else own


@public(method=False, out=False, samples=lambda t: [
    call(t(5, 2, 3), (t(1, 2, 4), t(1, 2, 4)), _params(t, 4), True, 1, 0.0, False, False, False),
    call(t(2, 5, 3), (t(2, 2, 4), t(2, 2, 4)), _params(t, 4, biases=False) + _params(t, 4, biases=False), False, 1, 0.0,
         False, True, True),
    call(t(6, 3), t(values=[3, 2, 1], dtype="int64", grad=False), (t(1, 3, 4), t(1, 3, 4)), _params(t, 4), True, 1, 0.0,
         False, False)], errors=lambda t: [
    (call(t(5, 2, 3), (t(1, 2, 4),), _params(t, 4), True, 1, 0.0, False, False, False), RuntimeError, "two hidden states")])
def lstm(input: Any, hx: Any, params: Any, *options: Any) -> tuple:
    """A stack of LSTM layers over a sequence: (output, h, c).

    Args:
        input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first: input (L, N, D), or
            (N, L, D) with batch_first; hx (h, c), (layers * directions, N, H) each; params in the order of nn.LSTM.
        data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional: the same of a packed batch.

    Source: Hochreiter and Schmidhuber, 1997; arXiv:1402.1128 (projection).

    >>> layer = flambeau.nn.LSTM(3, 4)
    >>> h = flambeau.zeros(1, 2, 4)
    >>> weights = list(layer.parameters())
    >>> flambeau.lstm(flambeau.ones(5, 2, 3), (h, h), weights, True, 1, 0.0, False, False, False)[0].shape
    torch.Size([5, 2, 4])
    """
    sizes, packed = None, isinstance(hx, TensorBase)
    if packed and options:
        sizes, hx, params, options = _batch_sizes(hx), params, options[0], options[1:]
    options = _options("lstm", options, packed)
    return _sequence("LSTM", "lstm", input, _states("lstm", hx), params, options, sizes)


def _of_one_state(name: str, mode: str, gates: int, text: str) -> None:
    def network(input: Any, hx: Any, params: Any, *options: Any) -> tuple:
        sizes, packed = None, isinstance(params, TensorBase)
        if packed and options:
            sizes, hx, params, options = _batch_sizes(hx), params, options[0], options[1:]
        return _sequence(mode, name, input, [hx], params, _options(name, options, packed), sizes)

    network.__name__ = network.__qualname__ = name
    network.__doc__ = f"""A stack of {text} layers over a sequence: (output, h).

    Args:
        input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first: input (L, N, D), or
            (N, L, D) with batch_first; hx (layers * directions, N, H); params in the order of the layer under nn.
        data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional: the same of a packed batch.
    """
    public(method=False, out=False, samples=lambda t: [
        call(t(5, 2, 3), t(1, 2, 4), _params(t, gates), True, 1, 0.0, False, False, False),
        call(t(2, 5, 3), t(2, 2, 4), _params(t, gates) + _params(t, gates, inputs=4), True, 2, 0.0, False, False,
             True),
        call(t(6, 3), t(values=[3, 2, 1], dtype="int64", grad=False), t(1, 3, 4), _params(t, gates), True, 1, 0.0,
             False, False)], errors=lambda t: [
        (call(t(5, 2, 3), t(1, 2, 4), 3), TypeError, "params|combination of arguments")])(network)


_of_one_state("gru", "GRU", 3, "GRU")
_of_one_state("rnn_tanh", "RNN_TANH", 1, "tanh recurrent")
_of_one_state("rnn_relu", "RNN_RELU", 1, "relu recurrent")


# --------------------------------------------------------------------------------- cells


def _cell(mode: str, name: str, gates: int, x: Any, states: list, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> list:
    size = shape_of(tensor(x, name))
    if len(size) < 2:
        raise IndexError(f"{name}: Dimension out of range: input needs the shape (N, D), and has {list(size)}")
    width = shape_of(tensor(w_ih, name, "w_ih", 3))[1]
    if size[1] != width:
        raise RuntimeError(f"input has inconsistent input_size: got {size[1]} expected {width}")
    hidden = shape_of(tensor(w_hh, name, "w_hh", 4))[1]
    for i, state in enumerate(states):
        shape = shape_of(tensor(state, name, "hx", 2))
        if shape[0] != size[0]:
            raise RuntimeError(f"Input batch size {size[0]} doesn't match hidden{i} batch size {shape[0]}")
        if shape[-1] != hidden:
            raise RuntimeError(f"hidden{i} has inconsistent hidden_size: got {shape[-1]}, expected {hidden}")
    return recurrent_layer(mode, ops.unsqueeze(x, 0), states, [w_ih, w_hh, b_ih, b_hh, None], None, False,
                           True)[1:]


_CELL_ERRORS = (lambda t, gates: [  # noqa: E731
    (call(t(2, 3), t(1, 4), *_params(t, gates)), RuntimeError, "doesn't match hidden0 batch size"),
    (call(t(2, 2), t(2, 4), *_params(t, gates)), RuntimeError, "inconsistent input_size"),
    (call(t(3), t(4), *_params(t, gates)), IndexError, "Dimension out of range")])


@public(method=False, out=False, samples=lambda t: [
    call(t(2, 3), (t(2, 4), t(2, 4)), *_params(t, 4)), call(t(2, 3), (t(2, 4), t(2, 4)), *_params(t, 4, biases=False))],
    errors=lambda t: [(call(t(2, 3), (t(2, 4),), *_params(t, 4)), RuntimeError, "two hidden states")])
def lstm_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> tuple:
    """(h, c) after one step of an LSTM from hx = (h, c), each (N, H), with input (N, D).

    >>> cell = flambeau.nn.LSTMCell(3, 4)
    >>> h = flambeau.zeros(2, 4)
    >>> flambeau.lstm_cell(flambeau.ones(2, 3), (h, h), *cell.parameters())[0].shape
    torch.Size([2, 4])
    """
    return tuple(_cell("LSTM", "lstm_cell", 4, input, _states("lstm_cell", hx), w_ih, w_hh, b_ih, b_hh))


def _cell_of_one_state(name: str, mode: str, gates: int, text: str) -> None:
    def cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
        return _cell(mode, name, gates, input, [hx], w_ih, w_hh, b_ih, b_hh)[0]

    cell.__name__ = cell.__qualname__ = name
    cell.__doc__ = f"""h after one step of a {text} from hx (N, H) with input (N, D).

    Raises:
        RuntimeError: sizes that do not fit.
    """
    public(method=False, out=False, samples=lambda t: [
        call(t(2, 3), t(2, 4), *_params(t, gates)), call(t(2, 3), t(2, 4), *_params(t, gates, biases=False))],
        errors=lambda t: _CELL_ERRORS(t, gates))(cell)


_cell_of_one_state("gru_cell", "GRU", 3, "GRU")
_cell_of_one_state("rnn_tanh_cell", "RNN_TANH", 1, "recurrent network with tanh")
_cell_of_one_state("rnn_relu_cell", "RNN_RELU", 1, "recurrent network with relu")
