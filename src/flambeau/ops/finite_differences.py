"""The gradient of sampled functions by finite differences: `torch.gradient`. Composed, so that it has derivatives.

Source: Fornberg, 1988, Mathematics of Computation 51, table 3 and its formulas for uneven grids.
"""

from __future__ import annotations

from typing import Any

from flambeau.core.objects import TensorBase, dtype_of, shape_of

from ._args import dims as whole_dims
from ._args import integer, ndim, tensor
from ._record import call, ops, public
from .joining import joined


def _even(t: TensorBase, d: int, h: Any, edge_order: int) -> TensorBase:
    n = shape_of(t)[d]

    def at(i: int, length: int = 1) -> TensorBase:
        return ops.narrow(t, d, i, length)

    if edge_order == 1:
        first, last = (at(1) - at(0)) / h, (at(n - 1) - at(n - 2)) / h
    else:
        first = (at(0) * -1.5 + at(1) * 2.0 - at(2) * 0.5) / h
        last = (at(n - 1) * 1.5 - at(n - 2) * 2.0 + at(n - 3) * 0.5) / h
    inner = (at(2, n - 2) - at(0, n - 2)) / (2.0 * h)
    return joined([first, inner, last], d)


def _uneven(t: TensorBase, d: int, places: TensorBase, edge_order: int) -> TensorBase:
    n, after = shape_of(t)[d], ndim(t) - 1 - d
    if ndim(places) != 1 or shape_of(places)[0] != n:
        raise RuntimeError(f"torch.gradient expected one coordinate for each of the {n} samples of dim {d}, but got "
                           f"coordinates of shape {list(shape_of(places))}")
    steps = ops.reshape(ops.narrow(places, 0, 1, n - 1) - ops.narrow(places, 0, 0, n - 1), (n - 1, *(1,) * after))
    m = n - 2

    def at(i: int, length: int = 1) -> TensorBase:
        return ops.narrow(t, d, i, length)

    def step(i: int, length: int = 1) -> TensorBase:
        return ops.narrow(steps, 0, i, length)

    if edge_order == 1:
        first, last = (at(1) - at(0)) / step(0), (at(n - 1) - at(n - 2)) / step(n - 2)
    else:
        h, k = step(0), step(1)
        first = at(0) * (-(2.0 * h + k) / (h * (h + k))) + at(1) * ((h + k) / (h * k)) - at(2) * (h / (k * (h + k)))
        h, k = step(n - 3), step(n - 2)
        last = (at(n - 3) * (k / (h * (h + k))) - at(n - 2) * ((h + k) / (h * k))
                + at(n - 1) * ((2.0 * k + h) / (k * (h + k))))
    h, k = step(0, m), step(1, m)
    inner = (at(0, m) * (-k / (h * (h + k))) + at(1, m) * ((k - h) / (h * k)) + at(2, m) * (h / (k * (h + k))))
    return joined([first, inner, last], d)


def _spacings(spacing: Any, n: int, given: bool) -> list:
    """One spacing for each dimension."""
    if spacing is None:
        return [1.0] * n
    if not isinstance(spacing, (tuple, list)):
        return [spacing] * n
    if len(spacing) != n:
        why = "given" if given else "not given"
        raise RuntimeError("torch.gradient expected spacing to be unspecified, a scalar, or a list of length equal to "
                           f"{n}, the number of dimensions, since dim argument was {why}, but got a list of length "
                           f"{len(spacing)}")
    return list(spacing)


@public(method=False, out=False,
        samples=lambda t: [call(t(4)), call(t(3, 4)), call(t(3, 4), spacing=0.5, dim=1), call(t(3, 4), spacing=(2.0, 0.5)),
                           call(t(5), spacing=(t(values=[0.0, 0.5, 2.0, 2.5, 4.0]),), edge_order=2),
                           call(t(3, 4), dim=(1, 0), edge_order=2), call(t(4, dtype="int64")),
                           call(t(2, 3), spacing=[t(values=[1.0, 3.0, 4.0], grad=False)], dim=-1)],
        errors=lambda t: [(call(t(1)), RuntimeError, "at least edge_order"),
                          (call(t(3), edge_order=3), RuntimeError, "edge_order=1"),
                          (call(t(3), spacing=(1.0, 2.0)), RuntimeError, "expected spacing to be"),
                          (call(t(3, 3), dim=(0, 0)), RuntimeError, "multiple times"),
                          (call(t(3, dtype="uint8")), RuntimeError, "does not support uint8")])
def gradient(input: Any, *, spacing: Any = None, dim: Any = None, edge_order: int = 1) -> tuple:
    """The gradient of a function given by its samples, by central differences; one tensor for each dimension.

    Args:
        input: the samples, on a grid.
        spacing: distance of the samples, a number or one for each dimension, or their coordinates: one 1-D tensor for
            each dimension.
        dim: the dimensions, by default all.
        edge_order: 1 or 2, the order of the one-sided differences at both ends.

    >>> flambeau.gradient(flambeau.tensor([1., 4., 9., 16.]))[0].tolist()
    [3.0, 4.0, 6.0, 7.0]
    """
    t = tensor(input, "gradient")
    if dtype_of(t).name == "uint8":
        raise RuntimeError("torch.gradient does not support uint8 input: convert it with .float()")
    if integer(edge_order, "gradient", "edge_order") not in (1, 2):
        raise RuntimeError(f"torch.gradient only supports edge_order=1 and edge_order=2, not {edge_order}.")
    over = tuple(range(ndim(t))) if dim is None else whole_dims(dim, ndim(t)) or ()
    every = _spacings(spacing, len(over), dim is not None)
    if any(shape_of(t)[d] <= edge_order for d in over):
        raise RuntimeError(f"torch.gradient expected each dimension size to be at least edge_order+1 = {edge_order + 1}, "
                           f"got input of shape {list(shape_of(t))}")
    return tuple(_uneven(t, d, h, edge_order) if isinstance(h, TensorBase) and ndim(h) else _even(t, d, h, edge_order)
                 for d, h in zip(over, every, strict=True))
