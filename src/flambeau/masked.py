"""`torch.masked`: reductions and normalisations that see only the elements a mask marks as valid.

`mask` is a boolean tensor (True: valid) that broadcasts to the input; without one every element is valid. Where no
element is valid a reduction gives what it gives for an empty input: 0 for a sum, 1 for a product, -inf for a maximum,
NaN for a mean. In results of the input's shape (softmax, normalize, cumsum, ...) the values at masked elements have no
meaning. PyTorch's `MaskedTensor`, a tensor that carries its mask along, is not here: pass mask= instead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ._unavailable import missing, refusal
from .core.dtype import STRIDED, by_name
from .core.objects import TensorBase, dtype_of, make
from .ops._args import tensor as _tensor
from .ops.norms import vector_norm as _vector_norm

__all__ = ["amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "is_masked_tensor", "log_softmax", "logaddexp",
           "logsumexp", "mean", "median", "norm", "normalize", "prod", "softmax", "softmin", "std", "sum", "var"]

_INSTEAD = ("pass mask= to the functions of torch.masked, or use torch.where(mask, x, 0) before sums, -inf before a softmax "
            "or a maximum.")
globals().update(missing(__name__, "masked_tensor as_masked_tensor MaskedTensor", _INSTEAD))
_unknown = refusal(__name__, _INSTEAD)


def __getattr__(name: str) -> Any:
    return _unknown(name)


def is_masked_tensor(obj: Any, /) -> bool:
    """Whether obj is a MaskedTensor: never here.

    >>> flambeau.masked.is_masked_tensor(flambeau.ones(2))
    False
    """
    return False


# ----------------------------------------------------------------------------------------------- masks and identities


def _dense(t: Any, name: str) -> Any:
    if not isinstance(t, TensorBase):
        raise TypeError(f"masked.{name}(): the input must be a Tensor, not {type(t).__name__}")
    if t.layout is not STRIDED:
        raise ValueError(f"masked {name} expects strided tensor (got {t.layout!r} tensor): call .to_dense(), and pass "
                         "mask= for the positions that count")
    return t


def _fitted(mask: Any, input: Any) -> Any:
    """The mask as a boolean tensor of the input's shape."""
    m = _tensor(mask, "masked", "mask", 2)
    if m.layout is not STRIDED:
        m = m.to_dense()
    if m.ndim > input.ndim:
        raise IndexError(f"the mask has shape {list(m.shape)}, of more dimensions than the input's {list(input.shape)}: it "
                         "must broadcast to the input")
    return m.to(by_name["bool"]).expand(input.shape)


def _least(d: np.dtype) -> Any:
    return -math.inf if d.kind in "fVc" else int(np.iinfo(d).min)


def _greatest(d: np.dtype) -> Any:
    return math.inf if d.kind in "fVc" else int(np.iinfo(d).max)


def _filled(input: Any, mask: Any, value: Any) -> Any:
    """The input with a value, or a function of its dtype, at masked elements."""
    if mask is None:
        return input
    d = dtype_of(input)
    if callable(value):
        if d.kind == "b":
            raise NotImplementedError("there is no neutral element of this reduction for torch.bool. Use any() or all().")
        value = value(d)
    return input.where(_fitted(mask, input), make(np.full((), value, d)))


def _dims(dim: Any, ndim: int) -> tuple[int, ...]:
    """The dimensions to reduce, sorted; all of them by default and for ()."""
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        return tuple(range(ndim))
    given: Sequence[int] = (dim,) if isinstance(dim, int) else tuple(dim)
    n = max(ndim, 1)
    found: set[int] = set()
    for d in given:
        if not -n <= d < n:
            raise IndexError(f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {d})")
        if d % n in found:
            raise RuntimeError(f"dim={d} appears multiple times in the list of dims {list(given)}")
        found.add(d % n)
    return tuple(sorted(found))


def _widened(input: Any, dtype: Any) -> Any:
    """The dtype of a sum or product: int64 for integers and bool."""
    if dtype is not None:
        return dtype
    return input.dtype if input.is_floating_point() or input.is_complex() else by_name["int64"]


# ----------------------------------------------------------------------------------------------- reductions


