"""Where an elementwise update runs: on the gathered memory of many small parameters, or on pieces of a large
one.

A NumPy call costs about half a microsecond before it touches data. Small parameters of one dtype are
therefore updated together: their state lives in one flat array (`state[p][name]` are views of it), their
gradients are copied into another. Large parameters are updated in pieces that stay in the cache through all
the calls of an update.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from flambeau.core.objects import array_of, set_array

SMALL = 8192        # elements: up to here a parameter is gathered
PIECE = 16384       # elements of a piece of a large parameter
N_SCRATCH = 3


class Segment:
    """Arrays of one update: `g`, the `states`, three scratch arrays, and the parameters that they belong to.

    `g` and scratch may be overwritten when `owns_g`; else g is the user's gradient and must be left alone.
    """

    __slots__ = ("g", "owns_g", "params", "scratch", "states", "views")

    def __init__(self, params: list, g: Any, states: list, scratch: list, views: list, owns_g: bool) -> None:
        self.params, self.g, self.states = params, g, states
        self.scratch, self.views, self.owns_g = scratch, views, owns_g

    def load(self, k: int) -> Any:
        """scratch[k] = parameters."""
        for p, part in zip(self.params, self.views[k], strict=True):
            np.copyto(part, p)
        return self.scratch[k]

    def store(self, k: int) -> None:
        """parameters = scratch[k]."""
        for p, part in zip(self.params, self.views[k], strict=True):
            np.copyto(p, part)

    def add(self, k: int) -> None:
        """parameters += scratch[k]."""
        add = np.add
        for p, part in zip(self.params, self.views[k], strict=True):
            add(p, part, p)

    def scale(self, factor: Any) -> None:
        """parameters *= factor."""
        for p in self.params:
            np.multiply(p, factor, p)

    def regularised(self, decay: Any, maximize: bool) -> Any:
        """The gradient, negated to maximise, plus decay * parameters (decay None: none); in scratch[0] if
        changed."""
        g = self.g
        if maximize:
            g = np.negative(g, self.scratch[0])
        if decay is not None:
            total = self.load(1)
            np.multiply(total, decay, total)
            g = np.add(total, g, self.scratch[0])
        return g


class Pack:
    """The flat memory of some small parameters of one dtype."""

    def __init__(self, params: list, states: list[list]) -> None:
        arrays = [real(array_of(p)) for p in params]
        dtype = arrays[0].dtype
        self.params = params
        bounds = np.cumsum([0, *(a.size for a in arrays)]).tolist()
        total = bounds[-1]

        def parts(flat: Any) -> list:
            return [flat[i:j].reshape(a.shape) for i, j, a in zip(bounds, bounds[1:], arrays, strict=False)]

        self.g = np.empty(total, dtype)
        self.g_parts = parts(self.g)
        self.tensors: list[list] = []
        self.arrays: list[list] = []
        self.flats: list = []
        for tensors in states:
            flat = np.empty(total, dtype)
            for t, part in zip(tensors, parts(flat), strict=True):
                old = array_of(t)
                np.copyto(part, real(old))
                set_array(t, part.view(old.dtype) if old.dtype != dtype else part)
            self.flats.append(flat)
            self.tensors.append(tensors)
            self.arrays.append([t._array for t in tensors])
        self.scratch = [np.empty(total, dtype) for _ in range(N_SCRATCH)]
        self.views = [parts(s) for s in self.scratch]

    def holds(self, params: list, states: list[list]) -> bool:
        """Whether the state tensors of exactly these parameters are still views of this memory."""
        if params != self.params:
            return False
        for tensors, kept, arrays in zip(states, self.tensors, self.arrays, strict=True):
            if tensors != kept:
                return False
            for t, a in zip(tensors, arrays, strict=True):
                if t._array is not a:
                    return False
        return True


class Same(list):
    """A list compared by the identity of its elements: tensors compare elementwise."""

    def __eq__(self, other: Any) -> bool:
        return len(self) == len(other) and all(a is b for a, b in zip(self, other, strict=True))

    def __ne__(self, other: Any) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]


def real(a: Any) -> Any:
    """A complex array as pairs of real numbers: updates treat both parts alike."""
    if a.dtype.kind != "c":
        return a
    part = np.dtype(a.real.dtype)
    if a.ndim == 0:
        return a.reshape(1).view(part)
    return a.view(part)


def pieces(p: Any, g: Any, states: list) -> Iterator[Segment]:
    """The segments of one large parameter."""
    if p.flags.c_contiguous and g.flags.c_contiguous and all(s.flags.c_contiguous for s in states):
        n = p.size
        p, g, states = p.reshape(-1), g.reshape(-1), [s.reshape(-1) for s in states]
        size = min(n, PIECE)
        scratch = [np.empty(size, p.dtype) for _ in range(N_SCRATCH)]
        for i in range(0, n, PIECE):
            j = min(i + PIECE, n)
            own = scratch if j - i == size else [s[:j - i] for s in scratch]
            yield Segment([p[i:j]], g[i:j], [s[i:j] for s in states], own, [[s] for s in own], False)
    else:
        scratch = [np.empty(p.shape, p.dtype) for _ in range(N_SCRATCH)]
        yield Segment([p], g, states, scratch, [[s] for s in scratch], False)
