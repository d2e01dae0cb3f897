"""Files go both ways between flambeau and PyTorch, with weights_only=True."""

from __future__ import annotations

import io
import warnings
import zipfile
from collections import Counter, OrderedDict

import numpy as np
import pytest
import torch

import flambeau

from .conftest import loaded, saved

DTYPES = ("bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128").split()


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_keeps_its_values(through, name):
    numbers = [[1, 0, 3], [2, 5, 1]]
    t, lib = through(lambda lib: lib.tensor(numbers).to(getattr(lib, name)))
    assert t.dtype is getattr(lib, name)
    assert t.tolist() == lib.tensor(numbers).to(t.dtype).tolist()
    assert tuple(t.shape) == (2, 3)


def test_views_share_memory_with_their_strides_and_offsets(through):
    def make(lib):
        base = lib.arange(12.0)
        return {"base": base, "matrix": base.view(3, 4), "transposed": base.view(3, 4).t(), "tail": base[5:],
                "step": base[1::3], "one": base[3], "expanded": base[2:3].expand(4)}

    r, lib = through(make)
    want = make(lib)
    assert list(r) == list(want)
    for key, t in want.items():
        assert r[key].stride() == t.stride() and r[key].storage_offset() == t.storage_offset(), key
        assert r[key].tolist() == t.tolist()
    r["base"].fill_(7.0)
    assert r["tail"].tolist() == [7.0] * 7 and r["one"].item() == 7.0 and r["transposed"].sum().item() == 84.0
    assert r["base"].untyped_storage().nbytes() == 48


def test_a_small_view_alone_brings_its_whole_storage(through):
    t, _ = through(lambda lib: lib.arange(100.0)[10:12])
    assert t.tolist() == [10.0, 11.0] and t.storage_offset() == 10 and t.untyped_storage().nbytes() == 400


def test_empty_and_zero_dimensional_tensors(through):
    r, _ = through(lambda lib: [lib.empty(0, 3), lib.empty(2, 0, 4, dtype=lib.int64), lib.tensor(3), lib.arange(3.0)[3:],
                                lib.empty(0)])
    assert [tuple(t.shape) for t in r] == [(0, 3), (2, 0, 4), (), (0,), (0,)]
    assert r[2].item() == 3 and r[0].stride() == (3, 1)


def test_requires_grad_parameters_and_attributes(through):
    def make(lib):
        p = lib.nn.Parameter(lib.ones(2))
        q = lib.nn.Parameter(lib.ones(3), requires_grad=False)
        q.note = [1, "x"]
        t = lib.zeros(2, requires_grad=True)
        u = lib.zeros(1)
        u.tag = {"a": 1}
        return [p, q, t, t * 2, u]

    (p, q, t, computed, u), lib = through(make)
    assert type(p) is lib.nn.Parameter and p.requires_grad and type(q) is lib.nn.Parameter and not q.requires_grad
    assert q.note == [1, "x"] and u.tag == {"a": 1}
    assert t.requires_grad and t.is_leaf and computed.requires_grad and computed.is_leaf
    assert type(t) is lib.Tensor


def test_the_same_tensor_twice_is_one_tensor(through):
    r, _ = through(lambda lib: (lambda t: {"a": t, "b": t, "c": [t]})(lib.ones(2)))
    assert r["a"] is r["b"] is r["c"][0]


def test_containers_numbers_and_names(through):
    def make(lib):
        shared = [1, 2]
        return {
            "tuple": (1, "é", None, True), 3: 2.5, "nested": [{"x": [shared, shared]}], "complex": 1 + 2j, "set": {1, 2, 3},
            "bytes": b"\x00\xff", "array": bytearray(b"ab"), "big": [2**31, -2**31, 2**40, -10**30, 10**100],
            "long": "x" * 300, "size": lib.Size([2, 3]), "device": lib.device("cpu"), "dtype": lib.bfloat16,
            "layout": lib.strided,
            "ordered": OrderedDict(b=1, a=2), "counter": Counter("aab"), "": {}, "empty": [(), [], set()],
            "keys": {(1, "a"): 1, 1.5: 2, None: 3},
        }

    r, lib = through(make)
    want = make(lib)
    assert r == want and repr(r) == repr(want)
    assert {k: type(v) for k, v in r.items()} == {k: type(v) for k, v in want.items()}
    assert r["nested"][0]["x"][0] is r["nested"][0]["x"][1]


