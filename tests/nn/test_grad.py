"""`nn.grad`: gradients of convolutions as functions, against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import flambeau

SIZES = {1: ((2, 4, 7), (6, 2, 3)), 2: ((2, 4, 7, 6), (6, 2, 3, 2)), 3: ((1, 2, 5, 4, 6), (2, 1, 2, 2, 3))}


@pytest.mark.parametrize("n", (1, 2, 3))
def test_gradients_of_convolutions(n):
    rng = np.random.default_rng(n)
    x, w = (rng.normal(size=s) for s in SIZES[n])
    options = {"stride": 2, "padding": 1, "groups": 2}
    out = getattr(torch.nn.functional, f"conv{n}d")(torch.tensor(x), torch.tensor(w), None, **options)
    g = rng.normal(size=tuple(out.shape))
    for what, args in (("input", (x.shape, w, g)), ("weight", (x, w.shape, g))):
        found = [getattr(L.nn.grad, f"conv{n}d_{what}")(*[L.tensor(a) if isinstance(a, np.ndarray) else a for a in args],
                                                       **options) for L in (torch, flambeau)]
        np.testing.assert_allclose(found[1].numpy(), found[0].numpy(), rtol=1e-10, atol=1e-12)
    assert flambeau.nn.functional.grad is flambeau.nn.grad
