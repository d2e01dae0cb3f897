"""A check sum of a tensor's values: `hash_tensor`."""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.apply import apply1
from flambeau.core.dtype import dtype_of_array
from flambeau.core.objects import dtype_of, shape_of

from ._args import dims as many_dims
from ._args import tensor
from ._record import KERNEL, call, primitive, public
from ._shapes import reduced
from .reduction import as_dim

_UINT64 = np.dtype("uint64")


def _hash(a: np.ndarray, dim: Any, keepdim: bool) -> np.ndarray:
    """Exclusive or of the bits of float64 or int64."""
    bits = a.astype(np.float64 if a.dtype.kind in "fV" else np.int64, copy=False)
    bits = np.ascontiguousarray(bits).view(_UINT64).reshape(a.shape)
    axes = tuple(range(a.ndim)) if dim is None or dim == () or a.ndim == 0 else dim
    return np.asarray(np.bitwise_xor.reduce(bits, axis=axes, keepdims=keepdim))


HASH = primitive("hash_tensor", _hash, params=("dim", "keepdim"), differentiable=False, expr=KERNEL,
                 meta=reduced(lambda d: _UINT64, dim=0, keepdim=1))


@public(op=HASH, differentiable=False, samples=lambda t: [
    call(t(3, 4)), call(t(3, 4), 1), call(t(3, 4), (0, 1), keepdim=True), call(t(5, dtype="int64")), call(t()),
    call(t(3, dtype="bool")), call(t(2, 3, 4), dim=-1)], errors=lambda t: [
    (call(t(3), mode=1), RuntimeError, "Unknown hash_tensor mode"), (call(t(0)), RuntimeError, "to be specified"),
    (call(t(2, 0), 1), IndexError, "non-zero size"), (call(t(3), 2), IndexError, "out of range"),
    (call(t(2, dtype="complex64")), NotImplementedError, "not implemented for")])
def hash_tensor(input: Any, dim: Any = (), *, keepdim: bool = False, mode: int = 0) -> Any:
    """The exclusive or of the 64 bits of the elements, floats as float64 and integers as int64.

    Args:
        input: real tensor.
        dim: dimensions to reduce; default all. keepdim: keep them with size 1.
        mode: 0, the exclusive or.

    Returns:
        uint64 tensor: equal for equal values in any order; equal pairs cancel.

    Raises:
        RuntimeError: an empty input without dim. IndexError: an empty dimension.

    >>> flambeau.hash_tensor(flambeau.tensor([1, 2, 4])).item()
    7
    """
    t = tensor(input, "hash_tensor")
    if mode != 0:
        raise RuntimeError(f"Unknown hash_tensor mode: {mode}. 0, the exclusive or, is the only one.")
    if dtype_of(t).kind == "c":
        raise NotImplementedError(f'"hash_tensor" not implemented for {str(dtype_of_array(dtype_of(t)))[6:]!r}: hash '
                                  "torch.view_as_real(t)")
    shape = shape_of(t)
    dims = many_dims(as_dim(dim), len(shape))
    if 0 in shape:
        if dims is None or dims == ():
            raise RuntimeError("hash_tensor: Expected reduction dim to be specified for an empty input: give the 'dim' "
                               "argument")
        for d in dims:
            if shape[d] == 0:
                raise IndexError(f"hash_tensor: Expected reduction dim {d} to have non-zero size.")
    return apply1(HASH, t, (dims, bool(keepdim)))
