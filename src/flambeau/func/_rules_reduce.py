"""Reductions of everything, and losses: on a batch they reduce every dimension but the first."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from flambeau.core.apply import apply1, apply_n
from flambeau.core.objects import TensorBase, shape_of
from flambeau.core.op import slot
from flambeau.core.state import state

from ._call import Call, into_first, rank
from ._each import each
from ._rules_dims import behind, moved
from ._rules_pointwise import aligned

SUM, MEAN, PROD = slot("sum"), slot("mean"), slot("prod")


def flat(call: Call, t: Any) -> Any:
    """Each sample as a vector."""
    inner = call.inner(t)
    return state.ops.reshape(inner, (call.size, math.prod(shape_of(inner)[1:])))


def _dims(inner: TensorBase) -> tuple[int, ...]:
    return tuple(range(1, rank(inner)))


def _all(name: str) -> Callable:
    op = slot(name)

    def rule(call: Call) -> Any:
        inner = call.inner(call.inputs[0])
        if rank(inner) == 1:
            inner = state.ops.unsqueeze(inner, 1)
        return apply1(op, inner, (_dims(inner), False, *(call.params or (None,))))

    return rule


def _prod_all(call: Call) -> Any:
    return apply1(PROD, flat(call, call.inputs[0]), (1, False, call.params[0]))


def _extremum(name: str) -> Callable:
    op = slot(name)

    def rule(call: Call) -> Any:
        return apply1(op, flat(call, call.inputs[0]), (1, False))

    return rule


def _middle(name: str) -> Callable:
    op = slot(name)

    def rule(call: Call) -> Any:
        return apply_n(op, [flat(call, call.inputs[0])], (1, False))[0]

    return rule


def whole_or_dim(call: Call) -> Any:
    """Operators whose dim=None means the flattened sample, such as argmax."""
    i = call.op.param_names.index("dim")
    if call.params[i] is not None:
        return moved(call)
    params = list(call.params)
    params[i] = 1
    n = rank(call.inputs[0])
    keep = "keepdim" in call.op.param_names and params[call.op.param_names.index("keepdim")]
    out = call.run([flat(call, call.inputs[0])], tuple(params))
    return state.ops.reshape(out, (call.size, *(1,) * n)) if keep else out


def reductions(call: Call) -> Any:
    """A reduction over dim, which may be empty or None for all."""
    i = call.op.param_names.index("dim")
    d = call.params[i]
    if d is None or isinstance(d, (tuple, list)) and len(d) == 0:
        inner = call.inner(call.inputs[0])
        n = rank(inner) - 1
        if n == 0:
            inner = state.ops.unsqueeze(inner, 1)
        params = list(call.params)
        params[i] = behind(None, max(n, 1))
        out = call.run([inner], tuple(params))
        keep = "keepdim" in call.op.param_names and params[call.op.param_names.index("keepdim")]
        return state.ops.reshape(out, (call.size,)) if n == 0 and keep else out
    return moved(call)


# ------------------------------------------------------------------------------------------------- losses


def reduce(values: TensorBase, reduction: str) -> Any:
    """A loss's values with the batch in front, averaged or added over each sample."""
    if reduction == "none" or rank(values) == 1:
        return values
    return apply1(MEAN if reduction == "mean" else SUM, values, (_dims(values), False, None))


def loss(call: Call) -> Any:
    """A pointwise loss with a reduction."""
    i = call.op.param_names.index("reduction")
    reduction = call.params[i]
    n = max([rank(t) for t in call.inputs if isinstance(t, TensorBase)])
    params = list(call.params)
    params[i] = "none"
    values = call.run([call.whole(t) if t is call.inputs[0] and not call.is_batched(t) else v
                       for t, v in zip(call.inputs, aligned(call, n), strict=True)], tuple(params))
    return reduce(values, reduction)


def nll(call: Call) -> Any:
    """Negative log likelihood of (N, C, ...), (N,) or one vector of C."""
    x, target, weight = call.inputs
    reduction, ignore = call.params
    log_p, labels = call.whole(x), call.whole(target)
    if weight is not None and call.is_batched(weight):
        return _weighted_nll(call, log_p, labels, call.inner(weight), reduction, ignore)
    single = rank(x) == 1
    if not single:
        shape = tuple(shape_of(labels))
        log_p, labels = into_first(log_p), into_first(labels)
    values = call.run([log_p, labels, weight], ("none", ignore))
    if single:
        return values if reduction != "mean" else _divided(values, labels, weight, ignore, ())
    values = state.ops.reshape(values, shape)
    if reduction == "none":
        return values
    total = apply1(SUM, values, (_dims(values), False, None))
    return total if reduction == "sum" else _divided(total, state.ops.reshape(labels, shape), weight, ignore, _dims(values))


def _divided(total: Any, labels: Any, weight: Any, ignore: int, dims: tuple) -> Any:
    """total / (weight of the labels that count)."""
    counts = labels != ignore
    if weight is None:
        share = counts.to(total.dtype)
    else:
        safe = state.ops.where(counts, labels, state.ops.zeros_like(labels))
        share = weight.index_select(0, safe.reshape(-1)).reshape(labels.shape) * counts.to(weight.dtype)
    return total / (share.sum(dims) if dims else share)


def _weighted_nll(call: Call, log_p: Any, labels: Any, weight: Any, reduction: str, ignore: int) -> Any:
    """With a weight for each sample: by gather."""
    single = rank(log_p) == 2
    dim = 1 if single else 2
    counts = labels != ignore
    safe = state.ops.where(counts, labels, state.ops.zeros_like(labels))
    picked = log_p.gather(dim, safe.unsqueeze(dim)).squeeze(dim)
    own = weight.gather(1, safe.reshape(call.size, -1)).reshape(labels.shape) * counts.to(weight.dtype)
    values = -picked * own
    if reduction == "none":
        return values
    dims = _dims(values)
    total = values.sum(dims) if dims else values
    if reduction == "sum":
        return total
    return total / (own.sum(dims) if dims else own)


def nll_backward(call: Call) -> Any:
    """The adjoint of nll."""
    g, target, weight = call.inputs
    shape, reduction, ignore = call.params
    labels = call.whole(target)
    if weight is not None and call.is_batched(weight):
        return each(call)
    grad = call.whole(g)
    single = len(shape) == 1
    if single:
        if reduction == "mean":
            grad = _divided(grad, labels, weight, ignore, ())
        return call.run([grad, labels, weight], ((call.size, *shape), "none", ignore))
    n = tuple(shape_of(labels))
    if reduction == "mean":
        grad = _divided(grad, labels, weight, ignore, _dims(labels))
    if reduction != "none":
        grad = state.ops.expand(state.ops.reshape(grad, (call.size, *(1,) * (len(n) - 1))), n)
    folded = call.run([into_first(grad), into_first(labels), weight],
                      ((call.size * shape[0], *shape[1:]), "none", ignore))
    return state.ops.reshape(folded, (call.size, *shape))


RULES: dict[str, Any] = {
    "sum_all": _all("sum"), "mean_all": _all("mean"), "prod_all": _prod_all, "max_all": _extremum("amax"),
    "min_all": _extremum("amin"), "median_all": _middle("median"), "nanmedian_all": _middle("nanmedian"),
    **dict.fromkeys(("argmax", "argmin", "median", "nanmedian", "argsort", "prod"), whole_or_dim),
    "count_nonzero": reductions,
    "nll_loss": nll, "nll_loss2d": nll, "nll_loss_backward": nll_backward,
}
