"""The strides of a result of operands that lie differently in memory, and the random numbers that follow them."""

from __future__ import annotations

import itertools

import pytest
import torch

import flambeau

SHAPE = (2, 3, 4)
ORDERS = list(itertools.permutations(range(3)))


def stored(lib, order, broadcast=None):
    """A tensor of SHAPE whose axes lie in memory in this order."""
    shape = [1 if axis == broadcast else n for axis, n in enumerate(SHAPE)]
    return lib.ones([shape[axis] for axis in order]).permute([order.index(axis) for axis in range(3)])


@pytest.mark.parametrize("op", ["add", "sub", "mul", "div", "maximum", "lt"])
def test_first_operand_that_tells_axes_apart_orders_the_result(op):
    for first, second in itertools.product(ORDERS, ORDERS):
        ours, theirs = (getattr(lib, op)(stored(lib, first), stored(lib, second)) for lib in (flambeau, torch))
        assert ours.stride() == theirs.stride(), (first, second)


def test_axis_that_is_broadcast_does_not_count():
    for first, second, axis in itertools.product(ORDERS, ORDERS, range(3)):
        ours, theirs = (stored(lib, first) * stored(lib, second, axis) for lib in (flambeau, torch))
        assert ours.stride() == theirs.stride(), (first, second, axis)
    assert (stored(flambeau, (2, 1, 0)) + flambeau.ones(4)).stride() == (1, 2, 6)


def test_dropout_of_a_transposed_sum_has_pytorchs_mask():
    """As in transformers for time series: a convolution, transposed, plus an embedding of positions."""
    masks = []
    for lib in (flambeau, torch):
        lib.manual_seed(3)
        x = lib.ones(2, 8, 6).transpose(1, 2) + lib.ones(1, 6, 8)
        masks.append(lib.nn.functional.dropout(x, 0.4).ne(0).tolist())
    assert masks[0] == masks[1]
