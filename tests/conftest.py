"""`both`: run a function with flambeau and with PyTorch, and check that they give the same answer."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import flambeau
import flambeau.nn
import flambeau.optim
import flambeau.utils.data

_KINDS = (RuntimeError, ValueError, TypeError, IndexError, KeyError, AttributeError, AssertionError,
          NotImplementedError)


def plain(value: Any) -> Any:
    """Tensors as (dtype, shape, numbers); containers gone through."""
    if hasattr(value, "detach"):
        value = value.detach()
        name = str(value.dtype).split(".")[-1]
        numbers = value.float() if name in ("bfloat16", "float16") else value
        return (name, tuple(value.shape), numbers.tolist())
    if isinstance(value, dict):
        return {key: plain(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


def close(a: Any, b: Any, tolerance: float) -> bool:
    if isinstance(a, (list, tuple)):
        same = isinstance(b, (list, tuple)) and len(a) == len(b)
        return same and all(close(x, y, tolerance) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(close(a[k], b[k], tolerance) for k in a)
    if isinstance(a, (float, complex)) and not isinstance(a, bool):
        return b == pytest.approx(a, rel=tolerance, abs=tolerance, nan_ok=True)
    return type(a) is type(b) and a == b


def outcome(fn: Callable, library: Any) -> tuple:
    library.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ("value", plain(fn(library)))
        except _KINDS as error:
            kind = next(k for k in reversed(_KINDS) if isinstance(error, k))
            return ("error", kind.__name__)


@pytest.fixture
def both() -> Callable:
    import torch  # here: tests that have no need of PyTorch run without it

    def check(fn: Callable, tolerance: float = 1e-5) -> Any:
        """fn(library) gives the same value, or an error of the same kind, with both libraries."""
        expected, got = outcome(fn, torch), outcome(fn, flambeau)
        assert close(expected, got, tolerance), f"PyTorch: {expected}\nflambeau: {got}"
        return got[1]

    return check
