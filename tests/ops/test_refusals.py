"""What operators refuse as PyTorch does: mixed dtypes, shapes that do not broadcast, complex numbers that have no order."""

from __future__ import annotations

import pytest
import torch

import flambeau

CASES = {
    "cdist of two dtypes": lambda L: L.cdist(L.zeros(2, 3), L.zeros(2, 3).double()),
    "isclose of shapes": lambda L: L.isclose(L.zeros(4, 3), L.zeros(2, 3)),
    "allclose of shapes": lambda L: L.allclose(L.zeros(0, 3), L.zeros(2, 3)),
    "searchsorted of complex": lambda L: L.searchsorted(L.tensor([0, 1j]), L.tensor([1j])),
    "functional.vjp of complex": lambda L: L.autograd.functional.vjp(lambda a: (a * a).sum(), L.zeros(3, dtype=L.complex64)),
    "bucketize of complex": lambda L: L.bucketize(L.tensor([1j]), L.tensor([0, 1j])),
}


@pytest.mark.parametrize("name", CASES)
def test_refused_with_the_same_class(name):
    with pytest.raises(RuntimeError) as theirs:
        CASES[name](torch)
    with pytest.raises(RuntimeError) as ours:
        CASES[name](flambeau)
    assert isinstance(ours.value, NotImplementedError) == isinstance(theirs.value, NotImplementedError)


def assigned(L, key, value):
    x = L.zeros(2, 3)
    x[key(L)] = L.tensor(value, dtype=L.float64)
    return x.tolist()


KEYS = {
    "mask of rows": lambda L: L.tensor([True, False]), "mask": lambda L: L.zeros(2, 3) == 0,
    "mask of columns": lambda L: (slice(None), L.tensor([True, False, True])), "rows": lambda L: L.tensor([0, 1]),
    "list": lambda L: [0], "mask and list": lambda L: (L.tensor([True, False]), [1]),
    "mask and int": lambda L: (L.tensor([True, False]), 0),
}


@pytest.mark.parametrize("key", KEYS)
def test_a_number_of_another_dtype_is_converted_where_a_mask_points(key):
    """One element, with or without a dimension; positions in an index take none."""
    for value in (1.5, [1.5]):
        try:
            expected = assigned(torch, KEYS[key], value)
        except RuntimeError as error:
            assert "source and destination dtypes match" in str(error)
            with pytest.raises(RuntimeError, match="source and destination dtypes match"):
                assigned(flambeau, KEYS[key], value)
        else:
            assert assigned(flambeau, KEYS[key], value) == expected
