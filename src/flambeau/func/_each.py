"""The rule of last resort: an operator sample by sample. Right for every operator, and slow."""

from __future__ import annotations

from typing import Any

from flambeau.autograd._rerun import rerun
from flambeau.core.apply import apply1
from flambeau.core.objects import TensorBase, shape_of
from flambeau.core.op import slot
from flambeau.core.state import state

from ._call import Call

SELECT = slot("select")


def each(call: Call) -> Any:
    """Sample by sample, stacked."""
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
        return [stacked(call.op.name, list(column)) for column in zip(*rows, strict=True)]
    return stacked(call.op.name, rows)


def stacked(name: str, rows: list[TensorBase]) -> Any:
    """The samples' results as one tensor."""
    shapes = {tuple(shape_of(r)) for r in rows}
    if len(shapes) > 1:
        raise RuntimeError(
            f"vmap: {name}() gives results of different shapes for different samples, such as "
            f"{' and '.join(str(list(s)) for s in sorted(shapes)[:2])}: operators with a dynamic (data-dependent) output "
            "shape cannot be mapped.")
    return state.ops.stack_tensors(rows, 0)