def sum(input: Any, dim: Any = None, *, keepdim: bool | None = False, dtype: Any = None, mask: Any = None) -> Any:
    """The sum of the valid elements, of all or over dimensions; 0 where none is.

    Args:
        dim: a dimension or several. dtype: of the result; by default the input's, int64 for integers.
        mask: boolean, broadcasts to the input.

    Raises:
        ValueError: a sparse input. IndexError: dim out of range.

    >>> x = flambeau.tensor([[1., 2.], [3., 4.]])
    >>> flambeau.masked.sum(x, 1, mask=flambeau.tensor([[True, False], [True, True]])).tolist()
    [1.0, 7.0]
    """
    t = _dense(input, "sum")
    return _filled(t, mask, 0).sum(_dims(dim, t.ndim), bool(keepdim), dtype=_widened(t, dtype))


def prod(input: Any, dim: Any = None, *, keepdim: bool | None = False, dtype: Any = None, mask: Any = None) -> Any:
    """The product of the valid elements; 1 where none is. Arguments as those of `sum`.

    >>> flambeau.masked.prod(flambeau.tensor([2., 3.]), mask=flambeau.tensor([True, False])).item()
    2.0
    """
    t = _dense(input, "prod")
    out = _filled(t, mask, 1).to(_widened(t, dtype))
    for d in reversed(_dims(dim, t.ndim)):
        out = out.prod(d, bool(keepdim))
    return out


def amax(input: Any, dim: Any = None, *, keepdim: bool | None = False, dtype: Any = None, mask: Any = None) -> Any:
    """The greatest valid element; the least number of the dtype where none is.

    >>> flambeau.masked.amax(flambeau.tensor([2., 3.]), mask=flambeau.tensor([True, False])).item()
    2.0
    """
    t = _dense(input, "amax")
    return _filled(t, mask, _least).amax(_dims(dim, t.ndim), bool(keepdim)).to(t.dtype if dtype is None else dtype)


def amin(input: Any, dim: Any = None, *, keepdim: bool | None = False, dtype: Any = None, mask: Any = None) -> Any:
    """The least valid element; the greatest number of the dtype where none is.

    >>> flambeau.masked.amin(flambeau.tensor([2., 3.]), mask=flambeau.tensor([False, True])).item()
    3.0
    """
    t = _dense(input, "amin")
    return _filled(t, mask, _greatest).amin(_dims(dim, t.ndim), bool(keepdim)).to(t.dtype if dtype is None else dtype)


def argmax(input: Any, dim: int | None = None, *, keepdim: bool | None = False, dtype: Any = None, mask: Any = None) -> Any:
    """Where the greatest valid element stands, along dim or in the flattened input; of the input's dtype, as in PyTorch.

    >>> flambeau.masked.argmax(flambeau.tensor([2, 3, 1]), mask=flambeau.tensor([True, False, True])).item()
    0
    """
    t = _dense(input, "argmax")
    return _filled(t, mask, _least).argmax(dim, bool(keepdim)).to(t.dtype if dtype is None else dtype)


def argmin(input: Any, dim: int | None = None, *, keepdim: bool | None = False, dtype: Any = None, mask: Any = None) -> Any:
    """Where the least valid element stands, along dim or in the flattened input; of the input's dtype, as in PyTorch.

    >>> flambeau.masked.argmin(flambeau.tensor([2, 3, 1]), mask=flambeau.tensor([True, True, False])).item()
    0
    """
    t = _dense(input, "argmin")
    return _filled(t, mask, _greatest).argmin(dim, bool(keepdim)).to(t.dtype if dtype is None else dtype)


def _count(input: Any, mask: Any, dim: Any, keepdim: bool) -> Any:
    """How many elements are valid."""
    one = make(np.ones((), bool)) if mask is None else mask
    return _fitted(one, input).sum(_dims(dim, input.ndim), keepdim)


