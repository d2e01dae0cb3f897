"""Selective checkpoints: results of chosen operators are kept, and the second run uses them instead of computing.

The first run's context asks the policy about every operator. In the second run a chosen operator is recorded as ever, by
a record whose kernel hands out what was kept: the graph is that of a plain second run.
"""

from __future__ import annotations

import enum
import threading
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from flambeau.autograd._rerun import rerun
from flambeau.core.apply import CALL, INPLACE
from flambeau.core.interception import register, set_limit, unregister
from flambeau.core.objects import TensorBase, array_of, cell_of
from flambeau.core.op import Op
from flambeau.ops._aten import OpOverload, OpOverloadPacket, aten, overload_of

ORDER = 16          # of interception: inside of autocast, around the flop counter

SAC_IGNORED_OPS = {aten.detach.default}


class CheckpointPolicy(enum.Enum):
    """What to do with an operator's result: keep it, or compute it again. MUST and PREFER do the same here.

    MUST_CPU_OFFLOAD and PREFER_CPU_OFFLOAD compute again: there is no other device to come back from.
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


_SAVE = (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE)


class SelectiveCheckpointContext:
    """What a policy is told besides the operator: is_recompute, always False, and the operator's result, op_output."""

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute = is_recompute
        self.op_output = op_output


class _Kept:
    """The result of one operator: arrays, with what tells that they have been written since."""

    __slots__ = ("arrays", "cells", "single", "stamps")

    def __init__(self, out: Any) -> None:
        tensors = [out] if isinstance(out, TensorBase) else list(out)
        self.single = isinstance(out, TensorBase)
        self.arrays = [array_of(t) for t in tensors]
        self.cells = [cell_of(t) for t in tensors]
        self.stamps = [c.stamp for c in self.cells]

    def written(self) -> bool:
        """Whether one of them has been modified."""
        return any(c.stamp != stamp for c, stamp in zip(self.cells, self.stamps, strict=True))


class _Local(threading.local):
    """The contexts of a thread, the innermost last: that one sees an operator first, as with nested checkpoints."""

    def __init__(self) -> None:
        self.stack: list[_Watch] = []


_local = _Local()


def _intercept(op: Op, inputs: tuple, params: Any, kind: int) -> Any:
    stack = _local.stack
    if not stack:
        return NotImplemented
    innermost = stack.pop()
    old = set_limit(ORDER + 1)              # those around this one have seen the operator; contexts further out have not
    try:
        return innermost.operator(op, inputs, params, kind)
    finally:
        set_limit(old)
        stack.append(innermost)


class _Watch:
    """A context that sees the operators of this thread."""

    def __init__(self, kept: dict[Any, list]) -> None:
        self.kept = kept
        self.counts: dict[Any, int] = defaultdict(int)

    def operator(self, op: Op, inputs: tuple, params: Any, kind: int) -> Any:
        raise NotImplementedError

    def __enter__(self) -> Any:
        self.counts.clear()
        _local.stack.append(self)
        register(ORDER, _intercept)
        return self

    def __exit__(self, *error: Any) -> None:
        unregister(ORDER, _intercept)
        _local.stack.remove(self)


class _First(_Watch):
    def __init__(self, policy: Callable, kept: dict[Any, list]) -> None:
        super().__init__(kept)
        self.policy = policy

    def operator(self, op: Op, inputs: tuple, params: Any, kind: int) -> Any:
        out = rerun(op, inputs, params, kind)
        name = overload_of(op.name, kind == INPLACE)
        if name in SAC_IGNORED_OPS:
            return out
        choice = self.policy(SelectiveCheckpointContext(is_recompute=False, op_output=out), name, *inputs, *(params or ()))
        save = choice if isinstance(choice, bool) else choice in _SAVE
        # Views cost nothing; random operators run again, or those after them would draw other numbers
        keep = save and kind == CALL and not op.view and not op.random
        self.kept[op.name, kind].append(_Kept(out) if keep else None)
        return out


