"""Recurrent layers: one operator for a whole sequence in one direction.

A loop over time in operators costs tens of nodes per step; as one operator a layer costs one. Its backward on arrays
is a kernel. When the backward is itself recorded, the layer is run once more as a composition of operators and
differentiated through, so that gradients of any order exist. Source: Hochreiter and Schmidhuber, 1997 (LSTM); Cho et
al., arXiv:1406.1078 (GRU; the reset gate acts after the matrix product); Sak et al., arXiv:1402.1128 (projection).
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from flambeau.core.apply import apply_n
from flambeau.core.engine import run_backward
from flambeau.core.objects import array_of, dtype_of, make, requires, shape_of
from flambeau.core.state import set_grad_enabled
from flambeau.kernels import recurrent as kernel

from ._lazy import is_meta
from ._meta import Meta
from ._pointwise import fused
from ._record import KERNEL, primitive
from ._whole import seen_whole

WEIGHTS = ("w_ih", "w_hh", "b_ih", "b_hh")


# --------------------------------------------------------------------------------- the layers as compositions


def _zeros(like: Any, n: int, width: int) -> Any:
    return make(np.zeros((n, width), dtype_of(like)))


def _affine(xp: Any, x: Any, weight: Any, bias: Any) -> Any:
    out = xp.mm(x, xp.t(weight))
    return out if bias is None else out + bias


def _gate(xp: Any, gates: Any, k: int, width: int) -> Any:
    return xp.narrow(gates, 1, k * width, width)


def unroll(xp: Any, x: Any, states: list, sizes: tuple | None, reverse: bool, step: Callable) -> list:
    """[output, last states...] of step(rows of x, states) -> new states, the first of which is the output."""
    flat = xp.as_rows(x)
    per_step = sizes if sizes is not None else (shape_of(x)[1],) * shape_of(x)[0]
    n, starts = per_step[0], np.cumsum((0, *per_step))
    outs: dict[int, Any] = {}
    for t in reversed(range(len(per_step))) if reverse else range(len(per_step)):
        b = per_step[t]
        new = step(xp.narrow(flat, 0, int(starts[t]), b), [s if b == n else xp.narrow(s, 0, 0, b) for s in states])
        states = [v if b == n else xp.cat([v, xp.narrow(s, 0, b, n - b)], 0) for v, s in zip(new, states, strict=True)]
        outs[t] = new[0]
    out = xp.cat([outs[t] for t in range(len(per_step))], 0)
    return [xp.reshape(out, (*shape_of(x)[:-1], shape_of(out)[1])), *states]


def lstm_composed(xp: Any, x: Any, h0: Any, c0: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, w_hr: Any,
                  sizes: tuple | None, reverse: bool) -> list:
    """[output, last h, last c] in operators."""
    n, width = shape_of(x)[1] if sizes is None else sizes[0], shape_of(w_hh)[0] // 4

    def step(rows: Any, states: list) -> list:
        h, c = states
        gates = _affine(xp, rows, w_ih, b_ih) + _affine(xp, h, w_hh, b_hh)
        i, f, g, o = (_gate(xp, gates, k, width) for k in range(4))
        c = xp.sigmoid(f) * c + xp.sigmoid(i) * xp.tanh(g)
        h = xp.sigmoid(o) * xp.tanh(c)
        return [h if w_hr is None else xp.mm(h, xp.t(w_hr)), c]

    states = [_zeros(x, n, shape_of(w_hh)[1]) if h0 is None else h0, _zeros(x, n, width) if c0 is None else c0]
    return unroll(xp, x, states, sizes, reverse, step)


def gru_composed(xp: Any, x: Any, h0: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, sizes: tuple | None,
                 reverse: bool) -> list:
    """[output, last h] in operators."""
    n, width = shape_of(x)[1] if sizes is None else sizes[0], shape_of(w_hh)[1]

    def step(rows: Any, states: list) -> list:
        h, = states
        own, past = _affine(xp, rows, w_ih, b_ih), _affine(xp, h, w_hh, b_hh)
        r, z = (xp.sigmoid(_gate(xp, own, k, width) + _gate(xp, past, k, width)) for k in range(2))
        new = xp.tanh(_gate(xp, own, 2, width) + r * _gate(xp, past, 2, width))
        return [new + z * (h - new)]

    return unroll(xp, x, [_zeros(x, n, width) if h0 is None else h0], sizes, reverse, step)


def rnn_composed(xp: Any, x: Any, h0: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, relu: bool,
                 sizes: tuple | None, reverse: bool) -> list:
    """[output, last h] in operators."""
    n, width = shape_of(x)[1] if sizes is None else sizes[0], shape_of(w_hh)[1]

    def step(rows: Any, states: list) -> list:
        total = _affine(xp, rows, w_ih, b_ih) + _affine(xp, states[0], w_hh, b_hh)
        return [xp.relu(total) if relu else xp.tanh(total)]

    return unroll(xp, x, [_zeros(x, n, width) if h0 is None else h0], sizes, reverse, step)


def _through(composed: Callable, n_inputs: int, n_saved: int) -> Callable:
    """The backward of a composition, recorded: (xp, grads, inputs..., saved..., parameters..., needs)."""

    def backward(xp: Any, grads: list, *values: Any) -> list:
        inputs, params, needs = values[:n_inputs], values[n_inputs + n_saved:-1], values[-1]
        if is_meta(inputs[0]):      # no step differs from another: the gradients' shapes are known
            of = xp.sum(next(g for g in grads if g is not None))
            return [xp.linked(xp.zeros_like(t), of) if need and t is not None else None
                    for t, need in zip(inputs, needs, strict=True)]
        fresh: list[Any] = []       # so that a gradient stops here, also where one input was computed from another
        for t, need in zip(inputs, needs, strict=True):
            if t is not None and need and not requires(t):
                t = make(array_of(t))
                t._rg = True
            fresh.append(None if t is None else t)
        record = set_grad_enabled(True)
        try:
            fresh = [xp.alias(t) if t is not None and need else t for t, need in zip(fresh, needs, strict=True)]
            outs = composed(xp, *fresh, *params)
        finally:
            set_grad_enabled(record)
        given = [(o, g) for o, g in zip(outs, grads, strict=False) if g is not None]
        wanted = [k for k, need in enumerate(needs) if need and fresh[k] is not None]
        found = run_backward([o for o, _ in given], [g for _, g in given], True, record, [fresh[k] for k in wanted], False)
        result: list[Any] = [None] * n_inputs
        for k, g in zip(wanted, found, strict=True):
            result[k] = g
        return result

    return backward


# --------------------------------------------------------------------------------- primitives

fused("lstm_layer_backward", kernel.lstm_layer_backward, _through(lstm_composed, 8, 4))
fused("gru_layer_backward", kernel.gru_layer_backward, _through(gru_composed, 6, 3))
fused("rnn_layer_backward", kernel.rnn_layer_backward, _through(rnn_composed, 6, 1))

def _run_shape(x: Meta, w_hh: Meta, sizes: tuple | None, width: int) -> tuple[Meta, Meta]:
    """(the outputs of all steps, the last state)."""
    n = x.shape[1] if sizes is None else sizes[0]
    return Meta((*x.shape[:-1], width), x.dtype), Meta((n, width), x.dtype)


def _rows(x: Meta, width: int) -> Meta:
    return Meta((x.size // x.shape[-1] if x.shape[-1] else prod(x.shape[:-1]), width), x.dtype)


def _lstm_shape(x: Meta, h0: Any, c0: Any, w_ih: Meta, w_hh: Meta, b_ih: Any, b_hh: Any, w_hr: Any, sizes: Any,
                reverse: bool) -> list:
    width = w_hh.shape[0] // 4
    out, last = _run_shape(x, w_hh, sizes, width if w_hr is None else w_hr.shape[0])
    return [out, last, Meta((last.shape[0], width), x.dtype), _rows(x, 4 * width), _rows(x, width), _rows(x, width)]


def _gru_shape(x: Meta, h0: Any, w_ih: Meta, w_hh: Meta, b_ih: Any, b_hh: Any, sizes: Any, reverse: bool) -> list:
    width = w_hh.shape[0] // 3
    return [*_run_shape(x, w_hh, sizes, width), _rows(x, 3 * width), _rows(x, width)]


def _rnn_shape(x: Meta, h0: Any, w_ih: Meta, w_hh: Meta, b_ih: Any, b_hh: Any, relu: bool, sizes: Any,
               reverse: bool) -> list:
    return [*_run_shape(x, w_hh, sizes, w_hh.shape[0])]


LSTM = primitive(
    "lstm_layer", kernel.lstm_layer, inputs=("input", "h0", "c0", *WEIGHTS, "w_hr"), params=("batch_sizes", "reverse"),
    outputs=(True, True, True, False, False, False), promotes=False, meta=_lstm_shape,
    expr=KERNEL, node="MkldnnRnnLayerBackward0",
    joint=lambda xp, g, needs, input, h0, c0, w_ih, w_hh, b_ih, b_hh, w_hr, out0, out3, out4, out5, batch_sizes, reverse:
    xp.lstm_layer_backward(g, input, h0, c0, w_ih, w_hh, b_ih, b_hh, w_hr, out0, out3, out4, out5, batch_sizes, reverse,
                           needs))
GRU = primitive(
    "gru_layer", kernel.gru_layer, inputs=("input", "h0", *WEIGHTS), params=("batch_sizes", "reverse"),
    outputs=(True, True, False, False), promotes=False, meta=_gru_shape, expr=KERNEL,
    joint=lambda xp, g, needs, input, h0, w_ih, w_hh, b_ih, b_hh, out0, out2, out3, batch_sizes, reverse:
    xp.gru_layer_backward(g, input, h0, w_ih, w_hh, b_ih, b_hh, out0, out2, out3, batch_sizes, reverse, needs))
RNN = primitive(
    "rnn_layer", kernel.rnn_layer, inputs=("input", "h0", *WEIGHTS), params=("relu", "batch_sizes", "reverse"),
    outputs=(True, True), promotes=False, meta=_rnn_shape, expr=KERNEL,
    joint=lambda xp, g, needs, input, h0, w_ih, w_hh, b_ih, b_hh, out0, relu, batch_sizes, reverse:
    xp.rnn_layer_backward(g, input, h0, w_ih, w_hh, b_ih, b_hh, out0, relu, batch_sizes, reverse, needs))


def _layer(mode: str, x: Any, states: list, weights: list, sizes: tuple | None, reverse: bool) -> list:
    d = dtype_of(x)
    for t in (*states, *weights):
        if t is not None and dtype_of(t) != d:
            raise RuntimeError(f"{mode}: input, states and weights must have the same dtype, but got {d.name} for input and "
                               f"{dtype_of(t).name}. Convert with .to(dtype).")
    if d.kind not in "fV":
        raise RuntimeError(f"{mode} needs a real floating dtype, got {d.name}. Write a cell of complex operators as a loop.")
    if mode == "LSTM":
        return apply_n(LSTM, [x, *states, *weights], (sizes, reverse))[:3]
    if mode == "GRU":
        return apply_n(GRU, [x, *states, *weights[:4]], (sizes, reverse))[:2]
    return apply_n(RNN, [x, *states, *weights[:4]], (mode == "RNN_RELU", sizes, reverse))


_lower, _widest = seen_whole("recurrent_layer", _layer), seen_whole("gru_layer", _layer)


def recurrent_layer(mode: str, x: Any, states: list, weights: list, sizes: tuple | None, reverse: bool,
                    cell: bool = False) -> list:
    """[output, last states...] of one layer in one direction.

    Args:
        mode: "LSTM", "GRU", "RNN_TANH" or "RNN_RELU".
        x: (T, N, D), or the rows of a packed batch with `sizes`.
        states: h0 and, for LSTM, c0: (N, H) each, or None for zeros.
        weights: w_ih, w_hh, b_ih, b_hh and, for LSTM, w_hr, None where absent.
        reverse: from the last step to the first.
        cell: x is one step of a cell (1, N, D).

    Returns:
        Output (T, N, H) or rows, and the last states.

    Raises:
        RuntimeError: dtypes that differ, or are not real floating ones.
    """
    h0 = x if states[0] is None else states[0]
    # Autocast leaves float32 states as they are where PyTorch has a loop over steps, not one operator for the layer
    stepwise = mode == "GRU" or (mode == "LSTM" and (cell or sizes is not None))
    layer = _widest if stepwise and dtype_of(h0) == np.float32 else _lower
    return layer(mode, x, states, weights, sizes, reverse)