def test_recursive_containers(through):
    def make(lib):
        a: list = [1]
        a.append(a)
        return a

    r, _ = through(make)
    assert r[1] is r


def test_meta_tensors(through):
    t, lib = through(lambda lib: lib.empty(2, 3, device="meta", dtype=lib.float64))
    assert t.is_meta and t.dtype is lib.float64 and tuple(t.shape) == (2, 3)


def test_module_state_dict_with_metadata(through):
    def make(lib):
        lib.manual_seed(0)
        net = lib.nn.Sequential(lib.nn.Linear(3, 2), lib.nn.BatchNorm1d(2))
        return net.state_dict()

    r, lib = through(make)
    want = make(lib)
    assert type(r) is OrderedDict and list(r) == list(want)
    assert all(r[k].tolist() == want[k].tolist() and r[k].dtype == want[k].dtype for k in want)
    assert r._metadata == want._metadata
    lib.nn.Sequential(lib.nn.Linear(3, 2), lib.nn.BatchNorm1d(2)).load_state_dict(r)


def test_optimizer_scheduler_and_generator_states_continue_a_run(through):
    def parts(lib):
        lib.manual_seed(1)
        net = lib.nn.Linear(3, 1)
        opt = lib.optim.Adam(net.parameters(), lr=0.1)
        return net, opt, lib.optim.lr_scheduler.StepLR(opt, 2, 0.5)

    def train(lib, net, opt, sched, n):
        for _ in range(n):
            opt.zero_grad()
            net(lib.randn(4, 3)).pow(2).mean().backward()
            opt.step()
            sched.step()

    def make(lib):
        net, opt, sched = parts(lib)
        train(lib, net, opt, sched, 3)
        return {"net": net.state_dict(), "opt": opt.state_dict(), "sched": sched.state_dict(), "rng": lib.get_rng_state()}

    ck, lib = through(make)
    net, opt, sched = parts(lib)
    net.load_state_dict(ck["net"])
    opt.load_state_dict(ck["opt"])
    sched.load_state_dict(ck["sched"])
    lib.set_rng_state(ck["rng"])
    train(lib, net, opt, sched, 3)
    whole = parts(lib)
    train(lib, *whole, 6)
    for a, b in zip(net.parameters(), whole[0].parameters(), strict=True):
        assert np.allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("mapped", [False, True])
def test_storages_are_read_before_the_file_is_closed(tmp_path, mapped):
    flambeau.save([flambeau.arange(3.0).untyped_storage(), flambeau.zeros(0)], tmp_path / "a.pt")
    r = flambeau.load(tmp_path / "a.pt", mmap=mapped)
    assert flambeau.tensor([]).set_(r[0]).tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("writer", [flambeau, torch])
def test_storages_themselves(writer):
    # PyTorch reads its own as a TypedStorage of bytes, and not at all in the older format
    r = loaded(flambeau, saved(writer, writer.arange(3.0).untyped_storage()))
    assert isinstance(r, flambeau.UntypedStorage)
    assert r.nbytes() == 12 and flambeau.tensor([]).set_(r).tolist() == [0.0, 1.0, 2.0]


def test_conjugated_and_negated_tensors_of_pytorch_are_resolved():
    t = torch.tensor([1 + 2j, 3 - 1j])
    for view in (t.conj(), t.conj().imag):
        assert view.is_conj() or view.is_neg()
        assert loaded(flambeau, saved(torch, view)).tolist() == view.tolist()
        older = saved(torch, [view, view], _use_new_zipfile_serialization=False)       # the bytes come after the object
        assert [x.tolist() for x in loaded(flambeau, older)] == [view.tolist()] * 2


