"""A sample of the records under vmap and in Jacobians; `python -m tests.nightly.transforms` runs all of them."""

from __future__ import annotations

import zlib

import pytest

from flambeau.ops import REGISTRY

from . import operators


def chosen(share: int) -> list[str]:
    """One of so many keys, the same each time."""
    return [k for k in operators.keys() if zlib.crc32(k.encode()) % share == 0]


@pytest.mark.parametrize("key", chosen(3))
def test_vmap_gives_what_a_loop_gives(key):
    operators.quietly(operators.check_values, key)


@pytest.mark.parametrize("key", [k for k in chosen(6) if REGISTRY[k].differentiable])
def test_jacobians_are_the_rows_of_grad(key):
    operators.quietly(operators.check_jacobians, key)


def test_the_sample_compares_something():
    assert sum(operators.quietly(operators.check_values, k) for k in ("sum", "matmul", "conv2d")) > 20
    assert sum(operators.quietly(operators.check_jacobians, k) for k in ("sum", "matmul")) > 10
