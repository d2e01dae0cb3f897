"""Recurrent layers over whole sequences: the loop over time in NumPy, few calls per step.

One function runs a layer in one direction. The product of all steps' inputs with their weights is one matrix product
before the loop; a sigmoid is (1 + tanh(x / 2)) / 2, so that one tanh serves all gates of a step. The backward finds
everything that does not depend on the gradient before its loop, and the gradients of the weights after it.

A batch is (T, N, D), or packed: (sum of sizes, D) with `sizes`, the number of sequences still running at each step,
longest first. Rows of a state beyond a step's size stay as they are: in forward order these sequences have ended, in
reverse order they have not begun.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["gru_layer", "gru_layer_backward", "lstm_layer", "lstm_layer_backward", "rnn_layer", "rnn_layer_backward"]

_HALF = {np.dtype(np.float32): np.float32(0.5), np.dtype(np.float64): np.float64(0.5)}
_F32 = np.dtype(np.float32)

Steps = list[tuple[slice, int]]


def _steps(x: np.ndarray, sizes: tuple | None, reverse: bool) -> Steps:
    """For each step in the order of the loop: its rows in the flat batch, and how many."""
    if sizes is None:
        sizes = (x.shape[1],) * x.shape[0]
    steps, start = [], 0
    for n in sizes:
        steps.append((slice(start, start + n), n))
        start += n
    if reverse:
        steps.reverse()
    return steps


def _ragged(sizes: tuple | None) -> bool:
    """Whether sequences end at different steps: then a state is kept apart from the output's rows."""
    return sizes is not None and sizes[0] != sizes[-1]


def _rows(a: np.ndarray) -> np.ndarray:
    return a.reshape(-1, a.shape[-1])


def _batch(x: np.ndarray, sizes: tuple | None) -> int:
    return x.shape[1] if sizes is None else sizes[0]


def _initial(state: np.ndarray | None, n: int, width: int, dtype: Any) -> np.ndarray:
    return np.zeros((n, width), dtype) if state is None else np.array(state, order="C")


def _input_part(x: np.ndarray, weight: np.ndarray, *biases: np.ndarray | None) -> np.ndarray:
    """x @ weight.T and biases, of all steps at once."""
    out = _rows(x) @ weight.T
    for b in biases:
        if b is not None:
            out += b
    return out


def _before(states: np.ndarray, initial: np.ndarray | None, x: np.ndarray, sizes: tuple | None,
            reverse: bool) -> np.ndarray:
    """For each step the state that it started from."""
    n, width = _batch(x, sizes), states.shape[1]
    out = np.empty_like(states)
    if sizes is None:
        first = slice(len(states) - n, None) if reverse else slice(n)
        out[first] = 0 if initial is None else initial
        if reverse:
            out[:len(states) - n] = states[n:]
        else:
            out[n:] = states[:len(states) - n]
        return out
    state = _initial(initial, n, width, states.dtype)
    for rows, b in _steps(x, sizes, reverse):
        out[rows] = state[:b]
        state[:b] = states[rows]
    return out


def _parameter_gradients(d_input: np.ndarray, d_hidden: np.ndarray, x: np.ndarray, before: np.ndarray, w_ih: np.ndarray,
                         needs: list, first: int) -> list:
    """Gradients of w_ih, w_hh, b_ih, b_hh, from those of the gates' two parts; needs[first:] says which."""
    return [d_input.T @ _rows(x) if needs[first] else None, d_hidden.T @ before if needs[first + 1] else None,
            np.add.reduce(d_input, 0) if needs[first + 2] else None,
            np.add.reduce(d_hidden, 0) if needs[first + 3] else None]


def _input_gradient(d_input: np.ndarray, w_ih: np.ndarray, x: np.ndarray, need: bool) -> np.ndarray | None:
    return (d_input @ w_ih).reshape(x.shape) if need else None


def _gradient_rows(g: np.ndarray | None, n_rows: int, width: int, dtype: Any) -> np.ndarray:
    return np.zeros((n_rows, width), dtype) if g is None else np.ascontiguousarray(g).reshape(n_rows, width)


