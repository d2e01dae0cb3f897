"""Paths, open files, devices, mapping, and writing whole or not at all."""

from __future__ import annotations

import io
import os
import pathlib
import stat

import numpy as np
import pytest
import torch

import flambeau
from flambeau.serialization import CheckpointError, EmptyFileError, _zip

from .conftest import loaded, saved


def test_paths_and_pathlike(tmp_path):
    path = tmp_path / "a.pt"
    flambeau.save(flambeau.ones(2), path)
    assert flambeau.load(path).tolist() == flambeau.load(str(path)).tolist() == torch.load(path).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("legacy", [False, True])
def test_files_are_read_from_where_they_stand(tmp_path, legacy):
    data = saved(flambeau, flambeau.arange(3), _use_new_zipfile_serialization=not legacy)
    file = io.BytesIO(b"header" + data)
    file.seek(6)
    assert flambeau.load(file).tolist() == [0, 1, 2]
    (tmp_path / "x").write_bytes(b"header" + data)
    with open(tmp_path / "x", "rb") as opened:
        opened.seek(6)
        assert flambeau.load(opened).tolist() == [0, 1, 2]
        assert not opened.closed
    out = io.BytesIO(b"head")
    out.seek(4)
    flambeau.save(flambeau.ones(1), out)
    out.seek(4)
    assert torch.load(out).tolist() == [1.0]


@pytest.mark.parametrize("zipped", [True, False])
def test_objects_follow_each_other_in_one_stream(zipped):
    for writer in (flambeau, torch):
        file = io.BytesIO()
        for k in range(3):
            writer.save(writer.ones(k + 1), file, _use_new_zipfile_serialization=zipped)
        file.seek(0)
        assert [flambeau.load(file).tolist() for _ in range(3)] == [[1.0], [1.0] * 2, [1.0] * 3]
        with pytest.raises(EOFError, match="Ran out of input"):
            flambeau.load(file)


class _Slow(io.RawIOBase):
    """A file without a buffer, which writes and reads little at a time."""

    def __init__(self):
        self.data = io.BytesIO()

    def write(self, data):
        return self.data.write(bytes(data[:100]))

    def readinto(self, target):
        part = self.data.read(min(len(target), 50))
        target[:len(part)] = part
        return len(part)

    def seek(self, *where):
        return self.data.seek(*where)

    def tell(self):
        return self.data.tell()


def test_files_that_take_a_part_at_a_time():
    file = _Slow()
    flambeau.save({"a": flambeau.arange(500.0)}, file)
    assert torch.load(io.BytesIO(file.data.getvalue()))["a"].sum().item() == flambeau.arange(500.0).sum().item()


def test_wrong_arguments():
    with pytest.raises(AttributeError, match="'write' attribute"):
        flambeau.save(1, 3)
    with pytest.raises(AttributeError, match="'int' object has no attribute 'seek'"):
        flambeau.load(3)
    with pytest.raises(TypeError, match="unexpected keyword argument 'foo'"):
        flambeau.load(io.BytesIO(), foo=1)
    with pytest.raises(TypeError, match="Expected bytes, got str"):
        flambeau.load(io.StringIO("abc"))
    with pytest.raises(FileNotFoundError):
        flambeau.load("/nowhere/at/all.pt")
    with pytest.raises(RuntimeError, match="Parent directory /nowhere does not exist"):
        flambeau.save(1, "/nowhere/x.pt")


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(IsADirectoryError, match="directory"):
        flambeau.save(1, tmp_path)
    with pytest.raises(IsADirectoryError):
        flambeau.load(tmp_path)


# ----------------------------------------------------------------------------------- whole or not at all


class _Unpicklable:
    def __reduce__(self):
        raise ValueError("not me")


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a.pt"
    flambeau.save(flambeau.ones(1), path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="not me"):
        flambeau.save([flambeau.zeros(5), _Unpicklable()], path)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["a.pt"]


def test_an_error_while_writing_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a.pt"
    flambeau.save(flambeau.ones(1), path)
    before = path.read_bytes()

    def full(self):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_zip.ArchiveWriter, "finish", full)
    with pytest.raises(OSError, match="No space left"):
        flambeau.save(flambeau.zeros(5), path)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["a.pt"]


