"""Run the same lines on torch and on flambeau and compare what they give."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import flambeau

torch.set_num_threads(1)


def plain(value: Any) -> Any:
    """Tensors as (dtype, nested list); containers element by element."""
    if isinstance(value, (torch.Tensor, flambeau.Tensor)):
        return ("tensor", str(value.dtype), value.detach().tolist())
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


def same(a: Any, b: Any, rtol: float = 1e-6) -> bool:
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(same(x, y, rtol) for x, y in zip(a, b, strict=True))
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(same(x, y, rtol) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k], rtol) for k in a)
    if isinstance(a, (float, complex)) and isinstance(b, (float, complex)):
        return bool(np.isclose(a, b, rtol=rtol, atol=1e-7, equal_nan=True))
    return type(a) is type(b) and a == b


def run(fn: Callable, lib: Any) -> Any:
    try:
        with warnings.catch_warnings():
            if lib is torch:
                warnings.simplefilter("ignore")
            return plain(fn(lib))
    except Exception as error:
        return ("raised", type(error) if type(error).__module__ == "builtins" else type(error).__mro__, str(error))


@pytest.fixture
def agree() -> Callable:
    """agree(fn, words=...): fn(torch) and fn(flambeau) give the same values, or raise alike, with these words."""

    def check(fn: Callable, *words: str, rtol: float = 1e-6) -> Any:
        theirs, ours = run(fn, torch), run(fn, flambeau)
        if isinstance(theirs, tuple) and theirs and theirs[0] == "raised":
            text = f"torch raises {theirs[1]}: {theirs[2]}\nours: {ours}"
            assert isinstance(ours, tuple) and ours[0] == "raised", text
            kinds = ours[1] if isinstance(ours[1], tuple) else ours[1].__mro__
            theirs_type = theirs[1] if isinstance(theirs[1], type) else theirs[1][1]
            assert theirs_type in kinds, text
            for word in words:
                assert word in ours[2], (word, ours[2])
            return ours
        assert same(theirs, ours, rtol), f"torch: {theirs}\nours:  {ours}"
        return ours

    return check


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Reference counting alone must free what the test makes."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()
