"""Fronts of common methods whose arguments need more than one look: compiled, with the usual call at the top.

Everything unusual (keywords, sequences, odd dtypes, meta tensors) goes to the record's own function, found by
`state.method`. So the rules stand in `ops` alone; here are only short cuts to the same primitives.
"""
from __future__ import annotations

from typing import Any, Final

from mypy_extensions import mypyc_attr

from flambeau.core.apply import apply1, apply2, apply_split
from flambeau.core.basics import Basics
from flambeau.core.engine import run_backward
from flambeau.core.inplace import apply_inplace2
from flambeau.core.objects import TensorBase, shape_of
from flambeau.core.op import slot
from flambeau.core.state import state

ADD: Final = slot("add")
SUB: Final = slot("sub")
DIV: Final = slot("div")
MM: Final = slot("mm")
SUM_ALL: Final = slot("sum_all")
SUM: Final = slot("sum")
MEAN_ALL: Final = slot("mean_all")
MEAN: Final = slot("mean")
MAX_ALL: Final = slot("max_all")
MIN_ALL: Final = slot("min_all")
VIEW: Final = slot("view")
T: Final = slot("t")
TRANSPOSE: Final = slot("transpose")
UNSQUEEZE: Final = slot("unsqueeze")
SELECT: Final = slot("select")
SLICE: Final = slot("slice")
CLONE: Final = slot("clone")
CLAMP: Final = slot("clamp")
SOFTMAX: Final = slot("softmax")
LOG_SOFTMAX: Final = slot("log_softmax")
SPLIT: Final = slot("split")
STACK_DIM: Final = (0,)
PRESERVE: Final = ("preserve",)
ABSENT: Final = object()        # an argument that was not given: None has a meaning


def slow(name: str, args: Any, kwargs: Any) -> Any:
    """The record's function."""
    return state.method(name)(*args, **kwargs)


def plain_sizes(sizes: Any) -> bool:
    """Whether all are Python integers, and there is one."""
    if len(sizes) == 0:
        return False
    for s in sizes:
        if type(s) is not int:
            return False
    return True


def options(dim: Any, keepdim: Any, dtype: Any, axis: Any, keepdims: Any) -> Any:
    """The arguments of a reduction that were given."""
    given: dict[str, Any] = {}
    for name, value in (("dim", dim), ("keepdim", keepdim), ("dtype", dtype), ("axis", axis), ("keepdims", keepdims)):
        if value is not ABSENT:
            given[name] = value
    return given


def single(t: TensorBase) -> bool:
    """Whether t has an array of float32 or float64."""
    a = t._array
    if a is None:
        return False
    d = t._dtype
    if d is None:
        d = a.dtype
        t._dtype = d
    return d is state.f32 or d is state.f64


def along(t: TensorBase, dim: Any) -> Any:
    """The parameters of an operator along dim, when t is of float32 or float64 and has that dimension; else None."""
    if type(dim) is int and single(t):
        n: int = len(shape_of(t))
        if -n <= dim < n:
            return (dim,)
    return None


