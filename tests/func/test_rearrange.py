"""rearrange against torch.func: shapes, values, errors."""

from __future__ import annotations

import warnings

import pytest
import torch
import torch.func

import flambeau
import flambeau.func

PATTERNS = [
    ((2, 3, 4), "a b c -> c b a", {}), ((2, 3, 4), "a b c -> (c b) a", {}), ((2, 3, 4), "a b (c d) -> a d (b c)", {"d": 2}),
    ((2, 3, 4), "a ... -> ... a", {}), ((2, 3, 4), "a ... -> (...) a", {}), ((2, 3, 4), "a b c -> a 1 b c", {}),
    ((2, 3, 4), "a b c -> a b () c", {}), ((2, 1, 3), "a 1 c -> a c", {}), ((2, 3, 4), "... -> ...", {}),
    ((2, 6, 8), "n (c k) (h w) -> (n k) c w h", {"k": 3, "w": 4}), ((6, 2), "(a b) c -> c b a", {"a": 2}),
    ((2, 3, 4, 5), "a ... c -> c (a ...)", {}), ((2, 3), "a b -> a b", {"a": 2}),
]
WRONG = [
    ("a b c -> a b", {}), ("a b -> a b", {}), ("a b (c d) -> a d (b c)", {"d": 3}), ("a b (c d) -> a d (b c)", {}),
    ("a b c -> c b a", {"d": 2}), ("a b a -> a b", {}), ("a b c", {}), ("a b c -> a b c ...", {}), ("a b (c -> a b c", {}),
    ("a b c -> a b 2 c", {}), ("a (...) c -> c a ...", {}), ("a b c_ -> a b c_", {}), ("a b c -> a b c", {"a": 5}),
]


@pytest.mark.parametrize(("shape", "pattern", "lengths"), PATTERNS)
def test_agrees_with_pytorch(shape, pattern, lengths):
    results = []
    for lib in (torch, flambeau):
        n = 1
        for s in shape:
            n *= s
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results.append(lib.func.rearrange(lib.arange(n).reshape(shape), pattern, **lengths).tolist())
    assert results[0] == results[1]


@pytest.mark.parametrize(("pattern", "lengths"), WRONG)
def test_wrong_patterns_are_refused(pattern, lengths):
    with pytest.raises(Exception), warnings.catch_warnings():       # noqa: B017  it has classes of its own
        warnings.simplefilter("ignore")
        torch.func.rearrange(torch.zeros(2, 3, 4), pattern, **lengths)
    with pytest.raises(ValueError):
        flambeau.func.rearrange(flambeau.zeros(2, 3, 4), pattern, **lengths)


def test_several_tensors_are_stacked():
    x = flambeau.arange(6).reshape(2, 3)
    assert flambeau.func.rearrange([x, x + 6], "n a b -> a (n b)").tolist() == [[0, 1, 2, 6, 7, 8], [3, 4, 5, 9, 10, 11]]


def test_it_is_differentiated_and_mapped():
    x = flambeau.randn(4, 2, 6)
    out = flambeau.vmap(lambda s: flambeau.func.rearrange(s, "a (b c) -> b (a c)", b=3))(x)
    assert out.shape == (4, 3, 4)
    g = flambeau.func.grad(lambda x: (flambeau.func.rearrange(x, "n a b -> b (n a)") * 2).sum())(x)
    assert (g == 2).all()