def _wide(fn: Callable) -> Callable:
    """Half precision computed in float32; results are rounded once."""

    def run(*args: Any) -> Any:
        x = next(a for a in args if isinstance(a, np.ndarray))
        if x.dtype.itemsize != 2:
            return fn(*args)
        up = [a.astype(_F32) if isinstance(a, np.ndarray) and a.dtype.itemsize == 2 else
              [None if v is None else v.astype(_F32) for v in a] if isinstance(a, list) and any(
                  isinstance(v, np.ndarray) for v in a) else a for a in args]
        return [None if r is None else r.astype(x.dtype) for r in fn(*up)]

    run.__name__, run.__doc__ = fn.__name__, fn.__doc__
    return run


# ------------------------------------------------------------------------------------------------ LSTM


@_wide
def lstm_layer(x: np.ndarray, h0: np.ndarray | None, c0: np.ndarray | None, w_ih: np.ndarray, w_hh: np.ndarray,
               b_ih: np.ndarray | None, b_hh: np.ndarray | None, w_hr: np.ndarray | None, sizes: tuple | None,
               reverse: bool) -> list:
    """[output, last h, last c; for the backward: gates, cells, tanh of the cells]."""
    d, n, width = x.dtype, _batch(x, sizes), w_hh.shape[0] // 4
    half = _HALF[d]
    factor = np.full(4 * width, half, d)
    factor[2 * width:3 * width] = 1
    shift = 1 - factor
    gates = _input_part(x, w_ih, b_ih, b_hh)
    gates *= factor
    w = np.multiply(w_hh.T, factor, order="C")
    out_width = width if w_hr is None else w_hr.shape[0]
    project = None if w_hr is None else np.ascontiguousarray(w_hr.T)
    out, cells, tanhs = (np.empty((len(gates), k), d) for k in (out_width, width, width))
    h, c = _initial(h0, n, out_width, d), _initial(c0, n, width, d)
    product, scratch = np.empty((n, 4 * width), d), np.empty((n, width), d)
    ragged = _ragged(sizes)
    for rows, b in _steps(x, sizes, reverse):
        gate, cell, raw, to, p, s = gates[rows], cells[rows], tanhs[rows], out[rows], product[:b], scratch[:b]
        np.dot(h[:b], w, p)
        np.add(gate, p, gate)
        np.tanh(gate, gate)
        np.multiply(gate, factor, gate)
        np.add(gate, shift, gate)
        np.multiply(gate[:, width:2 * width], c[:b], cell)
        np.multiply(gate[:, :width], gate[:, 2 * width:3 * width], s)
        np.add(cell, s, cell)
        np.tanh(cell, raw)
        if project is None:
            np.multiply(gate[:, 3 * width:], raw, to)
        else:
            np.dot(np.multiply(gate[:, 3 * width:], raw), project, to)
        if ragged:
            h[:b], c[:b] = to, cell
        else:
            h, c = to, cell
    return [out.reshape(*x.shape[:-1], out_width), h.copy(), c.copy(), gates, cells, tanhs]


