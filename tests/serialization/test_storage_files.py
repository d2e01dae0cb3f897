"""Storages over files."""

from __future__ import annotations

import pytest
import torch

import flambeau


@pytest.mark.parametrize("lib", [torch, flambeau], ids=lambda lib: lib.__name__)
def test_a_storage_maps_a_file(lib, tmp_path):
    path = tmp_path / "bytes"
    path.write_bytes(bytes(range(8)))
    private = lib.UntypedStorage.from_file(str(path), False, 8)
    assert private.tolist() == list(range(8))
    private[0] = 9
    assert path.read_bytes()[0] == 0                    # written in memory only
    shared = lib.UntypedStorage.from_file(str(path), True, 8)
    shared[1] = 7
    del shared
    assert path.read_bytes()[:3] == bytes([0, 7, 2])
    assert private.untyped().nbytes() == 8
    with pytest.raises(RuntimeError):
        lib.UntypedStorage.from_file(str(tmp_path / "none"), False, 8)
