"""Activations under their names in `torch`, with in-place forms: celu, selu, rrelu, threshold_."""

from __future__ import annotations

from typing import Any

from . import activations
from ._record import call, public


@public(method=False, out=False, inplace=True, samples=lambda t: [call(t(3, 4)), call(t(3, 4), 0.5), call(t(0, 2))],
        errors=lambda t: [(call(t(3), 0.0), RuntimeError, "alpha|ZeroDivisionError")])
def celu(input: Any, alpha: float = 1.0) -> Any:
    """`nn.functional.celu`: max(0, input) + min(0, alpha * (exp(input / alpha) - 1)).

    >>> flambeau.celu(flambeau.tensor([0., 2.])).tolist()
    [0.0, 2.0]
    """
    return activations.celu(input, alpha)


@public(method=False, out=False, inplace=True, samples=lambda t: [call(t(3, 4)), call(t(0, 2))])
def selu(input: Any) -> Any:
    """`nn.functional.selu`: the ELU whose constants keep mean 0 and variance 1 through layers.

    >>> flambeau.selu(flambeau.tensor([0.])).tolist()
    [0.0]
    """
    return activations.selu(input)


@public(method=False, out=False, random=True, samples=lambda t: [call(t(3, 4)), call(t(3, 4), 0.1, 0.2)],
        errors=lambda t: [(call(t(3), 0.5, 0.1), RuntimeError, "less than or equal to")])
def rrelu(input: Any, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False) -> Any:
    """`nn.functional.rrelu`: input where positive, else times a slope, drawn from [lower, upper] in training.

    >>> flambeau.rrelu(flambeau.tensor([2.])).tolist()
    [2.0]
    """
    return activations.rrelu(input, lower, upper, training)


@public(method=False, out=False, random=True, samples=lambda t: [call(t(3, 4, grad=False))])
def rrelu_(input: Any, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False) -> Any:
    """`rrelu` in place.

    >>> flambeau.rrelu_(flambeau.tensor([2.])).tolist()
    [2.0]
    """
    return activations.rrelu(input, lower, upper, training, True)


@public(method=False, out=False, samples=lambda t: [call(t(3, 4, grad=False), 0.1, 5.0)])
def threshold_(input: Any, threshold: float, value: float) -> Any:
    """`threshold` in place: elements that are not above threshold become value.

    >>> flambeau.threshold_(flambeau.tensor([0., 2.]), 1.0, 9.0).tolist()
    [9.0, 2.0]
    """
    return activations._run(activations.THRESHOLD, input, (threshold, value), True, "threshold")
