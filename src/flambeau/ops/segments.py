"""Reductions of neighbouring parts of one dimension: `segment_reduce`."""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.dtype import dtype_of_array
from flambeau.core.objects import TensorBase, array_of, dtype_of, make, shape_of
from flambeau.kernels.services import is_float

from ._args import dim as one_dim
from ._args import tensor, word
from ._record import call, ops, public
from .scatter import scatter_reduce

_KINDS = {"sum": "sum", "mean": "sum", "prod": "prod", "max": "amax", "amax": "amax", "min": "amin", "amin": "amin"}
_START = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -np.inf, "amax": -np.inf, "min": np.inf, "amin": np.inf}


def _lengths(data: TensorBase, lengths: Any, offsets: Any, axis: int, unsafe: bool) -> np.ndarray:
    """How many elements each segment has, (*data.shape[:axis], S)."""
    for value, name in ((lengths, "lengths"), (offsets, "offsets")):
        if value is not None and dtype_of(tensor(value, "segment_reduce", name)).name not in ("int64", "int32"):
            raise NotImplementedError(f'"segment_reduce" not implemented for {name} of {dtype_of(value).name}: use int64')
    if lengths is not None:
        found = array_of(lengths)
    elif offsets is not None:
        found = np.diff(array_of(offsets), axis=-1)
    else:
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    if found.ndim != axis + 1 or found.shape[:-1] != tuple(shape_of(data))[:axis]:
        raise RuntimeError(f"segment_reduce(): lengths of shape {list(found.shape)} do not fit data of shape "
                           f"{list(shape_of(data))} along dimension {axis}: expected {list(shape_of(data)[:axis])} and the "
                           "number of segments")
    if (found < 0).any():
        raise RuntimeError("segment_reduce(): lengths contains negative value!")
    if lengths is not None and not unsafe and (found.sum(-1) != shape_of(data)[axis]).any():
        raise RuntimeError("segment_reduce(): Expected all rows of lengths along axis to sum to data.size(axis) = "
                           f"{shape_of(data)[axis]} when unsafe is False, got {found.sum(-1).tolist()}")
    return found


def _segments(lengths: np.ndarray, first: np.ndarray, size: int) -> np.ndarray:
    """The segment of each of `size` elements, (*, size); one past the last for elements of none."""
    ends = first[..., None] + np.cumsum(lengths, -1)
    places = np.arange(size)
    found = (places[:, None] >= ends[..., None, :]).sum(-1)
    return np.where(places < first[..., None], lengths.shape[-1], found)


@public(method=False, out=False, samples=lambda t: [
    call(t(5), "sum", lengths=t(values=[2, 0, 3], dtype="int64", grad=False)),
    call(t(5), "mean", lengths=t(values=[2, 3], dtype="int64", grad=False)),
    call(t(5, 2), "max", lengths=t(values=[2, 3], dtype="int64", grad=False), initial=0.5),
    call(t(5), "min", offsets=t(values=[0, 2, 5], dtype="int64", grad=False)),
    call(t(2, 5), "prod", lengths=t(values=[[2, 3], [1, 4]], dtype="int64", grad=False), axis=1)], errors=lambda t: [
    (call(t(5), "some", lengths=t(values=[5], dtype="int64")), RuntimeError, "reduce must be"),
    (call(t(5), "sum", lengths=t(values=[2, 2], dtype="int64")), RuntimeError, "to sum to"),
    (call(t(5), "sum", lengths=t(values=[6, -1], dtype="int64")), RuntimeError, "negative value"),
    (call(t(5), "sum"), RuntimeError, "Either lengths or offsets"),
    (call(t(5, dtype="int64"), "sum", lengths=t(values=[5], dtype="int64")), NotImplementedError, "not implemented for")])
def segment_reduce(data: Any, reduce: str, *, lengths: Any = None, indices: Any = None, offsets: Any = None, axis: int = 0,
                   unsafe: bool = False, initial: float | None = None) -> Any:
    """The sum, mean, product, greatest or least element of each of consecutive segments of one dimension.

    Args:
        data: floating tensor.
        reduce: "sum", "mean", "prod", "max" ("amax") or "min" ("amin").
        lengths: sizes of the segments, (*data.shape[:axis], S), int64 or int32. offsets: where they begin, and where the
            last ends, (..., S + 1).
        unsafe: do not check that the lengths add up to data's size.
        initial: what each segment begins with; default 0 for sums (nan for the mean of an empty segment), 1 for products,
            -inf and inf for the greatest and the least.

    Returns:
        Tensor with size S along axis.

    >>> lengths = flambeau.tensor([2, 1])
    >>> flambeau.segment_reduce(flambeau.tensor([1., 2., 5.]), "sum", lengths=lengths).tolist()
    [3.0, 5.0]
    """
    t: Any = tensor(data, "segment_reduce", "data")
    at = one_dim(axis, len(shape_of(t)))
    if word(reduce, "segment_reduce", "reduce") not in _KINDS:
        raise RuntimeError(f"segment_reduce: reduce must be sum, prod, mean, amax or amin, not {reduce}")
    if indices is not None:
        raise RuntimeError("segment_reduce(): indices based reduction is not supported yet: use torch.scatter_reduce.")
    d = dtype_of(t)
    if not is_float(d) or d.kind == "c":
        raise NotImplementedError(f'"segment_reduce" not implemented for {str(dtype_of_array(d))[6:]!r}: convert data to a '
                                  "floating dtype")
    counts = _lengths(t, lengths, offsets, at, unsafe)
    first = array_of(offsets)[..., 0] if lengths is None else np.zeros(counts.shape[:-1], np.int64)
    shape, n = tuple(shape_of(t)), counts.shape[-1]
    place = _segments(counts, first, shape[at])
    place = np.broadcast_to(place.reshape(place.shape + (1,) * (len(shape) - at - 1)), shape)
    start = _START[reduce] if initial is None else initial
    out = make(np.full((*shape[:at], n + 1, *shape[at + 1:]), start, d))
    out = scatter_reduce(out, at, make(np.ascontiguousarray(place)), t, _KINDS[reduce])
    out = ops.narrow(out, at, 0, n)
    if reduce == "mean":
        divisor = counts.reshape(counts.shape + (1,) * (len(shape) - at - 1)).astype(d)
        if initial is not None:
            divisor = np.maximum(divisor, 1)
        out = out / make(divisor)
    return out
