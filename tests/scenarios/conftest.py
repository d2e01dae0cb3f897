"""`both`: a program, a function of the library, gives the same numbers with PyTorch and with flambeau."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

import flambeau
import flambeau.nn
import flambeau.optim
import flambeau.utils.data


def plain(value: Any) -> Any:
    """Tensors and containers as nested lists of numbers."""
    if hasattr(value, "detach"):
        return plain(value.detach().tolist())
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


def differences(a: Any, b: Any, rel: float, where: str = "") -> list[str]:
    """Where two plain values differ."""
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return [d for i, (x, y) in enumerate(zip(a, b, strict=True)) for d in differences(x, y, rel, f"{where}[{i}]")]
    if isinstance(a, dict) and isinstance(b, dict) and list(a) == list(b):
        return [d for k in a for d in differences(a[k], b[k], rel, f"{where}[{k!r}]")]
    if isinstance(a, float) and isinstance(b, float):
        close = a == b or (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=rel, abs_tol=rel)
        return [] if close else [f"{where}: PyTorch {a!r}, flambeau {b!r}"]
    return [] if type(a) is type(b) and a == b else [f"{where}: PyTorch {a!r}, flambeau {b!r}"]


@pytest.fixture
def both() -> Callable:
    def check(program: Callable, rel: float = 1e-5) -> Any:
        results = []
        for library in (torch, flambeau):
            library.manual_seed(0)
            results.append(plain(program(library)))
        assert not (found := differences(*results, rel)), "\n".join(found[:10])
        return results[1]

    return check
