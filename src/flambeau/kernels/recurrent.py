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

class _Steps:
    """The steps of a batch, in the order of the loop."""

    def __init__(self, x: np.ndarray, sizes: tuple | None, reverse: bool) -> None:
        self.sizes = (x.shape[1],) * x.shape[0] if sizes is None else sizes
        self.n = self.sizes[0]
        # whether sequences end at different steps: then a state is kept apart from the output's rows
        self.ragged = self.n != self.sizes[-1]
        self.order = -1 if reverse else 1

    def of(self, a: np.ndarray) -> list[np.ndarray]:
        """The rows of each step."""
        if not self.ragged:
            return list(a.reshape(len(self.sizes), self.n, *a.shape[1:]))[::self.order]
        found, start = [], 0
        for n in self.sizes:
            found.append(a[start:start + n])
            start += n
        return found[::self.order]

    def first_rows(self, a: np.ndarray) -> list[np.ndarray]:
        """For each step as many leading rows of a as it has."""
        return [a[:n] for n in self.sizes][::self.order] if self.ragged else [a] * len(self.sizes)


def _rows(a: np.ndarray) -> np.ndarray:
    return a.reshape(-1, a.shape[-1])


def _initial(state: np.ndarray | None, n: int, width: int, dtype: Any) -> np.ndarray:
    return np.zeros((n, width), dtype) if state is None else np.array(state, order="C")


def _input_part(x: np.ndarray, weight: np.ndarray, *biases: np.ndarray | None) -> np.ndarray:
    """x @ weight.T and biases, of all steps at once."""
    out = _rows(x) @ weight.T
    for b in biases:
        if b is not None:
            out += b
    return out


def _before(states: np.ndarray, initial: np.ndarray | None, steps: _Steps) -> np.ndarray:
    """For each step the state that it started from."""
    n, m, out = steps.n, len(states), np.empty_like(states)
    if not steps.ragged:
        own, first, rest = (slice(m - n), slice(m - n, m), slice(n, m)) if steps.order < 0 else (
            slice(n, m), slice(n), slice(m - n))
        out[own] = states[rest]
        out[first] = 0 if initial is None else initial
        return out
    state = _initial(initial, n, states.shape[1], states.dtype)
    for to, new, old in zip(steps.of(out), steps.of(states), steps.first_rows(state), strict=True):
        to[...] = old
        old[...] = new
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
    d, width, steps = x.dtype, w_hh.shape[0] // 4, _Steps(x, sizes, reverse)
    factor = np.full(4 * width, _HALF[d], d)
    factor[2 * width:3 * width] = 1
    shift = 1 - factor
    gates = _input_part(x, w_ih, b_ih, b_hh)
    gates *= factor
    w = np.multiply(w_hh.T, factor, order="C")
    out_width = width if w_hr is None else w_hr.shape[0]
    project = None if w_hr is None else np.ascontiguousarray(w_hr.T)
    out, cells, tanhs = (np.empty((len(gates), k), d) for k in (out_width, width, width))
    last_h, last_c = h, c = _initial(h0, steps.n, out_width, d), _initial(c0, steps.n, width, d)
    product, scratch = np.empty((steps.n, 4 * width), d), np.empty((steps.n, width), d)
    i, f, g, o = (steps.of(gates[:, k * width:(k + 1) * width]) for k in range(4))
    for gate, ti, tf, tg, to, cell, raw, new, p, s, old_h, old_c in zip(
            steps.of(gates), i, f, g, o, steps.of(cells), steps.of(tanhs), steps.of(out), steps.first_rows(product),
            steps.first_rows(scratch), steps.first_rows(h), steps.first_rows(c), strict=True):
        if steps.ragged:
            h, c = old_h, old_c
        np.dot(h, w, p)
        np.add(gate, p, gate)
        np.tanh(gate, gate)
        np.multiply(gate, factor, gate)
        np.add(gate, shift, gate)
        np.multiply(tf, c, cell)
        np.multiply(ti, tg, s)
        np.add(cell, s, cell)
        np.tanh(cell, raw)
        if project is None:
            np.multiply(to, raw, new)
        else:
            np.dot(np.multiply(to, raw), project, new)
        if steps.ragged:
            h[...], c[...] = new, cell
        else:
            h, c = new, cell
    if not steps.ragged:
        last_h, last_c = h.copy(), c.copy()
    return [out.reshape(*x.shape[:-1], out_width), last_h, last_c, gates, cells, tanhs]