@_wide
def lstm_layer_backward(grads: list, x: np.ndarray, h0: np.ndarray | None, c0: np.ndarray | None, w_ih: np.ndarray,
                        w_hh: np.ndarray, b_ih: Any, b_hh: Any, w_hr: np.ndarray | None, out: np.ndarray,
                        gates: np.ndarray, cells: np.ndarray, tanhs: np.ndarray, sizes: tuple | None, reverse: bool,
                        needs: list) -> list:
    """Gradients of the eight inputs, given those of (output, last h, last c), None where undefined."""
    d, n, m, width = x.dtype, _batch(x, sizes), len(gates), w_hh.shape[0] // 4
    out_width = w_hh.shape[1]
    before = _before(_rows(out), h0, x, sizes, reverse)
    i, f, g, o = (gates[:, k * width:(k + 1) * width] for k in range(4))
    # what each gate's own gradient is per unit of the gradient of c (i, f, g) or of h (o)
    unit = np.subtract(1, gates)
    unit *= gates
    np.subtract(1, g * g, unit[:, 2 * width:3 * width])
    unit[:, :width] *= g
    unit[:, width:2 * width] *= _before(cells, c0, x, sizes, reverse)
    unit[:, 2 * width:3 * width] *= i
    unit[:, 3 * width:] *= tanhs
    to_cell = np.multiply(tanhs, tanhs)
    np.subtract(1, to_cell, to_cell)
    to_cell *= o
    forget = np.ascontiguousarray(f)
    units = unit.reshape(m, 4, width)
    dh, dc = _initial(grads[1], n, out_width, d), _initial(grads[2], n, width, d)
    given = None if grads[0] is None else _gradient_rows(grads[0], m, out_width, d)
    d_gates = np.empty((m, 4, width), d)
    flat = d_gates.reshape(m, 4 * width)
    projected = None if w_hr is None else np.empty((m, out_width), d)
    scratch = np.empty((n, width), d)
    for rows, b in reversed(_steps(x, sizes, reverse)):
        h, c, s, dg, u = dh[:b], dc[:b], scratch[:b], d_gates[rows], units[rows]
        if given is not None:
            np.add(h, given[rows], h)
        if projected is None:
            raw = h
        else:
            projected[rows] = h
            raw = h @ w_hr
        np.multiply(raw, to_cell[rows], s)
        np.add(c, s, c)
        np.multiply(u[:, :3], c[:, None], dg[:, :3])
        np.multiply(u[:, 3], raw, dg[:, 3])
        np.multiply(c, forget[rows], c)
        np.dot(flat[rows], w_hh, h)
    d_hr = projected.T @ (o * tanhs) if projected is not None and needs[7] else None
    return [_input_gradient(flat, w_ih, x, needs[0]), dh if needs[1] else None, dc if needs[2] else None,
            *_parameter_gradients(flat, flat, x, before, w_ih, needs, 3), d_hr]


# ------------------------------------------------------------------------------------------------ GRU


@_wide
def gru_layer(x: np.ndarray, h0: np.ndarray | None, w_ih: np.ndarray, w_hh: np.ndarray, b_ih: np.ndarray | None,
              b_hh: np.ndarray | None, sizes: tuple | None, reverse: bool) -> list:
    """[output, last h; for the backward: gates, the hidden state's part of the new value]."""
    d, n, width = x.dtype, _batch(x, sizes), w_hh.shape[1]
    half = _HALF[d]
    factor = np.full(3 * width, half, d)
    factor[2 * width:] = 1
    gates = _input_part(x, w_ih, b_ih)
    if b_hh is not None:
        gates[:, :2 * width] += b_hh[:2 * width]
    gates *= factor
    w = np.multiply(w_hh.T, factor, order="C")
    b_new = None if b_hh is None else np.array(np.broadcast_to(b_hh[2 * width:], (n, width)))
    out, parts = np.empty((len(gates), width), d), np.empty((len(gates), width), d)
    h = _initial(h0, n, width, d)
    product, scratch = np.empty((n, 3 * width), d), np.empty((n, width), d)
    ragged = _ragged(sizes)
    for rows, b in _steps(x, sizes, reverse):
        gate, part, to, p, s, old = gates[rows], parts[rows], out[rows], product[:b], scratch[:b], h[:b]
        np.dot(old, w, p)
        both, new = gate[:, :2 * width], gate[:, 2 * width:]
        np.add(both, p[:, :2 * width], both)
        np.tanh(both, both)
        np.multiply(both, half, both)
        np.add(both, half, both)
        if b_new is None:
            part[...] = p[:, 2 * width:]
        else:
            np.add(p[:, 2 * width:], b_new[:b], part)
        np.multiply(both[:, :width], part, s)
        np.add(new, s, new)
        np.tanh(new, new)
        np.subtract(old, new, s)
        np.multiply(s, both[:, width:], s)
        np.add(new, s, to)
        if ragged:
            h[:b] = to
        else:
            h = to
    return [out.reshape(*x.shape[:-1], width), h.copy(), gates, parts]


