"""Damaged files, at random with fixed seeds: never a crash, never a wrong value unnoticed, always one of our errors."""

from __future__ import annotations

import io
from collections import OrderedDict

import numpy as np
import pytest
import torch

import flambeau
from flambeau.serialization import CheckpointError

from .conftest import loaded, saved


def _object():
    base = torch.arange(20.0)
    return OrderedDict(base=base, view=base[3:9].view(2, 3), ints=torch.arange(7), p=torch.nn.Parameter(torch.ones(3)), n=5,
                       text=["abc", {"x": (1, 2.5, None, b"bytes")}], half=torch.ones(2, dtype=torch.bfloat16))


def _legacy() -> bytes:
    return saved(torch, _object(), _use_new_zipfile_serialization=False)


DATA = {"zip": saved(torch, _object()), "legacy": _legacy(),
        "flambeau": saved(flambeau, {"a": flambeau.arange(5.0), "b": [1, "x"]})}
WHOLE = {name: repr(loaded(flambeau, data)) for name, data in DATA.items()}


@pytest.mark.parametrize("name", DATA)
def test_truncated_anywhere(name):
    data = DATA[name]
    for n in sorted({int(x) for x in np.linspace(0, len(data) - 1, 200)}):
        with pytest.raises(CheckpointError):
            loaded(flambeau, data[:n])


@pytest.mark.parametrize("name", DATA)
def test_bit_flips(name):
    data = DATA[name]
    rng = np.random.default_rng(0)
    refused = 0
    for position, bit in zip(rng.integers(0, len(data), 500), rng.integers(0, 8, 500), strict=True):
        changed = bytearray(data)
        changed[position] ^= 1 << int(bit)
        try:
            value = loaded(flambeau, bytes(changed))
        except (CheckpointError, NotImplementedError, RuntimeError) as error:
            assert str(error)
            refused += 1
        else:
            # the older format has no checksums; in the other the padding and a few unused fields may change
            assert name == "legacy" or repr(value) == WHOLE[name], position
    assert refused > 100


@pytest.mark.parametrize("name", ["zip", "legacy"])
def test_bytes_replaced_at_random(name):
    data = DATA[name]
    rng = np.random.default_rng(1)
    for _ in range(200):
        changed = bytearray(data)
        start, n = int(rng.integers(0, len(data))), int(rng.integers(1, 40))
        changed[start:start + n] = rng.bytes(n)
        try:
            loaded(flambeau, bytes(changed))
        except (CheckpointError, NotImplementedError, RuntimeError) as error:
            assert str(error)


def test_random_pickles():
    """Programs of random opcodes, with pieces of real ones among them."""
    from .test_safety import GLOBALS, HOSTILE, checkpoint

    rng = np.random.default_rng(2)
    pieces = [*GLOBALS.values(), *HOSTILE.values()]
    pieces = [p[2:400] for p in pieces]
    for _ in range(500):
        parts = []
        for _ in range(int(rng.integers(1, 8))):
            piece = pieces[int(rng.integers(len(pieces)))]
            a, b = sorted(rng.integers(0, len(piece) + 1, 2).tolist())
            parts.append(piece[a:b] if rng.random() < 0.7 else rng.bytes(int(rng.integers(1, 10))))
        try:
            loaded(flambeau, checkpoint(b"\x80\x02" + b"".join(parts) + b".", data_0=b"\0" * 16))
        except (CheckpointError, NotImplementedError) as error:
            assert str(error)


def test_files_of_noise():
    rng = np.random.default_rng(3)
    for n in range(0, 200):
        for head in (b"", b"PK\3\4", b"\x80\x02"):
            with pytest.raises(CheckpointError):
                flambeau.load(io.BytesIO(head + rng.bytes(n)))