@_wide
def lstm_layer_backward(grads: list, x: np.ndarray, h0: np.ndarray | None, c0: np.ndarray | None, w_ih: np.ndarray,
                        w_hh: np.ndarray, b_ih: Any, b_hh: Any, w_hr: np.ndarray | None, out: np.ndarray,
                        gates: np.ndarray, cells: np.ndarray, tanhs: np.ndarray, sizes: tuple | None, reverse: bool,
                        needs: list) -> list:
    """Gradients of the eight inputs, given those of (output, last h, last c), None where undefined."""
    d, m, width, out_width, steps = x.dtype, len(gates), w_hh.shape[0] // 4, w_hh.shape[1], _Steps(x, sizes, reverse)
    before = _before(_rows(out), h0, steps)
    i, f, g, o = (gates[:, k * width:(k + 1) * width] for k in range(4))
    # what each gate's own gradient is per unit of the gradient of c (i, f, g) or of h (o)
    unit = np.subtract(1, gates)
    unit *= gates
    np.subtract(1, g * g, unit[:, 2 * width:3 * width])
    unit[:, :width] *= g
    unit[:, width:2 * width] *= _before(cells, c0, steps)
    unit[:, 2 * width:3 * width] *= i
    unit[:, 3 * width:] *= tanhs
    to_cell = np.multiply(tanhs, tanhs)
    np.subtract(1, to_cell, to_cell)
    to_cell *= o
    forget = np.ascontiguousarray(f)
    units = unit.reshape(m, 4, width)
    dh, dc = _initial(grads[1], steps.n, out_width, d), _initial(grads[2], steps.n, width, d)
    given = None if grads[0] is None else steps.of(_gradient_rows(grads[0], m, out_width, d))
    d_gates = np.empty((m, 4, width), d)
    flat = d_gates.reshape(m, 4 * width)
    projected = None if w_hr is None else np.empty((m, out_width), d)
    d_projected = None if projected is None else steps.of(projected)
    lists = (steps.of(a) for a in (flat, d_gates[:, :3], d_gates[:, 3], units[:, :3], units[:, 3], to_cell, forget))
    hs, cs, scratches = (steps.first_rows(a) for a in (dh, dc, np.empty((steps.n, width), d)))
    for t, (all_gates, three, last, unit3, unit1, slope, keep, h, c, s) in reversed(list(enumerate(
            zip(*lists, hs, cs, scratches, strict=True)))):
        if given is not None:
            np.add(h, given[t], h)
        if d_projected is None:
            raw = h
        else:
            d_projected[t][...] = h
            raw = h @ w_hr
        np.multiply(raw, slope, s)
        np.add(c, s, c)
        np.multiply(unit3, c[:, None], three)
        np.multiply(unit1, raw, last)
        np.multiply(c, keep, c)
        np.dot(all_gates, w_hh, h)
    d_hr = projected.T @ (o * tanhs) if projected is not None and needs[7] else None
    return [_input_gradient(flat, w_ih, x, needs[0]), dh if needs[1] else None, dc if needs[2] else None,
            *_parameter_gradients(flat, flat, x, before, w_ih, needs, 3), d_hr]


# ------------------------------------------------------------------------------------------------ GRU


@_wide
def gru_layer(x: np.ndarray, h0: np.ndarray | None, w_ih: np.ndarray, w_hh: np.ndarray, b_ih: np.ndarray | None,
              b_hh: np.ndarray | None, sizes: tuple | None, reverse: bool) -> list:
    """[output, last h; for the backward: gates, the hidden state's part of the new value]."""
    d, width, steps = x.dtype, w_hh.shape[1], _Steps(x, sizes, reverse)
    half = _HALF[d]
    factor = np.full(3 * width, half, d)
    factor[2 * width:] = 1
    gates = _input_part(x, w_ih, b_ih)
    if b_hh is not None:
        gates[:, :2 * width] += b_hh[:2 * width]
    gates *= factor
    w = np.multiply(w_hh.T, factor, order="C")
    b_new = d.type(0) if b_hh is None else b_hh[2 * width:]
    out, parts = np.empty((len(gates), width), d), np.empty((len(gates), width), d)
    last = h = _initial(h0, steps.n, width, d)
    product, scratch = np.empty((steps.n, 3 * width), d), np.empty((steps.n, width), d)
    columns = [steps.of(gates[:, a * width:b * width]) for a, b in ((0, 2), (0, 1), (1, 2), (2, 3))]
    for both, r, z, new, part, to, p, p_both, p_new, s, old in zip(
            *columns, steps.of(parts), steps.of(out), steps.first_rows(product), steps.first_rows(product[:, :2 * width]),
            steps.first_rows(product[:, 2 * width:]), steps.first_rows(scratch), steps.first_rows(h), strict=True):
        if steps.ragged:
            h = old
        np.dot(h, w, p)
        np.add(both, p_both, both)
        np.tanh(both, both)
        np.multiply(both, half, both)
        np.add(both, half, both)
        np.add(p_new, b_new, part)
        np.multiply(r, part, s)
        np.add(new, s, new)
        np.tanh(new, new)
        np.subtract(h, new, s)
        np.multiply(s, z, s)
        np.add(new, s, to)
        if steps.ragged:
            h[...] = to
        else:
            h = to
    if not steps.ragged:
        last = h.copy()
    return [out.reshape(*x.shape[:-1], width), last, gates, parts]


