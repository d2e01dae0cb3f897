"""Batching rules: how an operator on samples becomes one on the whole batch.

A rule is (call) -> the inner result, the batch in front (a list for several outputs). Which one an operator has follows from
what its record says: a pointwise operator broadcasts, one with a parameter named dim or shape has it moved behind the batch.
A record may say more in a word (`batch=`). The rules of operators that need code of their own are in the RULES of the other
modules here. What has no rule is called sample by sample.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.core.op import Op
from flambeau.ops._record import BATCH

from . import _rules_index, _rules_layers, _rules_products, _rules_reduce, _rules_views
from ._call import Call
from ._each import each
from ._rules_dims import DIMS, SHAPES, leading, moved
from ._rules_pointwise import broadcast

Rule = Callable[[Call], Any]
NAMED: dict[str, Rule] = {**_rules_views.RULES, **_rules_reduce.RULES, **_rules_products.RULES, **_rules_index.RULES,
                          **_rules_layers.RULES}
WORDS: dict[str, Rule] = {"pointwise": broadcast, "leading": leading, "matrices": _rules_products.matrices,
                          "items": _rules_layers.items, "loss": _rules_reduce.loss, "each": each}
_found: dict[str, Rule] = {}


def rule_of(op: Op) -> Rule:
    """The batching rule of an operator."""
    rule = _found.get(op.name)
    if rule is None:
        rule = _found[op.name] = _look_up(op)
    return rule


def _look_up(op: Op) -> Rule:
    name = op.name[:-1] if op.view and op.name.endswith("_") else op.name       # transpose_ makes the view of transpose
    named = NAMED.get(name)
    if named is not None:
        return named
    if op in BATCH:
        return WORDS[BATCH[op]]
    if op.pointwise:
        return broadcast
    if "dim" in op.param_names and "keepdim" in op.param_names:
        return _rules_reduce.reductions
    if any(p in DIMS or p in SHAPES for p in op.param_names):
        return moved
    return each
