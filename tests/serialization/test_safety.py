"""weights_only=True executes nothing, whatever the file says."""

from __future__ import annotations

import builtins
import collections
import io
import os
import pickle
import resource
import subprocess
import sys

import numpy as np
import pytest
import torch

import flambeau
from flambeau import serialization
from flambeau.serialization import CheckpointError, UnsafeGlobalError, _zip

from .conftest import loaded, saved


def checkpoint(data_pkl: bytes, **members: bytes) -> bytes:
    """A well-formed archive around any pickle."""
    file = io.BytesIO()
    writer = _zip.ArchiveWriter(file.write, "archive")
    writer.add("data.pkl", data_pkl)
    for name, data in members.items():
        writer.add(name.replace("_", "/"), data)
    writer.add("version", b"3\n")
    writer.finish()
    return file.getvalue()


class Call:
    """Pickles as a call."""

    def __init__(self, function, *args):
        self.parts = function, args

    def __reduce__(self):
        return self.parts


def text(s: str) -> bytes:
    raw = s.encode()
    return b"X" + len(raw).to_bytes(4, "little") + raw


def number(n: int) -> bytes:
    raw = n.to_bytes((n.bit_length() // 8) + 1, "little", signed=True)
    return b"\x8a" + bytes([len(raw)]) + raw


STORAGE = b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text("0") + text("cpu") + b"K\x04tQ"
HOOKS = b"ccollections\nOrderedDict\n)R"


def tensor(size: bytes, stride: bytes, offset: bytes = b"K\x00", storage: bytes = STORAGE) -> bytes:
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + offset + size + stride + b"\x89" + HOOKS + b"tR"


P = b"\x80\x02"
DEEP = b"]" * 100_000 + b"a" * 99_999
DEEP_TUPLE = b")" + b"\x85" * 100_000
DOUBLING = b")" + b"q\x00h\x00\x86" * 60          # a tuple of itself and itself: 2**60 leaves in 300 bytes
GLOBALS = {
    "os.system": pickle.dumps(Call(os.system, "touch executed"), 2),
    "eval": pickle.dumps(Call(eval, "open('executed','w')"), 2),
    "exec": pickle.dumps(Call(exec, "open('executed','w')"), 2),
    "open": pickle.dumps(Call(open, "executed", "w"), 2),
    "subprocess.call": pickle.dumps(Call(subprocess.call, ["touch", "executed"]), 2),
    "__import__": pickle.dumps(Call(builtins.__import__, "os"), 2),
    "getattr": P + b"c__builtin__\ngetattr\nctorch\nTensor\n" + text("__init__") + b"\x86R.",
    "attribute chain": b"\x80\x04" + text("torch") + text("Tensor.__init__.__globals__") + b"\x93.",
    "flambeau module": P + b"cflambeau.hub\nload\n.", "torch.load": P + b"ctorch\nload\n.",
    "generator": P + b"ctorch._C\nGenerator\n.", "module": P + b"ctorch\nhub\n.", "numpy": P + b"cnumpy\nload\n.",
    "blank": P + b"c\n\n.", "dots": P + b"c..\n..\n.", "proto 4": pickle.dumps(Call(os.system, "touch executed"), 4),
    "second of two": P + text("harmless") + b"0cos\nsystem\n.",
    "class": P + b"c__builtin__\ntype\n" + text("X") + b")}\x87R.",
}
HOSTILE = {
    "calls a value": P + b"K\x01)R.",
    "calls a tensor class": P + b"ctorch\nTensor\n" + number(10**12) + b"\x85R.",
    "calls a parameter class": P + b"ctorch.nn.parameter\nParameter\n)R.",
    "calls a dtype": P + b"ctorch\nfloat32\n)R.",
    "new tensor": P + b"ctorch\nTensor\n)\x81.",
    "new with keywords": b"\x80\x04ctorch\nTensor\n)}\x92.",
    "state of a class": P + b"ctorch\nTensor\nN}" + text("__repr__") + b"K\x01s\x86b.",
    "state of a function": P + b"ctorch._utils\n_rebuild_tensor_v2\n}" + text("__code__") + b"K\x01sb.",
    "state of a dtype": P + b"ctorch\nfloat32\n}" + text("name") + text("x") + b"sb.",
    "shadowed method": P + HOOKS + b"}" + text("keys") + b"K\x01sb.",
    "class of a dict": P + HOOKS + b"}" + text("__class__") + b"K\x01sb.",
    "tensor's own slot": P + b"ctorch._tensor\n_rebuild_from_type_v2\n("
        + b"ctorch._utils\n_rebuild_meta_tensor_no_storage\nctorch\nTensor\n(ctorch\nfloat32\n))\x89t}"
        + text("_array") + b"K\x01stR.",
    "terabyte of bytes": P + b"c__builtin__\nbytearray\n" + number(10**12) + b"\x85R.",
    "long text": P + b"X\xff\xff\xff\xffabc.",
    "longer text": b"\x80\x04\x8d" + b"\xff" * 8 + b"abc.",
    "long bytes": b"\x80\x04\x8e" + b"\xff" * 7 + b"\x0fabc.",
    "long integer": P + b"\x8b\xff\xff\xff\x7fabc.",
    "negative integer": P + b"\x8b\xff\xff\xff\xffabc.",
    "missing memo": P + b"j\xff\xff\xff\x7f.",
    "bottomless": P + b".",
    "no mark": P + b"K\x01t.",
    "no stop": P + b"K\x01",
    "append to a dict": P + b"}K\x01a.",
    "odd items": P + b"}(K\x01u.",
    "list as a key": P + b"}]K\x01s.",
    "deep key": P + b"}" + DEEP_TUPLE + b"K\x01s.",
    "doubling key": P + b"}" + DOUBLING + b"K\x01s.",
    "doubling in a message": P + b"c__builtin__\ncomplex\n" + DOUBLING + b"\x85R.",
    "doubling size": P + b"ctorch\nSize\n" + DOUBLING + b"\x85R.",
    "doubling as storage": P + DOUBLING + b"Q.",
    "copies": P + b"]q\x00(" + b"N" * 50_000 + b"e0" + (b"c__builtin__\nset\nh\x00\x85R0" * 2000) + b"N.",
    "copies of a dict": P + b"}q\x00(" + b"".join(b"M" + i.to_bytes(2, "little")
        + b"N" for i in range(50_000)) + b"u0"
                        + b"ccollections\nOrderedDict\nq\x01h\x00\x85R0" + b"h\x01h\x00\x85R0" * 5000 + b"N.",
    "huge tensor": P + tensor(number(10**15) + b"\x85", b"K\x01\x85") + b".",
    "negative size": P + tensor(number(-1) + b"\x85", b"K\x01\x85") + b".",
    "negative stride": P + tensor(b"K\x02\x85", number(-1) + b"\x85") + b".",
    "offset": P + tensor(b"K\x02\x85", b"K\x01\x85", number(10**18)) + b".",
    "overflow": P + tensor(number(2**62) + number(2**62) + b"\x86", number(2**62) + b"K\x01\x86") + b".",
    "beyond 64 bits": P + tensor(number(2**70) + b"\x85", b"K\x00\x85") + b".",
    "repeated to infinity": P + tensor(number(2**62) + number(2**62) + b"\x86", b"K\x00K\x00\x86") + b".",
    "65 dimensions": P + tensor(b"(" + b"K\x01" * 65 + b"t", b"(" + b"K\x01" * 65 + b"t") + b".",
    "text as size": P + tensor(text("ab"), text("ab")) + b".",
    "number as storage": P + tensor(b")", b")", storage=b"K\x01") + b".",
    "other storage": P + tensor(b")", b")", storage=STORAGE.replace(b"K\x04", b"K\x05")) + b".",
    "storage of no type": P + b"(" + text("storage") + b"K\x01" + text("0") + text("cpu") + b"K\x04tQ.",
    "huge storage": P + STORAGE.replace(b"K\x04", number(10**15)) + b".",
    "negative storage": P + STORAGE.replace(b"K\x04", number(-4)) + b".",
    "other folder": P + STORAGE.replace(text("0"), text("../data.pkl")) + b".",
    "integers that require grad": P
        + b"ctorch._utils\n_rebuild_meta_tensor_no_storage\n(ctorch\nint64\n))\x88tR.",
    "parameter of a list": P + b"ctorch._utils\n_rebuild_parameter\n]\x88N\x87R.",
    "few arguments": P + b"ctorch._utils\n_rebuild_parameter\n)R.",
    "codec": P + b"c_codecs\nencode\n" + text("x") + text("rot13") + b"\x86R.",
    "device": P + b"ctorch\ndevice\n" + text("x:" * 9) + b"\x85R.",
    "layout": P + b"ctorch.serialization\n_get_layout\nK\x01\x85R.",
    "extension": P + b"\x82\x01.",
    "instance": P + b"(ios\nsystem\n.",
    "persistent text": P + b"Pabc\n.",
    "protocol 99": b"\x80\x63N.",
    "not a pickle": b"garbage",
    "empty": b"",
    "out of band": b"\x80\x05\x97.",
}


def _load(data: bytes, **options):
    return loaded(flambeau, checkpoint(data, data_0=b"\0" * 16), **options)


@pytest.fixture(autouse=True)
def _little_memory(tmp_path, monkeypatch):
    """In an empty folder, with one more gigabyte of address space and no more."""
    monkeypatch.chdir(tmp_path)
    old = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as f:
        now = int(f.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + (1 << 30), old[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, old)
    assert not (tmp_path / "executed").exists()


linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="bounds the address space as Linux does")
pytestmark = linux


@pytest.mark.parametrize("name", GLOBALS)
def test_a_global_that_is_not_permitted_is_named(name):
    with pytest.raises(UnsafeGlobalError, match="Weights only load failed.*Nothing was executed"):
        _load(GLOBALS[name])


def test_the_message_names_the_global_and_the_way_out():
    with pytest.raises(pickle.UnpicklingError, match=r"posix.system whose module posix is blocked"):
        _load(GLOBALS["os.system"])
    with pytest.raises(pickle.UnpicklingError, match=r"GLOBAL subprocess.call .*add_safe_globals\(\[subprocess.call\]\)"):
        _load(GLOBALS["subprocess.call"])


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_pickles_are_refused(name):
    with pytest.raises(CheckpointError):
        _load(HOSTILE[name])


def test_hostile_pickles_of_the_older_format():
    head = saved(torch, 1, _use_new_zipfile_serialization=False)
    start = head.index(b"\x80\x02K\x01.")
    for data in (*GLOBALS.values(), *HOSTILE.values()):
        with pytest.raises(CheckpointError):
            loaded(flambeau, head[:start] + data + head[start + 5:])


def test_deep_containers_are_read_without_recursion():
    value = _load(P + DEEP + b".")
    n = 0
    while value:
        value, n = value[0], n + 1
    assert n == 99_999


def test_a_view_of_one_element_repeated_takes_no_memory():
    t = _load(P + tensor(number(10**12) + b"\x85", b"K\x00\x85") + b".")
    assert tuple(t.shape) == (10**12,) and t.untyped_storage().nbytes() == 16


def test_members_that_overlap_are_refused():
    data = bytearray(checkpoint(P + b"N.", data_0=b"\0" * 64, data_1=b"\0" * 64))
    first = data.index(b"PK\1\2")
    entries = []
    while (first := data.find(b"PK\1\2", first)) >= 0:
        entries.append(first)
        first += 4
    data[entries[2] + 42:entries[2] + 46] = data[entries[1] + 42:entries[1] + 46]
    with pytest.raises(CheckpointError, match="damaged"):
        loaded(flambeau, bytes(data))


# ----------------------------------------------------------------------------------- what users permit


class Point:
    def __init__(self, x):
        self.x = x


class Slotted:
    __slots__ = ("a",)


class Custom:
    def __setstate__(self, state):
        self.seen = state

    def __getstate__(self):
        return 5


def test_safe_globals_are_permitted_for_a_while():
    data = saved(flambeau, Point(3))
    with pytest.raises(UnsafeGlobalError, match="Point"):
        loaded(flambeau, data)
    with serialization.safe_globals([Point]):
        assert serialization.get_safe_globals() == [Point]
        assert loaded(flambeau, data).x == 3
    assert serialization.get_safe_globals() == []
    serialization.add_safe_globals([Point])
    try:
        assert loaded(flambeau, data).x == 3
    finally:
        serialization.clear_safe_globals()
    with pytest.raises(UnsafeGlobalError):
        loaded(flambeau, data)


def test_slots_and_states_of_permitted_classes():
    s = Slotted()
    s.a = 1
    with serialization.safe_globals([Slotted, Custom]):
        assert loaded(flambeau, saved(flambeau, s)).a == 1
        assert loaded(flambeau, saved(flambeau, Custom())).seen == 5


def test_a_permitted_name_may_differ_from_the_objects():
    data = checkpoint(P + b"cold.place\nPoint\n)\x81}" + text("x") + b"K\x07sb.")
    with serialization.safe_globals([(Point, "old.place.Point")]):
        assert loaded(flambeau, data).x == 7
    with pytest.raises((TypeError, ValueError)):
        serialization.add_safe_globals([3])
    with pytest.raises(ValueError, match="pairs"):
        serialization.add_safe_globals([(Point, 3)])


@pytest.mark.parametrize("writer", [flambeau, torch])
def test_modules_that_users_permit(writer):
    data = saved(writer, writer.nn.Linear(2, 1))
    with pytest.raises(UnsafeGlobalError, match="torch.nn.modules.linear.Linear"):
        loaded(flambeau, data)
    with serialization.safe_globals([flambeau.nn.Linear]):
        assert type(loaded(flambeau, data)) is flambeau.nn.Linear


@pytest.mark.parametrize("writer", [flambeau, torch])
def test_numpy_and_defaultdicts_need_permission(writer):
    value = {"array": np.arange(6).reshape(2, 3), "number": np.float64(2.5), "dict": collections.defaultdict(list, a=[1])}
    data = saved(writer, value)
    with pytest.raises(UnsafeGlobalError, match="numpy"):
        loaded(flambeau, data)
    permitted = [np._core.multiarray._reconstruct, np._core.multiarray.scalar, np.ndarray, np.dtype, type(np.dtype("i8")),
                 type(np.dtype("f8")), collections.defaultdict, list]
    with serialization.safe_globals(permitted):
        r = loaded(flambeau, data)
    assert np.array_equal(r["array"], value["array"]) and r["number"] == 2.5 and r["dict"]["new"] == []


def test_arrays_with_other_lengths_or_objects_are_refused():
    permitted = [np._core.multiarray._reconstruct, np.ndarray, np.dtype, type(np.dtype("i8")), type(np.dtype("O"))]
    huge = saved(torch, np.arange(3))
    start = huge.index(b"K\x03\x85")
    with serialization.safe_globals(permitted):
        archive = _zip.Archive(lambda at, n: huge[at:at + n], len(huge), "the file")
        data = archive.read("data.pkl").replace(b"K\x03\x85", number(10**13) + b"\x85")
        with pytest.raises(CheckpointError, match="array of shape"):
            _load(data)
        with pytest.raises(CheckpointError, match="array of Python objects"):
            loaded(flambeau, saved(torch, np.array([None])))
    assert start > 0


def test_unsafe_globals_are_listed_without_loading(tmp_path):
    flambeau.save({"p": Point(1), "r": range(3), "t": flambeau.ones(1), "o": collections.OrderedDict()}, tmp_path / "a.pt")
    found = serialization.get_unsafe_globals_in_checkpoint(tmp_path / "a.pt")
    assert [name.rpartition(".")[2] for name in found] == ["Point", "range"]
    with serialization.safe_globals([Point]):
        assert serialization.get_unsafe_globals_in_checkpoint(tmp_path / "a.pt") == ["builtins.range"]
    assert serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(checkpoint(GLOBALS["proto 4"]))) == ["posix.system"]
