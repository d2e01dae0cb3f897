"""Records of pointwise operators: one line each.

`unary` and `binary` register the primitive and the public function together. Their methods, in-place methods
and functions are compiled from the record (tools/generate.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from flambeau.core.apply import apply1, apply2
from flambeau.core.op import Op

from ._record import call, primitive, public


def unary_samples(low: float = -2.0, high: float = 2.0) -> Callable:
    """Samples of an operator of one tensor with values in [low, high]."""

    def samples(t: Any) -> list:
        return [call(t(3, 4, low=low, high=high)), call(t(low=low, high=high)), call(t(0, 2, low=low, high=high)),
                call(t(4, 3, low=low, high=high, transposed=True))]

    return samples


def binary_samples(low: float = -2.0, high: float = 2.0, number: Any = 1.5) -> Callable:
    """Samples of an operator of two tensors with values in [low, high]: same shape, broadcast, number."""

    def samples(t: Any) -> list:
        kw = {"low": low, "high": high}
        return [call(t(3, 4, **kw), t(3, 4, **kw)), call(t(3, 4, **kw), t(4, **kw)), call(t(3, 1, **kw), t(2, 1, 4, **kw)),
                call(t(3, 4, **kw), t(**kw)), call(t(2, 3, **kw), number)]

    return samples


def unary(
    name: str,
    kernel: Callable,
    *,
    doc: str,
    expr: str,
    aliases: Sequence[str] = (),
    namespaces: Sequence[str] = ("torch",),
    samples: Callable | None = None,
    errors: Callable | None = None,
    float_result: bool = True,
    same_dtype: bool = True,
    inplace: bool = True,
    method: bool = True,
    node: str | None = None,
    differentiable: bool | None = None,
    bool_out: bool = False,
    **formulas: Callable,
) -> Op:
    """Register a pointwise operator of one tensor and its public function.

    The kernel may be a NumPy ufunc (then it also serves in-place) or a function of one array. Real dtypes the
    ufunc lacks (bool, integers) are computed in the default float dtype when `float_result`.
    """
    direct = kernel if isinstance(kernel, np.ufunc) and not bool_out else None
    op = primitive(name if "torch" in namespaces else f"{namespaces[0]}.{name}".replace("nn.functional.", "").replace(
        "special.", "special_"), kernel, pointwise=True, same_dtype=same_dtype and not bool_out, float_result=float_result,
        bool_out=bool_out, inplace=direct, expr=expr, node=node, differentiable=differentiable, **formulas)

    def fn(input: Any) -> Any:
        return apply1(op, input)

    fn.__name__ = fn.__qualname__ = name
    fn.__doc__ = doc
    public(op=op, name=name, namespaces=namespaces, method=method, inplace=inplace, aliases=aliases,
           samples=samples or unary_samples(), errors=errors, differentiable=op.differentiable)(fn)
    return op


def binary(
    name: str,
    kernel: Callable,
    *,
    doc: str,
    expr: str,
    aliases: Sequence[str] = (),
    namespaces: Sequence[str] = ("torch",),
    samples: Callable | None = None,
    errors: Callable | None = None,
    float_result: bool = False,
    bool_out: bool = False,
    same_dtype: bool = True,
    inplace: bool = True,
    front: bool = True,
    node: str | None = None,
    differentiable: bool | None = None,
    **formulas: Callable,
) -> Op:
    """Register a pointwise operator of two tensors (or a tensor and a number) and its public function.

    With `front=False` only the primitive is made: the family writes the public function, because it takes more
    arguments.
    """
    direct = kernel if isinstance(kernel, np.ufunc) and not bool_out else None
    op = primitive(name, kernel, inputs=("self", "other"), pointwise=True, same_dtype=same_dtype and not bool_out,
                   float_result=float_result, bool_out=bool_out, inplace=direct, expr=expr, node=node,
                   differentiable=differentiable, **formulas)
    if not front:
        return op

    def fn(input: Any, other: Any) -> Any:
        r = apply2(op, input, other)
        if r is NotImplemented:
            raise TypeError(f"{name}() takes tensors and numbers, not {type(input).__name__} and {type(other).__name__}")
        return r

    fn.__name__ = fn.__qualname__ = name
    fn.__doc__ = doc
    public(op=op, name=name, namespaces=namespaces, inplace=inplace, aliases=aliases,
           samples=samples or binary_samples(), errors=errors, differentiable=op.differentiable)(fn)
    return op
