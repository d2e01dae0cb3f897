"""Names that raise: the page lists what is registered, and each of them says what to do instead."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import flambeau
from flambeau import _unsupported
from flambeau.tensor._unsupported import _LACKING

ROOT = Path(__file__).resolve().parents[2]
NAMES = [(name, instead) for names, instead in _unsupported.GROUPS for name in names.split()]


def test_page_is_current():
    run = subprocess.run([sys.executable, ROOT / "tools" / "unsupported_page.py", "--check"], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize("name, instead", NAMES, ids=[n for n, _ in NAMES])
def test_names_of_pytorch_raise_when_called(name, instead):
    assert hasattr(torch, name), "PyTorch has no such name"
    with pytest.raises(NotImplementedError) as error:
        getattr(flambeau, name)(1)
    assert instead in str(error.value) and name in str(error.value)


@pytest.mark.parametrize("name", _unsupported.DTYPES)
def test_dtypes_are_names_only(name):
    theirs, ours = getattr(torch, name), getattr(flambeau, name)
    assert repr(ours) == repr(theirs) and isinstance(ours, flambeau.dtype) and ours == getattr(flambeau, name)
    if not name.startswith("q"):
        assert (ours.is_floating_point, ours.is_complex) == (theirs.is_floating_point, theirs.is_complex)
    for make in (lambda: flambeau.empty(2, dtype=ours), lambda: flambeau.ones(2).to(ours),
                 lambda: flambeau.tensor([1], dtype=ours)):
        with pytest.raises(NotImplementedError, match=f"torch.{name} is not supported"):
            make()


@pytest.mark.parametrize("name", " ".join(_LACKING).split())
def test_methods_raise(name):
    assert hasattr(torch.Tensor, name)
    with pytest.raises(NotImplementedError, match=f"Tensor.{name}"):
        getattr(flambeau.ones(2), name)()


@pytest.mark.parametrize("name", _unsupported.MODULES)
def test_modules_say_what_to_do(name):
    with pytest.raises(AttributeError, match="Instead"):
        getattr(flambeau, name).something  # noqa: B018


@pytest.mark.parametrize("name", ["eig", "symeig", "lstsq", "solve", "matrix_rank"])
def test_removed_functions_raise_as_in_pytorch(name):
    for library in (torch, flambeau):
        with pytest.raises(RuntimeError, match="was deprecated since version 1.9 and is now removed"):
            getattr(library, name)(library.ones(2, 2), library.ones(2, 2)) if name in ("lstsq", "solve") else getattr(
                library, name)(library.ones(2, 2))


def test_no_public_function_of_pytorch_is_unknown():
    import types

    unknown = [n for n in dir(torch) if not n.startswith("_") and not hasattr(flambeau, n)
               and not isinstance(getattr(torch, n), types.ModuleType) and callable(getattr(torch, n))]
    assert set(unknown) <= {"bit", "classproperty"}, unknown
    unknown = [n for n in dir(torch.Tensor) if not n.startswith("_") and not hasattr(flambeau.Tensor, n)]
    assert not unknown


def test_control_flow_and_symbolic_numbers_are_pythons():
    for library in (torch, flambeau):
        assert library.sym_max(1, 2.0) == 2.0 and isinstance(library.sym_max(3, 2.0), float)
        assert library.sym_int(-2.5) == -2 and library.sym_not(True) is False and library.sym_ite(True, 1, 2) == 1
        assert library.sym_sum([1, 2]) == 3 and library.sym_min(1, 2) == 1 and library.sym_sqrt(4) == 2.0
    x = flambeau.tensor(2.0, requires_grad=True)
    y = flambeau.cond(x > 1, lambda a: a * 3, lambda a: a, (x,))
    y.backward()
    assert x.grad.item() == 3.0
    with pytest.raises(RuntimeError, match="Expected a bool or a tensor"):
        flambeau.cond(flambeau.ones(2), lambda: 1, lambda: 2)


def test_old_storages():
    s = flambeau.FloatStorage([1, 2])
    assert s.tolist() == [1.0, 2.0] and isinstance(s, flambeau.FloatStorage) and not isinstance(s, flambeau.LongStorage)
    assert flambeau.LongStorage(3).size() == 3
    assert flambeau.ones(2).storage_type() is flambeau.FloatStorage
    assert flambeau.storage.UntypedStorage is flambeau.UntypedStorage


def test_versions_compare_by_numbers():
    V = flambeau.torch_version.TorchVersion
    for text in ("1.10.0", "2.13.0+cpu", "2.0.0a0"):
        for other in ("1.9", (1, 10), "2.13.0", (2, 0), "2.0.0"):
            theirs, ours = torch.torch_version.TorchVersion(text), V(text)
            assert (ours > other, ours < other) == (theirs > other, theirs < other) or "+" in text, (text, other)
