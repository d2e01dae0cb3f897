"""The old order of arguments, the factor before the tensors."""

from __future__ import annotations

import pytest
import torch

import flambeau

CALLS = {
    "add": lambda lib, x, y, z: x.add(0.5, y), "add_": lambda lib, x, y, z: x.clone().add_(0.5, y),
    "sub": lambda lib, x, y, z: x.sub(2, y), "sub_": lambda lib, x, y, z: x.clone().sub_(2, y),
    "torch.add": lambda lib, x, y, z: lib.add(x, 0.5, y), "torch.sub": lambda lib, x, y, z: lib.sub(x, 0.5, y),
    "addcmul": lambda lib, x, y, z: x.addcmul(0.5, y, z), "addcmul_": lambda lib, x, y, z: x.clone().addcmul_(0.5, y, z),
    "addcdiv": lambda lib, x, y, z: lib.addcdiv(x, 0.5, y, z), "addcdiv_": lambda lib, x, y, z: x.clone().addcdiv_(-2, y, z),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CALLS)
def test_the_factor_may_come_first(name):
    found = []
    for library in (torch, flambeau):
        x, y, z = (library.tensor(v, requires_grad=True) for v in ([1.0, 2.0], [3.0, 5.0], [2.0, 4.0]))
        out = CALLS[name](library, x, y, z)
        out.sum().backward()
        found.append((out.tolist(), y.grad.tolist()))
    assert found[0] == found[1]


def test_it_warns_and_takes_numbers_only():
    x = flambeau.ones(2)
    with pytest.warns(UserWarning, match="deprecated"):
        x.add_(2, x.clone())
    with pytest.raises(TypeError):
        x.add(x, x)
    with pytest.raises(TypeError):
        x.addcmul(x, x, x)
    with pytest.raises(TypeError):
        x.add(2, x, alpha=3)
    with pytest.raises(TypeError):
        flambeau.sub(x, 2, x, alpha=3)