@_wide
def gru_layer_backward(grads: list, x: np.ndarray, h0: np.ndarray | None, w_ih: np.ndarray, w_hh: np.ndarray, b_ih: Any,
                       b_hh: Any, out: np.ndarray, gates: np.ndarray, parts: np.ndarray, sizes: tuple | None,
                       reverse: bool, needs: list) -> list:
    """Gradients of the six inputs, given those of (output, last h), None where undefined."""
    d, n, m, width = x.dtype, _batch(x, sizes), len(gates), w_hh.shape[1]
    before = _before(_rows(out), h0, x, sizes, reverse)
    r, z, new = (gates[:, k * width:(k + 1) * width] for k in range(3))
    keep = np.ascontiguousarray(z)
    to_new = np.multiply(new, new)
    np.subtract(1, to_new, to_new)
    to_new *= 1 - keep
    # per unit of the gradient of h: the hidden state's parts of the gates r, z and of the new value
    unit = np.empty((m, 3, width), d)
    np.multiply(to_new, r, unit[:, 2])
    np.multiply(unit[:, 2], parts, unit[:, 0])
    unit[:, 0] *= 1 - r
    np.subtract(before, new, unit[:, 1])
    unit[:, 1] *= keep
    unit[:, 1] *= 1 - keep
    dh = _initial(grads[1], n, width, d)
    given = None if grads[0] is None else _gradient_rows(grads[0], m, width, d)
    d_hidden = np.empty((m, 3, width), d)
    flat = d_hidden.reshape(m, 3 * width)
    totals, scratch = np.empty((m, width), d), np.empty((n, width), d)
    for rows, b in reversed(_steps(x, sizes, reverse)):
        h, total, s = dh[:b], totals[rows], scratch[:b]
        if given is None:
            total[...] = h
        else:
            np.add(h, given[rows], total)
        np.multiply(unit[rows], total[:, None], d_hidden[rows])
        np.dot(flat[rows], w_hh, h)
        np.multiply(total, keep[rows], s)
        np.add(h, s, h)
    d_input = flat.copy()
    np.multiply(totals, to_new, d_input[:, 2 * width:])
    return [_input_gradient(d_input, w_ih, x, needs[0]), dh if needs[1] else None,
            *_parameter_gradients(d_input, flat, x, before, w_ih, needs, 2)]


# ------------------------------------------------------------------------------------------------ plain


@_wide
def rnn_layer(x: np.ndarray, h0: np.ndarray | None, w_ih: np.ndarray, w_hh: np.ndarray, b_ih: np.ndarray | None,
              b_hh: np.ndarray | None, relu: bool, sizes: tuple | None, reverse: bool) -> list:
    """[output, last h] of h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu for tanh."""
    d, n, width = x.dtype, _batch(x, sizes), w_hh.shape[1]
    out = _input_part(x, w_ih, b_ih, b_hh)
    w = np.ascontiguousarray(w_hh.T)
    zero = d.type(0)
    h, product = _initial(h0, n, width, d), np.empty((n, width), d)
    ragged = _ragged(sizes)
    for rows, b in _steps(x, sizes, reverse):
        to = out[rows]
        np.dot(h[:b], w, product[:b])
        np.add(to, product[:b], to)
        if relu:
            np.maximum(to, zero, out=to)
        else:
            np.tanh(to, to)
        if ragged:
            h[:b] = to
        else:
            h = to
    return [out.reshape(*x.shape[:-1], width), h.copy()]


@_wide
def rnn_layer_backward(grads: list, x: np.ndarray, h0: np.ndarray | None, w_ih: np.ndarray, w_hh: np.ndarray, b_ih: Any,
                       b_hh: Any, out: np.ndarray, relu: bool, sizes: tuple | None, reverse: bool, needs: list) -> list:
    """Gradients of the six inputs, given those of (output, last h), None where undefined."""
    d, n, width = x.dtype, _batch(x, sizes), w_hh.shape[1]
    states = _rows(out)
    slope = np.greater(states, 0).astype(d) if relu else 1 - states * states
    dh = _initial(grads[1], n, width, d)
    given = None if grads[0] is None else _gradient_rows(grads[0], len(states), width, d)
    d_gates = np.empty_like(slope)
    for rows, b in reversed(_steps(x, sizes, reverse)):
        h, dg = dh[:b], d_gates[rows]
        if given is not None:
            np.add(h, given[rows], h)
        np.multiply(h, slope[rows], dg)
        np.dot(dg, w_hh, h)
    before = _before(states, h0, x, sizes, reverse)
    return [_input_gradient(d_gates, w_ih, x, needs[0]), dh if needs[1] else None,
            *_parameter_gradients(d_gates, d_gates, x, before, w_ih, needs, 2)]
