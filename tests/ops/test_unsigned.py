"""uint16, uint32 and uint64: they hold, convert and print values, and are not promoted with other integers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import flambeau

NAMES = ("uint16", "uint32", "uint64")


@pytest.mark.parametrize("name", NAMES)
def test_values_conversions_and_printed_form_are_pytorchs(name):
    for program in (
        lambda L, d: L.tensor([1, 2, 7], dtype=d), lambda L, d: L.tensor([1.5, 2.0]).to(d),
        lambda L, d: L.tensor([3, 4], dtype=d).float(), lambda L, d: L.tensor([3, 4], dtype=d).to(L.int8),
        lambda L, d: L.zeros(2, dtype=d), lambda L, d: L.cat([L.ones(1, dtype=d), L.zeros(1, dtype=d)]),
        lambda L, d: L.tensor([3, 4], dtype=d)[1:], lambda L, d: L.tensor([3, 4], dtype=d).sum(),
        lambda L, d: L.tensor([3, 4], dtype=d) * 2.0, lambda L, d: L.tensor([5, 3, 4], dtype=d).sort().values,
    ):
        expected, got = program(torch, getattr(torch, name)), program(flambeau, getattr(flambeau, name))
        assert repr(got) == repr(expected)
        assert got.numpy().dtype == expected.numpy().dtype and np.array_equal(got.numpy(), expected.numpy())


@pytest.mark.parametrize("name", NAMES)
def test_promotion_is_with_floats_alone(name):
    for other in ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64",
                  "complex64", *NAMES):
        found = []
        for library in (torch, flambeau):
            try:
                found.append(str(library.promote_types(getattr(library, name), getattr(library, other))))
            except RuntimeError as error:
                assert "Promotion for uint16, uint32, uint64 types is not supported" in str(error)
                found.append("refused")
        assert found[0] == found[1], other


def test_large_numbers():
    assert flambeau.tensor([2**64 - 1], dtype=flambeau.uint64).tolist() == [2**64 - 1]
    assert flambeau.iinfo(flambeau.uint64).max == 2**64 - 1
    assert flambeau.from_numpy(np.array([2**63], "u8")).item() == 2**63
    assert flambeau.zeros(1, dtype=flambeau.uint16).type() == torch.zeros(1, dtype=torch.uint16).type()
    for library in (torch, flambeau):
        with pytest.raises(OverflowError, match="can't convert negative int to unsigned"):
            library.tensor([-1], dtype=library.uint64)
        assert library.tensor([-1], dtype=library.uint16).item() == 65535