class _Second(_Watch):
    def __init__(self, kept: dict[Any, list], allow_mutation: bool) -> None:
        super().__init__(kept)
        self.allow_mutation = allow_mutation

    def operator(self, op: Op, inputs: tuple, params: Any, kind: int) -> Any:
        name = overload_of(op.name, kind == INPLACE)
        if name in SAC_IGNORED_OPS:
            return rerun(op, inputs, params, kind)
        i = self.counts[op.name, kind]
        self.counts[op.name, kind] = i + 1
        found = self.kept.get((op.name, kind), ())
        if i >= len(found):
            raise RuntimeError(f"{name} ran more often in the second run than in the first (its invocation {i} was not "
                               "found in storage): the function of a selective checkpoint must do the same both times. Look "
                               "for state that it changes, or random choices outside torch's generator.")
        kept = found[i]
        if kept is None:
            return rerun(op, inputs, params, kind)
        if kept.written() and not self.allow_mutation:
            raise RuntimeError(f"Tensor cached during selective activation checkpoint has been mutated: the result of "
                               f"{name} was kept for backward and then written in place. Write out of place, do not "
                               "choose this operator, or pass allow_cache_entry_mutation=True.")
        return rerun(_answering(op, kept), inputs, params, kind)


def _answering(op: Op, kept: _Kept) -> Op:
    """A record like op whose kernel gives what was kept."""
    twin = Op(op.name)
    for attribute in _attributes(op):
        setattr(twin, attribute, getattr(op, attribute))
    result = kept.arrays[0] if kept.single else kept.arrays
    twin.kernel = lambda *arguments: result
    return twin


def _attributes(op: Op) -> Any:
    found = getattr(type(op), "__mypyc_attrs__", None)
    return vars(op) if found is None else found


def create_selective_checkpoint_contexts(policy_fn_or_list: Any, allow_cache_entry_mutation: bool = False) -> tuple:
    """Contexts for `context_fn` of a checkpoint in which the results of chosen operators are kept.

    Args:
        policy_fn_or_list: operators such as `torch.ops.aten.mm.default`, whose results are kept; or
            f(context, operator, *arguments) -> CheckpointPolicy (or a bool), asked in the first run. nn.Linear with a bias
            is aten.addmm, without one aten.mm; attention is two aten.bmm and an aten._softmax.
        allow_cache_entry_mutation: True does not check that kept results are not written in place.

    Returns:
        (context of the first run, context of the second).

    Raises:
        ValueError: the list has something else than overloads. TypeError: it is neither.

    Source: Korthikanti et al., 2022, arXiv:2205.05198, section 5.

    >>> from functools import partial
    >>> from flambeau.utils.checkpoint import checkpoint
    >>> layer, x = flambeau.nn.Linear(2, 2), flambeau.ones(1, 2)
    >>> chosen = partial(create_selective_checkpoint_contexts, [flambeau.ops.aten.addmm.default])
    >>> checkpoint(lambda x: layer(x).sin(), x, use_reentrant=False, context_fn=chosen).sum().backward()
    """
    policy: Callable
    if isinstance(policy_fn_or_list, list):
        for op in policy_fn_or_list:
            if not isinstance(op, OpOverload):
                hint = f" Name its form: {op}.default." if isinstance(op, OpOverloadPacket) else ""
                raise ValueError(f"Expected op in `op_list` to be an OpOverload, such as torch.ops.aten.mm.default, but "
                                 f"got: {op} of type {type(op)}.{hint}")
        chosen = set(policy_fn_or_list)

        def policy(context: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
            return CheckpointPolicy.MUST_SAVE if op in chosen else CheckpointPolicy.PREFER_RECOMPUTE
    elif callable(policy_fn_or_list):
        policy = policy_fn_or_list
    else:
        raise TypeError("policy_fn_or_list must be either a function or a list of ops, not a "
                        f"{type(policy_fn_or_list).__name__}")
    kept: dict[Any, list] = defaultdict(list)
    return _First(policy, kept), _Second(kept, allow_cache_entry_mutation)
