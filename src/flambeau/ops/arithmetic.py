"""add, sub, mul, div, neg, and the comparisons."""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.apply import apply2
from flambeau.core.objects import TensorBase, dtype_of
from flambeau.core.state import state

from ._pointwise import binary, binary_samples, unary
from ._record import call, ops, public


def _conj(a: np.ndarray) -> np.ndarray:
    return np.conjugate(a) if a.dtype.kind == "c" else a


def _alpha_samples(t: Any) -> list:
    return [*binary_samples()(t), call(t(2, 3), t(2, 3), alpha=2.5)]


ADD = binary("add", np.add, front=False, doc="", expr="self + other", self=lambda xp, g: g, other=lambda xp, g: g)
SUB = binary("sub", np.subtract, front=False, doc="", expr="self - other",
             self=lambda xp, g: g, other=lambda xp, g: -g)
MUL = binary(
    "mul", np.multiply, aliases=("multiply",), expr="self * other",
    doc="""input * other, elementwise, with broadcasting.

    Args:
        input: tensor of shape (*).
        other: tensor that broadcasts with it, or a number.

    Returns:
        Tensor of the broadcast shape, of the promoted dtype.

    >>> flambeau.mul(flambeau.tensor([1., 2.]), 3).tolist()
    [3.0, 6.0]
    """,
    self=lambda xp, g, other: g * xp.conj(other), other=lambda xp, g, self: g * xp.conj(self))
DIV = binary("div", np.true_divide, front=False, doc="", expr="self / other", float_result=True,
             self=lambda xp, g, other: g / xp.conj(other),
             other=lambda xp, g, self, other: -g * xp.conj((self / other) / other))

unary("neg", np.negative, float_result=False, aliases=("negative",), expr="-self",
      doc="""-input, elementwise.

      >>> flambeau.neg(flambeau.tensor([1., -2.])).tolist()
      [-1.0, 2.0]
      """,
      self=lambda xp, g: -g)


def _scaled(other: Any, alpha: Any) -> Any:
    if isinstance(other, TensorBase):
        if isinstance(alpha, float) and dtype_of(other).kind in "bui":
            raise RuntimeError("For integral input tensors, argument alpha must not be a floating point number.")
        return other if alpha == 1 else apply2(MUL, other, alpha)
    return other if alpha == 1 else other * alpha


def _call(op: Any, input: Any, other: Any) -> Any:
    r = apply2(op, input, other)
    if r is NotImplemented:
        raise TypeError(
            f"{op.name}() takes tensors and numbers, not {type(input).__name__} and {type(other).__name__}")
    return r


@public(op=ADD, inplace=True, samples=_alpha_samples)
def add(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """input + alpha * other, elementwise, with broadcasting.

    >>> flambeau.add(flambeau.tensor([1., 2.]), flambeau.tensor([10., 20.]), alpha=2).tolist()
    [21.0, 42.0]
    """
    return _call(ADD, input, _scaled(other, alpha))


@public(op=SUB, inplace=True, aliases=("subtract",), samples=_alpha_samples)
def sub(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """input - alpha * other, elementwise, with broadcasting.

    >>> flambeau.sub(flambeau.tensor([1., 2.]), 1).tolist()
    [0.0, 1.0]
    """
    return _call(SUB, input, _scaled(other, alpha))


@public(op=DIV, inplace=True, aliases=("divide",), samples=binary_samples(0.5, 3.0))
def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Any:
    """input / other, elementwise, with broadcasting.

    Args:
        rounding_mode: None for the true quotient, "trunc" towards zero, "floor" downwards; both keep integers.

    Raises:
        RuntimeError: another rounding_mode.

    >>> flambeau.div(flambeau.tensor([7, -7]), 2, rounding_mode="trunc").tolist()
    [3, -3]
    """
    if rounding_mode is None:
        return _call(DIV, input, other)
    if rounding_mode == "floor":
        return ops.floor_divide(input, other)
    if rounding_mode == "trunc":
        return ops.trunc_divide(input, other)
    raise RuntimeError(
        f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{rounding_mode}'")


for _name, _ufunc, _symbol, _alias in (
    ("eq", np.equal, "==", ()), ("ne", np.not_equal, "!=", ("not_equal",)), ("lt", np.less, "<", ("less",)),
    ("le", np.less_equal, "<=", ("less_equal",)), ("gt", np.greater, ">", ("greater",)),
    ("ge", np.greater_equal, ">=", ("greater_equal",)),
):
    binary(_name, _ufunc, bool_out=True, aliases=_alias, expr=f"self {_symbol} other", differentiable=False,
           doc=f"""Whether input {_symbol} other, elementwise, with broadcasting; a bool tensor.

           >>> flambeau.{_name}(flambeau.tensor([1, 2, 3]), 2).dtype
           torch.bool
           """)

for _name, _ufunc, _symbol in (("bitwise_and", np.bitwise_and, "&"), ("bitwise_or", np.bitwise_or, "|"),
                               ("bitwise_xor", np.bitwise_xor, "^")):
    binary(_name, _ufunc, expr=f"self {_symbol} other", differentiable=False,
           samples=lambda t: [call(t(3, 4, dtype="int64"), t(4, dtype="int64")), call(t(3, dtype="bool"), t(3, dtype="bool"))],
           doc=f"""input {_symbol} other, elementwise, for integers and bools.

           >>> flambeau.{_name}(flambeau.tensor([True, False]), True).dtype
           torch.bool
           """)

state.xp.conj = _conj
ops.conj = lambda t: t