@mypyc_attr(allow_interpreted_subclasses=True)
class Hot(Basics):
    def backward(self, gradient: Any = None, retain_graph: Any = None, create_graph: Any = False,
                 inputs: Any = None) -> None:
        """Add to the `.grad` of leaves the gradient of this tensor.

        Args:
            gradient: the incoming gradient, of this tensor's shape; not needed for one element.
            retain_graph: keep saved values for another backward; default: create_graph.
            create_graph: record the backward itself, for higher derivatives.
            inputs: only these leaves receive `.grad`.
        """
        if gradient is None and inputs is None and create_graph is False and retain_graph is None and state.special == 0:
            if self._rg and single(self) and self.numel() == 1:
                run_backward([self], [state.xp.ones_like(self._array)], False, False, None, True)
                return
        state.backward(self, gradient, retain_graph, create_graph, inputs=inputs)

    def add(self, other: Any, tensor: Any = ABSENT, *, alpha: Any = 1) -> Any:
        """self + alpha * other"""
        if tensor is not ABSENT:      # the old order, (alpha, other)
            return slow("add", (self, other, tensor), {"alpha": alpha} if alpha != 1 else {})
        if alpha is not None and type(alpha) is int and alpha == 1:
            r = apply2(ADD, self, other)
            if r is not NotImplemented:
                return r
        return slow("add", (self, other), {"alpha": alpha})

    def sub(self, other: Any, tensor: Any = ABSENT, *, alpha: Any = 1) -> Any:
        """self - alpha * other"""
        if tensor is not ABSENT:      # the old order, (alpha, other)
            return slow("sub", (self, other, tensor), {"alpha": alpha} if alpha != 1 else {})
        if type(alpha) is int and alpha == 1:
            r = apply2(SUB, self, other)
            if r is not NotImplemented:
                return r
        return slow("sub", (self, other), {"alpha": alpha})

    def div(self, other: Any, *, rounding_mode: Any = None) -> Any:
        """self / other"""
        if rounding_mode is None:
            r = apply2(DIV, self, other)
            if r is not NotImplemented:
                return r
        return slow("div", (self, other), {"rounding_mode": rounding_mode})

    def add_(self, other: Any, tensor: Any = ABSENT, *, alpha: Any = 1) -> Any:
        """self += alpha * other"""
        if tensor is not ABSENT:      # the old order, (alpha, other)
            return slow("add_", (self, other, tensor), {"alpha": alpha} if alpha != 1 else {})
        if type(alpha) is int and alpha == 1:
            r = apply_inplace2(ADD, self, other)
            if r is not NotImplemented:
                return r
        return slow("add_", (self, other), {"alpha": alpha})

    def sub_(self, other: Any, tensor: Any = ABSENT, *, alpha: Any = 1) -> Any:
        """self -= alpha * other"""
        if tensor is not ABSENT:      # the old order, (alpha, other)
            return slow("sub_", (self, other, tensor), {"alpha": alpha} if alpha != 1 else {})
        if type(alpha) is int and alpha == 1:
            r = apply_inplace2(SUB, self, other)
            if r is not NotImplemented:
                return r
        return slow("sub_", (self, other), {"alpha": alpha})

    def div_(self, other: Any, *, rounding_mode: Any = None) -> Any:
        """self /= other"""
        if rounding_mode is None:
            r = apply_inplace2(DIV, self, other)
            if r is not NotImplemented:
                return r
        return slow("div_", (self, other), {"rounding_mode": rounding_mode})

    def __matmul__(self, other: Any) -> Any:
        if isinstance(other, TensorBase):
            a = self._array
            b = other._array
            if a is not None and b is not None and a.ndim == 2 and b.ndim == 2:
                if single(self) and single(other) and self._dtype is other._dtype and a.shape[1] == b.shape[0]:
                    return apply2(MM, self, other)
            return slow("matmul", (self, other), {})
        return NotImplemented

    def matmul(self, other: Any) -> Any:
        """Matrix product."""
        if isinstance(other, TensorBase):
            return self.__matmul__(other)
        return slow("matmul", (self, other), {})

    def sum(self, dim: Any = ABSENT, keepdim: Any = ABSENT, *, dtype: Any = ABSENT, axis: Any = ABSENT,
            keepdims: Any = ABSENT) -> Any:
        """Sum of the elements, of all or along dimensions."""
        if keepdim is ABSENT and dtype is ABSENT and axis is ABSENT and keepdims is ABSENT and single(self):
            if dim is ABSENT:
                return apply1(SUM_ALL, self)
            if type(dim) is int:
                return apply1(SUM, self, (dim, False, None))
        return slow("sum", (self,), options(dim, keepdim, dtype, axis, keepdims))

    def mean(self, dim: Any = ABSENT, keepdim: Any = ABSENT, *, dtype: Any = ABSENT, axis: Any = ABSENT,
             keepdims: Any = ABSENT) -> Any:
        """Mean of the elements, of all or along dimensions."""
        if keepdim is ABSENT and dtype is ABSENT and axis is ABSENT and keepdims is ABSENT and single(self):
            if dim is ABSENT:
                return apply1(MEAN_ALL, self)
            if type(dim) is int:
                return apply1(MEAN, self, (dim, False, None))
        return slow("mean", (self,), options(dim, keepdim, dtype, axis, keepdims))

    def max(self, dim: Any = ABSENT, keepdim: Any = ABSENT, *, other: Any = ABSENT, axis: Any = ABSENT,
            keepdims: Any = ABSENT, out: Any = ABSENT) -> Any:
        """Greatest element; along a dimension with its index; or the greater of two tensors."""
        if (dim is ABSENT and keepdim is ABSENT and other is ABSENT and axis is ABSENT and keepdims is ABSENT
                and out is ABSENT and single(self) and self._array.size != 0):
            return apply1(MAX_ALL, self)
        kwargs: dict[str, Any] = options(ABSENT, keepdim, ABSENT, axis, keepdims)
        if other is not ABSENT:
            kwargs["other"] = other
        if out is not ABSENT:
            kwargs["out"] = out
        return slow("max", (self,) if dim is ABSENT else (self, dim), kwargs)

    def min(self, dim: Any = ABSENT, keepdim: Any = ABSENT, *, other: Any = ABSENT, axis: Any = ABSENT,
            keepdims: Any = ABSENT, out: Any = ABSENT) -> Any:
        """Least element; along a dimension with its index; or the smaller of two tensors."""
        if (dim is ABSENT and keepdim is ABSENT and other is ABSENT and axis is ABSENT and keepdims is ABSENT
                and out is ABSENT and single(self) and self._array.size != 0):
            return apply1(MIN_ALL, self)
        kwargs: dict[str, Any] = options(ABSENT, keepdim, ABSENT, axis, keepdims)
        if other is not ABSENT:
            kwargs["other"] = other
        if out is not ABSENT:
            kwargs["out"] = out
        return slow("min", (self,) if dim is ABSENT else (self, dim), kwargs)

    def clamp(self, min: Any = None, max: Any = None) -> Any:
        """min(max(self, min), max), elementwise."""
        if single(self) and (type(min) is int or type(min) is float or min is None) and (
                type(max) is int or type(max) is float or (max is None and min is not None)):
            return apply1(CLAMP, self, (min, max))
        return slow("clamp", (self, min, max), {})

    def softmax(self, dim: Any, dtype: Any = None) -> Any:
        """exp(self) / sum(exp(self)) along dim."""
        if dtype is None:
            p = along(self, dim)
            if p is not None:
                return apply1(SOFTMAX, self, p)
        return slow("softmax", (self, dim, dtype), {})

    def log_softmax(self, dim: Any, dtype: Any = None) -> Any:
        """self - log(sum(exp(self))) along dim."""
        if dtype is None:
            p = along(self, dim)
            if p is not None:
                return apply1(LOG_SOFTMAX, self, p)
        return slow("log_softmax", (self, dim, dtype), {})

    def chunk(self, chunks: Any, dim: Any = 0) -> Any:
        """Views of at most `chunks` parts of a dimension."""
        a = self._array
        if a is not None and type(chunks) is int and type(dim) is int and chunks > 0:
            n: int = a.ndim
            if -n <= dim < n:
                d: int = dim if dim >= 0 else dim + n
                size: int = a.shape[d]
                if size != 0:
                    return tuple(apply_split(SPLIT, self, ((size + chunks - 1) // chunks, d)))
        return slow("chunk", (self, chunks, dim), {})

    def clone(self, *, memory_format: Any = None) -> Any:
        """A copy that gradients flow through."""
        if memory_format is None and self._array is not None:
            return apply1(CLONE, self, PRESERVE)
        return slow("clone", (self,), {"memory_format": memory_format} if memory_format is not None else {})

    def view(self, *shape: Any, **kwargs: Any) -> Any:
        """The same memory under another shape (or dtype)."""
        if len(kwargs) == 0 and self._array is not None and plain_sizes(shape):
            return apply1(VIEW, self, (shape,))
        return slow("view", (self, *shape), kwargs)

    def reshape(self, *shape: Any, **kwargs: Any) -> Any:
        """The elements in order under another shape: a view where the strides allow one."""
        a = self._array
        if len(kwargs) == 0 and a is not None and plain_sizes(shape) and a.flags.c_contiguous:
            return apply1(VIEW, self, (shape,))
        return slow("reshape", (self, *shape), kwargs)

    def t(self) -> Any:
        """The transpose of a matrix."""
        a = self._array
        if a is not None and a.ndim == 2:
            return apply1(T, self)
        return slow("t", (self,), {})

    def transpose(self, dim0: Any, dim1: Any) -> Any:
        """A view with two dimensions exchanged."""
        a = self._array
        if a is not None and type(dim0) is int and type(dim1) is int:
            n: int = a.ndim
            if -n <= dim0 < n and -n <= dim1 < n:
                return apply1(TRANSPOSE, self, (dim0 if dim0 >= 0 else dim0 + n, dim1 if dim1 >= 0 else dim1 + n))
        return slow("transpose", (self, dim0, dim1), {})

    def unsqueeze(self, dim: Any) -> Any:
        """A view with a new dimension of size 1."""
        a = self._array
        if a is not None and type(dim) is int:
            n: int = a.ndim
            if -n - 1 <= dim <= n:
                return apply1(UNSQUEEZE, self, (dim if dim >= 0 else dim + n + 1,))
        return slow("unsqueeze", (self, dim), {})

    def __getitem__(self, key: Any) -> Any:
        if self._array is None:
            return state.getitem(self, key)
        shape = self._shape
        if shape is None:
            shape = self._array.shape
        if len(shape) != 0:
            n: int = shape[0]
            if type(key) is int:
                if -n <= key < n:
                    return apply1(SELECT, self, (0, key))
            elif type(key) is slice:
                start = key.start
                stop = key.stop
                if key.step is None and (start is None or type(start) is int) and (stop is None or type(stop) is int):
                    lo: int = 0 if start is None else start
                    hi: int = n if stop is None else stop
                    if lo < 0:
                        lo += n
                        if lo < 0:
                            lo = 0
                    if hi < 0:
                        hi += n
                    if hi > n:
                        hi = n
                    if lo > n:
                        lo = n
                    if hi < lo:
                        hi = lo
                    return apply1(SLICE, self, (0, lo, hi, 1))
        return state.getitem(self, key)
