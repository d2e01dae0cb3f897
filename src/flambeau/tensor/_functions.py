"""Fronts of common functions whose arguments need more than one look: compiled, with the usual call at the top.

As in `_hot`, everything unusual goes to the record's own function, found by `state.function`; here are only short cuts
to the same primitives.
"""
from __future__ import annotations

from typing import Any, Final

from flambeau.core.apply import apply1, apply2, apply_n
from flambeau.core.objects import TensorBase
from flambeau.core.op import Op, slot
from flambeau.core.state import state

from ._hot import ABSENT, ADD, DIV, LOG_SOFTMAX, MM, SOFTMAX, STACK_DIM, SUB, along, single

CAT: Final = slot("cat")
STACK: Final = slot("stack")


def given(tensors: Any, dim: Any) -> bool:
    """Whether a function gets a list or tuple, and dim as a number."""
    return (type(tensors) is list or type(tensors) is tuple) and type(dim) is int and len(tensors) != 0


def known_shape(x: Any) -> Any:
    """The shape of a tensor that has an array, else None."""
    if not isinstance(x, TensorBase):
        return None
    s = x._shape
    if s is None:
        a = x._array
        if a is None:
            return None
        s = a.shape
        x._shape = s
    elif x._array is None:
        return None
    return s


def cat(tensors: Any, dim: Any = 0, *, out: Any = None, axis: Any = None) -> Any:
    """The tensors joined along an existing dimension."""
    if out is None and axis is None and given(tensors, dim):
        n: int = -1
        d: int = dim
        sizes: list[Any] = []
        for x in tensors:
            s = known_shape(x)
            if s is None:
                n = -1
                break
            if n < 0:
                n = len(s)
                if d < 0:
                    d += n
                if d < 0 or d >= n:
                    n = -1
                    break
            elif len(s) != n:
                n = -1
                break
            sizes.append(s[d])
        if n > 0:
            return apply_n(CAT, tensors if type(tensors) is list else list(tensors), (d, tuple(sizes)))
    return slow_join("cat", tensors, dim, out, axis)


def stack(tensors: Any, dim: Any = 0, *, out: Any = None, axis: Any = None) -> Any:
    """Tensors of one shape joined along a new dimension."""
    if out is None and axis is None and given(tensors, dim):
        n: int = -1
        for x in tensors:
            s = known_shape(x)
            if s is None:
                n = -1
                break
            n = len(s) + 1
        d: int = dim
        if d < 0:
            d += n
        if n > 0 and 0 <= d < n:
            return apply_n(STACK, tensors if type(tensors) is list else list(tensors), STACK_DIM if d == 0 else (d,))
    return slow_join("stack", tensors, dim, out, axis)


def slow_join(name: str, tensors: Any, dim: Any, out: Any, axis: Any) -> Any:
    kwargs: dict[str, Any] = {"dim": dim} if axis is None else {"axis": axis}
    if out is not None:
        kwargs["out"] = out
    return state.function(name)(tensors, **kwargs)


def soft(op: Op, name: str, input: Any, dim: Any, dtype: Any, out: Any) -> Any:
    if out is None and dtype is None and isinstance(input, TensorBase):
        p = along(input, dim)
        if p is not None:
            return apply1(op, input, p)
    kwargs: dict[str, Any] = {"dim": dim, "dtype": dtype}
    if out is not None:
        kwargs["out"] = out
    return state.function(name)(input, **kwargs)


def softmax(input: Any, dim: Any, dtype: Any = None, *, out: Any = None) -> Any:
    """exp(input) / sum(exp(input)) along dim, without overflow."""
    return soft(SOFTMAX, "softmax", input, dim, dtype, out)


def log_softmax(input: Any, dim: Any, dtype: Any = None, *, out: Any = None) -> Any:
    """input - log(sum(exp(input))) along dim, without overflow or underflow."""
    return soft(LOG_SOFTMAX, "log_softmax", input, dim, dtype, out)


def matmul(input: Any, other: Any, *, out: Any = None) -> Any:
    """Matrix product."""
    if out is None and isinstance(input, TensorBase) and isinstance(other, TensorBase):
        a = input._array
        b = other._array
        if a is not None and b is not None and a.ndim == 2 and b.ndim == 2:
            if single(input) and single(other) and input._dtype is other._dtype and a.shape[1] == b.shape[0]:
                return apply2(MM, input, other)
    return state.function("matmul")(input, other, out=out)


def add(input: Any, other: Any, tensor: Any = ABSENT, *, alpha: Any = 1, out: Any = None) -> Any:
    """input + alpha * other"""
    if tensor is not ABSENT:      # the old order, (alpha, other)
        return state.function("add")(input, other, tensor, out=out, **({"alpha": alpha} if alpha != 1 else {}))
    if out is None and type(alpha) is int and alpha == 1:
        r = apply2(ADD, input, other)
        if r is not NotImplemented:
            return r
    return state.function("add")(input, other, alpha=alpha, out=out)


def sub(input: Any, other: Any, tensor: Any = ABSENT, *, alpha: Any = 1, out: Any = None) -> Any:
    """input - alpha * other"""
    if tensor is not ABSENT:      # the old order, (alpha, other)
        return state.function("sub")(input, other, tensor, out=out, **({"alpha": alpha} if alpha != 1 else {}))
    if out is None and type(alpha) is int and alpha == 1:
        r = apply2(SUB, input, other)
        if r is not NotImplemented:
            return r
    return state.function("sub")(input, other, alpha=alpha, out=out)


def div(input: Any, other: Any, *, rounding_mode: Any = None, out: Any = None) -> Any:
    """input / other"""
    if out is None and rounding_mode is None:
        r = apply2(DIV, input, other)
        if r is not NotImplemented:
            return r
    return state.function("div")(input, other, rounding_mode=rounding_mode, out=out)


TORCH: Final = {"cat": cat, "concat": cat, "concatenate": cat, "stack": stack, "softmax": softmax,
                "log_softmax": log_softmax, "matmul": matmul, "add": add, "sub": sub, "subtract": sub, "div": div,
                "divide": div}