@pytest.mark.skipif(os.name != "posix", reason="permissions and links of POSIX")
def test_permissions_and_links_stay(tmp_path):
    path, link = tmp_path / "a.pt", tmp_path / "link.pt"
    old = os.umask(0o022)
    try:
        flambeau.save(1, path)
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    path.chmod(0o600)
    link.symlink_to(path)
    flambeau.save(2, link)
    assert link.is_symlink() and flambeau.load(path) == 2 and stat.S_IMODE(path.stat().st_mode) == 0o600
    flambeau.save(3, "/dev/null")


def test_a_file_may_be_saved_over_while_it_is_mapped(tmp_path):
    path = tmp_path / "a.pt"
    flambeau.save(flambeau.arange(4.0), path)
    t = flambeau.load(path, mmap=True)
    flambeau.save(t + 1, path)
    assert t.tolist() == [0.0, 1.0, 2.0, 3.0] and flambeau.load(path).tolist() == [1.0, 2.0, 3.0, 4.0]


# ----------------------------------------------------------------------------------- mapping


@pytest.mark.parametrize("writer", [flambeau, torch])
def test_mapping_gives_the_same_and_writes_stay_here(tmp_path, writer):
    path = tmp_path / "a.pt"
    base = writer.arange(6.0)
    writer.save({"a": base, "b": base[2:], "c": writer.ones(3, dtype=writer.bfloat16), "e": writer.empty(0)}, path)
    before = path.read_bytes()
    r = flambeau.load(pathlib.Path(path), mmap=True)
    assert r["b"].tolist() == [2.0, 3.0, 4.0, 5.0] and r["c"].float().tolist() == [1.0] * 3 and r["e"].numel() == 0
    assert r["a"].data_ptr() % 64 == 0 and r["a"].untyped_storage().nbytes() == 24
    r["a"].mul_(2)
    assert r["b"].tolist() == [4.0, 6.0, 8.0, 10.0] and path.read_bytes() == before
    again = loaded(torch, saved(flambeau, r))
    assert again["a"].tolist() == r["a"].tolist() and again["b"].storage_offset() == 2
    assert not r["a"].is_shared()


def test_mapping_needs_a_path_and_the_zip_format(tmp_path):
    with pytest.raises(ValueError, match="f must be a file path in order to use the mmap argument"):
        flambeau.load(io.BytesIO(), mmap=True)
    path = tmp_path / "old.pt"
    flambeau.save(1, path, _use_new_zipfile_serialization=False)
    with pytest.raises(RuntimeError, match="mmap can only be used with files saved with"):
        flambeau.load(path, mmap=True)


# ----------------------------------------------------------------------------------- devices


def _tagged(tag: str) -> bytes:
    """A file whose storage was saved from another device."""
    archive = _zip.Archive(*_reader(saved(torch, torch.arange(2.0))))
    file = io.BytesIO()
    writer = _zip.ArchiveWriter(file.write, "archive")
    for name in archive.members:
        data = archive.read(name)
        if name == "data.pkl":
            data = data.replace(b"X\x03\0\0\0cpu", b"X" + len(tag).to_bytes(4, "little") + tag.encode())
        if name != ".data/serialization_id":
            writer.add(name, data)
    writer.finish()
    return file.getvalue()


def _reader(data):
    return (lambda at, n: data[at:at + n]), len(data), "the file"


@pytest.mark.parametrize("where", ["cpu", flambeau.device("cpu"), {"cuda:0": "cpu"}, lambda storage, location: storage])
def test_storages_of_cuda_come_to_the_cpu_when_asked(where):
    assert loaded(flambeau, _tagged("cuda:0"), map_location=where).tolist() == [0.0, 1.0]


def test_storages_of_devices_that_are_not_here():
    words = "Attempting to deserialize object on a CUDA device .*is_available.. is False"
    for options in ({}, {"map_location": {"cuda:1": "cpu"}}, {"map_location": lambda storage, location: None}):
        with pytest.raises(RuntimeError, match=words):
            loaded(flambeau, _tagged("cuda:0"), **options)
    with pytest.raises(RuntimeError, match="deserialize object on a CUDA device"):
        loaded(flambeau, saved(torch, torch.ones(1)), map_location="cuda")
    with pytest.raises(RuntimeError, match="don't know how to restore data location .*'mps'"):
        loaded(flambeau, _tagged("mps"))
    with pytest.raises(TypeError, match="map_location"):
        loaded(flambeau, saved(torch, torch.ones(1)), map_location=3)
    with pytest.raises(TypeError, match="must return a storage or None, not int"):
        loaded(flambeau, saved(torch, torch.ones(1)), map_location=lambda storage, location: 3)


