"""as_strided, complex numbers as pairs, and the methods that change a tensor's own shape (`t_`, `squeeze_`, ...)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from flambeau.core.apply import apply1
from flambeau.core.inplace import check_writable, wrote
from flambeau.core.objects import (
    VERSION_MASK,
    TensorBase,
    View,
    cell_of,
    dtype_of,
    memory_of,
    remake,
    requires,
    set_memory,
    shape_of,
)
from flambeau.core.op import Op
from flambeau.core.state import grad_enabled, set_grad_enabled, state
from flambeau.core.views import grad_fn, move_retain
from flambeau.kernels import rearrange, strides

from ._args import dim as one_dim
from ._args import dims as many_dims
from ._args import sizes as as_sizes
from ._args import tensor
from ._meta import Meta
from ._record import KERNEL, call, ops, primitive, public
from .shape import SQUEEZE, SQUEEZE_DIM, SQUEEZE_DIMS, UNSQUEEZE, strides_of
from .views import TRANSPOSE, T

# ------------------------------------------------------------------------------------- as_strided
#
# The gradient is taken through storage: that of the view is added up there, then read with the input's own layout,
# which the last parameter describes: (shape, strides, offset). The memory is what the layout reaches, so elements
# beyond the input have no gradient.


def _as_strided(a: np.ndarray, size: tuple, stride: tuple, offset: int | None, layout: Any) -> np.ndarray:
    return strides.as_strided(a, size, stride, offset)


def _reach(shape: Sequence[int], stride: Sequence[int], offset: int) -> int:
    if 0 in shape:
        return 0
    return offset + 1 + sum([(n - 1) * step for n, step in zip(shape, stride, strict=True)])


def _as_strided_backward(g: np.ndarray, size: tuple, stride: tuple, offset: int | None, layout: tuple) -> np.ndarray:
    shape, own, start = layout
    first = start if offset is None else offset
    n = max(_reach(shape, own, start), _reach(size, stride, first))
    storage = rearrange.as_strided_backward(g, size, stride, n, first) if n else np.zeros(0, g.dtype)
    if any(step == 0 and k > 1 for k, step in zip(shape, own, strict=True)):  # one element seen several times shares
        count = rearrange.as_strided_backward(np.ones(shape, g.dtype), shape, own, n, start)
        storage = storage / np.maximum(count, 1).astype(g.dtype)
    return strides.as_strided(storage, shape, own, start).copy()


def _as_strided_again(a: np.ndarray, size: tuple, stride: tuple, offset: int | None, layout: tuple) -> np.ndarray:
    """as_strided of an array of the input's shape laid out as the input was."""
    shape, own, start = layout
    first = start if offset is None else offset
    storage = np.zeros(max(_reach(shape, own, start), _reach(size, stride, first)), a.dtype)
    strides.as_strided(storage, shape, own, start)[...] = a
    return strides.as_strided(storage, size, stride, first).copy()


def _strided_meta(self: Meta, size: tuple, stride: tuple, offset: int | None, layout: Any) -> Meta:
    start = self.offset if offset is None else offset
    strides.check_strided(size, stride, start, self.dtype.itemsize, self.memory.nbytes)
    return Meta(size, self.dtype, stride, start, memory=self.memory)


_PARAMS = ("size", "stride", "offset", "layout")
AS_STRIDED = primitive(
    "as_strided",
    _as_strided,
    params=_PARAMS,
    view=True,
    meta=_strided_meta,
    expr=KERNEL,
    self=lambda xp, g, size, stride, offset, layout: xp.as_strided_backward(g, size, stride, offset, layout),
)
primitive(
    "as_strided_backward",
    _as_strided_backward,
    params=_PARAMS,
    meta=lambda self, size, stride, offset, layout: Meta(layout[0], self.dtype),
    expr=KERNEL,
    self=lambda xp, g, size, stride, offset, layout: xp.as_strided_again(g, size, stride, offset, layout),
)
primitive(
    "as_strided_again",
    _as_strided_again,
    params=_PARAMS,
    meta=lambda self, size, *_: Meta(size, self.dtype),
    expr=KERNEL,
    node="AsStridedBackward0",
    self=lambda xp, g, size, stride, offset, layout: xp.as_strided_backward(g, size, stride, offset, layout),
)


def _place(view: TensorBase, base: TensorBase) -> tuple[Op, tuple]:
    """as_strided and the parameters that make the view from its base."""
    if dtype_of(view) is not dtype_of(base):
        raise RuntimeError("This is a view in another dtype of a tensor that was given another shape in place since (t_(), "
                           "unsqueeze_() and the like): no gradient can be found for it. Make the view after that call.")
    return AS_STRIDED, _strided_params(base, shape_of(view), strides_of(view), _offset(view))


def _offset(t: TensorBase) -> int:
    a = t._array
    return strides.storage_offset(a) if a is not None else int(getattr(t._lazy, "offset", 0))


state.place = _place


