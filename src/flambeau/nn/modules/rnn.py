"""Recurrent layers over sequences, and cells for a single step."""

from __future__ import annotations

import math
import numbers
from typing import Any

import flambeau
from flambeau.core.origin import warn_user
from flambeau.nn import init
from flambeau.nn.parameter import Parameter
from flambeau.nn.utils.rnn import PackedSequence
from flambeau.ops._whole import watchers
from flambeau.ops.recurrent import recurrent_layer
from flambeau.ops.recurrent_functions import run_layers

from .module import Module

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}
_SUFFIXES = ("", "_reverse")


class RNNBase(Module):
    """Recurrent layers one upon the other, each in one direction or both.

    Args:
        mode: "LSTM", "GRU", "RNN_TANH" or "RNN_RELU".
        input_size: D, features of the input. hidden_size: H, features of the state.
        num_layers: how many layers.
        bias: each gate has two biases.
        batch_first: input and output are (N, L, D) instead of (L, N, D); states never are.
        dropout: probability, on the outputs of all layers but the last, in training.
        bidirectional: a second set of weights reads backwards; outputs are joined, (L, N, 2 H).
        proj_size: of LSTM: h has this many features, by a product with weight_hr; 0 for none.

    Initial values are uniform in +-1/sqrt(H).
    """

    __constants__ = ["mode", "input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout",
                     "bidirectional", "proj_size"]
    __jit_unused_properties__ = ["all_weights"]

    def __init__(self, mode: str, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
                 batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0,
                 device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout) if isinstance(dropout, numbers.Number) else dropout  # type: ignore[arg-type]
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._check_arguments(dropout)
        if mode not in _GATES:
            raise ValueError(f"Unrecognized RNN mode: {mode}")
        rows, out = _GATES[mode] * hidden_size, proj_size or hidden_size
        n_directions = 2 if bidirectional else 1
        self._flat_weights_names: list[str] = []
        self._all_weights: list[list[str]] = []
        for layer in range(num_layers):
            for suffix in _SUFFIXES[:n_directions]:
                shapes = {"weight_ih": (rows, input_size if layer == 0 else out * n_directions),
                          "weight_hh": (rows, out)}
                if bias:
                    shapes["bias_ih"] = shapes["bias_hh"] = (rows,)
                if proj_size:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                names = [f"{name}_l{layer}{suffix}" for name in shapes]
                for name, shape in zip(names, shapes.values(), strict=True):
                    setattr(self, name, Parameter(flambeau.empty(shape, device=device, dtype=dtype)))
                self._all_weights.append(names)
                self._flat_weights_names.extend(names)
        self.reset_parameters()

    def __getstate__(self) -> dict[str, Any]:
        # PyTorch's modules keep their weights in a row too, and expect that of a file
        return {**super().__getstate__(), "_flat_weights": [getattr(self, name) for name in self._flat_weights_names]}

    def __setstate__(self, state: dict) -> None:
        super().__setstate__({name: value for name, value in state.items() if name != "_flat_weights"})

    def _check_arguments(self, dropout: Any) -> None:
        if not isinstance(dropout, numbers.Number) or isinstance(dropout, bool) or not 0 <= dropout <= 1:  # type: ignore[operator]
            raise ValueError("dropout should be a number in range [0, 1] representing the probability of an element "
                             f"being zeroed, got {dropout!r}")
        if dropout > 0 and self.num_layers == 1:  # type: ignore[operator]
            warn_user(f"dropout={dropout} has no effect with num_layers={self.num_layers}: it lies between the "
                      "layers, and none follows the last. Put a Dropout layer after this one instead.")
        for name, kind in (("hidden_size", int), ("num_layers", int), ("batch_first", bool)):
            value = getattr(self, name)
            if not isinstance(value, kind):
                raise TypeError(f"{name} should be of type {kind.__name__}, got: {type(value).__name__}")
        for name in ("input_size", "hidden_size", "num_layers"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be greater than zero, got {getattr(self, name)}")
        if self.proj_size < 0:
            raise ValueError("proj_size should be a positive integer or zero to disable projections, got "
                             f"{self.proj_size}")
        if self.proj_size >= self.hidden_size:
            raise ValueError(f"proj_size has to be smaller than hidden_size, got {self.proj_size} and "
                             f"{self.hidden_size}")

    def reset_parameters(self) -> None:
        """Draw the initial values anew."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    @property
    def all_weights(self) -> list[list[Any]]:
        """The weights of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    @property
    def _flat_weights(self) -> list[Any]:
        return [getattr(self, name) for name in self._flat_weights_names]

    def flatten_parameters(self) -> None:
        """Nothing to do: on the CPU weights need not lie together."""

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        for name, default in (("proj_size", 0), ("num_layers", 1), ("bias", True), ("batch_first", False),
                              ("dropout", 0), ("bidirectional", False)):
            value = getattr(self, name)
            if value != default:
                text += f", {name}={value}"
        return text

    def _weights(self, names: list[str]) -> list[Any]:
        """w_ih, w_hh, b_ih, b_hh, w_hr of one layer and direction, None where absent."""
        own = self._parameters
        found = [own[n] if n in own else getattr(self, n) for n in names]
        if not self.bias:
            found[2:2] = [None, None]
        return found if self.proj_size else [*found, None]

    def check_input(self, input: Any, batch_sizes: Any) -> None:
        """Refuse an input whose dtype or size is not the layer's."""
        weight = getattr(self, self._flat_weights_names[0])
        if input.dtype != weight.dtype and not watchers:        # autocast casts both
            raise ValueError(f"RNN input dtype ({input.dtype}) does not match weight dtype ({weight.dtype}). Convert "
                             f"input: input.to({weight.dtype}), or convert model: model.to({input.dtype})")
        expected = 3 if batch_sizes is None else 2
        if input.dim() != expected:
            raise RuntimeError(f"input must have {expected} dimensions, got {input.dim()}")
        if input.size(-1) != self.input_size:
            raise RuntimeError(f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got "
                               f"{input.size(-1)}")
        if batch_sizes is None and input.size(1 if self.batch_first else 0) == 0:
            raise RuntimeError("Expected sequence length to be larger than 0 in RNN")

    def get_expected_hidden_size(self, input: Any, batch_sizes: Any) -> tuple[int, int, int]:
        """(layers * directions, N, H): the shape of a state."""
        if batch_sizes is not None:
            n = int(batch_sizes[0])
        else:
            n = input.size(0) if self.batch_first else input.size(1)
        return (self.num_layers * (2 if self.bidirectional else 1), n, self.proj_size or self.hidden_size)

    def check_hidden_size(self, hx: Any, expected_hidden_size: tuple[int, int, int],
                          msg: str = "Expected hidden size {}, got {}") -> None:
        """Refuse a state of another shape."""
        if tuple(hx.size()) != tuple(expected_hidden_size):
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.size())))

    def check_forward_args(self, input: Any, hidden: Any, batch_sizes: Any) -> None:
        """Refuse an input or a state that does not fit the layer."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Any, permutation: Any) -> Any:
        """The state in another order of the batch."""
        return hx if permutation is None else hx.index_select(1, permutation)

    def _run(self, input: Any, states: list, sizes: tuple | None) -> tuple[Any, list]:
        """The output and the last states, of an input (L, N, D) or of packed rows."""
        both = 2 if self.bidirectional else 1
        weights = [[self._weights(self._all_weights[layer * both + direction]) for direction in range(both)]
                   for layer in range(self.num_layers)]
        return run_layers(self.mode, input, states, weights, sizes, self.dropout if self.training else 0.0)

    def _forward(self, input: Any, hx: tuple | None) -> tuple[Any, list]:
        """The output, packed as the input is, and the last states; hx: the first states."""
        n_states = 2 if self.mode == "LSTM" else 1
        words = "hx and cx" if n_states == 2 else "hx"
        states = [None] * n_states if hx is None else list(hx)
        packed = input if isinstance(input, PackedSequence) else None
        sizes = None
        if packed is not None:
            input = packed.data
            sizes = tuple(int(n) for n in packed.batch_sizes.tolist())
            batched = True
        else:
            if input.dim() not in (2, 3):
                raise ValueError(f"{type(self).__name__}: Expected input to be 2D or 3D, got {input.dim()}D instead")
            batched = input.dim() == 3
            wrong = [s for s in states if s is not None and s.dim() != input.dim()]
            if wrong:
                dims = ", ".join(f"{s.dim()}-D" for s in states)
                what = f"({dims}) tensors" if n_states == 2 else f"{dims} tensor"
                kind = "batched 3-D" if batched else "unbatched 2-D"
                raise RuntimeError(f"For {kind} input, {words} should also be {input.dim()}-D but got {what}")
            if not batched:
                input = input.unsqueeze(0 if self.batch_first else 1)
                states = [None if s is None else s.unsqueeze(1) for s in states]
        if packed is not None:
            states = [None if s is None else self.permute_hidden(s, packed.sorted_indices) for s in states]
        self.check_input(input, sizes)
        if hx is not None:
            layers, n, width = self.get_expected_hidden_size(input, sizes)
            names = ["hidden[0]", "hidden[1]"] if n_states == 2 else ["hidden"]
            for name, s, w in zip(names, states, (width, self.hidden_size), strict=False):
                self.check_hidden_size(s, (layers, n, w), f"Expected {name} size {{}}, got {{}}")
        swap = self.batch_first and packed is None
        out, lasts = self._run(input.transpose(0, 1) if swap else input, states, sizes)
        if packed is not None:
            lasts = [self.permute_hidden(s, packed.unsorted_indices) for s in lasts]
            return PackedSequence(out, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices), lasts
        if swap:
            out = out.transpose(0, 1)
        if not batched:
            out, lasts = out.squeeze(0 if self.batch_first else 1), [s.squeeze(1) for s in lasts]
        return out, lasts


class RNN(RNNBase):
    """h_t = tanh(W_ih x_t + b_ih + W_hh h_{t-1} + b_hh), or with relu for tanh; see `RNNBase` for the arguments.

    Args:
        nonlinearity: "tanh" or "relu", the fourth argument.

    Returns (of a call with input (L, N, D) and optionally h_0 (layers * directions, N, H)):
        The states of the last layer (L, N, directions * H), and the last states h_n.

    >>> output, h_n = flambeau.nn.RNN(3, 4)(flambeau.ones(5, 2, 3))
    >>> output.shape, h_n.shape
    (torch.Size([5, 2, 4]), torch.Size([1, 2, 4]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if kwargs.get("proj_size", 0):
            raise ValueError("proj_size is only supported for LSTM. Project the output with a Linear layer instead.")
        if len(args) > 3:
            nonlinearity, args = args[3], args[:3] + args[4:]
        else:
            nonlinearity = kwargs.pop("nonlinearity", "tanh")
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        self.nonlinearity = nonlinearity
        super().__init__("RNN_" + nonlinearity.upper(), *args, **kwargs)

    def forward(self, input: Any, hx: Any = None) -> Any:
        out, lasts = self._forward(input, None if hx is None else (hx,))
        return out, lasts[0]


class GRU(RNNBase):
    """Gated recurrent unit over sequences; see `RNNBase` for the arguments. Source: Cho et al., 2014,
    arXiv:1406.1078; the reset gate acts after the matrix product.

    Returns (of a call with input (L, N, D) and optionally h_0 (layers * directions, N, H)):
        The states of the last layer (L, N, directions * H), and the last states h_n.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size is only supported for LSTM. Project the output with a Linear layer instead.")
        super().__init__("GRU", *args, **kwargs)

    def forward(self, input: Any, hx: Any = None) -> Any:
        out, lasts = self._forward(input, None if hx is None else (hx,))
        return out, lasts[0]


class LSTM(RNNBase):
    """Long short-term memory over sequences; see `RNNBase` for the arguments. Source: Hochreiter and Schmidhuber,
    1997; Sak et al., 2014, arXiv:1402.1128 (proj_size).

    Returns (of a call with input (L, N, D) and optionally (h_0, c_0), each (layers * directions, N, H)):
        The states h of the last layer (L, N, directions * H), and the last states (h_n, c_n).

    >>> output, (h_n, c_n) = flambeau.nn.LSTM(3, 4, batch_first=True)(flambeau.ones(2, 5, 3))
    >>> output.shape, c_n.shape
    (torch.Size([2, 5, 4]), torch.Size([1, 2, 4]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def get_expected_cell_size(self, input: Any, batch_sizes: Any) -> tuple[int, int, int]:
        """(layers * directions, N, H): the shape of c."""
        return (*self.get_expected_hidden_size(input, batch_sizes)[:2], self.hidden_size)

    def check_forward_args(self, input: Any, hidden: Any, batch_sizes: Any) -> None:
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden[0], self.get_expected_hidden_size(input, batch_sizes),
                               "Expected hidden[0] size {}, got {}")
        self.check_hidden_size(hidden[1], self.get_expected_cell_size(input, batch_sizes),
                               "Expected hidden[1] size {}, got {}")

    def permute_hidden(self, hx: Any, permutation: Any) -> Any:
        if permutation is None:
            return hx
        if isinstance(hx, tuple):
            return tuple(s.index_select(1, permutation) for s in hx)
        return hx.index_select(1, permutation)

    def forward(self, input: Any, hx: Any = None) -> Any:
        if hx is not None and not (isinstance(hx, (tuple, list)) and len(hx) == 2):
            raise TypeError(f"LSTM: hx must be a tuple (h_0, c_0), got {type(hx).__name__}")
        out, lasts = self._forward(input, None if hx is None else tuple(hx))
        return out, tuple(lasts)


class RNNCellBase(Module):
    """Weights of a recurrent cell with num_chunks gates: weight_ih (chunks H, D), weight_hh (chunks H, H),
    two biases.

    Initial values are uniform in +-1/sqrt(H).
    """

    __constants__ = ["input_size", "hidden_size", "bias"]
    weight_ih: Any
    weight_hh: Any
    bias_ih: Any
    bias_hh: Any

    def __init__(self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, device: Any = None,
                 dtype: Any = None) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        self.weight_ih = Parameter(flambeau.empty((rows, input_size), device=device, dtype=dtype))
        self.weight_hh = Parameter(flambeau.empty((rows, hidden_size), device=device, dtype=dtype))
        for name in ("bias_ih", "bias_hh"):
            if bias:
                setattr(self, name, Parameter(flambeau.empty(rows, device=device, dtype=dtype)))
            else:
                self.register_parameter(name, None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the initial values anew."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        nonlinearity = self.__dict__.get("nonlinearity", "tanh")
        return text if nonlinearity == "tanh" else text + f", nonlinearity={nonlinearity}"

    def _check(self, input: Any, *states: Any) -> bool:
        """Whether the input has a batch dimension; an error when a shape does not fit the cell."""
        name = type(self).__name__
        if input.dim() not in (1, 2):
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        for state in states:
            if state is not None and state.dim() not in (1, 2):
                raise ValueError(f"{name}: Expected hidden to be 1D or 2D, got {state.dim()}D instead")
        batched = input.dim() == 2
        if input.size(-1) != self.input_size:
            raise RuntimeError(f"input has inconsistent input_size: got {input.size(-1)} expected "
                               f"{self.input_size}")
        for i, state in enumerate(states):
            if state is None:
                continue
            if batched and (state.dim() == 1 or state.size(0) != input.size(0)):
                raise RuntimeError(f"Input batch size {input.size(0)} doesn't match hidden{i} batch size "
                                   f"{state.size(0)}")
            if state.size(-1) != self.hidden_size:
                raise RuntimeError(f"hidden{i} has inconsistent hidden_size: got {state.size(-1)}, expected "
                                   f"{self.hidden_size}")
        return batched

    def _step(self, mode: str, input: Any, states: list, batched: bool) -> list:
        """The new states, of the layer's operator over a single step."""
        x = input.unsqueeze(0) if batched else input.unsqueeze(0).unsqueeze(0)
        if not batched:
            states = [None if s is None else s.unsqueeze(0) if s.dim() == 1 else s for s in states]
        weights = [self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh, None]
        new = recurrent_layer(mode, x, states, weights, None, False, True)[1:]
        return new if batched else [s.squeeze(0) for s in new]


class RNNCell(RNNCellBase):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or with relu for tanh."""

    __constants__ = ["input_size", "hidden_size", "bias", "nonlinearity"]

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh",
                 device: Any = None, dtype: Any = None) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Any, hx: Any = None) -> Any:
        batched = self._check(input, hx)
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return self._step("RNN_" + self.nonlinearity.upper(), input, [hx], batched)[0]


class LSTMCell(RNNCellBase):
    """Long short-term memory: (h', c') from x and (h, c). Source: Hochreiter and Schmidhuber, 1997."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None,
                 dtype: Any = None) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        batched = self._check(input, *(hx if hx is not None else ()))
        h, c = self._step("LSTM", input, [None, None] if hx is None else list(hx), batched)
        return h, c


class GRUCell(RNNCellBase):
    """Gated recurrent unit. Source: Cho et al., 2014, arXiv:1406.1078; the reset gate acts after the matrix
    product."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None,
                 dtype: Any = None) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Any, hx: Any = None) -> Any:
        return self._step("GRU", input, [hx], self._check(input, hx))[0]