def test_whole_modules_of_the_older_format():
    """Its pickles name a container's class together with its source."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ModuleList([torch.nn.Tanh()]), torch.nn.LSTM(3, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        older = saved(torch, net, _use_new_zipfile_serialization=False)
    again = loaded(flambeau, older, weights_only=False)
    assert str(again) == str(net)
    assert {k: v.tolist() for k, v in again.state_dict().items()} == {k: v.tolist() for k, v in net.state_dict().items()}


def test_members_are_those_of_pytorch_and_lie_at_multiples_of_64(tmp_path):
    for lib in (flambeau, torch):
        lib.save({"a": lib.ones(3), "b": lib.ones(5)}, tmp_path / f"{lib.__name__}.x.pt")
    mine, theirs = (zipfile.ZipFile(tmp_path / f"{name}.x.pt") for name in ("flambeau", "torch"))
    assert mine.testzip() is None
    assert [n.partition("/")[2] for n in mine.namelist()] == [n.partition("/")[2] for n in theirs.namelist()]
    assert mine.read("flambeau.x/data.pkl") == theirs.read("torch.x/data.pkl")
    raw = (tmp_path / "flambeau.x.pt").read_bytes()
    for info in mine.infolist():
        n_name = int.from_bytes(raw[info.header_offset + 26:info.header_offset + 28], "little")
        n_extra = int.from_bytes(raw[info.header_offset + 28:info.header_offset + 30], "little")
        assert (info.header_offset + 30 + n_name + n_extra) % 64 == 0
    mine.close()
    theirs.close()


def test_the_same_object_gives_the_same_bytes():
    assert saved(flambeau, {"a": flambeau.ones(3)}) == saved(flambeau, {"a": flambeau.ones(3)})


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_protocols(protocol):
    obj = {"a": flambeau.arange(3), "b": b"bytes", "c": bytearray(b"x"), "d": flambeau.float16, "e": {1},
           "f": [flambeau.Size([1])]}
    data = saved(flambeau, obj, pickle_protocol=protocol)
    r = loaded(flambeau, data)
    assert repr(r) == repr(obj)
    assert repr(loaded(torch, data, weights_only=False)) == repr(obj)


def test_pytorch_files_without_checksums_load():
    torch.serialization.set_crc32_options(False)
    try:
        data = saved(torch, {"a": torch.arange(3)})
    finally:
        torch.serialization.set_crc32_options(True)
    assert loaded(flambeau, data)["a"].tolist() == [0, 1, 2]


def test_big_endian_files_are_read():
    def member(archive, name):
        data = archive.read(name)
        if name.endswith("data/0"):
            return np.frombuffer(data, "<f4").astype(">f4").tobytes()
        if name.endswith("data/1"):
            return np.frombuffer(data, "<c8").astype(">c8").tobytes()
        return b"big" if name.endswith("byteorder") else data

    archive = zipfile.ZipFile(io.BytesIO(saved(torch, [torch.arange(3.0), torch.tensor([1 + 2j])])))
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as new:
        for name in archive.namelist():
            new.writestr(name, member(archive, name))
    r = loaded(flambeau, file.getvalue())
    assert r[0].tolist() == [0.0, 1.0, 2.0] and r[1].tolist() == [1 + 2j]


def test_one_storage_seen_as_two_dtypes_is_refused():
    a = flambeau.zeros(2)
    with pytest.raises(RuntimeError, match="view the same data as different types"):
        saved(flambeau, [a, a.view(flambeau.int32)])


def test_memory_of_numpy_that_runs_backwards_is_stored_by_itself():
    a = np.arange(6, dtype=np.float32)
    t = flambeau.from_numpy(a[::2])
    assert loaded(torch, saved(flambeau, t)).tolist() == [0.0, 2.0, 4.0]


@pytest.mark.parametrize("dtype", ["uint16", "uint32", "uint64"])
def test_wide_unsigned_integers_go_both_ways(dtype):
    for source, target in ((torch, flambeau), (flambeau, torch), (flambeau, flambeau)):
        t = source.tensor([1, 2, 60000], dtype=getattr(source, dtype))
        back = loaded(target, saved(source, t[1:]))
        assert back.tolist() == [2, 60000] and str(back.dtype) == f"torch.{dtype}"


@pytest.mark.parametrize("what, make", [
    ("quantized", lambda: torch.quantize_per_tensor(torch.ones(2), 1.0, 0, torch.qint8)),
    ("float8_e4m3fn", lambda: torch.zeros(2).to(torch.float8_e4m3fn)),
])
@pytest.mark.filterwarnings("ignore")
def test_what_flambeau_lacks_is_named(what, make):
    with pytest.raises(NotImplementedError, match=what):
        loaded(flambeau, saved(torch, make()))


def test_loaded_tensors_own_their_memory():
    t = loaded(flambeau, saved(torch, torch.ones(2, 3)))
    assert t._array.base is None and t._array.flags.writeable and t._array.flags.aligned