def test_a_function_sees_each_storage_once():
    seen = []

    def where(storage, location):
        seen.append((storage.nbytes(), location, str(storage.device)))
        return storage

    a = torch.arange(3.0)
    loaded(flambeau, saved(torch, [a, a[1:], torch.ones(1)]), map_location=where)
    assert seen == [(12, "cpu", "cpu"), (4, "cpu", "cpu")]


def test_meta_reads_no_values():
    data = saved(torch, {"a": torch.ones(2, 3).t(), "p": torch.nn.Parameter(torch.ones(1))})
    r = loaded(flambeau, data, map_location="meta")
    assert r["a"].is_meta and tuple(r["a"].shape) == (3, 2) and r["a"].stride() == (1, 3)
    assert r["p"].is_meta and r["p"].requires_grad and type(r["p"]) is flambeau.nn.Parameter


# ----------------------------------------------------------------------------------- damaged files


def _edited(name, change) -> bytes:
    archive = _zip.Archive(*_reader(saved(torch, {"w": torch.arange(4.0)})))
    file = io.BytesIO()
    writer = _zip.ArchiveWriter(file.write, "archive")
    for member in archive.members:
        data = archive.read(member)
        if member == name:
            data = change(data)
        if data is not None and member != ".data/serialization_id":
            writer.add(member, data)
    writer.finish()
    return file.getvalue()


_WHOLE = saved(torch, {"w": torch.arange(4.0)})


@pytest.mark.parametrize("data, words", [
    (b"", "empty"), (b"PK", "truncated at byte 2"), (_WHOLE[:500], "truncated at byte 500.*central directory"),
    (_WHOLE[:-1], "central directory"), (b"hello, world" * 20, "not a zip archive"),
    (b"\0" * 257 + b"ustar" + b"\0" * 100, "tar archive"), (b"<!DOCTYPE html><html>", "web page"),
    (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"), (b"\x80\x04K\x01.", "invalid magic number"),
    (b"\x10\0\0\0\0\0\0\0{}", "safetensors"),
    (_edited("data/0", lambda d: None), "failed locating file data/0"),
    (_edited("data.pkl", lambda d: None), "failed locating file data.pkl"),
    (_edited("data/0", lambda d: d[:-4]), r"record size \(12 bytes\) of data/0 does not match expected size \(16 bytes"),
    (_edited("byteorder", lambda d: b"middle"), "byteorder"),
    (_edited("data.pkl", lambda d: d[:60]), "data.pkl of .* byte .*truncated"),
    (_WHOLE.replace(np.arange(4, dtype="f4").tobytes(), np.ones(4, "f4").tobytes()), "CRC of 'archive/data/0'"),
    (_WHOLE.replace(b"FloatStorage", b"floatStorage"), "CRC of 'archive/data.pkl'"),
])
def test_damage_is_described(data, words):
    for options in ({}, {"weights_only": False}):
        with pytest.raises(CheckpointError, match=words):
            loaded(flambeau, data, **options)


def test_an_empty_file_is_also_an_eoferror(tmp_path):
    with pytest.raises(EmptyFileError, match="Ran out of input"):
        flambeau.load(io.BytesIO())
    assert issubclass(EmptyFileError, EOFError) and issubclass(CheckpointError, RuntimeError)


def test_a_truncated_file_of_the_older_format():
    data = saved(torch, {"w": torch.arange(4.0)}, _use_new_zipfile_serialization=False)
    for n in (15, 40, 200, len(data) - 10, len(data) - 20):
        for options in ({}, {"weights_only": False}):
            with pytest.raises(CheckpointError, match="truncated|damaged"):
                loaded(flambeau, data[:n], **options)


def test_a_compressed_archive_is_refused_with_the_way_out():
    import zipfile

    archive, file = zipfile.ZipFile(io.BytesIO(_WHOLE)), io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as new:
        for name in archive.namelist():
            new.writestr(name, archive.read(name) + b" " * 100)
    with pytest.raises(CheckpointError, match="compressed .*zip -0"):
        loaded(flambeau, file.getvalue())


def test_more_members_than_16_bits_count():
    file = io.BytesIO()
    writer = _zip.ArchiveWriter(file.write, "a")
    for i in range(70_000):
        writer.add(f"data/{i}", b"")
    writer.finish()
    archive = _zip.Archive(*_reader(file.getvalue()))
    assert len(archive.members) == 70_001