def _strided_params(input: TensorBase, size: Any, stride: Any, offset: int | None) -> tuple:
    layout = (tuple(shape_of(input)), strides_of(input), _offset(input))
    return as_sizes((size,)), as_sizes((stride,)), offset, layout


@public(
    out=False,
    samples=lambda t: [
        call(t(6), (2, 2), (1, 2)),
        call(t(2, 3), (3, 2), (1, 1), 1),
        call(t(6), (2,), (0,)),
        call(t(3, 2, transposed=True), (2, 2), (1, 2)),
    ],
    errors=lambda t: [
        (call(t(3), (2, 2), (2, 2)), RuntimeError, "out of bounds for storage"),
        (call(t(3), (2,), (1, 1)), RuntimeError, "mismatch in length of strides and shape"),
    ],
)
def as_strided(input: Any, size: Any, stride: Any, storage_offset: int | None = None) -> Any:
    """A view of input's storage with any sizes and strides.

    Args:
        size, stride: of the view; strides count elements.
        storage_offset: where the view starts in the storage; default: where input starts.

    Raises:
        RuntimeError: the view reaches outside the storage, or a stride is negative.

    >>> flambeau.as_strided(flambeau.tensor([1, 2, 3]), (2, 2), (1, 1)).tolist()
    [[1, 2], [2, 3]]
    """
    return apply1(AS_STRIDED, tensor(input, "as_strided"), _strided_params(input, size, stride, storage_offset))


# ------------------------------------------------------------------------------------- complex numbers as pairs

_REAL_OF = {"complex64": np.dtype("f4"), "complex128": np.dtype("f8")}
_COMPLEX_OF = {"float32": np.dtype("c8"), "float64": np.dtype("c16")}


def _view_as_real(a: np.ndarray) -> np.ndarray:
    d = _REAL_OF.get(a.dtype.name)
    if d is None:
        raise RuntimeError(f"view_as_real is only supported for complex tensors, got {a.dtype.name}")
    steps = (*a.strides, d.itemsize)
    if a.flags.c_contiguous:
        return a.reshape((*a.shape, 1)).view(d)
    real = a.real  # a view of the real parts: the pair's last axis goes on from there
    return strides.restride_bytes(real, (*a.shape, 2), steps)


def _view_as_complex(a: np.ndarray) -> np.ndarray:
    d = _COMPLEX_OF.get(a.dtype.name)
    if d is None:
        raise RuntimeError(
            f"view_as_complex is only supported for floating point tensors of 32 or 64 bits, got {a.dtype.name}"
        )
    if a.ndim == 0:
        raise RuntimeError("Input tensor must have one or more dimensions")
    if a.shape[-1] != 2:
        raise RuntimeError(f"Tensor must have a last dimension of size 2, got shape {list(a.shape)}")
    if a.strides[-1] != a.itemsize:
        raise RuntimeError("Tensor must have a last dimension with stride 1: call .contiguous() first")
    if any(s % d.itemsize for n, s in zip(a.shape[:-1], a.strides[:-1], strict=True) if n != 1):
        raise RuntimeError("Tensor must have a stride divisible by 2 for all but last dimension: call .contiguous() first")
    if strides.storage_offset(a) % 2:
        raise RuntimeError("Tensor must have a storage_offset divisible by 2: call .clone() first")
    if a.size == 0:
        return a[..., 0].astype(d)
    return a.view(d)[..., 0]


primitive("view_as_real", _view_as_real, view=True,
batch="leading", expr=KERNEL, self=lambda xp, g: xp.view_as_complex(xp.contiguous(g)))
primitive("view_as_complex", _view_as_complex, view=True,
batch="leading", expr=KERNEL, self=lambda xp, g: xp.view_as_real(g))


@public(
    out=False,
    method=False,
    samples=lambda t: [call(t(2, 3, dtype="complex64")), call(t(dtype="complex128"))],
    errors=lambda t: [(call(t(2)), RuntimeError, "only supported for complex tensors")],
)
def view_as_real(input: Any) -> Any:
    """A complex tensor's memory as a real tensor with one more dimension, of size 2: real and imaginary part.

    >>> flambeau.view_as_real(flambeau.tensor([1 + 2j])).tolist()
    [[1.0, 2.0]]
    """
    return ops.view_as_real(tensor(input, "view_as_real"))


@public(
    out=False,
    method=False,
    samples=lambda t: [call(t(3, 2)), call(t(2, dtype="float64"))],
    errors=lambda t: [(call(t(3)), RuntimeError, "last dimension of size 2")],
)
def view_as_complex(input: Any) -> Any:
    """A real tensor's memory, whose last dimension of size 2 holds pairs, as a complex tensor.

    >>> flambeau.view_as_complex(flambeau.tensor([[1., 2.]])).tolist()
    [(1+2j)]
    """
    return ops.view_as_complex(tensor(input, "view_as_complex"))


# ------------------------------------------------------------------------------------- in place


