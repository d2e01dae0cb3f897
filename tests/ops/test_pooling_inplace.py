"""What poolings and erfinv keep for backward: not their output, which programs write to."""

from __future__ import annotations

import pytest
import torch

import flambeau

CASES = {
    f"{name}{nd}d": (nd, lambda F, x, name=name, nd=nd, args=args: getattr(F, f"{name}{nd}d")(x, *args))
    for nd in (1, 2, 3)
    for name, args in (("max_pool", (2,)), ("avg_pool", (2,)), ("adaptive_avg_pool", (2,)), ("adaptive_max_pool", (2,)))
}


@pytest.mark.parametrize("name", CASES)
def test_output_may_be_written_to(name):
    nd, pool = CASES[name]
    values = torch.randn(1, 2, *[4] * nd, generator=torch.Generator().manual_seed(0), dtype=torch.float64).tolist()
    grads = []
    for library in (torch, flambeau):
        x = library.tensor(values, dtype=library.float64, requires_grad=True)
        y = pool(library.nn.functional, x)
        y += 1
        library.nn.functional.relu(y, inplace=True)
        (g,) = library.autograd.grad(y.pow(2).sum(), x, create_graph=True)
        (second,) = library.autograd.grad(g.sum(), x)
        grads.append((g.tolist(), second.tolist()))
    assert torch.allclose(torch.tensor(grads[0]), torch.tensor(grads[1]))


def test_output_of_erfinv_may_be_written_to():
    found = []
    for library in (torch, flambeau):
        x = library.tensor([0.1, -0.5, 0.9], dtype=library.float64, requires_grad=True)
        y = library.erfinv(x)
        y += 1
        (g,) = library.autograd.grad(y.sum(), x, create_graph=True)
        (second,) = library.autograd.grad(g.sum(), x)
        found.append(torch.tensor([g.tolist(), second.tolist()]))
    assert torch.allclose(*found)
