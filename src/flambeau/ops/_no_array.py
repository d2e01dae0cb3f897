"""Tensors without an array: who runs operators on them.

What stands in a tensor's `_lazy` may know itself what operators do to it (vmap's batched tensors have `operate` and
`detached`); else it is sparse data (`_sparse`), or a meta tensor.
"""

from __future__ import annotations

from typing import Any

from flambeau.core.objects import TensorBase
from flambeau.kernels.sparse import Sparse

from . import _lazy


def lazy(op: Any, inputs: tuple, params: Any, kind: int) -> Any:
    """The operator on inputs of which some have no array, or NotImplemented when all have one."""
    sparse = False
    for t in inputs:
        if isinstance(t, TensorBase) and t._array is None:
            operate = getattr(t._lazy, "operate", None)
            if operate is not None:
                return operate(op, inputs, params, kind)
            sparse = sparse or type(t._lazy) is Sparse
    if sparse:
        return Sparse.dispatch(op, inputs, params, kind)
    return _lazy.lazy(op, inputs, params, kind)


def detach(t: TensorBase) -> TensorBase:
    """detach() of a tensor without an array, or while operators are intercepted."""
    if t._array is None:
        detached = getattr(t._lazy, "detached", None)
        if detached is not None:
            out: TensorBase = detached(t)
            return out
    return _lazy.detach(t)
