"""Views of a tensor that is given another shape in place afterwards (`t_`, `unsqueeze_`): their gradients stay right."""

from __future__ import annotations

import pytest
import torch

import flambeau

torch.set_num_threads(1)
VIEWS = {
    "row": lambda y: y[0], "flat": lambda y: y.view(-1)[1:3], "column": lambda y: y[:, 1], "part": lambda y: y[:, :2].t()[1],
}
CHANGES = {
    "t_": lambda y: y.t_(), "unsqueeze_": lambda y: y.unsqueeze_(1), "twice": lambda y: y.t_().unsqueeze_(0),
    "as_strided_": lambda y: y.as_strided_((3, 2), (2, 1)),
}


def gradients(library, view, change, n, mode, write):
    x = library.arange(2.0 * n, dtype=library.float64).view(2, n).requires_grad_()
    y = x * 1
    v = VIEWS[view](y)
    with mode(library):
        CHANGES[change](y)
    if write:
        v.mul_(3)
    total = (v * v).sum() + (y * y).sum()
    total.backward()
    return x.grad.tolist(), type(v.grad_fn).__name__


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("view", VIEWS)
def test_gradients_of_earlier_views(view, change):
    for n in (2, 3):
        if change == "as_strided_" and n == 2:
            continue
        for write in (False, True):
            theirs = gradients(torch, view, change, n, lambda L: L.enable_grad(), write)
            assert gradients(flambeau, view, change, n, lambda L: L.enable_grad(), write) == theirs
            # PyTorch's backward fails when the shape was changed in no_grad mode
            assert gradients(flambeau, view, change, n, lambda L: L.no_grad(), write)[0] == theirs[0]


def test_a_view_of_an_earlier_view():
    for library in (flambeau, torch):
        x = library.arange(6.0).view(2, 3).requires_grad_()
        y = x * 1
        v = y[1]
        y.t_()
        w = v[:2]
        w.mul_(2)
        (y * y).sum().backward()
        assert x.grad.tolist() == [[0.0, 2.0, 4.0], [24.0, 32.0, 10.0]]


def test_a_view_in_another_dtype_is_refused():
    y = flambeau.zeros(2, 3, dtype=flambeau.complex64, requires_grad=True) * 1
    v = flambeau.view_as_real(y)
    y.t_()
    with pytest.raises(RuntimeError, match="another shape in place"):
        v.sum().backward()
