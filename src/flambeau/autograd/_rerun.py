"""Call an intercepted operator again, by the entry through which it came."""

from __future__ import annotations

from typing import Any

from flambeau.core.apply import INPLACE, SPLIT, apply1, apply2, apply_n, apply_split
from flambeau.core.inplace import apply_inplace, apply_inplace1, apply_inplace2
from flambeau.core.op import Op


def rerun(op: Op, inputs: tuple, params: Any, kind: int) -> Any:
    """The operator's result; whoever calls this has set the limit of interception, or is asked again."""
    pointwise = op.pointwise and params is None and op.joint is None
    if kind == INPLACE:
        if pointwise and len(inputs) == 1:
            return apply_inplace1(op, inputs[0])
        if pointwise and len(inputs) == 2:
            return apply_inplace2(op, inputs[0], inputs[1])
        return apply_inplace(op, list(inputs), params)
    if kind == SPLIT:
        return apply_split(op, inputs[0], params)
    if op.n_in == 1 and op.n_out == 1 and op.joint is None:
        return apply1(op, inputs[0], params)
    if pointwise and op.n_in == 2:
        return apply2(op, inputs[0], inputs[1])
    return apply_n(op, list(inputs), params)
