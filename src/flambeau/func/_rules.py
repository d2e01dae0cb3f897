"""Batching rules: how an operator on samples becomes one on the whole batch.

A rule is (call) -> the inner result, the batch in front (a list for several outputs). Which one an operator has follows from
its record: a pointwise operator broadcasts, one with a parameter named dim or shape has it moved behind the batch; `batch=`
names any other. What has no rule is called sample by sample: right, and slow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.autograd._rerun import rerun
from flambeau.core.apply import apply1
from flambeau.core.objects import TensorBase, shape_of
from flambeau.core.op import Op, slot
from flambeau.core.state import state

from . import _rules_pointwise as pointwise
from ._call import Call
from ._rules_dims import DIMS, SHAPES, moved

Rule = Callable[[Call], Any]
NAMED: dict[str, Rule] = {}         # the values of `batch=`, and rules of single operators
_found: dict[str, Rule] = {}

SELECT, STACK = slot("select"), slot("stack")


def rule_of(op: Op) -> Rule:
    """The batching rule of an operator."""
    rule = _found.get(op.name)
    if rule is None:
        rule = _found[op.name] = _look_up(op)
    return rule


def _look_up(op: Op) -> Rule:
    from . import _rules_index, _rules_layers, _rules_products, _rules_reduce, _rules_views

    name = op.name[:-1] if op.view and op.name.endswith("_") else op.name       # transpose_ makes the view of transpose
    for module in (_rules_views, _rules_reduce, _rules_products, _rules_index, _rules_layers):
        named = module.RULES.get(name)
        if named is not None:
            return named
    if op.pointwise:
        return pointwise.broadcast
    if "dim" in op.param_names and "keepdim" in op.param_names:
        return _rules_reduce.reductions
    if any(p in DIMS or p in SHAPES for p in op.param_names):
        return moved
    return each


def each(call: Call) -> Any:
    """Sample by sample."""
    if call.size == 0:
        raise RuntimeError(f"vmap: {call.op.name}() has no batching rule, and is called sample by sample: a batch without "
                           "samples does not say what the result looks like.")
    rows = []
    for i in range(call.size):
        sample = [apply1(SELECT, t._lazy.inner, (0, i)) if call.is_batched(t) else t for t in call.inputs]
        out = rerun(call.op, tuple(sample), call.params, call.kind)
        if out is NotImplemented:
            return out
        rows.append(out)
    if isinstance(rows[0], (list, tuple)):
        return [_stacked(call, list(column)) for column in zip(*rows, strict=True)]
    return _stacked(call, rows)


def _stacked(call: Call, rows: list[TensorBase]) -> Any:
    shapes = {tuple(shape_of(r)) for r in rows}
    if len(shapes) > 1:
        raise RuntimeError(
            f"vmap: {call.op.name}() gives results of different shapes for different samples, such as "
            f"{' and '.join(str(list(s)) for s in sorted(shapes)[:2])}: operators with a dynamic (data-dependent) output "
            "shape cannot be mapped.")
    return state.ops.stack_tensors(rows, 0)
