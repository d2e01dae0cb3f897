"""Evaluates one expression under flambeau and under PyTorch, and compares what comes out.

Values are compared as printed, together with dtype, shape and strides; errors by their type (ours may be a subclass)
and, when given, by words of the message.
"""

from __future__ import annotations

import copy
import pickle
import warnings
from typing import Any

import numpy as np
import torch

import flambeau


def evaluate(library: Any, setup: str, expression: str) -> Any:
    """("value", facts...) or ("error", exception)."""
    names: dict[str, Any] = {"torch": library, "np": np, "copy": copy, "pickle": pickle}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(setup, names)
        try:
            value = eval(expression, names)
        except Exception as error:      # the exception is the result
            return "error", error
    return "value", facts(value)


def facts(value: Any) -> Any:
    """What must agree."""
    if isinstance(value, (flambeau.Tensor, torch.Tensor)):
        strides = value.stride() if value.numel() > 1 else ()
        return repr(value), str(value.dtype), tuple(value.shape), strides, value.requires_grad, value.is_leaf
    if isinstance(value, np.ndarray):
        return value.dtype, value.tolist()
    if isinstance(value, (tuple, list)):
        return type(value).__name__, [facts(v) for v in value]
    return type(value).__name__.lower().lstrip("_"), repr(value)


def check(expression: str, setup: str = "") -> None:
    """Assert that both libraries agree on the expression."""
    expected, got = evaluate(torch, setup, expression), evaluate(flambeau, setup, expression)
    if expected[0] == "error":
        assert got[0] == "error", f"PyTorch raises {expected[1]!r}, flambeau gives {got[1]}"
        assert isinstance(got[1], type(expected[1])), f"PyTorch raises {expected[1]!r}, flambeau {got[1]!r}"
        assert str(got[1]), "an error without a message"
        return
    assert got[0] == "value", f"PyTorch gives {expected[1]}, flambeau raises {got[1]!r}"
    assert got[1] == expected[1]