@_wide
def gru_layer_backward(grads: list, x: np.ndarray, h0: np.ndarray | None, w_ih: np.ndarray, w_hh: np.ndarray, b_ih: Any,
                       b_hh: Any, out: np.ndarray, gates: np.ndarray, parts: np.ndarray, sizes: tuple | None,
                       reverse: bool, needs: list) -> list:
    """Gradients of the six inputs, given those of (output, last h), None where undefined."""
    d, m, width, steps = x.dtype, len(gates), w_hh.shape[1], _Steps(x, sizes, reverse)
    before = _before(_rows(out), h0, steps)
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
    dh = _initial(grads[1], steps.n, width, d)
    given = None if grads[0] is None else steps.of(_gradient_rows(grads[0], m, width, d))
    d_hidden, totals = np.empty((m, 3, width), d), np.empty((m, width), d)
    flat = d_hidden.reshape(m, 3 * width)
    lists = (steps.of(a) for a in (flat, d_hidden, unit, keep, totals, totals[:, None]))
    hs, scratches = steps.first_rows(dh), steps.first_rows(np.empty((steps.n, width), d))
    for t, (all_gates, dg, per_unit, kept, total, wide, h, s) in reversed(list(enumerate(
            zip(*lists, hs, scratches, strict=True)))):
        if given is None:
            total[...] = h
        else:
            np.add(h, given[t], total)
        np.multiply(per_unit, wide, dg)
        np.dot(all_gates, w_hh, h)
        np.multiply(total, kept, s)
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
    d, width, steps = x.dtype, w_hh.shape[1], _Steps(x, sizes, reverse)
    out = _input_part(x, w_ih, b_ih, b_hh)
    w = np.ascontiguousarray(w_hh.T)
    zero = d.type(0)
    last = h = _initial(h0, steps.n, width, d)
    product = np.empty((steps.n, width), d)
    for to, p, old in zip(steps.of(out), steps.first_rows(product), steps.first_rows(h), strict=True):
        if steps.ragged:
            h = old
        np.dot(h, w, p)
        np.add(to, p, to)
        if relu:
            np.maximum(to, zero, out=to)
        else:
            np.tanh(to, to)
        if steps.ragged:
            h[...] = to
        else:
            h = to
    if not steps.ragged:
        last = h.copy()
    return [out.reshape(*x.shape[:-1], width), last]


@_wide
def rnn_layer_backward(grads: list, x: np.ndarray, h0: np.ndarray | None, w_ih: np.ndarray, w_hh: np.ndarray, b_ih: Any,
                       b_hh: Any, out: np.ndarray, relu: bool, sizes: tuple | None, reverse: bool, needs: list) -> list:
    """Gradients of the six inputs, given those of (output, last h), None where undefined."""
    d, width, steps = x.dtype, w_hh.shape[1], _Steps(x, sizes, reverse)
    states = _rows(out)
    slope = np.greater(states, 0).astype(d) if relu else 1 - states * states
    dh = _initial(grads[1], steps.n, width, d)
    given = None if grads[0] is None else steps.of(_gradient_rows(grads[0], len(states), width, d))
    d_gates = np.empty_like(slope)
    for t, (dg, factor, h) in reversed(list(enumerate(zip(steps.of(d_gates), steps.of(slope), steps.first_rows(dh),
                                                          strict=True)))):
        if given is not None:
            np.add(h, given[t], h)
        np.multiply(h, factor, dg)
        np.dot(dg, w_hh, h)
    before = _before(states, h0, steps)
    return [_input_gradient(d_gates, w_ih, x, needs[0]), dh if needs[1] else None,
            *_parameter_gradients(d_gates, d_gates, x, before, w_ih, needs, 2)]
