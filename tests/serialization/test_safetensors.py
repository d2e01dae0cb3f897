"""safetensors files, against the package's own functions for PyTorch and NumPy."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import safetensors
import safetensors.torch as theirs
import torch

import flambeau
from flambeau.serialization import safetensors as ours

NAMES = "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex64".split()


def _tensors(lib):
    found = {name: lib.tensor([[1, 0, 2], [3, 4, 5]]).to(getattr(lib, name)) for name in NAMES}
    return {**found, "scalar": lib.tensor(3.0), "empty": lib.empty(0, 2)}


@pytest.mark.parametrize("save, load", [((flambeau, ours), (torch, theirs)), ((torch, theirs), (flambeau, ours))])
def test_both_ways(tmp_path, save, load):
    (writer, write), (_, read) = save, load
    want = _tensors(writer)
    write.save_file(want, tmp_path / "a.safetensors", {"format": "pt"})
    got = read.load_file(tmp_path / "a.safetensors")
    assert set(got) == set(want)
    for name, t in want.items():
        assert str(got[name].dtype) == str(t.dtype) and tuple(got[name].shape) == tuple(t.shape)
        assert got[name].tolist() == t.tolist()
    with safetensors.safe_open(tmp_path / "a.safetensors", "np") as f:
        assert f.metadata() == {"format": "pt"}


def test_loaded_tensors_can_be_written():
    r = ours.load(ours.save({"a": flambeau.zeros(3)}))
    r["a"].add_(1)
    assert r["a"].tolist() == [1.0] * 3


@pytest.mark.parametrize("make, kind, words", [
    (lambda lib: {"a": lib.ones(2, 3).t()}, ValueError, "non contiguous tensor: `a`"),
    (lambda lib: (lambda a: {"a": a, "b": a})(lib.ones(2)), RuntimeError, "Some tensors share memory"),
    (lambda lib: (lambda a: {"a": a[:4], "b": a[2:]})(lib.ones(6)), RuntimeError, "Some tensors share memory"),
    (lambda lib: {"a": 3}, ValueError, "Key `a` is invalid, expected torch.Tensor"),
    (lambda lib: [lib.ones(1)], ValueError, "Expected a dict"),
])
def test_what_cannot_be_saved(make, kind, words):
    for lib, module in ((torch, theirs), (flambeau, ours)):
        with pytest.raises(kind, match=words):
            module.save(make(lib))


def test_complex128_is_no_type_of_the_format():
    with pytest.raises(NotImplementedError, match="complex128"):
        ours.save({"a": flambeau.zeros(1, dtype=flambeau.complex128)})


def test_parts_that_do_not_overlap_are_saved():
    a = flambeau.arange(6.0)
    r = ours.load(ours.save({"x": a[:2], "y": a[4:]}))
    assert r["x"].tolist() == [0.0, 1.0] and r["y"].tolist() == [4.0, 5.0]


def test_damaged_files():
    data = ours.save({"a": flambeau.ones(3)})
    for bad in (b"abc", data[:-3], data[:12], b""):
        with pytest.raises(safetensors.SafetensorError):
            ours.load(bad)
    with pytest.raises(FileNotFoundError):
        ours.load_file("/nowhere.safetensors")


def test_dtypes_that_are_not_here():
    with pytest.raises(NotImplementedError, match="tensor 'a' of the file is of dtype U16"):
        ours.load(theirs.save({"a": torch.zeros(2, dtype=torch.uint16)}))


def test_models_with_tied_weights(tmp_path):
    def tied(lib):
        lib.manual_seed(0)
        layer = lib.nn.Linear(2, 2)
        return lib.nn.Sequential(layer, layer)

    path = tmp_path / "m.safetensors"
    model = tied(flambeau)
    ours.save_model(model, path)
    other = tied(torch)
    assert theirs.load_model(other, path) == (set(), [])
    assert other[0].weight.tolist() == model[0].weight.tolist()
    theirs.save_model(other, path)
    assert ours.load_model(model, path) == (set(), [])
    with pytest.raises(RuntimeError, match=r'Missing key\(s\) in state_dict: "bias", "weight"'):
        ours.load_model(flambeau.nn.Linear(2, 2), path)
    assert ours.load_model(flambeau.nn.Linear(2, 2), path, strict=False)[0] == {"bias", "weight"}


def test_scripts_find_it_as_safetensors_torch(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent("""
        import torch, safetensors
        from safetensors.torch import load_file, save_file
        save_file({"a": torch.ones(2, dtype=torch.bfloat16)}, "x.safetensors")
        print(load_file("x.safetensors"), torch.version.flambeau[:2])
        with safetensors.safe_open("x.safetensors", "pt") as f:
            print(f.get_tensor("a").tolist())
    """))
    r = subprocess.run([sys.executable, "-m", "flambeau", "run", str(script)], capture_output=True, text=True, cwd=tmp_path,
                       env=dict(os.environ, PYTHONPATH=str(Path(flambeau.__file__).parents[1])), timeout=120)
    assert r.stdout.splitlines() == ["{'a': tensor([1., 1.], dtype=torch.bfloat16)} 0.", "[1.0, 1.0]"], r.stderr


def test_storage_of_tensors_that_share_memory():
    from flambeau.serialization.safetensors import storage_ptr, storage_size

    t = flambeau.ones(4, 3)
    assert storage_ptr(t) == storage_ptr(t[2:]) == t.data_ptr() != storage_ptr(t.clone())
    assert storage_size(t[2:]) == 48
