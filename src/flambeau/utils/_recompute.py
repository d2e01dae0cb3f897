"""A region of the graph that saves numbers instead of tensors, and computes the tensors again when they are asked for.

Who holds what: a node of the region holds a `_Slot`, which holds the `_Region`, which holds the function and its arguments
(through a node of its own, so that a region around this one can give them up too). The region refers to its slots weakly:
what nobody can ask for any more is not kept by the second run. Values live as long as the backward call that asked.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from flambeau.autograd import Function, enable_grad
from flambeau.autograd.graph import saved_tensors_hooks
from flambeau.core.objects import TensorBase, dtype_of, make, memory_of, remake, shape_of, user_frame
from flambeau.core.origin import quoted
from flambeau.core.tasks import current_call, notes_of


class CheckpointError(RuntimeError):
    """The second run of a checkpointed function saved other tensors than the first.

    The function must do the same both times: no changes of its module or of global state in between, no random choices
    outside torch's generator.
    """


class _Stop(BaseException):
    """Everything asked for has been computed."""


_early_stop: list[bool | None] = [None]
_debug: list[bool | None] = [None]


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Inside, checkpoints' second runs end early (True) or run to the end (False), whatever their early_stop says."""
    old, _early_stop[0] = _early_stop[0], enable
    try:
        yield
    finally:
        _early_stop[0] = old


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Inside, checkpoints have debug=enabled, whatever they say."""
    old, _debug[0] = _debug[0], enabled
    try:
        yield
    finally:
        _debug[0] = old


class _Slot:
    """Stands for one saved tensor of a region."""

    __slots__ = ("__weakref__", "dtype", "index", "region", "shape")

    def __init__(self, region: _Region, index: int, t: TensorBase) -> None:
        self.region, self.index = region, index
        self.shape, self.dtype = tuple(shape_of(t)), dtype_of(t)


class _Keep(Function):
    """Keeps tensors as any operator does: checked for later changes, and given to hooks around it."""

    @staticmethod
    def forward(ctx: Any, flag: Any, *tensors: Any) -> Any:
        ctx.save_for_backward(*tensors)
        return flag.clone()


class _Values:
    """What a second run gave, for one backward call: each value is given up soon after it is read.

    Not at once: the formulas of one node may read a value more than once.
    """

    LAST = 4

    def __init__(self, values: dict[int, Any]) -> None:
        self.values = values
        self.last: dict[int, Any] = {}

    def has(self, index: int) -> bool:
        """Whether the value is still there."""
        return index in self.values or index in self.last

    def take(self, index: int) -> Any:
        """The value, which is kept until a few others are read."""
        value = self.values.pop(index) if index in self.values else self.last.pop(index)
        self.last[index] = value
        if len(self.last) > self.LAST:
            del self.last[next(iter(self.last))]
        return value


class _Region:
    def __init__(self, again: Callable, args: tuple, check: bool, debug: bool, early_stop: bool) -> None:
        self.again, self.check, self.early_stop = again, check, early_stop
        self.slots: list[weakref.ref[_Slot]] = []
        self.lines: list[str] | None = [] if debug else None
        self.positions = [i for i, a in enumerate(args) if isinstance(a, TensorBase)]
        self.others = [None if isinstance(a, TensorBase) else a for a in args]
        self.keeper: Any = None
        if self.positions:
            flag = make(np.zeros(1, np.float32))
            flag._rg = True
            self.keeper = _Keep.apply(flag, *[args[i] for i in self.positions]).grad_fn

    def args(self) -> list:
        """The function's arguments."""
        found = list(self.others)
        if self.keeper is not None:
            for i, t in zip(self.positions, self.keeper.saved_tensors, strict=True):
                found[i] = t
        return found

    # ------------------------------------------------------------------------- the first run

    def pack(self, t: TensorBase) -> _Slot:
        slot = _Slot(self, len(self.slots), t)
        self.slots.append(weakref.ref(slot))
        if self.lines is not None:
            self.lines.append(_told(t))
        return slot

    # ------------------------------------------------------------------------- backward

    def unpack(self, slot: _Slot) -> TensorBase:
        call = current_call()
        if call is None:                    # saved values are looked at outside backward
            return self.run()[slot.index]
        notes = notes_of(call)
        found: _Values | None = notes.get(self)
        if found is None or not found.has(slot.index):
            found = notes[self] = _Values(self.run())
        return found.take(slot.index)

    def run(self) -> dict[int, Any]:
        """The saved tensors, by number, from a second run."""
        values: dict[int, Any] = {}
        lines: list[str] = []
        metas: dict[int, tuple] = {}
        count = [0]
        early = self.early_stop if _early_stop[0] is None else _early_stop[0]
        total = len(self.slots)

        def pack(t: TensorBase) -> Any:
            i = count[0]
            count[0] += 1
            if self.lines is not None:
                lines.append(_told(t))
            if i >= total:
                raise self.error("trying to save more tensors during recomputation than the forward did",
                                 lines)
            metas[i] = (tuple(shape_of(t)), dtype_of(t))
            if self.slots[i]() is not None:
                values[i] = remake(memory_of(t))
            if early and i + 1 == total:
                raise _Stop
            return t

        def unpack(t: Any) -> Any:
            return t

        args = self.args()
        with saved_tensors_hooks(pack, unpack), enable_grad(), contextlib.suppress(_Stop):
            self.again(*args)
        if count[0] != total:
            raise self.error(
                "A different number of tensors was saved by the recomputation than by the forward.\nNumber "
                f"of tensors saved during forward: {total}\nNumber of tensors saved during recomputation: "
                f"{count[0]}.", lines)
        if self.check:
            self.compare(metas, lines)
        return values

    def compare(self, metas: dict[int, tuple], lines: list[str]) -> None:
        """Refuse values of another shape or dtype than the first run's."""
        wrong = []
        for i, (shape, dtype) in metas.items():
            slot = self.slots[i]()
            if slot is not None and (slot.shape != shape or slot.dtype != dtype):
                wrong.append(f"tensor at position {i}: saved {_meta(slot.shape, slot.dtype)}, "
                             f"recomputed {_meta(shape, dtype)}")
        if wrong:
            raise self.error("These recomputed tensors have different metadata than those of the "
                             "forward:\n" + "\n".join(wrong), lines)

    def error(self, text: str, lines: list[str]) -> CheckpointError:
        text = (f"torch.utils.checkpoint: {text}\nThe function must do the same in both runs: look for state that it "
                "changes, or random choices outside torch's generator.")
        if self.lines is None:
            return CheckpointError(text + " Pass debug=True to checkpoint() to see the lines that saved them.")
        return CheckpointError(text + "\nSaved in the first run:\n" + "\n".join(self.lines) + "\nSaved in the second run:\n"
                               + "\n".join(lines))


def _meta(shape: tuple, dtype: Any) -> str:
    return f"{list(shape)} {dtype}"


def _told(t: TensorBase) -> str:
    frame = user_frame()
    where = "" if frame is None else " at " + quoted(*frame)
    return f"  {_meta(tuple(shape_of(t)), dtype_of(t))}{where}"


@contextlib.contextmanager
def region(again: Callable, args: tuple, check: bool, debug: bool, early_stop: bool) -> Iterator[None]:
    """A block whose saved tensors are given up, and computed again by again(*args)."""
    r = _Region(again, args, check, debug if _debug[0] is None else bool(_debug[0]), early_stop)
    with saved_tensors_hooks(r.pack, lambda slot: slot.region.unpack(slot)):
        yield
