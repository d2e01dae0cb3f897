"""Fronts of common functions of nn.functional, as in `_functions`: a file of its own, since some have the same names."""
from __future__ import annotations

from typing import Any, Final, cast

from flambeau.core.apply import apply1, apply2, apply_n
from flambeau.core.objects import TensorBase
from flambeau.core.op import slot
from flambeau.core.state import state

from ._functions import known_shape
from ._hot import LOG_SOFTMAX, SOFTMAX, along, single

LINEAR: Final = slot("linear_bias")
LINEAR_NO_BIAS: Final = slot("linear")
RELU: Final = slot("relu")
MSE: Final = slot("mse_loss")
MEAN: Final = ("mean",)


def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    """input @ weight.T + bias."""
    s = known_shape(input)
    w = known_shape(weight)
    if s is not None and w is not None and len(s) == 2 and len(w) == 2:
        if bias is None:
            return apply2(LINEAR_NO_BIAS, input, weight)
        if isinstance(bias, TensorBase):
            return apply_n(LINEAR, [bias, input, weight])
    return state.function("nn.functional.linear")(input, weight, bias)


def relu(input: Any, inplace: Any = False) -> Any:
    """max(input, 0), elementwise."""
    if not inplace and isinstance(input, TensorBase) and single(input):
        return apply1(RELU, input)
    return state.function("nn.functional.relu")(input, inplace)


def softmax(input: Any, dim: Any = None, _stacklevel: Any = 3, dtype: Any = None) -> Any:
    """exp(input) / sum(exp(input)) along dim."""
    if dtype is None and isinstance(input, TensorBase):
        p = along(input, dim)
        if p is not None:
            return apply1(SOFTMAX, input, p)
    return state.function("nn.functional.softmax")(input, dim, _stacklevel, dtype)


def log_softmax(input: Any, dim: Any = None, _stacklevel: Any = 3, dtype: Any = None) -> Any:
    """input - log(sum(exp(input))) along dim."""
    if dtype is None and isinstance(input, TensorBase):
        p = along(input, dim)
        if p is not None:
            return apply1(LOG_SOFTMAX, input, p)
    return state.function("nn.functional.log_softmax")(input, dim, _stacklevel, dtype)


def mse_loss(input: Any, target: Any, size_average: Any = None, reduce: Any = None, reduction: Any = "mean",
             weight: Any = None) -> Any:
    """(input - target)^2, averaged."""
    if size_average is None and reduce is None and weight is None and reduction == "mean":
        s = known_shape(input)
        if s is not None and s == known_shape(target):
            x = cast(TensorBase, input)
            y = cast(TensorBase, target)
            if single(x) and single(y) and x._dtype is y._dtype:
                return apply_n(MSE, [x, y], MEAN)
    return state.function("nn.functional.mse_loss")(input, target, size_average, reduce, reduction, weight)


FUNCTIONAL: Final = {"linear": linear, "relu": relu, "softmax": softmax, "log_softmax": log_softmax, "mse_loss": mse_loss}