def mean(input: Any, dim: Any = None, *, keepdim: bool | None = False, dtype: Any = None, mask: Any = None) -> Any:
    """The mean of the valid elements; NaN where none is.

    Raises:
        ValueError: an input of integers without a floating dtype=.

    >>> flambeau.masked.mean(flambeau.tensor([2., 4., 9.]), mask=flambeau.tensor([True, True, False])).item()
    3.0
    """
    t = _dense(input, "mean")
    wanted = t.dtype if dtype is None else dtype
    if not (wanted.is_floating_point or wanted.is_complex):
        raise ValueError(f"mean(): Could not infer output dtype: {'Input' if dtype is None else 'Optional'} dtype must be "
                         f"either a floating point or complex dtype. Got: {wanted}")
    return sum(t, dim, keepdim=keepdim, dtype=wanted, mask=mask) / _count(t, mask, dim, bool(keepdim))


def median(input: Any, dim: int = -1, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """The median of the valid elements along dim, the lower one of two; NaN where none is.

    Raises:
        ValueError: integers, and a row without a valid element.

    >>> flambeau.masked.median(flambeau.tensor([5., 1., 3.]), mask=flambeau.tensor([True, False, True])).item()
    3.0
    """
    t = _dense(input, "median")
    real = t.is_floating_point()
    wide = t if real else t.to(by_name["float32"])
    out = _filled(wide, mask, math.nan).nanmedian(_dims(dim, t.ndim)[0], keepdim).values
    if real:
        return out
    if bool(out.isnan().any()):
        raise ValueError("masked median expects no fully masked out rows if dtype is not floating point: integers have no "
                         "NaN. Convert the input with .float().")
    return out.to(t.dtype if dtype is None else dtype)


def logsumexp(input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """log(sum(exp(x))) of the valid elements, without overflow; -inf where none is.

    >>> flambeau.masked.logsumexp(flambeau.tensor([0., 9.]), mask=flambeau.tensor([True, False])).item()
    0.0
    """
    t = _dense(input, "logsumexp")
    return _filled(t, mask, _least).logsumexp(_dims(dim, t.ndim), keepdim).to(t.dtype if dtype is None else dtype)


def norm(input: Any, ord: float | None = 2.0, dim: Any = None, *, keepdim: bool | None = False, dtype: Any = None,
         mask: Any = None) -> Any:
    """The vector norm of the valid elements, see `linalg.vector_norm`.

    >>> flambeau.masked.norm(flambeau.tensor([3., 4., 9.]), 2, mask=flambeau.tensor([True, True, False])).item()
    5.0
    """
    t = _dense(input, "norm")
    neutral = math.inf if ord == -math.inf else 0
    return _vector_norm(_filled(t, mask, neutral), 2 if ord is None else ord, _dims(dim, t.ndim), bool(keepdim),
                        dtype=t.dtype if dtype is None else dtype)


def _variance(name: str, input: Any, dim: Any, unbiased: bool | None, correction: Any, keepdim: bool | None, dtype: Any,
              mask: Any) -> Any:
    t = _dense(input, name)
    if unbiased is not None and correction is not None:
        raise AssertionError(f"masked.{name}: only one of unbiased and correction may be given")
    taken = float(correction) if correction is not None else 0.0 if unbiased is False else 1.0
    wanted = dtype if dtype is not None else t.dtype if t.is_floating_point() or t.is_complex() else by_name["float32"]
    compute = wanted if wanted.is_floating_point or wanted.is_complex else by_name["float32"]
    middle = sum(t, dim, keepdim=True, dtype=wanted, mask=mask) / _count(t, mask, dim, True)
    off = t - middle
    total = sum(off * off.conj(), dim, keepdim=keepdim, dtype=compute, mask=mask)
    count = _count(t, mask, dim, bool(keepdim))
    if taken != 0:
        real = {"complex64": "float32", "complex128": "float64"}.get(compute.name, compute.name)
        count = (count.to(by_name[real]) - taken).clamp(min=0)
    return (total / count).to(wanted)


def var(input: Any, dim: Any = None, unbiased: bool | None = None, *, correction: int | float | None = None,
        keepdim: bool | None = False, dtype: Any = None, mask: Any = None) -> Any:
    """The variance of the valid elements: squares summed and divided by their number less the correction (1).

    >>> flambeau.masked.var(flambeau.tensor([1., 3., 9.]), mask=flambeau.tensor([True, True, False])).item()
    2.0
    """
    return _variance("var", input, dim, unbiased, correction, keepdim, dtype, mask)


def std(input: Any, dim: Any = None, unbiased: bool | None = None, *, correction: int | float | None = None,
        keepdim: bool | None = False, dtype: Any = None, mask: Any = None) -> Any:
    """The standard deviation of the valid elements, the root of `var`.

    >>> flambeau.masked.std(flambeau.tensor([1., 3.]), unbiased=False).item()
    1.0
    """
    return _variance("std", input, dim, unbiased, correction, keepdim, dtype, mask).sqrt()


# ----------------------------------------------------------------------------------------------- of the input's shape


def _along(name: str, input: Any, dim: int, mask: Any, value: Any) -> tuple[Any, int]:
    t = _dense(input, name)
    return _filled(t, mask, value), _dims(dim, t.ndim)[0]


def softmax(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """softmax along dim over the valid elements.

    >>> flambeau.masked.softmax(flambeau.tensor([1., 1., 5.]), 0, mask=flambeau.tensor([True, True, False])).tolist()
    [0.5, 0.5, 0.0]
    """
    t, d = _along("softmax", input, dim, mask, _least)
    return t.softmax(d, dtype=t.dtype if dtype is None else dtype)


def log_softmax(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """log_softmax along dim over the valid elements.

    >>> flambeau.masked.log_softmax(flambeau.tensor([1., 5.]), 0, mask=flambeau.tensor([True, False])).tolist()
    [0.0, -inf]
    """
    t, d = _along("log_softmax", input, dim, mask, _least)
    return t.log_softmax(d, dtype=t.dtype if dtype is None else dtype)


def softmin(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """softmax(-input) along dim over the valid elements.

    >>> flambeau.masked.softmin(flambeau.tensor([1., 1., 0.]), 0, mask=flambeau.tensor([True, True, False])).tolist()
    [0.5, 0.5, 0.0]
    """
    t, d = _along("softmin", input, dim, mask, _greatest)
    return (-t).softmax(d, dtype=t.dtype if dtype is None else dtype)


def normalize(input: Any, ord: float, dim: int, *, eps: float = 1e-12, dtype: Any = None, mask: Any = None) -> Any:
    """The valid elements divided by their norm along dim, or by eps if that is greater.

    >>> flambeau.masked.normalize(flambeau.tensor([3., 4., 9.]), 2., 0, mask=flambeau.tensor([True, True, False])).tolist()
    [0.6000000238418579, 0.800000011920929, 0.0]
    """
    t, _ = _along("normalize", input, dim, mask, 0)
    length = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return t / length.maximum(make(np.full((), eps, dtype_of(length))))


def cumsum(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """Running sums of the valid elements along dim.

    >>> flambeau.masked.cumsum(flambeau.tensor([1., 2., 3.]), 0, mask=flambeau.tensor([True, False, True])).tolist()
    [1.0, 1.0, 4.0]
    """
    t, d = _along("cumsum", input, dim, mask, 0)
    wanted = t.dtype if dtype is None else dtype
    return t.cumsum(d, dtype=wanted).to(wanted)


def cumprod(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """Running products of the valid elements along dim.

    >>> flambeau.masked.cumprod(flambeau.tensor([1., 2., 3.]), 0, mask=flambeau.tensor([True, False, True])).tolist()
    [1.0, 1.0, 3.0]
    """
    t, d = _along("cumprod", input, dim, mask, 1)
    wanted = t.dtype if dtype is None else dtype
    return t.cumprod(d, dtype=wanted).to(wanted)


def logaddexp(input: Any, other: Any, *, dtype: Any = None, input_mask: Any = None, other_mask: Any = None) -> Any:
    """log(exp(input) + exp(other)), elementwise, a masked element counting as -inf.

    >>> flambeau.masked.logaddexp(flambeau.zeros(1), flambeau.ones(1), input_mask=flambeau.tensor([False])).tolist()
    [1.0]
    """
    a, b = _dense(input, "logaddexp"), _dense(other, "logaddexp")
    return _filled(a, input_mask, _least).logaddexp(_filled(b, other_mask, _least)).to(a.dtype if dtype is None else dtype)
