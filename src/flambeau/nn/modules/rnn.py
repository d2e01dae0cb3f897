"""Recurrent cells."""

from __future__ import annotations

import math
from typing import Any

import flambeau
from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.nn.parameter import Parameter

from .module import Module


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

    def _zeros(self, input: Any) -> Any:
        shape = (*tuple(input.shape)[:-1], self.hidden_size)
        return flambeau.zeros(shape, dtype=input.dtype, device=input.device)

    def _gates(self, input: Any, hidden: Any) -> tuple[Any, Any]:
        return F.linear(input, self.weight_ih, self.bias_ih), F.linear(hidden, self.weight_hh, self.bias_hh)


class RNNCell(RNNCellBase):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or with relu for tanh."""

    __constants__ = ["input_size", "hidden_size", "bias", "nonlinearity"]

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh",
                 device: Any = None, dtype: Any = None) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Any, hx: Any = None) -> Any:
        self._check(input, hx)
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        a, b = self._gates(input, self._zeros(input) if hx is None else hx)
        return flambeau.tanh(a + b) if self.nonlinearity == "tanh" else F.relu(a + b)


class LSTMCell(RNNCellBase):
    """Long short-term memory: (h', c') from x and (h, c). Source: Hochreiter and Schmidhuber, 1997."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None,
                 dtype: Any = None) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        self._check(input, *(hx if hx is not None else ()))
        h, c = hx if hx is not None else (self._zeros(input), self._zeros(input))
        a, b = self._gates(input, h)
        i, f, g, o = flambeau.chunk(a + b, 4, -1)
        c = flambeau.sigmoid(f) * c + flambeau.sigmoid(i) * flambeau.tanh(g)
        return flambeau.sigmoid(o) * flambeau.tanh(c), c


class GRUCell(RNNCellBase):
    """Gated recurrent unit. Source: Cho et al., 2014, arXiv:1406.1078; the reset gate acts after the matrix
    product."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None,
                 dtype: Any = None) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Any, hx: Any = None) -> Any:
        self._check(input, hx)
        h = self._zeros(input) if hx is None else hx
        a, b = self._gates(input, h)
        ar, az, an = flambeau.chunk(a, 3, -1)
        br, bz, bn = flambeau.chunk(b, 3, -1)
        new = flambeau.tanh(an + flambeau.sigmoid(ar + br) * bn)
        return new + flambeau.sigmoid(az + bz) * (h - new)
