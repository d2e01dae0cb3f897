"""Optimizers whose update treats every element alike: which parameters are updated, and with which
numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import flambeau
from flambeau.autograd import enable_grad, no_grad
from flambeau.core import dtype as dtypes
from flambeau.core.objects import TensorBase, array_of, cell_of, make, user_frame
from flambeau.core.op import Op
from flambeau.core.state import quiet2, quiet3
from flambeau.core.state import state as core

from ._segments import SMALL, Pack, Same, Segment, pieces, real
from ._sparse import refuse
from .optimizer import Optimizer, run_closure

_steps: dict[type, Op] = {}       # who wrote, for errors: "SGD.step()"
_CHANGING = frozenset(("params", "param_names", "lr", "initial_lr"))       # options that `key` leaves out
_FIXED = (bool, int, float, str, tuple, type(None))


def number(value: Any) -> float:
    """An option that may be given as a tensor of one element."""
    return float(value.item()) if isinstance(value, TensorBase) else value


def check_lr(lr: Any) -> None:
    """The errors of a learning rate."""
    if isinstance(lr, TensorBase) and lr.numel() != 1:
        raise ValueError("Tensor lr must be 1-element")
    check(number(lr) >= 0.0, "learning rate", number(lr))


def check(good: bool, name: str, value: Any) -> None:
    if not good:
        raise ValueError(f"Invalid {name}: {value}")


def refuse_modes(name: str, foreach: Any, fused: Any, differentiable: bool) -> None:
    """foreach and fused change nothing here; what contradicts itself is refused as PyTorch does."""
    if fused and differentiable:
        raise RuntimeError(f"{name}: `fused` does not support `differentiable`. Leave fused out.")
    if foreach and fused:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")


def count_writes(op: Op, tensors: list) -> None:
    """Count a write into each tensor, and remember the user's line: a later backward that saved a value says
    so."""
    code, instruction = user_frame()
    for t in tensors:
        c = t._cell
        if c is None:
            c = cell_of(t)
        c.stamp += 1
        c.op = op
        c.code = code
        c.lasti = instruction
        if c.origin is not None:
            o = c.origin
            o.stamp += 4294967296       # a write that autograd does not see, as through `.data`
            o.op, o.code, o.lasti = op, code, instruction


def _writer(kind: type) -> Op:
    op = _steps.get(kind)
    if op is None:
        op = _steps[kind] = Op(kind.__name__ + ".step()")
    return op


class Batch:
    """Parameters of one group that are updated with the same numbers."""

    __slots__ = ("count", "group", "number", "params", "states")

    def __init__(self, number: int, group: dict, count: Any, n_states: int) -> None:
        self.number, self.group, self.count = number, group, count
        self.params: list = []
        # for each state name, a tensor for each parameter
        self.states: list[list] = [[] for _ in range(n_states)]


class Elementwise(Optimizer):
    """The step of optimizers that define the five methods below.

    A step makes batches (parameters of a group with the same `count`), computes the numbers of each, and runs
    `update` on segments of their memory.
    """

    _packs: dict[Any, Pack]

    def names(self, group: dict) -> tuple[str, ...]:
        """The names of the state tensors that have the parameter's shape."""
        raise NotImplementedError

    def start(self, p: Any, group: dict, state: dict) -> None:
        """Make the state of a parameter before its first update."""
        raise NotImplementedError

    def advance(self, state: dict, group: dict) -> Any:
        """Count one more update of a parameter; what parameters of one batch have in common."""
        step = state["step"]
        if not isinstance(step, TensorBase):          # checkpoints of old have a plain number
            state["step"] = step = make(np.full((), step, np.float32))
        a = step._array
        count = a.item() + 1.0
        a.fill(count)
        return count

    def numbers(self, group: dict, count: Any) -> tuple[float, ...]:
        """The numbers of an update that may change from step to step."""
        raise NotImplementedError

    def update(self, segment: Segment, group: dict, numbers: list) -> None:
        """Write the new parameters and states of a segment. numbers: 0-d arrays in the segment's dtype."""
        raise NotImplementedError

    def sparse_update(self, p: Any, g: Any, group: dict) -> None:
        """Update a parameter by a sparse gradient; most formulas read and write every element."""
        refuse(type(self).__name__)

    def _sparse_step(self, p: Any, group: dict) -> None:
        quiet3(self.sparse_update, p, p._grad._lazy, group)
        count_writes(_writer(type(self)), [p])

    def record(self, p: Any, g: Any, state: dict, group: dict) -> None:
        """`update` for one parameter by differentiable operators: p and the states are written in place.

        A state is written by `copy_` of a new tensor, which is what later formulas save: the next step can write the
        state again.
        """
        raise NotImplementedError

    # ------------------------------------------------------------------ a step

    def step(self, closure: Callable | None = None) -> Any:
        """Update every parameter that has a gradient. `closure` recomputes the loss; it is called once and
        returned."""
        if core.n_step_watchers != 0:
            answer = core.intercept_step("optimizer_step", (self, closure))
            if answer is not NotImplemented:
                return answer
        loss = run_closure(closure)
        if self.defaults.get("differentiable"):
            with enable_grad():
                self._step_recorded()
            return loss
        if self._is_on_meta():
            with no_grad():
                self._step_on_meta()
            return loss
        batches = self._batches()
        self._run(batches, [self.numbers(b.group, b.count) for b in batches])
        return loss

    def key(self) -> Any:
        options = []
        for group in self.param_groups:
            fixed = tuple(sorted((k, v) for k, v in group.items() if k not in _CHANGING and isinstance(v, _FIXED)))
            shapes = tuple((tuple(p.shape), p.dtype, p._grad is not None, tuple(self.state.get(p, ())))
                           for p in group["params"])
            options.append((fixed, shapes))
        return (type(self), tuple(options))

    def scalars(self) -> Any:
        batches = self._batches()
        self.__dict__["_pending"] = batches
        return [self.numbers(b.group, b.count) for b in batches]

    def apply(self, scalars: Any) -> None:
        self._run(self.__dict__.pop("_pending"), scalars)

    def _batches(self) -> list[Batch]:
        found: list[Batch] = []
        states = self.state
        for i, group in enumerate(self.param_groups):
            names = self.names(group)
            batch: Batch | None = None
            for p in group["params"]:
                g = p._grad
                if g is None:
                    continue
                if g._array is None and type(g._lazy) is core.sparse:
                    self._sparse_step(p, group)
                    continue
                state = states[p]
                if not state:
                    if g._array is None:
                        array_of(g)
                    self.start(p, group, state)
                count = self.advance(state, group)
                if batch is None or batch.count != count:
                    batch = next((b for b in found if b.group is group and b.count == count), None)
                    if batch is None:
                        batch = Batch(i, group, count, len(names))
                        found.append(batch)
                batch.params.append(p)
                for k, name in enumerate(names):
                    batch.states[k].append(state[name])
        return found

    def _is_on_meta(self) -> bool:
        """Whether the parameters have no values: the first one speaks for all. Groups may be empty."""
        for group in self.param_groups:
            for p in group["params"]:
                return p._array is None and bool(p.is_meta)
        return False

    def _step_on_meta(self) -> None:
        """A step of parameters without values: the states get their shapes, and the writes are counted."""
        for group in self.param_groups:
            for p in group["params"]:
                if p._grad is not None:
                    state = self.state[p]
                    if not state:
                        self.start(p, group, state)
                    self.record(p, p._grad, state, group)

    def _step_recorded(self) -> None:
        """A step that is part of the graph: gradients flow through it to gradients, states and options."""
        for group in self.param_groups:
            if group.get("foreach"):
                raise AssertionError(f"{type(self).__name__}: foreach=True does not support autograd. Leave it out with "
                                     "differentiable=True.")
            for p in group["params"]:
                g = p.grad
                if g is None:
                    continue
                if g.layout is not dtypes.STRIDED:
                    raise NotImplementedError(f"{type(self).__name__}(differentiable=True) does not take sparse gradients. "
                                              "Use sparse=False, or leave differentiable out.")
                state = self.state[p]
                if not state:
                    with no_grad():
                        self.start(p, group, state)
                if group.get("maximize"):
                    g = -g
                if p.is_complex():
                    parts = {k: flambeau.view_as_real(v) if isinstance(v, TensorBase) and v.is_complex() else v  # type: ignore[attr-defined]
                             for k, v in state.items()}
                    self.record(flambeau.view_as_real(p), flambeau.view_as_real(g), parts, group)
                    state.update((k, v) for k, v in parts.items() if k not in state)
                else:
                    self.record(p, g, state, group)

    def _run(self, batches: list[Batch], numbers: list) -> None:
        quiet2(self._run_quietly, batches, numbers)

    def _run_quietly(self, batches: list[Batch], numbers: list) -> None:
        for batch, values in zip(batches, numbers, strict=True):
            self._run_batch(batch, values)
            count_writes(_writer(type(self)), batch.params)
            for tensors in batch.states:
                for t in tensors:
                    if t._cell is not None:
                        t._cell.stamp += 1

    def _run_batch(self, batch: Batch, values: tuple) -> None:
        small: dict[Any, tuple[Same, list[Same], list]] = {}
        n = len(batch.states)
        arrays: dict[Any, list] = {}
        for i, p in enumerate(batch.params):
            a = p._array
            if a is None:
                a = array_of(p)
            if a.size <= SMALL:
                entry = small.get(a.dtype)
                if entry is None:
                    entry = (Same(), [Same() for _ in range(n)], [])
                    small[a.dtype] = entry
                entry[0].append(p)
                for k in range(n):
                    entry[1][k].append(batch.states[k][i])
                entry[2].append(a)
                continue
            a = real(a)
            g = real(array_of(p._grad))
            constants = _constants(values, a.dtype, arrays)
            for segment in pieces(a, g, [real(array_of(batch.states[k][i])) for k in range(n)]):
                self.update(segment, batch.group, constants)
        packs = self.__dict__.setdefault("_packs", {})
        for dtype, (params, states, ps) in small.items():
            place = (batch.number, dtype)
            pack = packs.get(place)
            if pack is None or not pack.holds(params, states):
                pack = Pack(params, states)
                packs[place] = pack
            copyto = np.copyto
            for p, part in zip(params, pack.g_parts, strict=True):
                g = p._grad._array
                copyto(part, g if part.dtype is g.dtype else real(array_of(p._grad)), "unsafe")
            if dtype.kind == "c":
                ps = [real(a) for a in ps]
            segment = Segment(ps, pack.g, pack.flats, pack.scratch, pack.views, True)
            self.update(segment, batch.group, _constants(values, pack.g.dtype, arrays))