def reshape_itself(op: Op, self: TensorBase, params: tuple | None) -> TensorBase:
    """Make self the view of itself that op gives: the same tensor object with another shape and history."""
    if self._array is None and hasattr(self._lazy, "become"):
        return self._lazy.become(self, apply1(op, self, params))
    recording = grad_enabled() and requires(self)
    check_writable(op, self, requires(self), recording)
    history = requires(self) and self._node is not None and self._view is None
    recording = recording or history        # even in no_grad mode: a gradient must find the shape that it belongs to
    old = grad_fn(self) if recording else None
    before = remake(memory_of(self))
    if recording:
        before._node, before._nr, before._rg = old, self._nr, True
    shape = shape_of(self)
    mode = set_grad_enabled(recording)
    try:
        out = apply1(op, before, params)
    finally:
        set_grad_enabled(mode)
    if self._tangent is not None:
        self._tangent = apply1(op, self._tangent, params)
    set_memory(self, memory_of(out))
    wrote(op, self, out._node)
    if self._view is None:
        cell = cell_of(self)
        cell.reshaped = cell.stamp & VERSION_MASK
    if recording:
        if self._retains:
            move_retain(self, old, out._node, 0)
        self._node, self._nr, self._rg = out._node, 0, True
    v = self._view
    if v is not None:
        # In no_grad mode the node is now one step behind: a version that cannot be the memory's has it made again
        self._view = View(v.base, v, op, params, shape, v.creation, self._cell.stamp if recording else self._cell.stamp - 1)
    return self


def _twin(op: Op, node: str) -> Op:
    """The same view, under the name that the in-place call has in the graph."""
    formula = op.formulas[0]
    assert formula is not None
    return primitive(op.name + "_", op.kernel, params=op.param_names, view=True, meta=op.meta, expr=KERNEL, node=node,
                     self=formula.fn)


_T, _TRANSPOSE, _UNSQUEEZE = (
    _twin(T, "TBackward1"),
    _twin(TRANSPOSE, "TransposeBackward1"),
    _twin(UNSQUEEZE, "UnsqueezeBackward1"),
)
_SQUEEZE, _SQUEEZE_DIM = _twin(SQUEEZE, "SqueezeBackward3"), _twin(SQUEEZE_DIM, "SqueezeBackward4")
_SQUEEZE_DIMS, _AS_STRIDED = _twin(SQUEEZE_DIMS, "SqueezeBackward5"), _twin(AS_STRIDED, "AsStridedBackward1")


def _itself(name: str, plan: Callable[..., tuple[Op, tuple | None]], samples: Callable, doc: str,
            namespaces: tuple = ()) -> None:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        op, params = plan(self, *args, **kwargs)
        return reshape_itself(op, self, params)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = doc
    public(name=name, namespaces=namespaces, out=False, samples=samples, differentiable=False)(method)


def _ndim(t: TensorBase) -> int:
    return len(shape_of(t))


def _transpose_plan(self: TensorBase, dim0: int, dim1: int) -> tuple:
    return _TRANSPOSE, (one_dim(dim0, _ndim(self)), one_dim(dim1, _ndim(self)))


def _t_plan(self: TensorBase) -> tuple:
    if _ndim(self) > 2:
        raise RuntimeError(f"t_() expects a tensor with <= 2 dimensions, but self is {_ndim(self)}D")
    return _T, None


def _squeeze_plan(self: TensorBase, dim: Any = None) -> tuple:
    if dim is None:
        return _SQUEEZE, None
    if isinstance(dim, (tuple, list)):
        return _SQUEEZE_DIMS, (many_dims(dim, _ndim(self)),)
    return _SQUEEZE_DIM, (one_dim(dim, _ndim(self)),)


def _unsqueeze_plan(self: TensorBase, dim: int) -> tuple:
    return _UNSQUEEZE, (one_dim(dim, _ndim(self) + 1),)


def _as_strided_plan(self: TensorBase, size: Any, stride: Any, storage_offset: int | None = None) -> tuple:
    return _AS_STRIDED, _strided_params(self, size, stride, storage_offset)


for _name in ("transpose_", "swapaxes_", "swapdims_"):
    _itself(
        _name,
        _transpose_plan,
        lambda t: [call(t(2, 3), 0, 1), call(t(2, 3, 4), -1, 0)],
        "Exchange two dimensions of the tensor itself.",
    )
_itself("t_", _t_plan, lambda t: [call(t(2, 3)), call(t(3))], "Transpose the matrix itself.")
_itself(
    "squeeze_",
    _squeeze_plan,
    lambda t: [call(t(1, 3, 1)), call(t(1, 3, 1), 0), call(t(1, 3, 1), (0, 1))],
    "Remove dimensions of size 1 from the tensor itself.",
)
_itself(
    "unsqueeze_",
    _unsqueeze_plan,
    lambda t: [call(t(2, 3), 1), call(t(), -1)],
    "Give the tensor itself a new dimension of size 1.",
)
_itself(
    "as_strided_",
    _as_strided_plan,
    lambda t: [call(t(6), (2, 2), (1, 2)), call(t(6), (2,), (1,), 3)],
    "Give the tensor itself other sizes and strides over its storage.",
    ("torch",),
)
