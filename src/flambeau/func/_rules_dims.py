"""Operators along dimensions: their parameters named dim, dims or shape are moved behind the batch."""

from __future__ import annotations

from typing import Any

from flambeau.core.apply import apply1
from flambeau.core.objects import TensorBase, shape_of
from flambeau.core.op import slot

from ._call import Call, rank

DIMS = frozenset(("dim", "dims", "dim0", "dim1", "dim2"))
SHAPES = frozenset(("shape",))
ADDS = frozenset(("unsqueeze", "stack", "diag_embed"))      # dim counts the result's dimensions, one more than the input's
UNSQUEEZE, VIEW = slot("unsqueeze"), slot("view")


def behind(d: Any, n: int) -> Any:
    """A dimension, or several, of a sample of n dimensions, as dimensions of the batch."""
    if d is None:
        return tuple(range(1, n + 1))
    if isinstance(d, (tuple, list)):
        return tuple([behind(x, n) for x in d])
    return (d + n if d < 0 else d) + 1


def moved(call: Call) -> Any:
    """Every input with its batch, every dimension one later."""
    op = call.op
    names, params = op.param_names, list(call.params or ())
    n = max([rank(t) for t in call.inputs if isinstance(t, TensorBase)])
    for name, p in zip(names, params, strict=False):
        if name in SHAPES:
            n = len(p)
    scalar = n == 0 and op.name.rstrip("_") not in ADDS
    if op.name.rstrip("_") in ADDS:
        n += 1
    inputs = [call.whole(t) for t in call.inputs]
    if scalar:                               # a sample of no dimensions counts as one of a single element
        inputs = [apply1(UNSQUEEZE, t, (1,)) if isinstance(t, TensorBase) and len(shape_of(t)) == 1 else t for t in inputs]
        n = 1
    for i, (name, p) in enumerate(zip(names, params, strict=False)):
        if name in DIMS:
            params[i] = behind(p, n)
        elif name in SHAPES:
            params[i] = (call.size, *(p or (1,))) if scalar else (call.size, *p)
    out = call.run(inputs, tuple(params) if call.params is not None else None)
    if not scalar:
        return out
    return [_flat(call, o) for o in out] if isinstance(out, (list, tuple)) else _flat(call, out)


def _flat(call: Call, t: TensorBase) -> Any:
    """Without the dimension that a scalar sample was given."""
    shape = tuple(shape_of(t))
    return apply1(VIEW, t, ((call.size,),)) if len(shape) == 2 and shape[1] == 1 else t


def leading(call: Call) -> Any:
    """Operators on the last dimensions, which take any number of others in front."""
    return call.run([call.whole(t) for t in call.inputs], call.params)