def _constants(values: tuple, dtype: Any, made: dict) -> list:
    """The numbers as 0-d arrays of a dtype: cheaper than Python numbers in each call."""
    found = made.get(dtype)
    if found is None:
        found = [np.array(v, dtype) for v in values]
        made[dtype] = found
    return found


# What `record` is made of: differentiable operators. A state is written by copy_ of the tensor that is returned.


def decayed(p: Any, g: Any, group: dict) -> Any:
    """The gradient with the L2 penalty's; with decoupled_weight_decay p shrinks instead."""
    decay = group["weight_decay"]
    if number(decay) == 0:
        return g
    if group.get("decoupled_weight_decay"):
        p.mul_(1 - group["lr"] * decay)
        return g
    return g + p * decay


def mixed(kept: Any, new: Any, share: Any) -> Any:
    """kept moves towards new by a share."""
    mean = kept + (new - kept) * share
    kept.copy_(mean)
    return mean


def mixed_square(kept: Any, new: Any, keep: Any) -> Any:
    """kept, of which a share is kept, moves towards the square of new."""
    square = kept * keep + new * new * (1 - keep)
    kept.copy_(square)
    return square


def zeros_like(p: Any) -> Any:
    """A state tensor of zeros."""
    return full_like(p, 0)


def full_like(p: Any, value: Any) -> Any:
    """A state tensor of one number."""
    if p._array is None and p.is_meta:
        return flambeau.zeros_like(p.detach())  # type: ignore[attr-defined]
    a = array_of(p)
    return make(np.full_like(a, complex(value, value) if a.dtype.kind == "c" else value))


def step_count() -> Any:
    """A step count of zero: a 0-d tensor, as PyTorch keeps it."""
    return make(np.zeros((), np.float64 if dtypes.default[0] is dtypes.by_name["float64"] else np.float32))
