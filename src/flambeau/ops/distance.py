"""cdist: distances between all pairs of rows."""

from __future__ import annotations

import math
from typing import Any

from flambeau.core.apply import apply1, apply_n
from flambeau.core.objects import dtype_of, shape_of
from flambeau.core.state import state
from flambeau.kernels import cdist as kernel
from flambeau.kernels.strides import broadcast_shapes

from ._args import number, tensor
from ._meta import Meta
from ._record import KERNEL, call, primitive, public
from ._shapes import broadcast, fresh, promoted
from .views import EXPAND

_MODES = ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")
MANY_ROWS = 25  # from here on PyTorch computes Euclidean distances by a matrix product


def _no_second(xp: Any, g: Any) -> Any:
    raise NotImplementedError(
        "the derivative for '_cdist_backward' is not implemented: cdist cannot be differentiated twice. "
        "Write the distance with basic operators: (x1[:, None] - x2[None]).square().sum(-1).sqrt()"
    )


def _distances(x1: Meta, x2: Meta, *_: Any) -> Meta:
    batch = broadcast([x1.shape[:-2], x2.shape[:-2]], "cdist")
    return Meta((*batch, x1.shape[-2], x2.shape[-2]), promoted([x1, x2]))


def slopes(xp: Any, change: Any, dist: Any, p: float) -> Any:
    """The derivatives of the p-norms `dist` (*) in the differences `change` (*, M); 0 where the norm has none."""
    if p == 0:
        return xp.zeros_like(change)
    if p == 1:
        return xp.sgn(change)
    norm = xp.unsqueeze(dist, -1)
    if p == math.inf:
        return xp.keep(xp.sgn(change), xp.abs(change) == norm)
    if p == 2:
        return xp.drop(change / norm, norm == 0)
    return xp.drop(xp.sgn(change) * xp.abs(change) ** (p - 1) / norm ** (p - 1), change == 0)


def _tangent(xp: Any, tangents: list, inputs: list, outs: list, params: tuple) -> Any:
    """The slopes times how the differences of rows change. All pairs at once: (*, P, R, M)."""

    def pairs(a: Any, b: Any) -> Any:
        if a is None:
            return -xp.unsqueeze(b, -3)
        return xp.unsqueeze(a, -2) if b is None else xp.unsqueeze(a, -2) - xp.unsqueeze(b, -3)

    return xp.sum(slopes(xp, pairs(*inputs), outs[0], params[0]) * pairs(*tangents), -1, False)


CDIST = primitive(
    "cdist",
    kernel.cdist,
    inputs=("x1", "x2"),
    params=("p", "by_products"),
    meta=_distances,
    batch="matrices", expr=KERNEL, jvp=_tangent,
    x1=lambda xp, g, x1, x2, p, out: xp.cdist_backward(g, x1, x2, p, out),
    x2=lambda xp, g, x1, x2, p, out: xp.cdist_backward(xp.transpose(g, -1, -2), x2, x1, p, xp.transpose(out, -1, -2)),
)
primitive(
    "_cdist_backward",
    lambda g, a, b, dist, p: kernel.cdist_backward(g, a, b, p, dist),
    inputs=("grad", "x1", "x2", "cdist"),
    params=("p",),
    meta=fresh(input=1),
    expr=KERNEL,
    grad=_no_second,
    x1=_no_second,
    x2=_no_second,
    cdist=_no_second,
)
state.xp.cdist_backward = kernel.cdist_backward
state.ops.cdist_backward = lambda g, a, b, p, dist: state.ops._cdist_backward(g, a, b, dist, p)


@public(
    method=False,
    out=False,
    samples=lambda t: [
        call(t(3, 2), t(4, 2)),
        call(t(2, 3, 2), t(4, 2), 1.0),
        call(t(3, 2), t(4, 2), p=3.0),
        call(t(3, 2), t(4, 2), p=float("inf")),
    ],
    errors=lambda t: [
        (call(t(3, 2), t(4, 3)), RuntimeError, "must have the same number of columns"),
        (call(t(3, 2), t(4, 2), -1.0), RuntimeError, "only supports non-negative p values"),
    ],
)
def cdist(x1: Any, x2: Any, p: float = 2.0, compute_mode: str | None = None) -> Any:
    """The p-norm distances between the rows of x1 and the rows of x2.

    Args:
        x1: (*, P, M). x2: (*, R, M); leading dimensions broadcast.
        p: 0 counts the entries that differ, inf takes the largest difference.
        compute_mode: for p 2, whether by a matrix product (faster, less exact for close rows); by default when P or R
            exceeds 25.

    Returns:
        Tensor of shape (*, P, R). Where two rows are equal the gradient is 0.

    >>> flambeau.cdist(flambeau.tensor([[0., 0.]]), flambeau.tensor([[3., 4.]])).tolist()
    [[5.0]]
    """
    a, b = shape_of(tensor(x1, "cdist", "x1")), shape_of(tensor(x2, "cdist", "x2", 2))
    mode = _MODES[0] if compute_mode is None else compute_mode
    if mode not in _MODES:
        raise ValueError(f"{mode} is not a valid value for compute_mode: use one of {', '.join(_MODES)}")
    for name, x in (("x1", x1), ("x2", x2)):
        if dtype_of(x).name not in ("float32", "float64"):
            raise RuntimeError(f"cdist only supports floating-point dtypes, {name} got: {x.dtype}")
        if len(shape_of(x)) < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, {name} got: {len(shape_of(x))}D")
    if dtype_of(x1) is not dtype_of(x2):
        raise RuntimeError(f"cdist: expected scalar type {x1.dtype} but found {x2.dtype}: both must have the same dtype. "
                           "Convert one of them with .to(other.dtype).")
    if a[-1] != b[-1]:
        raise RuntimeError(f"X1 and X2 must have the same number of columns. X1: {a[-1]} X2: {b[-1]}")
    if not p >= 0:
        raise RuntimeError("cdist only supports non-negative p values")
    batch = broadcast_shapes(tuple(a[:-2]), tuple(b[:-2]))
    if tuple(a[:-2]) != batch:
        x1 = apply1(EXPAND, x1, ((*batch, *a[-2:]),))
    if tuple(b[:-2]) != batch:
        x2 = apply1(EXPAND, x2, ((*batch, *b[-2:]),))
    many = mode == _MODES[1] or (mode == _MODES[0] and max(a[-2], b[-2]) > MANY_ROWS)
    return apply_n(CDIST, [x1, x2], (number(p, "cdist", "p"), many))
